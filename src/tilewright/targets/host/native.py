"""Compiling generated C for this computer: sources in, a loaded shared library out."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tilewright.codegen.c.compiler import (
    compile_into,
    compile_key,
    loaded_library,
    processor_flags,
)
from tilewright.targets.host.vectors.instruction_sets import (
    INSTRUCTION_SETS,
    InstructionSet,
    best_instruction_set,
)

USER = "the host target"
KIND = "host"
"""The kind of the libraries in the cache."""
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
