"""Names that are safe in paths and generated code, made from any text a file may hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Container
from itertools import chain, count

LONGEST = 40

_UNSAFE = re.compile(r"[^a-z0-9]+")


def safe_name(text: str, taken: Collection[str] = ()) -> str:
    """A name of 1 to 40 characters out of a-z, 0-9 and _, starting with a letter, not in `taken`.

    >>> safe_name("features/Conv.3"), safe_name("../../etc/passwd"), safe_name("3x3")
    ('features_conv_3', 'etc_passwd', 'n3x3')
    >>> safe_name("conv", taken={"conv", "conv_2"})
    'conv_3'
    """
    words = _UNSAFE.sub("_", text[: 4 * LONGEST].lower()).strip("_") or "unnamed"
    base = (words if words[0].isalpha() else f"n{words}")[:LONGEST].rstrip("_")
    name, number = base, 1
    while name in taken:
        number += 1
        suffix = f"_{number}"
        name = base[: LONGEST - len(suffix)] + suffix
    return name


def unused(name: str, *taken: Container[str]) -> str:
    """`name`, with the least number from 2 on appended if it is in any of `taken`.

    >>> unused("Conv.3", {"Conv.3", "Conv.3_2"})
    'Conv.3_3'
    """
    names = chain((name,), (f"{name}_{number}" for number in count(2)))
    return next(n for n in names if not any(n in own for own in taken))


def fresh(name: str, taken: set[str]) -> str:
    """An unused name that begins with `name`; it is added to `taken`."""
    found = unused(name, taken)
    taken.add(found)
    return found


def quoted(text: object) -> str:
    """`text` for a message: its `repr`, which escapes control characters, cut to fit a line.

    >>> quoted("a" * 99)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."
    """
    shown = repr(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."
