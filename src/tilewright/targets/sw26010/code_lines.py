"""Lines of the instruction cache that the calls of a program execute.

In: a program and a machine. Out: `CodeLines`, to determine which lines routines evict of each
other. A call executes the lines that its routine executes on the simulated cores with the call's
extents: those of the slowest core, whose cycles are the price, each mode weighted by its share of
the calls. The length of the GEMM primitive's program (`kernel`) follows from its `GemmPlan` without
generating it. Scheduling moves instructions and adds none, so only the unrolling, the parts of an
iteration in each role, and the number of instructions per pointer step matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.common.digest import digest, own_sources
from tilewright.common.errors import CapacityError, ProgramError, ScheduleError
from tilewright.cost.calls import PricedCall, priced_call
from tilewright.cost.fetches import CodeLines
from tilewright.cost.totals import calls_of_statements
from tilewright.ir.nodes import Program
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import instantiate
from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.targets.sw26010.calls.expressions import ROUTINES
from tilewright.targets.sw26010.elementwise.maps import MapRoutine
from tilewright.targets.sw26010.elementwise.reduce import ReduceRoutine
from tilewright.targets.sw26010.elementwise.routines import Routine
from tilewright.targets.sw26010.gemm.assembly import frame
from tilewright.targets.sw26010.gemm.blocks import block_step_bytes, pack_code
from tilewright.targets.sw26010.gemm.chain import (
    WORD,
    chain_distances,
    chain_pointers,
    chain_rows,
    passed_bytes,
    walked_bytes,
)
from tilewright.targets.sw26010.gemm.instances import GemmInstance, called_instances
from tilewright.targets.sw26010.gemm.kernel import (
    A_ADDRESS,
    COLUMN,
    KEPT,
    ROW,
    address_entries,
    product_pointers,
    product_rows,
    step_tables,
)
from tilewright.targets.sw26010.gemm.parts import BLOCK, Role
from tilewright.targets.sw26010.gemm.shape import LARGEST_DISPLACEMENT, SCALAR_BLOCK, GemmPlan
from tilewright.targets.sw26010.gemm.steps import (
    block_pairs,
    bookkeeping,
    counted_parts,
    roles_of_chain,
    roles_of_cores,
    step_pairs,
    unrolling,
)
from tilewright.targets.sw26010.names import mesh_bindings
from tilewright.targets.sw26010.routines import RoutineUse, uses_of
from tilewright.targets.sw26010.timing.nests import AnyRoutine, around
from tilewright.targets.sw26010.timing.reductions import Extents

_VECTORS = BLOCK * BLOCK
"""Loads or stores of a block of C."""


@cache
def kernel_length(plan: GemmPlan) -> int:
    """Number of instructions of a plan's program."""
    mesh = plan.shape.mesh
    chain = plan.shape.links > 1
    cores = roles_of_cores(mesh)
    first, last = ({roles[at] for roles in cores} for at in (0, -1))
    packing = len(pack_code(plan, A_ADDRESS)) if plan.packs_vector else 0
    return (
        packing
        + _around(plan)
        + (_chain_steps(plan) if chain else _steps(plan))
        + sum(_start(plan, role) for role in first)
        + sum(_drain(plan, role) for role in last)
        + _blocks(plan)
    )


def executed_length(plan: GemmPlan) -> int:
    """Number of instructions, from the first on, that some core executes. Changes of blocks stand
    last, and rows of one block have none.
    """
    return kernel_length(plan) - (_blocks(plan) if plan.scalar_blocks == 1 else 0)


def _blocks(plan: GemmPlan) -> int:
    return sum(_block(plan, *pair) for pair in block_pairs(plan.shape.mesh))


def _around(plan: GemmPlan) -> int:
    """Instructions of the tables of jump targets, and of the loop over rows of blocks."""
    if plan.shape.links > 1:
        pointers, rows = chain_pointers(plan, ROW, COLUMN), chain_rows(plan)
        distances = len(chain_distances(plan))
    else:
        pointers, rows, distances = product_pointers(plan), product_rows(plan), 0
    tables = 2 + 2 * len(address_entries(plan.shape.mesh)) + len(step_tables(plan))
    setup = len(KEPT) + 1 + tables + len(pointers) + distances
    return setup + sum(map(len, rows)) + 2 + len(KEPT) + 1


def _advance(step_bytes: int) -> int:
    return -(-abs(step_bytes) // LARGEST_DISPLACEMENT)


def _parts(plan: GemmPlan, role: Role) -> tuple[int, int, int]:
    """Instructions of an iteration: before the jump, behind it, and beside the iteration before."""
    return counted_parts(plan.variant.precision, role)


def _loop(plan: GemmPlan, role: Role) -> int:
    """All iterations of a step except the last, with the jump behind them."""
    how, parts = unrolling(plan), _parts(plan, role)
    length = (how.body * bool(how.trips) + how.rest) * sum(parts) + parts[0] + 1
    if how.trips:
        steps = plan.vector_step * role.sends_vector, plan.scalar_step * role.sends_scalar
        length += 2 + sum(_advance(how.body * step) for step in steps)
    return length


def _between(plan: GemmPlan, now: Role, then: Role) -> int:
    """The last iteration of a step, and the first operands of the next."""
    return _parts(plan, now)[1] + _parts(plan, then)[2]


def _steps(plan: GemmPlan) -> int:
    pairs, extra = step_pairs(plan.shape.mesh), len(bookkeeping(plan))
    found = sum(_between(plan, *pair) + extra + _loop(plan, pair[1]) for pair in pairs)
    alone = {then for _, then in block_pairs(plan.shape.mesh)} - {then for _, then in pairs}
    return found + sum(_loop(plan, role) for role in alone)


def _opening(plan: GemmPlan, behind: int = 0) -> int:
    return 2 + _advance(WORD - behind) + bool(unrolling(plan).trips)


def _chain_steps(plan: GemmPlan) -> int:
    found = 0
    for role in roles_of_chain(plan.shape.mesh):
        sent = role.sends_vector + role.sends_scalar
        link = _between(plan, role, role) + sent + 1 + bool(sent) + bool(unrolling(plan).trips)
        found += link + _loop(plan, role) + sent + 1
    for now, then in step_pairs(plan.shape.mesh):
        found += _between(plan, now, then) + _opening(plan, walked_bytes(plan, now)) + 1
    return found


def _start(plan: GemmPlan, then: Role) -> int:
    opening = 1 + _opening(plan) if plan.shape.links > 1 else len(bookkeeping(plan))
    return _VECTORS + opening + _parts(plan, then)[2] + 1


def _drain(plan: GemmPlan, now: Role) -> int:
    length = _parts(plan, now)[1] + _VECTORS + 1
    return length + 1 + _advance(passed_bytes(plan, now)) if plan.shape.links > 1 else length


def _block(plan: GemmPlan, now: Role, then: Role) -> int:
    length = _between(plan, now, then) + 2 * _VECTORS + 1
    if plan.shape.links == 1:
        steps = [*block_step_bytes(plan), 8 * plan.shape.mesh]
        return length + sum(map(_advance, steps)) + 4 + len(bookkeeping(plan))
    steps = [SCALAR_BLOCK * stride for stride in (plan.scalar_stride, plan.result_stride)]
    return length + sum(map(_advance, [*steps, passed_bytes(plan, now)])) + 11 + _opening(plan)


_Places: TypeAlias = npt.NDArray[np.int64]
_Routine: TypeAlias = GemmInstance | AnyRoutine
_ORDER = (Routine, MapRoutine, ReduceRoutine, GemmInstance)
"""Kinds of routines in the order of their texts: expressions behind others, products last."""
_Runs: TypeAlias = Sequence[tuple[_Routine, float, Callable[[str], _Places]]]
"""The routines of a call, the share of such calls in which each runs, and what it executes then."""


def code_lines(program: Program, machine: Machine) -> CodeLines | None:
    """The lines that a program's calls execute. None if the core has no instruction cache or no
    instruction table, a product has no routine, or all routines fit together. Routines are in the
    order of their texts, those of a kind in the order of their calls. Compiled loops have no lines.
    """
    try:
        return _lines(program, machine)
    except (CapacityError, ProgramError, ScheduleError):  # simulated, but not emitted
        return None


def _lines(program: Program, machine: Machine) -> CodeLines | None:
    name = machine.core.instruction_table
    table = load_table(name) if name else None
    if name is None or table is None or table.instruction_cache is None:
        return None
    own = table.instruction_cache
    bound = instantiate(program, mesh_bindings(machine))
    instances = {id(call): every for call, every in called_instances(bound, machine)}
    routines: dict[str, _Routine] = {}
    calls: dict[tuple[int, tuple[int, ...]], _Runs] = {}
    for number, groups in enumerate(calls_of_statements(bound, machine)):
        for group in groups:
            call = priced_call(group.stmt, group.dims, bound)
            some = min(group.dims.values(), default=1) > 0
            runs = _runs(call, instances.get(id(group.stmt), ()), name) if some else []
            routines |= {_symbol(routine): routine for routine, *_ in runs}
            if runs:
                calls[number, tuple(group.dims.values())] = runs
    order = sorted(routines, key=lambda symbol: _ORDER.index(type(routines[symbol])))
    words = (_instructions(routines[symbol]) for symbol in order)
    counts = [-(-count * table.word_bits // 8 // own.line_bytes) for count in words]
    if sum(counts) <= own.sets * own.ways:
        return None
    starts = dict(zip(order, accumulate(counts[:-1], initial=0), strict=True))
    per_line = own.line_bytes * 8 // table.word_bits
    lines, shares = [], []
    for runs in calls.values():
        of_runs = [starts[_symbol(r)] + np.unique(run(name) // per_line) for r, _, run in runs]
        every, places = np.unique(np.concatenate(of_runs), return_inverse=True)
        weights = np.repeat([share for _, share, _ in runs], [*map(len, of_runs)])
        lines.append(tuple(every.tolist()))
        shares.append(tuple(np.minimum(np.bincount(places, weights), 1).tolist()))
    return CodeLines(own, tuple(lines), tuple(shares), {call: n for n, call in enumerate(calls)})


def _symbol(routine: _Routine) -> str:
    return routine.symbol if isinstance(routine, GemmInstance) else routine.name


def _runs(call: PricedCall[Primitive], instances: Sequence[GemmInstance], table: str) -> _Runs:
    """The routines that a call runs; none for a compiled loop."""
    dims = call.dims
    if isinstance(call.primitive, MatrixProduct):
        links = int(dims.get("links", 1))
        extents = dims["m"], dims["n"], dims["k"] // links, links
        shapes = [(i.shape.m, i.shape.n, i.shape.k, i.shape.links) for i in instances]
        own = instances[shapes.index(extents)]
        return [(own, 1.0, partial(_of_product, own))]
    uses = uses_of(call, table)
    return [(u.routine, min(float(u.calls), 1.0), partial(_of_use, u)) for u in uses]


# A call's code depends on whether loops go on and on the rest of a row, not on how long a loop goes
# on: the shortest call that executes the same code is simulated.
_WHOLE_GROUPS = 32
"""A multiple of the elements of every group that a row or a run is done in."""


def _goes_on(iterations: int) -> int:
    return min(iterations, 2)


def _shortest(count: int) -> int:
    return count if count < _WHOLE_GROUPS else _WHOLE_GROUPS + count % _WHOLE_GROUPS


def _shortest_sample(use: RoutineUse) -> Any:
    match use.routine:
        case ReduceRoutine():
            counts, extents = use.sample
            loops = tuple(map(_goes_on, counts))
            outer, inner = (_goes_on(int(count)) for count in (extents.outer, extents.inner))
            row, length = (_shortest(int(count)) for count in (extents.row, extents.length))
            return loops, Extents(prod(loops), row, outer, inner, length, around(loops))
        case Routine(work=None):
            rows, new, old = use.sample
            kept = _shortest(min(new, old))
            return _goes_on(rows), kept + _shortest(max(new - old, 0)), kept + (new < old)
        case _:
            *loops, items = use.sample
            return *map(_goes_on, loops), _shortest(items)


def _of_use(use: RoutineUse, table: str) -> _Places:
    return _executed(replace(use, sample=_shortest_sample(use), text="", calls=1), table)


@cache
def _executed(use: RoutineUse, table: str) -> _Places:
    """The instructions that a call executes, cached beside the texts of routines."""
    key = digest("executed", own_sources(), repr((table, use.routine, use.mode, use.sample)))
    found = ROUTINES.value(key, list[int], lambda: np.flatnonzero(use.run(table).executed).tolist())
    return np.array(found, np.int64)


@cache
def _of_product(instance: GemmInstance, table: str) -> _Places:
    """Places of the frame, and of all cores of the mesh in the program behind it."""
    return np.arange(_frame(instance) + executed_length(instance.plan))


def _frame(instance: GemmInstance) -> int:
    return len([*frame("", chain=instance.shape.links > 1)])


@cache
def _instructions(routine: _Routine) -> int:
    """Instructions of a product with its frame, or of an elementwise routine. Counting the latter
    takes a schedule, so these are cached beside the texts of routines.
    """
    if isinstance(routine, GemmInstance):
        return _frame(routine) + kernel_length(routine.plan)
    key = digest("instructions", own_sources(), repr(routine))
    return ROUTINES.value(key, int, lambda: len(routine.code()))
