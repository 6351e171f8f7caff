"""Memory that compiled code is given: arrays that begin on pages of their own, their addresses."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.dtypes import DType

_PAGE_BYTES = 4096


def page_aligned(elements: int, kind: DType) -> NDArray[Any]:
    """Zeros that begin on a page, touched once so that every page is there."""
    memory = np.empty(elements * kind.size_bytes + _PAGE_BYTES, np.uint8)
    start = -memory.ctypes.data % _PAGE_BYTES
    array = memory[start : start + elements * kind.size_bytes].view(kind.numpy)
    array[...] = 0
    return array


def address(array: NDArray[Any]) -> ctypes.c_void_p:
    """Where the array's first element is, as a C argument."""
    return ctypes.c_void_p(array.ctypes.data)
