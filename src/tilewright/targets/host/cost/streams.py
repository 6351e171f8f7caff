"""Cycles that a core waits while Winograd's transforms and sums of windows stream their operands.

In: a prepared nest, a machine and the values of its parameters. Out: cycles, of the values' form.
They compute little per byte, so their traffic beyond the level 2 cache costs what a copy costs.
The traffic follows from the working set between two uses: what exceeds the cache has been evicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Value, evaluate, free_vars
from tilewright.cost.chain import Prepared
from tilewright.ir.nodes import Call, Tile
from tilewright.ir.primitives import WindowSums, WinogradInput, WinogradOutput
from tilewright.ir.visit import walk
from tilewright.machine import Machine
from tilewright.targets.host.sections import Cache, Caches
from tilewright.targets.host.vectors.window_text import block_pixels

_STREAMING = (WindowSums, WinogradInput, WinogradOutput)


@dataclass(frozen=True)
class _Stream:
    """One operand: bytes of a call and of its whole tensor, and which loops move it."""

    call_bytes: Value
    tensor_bytes: Value
    moved_by: tuple[bool, ...]

    def touched(self, depth: int, counts: Sequence[Value]) -> Value:
        """Bytes that the loops inside `depth` loops touch together."""
        touched = self.call_bytes
        for moves, count in list(zip(self.moved_by, counts, strict=True))[depth:]:
            touched = touched * (count if moves else 1)
        return np.minimum(touched, self.tensor_bytes)

    def every_turn(self, counts: Sequence[Value]) -> Value:
        """Bytes of the whole tensor in each turn of the loops that do not move it: what calls have
        in common, as rows of neighbouring windows, is still near.
        """
        turns: Value = 1
        for moves, count in zip(self.moved_by, counts, strict=True):
            turns = turns * (1 if moves else count)
        return self.tensor_bytes * turns


def streamed_cycles(prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Cycles that the core waits, beyond the calls' own time, for operands that are streamed."""
    caches, tiles = machine.find_section(Caches), _tiles(prepared)
    if caches is None or not tiles:
        return 0.0
    at_start = {**env, **dict.fromkeys((f.var for f in prepared.loops), 0)}
    counts = [evaluate(f.extent, at_start) for f in prepared.loops]
    calls: Value = 1
    for count in counts:
        calls = calls * count
    streams = [_stream(tile, prepared, at_start) for tile in tiles]
    called = [s.primitive for s in walk(prepared.program.body) if isinstance(s, Call)]
    put, get = (e.peak_bytes_per_second for e in (machine.dma.put, machine.dma.get))
    cycles: Value = 0.0
    for stream, rate in zip(streams, (put, *[get] * (len(streams) - 1)), strict=True):
        depth = (*stream.moved_by, True).index(True)
        between: Value = 0
        for other in streams:
            between = between + other.touched(depth, counts)
        gone = np.maximum(0.0, 1 - caches.l2.capacity_bytes / np.maximum(between, 1))
        moved = stream.call_bytes * calls
        if any(isinstance(primitive, WindowSums) for primitive in called):
            moved = np.minimum(moved, stream.every_turn(counts))
        cycles = cycles + gone * moved * (machine.clock_hz / rate)
    for primitive in called:
        if isinstance(primitive, WindowSums) and _side_by_side(primitive, machine) > caches.streams:
            cycles = cycles + calls * _refilled(streams, caches.l1)
    return cycles


def _side_by_side(windows: WindowSums, machine: Machine) -> int:
    """Lines that a block of windows reads: those of its pixels, and the factors."""
    pixels = block_pixels(machine.core.registers)
    return windows.rows * (2 * windows.cols + (pixels - 1) * windows.stride)


def _refilled(streams: Sequence[_Stream], l1: Cache) -> Value:
    """Cycles in which a call reads what the one before it had, too, from behind the first cache."""
    read = sum((stream.call_bytes for stream in streams[1:]), start=0.0)
    gone = np.maximum(0.0, 1 - l1.capacity_bytes / (streams[0].call_bytes + read))
    return gone * read / l1.fill_bytes_per_cycle


def _tiles(prepared: Prepared) -> tuple[Tile, ...]:
    """Written tile, then read tiles, of a call that streams all in place; empty without one."""
    calls = (s for s in walk(prepared.program.body) if isinstance(s, Call))
    for call in calls:
        found = tuple(o for o in call.operands if isinstance(o, Tile))
        if isinstance(call.primitive, _STREAMING) and len(found) == len(call.operands):
            return found
    return ()


def _stream(tile: Tile, prepared: Prepared, env: Mapping[str, Value]) -> _Stream:
    tensor = prepared.program.tensor(tile.tensor)
    call_bytes: Value = dtype(tensor.dtype).size_bytes
    tensor_bytes = call_bytes
    for r, size in zip(tile.ranges, tensor.shape, strict=True):
        extent = evaluate(size, env)
        tensor_bytes = tensor_bytes * extent
        call_bytes = call_bytes * np.minimum(evaluate(r.extent, env), extent)
    used = frozenset().union(*(free_vars(r.start) for r in tile.ranges))
    return _Stream(call_bytes, tensor_bytes, tuple(f.var in used for f in prepared.loops))
