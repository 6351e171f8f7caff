"""Candidates of the host target, built together and run: their results, and under sanitizers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from support.candidates import AVX2, AVX512, HOSTS, PORTABLE, Case, Machines
from tilewright.common.dtypes import dtype
from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.targets.base import Artifact, TensorInfo
from tilewright.targets.c_compiler import compiled
from tilewright.targets.host import TARGET
from tilewright.targets.host.emit_header import stored_elements
from tilewright.targets.host.native import native_instruction_sets
from tilewright.targets.host.products import instruction_set_of
from tilewright.targets.host.run import LoadedKernel

QUICK = ("-std=gnu11", "-O0", "-fPIC", "-shared", "-o", "library.so")
"""Correctness does not need the optimiser, and most of the time is the compiler's."""
SANITIZED = (
    "-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
)  # fmt: skip

NATIVE_HOSTS = Machines(m for m in HOSTS if instruction_set_of(m) in native_instruction_sets())
"""The machines whose code this processor can execute."""

NATIVE_SETTINGS: Mapping[str, str] = next(
    (s for m, s in zip(HOSTS[::2], (AVX512, AVX2, PORTABLE), strict=True) if m in NATIVE_HOSTS),
    PORTABLE,
)
"""What the shipped machine needs changed for the best instruction set of this processor."""


def emitted(cases: Sequence[Case]) -> list[tuple[Program, Artifact]]:
    """The code of each case, under names that differ."""
    programs = [
        replace(c.candidate.program(c.machine), name=f"case{i}") for i, c in enumerate(cases)
    ]
    return [(p, TARGET.emit(p, c.machine)) for p, c in zip(programs, cases, strict=True)]


def flags_for(machines: Sequence[Machine]) -> tuple[str, ...]:
    """What the compiler needs for the code of all these machines."""
    every = [flag for m in machines for flag in instruction_set_of(m).compiler_flags]
    return tuple(dict.fromkeys(every))


def native_results(cases: Sequence[Case], operands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The operators' results by the code of the cases, compiled into one library."""
    code = emitted(cases)
    sources = {n: t for _, a in code for n, t in a.files.items() if n.endswith((".c", ".h"))}
    flags = (*QUICK, *flags_for([c.machine for c in cases]))
    (path,) = compiled("the tests", "host-tests", sources, flags)
    library = ctypes.CDLL(str(path))
    results = []
    for case, (program, artifact), given in zip(cases, code, operands, strict=True):
        op, seed = case.candidate.op, case.candidate.seed
        bound = LoadedKernel(artifact, library).bind(program_inputs(op, seed, program, given))
        bound.repeat(2)
        results.append(operator_result(op, seed, program, bound.outputs()))
    return results


def stored_bytes(info: TensorInfo) -> int:
    """Bytes of what the kernel is given."""
    return stored_elements(info) * dtype(info.dtype).size_bytes


def caller(artifact: Artifact) -> str:
    """C that calls a kernel once, each argument at the end of a page that the next one forbids."""
    lines, arguments = [f'#include "{artifact.name}.h"', f"void call_{artifact.name}(void)\n{{"], []
    for number, info in enumerate(t for t in artifact.tensors if t.kind != "scratch"):
        lines.append(f"    void *p{number} = fenced({max(1, stored_bytes(info))});")
        if info.panels:
            size = prod(info.shape) * dtype(info.dtype).size_bytes
            lines.append(f"    void *q{number} = fenced({size});")
            lines.append(f"    {artifact.name}_pack_{info.identifier}(q{number}, p{number});")
        arguments.append(f"p{number}")
    workspace = f"fenced({max(1, artifact.scratchpad_bytes)})"
    lines.append(f"    {artifact.name}({', '.join([*arguments, workspace])});\n}}")
    return "\n".join(lines)
