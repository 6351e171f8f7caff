"""Count all that a program executes: every transfer and every call by its shape, with how often.

In: an instantiated staged or explicit program and a machine. Out: groups of equal transfers and of
equal calls, counted over all iterations, whatever the nesting of loops and conditions. Counting is
done over arrays of the loop indices that an extent or a condition depends on; the other loops
multiply. Shapes are those of core (0, 0), which decide the time of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, Value, evaluate, free_vars
from tilewright.cost.calls import call_cycles, priced_call
from tilewright.cost.prices import call_costs
from tilewright.cost.steps import (
    BranchStep,
    CallStep,
    LoopStep,
    Step,
    TransferStep,
    first_core,
    steps_of,
)
from tilewright.cost.timing import TransferShape
from tilewright.ir.nodes import Call, For, Program, Transfer
from tilewright.machine import Machine
from tilewright.passes.lowering import lowering_of

_LARGEST_GRID = 1 << 21
"""Iterations that are counted at once; a larger space is counted in slices of its first loop."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TransferGroup:
    """Equal transfers: `count` times, each core moves this shape."""

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
    """A statement, the loops around it, outermost first, and the conditions it stands under."""

    step: CallStep | TransferStep
    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]


def executed(
    program: Program, machine: Machine
) -> tuple[tuple[TransferGroup, ...], tuple[CallGroup, ...]]:
    """Every transfer and call that `program` executes. Errors: ProgramError for free parameters."""
    env, found = first_core(machine), list[TransferGroup]()
    for occurrence in _every(program, machine):
        if isinstance(occurrence.step, TransferStep):
            found += _transfers(occurrence.step, occurrence, env)
    return tuple(found), executed_calls(program, machine)


def executed_calls(program: Program, machine: Machine) -> tuple[CallGroup, ...]:
    """Every call that `program` executes. Errors: ProgramError for free parameters."""
    return tuple(group for groups in calls_of_statements(program, machine) for group in groups)


def calls_of_statements(program: Program, machine: Machine) -> Iterator[tuple[CallGroup, ...]]:
    """The calls that each statement executes, in the order of the text; raises as above."""
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
    """Each combination of values of `wanted` that is executed, and how often."""
    used = frozenset[str]().union(*map(free_vars, (*wanted, *occurrence.conditions)))
    used = used.union(*(free_vars(loop.extent) for loop in occurrence.loops))
    found: dict[tuple[int, ...], int] = {}
    for bound, times in _grids([x for x in occurrence.loops if x.var in used], env):
        for loop in occurrence.loops:
            if loop.var not in used:
                times = times * np.maximum(0, evaluate(loop.extent, bound))
        for condition in occurrence.conditions:
            times = times * np.not_equal(evaluate(condition, bound), 0)
        columns = np.broadcast_arrays(times, *(evaluate(e, bound) for e in wanted))
        rows = np.stack([np.ravel(column) for column in columns], axis=1).astype(np.int64)
        _add(rows[rows[:, 0] > 0], found)
    yield from found.items()


def _add(rows: Rows, found: dict[tuple[int, ...], int]) -> None:
    distinct, inverse = np.unique(rows[:, 1:], axis=0, return_inverse=True)
    counts = np.bincount(inverse.ravel(), weights=rows[:, 0], minlength=len(distinct))
    for values, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        found[tuple(values)] = found.get(tuple(values), 0) + round(count)


def _grids(loops: Sequence[For], env: Mapping[str, int]) -> Iterator[tuple[dict[str, Any], Value]]:
    """The loop indices as arrays, one axis each, with 1 where an iteration exists and else 0.

    An extent that depends on outer loops takes its largest value, and what is beyond is masked.
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
