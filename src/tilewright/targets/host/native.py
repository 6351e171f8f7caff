"""Compile C sources into shared libraries, load them into this process, and allocate the
page-aligned arrays on which they run.
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
"""Flags for one file of a network, for gcc and clang. Without errno and floating-point traps,
conditions and square roots vectorise.
"""
GCC_STAGE_FLAGS = ("-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-fpeel-loops",
                   "-funswitch-loops")  # fmt: skip
"""gcc's flags for the file of a network's loops and calls: the code is as fast as with -O3 and
compiles in half the time. clang refuses them.
"""


@cache
def native_instruction_sets() -> tuple[InstructionSet, ...]:
    """Instruction sets that this processor executes, best first."""
    best = best_instruction_set(processor_flags())
    return INSTRUCTION_SETS[INSTRUCTION_SETS.index(best) :]


def load_library(sources: Mapping[str, str], flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Load the shared library of `sources` (file name -> text), compiled unless it is in the cache.

    `flags` come after `FLAGS`: those of an instruction set, `-fopenmp`. Raises ToolError if there
    is no compiler or the sources do not compile.
    """
    every = (*FLAGS, *flags)

    def make(folder: Path) -> None:
        compile_into(folder, USER, sources, every)

    return loaded_library(USER, KIND, compile_key(USER, sources, every), make)


def page_aligned(elements: int, kind: DType) -> NDArray[Any]:
    """Array of zeros (elements,) that begins on a page and is touched once, so that every page is
    mapped. Arrays of at least one huge page lie on huge pages, where the system has them.

    Weights are read once per run, and on small pages every page would miss the TLB. Large arrays
    come from the system itself, as memory that an allocator reuses keeps its small pages.
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
    """Address of the array's first element, as a C argument."""
    return ctypes.c_void_p(array.ctypes.data)


def _mapped(size: int) -> NDArray[np.uint8]:
    """Anonymous memory from the system, on huge pages where it has them."""
    region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):
        region.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(region, np.uint8)
