"""Cost of running several threads: barriers, data of other threads, and a shared main memory.

In: a prepared nest with a division, a machine and values for the nest's parameters. Out: cycles and
factors, of the values' form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Value, evaluate, free_vars
from tilewright.cost.chain import Prepared
from tilewright.ir.nodes import Call, For, Program, Range, Tile, Transfer
from tilewright.ir.visit import walk
from tilewright.machine import Machine
from tilewright.targets.host.cost.stores import whole_bytes
from tilewright.targets.host.sections import Caches


def meeting_cycles(prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Cycles of the barriers after a nest: one per iteration of the loops that nests share, none if
    threads divide those loops, for then a thread computes all nests of its iterations.
    """
    division, threads = prepared.division, machine.threads
    if division is None or threads is None:
        return 0.0
    meetings: Value = 1
    apart: Value = False
    for extent, parts in division.shared:
        meetings = meetings * evaluate(extent, env)
        apart = apart | np.greater(env[parts], 1)
    return np.where(apart, 0, meetings) * threads.meet_cycles


def has_own(prepared: Prepared, env: Mapping[str, Value], moved_by: Sequence[bool]) -> Value:
    """True if each thread has its own part of an operand, which the loops `moved_by` move."""
    if prepared.division is None:
        return True
    own: Value = False
    for parts, moves in zip(prepared.division.parts, moved_by, strict=False):
        if parts is not None and moves:
            own = own | np.greater(env[parts], 1)
    return own


def handed_cycles(prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Cycles for image bytes that a thread reads after others stored them, or stores for others to
    read: everything outside its own part. Nothing is charged if the nest divides the outermost
    dimension in memory, the rows, as stages other than products also divide images by rows.
    """
    caches, threads, division = machine.find_section(Caches), machine.threads, prepared.division
    if division is None or caches is None or threads is None:
        return 0.0
    program, found = prepared.program, dict[str, Value]()
    at_start = {**env, **dict.fromkeys((f.var for f in prepared.loops), 0)}
    for name, ranges in _places(program):
        tensor = program.tensor(name)
        if tensor.kind == "constant" or (tensor.kind == "scratch" and not tensor.storage):
            continue
        outer, rows, own = np.True_, np.False_, np.False_
        for r, size in zip(ranges, tensor.shape, strict=True):
            moving = free_vars(r.start)
            parts = has_own(prepared, env, [f.var in moving for f in prepared.loops])
            own, rows = own | parts, rows | (outer & parts)
            outer = outer & np.equal(evaluate(size, at_start), 1)
        touched = np.where(own, 1 / threads.count, 1.0) * whole_bytes(tensor, at_start)
        foreign = np.where(rows, 0.0, touched * (1 - 1 / threads.count))
        found[tensor.memory] = np.maximum(found.get(tensor.memory, 0.0), foreign)
    return sum(found.values()) * caches.handed_cycles_per_byte


def memory_cycles(prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Least cycles in which main memory delivers once all bytes that a nest touches, to the threads
    that divide its loops. 0 if the last cache holds the nest's tensors as a whole, since other
    nests may touch the rest, and on one thread, whose copies are priced.
    """
    caches, threads = machine.find_section(Caches), machine.threads
    if prepared.division is None or caches is None or threads is None:
        return 0.0
    program = prepared.program
    whole: Value = sum(whole_bytes(t, env) for t in program.tensors if not t.storage)
    far = np.greater(whole, caches.l3.capacity_bytes)
    if not np.any(far):
        return 0.0
    busy: Value = 1
    for parts in prepared.division.parts:
        busy = busy * (1 if parts is None else env[parts])
    rate = machine.direct_bytes_per_second * np.minimum(busy, threads.saturating)
    return np.where(far, _touched_bytes(program, env) * (machine.clock_hz / rate), 0.0)


def _touched_bytes(program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes that all calls and copies touch, counting each memory once."""
    loops = [s for s in walk(program.body) if isinstance(s, For)]
    at_start = {**env, **dict.fromkeys((f.var for f in loops), 0)}
    counts = {f.var: evaluate(f.extent, at_start) for f in loops}
    touched: dict[str, Value] = {}
    for name, ranges in _places(program):
        tensor = program.tensor(name)
        size: Value = dtype(tensor.dtype).size_bytes
        for r, extent in zip(ranges, tensor.shape, strict=True):
            times = prod(counts[v] for v in free_vars(r.start) if v in counts)
            several = times * evaluate(r.extent, at_start)
            size = size * np.minimum(several, evaluate(extent, at_start))
        touched[tensor.memory] = np.maximum(touched.get(tensor.memory, 0), size)
    return sum(touched.values())


def _places(program: Program) -> Iterator[tuple[str, tuple[Range, ...]]]:
    """(name, ranges) of each tensor region that a statement touches."""
    for stmt in walk(program.body):
        match stmt:
            case Call(_, operands):
                yield from ((o.tensor, o.ranges) for o in operands if isinstance(o, Tile))
            case Transfer(_, name, ranges):
                yield name, ranges
            case _:
                pass


def crowding(machine: Machine) -> float:
    """Slowdown of a byte from main memory when all threads transfer at once."""
    threads = machine.threads
    return max(1.0, threads.count / threads.saturating) if threads else 1.0
