"""The time of a plan: its stages on one clock, every cycle with its cause.

In: a plan. Out: a `PlanRun`: each stage's simulated run, the total cycles, and their causes, which
sum to the total. A stage's time is the launch or barrier before it plus the run of its program.
Groups run alike, each on its own images or its share of a stage, so one group's time is the total.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil

from tilewright.common.progress import Progress, silent, told
from tilewright.cost.prices import prices_of
from tilewright.network.plan import Plan, Stage, Work
from tilewright.network.planning.form import form_text
from tilewright.network.planning.products import one_group
from tilewright.network.results import LayoutChange, NetworkRun, PlanBounds, StageResult
from tilewright.simulate.kernel.level import KernelTime
from tilewright.tune.refills import simulated


@dataclass(frozen=True, eq=False)
class PlanRun:
    """One simulated pass of a group over its images."""

    plan: Plan
    runs: tuple[KernelTime, ...]

    @property
    def cycles(self) -> int:
        """Cycles from the launch to the end of the last stage."""
        return sum(map(self.cycles_of, range(len(self.runs))))

    @property
    def seconds(self) -> float:
        """`cycles` in seconds, at the machine's clock."""
        return self.cycles / self.plan.machine.clock_hz

    def cycles_of(self, stage: int) -> int:
        """Cycles of a stage by its number, with the launch or waits before it."""
        return sum(self.plan.before[stage].values()) + self.runs[stage].cycles

    def causes_of(self, stage: int) -> dict[str, int]:
        """Cycles of a stage by kind of cause, largest first; they sum to `cycles_of`."""
        own = Counter({**self.runs[stage].by_kind(), **self.plan.before[stage]})
        return dict(own.most_common())

    def by_work(self) -> dict[Work, int]:
        """Cycles by kind of work, largest first; they sum to `cycles`."""
        found = Counter[Work]()
        for number, stage in enumerate(self.plan.stages):
            found[stage.work] += self.cycles_of(number)
        return dict(found.most_common())

    def by_cause(self) -> dict[str, int]:
        """Cycles by kind of cause, largest first; they sum to `cycles`."""
        found = Counter[str]()
        for number in range(len(self.runs)):
            found.update(self.causes_of(number))
        return dict(found.most_common())


def simulate_plan(plan: Plan, *, progress: Progress = silent) -> PlanRun:
    """Simulate every stage; identical ones only once."""
    single = one_group(plan.machine)
    known: dict[int, KernelTime] = {}
    runs = []
    for stage in told(progress, "simulate", plan.stages):
        key = id(stage.candidate)
        if key not in known:
            known[key] = simulated(stage.candidate, single)
        runs.append(known[key])
    return PlanRun(plan, tuple(runs))


def described(run: PlanRun, flops: int, *, plan_seconds: float = 0.0) -> NetworkRun:
    """The figures of a simulated plan of a network whose operators count so many `flops`."""
    plan = run.plan
    numbered = list(enumerate(plan.stages))
    changes = ((s, run.cycles_of(i)) for i, s in numbered if s.work == "layout")
    return NetworkRun(
        plan.name,
        plan.machine.name,
        plan.dtype,
        tuple(_stage_result(run, number) for number, _ in numbered),
        plan_seconds,
        plan.constant_bytes,
        plan.arena[1],
        milliseconds=1e3 * run.seconds,
        gflops=flops / run.seconds / 1e9,
        groups=plan.groups,
        cycles=run.cycles,
        work={str(kind): cycles for kind, cycles in run.by_work().items()},
        causes=run.by_cause(),
        layouts=tuple(_change(plan, stage, cycles) for stage, cycles in changes),
        bounds=_bounds(run),
        layout_choice=plan.layout_choice,
        state_bytes=plan.state_bytes,
        live_bytes=plan.live_bytes,
        fitted_machine=plan.machine.fitted,
        refill_note=prices_of(plan.machine).refill_note(plan.machine),
    )


def _flops(plan: Plan, stage: Stage) -> int:
    """Operations of a stage in all groups, each on its own images or on its share."""
    return stage.flops * (plan.groups if stage.division is None else 1)


def _stage_result(run: PlanRun, number: int) -> StageResult:
    plan, stage, own = run.plan, run.plan.stages[number], run.runs[number]
    cycles, causes, before = run.cycles_of(number), run.causes_of(number), plan.before[number]
    per_second = plan.machine.clock_hz
    # waits before a stage are single causes; within it, several causes bound a run together
    longest = max(before, key=lambda kind: before[kind], default="")
    is_before = before.get(longest, 0) > max(own.by_bound().values(), default=0)
    return StageResult(
        stage.name,
        stage.label,
        stage.candidate.seed.name if stage.work == "product" else "",
        1e3 * (stage.scheduled.cycles + sum(before.values())) / per_second,
        gflops=_flops(plan, stage) * per_second / cycles / 1e9 if cycles else None,
        work=stage.work,
        cycles=cycles,
        bound=longest if is_before else own.bound(),
        groups=stage.groups,
        divided=stage.division.kind if stage.division else "",
        causes=causes,
        nodes=stage.nodes,
        moved_bytes=sum(t.moved_bytes for t in own.tensors),
    )


def _change(plan: Plan, stage: Stage, cycles: int) -> LayoutChange:
    written = plan.values[stage.writes]
    before = form_text(plan.values[stage.reads[0]].form) if stage.reads else ""
    return LayoutChange(stage.name, written.name, before, form_text(written.form), cycles)


def _bounds(run: PlanRun) -> PlanBounds:
    """Bounds of one group, or of all groups that compute together."""
    plan, machine = run.plan, run.plan.machine
    products = [(s, r) for s, r in zip(plan.stages, run.runs, strict=True) if s.work == "product"]
    peak = machine.core.peak_flops_per_cycle
    computing = sum(
        min(s.op.flops, s.groups * r.useful_flops)
        / (machine.cores * peak(s.op.numerics.units.stored.name))
        for s, r in products
    )
    ways = ((machine.dma.get, ("input", "constant")), (machine.dma.put, ("output",)))
    seconds = sum(
        value.size_bytes / way.peak_bytes_per_second
        for way, roles in ways
        for value in plan.values
        if value.role in roles
    )
    cycles = computing, seconds * machine.clock_hz
    compute, transfer = (ceil(c / plan.together) for c in cycles)
    return PlanBounds(
        compute, transfer, round(plan.estimate_cycles), round(plan.lower_bound_cycles)
    )
