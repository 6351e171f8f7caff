"""Python's syntax trees of our text forms, one at a time."""

from __future__ import annotations

import ast
import textwrap
import warnings
from threading import RLock

_ONE_AT_A_TIME = RLock()
"""CPython counts how deep a tree is in one place for all threads: where the garbage collector lets
another thread parse meanwhile, it refuses a good text with a SystemError.
"""


def expression_tree(text: str) -> ast.expr:
    """The tree of one expression, blanks around it allowed.

    Raises SyntaxError, ValueError, RecursionError or MemoryError, as `ast.parse` does.

    >>> ast.dump(expression_tree(" n "))
    "Name(id='n', ctx=Load())"
    """
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of texts that are refused right after
        return ast.parse(text.strip(), mode="eval").body


def module_tree(text: str) -> ast.Module:
    """The tree of statements, which may be indented as a whole; raises as `expression_tree`."""
    with _ONE_AT_A_TIME:
        return ast.parse(textwrap.dedent(text))
