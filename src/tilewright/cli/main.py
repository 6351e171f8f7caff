"""The entry point of the `tilewright` program; interrupts are handled from the first import on."""

import atexit
import gc
import os

from tilewright.common.interrupts import interruptible, no_interrupt_lost, writable_output

_OBJECTS_BETWEEN_COLLECTIONS = (5_000_000, 20, 20)
"""Modules, programs and candidates are many and long-lived: collecting cycles among them at
Python's default rate took 5 to 15 % of a command's time.
"""

gc.set_threshold(*_OBJECTS_BETWEEN_COLLECTIONS)
# Read when numpy is imported: its threads would otherwise spin for milliseconds after each product
# and take cores from busy processes and threads.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
with interruptible():
    from tilewright.cli.commands import app

__all__ = ["app", "app_main"]


def app_main() -> None:
    """Run the command line of this process."""
    atexit.register(gc.freeze)  # skips a last collection at exit
    with interruptible(), no_interrupt_lost(), writable_output():
        app()
