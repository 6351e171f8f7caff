"""Analysis of a compiled operator: bounds, causes, rejected options, helpful changes.

In: the search's options, a program, its simulated run and the machine. Out: the values of
`report.view`. A lower bound counts the operations at the cores' peak and each operand once at the
engine's peak (roofline). Each change is simulated on a machine with that one number changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeAlias

from tilewright.codegen.artifact import ROUTINES, RoutineCycles
from tilewright.common.errors import GraphError
from tilewright.common.progress import Progress, silent, told
from tilewright.cost.prices import prices_of
from tilewright.cost.timing import moved_bytes
from tilewright.cost.totals import CallGroup, TransferGroup, copy_cycles, executed, model_causes
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted, safe_name
from tilewright.ir.nodes import SCRATCHPAD, Program
from tilewright.ir.threads import busiest_thread
from tilewright.machine import Machine
from tilewright.machine.build import changed
from tilewright.machine.keys import document_key
from tilewright.machine.parts import Direction, Engine
from tilewright.network.explain import Routines
from tilewright.network.groups import CutTensor, GroupWork
from tilewright.network.plan import Plan, Stage
from tilewright.network.planning.form import form_text
from tilewright.network.planning.products import one_group
from tilewright.network.results import NetworkRun
from tilewright.network.simulate import PlanRun
from tilewright.ops import Op
from tilewright.passes.allocate_buffers import bytes_on_a_core
from tilewright.passes.lowering import lowering_of
from tilewright.passes.split_ahead import split_ahead
from tilewright.report import view
from tilewright.simulate.kernel.level import KernelTime, simulate
from tilewright.tune.accuracy import expected_error
from tilewright.tune.choose import Choice, Option, choose
from tilewright.tune.measure import schedule_text
from tilewright.tune.refills import simulated

Seconds: TypeAlias = float


@dataclass(frozen=True)
class Account:
    """Cycles of one core group, or of its busiest thread. `causes` sum to `cycles`, `bound` names
    the largest part.

    `useful_flops` are those of all matrix products on elements of tensors. `measured_seconds` is
    the time on this computer, if measured: it has no causes of its own, those are the model's.
    """

    cycles: int
    causes: tuple[view.CauseRow, ...]
    traffic: tuple[view.TrafficRow, ...]
    useful_flops: int
    scratchpad_bytes: int
    bound: str
    timed_by: view.TimedBy
    measured_seconds: Seconds | None = None

    def seconds(self, clock_hz: int) -> Seconds:
        """The measured time, else the cycles at this clock."""
        return self.cycles / clock_hz if self.measured_seconds is None else self.measured_seconds


def simulated_account(run: KernelTime) -> Account:
    """The account of a simulated run."""
    return Account(
        run.cycles,
        tuple(view.CauseRow(c.kind, c.subject, c.cycles) for c in run.causes),
        tuple(
            view.TrafficRow(
                t.tensor, t.direction, t.asked_bytes, t.moved_bytes, t.requests, t.engine_cycles
            )
            for t in run.tensors
        ),
        run.useful_flops,
        run.allocated_bytes,
        run.bound(),
        "simulated",
    )


def every_call(program: Program) -> Program:
    """The part of a program that runs with every call, without what runs once ahead of them."""
    _, found = split_ahead(program)
    return found


def model_account(
    program: Program, machine: Machine, cycles: float, measured_seconds: Seconds | None
) -> Account:
    """The model's account of a program whose core makes its copies itself, for the busiest of
    several threads. Code that runs ahead of all calls is left out.

    The part of the estimate that calls, copies and barriers do not explain is waiting for operands
    in place.
    """
    program = every_call(program)
    _, all_calls = executed(program, machine)
    own = replace(program, body=busiest_thread(program.body))
    transfers, _ = executed(own, machine)
    causes = model_causes(program, machine, cycles)
    rows = [view.CauseRow(kind, subject, c) for (kind, subject), c in causes]
    return Account(
        sum(row.cycles for row in rows),
        tuple(rows),
        tuple(_traffic(moved, machine) for moved in transfers),
        sum(_flops(c, machine) for c in all_calls),
        sum(bytes_on_a_core(b) for b in program.buffers),
        _bound(rows),
        "model" if measured_seconds is None else "measured",
        measured_seconds,
    )


def _flops(group: CallGroup, machine: Machine) -> int:
    return group.count * int(group.stmt.primitive.flops(group.dims, machine.mesh.columns))


def _bound(rows: Sequence[view.CauseRow]) -> str:
    """The name of the largest part of the modelled time."""
    names = {"copy": "copies", "primitive": "primitives", "caches": "caches", "barrier": "barriers"}
    parts: dict[str, int] = {}
    for row in rows:
        name = names.get(row.kind, "compute")
        parts[name] = parts.get(name, 0) + row.cycles
    return max(parts, key=lambda part: parts[part]) if parts else "compute"


def _traffic(group: TransferGroup, machine: Machine) -> view.TrafficRow:
    shape, count = group.shape, group.count
    return view.TrafficRow(
        group.stmt.tensor,
        group.stmt.direction,
        count * int(shape.asked_bytes),
        count * int(moved_bytes(machine, shape) / machine.cores),
        count * int(shape.requests),
        round(count * copy_cycles(group, machine)),
    )


_SHOWN_REJECTED = 3


def routines_of(
    program: Program, machine: Machine, *, simulated: bool
) -> tuple[RoutineCycles, ...]:
    """The routines of a program's code; empty where the machine's family does not list them."""
    names = ROUTINES.of(machine)
    return names.routines(program, machine, simulated=simulated) if names else ()


def lower_bounds(op: Op, machine: Machine, useful_flops: int) -> tuple[int, int]:
    """Lower bounds on the cycles of one group, all its threads together: (operations, moving each
    operand once).

    The operations are those of the algorithm if it needs fewer than the direct form.
    """
    flops = min(op.flops, useful_flops)
    threads = machine.thread_count
    kinds = op.numerics
    per_cycle = machine.core.peak_flops_per_cycle(kinds.sums.name)
    compute = flops / (threads * machine.cores * per_cycle)
    pairs = zip(op.input_shapes, kinds.operands, strict=True)
    read = sum(math.prod(shape) * kind.size_bytes for shape, kind in pairs)
    written = math.prod(op.out_shape) * kinds.result.size_bytes
    engines = machine.transfer_engines.values()
    ways = [way for engine in engines for way in engine.directions.values()]
    gets = sum(way.peak_bytes_per_second for way in ways if way.reads == "main")
    puts = sum(way.peak_bytes_per_second for way in ways if way.writes == "main")
    seconds = read / gets + written / puts
    return math.ceil(compute), math.ceil(seconds / threads * machine.clock_hz)


def layer_result(
    name: str, choice: Choice, option: Option, machine: Machine, account: Account
) -> view.LayerResult:
    """The report's line for one operator."""
    op, piece = choice.op, option.partition.piece
    seconds = account.seconds(machine.clock_hz)
    return view.LayerResult(
        name=name,
        op=op.kind,
        shape=op.describe(),
        algorithm=option.algorithm,
        partition=option.partition.kind,
        schedule=schedule_text(option.candidate),
        candidates=choice.counts.considered,
        candidates_fitting=choice.counts.fitting,
        candidates_priced=choice.counts.priced,
        estimate_cycles=round(option.cycles),
        simulated_cycles=account.cycles if account.timed_by == "simulated" else None,
        milliseconds=seconds * 1e3,
        gflops=op.flops / seconds / 1e9,
        peak_fraction=op.flops / seconds / machine.peak_flops_of(op.numerics.sums.name),
        bound=account.bound,
        lower_bound_cycles=max(lower_bounds(piece, machine, account.useful_flops)),
        timed_by=account.timed_by,
        measured_seconds=account.measured_seconds,
        expected_error=expected_error(piece, option.candidate.seed),
    )


def explanation(
    layer: view.LayerResult, choice: Choice, option: Option, machine: Machine, account: Account
) -> view.Explanation:
    """Explanation of one operator, as far as it needs no further runs."""
    piece = option.partition.piece
    compute, transfer = lower_bounds(piece, machine, account.useful_flops)
    return view.Explanation(
        layer=layer,
        machine=machine.name,
        groups=machine.groups.count,
        groups_used=len(option.partition.pieces),
        threads=machine.thread_count,
        clock_hz=machine.clock_hz,
        causes=account.causes,
        traffic=account.traffic,
        scratchpad_bytes=account.scratchpad_bytes,
        scratchpad_limit_bytes=sum(lowering_of(machine).buffer_bytes.values()),
        lower_bound_compute_cycles=compute,
        lower_bound_transfer_cycles=transfer,
        rejected=rejected_options(choice, option),
        adding=_adding(option),
        refill_note=prices_of(machine).refill_note(machine),
    )


def _adding(option: Option) -> view.Adding | None:
    if option.adding is None:
        return None
    (elements,) = option.adding.op.out_shape
    return view.Adding(elements, round(option.adding_cycles))


def arranging_copies(work: GroupWork, machine: Machine) -> tuple[view.Arranged, ...]:
    """Copies by the groups' cores that arrange whole C-order arrays as operands and store the
    result. All groups copy at the same time; the first group copies shared tensors.
    """
    single, known = one_group(machine), dict[int, int]()
    peak = machine.transfer_engine(SCRATCHPAD).get.peak_bytes_per_second

    def cycles(stage: Stage) -> int:
        key = id(stage.candidate)
        if key not in known:
            known[key] = simulated(stage.candidate, single).cycles
        return known[key]

    def row(cut: CutTensor, direction: str) -> view.Arranged:
        copies = 1 if cut.shared else work.groups
        return view.Arranged(
            cut.name,
            direction,
            cut.shared,
            cut.moved_bytes,
            2e3 * cut.moved_bytes / copies / peak,
            round(max(sum(s.candidate.cycles for s in stages) for stages in cut.stages)),
            max(sum(cycles(s) for s in stages) for stages in cut.stages),
        )

    return (*(row(cut, "in") for cut in work.operands), row(work.result, "out"))


def rejected_options(choice: Choice, winner: Option) -> tuple[view.Rejected, ...]:
    """The best candidates that lost: first one of each algorithm and partition, then others.

    Candidates priced exactly like a better one of their kind come last.
    """
    losers = sorted((o for o in choice.options if o is not winner), key=lambda o: o.cycles)
    kinds, priced = set[tuple[str, str]](), {_price(winner)}
    firsts: list[Option] = []
    others: list[Option] = []
    twins: list[Option] = []
    for option in losers:
        kind = (option.algorithm, option.partition.kind)
        if _price(option) in priced:
            twins.append(option)
        else:
            (others if kind in kinds else firsts).append(option)
            kinds.add(kind)
        priced.add(_price(option))
    shown = (firsts + others + twins)[:_SHOWN_REJECTED]
    best = _parts(winner)
    ordered = sorted(shown, key=lambda o: o.cycles)
    return tuple(_rejected(option, best) for option in ordered)


def _price(option: Option) -> tuple[str, str, float]:
    return option.algorithm, option.partition.kind, option.cycles


def _rejected(option: Option, best: tuple[float, float]) -> view.Rejected:
    compute, waiting = _parts(option)
    return view.Rejected(
        algorithm=option.algorithm,
        partition=option.partition.kind,
        schedule=schedule_text(option.candidate),
        estimate_cycles=round(option.cycles),
        compute_cycles=round(compute),
        waiting_cycles=round(waiting),
        why=_why((compute, waiting), best, option.measured_cycles),
    )


def _why(own: tuple[float, float], best: tuple[float, float], measured: int | None) -> str:
    """The parts of the time that exceed the winner's, in words."""
    more_compute, more_waiting = own[0] - best[0], own[1] - best[1]
    if more_compute <= 0 and more_waiting <= 0:
        simulated = f"its simulation takes {measured} cycles" if measured else "it is equally fast"
        return f"no part is larger by the model; {simulated}"
    if more_compute > more_waiting:
        text, other = f"computing takes {more_compute:.0f} cycles more", more_waiting
        rest = "waiting for transfers"
    else:
        text, other = f"waiting for transfers takes {more_waiting:.0f} cycles more", more_compute
        rest = "computing"
    if abs(other) < 1:
        return text
    return f"{text}, {rest} {abs(other):.0f} {'more' if other > 0 else 'less'}"


def _parts(option: Option) -> tuple[float, float]:
    """(cycles of computing, other cycles) by the model."""
    adding = () if option.adding is None else option.adding.best.candidate.nests
    nests = (*option.candidate.nests, *adding)
    compute = sum(nest.compute_cycles for nest in nests)
    return compute, option.cycles - compute


def changes_that_help(
    piece: Op,
    algorithm: str,
    programs: Sequence[Program],
    machine: Machine,
    progress: Progress = silent,
) -> tuple[view.Change, ...]:
    """Simulate a group's programs on faster memories, or with the changes that the family's prices
    name, and a retuned program with twice the scratchpad. Of several programs, only the first is
    retuned.
    """
    own = prices_of(machine).changes(machine)
    engines = {f"engines.{name}": e for name, e in machine.transfer_engines.items()}
    ways = {f"{e}.{name}": way for e, of in engines.items() for name, way in of.directions.items()}
    same_schedule: list[dict[str, Any]] = [
        dict(_faster(path, way) for path, way in ways.items()),
        _halved("latency_cycles", engines),
        _halved("issue_cycles", engines),
    ]
    tried, found = own or [*filter(None, same_schedule)], list[view.Change]()
    for settings in tried:
        progress("changes", len(found), len(tried) + 1)
        cycles = _cycles(programs, changed(machine, settings))
        found.append(view.Change(_settings(settings), cycles, retuned=False))
    progress("changes", len(tried), len(tried) + 1)
    larger = {
        f"memory.{name}.capacity_bytes": 2 * machine.space(name).capacity_bytes
        for name in lowering_of(machine).buffer_bytes
    }
    roomy = changed(machine, {**larger, "groups.count": 1})
    (choice,) = choose([piece], roomy, algorithm=algorithm, keep=1)
    cycles = _cycles([choice.best.candidate.program(roomy), *programs[1:]], roomy)
    progress("changes", len(tried) + 1, len(tried) + 1)
    return (*found, view.Change(_settings(larger), cycles, retuned=True))


def _cycles(programs: Sequence[Program], machine: Machine) -> int:
    """Cycles of programs that run one after the other."""
    return sum(simulate(program, machine).cycles for program in programs)


def _faster(path: str, way: Direction) -> tuple[str, float]:
    """The document key of one direction's speed, and twice that speed."""
    if way.bytes_per_cycle is not None:
        return document_key(f"{path}.bytes_per_cycle"), 2 * way.bytes_per_cycle
    return document_key(f"{path}.peak_bytes_per_second"), 2 * way.peak_bytes_per_second


def _halved(field: str, engines: Mapping[str, Engine]) -> dict[str, int]:
    """The field of every engine that has it nonzero, halved, by document key."""
    own = ((p, getattr(e, field)) for p, e in engines.items())
    return {document_key(f"{p}.{field}"): cycles // 2 for p, cycles in own if cycles}


def _settings(settings: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{path}={value:.12g}" for path, value in settings.items())


# Stages of networks that are no product.

_WITHOUT_TENSOR = ("plain_layout",)
"""Stages of this computer that are not named after a node or tensor."""


def simulated_stage(run: PlanRun, name: str) -> view.StageExplanation:
    """The explanation of a stage of a plan. Raises GraphError for an unknown name."""
    plan, machine = run.plan, run.plan.machine
    number = _numbered(name, {s.name: s.nodes for s in plan.stages})
    stage, own, single = plan.stages[number], run.runs[number], one_group(machine)
    cycles, account = run.cycles_of(number), simulated_account(own)
    before = [view.CauseRow(kind, "", amount) for kind, amount in plan.before[number].items()]
    return view.StageExplanation(
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
    """The routine calls of each stage's code; equal stages are simulated once."""
    single, found = one_group(plan.machine), dict[int, Routines]()
    for stage in told(progress, "routines", plan.stages):
        chosen = stage.candidate
        if id(chosen) not in found:
            found[id(chosen)] = routines_of(chosen.program(single), single, simulated=True)
    return tuple(found[id(stage.candidate)] for stage in plan.stages)


def measured_stage(run: NetworkRun, name: str) -> view.StageExplanation:
    """The explanation of a stage on this computer; its time is zero if nothing was measured."""
    stages = run.stages
    stage = stages[_numbered(name, {s.name: s.nodes for s in stages})]
    total = sum(s.measured_milliseconds or 0.0 for s in stages)
    milliseconds = stage.measured_milliseconds
    return view.StageExplanation(
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
        f"there is no stage {quoted(name)}",
        fix=f"{_closest_hint(name, nodes)}the stages are {known}",
    )


def require_nameable(network: Network, name: str) -> None:
    """Raise GraphError for a name that no stage of any plan can have, before there is a plan:
    stages are named after operators, tensors and outputs.
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
        fix=f"{_closest_hint(name, nodes)}stages are named after the operators {', '.join(nodes)}",
    )


def _closest_hint(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]}? " if close else ""


def computed(stage: Stage) -> str:
    """The computation of a stage, in words."""
    own = stage.op.in_memory
    return stage.op.describe() if own is None else own.in_words()


def _tensors(plan: Plan, stage: Stage) -> Iterable[view.StageTensor]:
    for name, number in stage.arguments:
        value = plan.values[number]
        yield view.StageTensor(
            name, value.name, form_text(value.form), value.dtype, value.size_bytes
        )
