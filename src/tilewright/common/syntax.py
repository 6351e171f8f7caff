"""Python syntax trees of text forms, parsed one at a time."""

from __future__ import annotations

import ast
import textwrap
import warnings
from threading import RLock

_ONE_AT_A_TIME = RLock()
"""Lock for parsing. CPython counts a tree's depth in one variable for all threads: if the garbage
collector lets another thread parse meanwhile, valid text fails with a SystemError.
"""


def expression_tree(text: str) -> ast.expr:
    """The tree of one expression, which may be surrounded by blanks.

    Raises SyntaxError, ValueError, RecursionError or MemoryError, as `ast.parse` does.

    >>> ast.dump(expression_tree(" n "))
    "Name(id='n', ctx=Load())"
    """
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # such texts are refused afterwards
        return ast.parse(text.strip(), mode="eval").body


def module_tree(text: str) -> ast.Module:
    """The tree of statements, possibly indented as a whole; raises as `expression_tree` does."""
    with _ONE_AT_A_TIME:
        return ast.parse(textwrap.dedent(text))
