"""The one cost walker: price a staged program for one candidate, or for every candidate of a space at once.

In: a staged-stage program (after boundary handling), a machine and the values of its parameters: integers, or arrays
with one element per candidate. Out: an `Estimate` of the same form. The walk visits each loop body once per kind of
iteration (first, middle, last: only a last tile is smaller, only a first step initialises) and composes them as the
pipeline of the generated loop runs: transfers of buffers with two copies are started one iteration ahead, so an
iteration takes the longest of its own work, the engine's work, and the latency of what it prefetches; the first
fetch fills the pipeline, the last store drains it (swATOP 4.6, without its "maximum of two sums").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Expr, Value, evaluate, free_vars, product
from tilewright.cost.timing import (
    call_cycles,
    call_dims,
    issue_cycles,
    transfer_cycles,
    transfer_shape,
)
from tilewright.ir.nodes import Barrier, Call, For, If, Program, Stmt, Transfer, Wait
from tilewright.ir.visit import expressions, walk
from tilewright.machine import Machine

Env = dict[str, Any]


@dataclass(frozen=True)
class Estimate:
    """Cycles of one core group: in all, of the cores alone, of the DMA engine alone; scratchpad bytes per core.

    Each is a number, or an array with one element per candidate.
    """

    cycles: Value
    compute_cycles: Value
    dma_cycles: Value
    scratchpad_bytes: Value


@dataclass(frozen=True)
class _Cost:
    """What one run of some statements takes.

    `time`: elapsed; `compute`: of the primitives; `dma`: engine-busy; `ahead`: engine time of what is fetched one
    iteration ahead at this level; `behind`: of stores that overlap with the next iteration; `first`: elapsed time of
    the first iteration of the loop inside, `inside`: what that loop fetches ahead; `blocked`: whether anything
    inside waits for its own transfer.
    """

    time: Value = 0
    compute: Value = 0
    dma: Value = 0
    ahead: Value = 0
    behind: Value = 0
    first: Value = 0
    inside: Value = 0
    blocked: Value = 0

    def __add__(self, other: _Cost) -> _Cost:
        return _Cost(*(a + b for a, b in zip(_fields(self), _fields(other), strict=True)))

    def scaled(self, factor: Value) -> _Cost:
        """This cost `factor` times (or, with 0 and 1, where a condition holds)."""
        return _Cost(*(a * factor for a in _fields(self)))


def _fields(cost: _Cost) -> tuple[Value, ...]:
    return (
        cost.time,
        cost.compute,
        cost.dma,
        cost.ahead,
        cost.behind,
        cost.first,
        cost.inside,
        cost.blocked,
    )


def estimate(program: Program, machine: Machine, values: Mapping[str, Value]) -> Estimate:
    """Price `program` with its parameters bound to `values`."""
    walker = _Walker(program, machine)
    env: Env = {
        **values,
        "rid": 0,
        "cid": 0,
        "mesh_rows": machine.mesh.rows,
        "mesh_columns": machine.mesh.columns,
    }
    body = walker.body(program.body, env, depth=0)
    fill, drain = walker.ends(program.body, env, {})
    return Estimate(
        body.time + fill + drain, body.compute, body.dma, scratchpad_bytes(program, env)
    )


def scratchpad_bytes(program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes of scratchpad that the program's buffers take on each core."""
    total: Value = 0
    for b in program.buffers:
        total = total + evaluate(b.elements * b.copies, env) * dtype(b.dtype).size_bytes
    return total


@dataclass
class _Walker:
    program: Program
    machine: Machine
    kinds: dict[str, tuple[bool, bool]] = field(init=False)
    memo: dict[tuple[int, tuple[tuple[str, str], ...]], tuple[Value, Value]] = field(
        default_factory=dict
    )
    place: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kinds = {s.var: _dependence(s) for s in walk(self.program.body) if isinstance(s, For)}

    def body(self, statements: tuple[Stmt, ...], env: Env, depth: int) -> _Cost:
        """Cost of a statement list as it stands inside `depth` loops."""
        total = _Cost()
        for stmt in statements:
            total = total + self.stmt(stmt, env, depth)
        return total

    def stmt(self, stmt: Stmt, env: Env, depth: int) -> _Cost:
        match stmt:
            case For():
                return self.loop(stmt, env, depth)
            case If(condition, then, orelse):
                holds = evaluate(condition, env)
                chosen = self.body(then, env, depth).scaled(holds)
                return (
                    chosen + self.body(orelse, env, depth).scaled(1 - holds) if orelse else chosen
                )
            case Transfer():
                return self.transfer(stmt, env, depth)
            case Call():
                cycles = self.call(stmt, env)
                return _Cost(time=cycles, compute=cycles)
            case Wait() | Barrier():
                return _Cost()
            case _:
                assert_never(stmt)

    def transfer(self, stmt: Transfer, env: Env, depth: int) -> _Cost:
        service, issue = self.service(stmt, env)
        latency = self.machine.dma.latency_cycles
        double = evaluate(self.program.buffer(stmt.buffer).copies, env) == 2
        some = np.greater(service, 0)
        if depth == 0:
            return _Cost(time=issue + some * (latency + service), dma=service)
        overlapped = np.where(double, service, 0)
        waited = np.where(double, 0, some * (latency + service))
        if stmt.direction == "get":
            return _Cost(time=issue + waited, dma=service, ahead=overlapped, blocked=waited)
        return _Cost(time=issue + waited, dma=service, behind=overlapped)

    def service(self, stmt: Transfer, env: Env) -> tuple[Value, Value]:
        """(engine cycles, issue cycles), computed once per kind of iteration that matters to it."""

        def compute() -> tuple[Value, Value]:
            tensor = self.program.tensor(stmt.tensor)
            shape = transfer_shape(
                dtype(tensor.dtype).size_bytes,
                [evaluate(e, env) for e in tensor.shape],
                [evaluate(r.extent, env) for r in stmt.ranges],
                [evaluate(r.step, env) for r in stmt.ranges],
            )
            cycles = transfer_cycles(self.machine, stmt.direction, shape)
            return cycles, issue_cycles(self.machine, shape)

        return self.once(stmt, [r.extent for r in stmt.ranges], compute)

    def call(self, stmt: Call, env: Env) -> Value:
        dims = call_dims(stmt)

        def compute() -> tuple[Value, Value]:
            values = {name: evaluate(e, env) for name, e in dims.items()}
            return call_cycles(self.machine, stmt.primitive, values, dict(stmt.attributes)), 0

        return self.once(stmt, list(dims.values()), compute)[0]

    def once(self, stmt: Stmt, depends: list[Expr], compute: Any) -> tuple[Value, Value]:
        used = free_vars(product(depends)) if depends else frozenset()
        key = (id(stmt), tuple((v, p) for v, p in self.place.items() if v in used))
        if key not in self.memo:
            self.memo[key] = compute()
        return self.memo[key]

    def loop(self, stmt: For, env: Env, depth: int) -> _Cost:
        """All iterations: each kind once, times how often it occurs."""
        count = evaluate(stmt.extent, env)
        total = _Cost()
        start = _Cost()
        for place, index, times in _iterations(count, self.kinds[stmt.var]):
            self.place[stmt.var] = place
            one = self.iteration(stmt, {**env, stmt.var: index}, depth + 1)
            start = one if place == "first" else start
            total = total + one.scaled(times)
        del self.place[stmt.var]
        return _Cost(
            total.time,
            total.compute,
            total.dma,
            first=start.time,
            inside=start.ahead + start.inside * (start.ahead == 0),
            blocked=total.blocked,
        )

    def iteration(self, stmt: For, env: Env, depth: int) -> _Cost:
        """One iteration in the steady state of its pipeline."""
        inner = self.body(stmt.body, env, depth)
        latency = self.machine.dma.latency_cycles
        queued = inner.ahead + inner.behind
        late = np.maximum(0, queued + latency + inner.inside - inner.first)
        own = inner.time + late * (inner.inside > 0) * (queued > 0)
        ahead = np.where(np.greater(inner.ahead, 0), latency + inner.ahead, 0)
        behind = np.where(np.greater(inner.behind, 0), latency + inner.behind, 0)
        time = np.maximum(np.maximum(own, inner.dma), np.maximum(ahead, behind))
        return _Cost(
            time,
            inner.compute,
            inner.dma,
            inner.ahead,
            inner.behind,
            inner.first,
            inner.inside,
            inner.blocked,
        )

    def ends(self, body: tuple[Stmt, ...], env: Env, _: Env) -> tuple[Value, Value]:
        """Cycles before the first iteration has its data, and after the last has stored its result."""
        zeros, ends = _first_and_last(body, env)
        fill: Value = 0
        drain: Value = 0
        latency = self.machine.dma.latency_cycles
        for stmt in walk(body):
            if isinstance(stmt, Transfer):
                double = evaluate(self.program.buffer(stmt.buffer).copies, env) == 2
                if stmt.direction == "get":
                    self.place = dict.fromkeys(zeros, "first")
                    fill = fill + double * self.service(stmt, {**env, **zeros})[0]
                else:
                    self.place = dict.fromkeys(ends, "last")
                    drain = drain + double * self.service(stmt, {**env, **ends})[0]
        self.place = {}
        return fill + latency * np.greater(fill, 0), drain + latency * np.greater(drain, 0)


def _first_and_last(body: tuple[Stmt, ...], env: Env) -> tuple[Env, Env]:
    loops = [s for s in walk(body) if isinstance(s, For)]
    return {f.var: 0 for f in loops}, {f.var: evaluate(f.extent, env) - 1 for f in loops}


def _dependence(loop: For) -> tuple[bool, bool]:
    """Whether the body's cost differs in the first, and in the last iteration."""
    first = last = False
    for stmt in walk(loop.body):
        match stmt:
            case If(condition, _, orelse) if loop.var in free_vars(condition):
                first = first or bool(orelse)
                last = last or not orelse
            case Transfer():
                last = last or any(loop.var in free_vars(r.extent) for r in stmt.ranges)
            case Call():
                last = last or any(loop.var in free_vars(e) for e in expressions(stmt))
            case _:
                pass
    return first, last


def _iterations(count: Value, kinds: tuple[bool, bool]) -> list[tuple[str, Value, Value]]:
    """(name, a loop index that stands for the kind, how many there are)."""
    match kinds:
        case (False, False):
            return [("first", 0, count)]
        case (False, True):
            return [("first", 0, count - 1), ("last", count - 1, 1)]
        case _:
            several = np.greater(count, 1)
            middle = np.maximum(count - 2, 0)
            return [
                ("first", 0, 1),
                ("middle", np.minimum(1, count - 1), middle),
                ("last", count - 1, several),
            ]
