"""Why a network takes its time: stages by cause, changes of layout, what fusion saves.

In: the simulated run of its plan and that of the plan with a stage for every operator. Out: a
`NetworkExplanation`, the `--json` form; `report.network` prints it.
"""

from __future__ import annotations

from math import ceil

from msgspec import Struct

from tilewright.codegen.artifact import ROUTINES, RoutineCycles
from tilewright.common.progress import Progress, silent
from tilewright.network.form import form_text
from tilewright.network.plan import Plan, Stage
from tilewright.network.products import one_group
from tilewright.network.results import NetworkRun
from tilewright.network.simulate import PlanRun, described


class StageTime(Struct, frozen=True):
    """The cycles of one stage by cause, which sum to its own; `nodes` are what it computes, and
    `routines` the distinct calls of its code, as often as a core makes them.
    """

    stage: str
    nodes: tuple[str, ...]
    cycles: int
    causes: dict[str, int]
    routines: tuple[RoutineCycles, ...] = ()


class LayoutChange(Struct, frozen=True):
    """A stage that moves a tensor: from one order of memory into another, or around its elements.

    `before` is empty where a stage fills places that hold no element.
    """

    stage: str
    tensor: str
    before: str
    after: str
    cycles: int


class NetworkExplanation(Struct, frozen=True):
    """The run of a network, why it takes its time, and the least that it could take.

    No plan of these operators computes faster than the peak, or moves what is given, known and
    asked for faster than the engine. By the model the plan takes `estimate_cycles`; its products
    alone at least `lower_bound_product_cycles`, each in the layouts that suit it best. `rewrites`
    are those that changed the graph, in order.
    """

    run: NetworkRun
    stages: tuple[StageTime, ...]
    layouts: tuple[LayoutChange, ...]
    lower_bound_compute_cycles: int
    lower_bound_transfer_cycles: int
    estimate_cycles: int
    lower_bound_product_cycles: int
    rewrites: tuple[str, ...] = ()


def explained(
    run: PlanRun,
    unfused: PlanRun,
    *,
    plan_seconds: float = 0.0,
    rewrites: tuple[str, ...] = (),
    progress: Progress = silent,
) -> NetworkExplanation:
    """The explanation of a simulated plan, whose routines are simulated."""
    plan = run.plan
    pairs = list(zip(plan.stages, run.runs, strict=True))
    called = _routines(plan, progress)
    times = (
        StageTime(s.name, s.nodes, run.cycles_of(r), run.causes_of(r), called[id(s.candidate)])
        for s, r in pairs
    )
    compute, transfer = _lower_bounds(run)
    return NetworkExplanation(
        described(run, plan_seconds=plan_seconds, unfused=unfused),
        tuple(times),
        tuple(_change(plan, s, run.cycles_of(r)) for s, r in pairs if s.work == "layout"),
        compute,
        transfer,
        round(plan.estimate_cycles),
        round(plan.lower_bound_cycles),
        rewrites,
    )


def _routines(plan: Plan, progress: Progress) -> dict[int, tuple[RoutineCycles, ...]]:
    """The calls of each candidate's code, where the machine's family names them."""
    single, found = one_group(plan.machine), dict[int, tuple[RoutineCycles, ...]]()
    names = ROUTINES.of(plan.machine)
    for number, stage in enumerate(plan.stages):
        progress("routines", number, len(plan.stages))
        chosen = stage.candidate
        if id(chosen) not in found:
            program = chosen.program(single)
            found[id(chosen)] = names.routines(program, single, simulated=True) if names else ()
    progress("routines", len(plan.stages), len(plan.stages))
    return found


def _change(plan: Plan, stage: Stage, cycles: int) -> LayoutChange:
    written = plan.values[stage.writes]
    before = form_text(plan.values[stage.reads[0]].form) if stage.reads else ""
    return LayoutChange(stage.name, written.name, before, form_text(written.form), cycles)


def _lower_bounds(run: PlanRun) -> tuple[int, int]:
    """Cycles of a group, or of all that compute together, for the operations of the products at the
    peak, and to move what is given, known and asked for once.
    """
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
    return compute, transfer
