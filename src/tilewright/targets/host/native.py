"""Compiled C on this computer: sources in, a loaded shared library out; and the memory that such
code is given: arrays that begin on pages of their own, their addresses.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.c.compiler import (
    compile_into,
    compile_key,
    loaded_library,
    processor_flags,
)
from tilewright.common.dtypes import DType
from tilewright.targets.host.vectors.instruction_sets import (
    INSTRUCTION_SETS,
    InstructionSet,
    best_instruction_set,
)

USER = "the host target"
KIND = "host"
"""The kind of the libraries in the cache."""
_HUGE_PAGE_BYTES = 1 << 21
"""Bytes of Linux's huge pages where others have 4096; elsewhere memory begins at a multiple."""
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-shared", "-o", "library.so")
COMPILE_FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
"""For one file of a network, as gcc and clang take them: no function says what went wrong but by
its result, which lets conditions and roots be computed by vectors.
"""
GCC_STAGE_FLAGS = ("-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-fpeel-loops",
                   "-funswitch-loops")  # fmt: skip
"""Where gcc compiles the file of a network's loops and calls: as fast as by -O3, in half the time.
clang refuses them.
"""


@cache
def native_instruction_sets() -> tuple[InstructionSet, ...]:
    """Instruction sets that this processor can execute, best first."""
    best = best_instruction_set(processor_flags())
    return INSTRUCTION_SETS[INSTRUCTION_SETS.index(best) :]


def load_library(sources: Mapping[str, str], flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Compile `sources` (file name -> text) into a shared library, or take it from the cache, and
    load it.

    `flags` are added to those for all generated code: an instruction set's, `-fopenmp`. Raises
    ToolError where there is no compiler or the sources do not compile.
    """
    every = (*FLAGS, *flags)

    def make(folder: Path) -> None:
        compile_into(folder, USER, sources, every)

    return loaded_library(USER, KIND, compile_key(USER, sources, every), make)


def page_aligned(elements: int, kind: DType) -> NDArray[Any]:
    """Zeros that begin on a page, touched once so that every page is there; on huge pages, where
    the system has them, if they fill one, the last of which may go on beyond them.

    Weights are read once a run: on small pages their addresses are not known to the processor.
    What an allocator hands out again has kept the pages it had.
    """
    size = elements * kind.size_bytes
    page = _HUGE_PAGE_BYTES if size >= _HUGE_PAGE_BYTES else mmap.PAGESIZE
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
