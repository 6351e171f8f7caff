"""Candidates of the host target, built together and run."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from support.candidates import AVX2, AVX512, HOSTS, LITTLE_ROOM, PORTABLE, Case, Machines
from support.running import error_in_ulps
from tilewright.codegen.artifact import Artifact
from tilewright.codegen.c.compiler import compiled_files
from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.ir.nodes import Program
from tilewright.machine import Machine, load_machine
from tilewright.targets.host.code import CODE, LoadedKernel
from tilewright.targets.host.emit.products import compiler_flags, instruction_set_of
from tilewright.targets.host.native import native_instruction_sets
from tilewright.targets.host.vectors.instruction_sets import WRAPPING

ULPS = {
    "winograd2": 6.0,
    "winograd3": 12.0,
    "winograd4": 24.0,
    "winograd5": 64.0,
    "winograd6": 200.0,
}
DIRECT_ULPS = 10.0
INEXACT = ("winograd3", "winograd4", "winograd5", "winograd6")
"""Their points are no integers: what is exact for integers in theory is rounded."""

QUICK = ("-std=gnu11", "-O0", "-fPIC")
"""Correctness does not need the optimiser, and most of the time is the compiler's."""

NATIVE_HOSTS = Machines(m for m in HOSTS if instruction_set_of(m) in native_instruction_sets())
"""The machines whose code this processor can execute."""


def _threaded(numbers: Mapping[str, str], *counts: int) -> Machines:
    rooms: tuple[Mapping[str, str], ...] = ({}, LITTLE_ROOM)
    return Machines(
        load_machine("host", {**numbers, **room, "threads.count": str(count)})
        for room in rooms
        for count in counts
    )


NATIVE_SETTINGS: Mapping[str, str] = next(
    (s for m, s in zip(HOSTS[::2], (AVX512, AVX2, PORTABLE), strict=True) if m in NATIVE_HOSTS),
    PORTABLE,
)
"""Settings that give the shipped machine this processor's best instruction set."""

THREADED_HOSTS = _threaded(NATIVE_SETTINGS, 2, 3, 8)
"""This computer with several threads."""


def emitted(cases: Sequence[Case]) -> list[tuple[Program, Artifact]]:
    """The code of each case, under names that differ."""
    programs = [
        replace(c.candidate.program(c.machine), name=f"case{i}") for i, c in enumerate(cases)
    ]
    return [(p, CODE.emit(p, c.machine)) for p, c in zip(programs, cases, strict=True)]


def flags_for(machines: Sequence[Machine]) -> tuple[str, ...]:
    """Flags of the compiler for the code of all these machines."""
    every = [*WRAPPING, *(flag for m in machines for flag in compiler_flags(m))]
    return tuple(dict.fromkeys(every))


def quick_library(sources: Mapping[str, str], flags: Sequence[str]) -> ctypes.CDLL:
    """The library of C sources (file name -> text), compiled without the optimiser."""
    texts = {name: text for name, text in sources.items() if name.endswith((".c", ".h"))}
    every = (*QUICK, *sorted(set(flags)))
    library = ("-shared", "-o", "library.so", "-lm")
    (path,) = compiled_files("the tests", "host-tests", texts, (*every, *library))
    return ctypes.CDLL(str(path))


def native_results(cases: Sequence[Case], operands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The operators' results by the code of the cases, compiled into one library."""
    code = emitted(cases)
    sources = {name: text for _, a in code for name, text in a.files.items()}
    library = quick_library(sources, flags_for([c.machine for c in cases]))
    results = []
    for case, (program, artifact), given in zip(cases, code, operands, strict=True):
        op, seed = case.candidate.op, case.candidate.seed
        bound = LoadedKernel(artifact, library).bind(program_inputs(op, seed, program, given))
        bound.repeat(2)
        results.append(operator_result(op, seed, program, bound.outputs()))
    return results


def assert_exact(case: Case, operands: tuple[Any, ...], found: Any) -> None:
    """`found` is the operator's result on integers, as far as the algorithm computes with them."""
    if case.candidate.seed.name in INEXACT:
        assert_within_bound(case, operands, found)
    else:
        expected = case.candidate.op.reference(*operands)
        np.testing.assert_array_equal(found, expected, err_msg=repr(case))


def assert_within_bound(case: Case, operands: tuple[Any, ...], found: Any) -> None:
    """`found` is the operator's result but for what rounding may do to it."""
    name = case.candidate.seed.name
    per_element = not name.startswith("winograd")
    error = error_in_ulps(case.candidate.op, operands, found, per_element=per_element)
    assert error <= ULPS.get(name, DIRECT_ULPS), repr(case)
