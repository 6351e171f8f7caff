"""The time of a plan: its stages on one clock, every cycle with its cause.

In: a plan. Out: a `PlanRun`: each stage's simulated run, the cycles of all, and their causes, which
sum to the total. A stage takes the launch of its program and the run of it. Groups run alike, each
on its own images or on its share of a stage, so that one group's time is the whole's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TypeVar

from tilewright.common.progress import Progress, silent
from tilewright.network.form import form_text
from tilewright.network.plan import Plan, Stage, Work
from tilewright.network.products import one_group
from tilewright.network.results import LayoutChange, NetworkRun, PlanBounds, StageResult
from tilewright.simulate.kernel.level import KernelRun, simulate

LAUNCH = "launch"
"""The cause of the cycles that start and join a stage's program."""
Kind = TypeVar("Kind", bound=str)


@dataclass(frozen=True, eq=False)
class PlanRun:
    """One simulated pass of a group over its images."""

    plan: Plan
    runs: tuple[KernelRun, ...]

    @property
    def cycles(self) -> int:
        """From the launch of the first stage to the end of the last."""
        return sum(map(self.cycles_of, self.runs))

    @property
    def seconds(self) -> float:
        """The same at the machine's clock."""
        return self.cycles / self.plan.machine.clock_hz

    def cycles_of(self, run: KernelRun) -> int:
        """Of one stage, its launch included."""
        return self.plan.launch_cycles + run.cycles

    def causes_of(self, run: KernelRun) -> dict[str, int]:
        """Cycles of a stage by kind of cause, the largest first; they sum to `cycles_of`."""
        launch = {LAUNCH: self.plan.launch_cycles} if self.plan.launch_cycles else {}
        return _largest_first({**run.by_kind(), **launch})

    def by_work(self) -> dict[Work, int]:
        """Cycles of each kind of work, the largest first; they sum to `cycles`."""
        found: dict[Work, int] = {}
        for stage, run in zip(self.plan.stages, self.runs, strict=True):
            found[stage.work] = found.get(stage.work, 0) + self.cycles_of(run)
        return _largest_first(found)

    def by_cause(self) -> dict[str, int]:
        """Cycles of each kind of cause, the largest first; they sum to `cycles`."""
        found: dict[str, int] = {}
        for run in self.runs:
            for kind, cycles in self.causes_of(run).items():
                found[kind] = found.get(kind, 0) + cycles
        return _largest_first(found)


def _largest_first(cycles: dict[Kind, int]) -> dict[Kind, int]:
    return dict(sorted(cycles.items(), key=lambda item: -item[1]))


def simulate_plan(plan: Plan, *, progress: Progress = silent) -> PlanRun:
    """Simulate every stage, equal ones once."""
    single = one_group(plan.machine)
    known: dict[int, KernelRun] = {}
    runs = []
    for number, stage in enumerate(plan.stages):
        progress("simulate", number, len(plan.stages))
        key = id(stage.candidate)
        if key not in known:
            known[key] = simulate(stage.candidate.program(single), single)
        runs.append(known[key])
    progress("simulate", len(plan.stages), len(plan.stages))
    return PlanRun(plan, tuple(runs))


def described(
    run: PlanRun, *, plan_seconds: float = 0.0, unfused: PlanRun | None = None
) -> NetworkRun:
    """The figures of a simulated plan, beside those of the `unfused` one."""
    plan = run.plan
    pairs = list(zip(plan.stages, run.runs, strict=True))
    flops = plan.groups * sum(stage.flops for stage in plan.stages)
    return NetworkRun(
        plan.name,
        plan.machine.name,
        plan.dtype,
        tuple(_stage_result(run, stage, r) for stage, r in pairs),
        plan_seconds,
        plan.constant_bytes,
        plan.arena[1],
        milliseconds=1e3 * run.seconds,
        gflops=flops / run.seconds / 1e9,
        groups=plan.groups,
        cycles=run.cycles,
        unfused_cycles=None if unfused is None else unfused.cycles,
        work={str(kind): cycles for kind, cycles in run.by_work().items()},
        causes=run.by_cause(),
        layouts=tuple(_change(plan, s, run.cycles_of(r)) for s, r in pairs if s.work == "layout"),
        bounds=_bounds(run),
        layout_choice=plan.layout_choice,
    )


def _stage_result(run: PlanRun, stage: Stage, own: KernelRun) -> StageResult:
    plan, cycles, causes = run.plan, run.cycles_of(own), run.causes_of(own)
    per_second = plan.machine.clock_hz
    # launch is one cause, the others several that bound a run together
    is_launch = causes.get(LAUNCH, 0) > max(own.by_bound().values(), default=0)
    return StageResult(
        stage.name,
        stage.label,
        stage.candidate.seed.name if stage.work == "product" else "",
        1e3 * (stage.candidate.cycles + plan.launch_cycles) / per_second,
        gflops=plan.groups * stage.flops * per_second / cycles / 1e9 if cycles else None,
        work=stage.work,
        cycles=cycles,
        bound=LAUNCH if is_launch else own.bound(),
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
    """Of a group, or of all that compute together."""
    plan, machine = run.plan, run.plan.machine
    products = [(s, r) for s, r in zip(plan.stages, run.runs, strict=True) if s.work == "product"]
    per_cycle = machine.cores * machine.core.peak_flops_per_cycle(plan.dtype)
    flops = sum(min(s.op.flops, s.groups * r.useful_flops) for s, r in products)
    ways = ((machine.dma.get, ("input", "constant")), (machine.dma.put, ("output",)))
    seconds = sum(
        value.size_bytes / way.peak_bytes_per_second
        for way, roles in ways
        for value in plan.values
        if value.role in roles
    )
    cycles = flops / per_cycle, seconds * machine.clock_hz
    compute, transfer = (ceil(c / plan.together) for c in cycles)
    return PlanBounds(
        compute, transfer, round(plan.estimate_cycles), round(plan.lower_bound_cycles)
    )
