"""The planner's distribution of the networks of Table 3.1, beside the report's.

Each number is cycles for two patterns, steps 2 and 3 of recall, or for one pattern of training.
Both distributions are priced alike: products by their text, messages by the nodes' interfaces and
links. The report's has p_i x p_h blocks of the first matrix and p_h x p_i of the second; the
planner takes any block distribution, and in recall copies of the network on a part of the nodes
each, the third way of section 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from tilewright.graph import Network
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.tables import table_step
from tilewright.machine import Machine
from tilewright.ops import gemm
from tilewright.ops.lookup import Lookup
from tilewright.papers.cns1.cases import CASES, MODEL, WORST, TableCell
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.partition.layers import Layer
from tilewright.partition.objective import TIME
from tilewright.targets.cns1.division import DIVISION, given_blocks, plans
from tilewright.targets.cns1.sections import Messages

TITLE = "the planner's blocks for the networks of Table 3.1, beside the report's"
PATTERNS, _SHIFT = 2, 8
_LANES = 8


def perceptron_of(sizes: tuple[int, ...], patterns: int, shift: int = _SHIFT) -> Network:
    """Products of 8-bit activations and 16-bit weights, a table of the sigmoid behind each."""
    net = NetworkBuilder("perceptron", "i8")
    x, table = net.input("x", (patterns, sizes[0])), net.weight("table", (1 << 15,))
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        weight = net.weight(f"w{number}", (inputs, outputs), "i16")
        op = gemm(patterns, outputs, inputs, dtype="i8,i16:i32")
        sums = net.apply(op, x, weight, name=f"product{number}")
        look_up = Lookup((patterns, outputs), shift=shift)
        x = net.apply(look_up, sums, table, name=f"sigmoid{number}")
    return net.build((x,))


class BlockPlans(Struct, frozen=True):
    """Cycles of a network under both distributions; the planner's in words, its lower bound."""

    report: float
    single: float
    single_bound: float
    best: float
    words: str
    trained_report: float
    trained: float


def block_plans(case: TableCell) -> BlockPlans:
    """Both distributions of one network. The best is that of two patterns with copies in turn."""
    machine, sizes = case.machine(), case.layers
    network = perceptron_of((sizes.inputs, sizes.hidden, sizes.outputs), PATTERNS)
    layers, _ = DIVISION.planned(network, machine)
    every = list(plans(layers, machine, ["blocks"], TIME))
    _, single = every[0]
    copies, best = min(every, key=lambda one: one[1].cost / one[0])
    grids = " and ".join(one.division.grid.describe() for one in best.layers)
    report = _report_cycles(layers, machine)
    step = table_step(perceptron_of((sizes.inputs, sizes.hidden, sizes.outputs), 1))
    layers, _ = DIVISION.planned(step, machine)
    trained = _report_cycles(layers, machine)
    ours = min(plan.cost for _, plan in plans(layers, machine, ["blocks"], TIME))
    words = f"{copies} copies, {grids}"
    return BlockPlans(report, single.cost, single.bound, best.cost / copies, words, trained, ours)


def _report_cycles(layers: Sequence[Layer], machine: Machine) -> float:
    """Cycles of the report's blocks: parts of both matrices' outputs and terms (section 3.2.1)."""
    parts = machine.section(Messages).hidden_sharers
    others = machine.cores // parts
    return given_blocks(layers, machine, [(others, parts), (parts, others)]).cost


def run(lab: Lab) -> Findings:
    """Each network that its chips hold, of those of Table 3.1; a quick run has the first."""
    large = [one for one in CASES if one.chips != MODEL.chips]
    cases = [MODEL] if lab.quick else [MODEL, *large[1:]]
    rows = [row for case, found in zip(cases, lab.map(block_plans, cases), strict=True)
            for row in _rows(case, found)]  # fmt: skip
    notes = ("published: the closed form of chapter 4, with global sums by exchanges",)
    return Findings(tuple(rows), notes=notes)


def _rows(case: TableCell, found: BlockPlans) -> list[Row]:
    forward, training = case.recall(WORST).forward, case.training(WORST)
    around = training.reading_cycles + training.overhead_cycles
    closed = forward.hidden_cycles + forward.outputs_cycles
    bound = PATTERNS * case.layers.connections / _LANES / case.nodes
    single = f"at least {found.single_bound:.0f} in any blocks; the multiplier takes {bound:.0f}"
    rows = (
        ("the report's blocks", closed, found.report, ""),
        ("the planner's blocks", None, found.single, single),
        ("with copies", None, found.best, found.words),
        ("training, the report's blocks", training.total_cycles - around, found.trained_report, ""),
        ("training, the planner's blocks", None, found.trained, "one pattern, steps 2 to 9"),
    )
    return [
        compare(f"{case.name}: {name}", closed, cycles, "model", note=note, unit="cycles",
                printed=False)
        for name, closed, cycles, note in rows
    ]  # fmt: skip
