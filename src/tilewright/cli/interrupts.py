"""Ctrl-C at any moment, and a standard output that cannot be written, end with one message and the
exit code that a shell expects.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

INTERRUPTED = 130
"""128 and the number of the signal."""
STANDARD_OUTPUT = "standard output"
"""What errors of writing there name in place of a file."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn an interrupt into a message and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def writable_output() -> Iterator[None]:
    """Turn an error of standard output into a message and an exit code: none where its reader has
    left. Streams that are closed go nowhere, so that no file gets their numbers.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    try:
        yield
    except OSError as error:
        if error.filename not in (None, STANDARD_OUTPUT):
            raise
        # What is left in the buffer would fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            with suppress(OSError):
                sys.stderr.write(f"error: {STANDARD_OUTPUT}: {error.strerror}\n")
        raise SystemExit(1) from None
