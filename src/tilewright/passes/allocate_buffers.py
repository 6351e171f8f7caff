"""Place all buffers of a memory in one coalesced region (swATOP 4.7).

Top-level barriers cut a program into parts. Buffers of different parts are never alive together, so
they share addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError
from tilewright.common.expr import evaluate
from tilewright.ir.nodes import (
    Barrier,
    Buffer,
    Call,
    Program,
    Stmt,
    Transfer,
    View,
    Wait,
    memory_words,
)
from tilewright.ir.visit import walk


@dataclass(frozen=True)
class AllocateBuffers:
    """Assigns every buffer an address in its memory; `capacity_bytes` limits each memory's use."""

    name: ClassVar[str] = "allocate_buffers"
    capacity_bytes: Mapping[str, int]
    alignment_bytes: Mapping[str, int]

    def apply(self, program: Program) -> Program:
        """Assign addresses to buffers. Raises CapacityError that names the largest buffer."""
        offsets: dict[str, int] = {}
        for part in _parts(program.body):
            used = _buffers(part)
            alive = [b for b in program.buffers if b.name in used]
            for space in dict.fromkeys(b.space for b in alive):
                offsets |= self._placed([b for b in alive if b.space == space], space)
        placed = tuple(
            replace(b, offset_bytes=offsets[b.name]) for b in program.buffers if b.name in offsets
        )
        return replace(program, buffers=placed)

    def _placed(self, buffers: list[Buffer], space: str) -> dict[str, int]:
        """Consecutive aligned addresses for the buffers of one memory."""
        offsets, position = {}, 0
        unit, limit = self.alignment_bytes.get(space, 1), self.capacity_bytes.get(space, 0)
        for buffer in buffers:
            offsets[buffer.name] = position
            position += -(-bytes_on_a_core(buffer) // unit) * unit
        if position > limit:
            _refuse(buffers, position, limit)
        return offsets


def bytes_on_a_core(buffer: Buffer) -> int:
    """Bytes of all copies of a buffer on one core."""
    size = dtype(buffer.dtype).size_bytes
    return int(evaluate(buffer.elements * buffer.copies, {})) * size


def _parts(body: tuple[Stmt, ...]) -> list[list[Stmt]]:
    parts: list[list[Stmt]] = [[]]
    for stmt in body:
        if isinstance(stmt, Barrier):
            parts.append([])
        else:
            parts[-1].append(stmt)
    return parts


def _buffers(statements: list[Stmt]) -> set[str]:
    used: set[str] = set()
    for stmt in walk(tuple(statements)):
        match stmt:
            case Transfer() | Wait():
                used.add(stmt.buffer)
            case Call(primitive, operands):
                used |= {o.buffer for o in operands if isinstance(o, View)}
                used.update(primitive.buffers())
            case _:
                pass
    return used


def _refuse(buffers: list[Buffer], needed: int, limit: int) -> None:
    largest = max(buffers, key=bytes_on_a_core)
    raise CapacityError(
        f"the buffers take {needed} bytes of {memory_words(largest.space)}, the limit is {limit}; "
        f"the largest is {largest.name!r} with {bytes_on_a_core(largest)} bytes",
        fix=f"free {needed - limit} bytes: a smaller tile or a single copy of {largest.name!r}",
    )
