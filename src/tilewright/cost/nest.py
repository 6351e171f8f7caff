"""A prepared nest with values for its parameters, as the arrays that `cost.pipeline` plays.

Each transfer and call is priced once per kind of iteration that it depends on (first, middle, last:
only a last tile is smaller, only a first step initialises), as arrays over the tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.expr import Value
from tilewright.cost.calls import call_cycles, priced_call
from tilewright.cost.chain import Prepared
from tilewright.cost.moments import Costed
from tilewright.cost.pipeline_types import (
    CALL,
    COPY,
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
from tilewright.cost.timing import issue_cycles
from tilewright.ir.nodes import Program
from tilewright.machine import Machine

Env = dict[str, Any]


def tables_of(
    prepared: Prepared,
    env: Env,
    machine: Machine,
    prices: Prices,
    contest: Ints | None,
    doubles: Flags,
) -> Tables:
    """Tables of what differs from tile to tile, for `env` with arrays of tiles; `contest` (None:
    one of all) and `doubles` as in `Tables`.
    """
    width = _width(env)
    outline, kinds, moments = prepared.outline, prepared.kinds, prepared.moments
    numbers, extents = moments.numbers(env)
    rows = [prod(item.kinds) for item in moments.items]
    service, issue = (np.empty((sum(rows), width)) for _ in range(2))
    first = 0
    for item, count, own in zip(moments.items, rows, numbers, strict=True):
        part = slice(first, first := first + count)
        service[part], issue[part] = _costs(item.step, prepared.program, own, machine, prices)
    counts = [
        np.broadcast_to(extent, (prod(kinds), width))
        for extent, kinds in zip(extents, moments.counts, strict=True)
    ]
    iterations = np.concatenate([np.empty((0, width)), *counts])
    alike = _uniform(outline.costs, kinds, service) & _uniform(outline.counts, kinds, iterations)
    contest = np.zeros(width, np.int64) if contest is None else contest
    return Tables(iterations, service, issue, alike, contest, doubles)


def records_of(prepared: Prepared, tables: Tables, prices: Prices, latency: float) -> Records:
    """The nest; what differs from tile to tile is filled in while it is played. `latency`: cycles
    of a transfer.
    """
    outline, loops, buffers = prepared.outline, len(prepared.loops), tables.doubles.shape[1]
    return Records(
        _filled(
            records(Clock, 1),
            loops=loops,
            buffers=buffers,
            combinations=prod(prepared.kinds),
            latency=latency,
        ),
        _levels(prepared),
        _filled(
            records(Item, len(prepared.items)),
            kind=[_kind(i.step, prices) for i in prepared.items],
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


def _kind(step: CallStep | TransferStep, prices: Prices) -> int:
    if isinstance(step, CallStep):
        return CALL
    return prices.transfer_kind(step.stmt.direction)


def _costs(
    step: Costed, program: Program, own: Sequence[Value], machine: Machine, prices: Prices
) -> tuple[Value, Value]:
    """(service or call cycles, issue cycles), zero where the item does not happen: of the form
    (kinds, tiles), or what broadcasts to it. Cores with a window of operations in flight have
    numbers of operations in place of issue cycles.
    """
    holds, *numbers = own
    if not np.any(holds):
        return 0.0, 0.0
    if isinstance(step, CallStep):
        call = priced_call(step.stmt, dict(zip(step.dims, numbers, strict=True)), program)
        operations = prices.operations(machine, call) if machine.has_window else 0.0
        return call_cycles(machine, call, prices.costs) * holds, operations
    rank = len(step.tensor_shape)
    shape = step.shape(numbers[:rank], numbers[rank:])
    direction, size = step.stmt.direction, prod(numbers[:rank]) * step.element_bytes
    service = prices.service_cycles(machine, direction, shape, size, shared=step.shared)
    issue = shape.blocks if machine.has_window else issue_cycles(machine, shape)
    if prices.transfer_kind(direction) == COPY:
        return (service + issue) * holds, 0.0
    return service * holds, issue * holds
