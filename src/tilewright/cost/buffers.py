"""Memory that a program's buffers take on each core.

In: a program and the values of its parameters. Out: bytes, of the values' form.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Value, evaluate
from tilewright.ir.nodes import Buffer, Program, View


def scratchpad_bytes(program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes that the program's buffers take on each core, in all its memories."""
    total: Value = 0
    for b in program.buffers:
        total = total + buffer_bytes(b, env)
    return total


def bytes_by_space(program: Program, env: Mapping[str, Value]) -> dict[str, Value]:
    """Bytes that the program's buffers take on each core, by memory."""
    totals: dict[str, Value] = {}
    for b in program.buffers:
        totals[b.space] = totals.get(b.space, 0) + buffer_bytes(b, env)
    return totals


def is_whole_view(view: View) -> bool:
    pairs = zip(view.ranges, view.shape, strict=True)
    return all(r.start == Const(0) and r.extent == size for r, size in pairs)


def buffer_bytes(buffer: Buffer, env: Mapping[str, Value]) -> Value:
    return evaluate(buffer.elements * buffer.copies, env) * dtype(buffer.dtype).size_bytes
