"""A small writer of readable C: indentation, blocks, comments, identifiers.

Names from a program reach the C text only through `Names` or `comment_text`, so no input file can
inject text into generated source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tilewright.common.dtypes import BF16

_NOT_WORD = re.compile(r"[^A-Za-z0-9_]+")
_RESERVED = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register",
    "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
    "union", "unsigned", "void", "volatile", "while", "asm", "typeof", "fortran", "NULL", "main",
    "malloc", "free", "memset", "memcpy", "posix_memalign", "unix", "linux", "rid", "cid", "core",
    "parameters", "slot", "count", "argument", "region", "block", "blocks", "offset", "y_stride",
    "x_stride", "new_shape", "old_shape",
))  # fmt: skip
"""Words reserved by C and by the generated code itself."""
_GENERATED = re.compile(r"(?i)(tw|spm|simd|athread)_|block\d+$|_")
_LONGEST_NAME = 48


_BF16 = "bf16.h"
"""The type `tw_bf16` and its conversions, for C compilers that lack it."""


@cache
def library_text(name: str) -> str:
    """C text included in generated code, from a file beside this module."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def identifier(name: str, reserved: frozenset[str] = frozenset()) -> str:
    """A C identifier from the letters, digits and underscores of `name`; `reserved` words and words
    of C get an underscore.

    >>> identifier("conv-1/x"), identifier("3x3"), identifier("int"), identifier("tw_x")
    ('conv_1_x', 'n3x3', 'int_', 'n_tw_x')
    """
    word = _NOT_WORD.sub("_", name)[:_LONGEST_NAME].strip("_") or "n"
    if word[0].isdigit():
        word = f"n{word}"
    if _GENERATED.match(word):
        return f"n_{word}"
    return f"{word}_" if word in _RESERVED | reserved else word


class Names:
    """Unique identifiers: two names never share one, and a name always gets the same one."""

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._reserved = reserved
        self._given: dict[tuple[str, str], str] = {}
        self._taken = {*reserved}

    def of(self, kind: str, name: str, suffixes: tuple[str, ...] = ("",)) -> str:
        """The identifier of `name` among names of this `kind`, unique with each suffix appended."""
        if (kind, name) not in self._given:
            word, number = identifier(name, self._reserved), 1
            while self._taken & {word + suffix for suffix in suffixes}:
                number += 1
                word = f"{identifier(name)}_{number}"
            self._taken |= {word + suffix for suffix in suffixes} | {word}
            self._given[kind, name] = word
        return self._given[kind, name]


def comment_text(text: str) -> str:
    """`text` made safe for a comment: printable ASCII on one line that cannot end the comment."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
    return text.replace("*/", "* /").replace("/*", "/ *")


class CWriter:
    """Collects lines at the current indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Add one line of code."""
        self._lines.append(f"{'    ' * self._depth}{text}" if text else "")

    def lines(self, text: str) -> None:
        """Add several lines, each at the current indentation."""
        for line in text.splitlines():
            self.line(line)

    def comment(self, text: str) -> None:
        """Add a comment on its own lines, wrapped at 100 columns."""
        room = 100 - 4 * self._depth - 6
        words = comment_text(text).split(" ")
        rows = [""]
        for word in words:
            if rows[-1] and len(rows[-1]) + 1 + len(word) > room:
                rows.append(word)
            else:
                rows[-1] = f"{rows[-1]} {word}" if rows[-1] else word
        for number, row in enumerate(rows):
            start = "/* " if number == 0 else "   "
            self.line(f"{start}{row}{' */' if number == len(rows) - 1 else ''}")

    @contextmanager
    def header(self, guard: str, kinds: Iterable[str] = ()) -> Iterator[None]:
        """Write a header with a guard, and what C lacks of the element types `kinds`."""
        self.lines(f"#ifndef {guard}\n#define {guard}")
        self.line()
        if BF16.name in kinds:
            self.lines(library_text(_BF16).removesuffix("\n"))
            self.line()
        yield
        self.line()
        self.line("#endif")

    def call(self, function: str, arguments: list[str]) -> None:
        """Add a call statement, broken between arguments if one line would be too long."""
        self._broken(f"{function}(", arguments, ");")

    def head(self, function: str, parameters: list[str]) -> None:
        """Add the head of a function definition, broken as `call` does."""
        self._broken(f"{function}(", parameters, ")")

    def array(self, declaration: str, values: list[str]) -> None:
        """Add the declaration of an initialised array, broken as `call` does."""
        self._broken(f"{declaration} = {{", values, "};")

    def _broken(self, head: str, items: list[str], tail: str) -> None:
        room = 100 - 4 * self._depth
        row = head
        for number, item in enumerate(items):
            piece = item + (tail if number == len(items) - 1 else ",")
            if len(row) + 1 + len(piece) > room:
                self.line(row)
                row = " " * 8 + piece
            else:
                row += piece if row == head else f" {piece}"
        self.line(row)

    @contextmanager
    def block(self, head: str = "", tail: str = "}") -> Iterator[None]:
        """Write a block: braces after `head` around the lines written inside, closed by `tail`."""
        self.line(f"{head} {{" if head else "{")
        with self.indented(tail):
            yield

    @contextmanager
    def indented(self, tail: str) -> Iterator[None]:
        """Indent the lines written inside, then write `tail`."""
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Indent the lines written inside, without braces."""
        self._depth += 1
        yield
        self._depth -= 1

    def guarded(self, condition: str, statement: str) -> None:
        """Add a statement executed if the condition holds."""
        self.line(f"if ({condition})")
        with self.deeper():
            self.line(statement)

    @contextmanager
    def flat(self) -> Iterator[None]:
        """Keep the lines written inside at the current depth, without a block."""
        yield

    def text(self) -> str:
        """All lines, ending with a newline."""
        return "\n".join(self._lines) + "\n"
