"""Price a staged program for one candidate, or for every candidate of a space at once.

In: a staged-stage program (after boundary handling), a machine and the values of its parameters:
integers, or arrays with one element per candidate. Out: an `Estimate` of the same form. The walk
prices each transfer and call once per kind of iteration it depends on (first, middle, last: only a
last tile is smaller, only a first step initialises), as arrays over the tiles; `cost.pipeline`
composes them loop by loop (swATOP 4.6, with the loop's real pipeline in place of its "maximum of
two sums").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.common.expr import Value, evaluate
from tilewright.cost.buffers import scratchpad_bytes
from tilewright.cost.chain import Prepared, prepare
from tilewright.cost.nest import BoundNest, records_of, tables_of
from tilewright.cost.pipeline import least_cycles, play
from tilewright.cost.pipeline_types import Flags, Floats, Ints, Tables, first_of
from tilewright.cost.prices import prices_of
from tilewright.cost.steps import first_core
from tilewright.cost.window import play_window
from tilewright.cost.window_items import window_of
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


@dataclass(frozen=True, eq=False)
class Case:
    """A nest to be priced with its parameters bound to `values`.

    Copy counts may be arrays of shape (copies, 1), all other values integers or arrays of shape
    (tiles,). Candidates that are not `wanted` (copies, tiles; None: all) are left at infinity. Each
    tile takes part in the `contest` of that number, None: all in one.
    """

    prepared: Prepared
    values: Mapping[str, Value]
    wanted: Flags | None = None
    contest: Ints | None = None


def estimate(
    program: Program | Prepared,
    machine: Machine,
    values: Mapping[str, Value],
    wanted: Flags | None = None,
    *,
    contest: Ints | None = None,
    keep: int = 0,
) -> Estimate:
    """Price `program` as a `Case`; one that is priced often is `prepare`d once. `keep` as in
    `estimates`.
    """
    chains = lowering_of(machine).chains
    prepared = prepare(program, chains=chains) if isinstance(program, Program) else program
    return estimates([Case(prepared, values, wanted, contest)], machine, keep=keep)[0]


def estimates(cases: Sequence[Case], machine: Machine, *, keep: int = 0) -> list[Estimate]:
    """Price several nests together.

    Where only the `keep` best matter (0: all) of each contest of a nest, those are left at
    infinity, too, that are none of them by their bound: neither calls nor transfers overlap with
    their like.
    """
    nests = [_bound(case, machine) for case in cases]
    tables = tables_of(nests, machine, prices_of(machine))
    return [
        _played(nest, own, case.wanted, machine, keep)
        for nest, own, case in zip(nests, tables, cases, strict=True)
    ]


def _bound(case: Case, machine: Machine) -> BoundNest:
    env: Env = {**case.values, **first_core(machine)}
    division = case.prepared.division
    if division is not None:
        env |= division.values(env, machine.thread_count)
    return BoundNest(case.prepared, env, case.contest, _doubles(case.prepared.program, env))


def _played(
    nest: BoundNest, tables: Tables, wanted: Flags | None, machine: Machine, keep: int
) -> Estimate:
    """The estimate of a nest by its tables."""
    prepared, prices = nest.prepared, prices_of(machine)
    shape = (len(nest.doubles), tables.iterations.shape[1])
    cycles, compute, busy = (np.full(shape, np.inf) for _ in range(3))
    wanted = np.ones(shape, np.bool_) if wanted is None else wanted
    state = first_of(records_of(prepared, tables, prices, machine))
    contests = int(tables.contest.max(initial=0)) + 1
    all_matter = prices.waits or keep >= cycles.size
    best = np.full((contests, 0 if all_matter else keep), np.inf)
    least = np.zeros(shape[1])
    if best.size:
        least_cycles(state, tables, least)
    order = np.argsort(least, kind="stable")
    if machine.has_window:
        window = window_of(prepared, machine, prices)
        play_window(state, window, tables, wanted, order, least, best, cycles, compute, busy)
    else:
        play(state, tables, wanted, order, least, best, cycles, compute, busy)
    bytes_used = scratchpad_bytes(prepared.program, nest.env)
    cycles = np.asarray(prices.elapsed_cycles(prepared, machine, nest.env, bytes_used, cycles))
    return Estimate(cycles, compute, busy, np.broadcast_to(bytes_used, shape))


def _doubles(program: Program, env: Env) -> Flags:
    """(copies, buffers): which buffers are double in each combination of copies."""
    columns = [np.asarray(evaluate(b.copies, env)).reshape(-1) == 2 for b in program.buffers]
    if not columns:
        return np.zeros((1, 0), np.bool_)
    return np.stack(np.broadcast_arrays(*columns), axis=1)
