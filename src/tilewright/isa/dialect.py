"""Assembler dialects: how the assembly text of an instruction table is spelled.

In: the `[dialect]` of a table's TOML file. Out: a frozen `Dialect`, which supplies every mark to
the parser, the printer, the section directives and the messages. Register files define the spelling
of registers (`RegisterFile.prefix`). Labels, expressions, directives and macros do not depend on
the dialect. The default is the style of GNU `as`.
"""

from __future__ import annotations

import re
from functools import cached_property

import msgspec

from tilewright.common.errors import MachineError

_MARK = re.compile(r"[!#$%&*+/;<=>?@^|~-]{1,4}")
_DIRECTIVE = re.compile(r"\.[A-Za-z_][A-Za-z0-9_]*")
_FLAGS = "awx"
# Characters that every dialect's expressions and operands use, so that no mark may.
_TAKEN = ("!", "%", "&", "*", "+", "-", "/", "<", "=", ">", "^", "|", "~", "@", "&&", "||", "<<",
          ">>", "==", "!=", "<=", ">=")  # fmt: skip
_BASE_LAST = re.compile(r"\{displacement\}(?P<open>[(\[])\{base\}(?P<close>[)\]])")
_BASE_FIRST = re.compile(
    r"(?P<open>[(\[])\{base\}(?P<separator>\+|, ?(?P<mark>[^ {]*))\{displacement\}(?P<close>[)\]])"
)


class SectionStyle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section with its own directive.

    `flags` are as in `.section`: "a" allocated, "w" writable, "x" code. With `nobits`, it holds no
    bytes in the object. `memory` is the local memory of its data, "" for the first.
    """

    name: str
    flags: str
    nobits: bool = False
    memory: str = ""


GNU_SECTIONS = (
    SectionStyle(".text", "ax"),
    SectionStyle(".data", "aw"),
    SectionStyle(".rodata", "a"),
    SectionStyle(".bss", "aw", nobits=True),
)


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The marks of an assembly text.

    `comments` begin a comment that ends with the line. `immediate` precedes the number of an
    immediate operand, "" for no mark. `memory` is the form of a memory operand, with the parts
    `{base}` and `{displacement}`. `sections` have directives of their own; a source starts in the
    first one with code. Mnemonics and directives are lower case, or any case if the dialect
    `ignores_case`.
    """

    comments: tuple[str, ...] = ("#", "//")
    immediate: str = ""
    memory: str = "{displacement}({base})"
    sections: tuple[SectionStyle, ...] = GNU_SECTIONS
    ignores_case: bool = False

    @cached_property
    def code_section(self) -> str:
        """The section that a source starts in: the first executable one."""
        return next(section.name for section in self.sections if "x" in section.flags)

    @cached_property
    def data_section(self) -> str:
        """The first section for data, as a suggestion in messages."""
        named = (s.name for s in self.sections if "x" not in s.flags and not s.nobits)
        return next(named, ".section")

    @cached_property
    def section_styles(self) -> dict[str, SectionStyle]:
        """The sections by name."""
        return {section.name: section for section in self.sections}

    def section_style(self, name: str) -> SectionStyle:
        """A section's style: its own, its stem's (`.text` for `.text.hot`), or the data style."""
        stems = (s for s in self.sections if name == s.name or name.startswith(f"{s.name}."))
        return next(stems, SectionStyle(name, "aw"))

    @cached_property
    def memory_style(self) -> MemoryStyle:
        """The parts of `memory`. Errors: MachineError if it has another form."""
        last, first = _BASE_LAST.fullmatch(self.memory), _BASE_FIRST.fullmatch(self.memory)
        match = last or first
        if match is None or match["open"] + match["close"] not in ("()", "[]"):
            raise MachineError(
                f"dialect: memory operand '{self.memory}' is not understood",
                fix='write it as "{displacement}({base})", "[{base}+{displacement}]" or '
                '"[{base}, {displacement}]"',
            )
        mark = (first["mark"] or "") if first else ""
        if mark not in ("", self.immediate):
            raise MachineError(
                f"dialect: memory operand '{self.memory}' marks its displacement with "
                f"'{mark}', which is not the mark of immediates",
                fix=f"write {self.immediate} there" if self.immediate else "remove it",
            )
        return MemoryStyle(
            opening=match["open"],
            closing=match["close"],
            separator=first["separator"][0] if first else "",
            mark=mark,
        )

    @property
    def brackets(self) -> str:
        """The brackets that protect commas: the opening ones, then the closing ones."""
        return "([)]" if self.memory_style.opening == "[" else "()"

    def memory_text(self, displacement: object, base: str) -> str:
        """A memory operand as text; a negative displacement replaces the plus of a sum."""
        text = str(displacement)
        if self.memory_style.separator == "+" and text.startswith("-"):
            return self.memory.replace("+{displacement}", text).format(base=base)
        return self.memory.format(displacement=text, base=base)


class MemoryStyle(msgspec.Struct, frozen=True):
    """A memory operand in parts: `opening base separator mark displacement closing`, or
    `displacement opening base closing` without a separator.
    """

    opening: str
    closing: str
    separator: str
    mark: str


def check_dialect(dialect: Dialect) -> None:
    """Refuse ambiguous marks, and a lack of sections for code. Errors: MachineError."""
    if "" in dialect.comments or not dialect.comments:
        raise _refusal("needs at least one mark for comments", 'write comments = ["#"]')
    for what, marks in (
        ("comment", dialect.comments),
        ("immediate", (dialect.immediate,) if dialect.immediate else ()),
    ):
        for mark in marks:
            if not _MARK.fullmatch(mark):
                raise _refusal(f"{what} mark '{mark}' is no mark", "use one such as ; or #")
            if mark in _TAKEN:
                raise _refusal(f"{what} mark '{mark}' has a meaning in operands", "use ;")
    for mark in dialect.comments:
        immediate = dialect.immediate
        if immediate and (mark.startswith(immediate) or immediate.startswith(mark)):
            raise _refusal(
                f"comment mark '{mark}' and immediate mark '{immediate}' begin alike",
                "choose another mark for one of them",
            )
    _ = dialect.memory_style
    _check_sections(dialect)


def _check_sections(dialect: Dialect) -> None:
    names = [section.name for section in dialect.sections]
    for section in dialect.sections:
        if not _DIRECTIVE.fullmatch(section.name):
            raise _refusal(f"section '{section.name}' has no name of a directive", "write .name")
        if names.count(section.name) > 1:
            raise _refusal(f"section {section.name} is listed twice", "remove one")
        if set(section.flags) - set(_FLAGS):
            raise _refusal(
                f'section {section.name}: flags "{section.flags}" are not made of a, w, x',
                'write "ax" for code, "aw" for data',
            )
    if not any("x" in section.flags and not section.nobits for section in dialect.sections):
        raise _refusal("has no section for code", 'give one the flags "ax"')


def _refusal(message: str, fix: str) -> MachineError:
    return MachineError(f"dialect: {message}", fix=fix)
