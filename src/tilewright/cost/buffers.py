"""What buffers take: of a scratchpad, or of the caches that stand in for one.

In: a program, a machine and the values of its parameters. Out: bytes, of the values' form. Where
buffers lie in caches, the operand that products load by vectors is read panel by panel: one panel
is near, the others may wait in the last cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Expr, Value, evaluate, product
from tilewright.ir.nodes import Attribute, Buffer, Call, For, Operand, Program, Tile, Transfer, View
from tilewright.ir.visit import walk
from tilewright.machine import Machine

_LASTING = 2 / 3
"""Of the room near a core, where buffers are larger than that."""


def scratchpad_bytes(program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes that the program's buffers take on each core."""
    total: Value = 0
    for b in program.buffers:
        total = total + _bytes(b, env)
    return total


def waiting_bytes(program: Program, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Bytes of them that may wait in the last cache: all panels but one."""
    waiting: Value = 0
    if machine.memory.caches is None:
        return waiting
    at_start = {
        **dict.fromkeys((s.var for s in walk(program.body) if isinstance(s, For)), 0),
        **env,
    }
    for view, columns in loaded_buffers(program):
        buffer = program.buffer(view.buffer)
        width = machine.core.lanes(buffer.dtype) * machine.primitives.gemm.register_block_vectors
        part = np.minimum(1.0, width / np.maximum(1, evaluate(columns, at_start)))
        waiting = waiting + (1 - part) * _bytes(buffer, env)
    return waiting


def has_room(program: Program, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Whether the buffers fit. Panels that come from the last cache pass through the nearer one,
    and so does C: a third of the room is theirs (of a product of 1000 with 168, 252 and 336 rows
    of A, the larger ones take 0.5 to 1 % longer).
    """
    total, room = scratchpad_bytes(program, env), machine.spm_available_bytes
    near = total - waiting_bytes(program, machine, env)
    return (total <= room) | ((total <= machine.buffers_bytes) & (near <= room * _LASTING))


def loaded_buffers(program: Program) -> Iterator[tuple[View, Expr]]:
    """The buffers that products read whole and by vectors, with their extents along the vectors."""
    found: dict[str, tuple[View, Expr]] = {}
    for stmt in walk(program.body):
        if isinstance(stmt, Call) and stmt.primitive == "gemm":
            letter = str(stmt.attribute("vector", "m"))
            loaded = stmt.operands[2 if letter == "n" else 1]
            if isinstance(loaded, View) and _is_whole(loaded):
                pairs = zip(loaded.roles, loaded.shape, strict=True)
                found[loaded.buffer] = loaded, product(e for role, e in pairs if role == letter)
    yield from found.values()


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
    return _is_whole(operand) and len(set(plain)) == len(plain)


def _is_whole(view: View) -> bool:
    pairs = zip(view.ranges, view.shape, strict=True)
    return all(r.start == Const(0) and r.extent == size for r, size in pairs)


def _bytes(buffer: Buffer, env: Mapping[str, Value]) -> Value:
    return evaluate(buffer.elements * buffer.copies, env) * dtype(buffer.dtype).size_bytes
