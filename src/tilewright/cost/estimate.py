"""The one cost walker: price a staged program for one candidate, or for every candidate of a space
at once.

In: a staged-stage program (after boundary handling), a machine and the values of its parameters:
integers, or arrays
with one element per candidate. Out: an `Estimate` of the same form. The walk prices each transfer
and call once per
kind of iteration it depends on (first, middle, last: only a last tile is smaller, only a first step
initialises), as
arrays over the tiles; `cost.pipeline` composes them loop by loop (swATOP 4.6, with the loop's real
pipeline in place
of its "maximum of two sums").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Value, evaluate
from tilewright.cost.chain import Item, Prepared, Values, kind_indices, prepare
from tilewright.cost.pipeline import play
from tilewright.cost.pipeline_types import CALL, GET, PUT, Chain
from tilewright.cost.timing import call_cycles, issue_cycles, transfer_cycles, transfer_shape
from tilewright.ir.nodes import Call, Program, Transfer
from tilewright.machine import Machine

Env = dict[str, Any]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Estimate:
    """Cycles of one core group: elapsed, of the cores' primitives, of the DMA engine; scratchpad
    bytes per core.

    Each is an array (copies, tiles): the front axis varies the numbers of buffer copies, the other
    everything else.
    A single candidate has one element.
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
    (tiles,). Candidates
    that are not `wanted` (copies, tiles) are left at infinity. A program that is priced often is
    `prepare`d once.
    """
    prepared = prepare(program) if isinstance(program, Program) else program
    mesh = {"mesh_rows": machine.mesh.rows, "mesh_columns": machine.mesh.columns}
    env: Env = {**values, "rid": 0, "cid": 0, **mesh}
    doubles = _doubles(prepared.program, env)
    chain = _arrays(prepared, env, machine)
    shape = (len(doubles), chain.counts.shape[1])
    cycles, compute, busy = (np.full(shape, np.inf) for _ in range(3))
    wanted = np.ones(shape, np.bool_) if wanted is None else wanted
    play(chain, doubles, wanted, float(machine.dma.latency_cycles), cycles, compute, busy)
    size = np.broadcast_to(scratchpad_bytes(prepared.program, env), shape)
    return Estimate(cycles, compute, busy, size)


def scratchpad_bytes(program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes of scratchpad that the program's buffers take on each core."""
    total: Value = 0
    for b in program.buffers:
        total = total + evaluate(b.elements * b.copies, env) * dtype(b.dtype).size_bytes
    return total


def _width(env: Env) -> int:
    sizes = (v.size for v in env.values() if isinstance(v, np.ndarray) and v.ndim == 1)
    return max(sizes, default=1)


def _doubles(program: Program, env: Env) -> Flags:
    """(copies, buffers): which buffers are double in each combination of copies."""
    columns = [np.asarray(evaluate(b.copies, env)).reshape(-1) == 2 for b in program.buffers]
    return np.stack(np.broadcast_arrays(*columns), axis=1)


def _arrays(prepared: Prepared, env: Env, machine: Machine) -> Chain:
    width = _width(env)
    values = Values(prepared, env)
    counts = [values(extent) for extent in prepared.extents]
    indices = [kind_indices(k, n) for k, n in zip(prepared.kinds, counts, strict=True)]
    values.indices = indices
    rows: list[tuple[Value, Value]] = []
    for item in prepared.items:
        for chosen in combinations(*(range(len(indices[d])) for d in item.relevant)):
            values.place = dict(zip(item.relevant, chosen, strict=True))
            rows.append(_cost(item, prepared.program, values, machine))
    service, issue = _stacked([r[0] for r in rows], width), _stacked([r[1] for r in rows], width)
    layout = prepared.layout
    uniform = _uniform(layout.base, layout.strides, prepared.kinds, service)
    return Chain(
        layout.before,
        layout.after,
        np.array([_kind(i.stmt) for i in prepared.items], np.int64),
        np.array([i.buffer for i in prepared.items], np.int64),
        layout.base,
        layout.strides,
        np.asarray(layout.strides.any(axis=1)),
        np.array(prepared.kinds, np.int64),
        _stacked(counts, width),
        uniform,
        service,
        issue,
    )


def _uniform(
    base: npt.NDArray[np.int64],
    strides: npt.NDArray[np.int64],
    kinds: Sequence[int],
    service: Floats,
) -> Flags:
    """Where no item costs more in one kind of iteration of a loop than in another."""
    uniform = np.ones((len(kinds), service.shape[1]), np.bool_)
    ends = [*base[1:], len(service)]
    for first, end, steps in zip(base, ends, strides, strict=True):
        rows = np.arange(end - first)
        for d in (int(i) for i in np.flatnonzero(steps)):
            same = rows - rows // steps[d] % kinds[d] * steps[d]
            uniform[d] &= (service[first + rows] == service[first + same]).all(axis=0)
    return uniform


def _stacked(rows: Sequence[Value], width: int) -> Floats:
    result = np.empty((len(rows), width))
    for i, row in enumerate(rows):
        result[i] = row
    return result


def _kind(stmt: Call | Transfer) -> int:
    if isinstance(stmt, Call):
        return CALL
    return GET if stmt.direction == "get" else PUT


def _cost(item: Item, program: Program, value: Values, machine: Machine) -> tuple[Value, Value]:
    """(service or call cycles, issue cycles), zero where the condition does not hold."""
    holds = value(item.condition)
    if isinstance(item.stmt, Call):
        dims = {name: value(e) for name, e in item.dims}
        cycles = call_cycles(machine, item.stmt.primitive, dims, dict(item.stmt.attributes))
        return cycles * holds, 0.0
    tensor = program.tensor(item.stmt.tensor)
    shape = transfer_shape(
        dtype(tensor.dtype).size_bytes,
        [value(e) for e in tensor.shape],
        [value(r.extent) for r in item.stmt.ranges],
        [value(r.step) for r in item.stmt.ranges],
    )
    service = transfer_cycles(machine, item.stmt.direction, shape)
    return service * holds, issue_cycles(machine, shape) * holds
