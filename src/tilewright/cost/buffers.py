"""What a program's buffers take on each core.

In: a program and the values of its parameters. Out: bytes, of the values' form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Value, evaluate
from tilewright.ir.nodes import Attribute, Buffer, Call, Operand, Program, Tile, Transfer, View
from tilewright.ir.visit import walk


def scratchpad_bytes(program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes that the program's buffers take on each core."""
    total: Value = 0
    for b in program.buffers:
        total = total + buffer_bytes(b, env)
    return total


def call_attributes(call: Call, program: Program) -> dict[str, Attribute]:
    """What the time of a call depends on besides its extents: its attributes, the element type, and
    of a product whether both factors are `packed`, in panels in buffers. (Copying constants, which
    are in panels already, was measured to gain nothing.)
    """
    found = {"dtype": program.element_type(call.operands[0]), **dict(call.attributes)}
    if call.primitive == "gemm":
        constants = {
            s.buffer
            for s in walk(program.body)
            if isinstance(s, Transfer) and program.tensor(s.tensor).kind == "constant"
        }
        factors = call.operands[1:]
        found["packed"] = int(all(_is_matrix(o) and o.buffer not in constants for o in factors))
    return found


def _is_matrix(operand: Operand) -> TypeGuard[View]:
    """Whether a factor is a buffer with one dimension along k and one across."""
    if isinstance(operand, Tile):
        return False
    plain = [r for r, size in zip(operand.roles, operand.shape, strict=True) if size != Const(1)]
    return is_whole_view(operand) and len(set(plain)) == len(plain)


def is_whole_view(view: View) -> bool:
    pairs = zip(view.ranges, view.shape, strict=True)
    return all(r.start == Const(0) and r.extent == size for r, size in pairs)


def buffer_bytes(buffer: Buffer, env: Mapping[str, Value]) -> Value:
    return evaluate(buffer.elements * buffer.copies, env) * dtype(buffer.dtype).size_bytes
