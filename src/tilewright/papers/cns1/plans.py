"""The planner's distribution of the networks of Table 3.1, beside the report's.

Numbers are cycles for two patterns (steps 2 and 3 of recall), or for one pattern of training. Both
distributions are priced alike: products by their programs, messages by the nodes' interfaces and
links. The report's has p_i x p_h blocks of the first matrix and p_h x p_i of the second. The
planner tries any block distribution and, in recall, copies of the network on parts of the nodes,
the third way of section 3.1.

Figure 3.2 shows which of 128 nodes share inputs and outputs, and which share hidden vectors, by the
planner's distribution of the model network.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.graph import Network
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.tables import table_step
from tilewright.machine import Machine
from tilewright.ops import gemm
from tilewright.ops.lookup import Lookup
from tilewright.papers.cns1.cases import CASES, MODEL, WORST, TableCell
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row, compare
from tilewright.partition.layers import Layer
from tilewright.partition.objective import TIME
from tilewright.targets.cns1.division import DIVISION, given_blocks
from tilewright.targets.cns1.division import plans as distributions
from tilewright.targets.cns1.sections import Messages

TITLES = {
    "plans": "the planner's blocks for the networks of Table 3.1, beside the report's",
    "figure3_2": "nodes that share inputs, and nodes that share hidden vectors",
}
PATTERNS, _SHIFT = 2, 8
_LANES = 8


def perceptron_of(sizes: tuple[int, ...], patterns: int, shift: int = _SHIFT) -> Network:
    """A perceptron of 8-bit activations, 16-bit weights and a sigmoid table per product."""
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
    """Cycles of a network under both distributions, the planner's in words, and its lower bound."""

    report: float
    single: float
    single_bound: float
    best: float
    words: str
    trained_report: float
    trained: float


def block_plans(case: TableCell) -> BlockPlans:
    """Both distributions of one network; `best` is for two patterns, with copies taking turns."""
    machine, sizes = case.machine(), case.layers
    network = perceptron_of((sizes.inputs, sizes.hidden, sizes.outputs), PATTERNS)
    layers, _ = DIVISION.planned(network, machine)
    every = list(distributions(layers, machine, ["blocks"], TIME))
    _, single = every[0]
    copies, best = min(every, key=lambda one: one[1].cost / one[0])
    grids = " and ".join(one.division.grid.describe() for one in best.layers)
    report = _report_cycles(layers, machine)
    step = table_step(perceptron_of((sizes.inputs, sizes.hidden, sizes.outputs), 1))
    layers, _ = DIVISION.planned(step, machine)
    trained = _report_cycles(layers, machine)
    ours = min(plan.cost for _, plan in distributions(layers, machine, ["blocks"], TIME))
    words = f"{copies} copies, {grids}"
    return BlockPlans(report, single.cost, single.bound, best.cost / copies, words, trained, ours)


def _report_cycles(layers: Sequence[Layer], machine: Machine) -> float:
    """Cycles of the report's blocks: parts of both matrices' outputs and terms (section 3.2.1)."""
    parts = machine.section(Messages).hidden_sharers
    others = machine.cores // parts
    return given_blocks(layers, machine, [(others, parts), (parts, others)]).cost


def run(lab: Lab) -> Findings:
    """Each network of Table 3.1 that its chips hold; a quick run has the first."""
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


# Figure 3.2.

_COLOURS = "tab20"
_INPUTS, _HIDDEN = "inputs and outputs", "hidden vectors"


def figure3_2(lab: Lab) -> Findings:
    """Columns of a group that shares inputs, and ring distances of nodes that share hidden vectors;
    the planner's numbers beside the report's.
    """
    machine, groups = MODEL.machine(), _groups()
    rings = [_columns(machine, groups[name][0]) for name in (_INPUTS, _HIDDEN)]
    notes = (
        "the planner numbers parts of a sum along the ring first, so that their nodes are"
        f" neighbours; inputs are shared by columns {', '.join(map(str, rings[0]))} and those that"
        " lie as far apart",
    )
    return reproduced(lab, "figure3_2", {"rings": rings, "pairwise": pairwise}, notes=notes)


def draw_figure3_2(result: Result) -> Figure:
    """The nodes as rows of rings, twice: nodes that share have one number and one colour."""
    figure = Figure(figsize=(12.0, 4.2), layout="constrained")
    rows, columns = MODEL.machine().mesh.rows, MODEL.machine().mesh.columns
    panels = figure.subplots(2, 1, squeeze=False)[:, 0]
    for axes, (name, groups) in zip(panels, _groups().items(), strict=True):
        number = {core: i for i, group in enumerate(groups) for core in group}
        image = [[number[r * columns + c] for c in range(columns)] for r in range(rows)]
        axes.imshow(image, cmap=_COLOURS, origin="lower", aspect="auto")
        for core, group in number.items():
            row, column = divmod(core, columns)
            axes.text(column, row, str(group), ha="center", va="center", fontsize=7)
        axes.set_title(f"{len(groups)} groups that share {name} (planned)", fontsize=10)
        axes.set_xlabel("column")
        axes.set_ylabel("ring")
        axes.set_yticks(range(rows))
    return figure


def _groups() -> dict[str, list[tuple[int, ...]]]:
    """The nodes that share terms, and those that share columns, of the first product."""
    sizes, machine = MODEL.layers, MODEL.machine()
    network = perceptron_of((sizes.inputs, sizes.hidden, sizes.outputs), PATTERNS)
    layers, _ = DIVISION.planned(network, machine)
    _, plan = next(iter(distributions(layers, machine, ["blocks"], TIME)))
    first = plan.layers[0]
    found: dict[str, dict[object, list[int]]] = {_INPUTS: {}, _HIDDEN: {}}
    for core, part in zip(first.cores, first.division.parts, strict=True):
        found[_INPUTS].setdefault(part.terms, []).append(core)
        found[_HIDDEN].setdefault(part.summed, []).append(core)
    return {name: [*map(tuple, own.values())] for name, own in found.items()}


def _columns(machine: Machine, group: tuple[int, ...]) -> list[int]:
    return sorted({core % machine.mesh.columns for core in group})
