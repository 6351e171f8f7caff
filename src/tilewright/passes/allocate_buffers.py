"""Place all buffers in one coalesced scratchpad region (swATOP 4.7).

Buffers of the parts of a program that a barrier separates are never alive together and share
addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError
from tilewright.common.expr import evaluate
from tilewright.ir.nodes import Barrier, Buffer, Call, Program, Stmt, Transfer, View, Wait
from tilewright.ir.visit import walk


@dataclass(frozen=True)
class AllocateBuffers:
    """Gives every buffer its address in a region of `capacity_bytes`."""

    name: ClassVar[str] = "allocate_buffers"
    capacity_bytes: int
    alignment_bytes: int

    def apply(self, program: Program) -> Program:
        """CapacityError names the largest buffer where they do not fit."""
        offsets: dict[str, int] = {}
        for part in _parts(program.body):
            used = _buffers(part)
            position = 0
            for buffer in (b for b in program.buffers if b.name in used):
                offsets[buffer.name] = position
                size = buffer_bytes(buffer)
                position += -(-size // self.alignment_bytes) * self.alignment_bytes
            if position > self.capacity_bytes:
                _refuse(
                    [b for b in program.buffers if b.name in used], position, self.capacity_bytes
                )
        placed = tuple(
            replace(b, offset_bytes=offsets[b.name]) for b in program.buffers if b.name in offsets
        )
        return replace(program, buffers=placed)


def buffer_bytes(buffer: Buffer) -> int:
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
    largest = max(buffers, key=buffer_bytes)
    raise CapacityError(
        f"the buffers take {needed} bytes of scratchpad, the limit is {limit}; the largest is "
        f"{largest.name!r} with {buffer_bytes(largest)} bytes",
        fix=f"free {needed - limit} bytes: a smaller tile or a single copy of {largest.name!r}",
    )
