"""Ctrl-C at any moment ends with one message and the exit code that a shell expects."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""128 and the number of the signal."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn an interrupt into a message and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None
