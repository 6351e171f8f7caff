"""Ctrl-C at any moment, and a standard output that cannot be written, end with one message and the
exit code that a shell expects.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

INTERRUPTED = 130
"""128 and the number of the signal."""
_AGAIN_SECONDS = 0.05
"""By then the callback is over; where it is not, the interrupt is lost and raised once more."""
STANDARD_OUTPUT = "standard output"
"""The file name in errors of writing to standard output."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn an interrupt into a message and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def no_interrupt_lost() -> Iterator[None]:
    """Raise an interrupt again where it met something that ignores exceptions, such as a callback
    of an extension.
    """

    def again(ignored: sys.UnraisableHookArgs) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        else:
            tell(ignored)

    tell, sys.unraisablehook = sys.unraisablehook, again
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = tell


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
