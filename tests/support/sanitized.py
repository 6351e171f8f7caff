"""Generated code under the address and undefined-behaviour sanitizers: its inputs in, results out.

Every array lies once at the end and once at the beginning of a page whose neighbour is forbidden,
for masked accesses are invisible to the sanitizers. What is not an input begins as NaN.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from support.candidates import Case
from support.fences import FENCE
from support.native import emitted, flags_for
from tilewright.codegen.artifact import Array, Artifact, TensorInfo
from tilewright.codegen.c.compiler import compiled_files
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ToolError
from tilewright.compiler.checking import operator_result, program_inputs
from tilewright.targets.host.emit.header import stored_elements

SANITIZED = (
    "-std=gnu11", "-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
)  # fmt: skip

INPUT_AND_OUTPUT = (
    FENCE
    + """\
#include <string.h>
static FILE *given, *found;
static void *taken(unsigned long bytes)
{
    void *p = fenced(bytes);
    if (fread(p, 1, bytes, given) != bytes)
        exit(5);
    return p;
}
static void *unknown(unsigned long bytes)
{
    return memset(fenced(bytes), 0xff, bytes);
}
static void shown(const void *p, unsigned long bytes)
{
    if (fwrite(p, 1, bytes, found) != bytes)
        exit(5);
}
"""
)

MAIN = """\
int main(int count, char **names)
{
    if (count != 3 || !(given = fopen(names[1], "rb")) || !(found = fopen(names[2], "wb")))
        return 5;
    for (early = 0; early < 2; early++) {
        rewind(given);
CALLS
    }
    return fclose(found);
}
"""


def have_sanitizers() -> bool:
    """True where the compiler can link the sanitizers."""
    try:
        source = {"program.c": "int main(void) { return 0; }\n"}
        compiled_files("the tests", "sanitized", source, (*SANITIZED, "-o", "program"))
    except ToolError:
        return False
    return True


def sanitized_results(cases: Sequence[Case], operands: Sequence[tuple[Any, ...]]) -> list[Array]:
    """The operators' results, two of each case, by one program with the code of all.

    Raises AssertionError with the sanitizer's words where an access is illegal.
    """
    code = emitted(cases)
    sources = {n: t for _, a in code for n, t in a.files.items() if n.endswith((".c", ".h"))}
    calls = "\n".join(f"        call_{a.name}();" for _, a in code)
    callers = [caller(a) for _, a in code]
    sources["main.c"] = "\n".join([INPUT_AND_OUTPUT, *callers, MAIN.replace("CALLS", calls)])
    inputs: list[Array] = []
    for case, (program, artifact), own in zip(cases, code, operands, strict=True):
        arrays = program_inputs(case.candidate.op, case.candidate.seed, program, own)
        inputs += [arrays[t.name] for t in artifact.tensors if t.is_given]
    flags = flags_for([c.machine for c in cases])
    outputs = [t for _, a in code for t in a.tensors if t.kind == "output"]
    results = run_sanitized(sources, flags, inputs, [(t.shape, t.dtype) for t in outputs] * 2)
    return [
        operator_result(case.candidate.op, case.candidate.seed, program, {output.name: array})
        for (case, (program, _), output), array in zip(
            [*zip(cases, code, outputs, strict=True)] * 2, results, strict=True
        )
    ]


def run_sanitized(
    sources: Mapping[str, str],
    flags: Sequence[str],
    inputs: Sequence[Array],
    outputs: Sequence[tuple[tuple[int, ...], str]],
) -> list[Array]:
    """Outputs of the program of `sources` for the inputs, one after another."""
    libraries = ("-o", "program", "-lm")
    (program,) = compiled_files("the tests", "sanitized", sources, (*SANITIZED, *flags, *libraries))
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given"), Path(folder, "found")
        given.write_bytes(b"".join(np.ascontiguousarray(x).tobytes() for x in inputs))
        command = [str(program), str(given), str(found)]
        calm = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        done = subprocess.run(
            command, env=calm, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr[:3000]
        numbers = found.read_bytes()
    arrays, at = [], 0
    for shape, kind in outputs:
        array = np.frombuffer(numbers, dtype(kind).numpy, prod(shape), at).reshape(shape)
        at += array.nbytes
        arrays.append(array)
    assert at == len(numbers)
    return arrays


def caller(artifact: Artifact) -> str:
    """C that reads a kernel's arguments, calls it, and shows its results."""
    lines, arguments = [f'#include "{artifact.name}.h"', f"void call_{artifact.name}(void)\n{{"], []
    after, sizes = [], list[tuple[str, int]]()
    for number, info in enumerate(t for t in artifact.tensors if t.kind != "scratch"):
        size, stored = plain_bytes(info), stored_bytes(info)
        if info.is_packed:
            lines.append(f"    void *q{number} = taken({size});")
            sizes.append((f"q{number}", size))
        how = "unknown" if info.is_packed or not info.is_given else "taken"
        lines.append(f"    void *p{number} = {how}({stored});")
        sizes.append((f"p{number}", stored))
        if info.is_packed:
            lines.append(f"    {artifact.name}_pack_{info.identifier}(q{number}, p{number});")
        if not info.is_given:
            after.append(f"    shown(p{number}, {size});")
        arguments.append(f"p{number}")
    room = max(1, artifact.scratchpad_bytes)
    lines.append(f"    void *workspace = unknown({room});")
    lines.append(f"    {artifact.name}({', '.join([*arguments, 'workspace'])});")
    lines += after
    lines += [f"    release({name}, {size});" for name, size in (*sizes, ("workspace", room))]
    return "\n".join([*lines, "}"])


def plain_bytes(info: TensorInfo) -> int:
    """Bytes of what is given or found, row-major."""
    return prod(info.shape) * dtype(info.dtype).size_bytes


def stored_bytes(info: TensorInfo) -> int:
    """Bytes of what the kernel is given."""
    return stored_elements(info) * dtype(info.dtype).size_bytes
