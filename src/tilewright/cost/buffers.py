"""Memory that a program's buffers take on each core.

In: a program and the values of its parameters. Out: bytes, of the values' form.
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
    """Bytes that the program's buffers take on each core, in all its memories."""
    total: Value = 0
    for b in program.buffers:
        total = total + buffer_bytes(b, env)
    return total


def bytes_by_space(
    program: Program, env: Mapping[str, Value], machine: Machine | None = None
) -> dict[str, Value]:
    """Bytes that the program's buffers take on each core, by memory; on a machine each begins where
    its memory is aligned.
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
    """(copies, buffers): which buffers are double in each combination of copies."""
    columns = [np.asarray(evaluate(b.copies, env)).reshape(-1) == 2 for b in program.buffers]
    if not columns:
        return np.zeros((1, 0), np.bool_)
    return np.stack(np.broadcast_arrays(*columns), axis=1)
