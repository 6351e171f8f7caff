"""The entry point of the `tilewright` program: an interrupt is told from the first import on."""

import atexit
import gc
import os

from tilewright.common.interrupts import interruptible, no_interrupt_lost, writable_output

_OBJECTS_BETWEEN_COLLECTIONS = (5_000_000, 20, 20)
"""Modules, programs and candidates are many and last: looking for cycles among them at Python's
usual pace took 5 to 15 % of a command's time.
"""

gc.set_threshold(*_OBJECTS_BETWEEN_COLLECTIONS)
# Read when numpy is imported: its threads otherwise keep the cores busy for milliseconds after each
# product, beside processes and threads that have work.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
with interruptible():
    from tilewright.cli.commands import app

__all__ = ["app", "app_main"]


def app_main() -> None:
    """Run the command line of this process."""
    atexit.register(gc.freeze)  # what ends with the process is not searched for cycles again
    with interruptible(), no_interrupt_lost(), writable_output():
        app()
