"""What a program executes in all: every transfer and every call by its shape, with how often.

In: an instantiated staged or explicit program and a machine. Out: groups of equal transfers and of
equal calls, counted over all iterations, whatever the nesting of loops and conditions. Counting is
done over arrays of the loop indices that an extent or a condition depends on; the other loops
multiply. Shapes are those of core (0, 0), which decide the time of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, Value, evaluate, free_vars
from tilewright.cost.buffers import call_attributes
from tilewright.cost.timing import (
    TransferShape,
    call_cycles,
    call_dims,
    chain_dims,
    shape_of,
    transfer_numbers,
)
from tilewright.ir.chains import Chain, with_chains
from tilewright.ir.nodes import CORE_SYMBOLS, Call, For, If, Program, Stmt, Transfer
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
class _Place:
    """A statement, the loops around it, outermost first, and the conditions it stands under."""

    stmt: Call | Transfer | Chain
    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]


def executed(
    program: Program, machine: Machine
) -> tuple[tuple[TransferGroup, ...], tuple[CallGroup, ...]]:
    """Every transfer and call that `program` executes. Errors: ProgramError for free parameters."""
    if program.parameters:
        raise ProgramError(
            f"program {program.name!r} has parameters without a value: "
            f"{', '.join(program.parameters)}",
            fix="instantiate it first",
        )
    mesh = {"mesh_rows": machine.mesh.rows, "mesh_columns": machine.mesh.columns}
    env = {**mesh, **dict.fromkeys(CORE_SYMBOLS, 0)}
    transfers: list[TransferGroup] = []
    calls: list[CallGroup] = []
    for place in _places(program.body, (), (), lowering_of(machine).chains):
        match place.stmt:
            case Call() as call:
                calls += _calls(call, call_dims(call), place, env)
            case Chain() as chain:
                calls += _calls(chain.call, chain_dims(chain), place, env)
            case Transfer() as transfer:
                transfers += _transfers(transfer, place, program, env)
            case _:
                assert_never(place.stmt)
    return tuple(transfers), tuple(calls)


def cycles_of(group: CallGroup, program: Program, machine: Machine) -> float:
    """Cycles of one call of a group."""
    attributes = call_attributes(group.stmt, program)
    return float(call_cycles(machine, group.stmt.primitive, group.dims, attributes))


def _places(
    body: tuple[Stmt, ...], loops: tuple[For, ...], conditions: tuple[Expr, ...], chains: bool
) -> Iterator[_Place]:
    for stmt in with_chains(body) if chains else body:
        match stmt:
            case For():
                yield from _places(stmt.body, (*loops, stmt), conditions, chains)
            case If(condition, then, orelse):
                yield from _places(then, loops, (*conditions, condition), chains)
                yield from _places(orelse, loops, (*conditions, 1 - condition), chains)
            case Call() | Transfer() | Chain():
                yield _Place(stmt, loops, conditions)
            case _:
                pass


def _calls(
    stmt: Call, dims: Mapping[str, Expr], place: _Place, env: Mapping[str, int]
) -> Iterator[CallGroup]:
    for values, count in _counted(list(dims.values()), place, env):
        yield CallGroup(stmt, dict(zip(dims, values, strict=True)), count)


def _transfers(
    stmt: Transfer, place: _Place, program: Program, env: Mapping[str, int]
) -> Iterator[TransferGroup]:
    tensor = program.tensor(stmt.tensor)
    size = dtype(tensor.dtype).size_bytes
    whole = [int(evaluate(e, env)) for e in tensor.shape]
    for values, count in _counted(transfer_numbers(stmt.ranges), place, env):
        extents = [max(0, value) for value in values[: len(whole)]]
        shape = shape_of(size, whole, [*extents, *values[len(whole) :]])
        if shape.requests:
            yield TransferGroup(stmt, shape, count)


def _counted(
    wanted: Sequence[Expr], place: _Place, env: Mapping[str, int]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Each combination of values of `wanted` that is executed, and how often."""
    used = frozenset[str]().union(*map(free_vars, (*wanted, *place.conditions)))
    used = used.union(*(free_vars(loop.extent) for loop in place.loops))
    found: dict[tuple[int, ...], int] = {}
    for bound, times in _grids([x for x in place.loops if x.var in used], env):
        for loop in place.loops:
            if loop.var not in used:
                times = times * np.maximum(0, evaluate(loop.extent, bound))
        for condition in place.conditions:
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
