"""Bytes that a program's buffers occupy on each core, in total and per memory.

In: a program and values for its parameters, integers or arrays. Out: bytes of the same form.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Value, evaluate
from tilewright.ir.nodes import Buffer, Program, View
from tilewright.machine import Machine


def scratchpad_bytes(program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes that the program's buffers occupy on each core, summed over its memories."""
    total: Value = 0
    for b in program.buffers:
        total = total + buffer_bytes(b, env)
    return total


def bytes_by_space(
    program: Program, env: Mapping[str, Value], machine: Machine | None = None
) -> dict[str, Value]:
    """Bytes that the program's buffers occupy on each core, per memory. With a `machine`, every
    buffer is padded to the alignment of its memory.
    """
    totals: dict[str, Value] = {}
    for b in program.buffers:
        unit = machine.space(b.space).alignment_bytes if machine else 1
        needed = -(-buffer_bytes(b, env) // unit) * unit
        totals[b.space] = totals.get(b.space, 0) + needed
    return totals


def is_whole_view(view: View) -> bool:
    pairs = zip(view.ranges, view.shape, strict=True)
    return all(r.start == Const(0) and r.extent == size for r, size in pairs)


def buffer_bytes(buffer: Buffer, env: Mapping[str, Value]) -> Value:
    return evaluate(buffer.elements * buffer.copies, env) * dtype(buffer.dtype).size_bytes


def doubled_buffers(program: Program, env: Mapping[str, Value]) -> npt.NDArray[np.bool_]:
    """Mask (copies, buffers) of the buffers that are double in each combination of copy counts."""
    columns = [np.asarray(evaluate(b.copies, env)).reshape(-1) == 2 for b in program.buffers]
    if not columns:
        return np.zeros((1, 0), np.bool_)
    return np.stack(np.broadcast_arrays(*columns), axis=1)
