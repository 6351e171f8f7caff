"""The syntax of a line: the marks of a dialect and a table's registers in, a Lark grammar out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

from tilewright.asm.text.templates import Template, table_templates
from tilewright.isa import Dialect, InstructionTable


@dataclass(frozen=True)
class Syntax:
    """Syntax of lines: the dialect, each register file's prefix and aliases (`registers`), and the
    instructions that are written as statements (`templates`).
    """

    dialect: Dialect
    registers: tuple[tuple[str, tuple[str, ...]], ...]
    templates: tuple[Template, ...] = ()

    @cached_property
    def register_pattern(self) -> str:
        """A regular expression for what is meant as a register.

        After a mark such as $ any word is meant as one; a bare word only with digits behind a
        prefix, or as an alias.
        """
        choices: dict[str, None] = {}
        for prefix, aliases in self.registers:
            if prefix[0] in "$%":
                choices[f"{re.escape(prefix[0])}[A-Za-z0-9_]+"] = None
            else:
                names = "|".join(f"{prefix}{re.escape(alias)}" for alias in aliases)
                words = f"{prefix}[0-9]+|{names}" if names else f"{prefix}[0-9]+"
                choices[f"(?:{words})(?![A-Za-z0-9_.])"] = None
        return "|".join(choices)

    @property
    def comment_pattern(self) -> str:
        """A regular expression for a comment."""
        return f"(?:{'|'.join(map(re.escape, self.dialect.comments))}).*"


def syntax_of(table: InstructionTable) -> Syntax:
    """The syntax of a table's lines."""
    files = tuple((file.prefix, tuple(file.aliases)) for file in table.register_files)
    return Syntax(table.dialect, files, table_templates(table))


def line_grammar(syntax: Syntax) -> str:
    """The Lark grammar of a line: `line.lark` and what dialects spell differently."""
    common = (resources.files("tilewright.asm.text") / "line.lark").read_text(encoding="utf-8")
    dialect, registers = syntax.dialect, syntax.register_pattern
    comments = syntax.comment_pattern.replace("/", "\\/")
    rules = [common, f"REGISTER.2: /{registers}/", f"COMMENT.9: /{comments}/", "%ignore COMMENT"]
    if dialect.immediate:
        rules += [
            f'IMMEDIATE.3: "{dialect.immediate}"',
            "immediate: IMMEDIATE expression",
            "%extend _operand: immediate",
        ]
    style = dialect.memory_style
    opening, closing = f'"{style.opening}"', f'"{style.closing}"'
    match style.separator:
        case "":
            rules.append(f"memory: [expression] {opening} register {closing}")
        case "+":
            rules.append(f"memory: {opening} register [signed] {closing}")
            rules.append(
                "?signed: (PLUS | MINUS) product | signed (PLUS | MINUS) product -> binary"
            )
        case separator:
            mark = "IMMEDIATE" * bool(style.mark)
            rules.append(f'memory: {opening} register ["{separator}" {mark} expression] {closing}')
    return "\n".join(rules) + "\n"
