"""Fifteen layers, forward and backward, scheduled at the segments of their blocks, against the
blocks in the hand-optimised order: each tile computed in halves, each beside half of the next
loads.

In: block programs, and networks that the planner schedules. Out: cycles of both, and the distance
of the schedule's order from the best order of its operations, found by CP-SAT.

At equal segments, a stage's result tile has no more elements than the block's segment, or is the
smallest possible; forward, the matrix scratchpad holds no more weights than the block's. Where a
block cuts the depth of a sum, our products take it whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import prod

from msgspec import Struct
from ortools.sat.python import cp_model

from tilewright.asm import assemble, link
from tilewright.common.expr import evaluate
from tilewright.ir.nodes import Buffer
from tilewright.isa import load_table
from tilewright.machine import Machine, load_machine
from tilewright.network.plan import Stage
from tilewright.papers.dla_al.benchmarks import published_layers
from tilewright.papers.dla_al.loops import PAPER_MACHINE, TABLE
from tilewright.papers.dla_al.versions import (
    DIRECTIONS,
    Version,
    candidate_cycles,
    counted_stages,
    layer_plan,
    program_of_blocks,
    version_cycles,
)
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.simulate.window.execute import Executor
from tilewright.simulate.window.memories import ElementRange
from tilewright.targets.cambricon.code import CODE, image_of
from tilewright.targets.cambricon.round_products import MATRIX
from tilewright.targets.cambricon.runtime import Device
from tilewright.tune.candidate import Candidate
from tilewright.tune.fit import mesh_values
from tilewright.tune.search import candidates_like

TITLE = "at the segments of blocks: hand-optimised order, the automatic schedule, the best order"
_QUICK = 1
_FIRST, _OPERATIONS = 60, 14
"""Operations before the stretch to reorder, and operations in it."""


class AtSegments(Struct, frozen=True):
    """Cycles of a layer's schedule within segments and of the block in the hand-optimised order.
    `order` has a stretch's cycles in the schedule's order and in the best one; None if unproven.
    """

    automatic: int
    hand: int
    order: tuple[int, int] | None


def run(lab: Lab) -> Findings:
    """Two rows for each layer and direction: time against hand-optimised code, and order."""
    names = lab.some([layer.name for layer in published_layers()], _QUICK)
    cases = [Version(name, "hand-optimised", way) for way in DIRECTIONS for name in names]
    rows = list[Row]()
    for case, found in zip(cases, lab.map(at_equal_segments, cases), strict=True):
        ratios = {"automatic over hand-optimised": (found.automatic, found.hand)}
        ratios |= {"order over the best": found.order} if found.order else {}
        for what, (own, other) in ratios.items():
            name, note = f"{case.subject}, {case.direction}: {what}", f"{own} and {other} cycles"
            rows.append(compare(name, None, round(own / other, 3), "simulated", note=note))
    return Findings(
        rows=tuple(rows),
        notes=(
            "a tile of a result has at most as many elements as the block's segment, the smallest "
            "where no schedule keeps to that, forwards the matrix scratchpad at most the block's "
            "weights; products take a sum's depth whole",
            "changes of layout are the host's, and backward what the layer made is given",
            f"best order: of {_OPERATIONS} operations of the longest stage, unrolled, by CP-SAT",
        ),
    )


def at_equal_segments(case: Version) -> AtSegments:
    """A layer's schedule at the segments of its block."""
    machine = load_machine(PAPER_MACHINE)
    sizes, weights = _segments(program_of_blocks(case.subject, case.direction), machine)
    kept = weights if case.direction == "forward" else 0
    plan = layer_plan(case.subject, case.direction, machine)
    own = [_within(stage, sizes, kept, machine) for stage in counted_stages(plan)]
    cycles = [candidate_cycles(each, machine) for each in own]
    longest = own[cycles.index(max(cycles))]
    return AtSegments(sum(cycles), version_cycles(case), _order(longest, machine))


def _segments(program: str, machine: Machine) -> tuple[dict[int, int], int]:
    """Elements of a segment by the size of its data, and elements of weights kept on chip."""
    table = load_table(TABLE)
    device = Device(link([assemble(program, table)], table), machine)
    sizes: dict[int, int] = {}
    matrix, room = 0, machine.space(MATRIX).capacity_bytes // 2
    for data in device.data.values():
        segment = prod(data.segments)
        sizes[prod(data.extents)] = min(segment, sizes.get(prod(data.extents), segment))
        if data.kind == "synapse":
            stays = segment // data.segments[3] * data.extents[3]
            matrix = max(matrix, 2 * segment, stays if stays <= room else 0)
    return sizes, matrix


def _within(stage: Stage, sizes: dict[int, int], matrix: int, machine: Machine) -> Candidate:
    """The stage's fastest candidate within the segments, else the one with smallest tiles."""
    own = stage.candidate
    most = sizes.get(prod(stage.op.out_shape))
    if most is None or len(own.nests) != 1:
        return own
    smallest: tuple[int, Candidate] | None = None
    for found, program in candidates_like(own, machine):
        values = {**found.values, **found.nests[0].factors, **mesh_values(machine)}
        result = [b for b in program.buffers if b.name == f"{found.seed.result}_tile"]
        weights = [b for b in program.buffers if b.space == MATRIX]
        tile = sum(_elements(b, values) for b in result)
        kept = sum(_elements(b, values) * int(evaluate(b.copies, values)) for b in weights)
        if tile <= max(most, 8) and (kept <= matrix or not matrix):
            return found
        if smallest is None or tile < smallest[0]:
            smallest = tile, found
    return smallest[1] if smallest else own


def _elements(buffer: Buffer, values: dict[str, int]) -> int:
    return int(evaluate(buffer.elements, values))


def _order(candidate: Candidate, machine: Machine) -> tuple[int, int] | None:
    """Cycles of a stretch of a candidate's operations in their order and in the best one."""
    artifact = CODE.emit(candidate.program(machine), machine)
    executor = Device(image_of(artifact, machine), machine).executor(values=False)
    operations = stretch(executor, _FIRST, _OPERATIONS)
    best = best_cycles(operations, machine) if operations else None
    return None if best is None else (ordered_cycles(operations, executor.window.in_flight), best)


_EFFORT = 4.0
"""CP-SAT's deterministic time units for one stretch."""


@dataclass(frozen=True)
class TimedOperation:
    """A long operation: its unit, its cycles, and the spans that it reads and writes."""

    unit: str
    cycles: int
    reads: tuple[ElementRange, ...]
    writes: tuple[ElementRange, ...]

    def meets(self, other: TimedOperation) -> bool:
        """True if one operation writes what the other uses."""
        return any(w.meets(r) for w in self.writes for r in (*other.reads, *other.writes)) or any(
            w.meets(r) for w in other.writes for r in self.reads
        )


def stretch(executor: Executor, first: int, count: int) -> list[TimedOperation]:
    """`count` operations of a run after the `first` ones; the last ones of a shorter run."""
    found: list[TimedOperation] = []
    while len(found) < first + count and executor.step():
        if len(executor.events) > len(found):
            event, flight = executor.events[-1], executor.flights[-1]
            spans = tuple(flight.reads), tuple(flight.writes)
            found.append(TimedOperation(event.unit, event.end - event.start, *spans))
    return found[-count:]


def ordered_cycles(operations: Sequence[TimedOperation], in_flight: int) -> int:
    """Cycles of the operations in the given order."""
    ends, units, freed = list[int](), dict[str, int](), 0
    slots: list[int] = []
    for number, own in enumerate(operations):
        issue = slots[-in_flight] if len(slots) >= in_flight else 0
        waits = (e for e, o in zip(ends, operations[:number], strict=True) if o.meets(own))
        start = max([issue, units.get(own.unit, 0), *waits])
        ends.append(start + own.cycles)
        units[own.unit] = ends[-1]
        freed = max(freed, ends[-1])
        slots.append(freed)
    return max(ends, default=0)


def best_cycles(operations: Sequence[TimedOperation], machine: Machine) -> int | None:
    """Cycles of the best order; None if not proven within the effort."""
    assert machine.issue is not None
    in_flight, numbers = machine.issue.in_flight, range(len(operations))
    model, most = cp_model.CpModel(), ordered_cycles(operations, machine.issue.in_flight)
    starts = [model.new_int_var(0, most, f"start{i}") for i in numbers]
    places = [model.new_int_var(0, len(operations) - 1, f"place{i}") for i in numbers]
    model.add_all_different(places)
    for i, j in combinations(numbers, 2):
        first, second = operations[i], operations[j]
        if first.meets(second):
            model.add(places[i] < places[j])
            model.add(starts[j] >= starts[i] + first.cycles)
        elif first.unit == second.unit:
            ahead = model.new_bool_var(f"ahead{i}_{j}")
            for a, b, case in ((i, j, ahead), (j, i, ahead.negated())):
                model.add(places[a] < places[b]).only_enforce_if(case)
                model.add(starts[b] >= starts[a] + operations[a].cycles).only_enforce_if(case)
    for i, j in permutations(numbers, 2):
        late = model.new_bool_var(f"late{i}_{j}")
        model.add(places[j] >= places[i] + in_flight).only_enforce_if(late)
        model.add(places[j] < places[i] + in_flight).only_enforce_if(late.negated())
        model.add(starts[j] >= starts[i] + operations[i].cycles).only_enforce_if(late)
    whole = model.new_int_var(0, most, "whole")
    for i in numbers:
        model.add(whole >= starts[i] + operations[i].cycles)
        model.add_hint(places[i], i)
    model.minimize(whole)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = _EFFORT
    return solver.value(whole) if solver.solve(model) == cp_model.OPTIMAL else None
