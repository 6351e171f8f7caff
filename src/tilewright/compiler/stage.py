"""One stage of a network that is no product, explained.

In: the simulated run of a plan, or the measured one of a network on this computer, and the stage's
name. Out: a `report.view.StageExplanation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tilewright.common.errors import GraphError
from tilewright.common.progress import Progress, silent
from tilewright.compiler.account import simulated_account
from tilewright.compiler.analysis import routines_of
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted, safe_name
from tilewright.network.explain import Routines
from tilewright.network.plan import Plan, Stage
from tilewright.network.planning.form import form_text
from tilewright.network.planning.products import one_group
from tilewright.network.results import NetworkRun
from tilewright.network.simulate import PlanRun
from tilewright.report.view import CauseRow, StageExplanation, StageTensor

_WITHOUT_TENSOR = ("plain_layout",)
"""Stages of this computer that are not named after something of the network."""


def simulated_stage(run: PlanRun, name: str) -> StageExplanation:
    """The explanation of a stage of a plan; GraphError where there is none of that name."""
    plan, machine = run.plan, run.plan.machine
    number = _numbered(name, {s.name: s.nodes for s in plan.stages})
    stage, own, single = plan.stages[number], run.runs[number], one_group(machine)
    cycles, account = run.cycles_of(number), simulated_account(own)
    before = [CauseRow(kind, "", amount) for kind, amount in plan.before[number].items()]
    return StageExplanation(
        plan.name,
        machine.name,
        plan.dtype,
        stage.name,
        stage.label,
        stage.work,
        stage.nodes,
        "simulated",
        1e3 * cycles / machine.clock_hz,
        cycles / max(1, run.cycles),
        sum(row.moved_bytes for row in account.traffic),
        max(plan.groups, stage.groups),
        stage.division.kind if stage.division else "",
        computed(stage),
        tuple(_tensors(plan, stage)),
        cycles,
        round(stage.candidate.cycles + sum(row.cycles for row in before)),
        tuple(sorted((*account.causes, *before), key=lambda row: -row.cycles)),
        account.traffic,
        routines_of(stage.candidate.program(single), single, simulated=True),
    )


def stage_routines(plan: Plan, progress: Progress = silent) -> tuple[Routines, ...]:
    """The calls of each stage's code, those of equal stages simulated once."""
    single, found = one_group(plan.machine), dict[int, Routines]()
    for number, stage in enumerate(plan.stages):
        progress("routines", number, len(plan.stages))
        chosen = stage.candidate
        if id(chosen) not in found:
            found[id(chosen)] = routines_of(chosen.program(single), single, simulated=True)
    progress("routines", len(plan.stages), len(plan.stages))
    return tuple(found[id(stage.candidate)] for stage in plan.stages)


def measured_stage(run: NetworkRun, name: str) -> StageExplanation:
    """The explanation of a stage on this computer; a time of zero if nothing was measured."""
    stages = run.stages
    stage = stages[_numbered(name, {s.name: s.nodes for s in stages})]
    total = sum(s.measured_milliseconds or 0.0 for s in stages)
    milliseconds = stage.measured_milliseconds
    return StageExplanation(
        run.network,
        run.machine,
        run.dtype,
        stage.name,
        stage.label,
        stage.work,
        stage.nodes,
        "model" if milliseconds is None else "measured",
        milliseconds or 0.0,
        (milliseconds or 0.0) / (total or 1.0),
        stage.moved_bytes or 0,
    )


def _numbered(name: str, nodes: dict[str, tuple[str, ...]]) -> int:
    """Index of the stage called `name`, given the nodes that each stage computes."""
    if name in nodes:
        return list(nodes).index(name)
    for stage, own in nodes.items():
        if name in own:
            raise GraphError(
                f"there is no stage {quoted(name)}: {stage} computes it", fix=f"--layer {stage}"
            )
    known = ", ".join(nodes)
    raise GraphError(
        f"there is no stage {quoted(name)}", fix=f"{_meant(name, nodes)}the stages are {known}"
    )


def require_nameable(network: Network, name: str) -> None:
    """Raise GraphError for what no stage of any plan is called, before there is one: stages are
    named after operators, tensors and outputs.
    """
    nodes = [node.name for node in network.nodes]
    tensors = (safe_name(tensor) for tensor in network.tensors)
    stems = {*nodes, *tensors, *_WITHOUT_TENSOR}
    if any(name == stem or name.startswith(f"{stem}_") for stem in stems):
        return
    if any(name == f"output{number}" for number in range(len(network.outputs))):
        return
    raise GraphError(
        f"there is no stage {quoted(name)}",
        fix=f"{_meant(name, nodes)}stages are named after the operators {', '.join(nodes)}",
    )


def _meant(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]}? " if close else ""


def computed(stage: Stage) -> str:
    """The computation of a stage, in words."""
    own = stage.op.in_memory
    return stage.op.describe() if own is None else own.in_words()


def _tensors(plan: Plan, stage: Stage) -> Iterable[StageTensor]:
    for name, number in stage.arguments:
        value = plan.values[number]
        yield StageTensor(name, value.name, form_text(value.form), value.dtype, value.size_bytes)
