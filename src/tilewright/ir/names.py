"""Valid names in the IR: the one gate between names from outside and generated text.

Names of programs, parameters, tensors, dimensions, buffers, loop variables, primitives and
attributes end up in generated source and in file names, so the printer, the parser and the verifier
all let only these through.
"""

from __future__ import annotations

import keyword

from tilewright.common.errors import ProgramError

STATEMENT_WORDS = ("get", "put", "wait", "barrier")


def is_name(name: str) -> bool:
    """True if `name` is an ASCII identifier and no Python keyword.

    >>> is_name("x_tile"), is_name("x tile"), is_name("for")
    (True, False, False)
    """
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def check_name(what: str, name: str, *, where: str = "") -> str:
    """Return `name`; raise ProgramError, calling it a `what`, when it may not be used."""
    if is_name(name):
        return name
    raise ProgramError(
        f"{what} {name[:40]!r} is not an identifier",
        where=where,
        fix="use ASCII letters, digits and underscores, no leading digit and no Python keyword",
    )
