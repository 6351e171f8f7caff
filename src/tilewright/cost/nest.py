"""A prepared nest with values for its parameters, as the arrays that `cost.pipeline` plays.

Each transfer and call is priced once per kind of iteration that it depends on (first, middle, last:
only a last tile is smaller, only a first step initialises), as arrays over the tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.expr import Value
from tilewright.cost.chain import Prepared
from tilewright.cost.item_cycles import Cycles, PricedItem, item_cycles
from tilewright.cost.pipeline_types import (
    CALL,
    Buffer,
    Clock,
    Cost,
    Count,
    Flags,
    Floats,
    Ints,
    Item,
    LoopLevel,
    Records,
    Rows,
    Stride,
    Summary,
    Tables,
    records,
)
from tilewright.cost.prices import Prices
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine

Env = dict[str, Any]


@dataclass(frozen=True, eq=False)
class BoundNest:
    """A nest with values for its parameters, arrays of tiles; `contest` (None: one of all) and
    `doubles` as in `Tables`.
    """

    prepared: Prepared
    env: Env
    contest: Ints | None
    doubles: Flags


def tables_of(nests: Sequence[BoundNest], machine: Machine, prices: Prices) -> list[Tables]:
    """Tables of what differs from tile to tile in each nest."""
    bound = [nest.prepared.moments.numbers(nest.env) for nest in nests]
    items = [
        PricedItem(item.step, call, *_apart(own))
        for nest, (numbers, _) in zip(nests, bound, strict=True)
        for item, call, own in zip(
            nest.prepared.moments.items, nest.prepared.calls, numbers, strict=True
        )
    ]
    cycles = iter(item_cycles(items, machine, prices))
    return [_tables(nest, cycles, extents) for nest, (_, extents) in zip(nests, bound, strict=True)]


def _apart(own: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    return own[0], own[1:]


def _tables(nest: BoundNest, cycles: Iterator[Cycles], extents: Sequence[Value]) -> Tables:
    """The tables of a nest from the next cycles of items."""
    prepared, width = nest.prepared, _width(nest.env)
    outline, kinds, moments = prepared.outline, prepared.kinds, prepared.moments
    rows = [prod(item.kinds) for item in moments.items]
    service, issue = (np.empty((sum(rows), width)) for _ in range(2))
    first = 0
    for count in rows:
        part = slice(first, first := first + count)
        service[part], issue[part] = next(cycles)
    iterations = np.empty((sum(map(prod, moments.counts)), width))
    first = 0
    for extent, own in zip(extents, moments.counts, strict=True):
        iterations[first : (first := first + prod(own))] = extent
    alike = _uniform(outline.costs, kinds, service) & _uniform(outline.counts, kinds, iterations)
    contest = np.zeros(width, np.int64) if nest.contest is None else nest.contest
    return Tables(iterations, service, issue, alike, contest, nest.doubles)


def records_of(prepared: Prepared, tables: Tables, prices: Prices, machine: Machine) -> Records:
    """The nest; what differs from tile to tile is filled in while it is played."""
    outline, loops, buffers = prepared.outline, len(prepared.loops), tables.doubles.shape[1]
    return Records(
        _filled(
            records(Clock, 1),
            loops=loops,
            buffers=buffers,
            combinations=prod(prepared.kinds),
            cores=machine.cores,
            latency=max(prepared.transfer_latencies(machine), default=0),
            issue=0 if machine.dma is None else machine.dma.issue_cycles,
        ),
        _levels(prepared),
        _filled(
            records(Item, len(prepared.items)),
            kind=[_kind(i.step, prices) for i in prepared.items],
            together=[_together(i.step) for i in prepared.items],
            level=[i.level for i in prepared.items],
            buffer=[i.buffer for i in prepared.items],
            base=outline.costs.base,
            varies=outline.costs.varies,
        ),
        records(Buffer, buffers),
        _strides(outline.counts, loops),
        _strides(outline.costs, loops),
        records(Count, len(tables.iterations)),
        records(Cost, len(tables.service)),
        records(Summary, loops * (prod(prepared.kinds) + 1)),
    )


def _levels(prepared: Prepared) -> npt.NDArray[Any]:
    outline, loops = prepared.outline, len(prepared.loops)
    levels = records(LoopLevel, loops + 1)
    _filled(levels, following=-1)
    for name, spans in (("before", outline.before), ("after", outline.after)):
        levels[name], levels[f"{name}_end"] = spans.T
    front, back = np.reshape(prepared.edges, (-1, 2)).T
    _filled(
        levels[:loops],
        kinds=prepared.kinds,
        front=front,
        back=back,
        base=outline.counts.base,
        varies=outline.counts.varies,
    )
    return levels


def _strides(rows: Rows, loops: int) -> npt.NDArray[Any]:
    return _filled(records(Stride, rows.strides[:, :loops].size), rows=rows.strides[:, :loops])


def _filled(found: npt.NDArray[Any], **values: Any) -> npt.NDArray[Any]:
    """The records with values for some of their fields; of no values one record is left at zero."""
    for name, value in values.items():
        flat = np.ravel(value)
        if flat.size:
            found[name] = flat
    return found


def _width(env: Env) -> int:
    sizes = (v.size for v in env.values() if isinstance(v, np.ndarray) and v.ndim == 1)
    return max(sizes, default=1)


def _uniform(rows: Rows, kinds: Sequence[int], table: Floats) -> Flags:
    """True where a value is the same in all kinds of iterations of a loop."""
    width = table.shape[1]
    uniform = np.ones((len(kinds), width), np.bool_)
    ends = [*rows.base[1:], len(table)]
    for first, end, steps in zip(rows.base, ends, rows.strides, strict=True):
        for d in np.flatnonzero(steps).tolist():
            of_loop = table[first:end].reshape(-1, kinds[d], steps[d], width)
            uniform[d] &= (of_loop[:, 1:] == of_loop[:, :1]).all(axis=(0, 1, 2))
    return uniform


def _together(step: CallStep | TransferStep) -> bool:
    return isinstance(step, CallStep) and isinstance(step.stmt.primitive, MatrixProduct)


def _kind(step: CallStep | TransferStep, prices: Prices) -> int:
    if isinstance(step, CallStep):
        return CALL
    return prices.transfer_kind(step.stmt.direction)
