"""Timing of a kernel, statement by statement, with steady states skipped exactly.

In: a `PreparedProgram` and a machine. Out: the final clock and counters. The rules: a transfer
costs the core `issue_cycles` per request; the engine may start it `latency_cycles` later and serves
one transfer after the other; a wait blocks until the transfers of the slot are done; a call takes
what its cost function says. A loop iteration is executed once per (values that its timing depends
on, state relative to the clock); when a state comes back and the values go on repeating, the
remaining repetitions are multiplied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from tilewright.common.expr import evaluate
from tilewright.ir.nodes import Barrier
from tilewright.machine import Machine
from tilewright.simulate.kernel.account import (
    BANDWIDTH,
    BARRIER,
    FLOPS,
    LATENCY,
    OVERHEAD,
    STATEMENTS,
    TRANSFERS,
    Ledger,
)
from tilewright.simulate.kernel.check import (
    check_end,
    check_move,
    check_size,
    check_slot,
    check_work,
)
from tilewright.simulate.kernel.cost import KernelCosts
from tilewright.simulate.kernel.engines import engine_rule_of
from tilewright.simulate.kernel.program import (
    MAIN_MEMORY,
    Action,
    Branch,
    Loop,
    Move,
    Pause,
    PreparedProgram,
    Work,
)
from tilewright.simulate.kernel.signature import Numbers, Periods, Signatures
from tilewright.simulate.kernel.state import WHOLE, Pending, Request, Slot, Snapshot, State
from tilewright.simulate.kernel.timeline import Timeline

Counts: TypeAlias = npt.NDArray[np.int64]
Env: TypeAlias = dict[str, int]


class Executor:
    """One run of a prepared program; `state`, `counts` and `peak_bytes` are its results."""

    def __init__(
        self,
        prepared: PreparedProgram,
        machine: Machine,
        costs: KernelCosts,
        timeline: Timeline,
        *,
        skip: bool,
        barrier_cycles: int,
    ) -> None:
        self._prepared, self._machine, self._costs = prepared, machine, costs
        self._timeline, self._skip, self._barrier_cycles = timeline, skip, barrier_cycles
        self._rule = engine_rule_of(machine)
        self.ledger = Ledger(prepared)
        self.state = State()
        self.counts: Counts = np.zeros(self.ledger.columns, np.int64)
        self.simulated_statements = 0
        self.peak_bytes = 0
        self._services: dict[int, tuple[str, int, Request]] = {}
        self._alike: dict[int, Signatures] = {}
        self._moments: dict[Snapshot, int] = {}
        self._snapshots: list[Snapshot] = []
        self._done: dict[tuple[int, int, int], tuple[int, Counts, int]] = {}

    def run(self) -> None:
        """Execute the whole program; raises SimulationError where a slot is misused."""
        self._body(self._prepared.body, {})
        check_end(self._prepared, self.state.pending)

    def _body(self, body: tuple[Action, ...], env: Env) -> None:
        for step in body:
            match step:
                case Loop():
                    self._loop(step, env)
                case Branch(condition, then, orelse):
                    self._body(then if evaluate(condition, env) else orelse, env)
                case Move():
                    self._move(step, env)
                case Pause():
                    self._pause(step, env)
                case Work():
                    self._work(step, env)
                case Barrier():
                    self._sync()
                case _:
                    assert_never(step)

    def _loop(self, loop: Loop, env: Env) -> None:
        iterations = int(evaluate(loop.extent, env))
        if self._skip and iterations > 0:
            self._skipping(loop, self._signatures(loop)(iterations, env), env)
        else:
            for i in range(iterations):
                self._body(loop.body, {**env, loop.var: i})

    def _signatures(self, loop: Loop) -> Signatures:
        if loop.number not in self._alike:
            self._alike[loop.number] = Signatures(loop.timed, loop.var)
        return self._alike[loop.number]

    def _skipping(self, loop: Loop, numbers: Numbers, env: Env) -> None:
        """Run a loop; where a state comes back, multiply the cycle of iterations that led back."""
        periods, i = Periods(numbers), 0
        seen: dict[int, tuple[int, int, Counts]] = {}
        moment = self._moment()
        while i < len(numbers):
            if moment in seen:
                first, cycle, counts = seen[moment]
                times = periods.repeats(first, i - first)
                if times:
                    cycles = (self.state.now - cycle) * times
                    self._jump(loop, (i - first) * times, cycles, moment)
                    self.counts += (self.counts - counts) * times
                    i += (i - first) * times
                    seen.clear()
                    continue
            seen[moment] = (i, self.state.now, self.counts.copy())
            moment = self._iteration(loop, int(numbers[i]), moment, {**env, loop.var: i})
            i += 1

    def _moment(self) -> int:
        """The number of the present state relative to the clock; equal states have one number."""
        snapshot = self.state.snapshot()
        number = self._moments.setdefault(snapshot, len(self._snapshots))
        if number == len(self._snapshots):
            self._snapshots.append(snapshot)
        return number

    def _jump(self, loop: Loop, iterations: int, cycles: int, moment: int) -> None:
        self._timeline.repeated(loop.text, self.state.now, cycles, iterations)
        self.state.restore(self._snapshots[moment], self.state.now + cycles)
        self._timeline.occupancy(self.state, self._used_bytes)

    def _iteration(self, loop: Loop, number: int, moment: int, env: Env) -> int:
        """Execute an iteration, or repeat its like; returns the moment after it."""
        key = (loop.number, number, moment)
        if key in self._done:
            cycles, counts, after = self._done[key]
            self._jump(loop, 1, cycles, after)
            self.counts += counts
            return after
        start, before = self.state.now, self.counts.copy()
        self._body(loop.body, env)
        after = self._moment()
        self._done[key] = (self.state.now - start, self.counts - before, after)
        return after

    def _count_statement(self) -> None:
        self.counts[STATEMENTS] += 1
        self.simulated_statements += 1

    def _used_bytes(self) -> int:
        return sum(self._prepared.buffers[buffer].bytes for buffer, _ in self.state.contents)

    def _hold(self, slot: Slot, content: int) -> None:
        """Fill a slot; what other buffers kept at its addresses is gone."""
        contents, sharing = self.state.contents, self._prepared.buffers[slot[0]].sharing
        if slot in contents and not sharing:
            contents[slot] = content
            return
        if sharing:
            for other in [o for o in contents if o[0] in sharing]:
                del contents[other]
        contents[slot] = content
        self.peak_bytes = max(self.peak_bytes, self._used_bytes())

    def _move(self, move: Move, env: Env) -> None:
        self._count_statement()
        stmt, state = move.stmt, self.state
        number, *numbers = move.code(env)
        slot = (stmt.buffer, number)
        cost = self._costs.move(move, tuple(numbers))
        check_slot(self._prepared, slot, move.text, env)
        check_size(self._prepared, slot, cost.elements, move.text, env)
        check_move(self._prepared, move, slot, state.pending, env)
        content = self._costs.content(move.region, env)
        if stmt.direction == "get":
            self._hold(slot, content)
        if not cost.requests:
            return
        issued = state.now
        state.now += cost.issue_cycles
        queue, latency, request = self._served(move)
        if self._rule.remembers:
            busy = state.queue(queue)
            change = self._rule.change_cycles(self._machine, busy.last, request)
            cost = replace(cost, service_cycles=cost.service_cycles + change)
            busy.last = request
        start = state.serve(queue, state.now + latency, cost.service_cycles)
        state.pending[slot] = Pending(start + cost.service_cycles, move.number, queue)
        column = self.ledger.move_columns[move.number]
        self.counts[column : column + TRANSFERS + 1] += cost.counters
        self._timeline.issued(move, slot, cost, issued, start)
        self._timeline.occupancy(state, self._used_bytes)

    def _served(self, move: Move) -> tuple[str, int, Request]:
        """The queue that serves a transfer, the latency of its engine, and what it asks for."""
        found = self._services.get(move.number)
        if found is None:
            space, machine = move.step.space, self._machine
            latency_cycles = machine.transfer_engine(space).latency_cycles
            request = Request(space, move.stmt.direction)
            found = self._rule.queue(machine, space), latency_cycles, request
            self._services[move.number] = found
        return found

    def _pause(self, pause: Pause, env: Env) -> None:
        self._count_statement()
        slot = (pause.buffer, int(evaluate(pause.slot, env)))
        check_slot(self._prepared, slot, pause.text, env)
        pending = self.state.pending.pop(slot, None)
        if pending is None:
            return
        move = self._prepared.moves[pending.move]
        column = self.ledger.move_columns[pending.move]
        for cause, start, cycles in self.state.advance(pending.queue, pending.ready_cycle):
            self.counts[column + (LATENCY if cause == "latency" else BANDWIDTH)] += cycles
            self._timeline.stalled(move, slot, cause, start, cycles)
        if move.stmt.direction == "put":
            self.state.contents.pop(slot, None)
        self._timeline.waited(slot, self.state.now)
        self._timeline.occupancy(self.state, self._used_bytes)

    def _work(self, work: Work, env: Env) -> None:
        self._count_statement()
        values = tuple(work.code(env))
        operands = len(work.buffers)
        slots = list(zip(work.buffers, values[:operands], strict=True))
        for slot, elements in zip(slots, values[operands : 2 * operands], strict=True):
            if slot[0] == MAIN_MEMORY:
                continue
            check_slot(self._prepared, slot, work.text, env)
            check_size(self._prepared, slot, elements, work.text, env)
        check_work(self._prepared, work, slots, self.state.pending, env)
        result = self._costs.content(work.result, env) if work.result else WHOLE
        factors = (self.state.contents.get(slot, WHOLE) for slot in slots[1:])
        cost = self._costs.work(work, values, (result, *factors))
        result_slot, known = slots[0], self.state.contents
        replaced = work.call.primitive.replaces or result_slot not in known
        if replaced and result_slot[0] != MAIN_MEMORY:
            self._hold(result_slot, WHOLE)
        self._timeline.busy(work.call.primitive.name, work.text, self.state.now, cost.cycles)
        self.state.now += cost.cycles
        column = self.ledger.work_columns[work.number]
        self.counts[FLOPS] += cost.useful_flops
        self.counts[column : column + OVERHEAD + 1] += cost.counters
        self._timeline.occupancy(self.state, self._used_bytes)

    def _sync(self) -> None:
        self._count_statement()
        self._timeline.busy("barrier", "barrier()", self.state.now, self._barrier_cycles)
        self.state.now += self._barrier_cycles
        self.counts[BARRIER] += self._barrier_cycles
