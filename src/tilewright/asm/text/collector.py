"""A pause of the garbage collector while a source is assembled.

A large source is millions of values that all stay until the object is made, and none of them refers
back to another: each search for cycles walks through all of them and finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without collections inside; a collector that was off before stays off."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
