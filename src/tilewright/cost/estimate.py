"""The one cost walker: price a staged program for one candidate, or for every candidate of a space
at once.

In: a staged-stage program (after boundary handling), a machine and the values of its parameters:
integers, or arrays with one element per candidate. Out: an `Estimate` of the same form. The walk
prices each transfer and call once per kind of iteration it depends on (first, middle, last: only a
last tile is smaller, only a first step initialises), as arrays over the tiles; `cost.pipeline`
composes them loop by loop (swATOP 4.6, with the loop's real pipeline in place of its "maximum of
two sums").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import prod
from typing import Any

import numpy as np

from tilewright.common.expr import Value, evaluate
from tilewright.cost.buffers import scratchpad_bytes
from tilewright.cost.calls import call_cycles, priced_call
from tilewright.cost.chain import Item, Prepared, Values, prepare
from tilewright.cost.pipeline import play
from tilewright.cost.pipeline_types import (
    CALL,
    COPY,
    Flags,
    Floats,
    Ints,
    Items,
    Loops,
    Nest,
    Rows,
)
from tilewright.cost.prices import Prices, prices_of
from tilewright.cost.steps import CallStep, TransferStep, first_core
from tilewright.cost.timing import issue_cycles, transfer_latencies
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.passes.lowering import lowering_of

Env = dict[str, Any]


@dataclass(frozen=True)
class Estimate:
    """Cycles of one core group: elapsed, of the cores' primitives, of the DMA engine; scratchpad
    bytes per core.

    Each is an array (copies, tiles): the front axis varies the numbers of buffer copies, the other
    everything else. A single candidate has one element.
    """

    cycles: Floats
    compute_cycles: Floats
    dma_cycles: Floats
    scratchpad_bytes: Floats


def estimate(
    program: Program | Prepared,
    machine: Machine,
    values: Mapping[str, Value],
    wanted: Flags | None = None,
) -> Estimate:
    """Price `program` with its parameters bound to `values`.

    Copy counts may be arrays of shape (copies, 1), all other values integers or arrays of shape
    (tiles,). Candidates that are not `wanted` (copies, tiles) are left at infinity. A program that
    is priced often is `prepare`d once.
    """
    chains, prices = lowering_of(machine).chains, prices_of(machine)
    prepared = prepare(program, chains=chains) if isinstance(program, Program) else program
    env: Env = {**values, **first_core(machine)}
    if prepared.division is not None:
        env |= prepared.division.values(env, machine.thread_count)
    doubles = _doubles(prepared.program, env)
    nest = _arrays(prepared, env, machine, prices)
    shape = (len(doubles), nest.loops.counts.shape[1])
    cycles, compute, busy = (np.full(shape, np.inf) for _ in range(3))
    wanted = np.ones(shape, np.bool_) if wanted is None else wanted
    latency = float(max(transfer_latencies(prepared.program, machine), default=0))
    play(nest, doubles, wanted, latency, cycles, compute, busy)
    bytes_used = scratchpad_bytes(prepared.program, env)
    cycles = np.asarray(prices.elapsed_cycles(prepared, machine, env, bytes_used, cycles))
    return Estimate(cycles, compute, busy, np.broadcast_to(bytes_used, shape))


def _width(env: Env) -> int:
    sizes = (v.size for v in env.values() if isinstance(v, np.ndarray) and v.ndim == 1)
    return max(sizes, default=1)


def _doubles(program: Program, env: Env) -> Flags:
    """(copies, buffers): which buffers are double in each combination of copies."""
    columns = [np.asarray(evaluate(b.copies, env)).reshape(-1) == 2 for b in program.buffers]
    if not columns:
        return np.zeros((1, 0), np.bool_)
    return np.stack(np.broadcast_arrays(*columns), axis=1)


def _arrays(prepared: Prepared, env: Env, machine: Machine, prices: Prices) -> Nest:
    width = _width(env)
    values = Values(prepared, env)
    outline, kinds = prepared.outline, prepared.kinds
    costs: list[tuple[Value, Value]] = []
    for item, strides in zip(prepared.items, outline.costs.strides, strict=True):
        for _ in _places(values, strides):
            costs.append(_cost(item, prepared.program, values, machine, prices))
    counts: list[Value] = []
    for loop, strides in zip(prepared.loops, outline.counts.strides, strict=True):
        for _ in _places(values, strides):
            counts.append(values(loop.extent))
    service, issue = _stacked([c[0] for c in costs], width), _stacked([c[1] for c in costs], width)
    iterations = _stacked(counts, width)
    alike = _uniform(outline.costs, kinds, service) & _uniform(outline.counts, kinds, iterations)
    items = Items(
        kind=np.array([_kind(i.step, prices) for i in prepared.items], np.int64),
        level=np.array([i.level for i in prepared.items], np.int64),
        buffer=np.array([i.buffer for i in prepared.items], np.int64),
        rows=outline.costs,
        service=service,
        issue=issue,
    )
    loops = Loops(
        kinds=np.array(kinds, np.int64),
        edges=np.array(prepared.edges, np.int64).reshape(-1, 2),
        rows=outline.counts,
        counts=iterations,
        uniform=alike,
    )
    return Nest(outline.before, outline.after, items, loops)


def _places(values: Values, strides: Ints) -> Iterator[None]:
    """Put `values` at every combination of kinds of iterations of the loops with a stride."""
    relevant = np.flatnonzero(strides).tolist()
    for chosen in combinations(*(range(values.prepared.kinds[d]) for d in relevant)):
        values.place = dict(zip(relevant, chosen, strict=True))
        yield


def _uniform(rows: Rows, kinds: Sequence[int], table: Floats) -> Flags:
    """Where no value is another in one kind of iteration of a loop than in its first."""
    uniform = np.ones((len(kinds), table.shape[1]), np.bool_)
    ends = [*rows.base[1:], len(table)]
    for first, end, steps in zip(rows.base, ends, rows.strides, strict=True):
        numbers = np.arange(end - first)
        for d in (int(i) for i in np.flatnonzero(steps)):
            same = numbers - numbers // steps[d] % kinds[d] * steps[d]
            uniform[d] &= (table[first + numbers] == table[first + same]).all(axis=0)
    return uniform


def _stacked(rows: Sequence[Value], width: int) -> Floats:
    result = np.empty((len(rows), width))
    for i, row in enumerate(rows):
        result[i] = row
    return result


def _kind(step: CallStep | TransferStep, prices: Prices) -> int:
    if isinstance(step, CallStep):
        return CALL
    return prices.transfer_kind(step.stmt.direction)


def _cost(
    item: Item, program: Program, value: Values, machine: Machine, prices: Prices
) -> tuple[Value, Value]:
    """(service or call cycles, issue cycles), zero where the condition does not hold."""
    holds, step = value(item.condition), item.step
    if isinstance(step, CallStep):
        dims = {name: value(e) for name, e in step.dims.items()}
        cycles = call_cycles(machine, priced_call(step.stmt, dims, program), prices.costs)
        return cycles * holds, 0.0
    whole = [value(e) for e in step.tensor_shape]
    shape = step.shape(whole, [value(e) for e in step.numbers])
    direction, size = step.stmt.direction, prod(whole) * step.element_bytes
    service = prices.service_cycles(machine, direction, shape, size, shared=step.shared)
    if prices.transfer_kind(direction) == COPY:
        return (service + issue_cycles(machine, shape)) * holds, 0.0
    return service * holds, issue_cycles(machine, shape) * holds
