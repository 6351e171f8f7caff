"""How a nest's loops add up where nothing overlaps: the core makes all its transfers itself.

In: a nest and the tables of its items' costs and its loops' iterations. Out: cycles of every tile.
It is what `cost.pipeline` comes to without an engine, as sums of arrays, with nothing to compile.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.cost.chain import Prepared
from tilewright.cost.moments import Edges, Kinds
from tilewright.cost.pipeline_types import Flags, Floats, Tables
from tilewright.cost.steps import CallStep


def serial_cycles(prepared: Prepared, tables: Tables) -> tuple[Floats, Floats]:
    """(cycles of all calls and copies, of the calls alone) of each tile."""
    times, width = _times(prepared, tables), tables.service.shape[1]
    every, calls, first = np.zeros(width), np.zeros(width), 0
    for item, own in zip(prepared.items, prepared.moments.items, strict=True):
        rows, body = tables.service[first : (first := first + prod(own.kinds))], times[item.level]
        alike = tuple(d for d, kinds in enumerate(own.kinds) if kinds == 1)
        service = _told_apart(rows, own.kinds, body)
        cycles = (body.sum(alike, keepdims=True) * service).reshape(-1, width).sum(0)
        every += cycles
        if isinstance(item.step, CallStep):
            calls += cycles
    return every, calls


def _times(prepared: Prepared, tables: Tables) -> list[Floats]:
    """How often the body inside the outermost d loops runs, for each d, (kinds of each loop,
    tiles); of a loop whose kinds no tile tells apart there is one.
    """
    found, first = [np.ones((1,) * len(prepared.loops) + tables.service.shape[1:])], 0
    for d, kinds in enumerate(prepared.moments.counts):
        rows = tables.iterations[first : (first := first + prod(kinds))]
        count = _told_apart(rows, kinds, found[d])
        found.append(found[d] * _of_kinds(count, prepared.edges[d], tables.uniform[d], d))
    return found


def _told_apart(rows: Floats, kinds: Kinds, body: Floats) -> Floats:
    """Rows of a table as (kinds of each loop, tiles), of the kinds that a body tells apart."""
    pairs = zip(body.shape, kinds, strict=False)
    present = (slice(told if own > 1 else None) for told, own in pairs)
    return rows.reshape(*kinds, -1)[tuple(present)]


def _of_kinds(count: Floats, edges: Edges, uniform: Flags, axis: int) -> Floats:
    """How many of `count` iterations are of each kind, along an axis of their own."""
    front, back = edges
    alike = uniform | (count == 1)
    if alike.all():
        return count
    axes = [1] * count.ndim
    axes[axis] = -1
    kinds = np.arange(front + 1 + back).reshape(axes)
    ends = np.where(kinds < front, kinds < count, count - back + (kinds - front - 1) >= front)
    told_apart = np.where(kinds == front, np.maximum(count - front - back, 0), ends)
    return np.where(alike, np.where(kinds == 0, count, 0.0), told_apart)
