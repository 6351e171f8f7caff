"""What a core waits for operands that it uses in place: the traffic between its caches.

In: a prepared nest, a machine and the values of its parameters. Out: cycles, of the values' form.
A cache keeps what the loops from some depth inwards touch, if that fits; then every operand comes
from behind the cache once for each iteration of the loops around that move its region. Bytes are
priced by what of them does not overlap with computing (the additive execution-cache-memory model,
Stengel et al. 2015). Where everything fits nothing comes: a kernel that is called again finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Value, coefficient, evaluate, free_vars
from tilewright.cost.chain import Prepared
from tilewright.ir.nodes import Call, Program, Range, Tile
from tilewright.ir.visit import walk
from tilewright.machine import Machine


@dataclass(frozen=True)
class _Operand:
    """Bytes that one operand touches inside each number of loops; which loops move its region."""

    footprint: tuple[Value, ...]
    moved_by: tuple[bool, ...]

    def traffic(self, depth: int, counts: Sequence[Value]) -> Value:
        """Bytes that come into a cache that holds what is touched inside `depth` loops."""
        moving = [d for d in range(depth) if self.moved_by[d]]
        if not moving:
            return self.footprint[0]
        times: Value = 1
        for count in counts[: moving[-1]]:
            times = times * count
        return times * self.footprint[moving[-1]]


def exposed_cycles(
    prepared: Prepared, machine: Machine, env: Mapping[str, Value], buffer_bytes: Value
) -> Value:
    """Cycles that the core waits, beyond the calls' own time, for operands that are in place.

    `buffer_bytes` of the caches are taken by buffers.
    """
    caches = machine.memory.caches
    tiles = _tiles(prepared.program)
    if caches is None or not tiles:
        return 0.0
    at_start = {**env, **dict.fromkeys((f.var for f in prepared.loops), 0)}
    counts = [evaluate(f.extent, at_start) for f in prepared.loops]
    operands = [_operand(tile, prepared, at_start, counts) for tile in tiles]
    cycles: Value = 0.0
    for cache in (caches.l2, caches.l3):
        room = cache.capacity_bytes - buffer_bytes
        cycles = cycles + _traffic(operands, counts, room) * cache.exposed_cycles_per_byte
    return cycles


def _tiles(program: Program) -> tuple[Tile, ...]:
    """The operands in place of the matrix product."""
    calls = (s for s in _calls(program) if s.primitive == "gemm")
    return tuple(o for call in calls for o in call.operands if isinstance(o, Tile))


def _calls(program: Program) -> Iterator[Call]:
    return (s for s in walk(program.body) if isinstance(s, Call))


def _operand(
    tile: Tile, prepared: Prepared, env: Mapping[str, Value], counts: Sequence[Value]
) -> _Operand:
    tensor = prepared.program.tensor(tile.tensor)
    size = dtype(tensor.dtype).size_bytes
    shape = [evaluate(e, env) for e in tensor.shape]
    loops = [f.var for f in prepared.loops]
    footprint = []
    for depth in range(len(counts) + 1):
        touched: Value = size
        for r, extent in zip(tile.ranges, shape, strict=True):
            inside = list(zip(loops, counts, strict=True))[depth:]
            touched = touched * np.minimum(_touched(r, inside, env), extent)
        footprint.append(touched)
    used = frozenset().union(*(free_vars(r.start) for r in tile.ranges))
    return _Operand(tuple(footprint), tuple(name in used for name in loops))


def _touched(r: Range, inside: Sequence[tuple[str, Value]], env: Mapping[str, Value]) -> Value:
    """Indices of one dimension that the loops `inside` touch together."""
    extent = evaluate(r.extent, env)
    span: Value = (extent - 1) * evaluate(r.step, env) + 1
    number: Value = extent
    for loop, count in inside:
        step = coefficient(r.start, loop)
        if step != Const(0):
            span = span + (count - 1) * evaluate(step, env)
            number = number * count
    return np.minimum(span, number)


def _traffic(operands: Sequence[_Operand], counts: Sequence[Value], room: Value) -> Value:
    """Bytes into a cache with that much room, for the largest depth's worth that it holds."""
    bytes_in: Value = _sum(o.traffic(len(counts), counts) for o in operands)
    for depth in range(len(counts) - 1, -1, -1):
        fits = _sum(o.footprint[depth] for o in operands) <= room
        now = _sum(o.traffic(depth, counts) for o in operands) if depth else 0
        bytes_in = np.where(fits, now, bytes_in)
    return bytes_in


def _sum(values: Iterator[Value]) -> Value:
    total: Value = 0
    for value in values:
        total = total + value
    return total
