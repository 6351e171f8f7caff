"""Place all buffers of a memory in one coalesced region (swATOP 4.7).

Top-level barriers cut a program into parts. A buffer is alive from the first part that uses it to
the last one; buffers that are never alive together share addresses.
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
        lives = _lives(program.body)
        used = [b for b in program.buffers if b.name in lives]
        offsets: dict[str, int] = {}
        for space in dict.fromkeys(b.space for b in used):
            offsets |= self._placed([b for b in used if b.space == space], lives)
        return replace(
            program, buffers=tuple(replace(b, offset_bytes=offsets[b.name]) for b in used)
        )

    def _placed(self, buffers: list[Buffer], lives: Mapping[str, range]) -> dict[str, int]:
        """The lowest aligned addresses at which buffers of one memory are apart while alive."""
        unit = self.alignment_bytes.get(buffers[0].space, 1)
        limit = self.capacity_bytes.get(buffers[0].space, 0)
        places: dict[str, range] = {}
        for buffer in buffers:
            size, start = -(-bytes_on_a_core(buffer) // unit) * unit, 0
            beside = (places[o] for o in places if _meet(lives[o], lives[buffer.name]))
            for other in sorted(beside, key=lambda place: place.start):
                if start + size > other.start:
                    start = max(start, other.stop)
            places[buffer.name] = range(start, start + size)
        for part in sorted({part for b in buffers for part in lives[b.name]}):
            alive = [b for b in buffers if part in lives[b.name]]
            needed = max(places[b.name].stop for b in alive)
            if needed > limit:
                _refuse(alive, needed, limit)
        return {name: place.start for name, place in places.items()}


def bytes_on_a_core(buffer: Buffer) -> int:
    """Bytes of all copies of a buffer on one core."""
    size = dtype(buffer.dtype).size_bytes
    return int(evaluate(buffer.elements * buffer.copies, {})) * size


def _lives(body: tuple[Stmt, ...]) -> dict[str, range]:
    """The parts from the first one to the last one that uses a buffer, for each buffer."""
    lives: dict[str, range] = {}
    part = 0
    for stmt in body:
        part += isinstance(stmt, Barrier)
        for name in _buffers(stmt):
            lives[name] = range(lives[name].start if name in lives else part, part + 1)
    return lives


def _meet(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _buffers(statement: Stmt) -> set[str]:
    used: set[str] = set()
    for stmt in walk((statement,)):
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
