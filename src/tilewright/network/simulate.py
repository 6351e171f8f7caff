"""The time of a plan: its stages on one clock, every cycle with its cause.

In: a plan. Out: a `PlanRun`: each stage's simulated run, the cycles of all, and their causes, which
sum to the total. Groups run alike, each on its own images, so that one group's time is the whole's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.common.progress import Progress, silent
from tilewright.network.plan import Plan, Stage, Work
from tilewright.network.products import one_group
from tilewright.simulate.kernel.level import KernelRun, simulate


@dataclass(frozen=True, eq=False)
class PlanRun:
    """One simulated pass of a group over its images."""

    plan: Plan
    runs: tuple[KernelRun, ...]

    @property
    def cycles(self) -> int:
        """From the start of the first stage to the end of the last."""
        return sum(run.cycles for run in self.runs)

    @property
    def seconds(self) -> float:
        """The same at the machine's clock."""
        return self.cycles / self.plan.machine.clock_hz

    def by_work(self) -> dict[Work, int]:
        """Cycles of each kind of work, the largest first; they sum to `cycles`."""
        found: dict[Work, int] = {}
        for stage, run in zip(self.plan.stages, self.runs, strict=True):
            found[stage.work] = found.get(stage.work, 0) + run.cycles
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def by_cause(self) -> dict[str, int]:
        """Cycles of each kind of cause, the largest first; they sum to `cycles`."""
        found: dict[str, int] = {}
        for run in self.runs:
            for kind, cycles in run.by_kind().items():
                found[kind] = found.get(kind, 0) + cycles
        return dict(sorted(found.items(), key=lambda item: -item[1]))


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


def stage_runs(run: PlanRun) -> Mapping[str, tuple[Stage, KernelRun]]:
    """Each stage with its run, by name."""
    return {s.name: (s, r) for s, r in zip(run.plan.stages, run.runs, strict=True)}
