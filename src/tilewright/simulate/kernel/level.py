"""The kernel-level simulator: a program's numbers and its cycles, every cycle with its cause.

In: an instantiated explicit-stage program, a machine, optionally the input tensors. Out: a
`KernelRun`. It models one core group by the clocks of its first- and last-served cores. Calls take
their calibrated time, transfers share one DMA engine (swATOP 4.6 without its "maximum of two
sums"). Iterations in a steady state are multiplied instead of executed, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from tilewright.common.expr import evaluate
from tilewright.cost.calls import Costs
from tilewright.cost.fetches import CodeLines, Fetches
from tilewright.cost.pipeline_types import OWN
from tilewright.cost.prices import prices_of
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Barrier, Program
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Capability, Machine
from tilewright.simulate.kernel import account
from tilewright.simulate.kernel.account import Timeline
from tilewright.simulate.kernel.cost import KernelCosts
from tilewright.simulate.kernel.engines import Request, engine_rule_of
from tilewright.simulate.kernel.program import (
    MAIN_MEMORY,
    Action,
    CallStatement,
    ConditionStatement,
    LoopStatement,
    Pause,
    PreparedProgram,
    TransferStatement,
    prepare,
)
from tilewright.simulate.kernel.signature import Numbers, Periods
from tilewright.simulate.kernel.state import (
    OUTSIDE,
    WHOLE,
    Ask,
    Await,
    CrowdAction,
    Env,
    KernelState,
    Pending,
    Slot,
    Snapshot,
    Spend,
    Statements,
    check_end,
    check_move,
    check_work,
)
from tilewright.simulate.trace import Trace

# Timing of a kernel, statement by statement, with steady states skipped exactly.
#
# In: a `PreparedProgram` and a machine. Out: the final clock and counters. The rules: a transfer
# costs a core its `issue_cycles`; the engine may start it `latency_cycles` later and serves one
# transfer after the other; a wait blocks each core until its own transfers of the slot are done; a
# call takes the cycles of its cost function, and cores that exchange data start it together. An
# iteration is executed once per (values that its timing depends on, state relative to the clock);
# when a state recurs and the values keep repeating, the remaining repetitions are multiplied.

Counts: TypeAlias = npt.NDArray[np.int64]


class _Executor:
    """One run of a prepared program; its results are `state`, `counts` and `peak_bytes`."""

    def __init__(
        self,
        prepared: PreparedProgram,
        machine: Machine,
        statements: Statements,
        timeline: Timeline,
        *,
        skip: bool,
        barrier_cycles: int,
        fetches: Fetches | None = None,
        code: int = 0,
    ) -> None:
        self._prepared, self._machine, self._statements = prepared, machine, statements
        self._timeline, self._skip, self._barrier_cycles = timeline, skip, barrier_cycles
        self._rule = engine_rule_of(machine)
        self.ledger = account.Ledger(prepared)
        columns = machine.mesh.columns
        self.state, self._fetches = KernelState(machine.cores, columns, code=code), fetches
        self.counts: Counts = np.zeros(self.ledger.columns, np.int64)
        self.simulated_statements = 0
        self.peak_bytes, self.allocated_bytes = 0, prepared.allocated_bytes
        self._services: dict[int, tuple[str, int, Request]] = {}
        self._moments: dict[Snapshot, int] = {}
        self._snapshots: list[Snapshot] = []
        self._done: dict[tuple[int, int, int], tuple[int, Counts, int]] = {}

    def run(self) -> None:
        """Execute the whole program; raises SimulationError if a slot is misused."""
        self._body(self._prepared.body, {}, OUTSIDE if self._skip else None)
        self._go_on(whole=True)
        check_end(self._prepared, self.state.pending)

    def _body(self, body: tuple[Action, ...], env: Env, number: int | None) -> None:
        for step in body:
            match step:
                case LoopStatement():
                    self._loop(step, env)
                case ConditionStatement(condition, then, orelse):
                    self._body(then if evaluate(condition, env) else orelse, env, number)
                case TransferStatement():
                    self._move(step, env, number)
                case Pause():
                    self._pause(step, env, number)
                case CallStatement():
                    self._work(step, env, number)
                case Barrier():
                    self._sync()
                case _:
                    assert_never(step)

    def _loop(self, loop: LoopStatement, env: Env) -> None:
        iterations = int(evaluate(loop.extent, env))
        if self._skip and iterations > 0:
            self._skipping(loop, loop.alike(iterations, env), env)
        else:
            for i in range(iterations):
                self._body(loop.body, {**env, loop.var: i}, None)

    def _skipping(self, loop: LoopStatement, numbers: Numbers, env: Env) -> None:
        """Run a loop; when a state recurs, multiply the iterations since its first occurrence."""
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
                    seen.clear()  # no period begins before the jump
                    continue
            seen[moment] = (i, self.state.now, self.counts.copy())
            moment = self._iteration(loop, int(numbers[i]), moment, {**env, loop.var: i})
            i += 1

    def _moment(self) -> int:
        """Number of the current state relative to the clock; equal states share a number."""
        snapshot = self.state.snapshot()
        number = self._moments.setdefault(snapshot, len(self._snapshots))
        if number == len(self._snapshots):
            self._snapshots.append(snapshot)
        return number

    def _jump(self, loop: LoopStatement, iterations: int, cycles: int, moment: int) -> None:
        self._timeline.repeated(loop.text, self.state.now, cycles, iterations)
        self.state.restore(self._snapshots[moment], self.state.now + cycles)
        self._timeline.occupancy(self.state, self._used_bytes)

    def _iteration(self, loop: LoopStatement, number: int, moment: int, env: Env) -> int:
        """Execute an iteration, or repeat an equal one; returns the moment after it."""
        key = (loop.number, number, moment)
        if key in self._done:
            cycles, counts, after = self._done[key]
            self._jump(loop, 1, cycles, after)
            self.counts += counts
            return after
        start, before = self.state.now, self.counts.copy()
        self._body(loop.body, env, number)
        after = self._moment()
        self._done[key] = (self.state.now - start, self.counts - before, after)
        return after

    def _count_statement(self) -> None:
        self.counts[account.STATEMENTS] += 1
        self.simulated_statements += 1

    def _used_bytes(self) -> int:
        return sum(self._prepared.buffers[buffer].bytes for buffer, _ in self.state.contents)

    def _hold(self, slot: Slot, content: int) -> None:
        """Fill a slot; buffers that share its addresses lose their contents."""
        contents, sharing = self.state.contents, self._prepared.buffers[slot[0]].sharing
        if slot in contents and not sharing:
            contents[slot] = content
            return
        if sharing:
            for other in [o for o in contents if o[0] in sharing]:
                del contents[other]
        contents[slot] = content
        self.peak_bytes = max(self.peak_bytes, self._used_bytes())

    def _move(self, move: TransferStatement, env: Env, number: int | None) -> None:
        self._count_statement()
        state, (slot, cost, content) = self.state, self._statements.moved(move, env, number)
        check_move(self._prepared, move, slot, state.pending, env)
        if move.stmt.direction == "get":
            self._hold(slot, content)
        if not cost.requests:
            return
        queue, latency, request = self._served(move)
        if self._rule.remembers:
            busy = state.queue(queue)
            change = self._rule.change_cycles(self._machine, busy.last, request)
            cost = replace(cost, service_cycles=cost.service_cycles + change)
            busy.last = request
        column = self.ledger.move_columns[move.number]
        self.counts[column : column + account.TRANSFERS + 1] += cost.counters
        state.let_go(cost.part)
        state.pending[slot] = Pending(cost.part, move.number)
        rest = state.part_apart(cost.part)
        ask = Ask(slot, move.number, queue, latency, cost, cost.part.cores - rest)
        self._act(ask, ask._replace(cores=rest) if rest else None)

    def _served(self, move: TransferStatement) -> tuple[str, int, Request]:
        """The queue that serves a transfer, the latency of its engine, and the request."""
        found = self._services.get(move.number)
        if found is None:
            space, machine, way = move.step.space, self._machine, move.stmt.direction
            latency_cycles = machine.transfer_engine(space, way).latency_cycles
            queue = self._rule.queue(machine, space, way)
            found = queue, latency_cycles, Request(space, way)
            self._services[move.number] = found
        return found

    def _pause(self, pause: Pause, env: Env, number: int | None) -> None:
        self._count_statement()
        slot = self._statements.awaited(pause, env, number)
        pending = self.state.pending.pop(slot, None)
        if pending is None:
            return
        self.state.let_go(pending.part)
        move = self._prepared.moves[pending.move]
        wait = Await(slot, move.number, self._served(move)[0])
        self._act(wait, wait)
        if move.stmt.direction == "put":
            self.state.contents.pop(slot, None)
        self._timeline.occupancy(self.state, self._used_bytes)

    def _act(self, own: CrowdAction, apart: CrowdAction | None) -> None:
        """Let the crowds act, each once no request of the other can precede its action."""
        if not self.state.own:
            self._perform(OWN, own)
            return
        self.state.keep_near()
        for actions, action in zip(self.state.behind, (own, apart), strict=True):
            if action is not None:
                actions.append(action)
        self._go_on(whole=False)

    def _go_on(self, *, whole: bool) -> None:
        state = self.state
        while (crowd := state.next_crowd(whole=whole)) is not None:
            self._perform(crowd, state.behind[crowd].pop(0))

    def _perform(self, crowd: int, action: CrowdAction) -> None:
        state, now, timeline = self.state, self.state.now, self._timeline
        match action:
            case Spend(cycles, column, activity, statement, early):
                state.spend(crowd, cycles, early)
                self.counts[column] += state.now - now
                timeline.busy(activity, statement, now, state.now - now)
            case Ask():
                move = self._prepared.moves[action.move]
                start = state.ask(crowd, action)
                self.counts[self.ledger.move_columns[move.number] + account.ISSUE] += (
                    state.now - now
                )
                timeline.busy("dma issue", move.text, now, state.now - now)
                if crowd == OWN:
                    timeline.issued(move, action, now, start)
                timeline.occupancy(state, self._used_bytes)
            case Await(slot, number, _):
                move = self._prepared.moves[number]
                column = self.ledger.move_columns[number]
                for cause, start, cycles in state.wait(crowd, action):
                    self.counts[
                        column + (account.LATENCY if cause == "latency" else account.BANDWIDTH)
                    ] += cycles
                    timeline.stalled(move, slot, cause, start, cycles)
                if crowd == OWN:
                    timeline.waited(slot, state.now)
            case _:
                assert_never(action)

    def _work(self, work: CallStatement, env: Env, number: int | None) -> None:
        self._count_statement()
        slots, values, dims, result = self._statements.called(work, env, number)
        check_work(self._prepared, work, slots, self.state.pending, env)
        known = self.state.contents
        factors = [known.get(slot, WHOLE) for slot in slots[1:]]
        cost, result_slot = self._statements.costs.work(work, values, (result, *factors)), slots[0]
        replaced = work.call.primitive.replaces or result_slot not in known
        if replaced and result_slot[0] != MAIN_MEMORY:
            self._hold(result_slot, WHOLE)
        if self._fetches is not None:
            self._fetch(self._fetches, work, dims)
        if isinstance(work.call.primitive, MatrixProduct):
            self._meet()
        column, name = self.ledger.work_columns[work.number], work.call.primitive.name
        self.counts[account.FLOPS] += cost.useful_flops
        self.counts[column : column + account.OVERHEAD + 1] += cost.counters
        self.counts[column + account.OVERHEAD] -= cost.cycles
        own, apart = (
            Spend(cycles, column + account.OVERHEAD, name, work.text)
            for cycles in self.state.in_crowds(cost.cycles, cost.own_cycles, cost.apart_cycles)
        )
        if self.state.own:
            own = own._replace(early_cycles=max(0, cost.own_cycles - cost.first_cycles))
        self._act(own, apart)
        self._timeline.occupancy(self.state, self._used_bytes)

    def _fetch(self, fetches: Fetches, work: CallStatement, dims: tuple[int, ...]) -> None:
        cycles, self.state.code = fetches.cycles(self.state.code, work.number, dims)
        if cycles or self.state.own:
            spend = Spend(cycles, account.FETCH, "instruction cache", work.text)
            self._act(spend, spend)

    def _meet(self) -> None:
        """Let all cores wait for the last one."""
        self._go_on(whole=True)
        self.state.together()

    def _sync(self) -> None:
        self._count_statement()
        self._meet()
        self._perform(OWN, Spend(self._barrier_cycles, account.BARRIER, "barrier", "barrier()"))


Array = npt.NDArray[Any]

_BOUNDS = {
    "compute useful": "compute",
    "compute padding": "compute",
    "compute overhead": "compute",
    "primitive": "primitives",
    "dma issue": "dma issue",
    "wait latency": "dma latency",
    "wait bandwidth": "dma bandwidth",
    "barrier": "barriers",
    "instruction cache": "instruction cache",
    "issue": "issue",
}
"""Bound of a run to which each kind of cause counts."""


@dataclass(frozen=True)
class KernelTime:
    """The time of one simulated run on one core group.

    `causes` sum to `cycles`. `useful_flops` counts matrix products on elements of tensors, all
    cores together. `allocated_bytes` is the buffers' total in one core's memories, `peak_bytes` the
    most in use at one time: a slot is in use from its first get or write until its put is done.
    `statements` counts transfers, waits, barriers and calls, of which `simulated_statements` were
    executed one by one, the rest by multiplication.
    """

    cycles: int
    seconds: float
    causes: tuple[account.Cause, ...]
    tensors: tuple[account.TensorTraffic, ...]
    useful_flops: int
    allocated_bytes: int
    peak_bytes: int
    statements: int
    simulated_statements: int

    def by_kind(self) -> dict[str, int]:
        """Cycles of each kind of cause, the largest first; they sum to `cycles`."""
        kinds: dict[str, int] = {}
        for cause in self.causes:
            kinds[cause.kind] = kinds.get(cause.kind, 0) + cause.cycles
        return dict(sorted(kinds.items(), key=lambda item: -item[1]))

    def by_bound(self) -> dict[str, int]:
        """Cycles by bound: kinds of causes that share a remedy are added up."""
        parts: dict[str, int] = {}
        for kind, cycles in self.by_kind().items():
            parts[_BOUNDS[kind]] = parts.get(_BOUNDS[kind], 0) + cycles
        return parts

    def bound(self) -> str:
        """The bound with the most cycles."""
        parts = self.by_bound()
        return max(parts, key=lambda part: parts[part]) if parts else "compute"


@dataclass(frozen=True)
class KernelRun(KernelTime):
    """One simulated run on one core group, with its outputs and its trace if requested."""

    outputs: Mapping[str, Array] | None = None
    trace: Trace | None = None

    def then(self, other: KernelRun, called: str) -> KernelRun:
        """This run followed by `other`, with the outputs and the trace of this one. `called`
        prefixes the subjects of the other's causes and its tensors.
        """
        own = (replace(c, subject=f"{called} {c.subject}".strip()) for c in other.causes)
        causes = sorted((*self.causes, *own), key=lambda cause: -cause.cycles)
        tensors = (replace(t, tensor=f"{called} {t.tensor}") for t in other.tensors)
        return replace(
            self,
            cycles=self.cycles + other.cycles,
            seconds=self.seconds + other.seconds,
            causes=tuple(causes),
            tensors=(*self.tensors, *tensors),
            useful_flops=self.useful_flops + other.useful_flops,
            allocated_bytes=max(self.allocated_bytes, other.allocated_bytes),
            peak_bytes=max(self.peak_bytes, other.peak_bytes),
            statements=self.statements + other.statements,
            simulated_statements=self.simulated_statements + other.simulated_statements,
        )


class _CodeBehind:
    """Finds the content of the instruction cache after a run from the order of its calls, without
    timing. An iteration is walked once per (values that its calls depend on, content before it).
    """

    def __init__(self, fetches: Fetches) -> None:
        self._fetches = fetches
        self._after: dict[tuple[int, int, int], int] = {}

    def __call__(self, body: tuple[Action, ...], env: Env, code: int) -> int:
        """Number of the cache's content after `body`, given the one before it."""
        for step in body:
            match step:
                case LoopStatement():
                    code = self._loop(step, env, code)
                case ConditionStatement(condition, then, orelse):
                    code = self(then if evaluate(condition, env) else orelse, env, code)
                case CallStatement():
                    dims = step.dims_of(tuple(step.code(env)))
                    _, code = self._fetches.cycles(code, step.number, dims)
                case TransferStatement() | Pause() | Barrier():
                    pass
                case _:
                    assert_never(step)
        return code

    def _loop(self, loop: LoopStatement, env: Env, code: int) -> int:
        iterations = int(evaluate(loop.extent, env))
        numbers = loop.alike(iterations, env).tolist() if iterations > 0 else []
        for i, number in enumerate(numbers):
            key = loop.number, number, code
            if key not in self._after:
                self._after[key] = self(loop.body, {**env, loop.var: i}, code)
            code = self._after[key]
        return code


class SimulatesCode(Protocol):
    """A family that simulates its own generated code, in place of this simulator."""

    def simulate(self, program: Program, machine: Machine) -> KernelRun:
        """The run of the program's code; raises as `simulate` does."""


SIMULATES: Capability[SimulatesCode] = Capability(
    "code", ("simulate",), "simulator of its own code"
)


def simulate(
    program: Program,
    machine: Machine,
    inputs: Mapping[str, Array] | None = None,
    *,
    trace_limit: int = 0,
    skip: bool = True,
    costs: Costs | None = None,
    barrier_cycles: int = 0,
    refills: bool = True,
) -> KernelRun:
    """Run `program` on one core group of `machine`; with `inputs` also compute its output tensors.
    A family that simulates its own code does that instead, without a trace.

    `trace_limit` is how many events are recorded in detail (0: no trace); `skip=False` executes
    every iteration; `costs` replaces the family's cycles of primitives; a barrier takes
    `barrier_cycles`. Without `refills` every routine is resident in the instruction cache; with
    them the launch follows another of the same program. Raises SimulationError if a slot is
    misused, with buffer, slot and statement, CapacityError if the buffers do not fit their memory,
    ProgramError if the numbers cannot be computed.
    """
    own, mesh = SIMULATES.of(machine), (machine.mesh.rows, machine.mesh.columns)
    outputs = None if inputs is None else interpret(program, inputs, mesh)
    if own is not None:
        return replace(own.simulate(program, machine), outputs=outputs)
    lines = prices_of(machine).code(program, machine) if refills else None
    prepared = prepare(program, machine)
    statements = Statements(prepared, KernelCosts(machine, costs))
    execute = partial(
        _Executor, prepared, machine, statements, skip=skip, barrier_cycles=barrier_cycles
    )
    return _run(execute, prepared, machine, lines, Timeline(trace_limit), outputs)


def without_and_with(
    lines: CodeLines, program: Program, machine: Machine
) -> tuple[KernelRun, KernelRun]:
    """`simulate` without refills and with those of `lines`; statements are priced once for both."""
    prepared = prepare(program, machine)
    statements = Statements(prepared, KernelCosts(machine))
    execute = partial(_Executor, prepared, machine, statements, skip=True, barrier_cycles=0)
    warm, refilled = (
        _run(execute, prepared, machine, own, Timeline(0), None) for own in (None, lines)
    )
    return warm, refilled


def _run(
    execute: Callable[..., _Executor],
    prepared: PreparedProgram,
    machine: Machine,
    lines: CodeLines | None,
    timeline: Timeline,
    outputs: Mapping[str, Array] | None,
) -> KernelRun:
    if lines is None:
        executor = execute(timeline)
    else:  # start with the instruction cache that a previous run leaves
        fetches = Fetches(lines)
        code = _CodeBehind(fetches)(prepared.body, {}, 0)
        executor = execute(timeline, fetches=fetches, code=code)
    executor.run()
    counts = [int(count) for count in np.asarray(executor.counts)]
    cycles = executor.state.now
    return KernelRun(
        cycles=cycles,
        seconds=cycles / machine.clock_hz,
        causes=executor.ledger.causes(counts),
        tensors=executor.ledger.traffic(counts),
        useful_flops=counts[account.FLOPS],
        allocated_bytes=executor.allocated_bytes,
        peak_bytes=executor.peak_bytes,
        statements=counts[account.STATEMENTS],
        simulated_statements=executor.simulated_statements,
        outputs=outputs,
        trace=timeline.close(cycles),
    )
