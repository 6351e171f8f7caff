"""Pygments lexers of assembly sources, for editors, terminals and documents.

Each knows the marks of its dialect but no mnemonics: the first word of a statement counts as one.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
)

Rule = tuple[Any, ...]

_NAME = r"[A-Za-z_.][\w.]*"
STATEMENTS: list[Rule] = [
    (r"\s+", Whitespace),
    (rf"({_NAME}|[0-9]+)(\s*)(:)", bygroups(Name.Label, Whitespace, Punctuation)),
    (rf"({_NAME})(\s*)(=)", bygroups(Name.Variable, Whitespace, Operator)),
    (r"\.[A-Za-z]\w*", Keyword.Pseudo, "operands"),
    (_NAME, Name.Function, "operands"),
    (r".", Text, "operands"),
]
OPERANDS: list[Rule] = [
    (r"\n", Whitespace, "#pop"),
    (r"[^\S\n]+", Whitespace),
    (r"[$%][\w]+", Name.Variable.Global),
    (r"\\[@()\w]+", Name.Variable.Magic),
    (r'"(?:\\.|[^"\\\n])*"', String),
    (r"'(?:\\.|[^'\\\n])+'", String.Char),
    (r"0[xX][0-9A-Fa-f]+|0[bB][01]+|0[oO][0-7]+", Number),
    (r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?", Number.Float),
    (r"[0-9]+[bf]\b", Name.Label),
    (r"[0-9]+", Number.Integer),
    (_NAME, Name),
    (r"[-+*/%<>=!&|^~#@]", Operator),
    (r"[(),\[\]:;]", Punctuation),
    (r".", Text),
]


def rules(comment: str, *statements: Rule) -> dict[str, list[Rule]]:
    """The states of a lexer, from a dialect's comments and further rules for statements."""
    return {
        "root": [(comment, Comment.Single), *statements, *STATEMENTS],
        "operands": [(comment, Comment.Single), *OPERANDS],
    }


class AssemblyLexer(RegexLexer):
    """Assembly in the style of GNU as: the CPE of the SW26010 and tables without a dialect."""

    name = "tilewright assembly"
    aliases: ClassVar[list[str]] = ["tilewright-asm"]
    filenames: ClassVar[list[str]] = []
    tokens: ClassVar[dict[str, list[Rule]]] = rules(r"(?:#|//)[^\n]*")
