"""Figure 3.2: which of 128 nodes share inputs and outputs, and which share hidden vectors, by the
owners of the planner's distribution of the model network.
"""

from __future__ import annotations

from itertools import pairwise

from matplotlib.figure import Figure

from tilewright.machine import Machine
from tilewright.papers.cns1.cases import MODEL
from tilewright.papers.cns1.plans import PATTERNS, perceptron_of
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result
from tilewright.partition.objective import TIME
from tilewright.targets.cns1.division import DIVISION, plans

TITLE = "nodes that share inputs, and nodes that share hidden vectors"
_COLOURS = "tab20"
_INPUTS, _HIDDEN = "inputs and outputs", "hidden vectors"


def run(lab: Lab) -> Findings:
    """Columns of a group that shares inputs, and how far those that share hidden vectors lie apart
    in a ring; the planner's numbers stand beside the report's.
    """
    machine, groups = MODEL.machine(), _groups()
    rings = [_columns(machine, groups[name][0]) for name in (_INPUTS, _HIDDEN)]
    notes = (
        "the planner numbers parts of a sum along the ring first, so that their nodes are"
        f" neighbours; inputs are shared by columns {', '.join(map(str, rings[0]))} and those that"
        " lie as far apart",
    )
    return reproduced(lab, "figure3_2", {"rings": rings, "pairwise": pairwise}, notes=notes)


def draw(result: Result) -> Figure:
    """The nodes as rows of rings, twice: those that share have one number and one colour."""
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
    """The nodes with the same terms, and those with the same columns, of the first product."""
    sizes, machine = MODEL.layers, MODEL.machine()
    network = perceptron_of((sizes.inputs, sizes.hidden, sizes.outputs), PATTERNS)
    layers, _ = DIVISION.planned(network, machine)
    _, plan = next(iter(plans(layers, machine, ["blocks"], TIME)))
    first = plan.layers[0]
    found: dict[str, dict[object, list[int]]] = {_INPUTS: {}, _HIDDEN: {}}
    for core, part in zip(first.cores, first.division.parts, strict=True):
        found[_INPUTS].setdefault(part.terms, []).append(core)
        found[_HIDDEN].setdefault(part.summed, []).append(core)
    return {name: [*map(tuple, own.values())] for name, own in found.items()}


def _columns(machine: Machine, group: tuple[int, ...]) -> list[int]:
    return sorted({core % machine.mesh.columns for core in group})
