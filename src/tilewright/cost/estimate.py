"""The one cost walker: price a staged program for one candidate, or for every candidate of a space at once.

In: a staged-stage program (after boundary handling), a machine and the values of its parameters: integers, or arrays
with one element per candidate. Out: an `Estimate` of the same form. The walk prices each transfer and call once per
kind of iteration it depends on (first, middle, last: only a last tile is smaller, only a first step initialises), as
arrays over the tiles; `cost.pipeline` composes them loop by loop (swATOP 4.6, with the loop's real pipeline in place
of its "maximum of two sums").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, Value, Var, binary, evaluate, free_vars
from tilewright.cost.pipeline import CALL, GET, PUT, Chain, play
from tilewright.cost.timing import (
    call_cycles,
    call_dims,
    issue_cycles,
    transfer_cycles,
    transfer_shape,
)
from tilewright.ir.nodes import Call, For, If, Program, Stmt, Transfer
from tilewright.machine import Machine

Env = dict[str, Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """Cycles of one core group: elapsed, of the cores' primitives, of the DMA engine; scratchpad bytes per core.

    Each is an array (copies, tiles): the front axis varies the numbers of buffer copies, the other everything else.
    A single candidate has one element.
    """

    cycles: Floats
    compute_cycles: Floats
    dma_cycles: Floats
    scratchpad_bytes: Floats


@dataclass(frozen=True)
class _Item:
    """A call or transfer, the condition it stands under, and where it stands in the chain of loops."""

    stmt: Call | Transfer
    condition: Expr
    level: int
    after: bool


def estimate(program: Program, machine: Machine, values: Mapping[str, Value]) -> Estimate:
    """Price `program` with its parameters bound to `values`.

    Copy counts may be arrays of shape (copies, 1), all other values integers or arrays of shape (tiles,).
    """
    env = _environment(values, machine)
    loops, items = _chain(program.body)
    doubles = _doubles(program, env)
    chain = _arrays(program, loops, items, env, machine, _width(env))
    shape = (len(doubles), chain.counts.shape[1])
    cycles, compute, busy = np.empty(shape), np.empty(shape), np.empty(shape)
    play(chain, doubles, float(machine.dma.latency_cycles), cycles, compute, busy)
    size = np.broadcast_to(scratchpad_bytes(program, env), shape)
    return Estimate(cycles, compute, busy, size)


def _environment(values: Mapping[str, Value], machine: Machine) -> Env:
    mesh = {"mesh_rows": machine.mesh.rows, "mesh_columns": machine.mesh.columns}
    return {**values, "rid": 0, "cid": 0, **mesh}


def scratchpad_bytes(program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes of scratchpad that the program's buffers take on each core."""
    total: Value = 0
    for b in program.buffers:
        total = total + evaluate(b.elements * b.copies, env) * dtype(b.dtype).size_bytes
    return total


def _width(env: Env) -> int:
    return max(
        (v.size for v in env.values() if isinstance(v, np.ndarray) and v.ndim == 1), default=1
    )


def _doubles(program: Program, env: Env) -> npt.NDArray[np.bool_]:
    """(copies, buffers): which buffers are double in each combination of copies."""
    columns = [np.asarray(evaluate(b.copies, env)).reshape(-1) == 2 for b in program.buffers]
    return np.stack(np.broadcast_arrays(*columns), axis=1)


def _chain(body: tuple[Stmt, ...]) -> tuple[list[For], list[_Item]]:
    """The loops of a nest, outermost first, and the items at every level."""
    loops: list[For] = []
    items: list[_Item] = []
    here: tuple[Stmt, ...] | None = body
    while here is not None:
        level, inner = len(loops), None
        for stmt in here:
            if isinstance(stmt, For):
                if inner is not None:
                    raise ProgramError("an estimate needs one chain of loops, not two side by side")
                inner = stmt
                loops.append(stmt)
            else:
                items += _flat(stmt, Const(1), level, inner is not None)
        here = inner.body if inner else None
    return loops, items


def _flat(stmt: Stmt, condition: Expr, level: int, after: bool) -> Iterator[_Item]:
    match stmt:
        case If(test, then, orelse):
            for part, holds in ((then, test), (orelse, 1 - test)):
                for inner in part:
                    yield from _flat(inner, condition * holds, level, after)
        case Call() | Transfer():
            yield _Item(stmt, condition, level, after)
        case _:
            return


def _arrays(
    program: Program, loops: list[For], items: list[_Item], env: Env, machine: Machine, width: int
) -> Chain:
    counts = [evaluate(f.extent, env) for f in loops]
    indices = [_kinds(f, count) for f, count in zip(loops, counts, strict=True)]
    buffers = {b.name: i for i, b in enumerate(program.buffers)}
    ordered = [i for i in items if not i.after] + [i for i in reversed(items) if i.after]
    ordered.sort(key=lambda i: (i.level, i.after))
    rows: list[tuple[Value, Value]] = []
    base, strides, kinds, places = [], [], [], []
    for item in ordered:
        relevant = [d for d in range(item.level) if loops[d].var in _symbols(item)]
        base.append(len(rows))
        strides.append(_strides(relevant, indices, len(loops)))
        kinds.append(_kind(item.stmt))
        places.append(buffers[item.stmt.buffer] if isinstance(item.stmt, Transfer) else 0)
        for chosen in combinations(*(indices[d] for d in relevant)):
            at = {loops[d].var: index for d, index in zip(relevant, chosen, strict=True)}
            rows.append(_cost(item, program, {**env, **_zeros(loops), **at}, machine))
    spans = [[_span(ordered, d, after) for d in range(len(loops) + 1)] for after in (False, True)]
    return Chain(
        np.array(spans[0], np.int64),
        np.array(spans[1], np.int64),
        np.array(kinds, np.int64),
        np.array(places, np.int64),
        np.array(base, np.int64),
        np.array(strides, np.int64).reshape(len(ordered), max(1, len(loops))),
        np.array([len(i) for i in indices], np.int64),
        _stacked(counts, width),
        _stacked([r[0] for r in rows], width),
        _stacked([r[1] for r in rows], width),
    )


def _stacked(rows: Sequence[Value], width: int) -> Floats:
    result = np.empty((len(rows), width))
    for i, row in enumerate(rows):
        result[i] = row
    return result


def _span(ordered: list[_Item], level: int, after: bool) -> tuple[int, int]:
    own = [i for i, item in enumerate(ordered) if (item.level, item.after) == (level, after)]
    return (own[0], own[-1] + 1) if own else (0, 0)


def _zeros(loops: list[For]) -> Env:
    return {f.var: 0 for f in loops}


def _kind(stmt: Call | Transfer) -> int:
    if isinstance(stmt, Call):
        return CALL
    return GET if stmt.direction == "get" else PUT


def _strides(relevant: list[int], indices: list[list[Value]], loops: int) -> list[int]:
    strides, step = [0] * max(1, loops), 1
    for d in reversed(relevant):
        strides[d] = step
        step *= len(indices[d])
    return strides


def _symbols(item: _Item) -> frozenset[str]:
    """Symbols that the item's cost depends on: extents and conditions, never addresses."""
    found = free_vars(item.condition)
    match item.stmt:
        case Transfer(_, _, ranges):
            return found.union(*(free_vars(r.extent) for r in ranges))
        case Call():
            return found.union(*(free_vars(e) for e in call_dims(item.stmt).values()))


def _cost(item: _Item, program: Program, env: Env, machine: Machine) -> tuple[Value, Value]:
    """(service or call cycles, issue cycles), zero where the condition does not hold."""
    holds = evaluate(item.condition, env)
    if isinstance(item.stmt, Call):
        dims = {name: evaluate(e, env) for name, e in call_dims(item.stmt).items()}
        cycles = call_cycles(machine, item.stmt.primitive, dims, dict(item.stmt.attributes))
        return cycles * holds, 0.0
    tensor = program.tensor(item.stmt.tensor)
    shape = transfer_shape(
        dtype(tensor.dtype).size_bytes,
        [evaluate(e, env) for e in tensor.shape],
        [evaluate(r.extent, env) for r in item.stmt.ranges],
        [evaluate(r.step, env) for r in item.stmt.ranges],
    )
    service = transfer_cycles(machine, item.stmt.direction, shape)
    return service * holds, issue_cycles(machine, shape) * holds


def _kinds(loop: For, count: Value) -> list[Value]:
    """A loop index for each kind of iteration."""
    first, last = _dependence(loop)
    if first:
        return [0, np.minimum(1, count - 1), count - 1]
    return [0, count - 1] if last else [0]


def _dependence(loop: For) -> tuple[bool, bool]:
    """Whether the body's cost differs in the first, and in the last iteration."""
    symbols, first = _body_dependence(loop.body, loop.var)
    return first, symbols


def _body_dependence(body: tuple[Stmt, ...], var: str) -> tuple[bool, bool]:
    last = first = False
    for item in _all_items(body, Const(1)):
        if var in free_vars(item.condition):
            first = first or _tests_zero(item.condition, var)
        last = last or var in _symbols(item)
    return last, first


def _all_items(body: tuple[Stmt, ...], condition: Expr) -> Iterator[_Item]:
    for stmt in body:
        if isinstance(stmt, For):
            yield from _all_items(stmt.body, condition)
        else:
            yield from _flat(stmt, condition, 0, False)


def _tests_zero(condition: Expr, var: str) -> bool:
    """Whether `var == 0` is part of the condition."""
    if condition == binary("==", Var(var), 0):
        return True
    return any(_tests_zero(part, var) for part in _parts(condition))


def _parts(e: Expr) -> tuple[Expr, ...]:
    return () if isinstance(e, Const | Var) else (e.a, e.b)
