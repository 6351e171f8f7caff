"""Clean ends for Ctrl-C at any moment and for an unwritable standard output: one message, and the
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
"""Exit code: 128 plus the number of the signal."""
_AGAIN_SECONDS = 0.05
"""Delay until a swallowed interrupt is raised again; if the callback still runs, it is repeated."""
STANDARD_OUTPUT = "standard output"
"""The file name in errors of writing to standard output."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Context that turns an interrupt into a message and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def no_interrupt_lost() -> Iterator[None]:
    """Context that raises an interrupt again if it was swallowed by code that ignores exceptions,
    such as a callback of an extension.
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
    """Context that turns an error of standard output into a message and an exit code, without a
    message if its reader has left. Closed streams are replaced by the null device, so that no file
    gets their descriptors.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    try:
        yield
    except OSError as error:
        if error.filename not in (None, STANDARD_OUTPUT):
            raise
        # Flushing the remaining buffer at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            with suppress(OSError):
                sys.stderr.write(f"error: {STANDARD_OUTPUT}: {error.strerror}\n")
        raise SystemExit(1) from None
