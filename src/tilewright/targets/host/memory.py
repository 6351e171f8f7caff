"""Memory that compiled code is given: arrays that begin on pages of their own, their addresses."""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.dtypes import DType

_PAGE_BYTES = 4096
_HUGE_PAGE_BYTES = 1 << 21


def page_aligned(elements: int, kind: DType) -> NDArray[Any]:
    """Zeros that begin on a page, touched once so that every page is there; on huge pages, where
    the system has them, if they fill one, the last of which may go on beyond them.

    Weights are read once a run: on small pages their addresses are not known to the processor.
    What an allocator hands out again has kept the pages it had.
    """
    size = elements * kind.size_bytes
    page = _HUGE_PAGE_BYTES if size >= _HUGE_PAGE_BYTES else _PAGE_BYTES
    room = -(-size // page) * page + page
    memory = _mapped(room) if page == _HUGE_PAGE_BYTES else np.empty(room, np.uint8)
    start = -memory.ctypes.data % page
    array = memory[start : start + size].view(kind.numpy)
    array[...] = 0
    return array


def address(array: NDArray[Any]) -> ctypes.c_void_p:
    """Where the array's first element is, as a C argument."""
    return ctypes.c_void_p(array.ctypes.data)


def _mapped(size: int) -> NDArray[np.uint8]:
    """Memory of its own from the system, on huge pages where it has them."""
    region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):
        region.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(region, np.uint8)
