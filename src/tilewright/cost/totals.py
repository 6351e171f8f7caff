"""Count the transfers and calls that a program executes, grouped by shape.

In: an instantiated staged or explicit program and a machine. Out: groups of equal transfers and of
equal calls, counted over all iterations, whatever the nesting of loops and conditions. Counting
runs over arrays of the loop indices that an extent or a condition depends on; the other loops
multiply. Shapes are those of core (0, 0), which decide the time of all cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.classes import classes_of_table
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, Value, evaluate, free_vars
from tilewright.cost.calls import call_cycles, priced_call
from tilewright.cost.prices import call_costs, prices_of
from tilewright.cost.steps import (
    BranchStep,
    CallStep,
    LoopStep,
    Step,
    TransferStep,
    first_core,
    steps_of,
)
from tilewright.cost.timing import TransferShape, issue_cycles, transfer_cycles
from tilewright.ir.nodes import Call, For, Program, Transfer
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.threads import busiest_thread, thread_meetings
from tilewright.machine import Machine
from tilewright.passes.lowering import lowering_of

_LARGEST_GRID = 1 << 21
"""Most iterations counted at once; a larger space is counted in slices of its first loop."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TransferGroup:
    """Equal transfers: each core moves this shape `count` times."""

    stmt: Transfer
    shape: TransferShape
    count: int


@dataclass(frozen=True)
class CallGroup:
    """Equal calls: `count` times with the extents `dims` on each core."""

    stmt: Call
    dims: Mapping[str, int]
    count: int


@dataclass(frozen=True)
class _Occurrence:
    """A step, the loops around it, outermost first, and the conditions that guard it."""

    step: CallStep | TransferStep
    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]


def executed(
    program: Program, machine: Machine
) -> tuple[tuple[TransferGroup, ...], tuple[CallGroup, ...]]:
    """Every transfer and call that `program` executes. Raises ProgramError for free parameters."""
    env, found = first_core(machine), list[TransferGroup]()
    for occurrence in _every(program, machine):
        if isinstance(occurrence.step, TransferStep):
            found += _transfers(occurrence.step, occurrence, env)
    return tuple(found), executed_calls(program, machine)


def executed_calls(program: Program, machine: Machine) -> tuple[CallGroup, ...]:
    """Every call that `program` executes. Raises ProgramError for free parameters."""
    return tuple(group for groups in calls_of_statements(program, machine) for group in groups)


def calls_of_statements(program: Program, machine: Machine) -> Iterator[tuple[CallGroup, ...]]:
    """The calls that each statement executes, in program order; raises as `executed` does."""
    env = first_core(machine)
    for occurrence in _every(program, machine):
        if isinstance(occurrence.step, CallStep):
            yield tuple(_calls(occurrence.step, occurrence, env))


def _every(program: Program, machine: Machine) -> Iterator[_Occurrence]:
    if program.parameters:
        raise ProgramError(
            f"program {program.name!r} has parameters without a value: "
            f"{', '.join(program.parameters)}",
            fix="instantiate it first",
        )
    yield from _occurrences(steps_of(program, chains=lowering_of(machine).chains), (), ())


def cycles_of(group: CallGroup, program: Program, machine: Machine) -> float:
    """Cycles of one call of a group."""
    call = priced_call(group.stmt, group.dims, program)
    return float(call_cycles(machine, call, call_costs(machine)))


def _occurrences(
    steps: tuple[Step, ...], loops: tuple[For, ...], conditions: tuple[Expr, ...]
) -> Iterator[_Occurrence]:
    for step in steps:
        match step:
            case LoopStep(stmt, body):
                yield from _occurrences(body, (*loops, stmt), conditions)
            case BranchStep(condition, then, orelse):
                yield from _occurrences(then, loops, (*conditions, condition))
                yield from _occurrences(orelse, loops, (*conditions, 1 - condition))
            case CallStep() | TransferStep():
                yield _Occurrence(step, loops, conditions)
            case _:
                pass


def _calls(step: CallStep, occurrence: _Occurrence, env: Mapping[str, int]) -> Iterator[CallGroup]:
    for values, count in _occurrence_counts(list(step.dims.values()), occurrence, env):
        yield CallGroup(step.stmt, dict(zip(step.dims, values, strict=True)), count)


def _transfers(
    step: TransferStep, occurrence: _Occurrence, env: Mapping[str, int]
) -> Iterator[TransferGroup]:
    whole = [int(evaluate(e, env)) for e in step.tensor_shape]
    for values, count in _occurrence_counts(step.numbers, occurrence, env):
        shape = step.shape(whole, values)
        if shape.requests:
            yield TransferGroup(step.stmt, shape, count)


def _occurrence_counts(
    wanted: Sequence[Expr], occurrence: _Occurrence, env: Mapping[str, int]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """(values, count) of each combination of values of `wanted` that is executed."""
    used = frozenset[str]().union(*map(free_vars, (*wanted, *occurrence.conditions)))
    used = used.union(*(free_vars(loop.extent) for loop in occurrence.loops))
    found: dict[tuple[int, ...], int] = {}
    for bound, times in _grids([x for x in occurrence.loops if x.var in used], env):
        for loop in occurrence.loops:
            if loop.var not in used:
                times = times * np.maximum(0, evaluate(loop.extent, bound))
        for condition in occurrence.conditions:
            times = times * np.not_equal(evaluate(condition, bound), 0)
        _add([times, *(evaluate(e, bound) for e in wanted)], found)
    yield from found.items()


def _add(columns: Sequence[Value], found: dict[tuple[int, ...], int]) -> None:
    """Add the count of each combination of values to `found`, in ascending order of the values; the
    first column holds the counts, the others the values.
    """
    table = np.stack([np.ravel(c) for c in np.broadcast_arrays(*columns)]).astype(np.int64)
    table = np.ascontiguousarray(table[:, table[0] > 0])
    code, first = classes_of_table(table[1:])
    counts = np.bincount(code, weights=table[0], minlength=len(first))
    for values, count in sorted(zip(table[1:, first].T.tolist(), counts.tolist(), strict=True)):
        found[tuple(values)] = found.get(tuple(values), 0) + round(count)


def _grids(loops: Sequence[For], env: Mapping[str, int]) -> Iterator[tuple[dict[str, Any], Value]]:
    """(symbols with loop indices as arrays, one axis each; 1 where an iteration exists, else 0).

    An axis is as long as its loop's largest extent; iterations beyond the actual extent are masked.
    """
    extents: list[int] = []
    bound: dict[str, Any] = dict(env)
    for axis, loop in enumerate(loops):
        extents.append(max(0, int(np.max(evaluate(loop.extent, bound), initial=0))))
        bound[loop.var] = _axis(np.arange(extents[axis]), axis, len(loops))
    if not loops:
        yield bound, np.int64(1)
        return
    inner = int(np.prod(extents[1:]))
    step = max(1, _LARGEST_GRID // max(1, inner))
    for first in range(0, extents[0], step):
        indices = np.arange(first, min(first + step, extents[0]))
        here = {**bound, loops[0].var: _axis(indices, 0, len(loops))}
        exists: Value = np.int64(1)
        for loop in loops:
            if not isinstance(loop.extent, Const):
                exists = exists * (here[loop.var] < evaluate(loop.extent, here))
        yield here, exists * np.ones((1,) * len(loops), np.int64)


def _axis(values: Rows, axis: int, rank: int) -> Rows:
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


# The modelled time of a program by cause, where the core makes its copies itself: the time of the
# busiest thread.

Cause = tuple[str, str]
"""Kind of a cause, and its subject."""


def model_causes(program: Program, machine: Machine, cycles: float) -> list[tuple[Cause, int]]:
    """Whole cycles of each cause, the largest first; they sum to `cycles`, rounded.

    Cycles that calls, copies and barriers do not explain are waits for operands in place, the cause
    `caches`.
    """
    program = prices_of(machine).as_emitted(program, machine)
    transfers, calls = executed(replace(program, body=busiest_thread(program.body)), machine)
    causes: dict[Cause, float] = {}
    if machine.threads is not None and machine.threads.count > 1:
        met = thread_meetings(program.body) + 1
        causes["barrier", ""] = met * machine.threads.meet_cycles
    for call in calls:
        for kind, own in _parts(call, program, machine):
            key = (kind, call.stmt.primitive.name)
            causes[key] = causes.get(key, 0.0) + call.count * own
    for moved in transfers:
        key = ("copy", f"{moved.stmt.tensor} {moved.stmt.direction}")
        causes[key] = causes.get(key, 0.0) + moved.count * copy_cycles(moved, machine)
    return _whole(causes, round(cycles))


def _parts(call: CallGroup, program: Program, machine: Machine) -> tuple[tuple[str, float], ...]:
    """The cycles of one call by cause: for a product, those at the core's peak and those beyond."""
    primitive, cycles = call.stmt.primitive, cycles_of(call, program, machine)
    if not isinstance(primitive, MatrixProduct):
        return (("primitive", cycles),)
    core, kind = machine.core, priced_call(call.stmt, call.dims, program).dtype
    peak = core.peak_flops_per_cycle(kind if kind in core.arithmetic else core.usual_type)
    flops = float(primitive.flops(call.dims, machine.mesh.columns))
    useful = min(flops / peak, cycles)
    return (("compute useful", useful), ("compute overhead", cycles - useful))


def copy_cycles(group: TransferGroup, machine: Machine) -> float:
    """Cycles of one transfer that the core makes itself."""
    service = transfer_cycles(machine, group.stmt.direction, group.shape)
    return float(service + issue_cycles(machine, group.shape))


def _whole(causes: dict[Cause, float], cycles: int) -> list[tuple[Cause, int]]:
    """Round to whole cycles that sum to the estimate."""
    found = [(cause, round(c)) for cause, c in causes.items() if round(c)]
    found.sort(key=lambda item: -item[1])
    rest = cycles - sum(c for _, c in found)
    if rest > 0:
        found.append((("caches", ""), rest))
    elif found:  # what rounding added
        cause, most = found[0]
        found[0] = (cause, most + rest)
    return sorted(found, key=lambda item: -item[1])
