"""Both kernels on all nodes of the model machine, with values and every message, beside the closed
form: steps 2 and 3 of recall, 2 to 9 of training (section 5.1.1; the report has no such table).
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tilewright.papers.cns1.cases import MODEL, WORST
from tilewright.papers.cns1.printed import PAPER
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, compare
from tilewright.targets.cns1.nodes.network import Weights, recall, train

TITLE = "recall and training on all nodes beside the closed form"
_SHIFT, _RATE, _HALF = 8, 3, 1 << 14
_WHY = {
    "recall": "the pipelines of a product fill and drain; values decide which port a look-up takes",
    "training": "eight cycles more around each four rows of steps 6 to 9, 29 in the updates",
}


class Kernel(Struct, frozen=True):
    """Cycles of the slowest node, stalls of all nodes by cause, and instructions."""

    cycles: int
    stalls: dict[str, int]
    instructions: int


def simulate(name: str) -> Kernel:
    """One kernel with random numbers."""
    machine, layers, random = MODEL.machine(), MODEL.layers, np.random.default_rng(1)
    shapes = ((layers.inputs, layers.hidden), (layers.hidden, layers.outputs))
    weights = Weights(*(random.integers(-2000, 2000, s, dtype=np.int16) for s in shapes))
    inputs = random.integers(-100, 100, (2, layers.inputs), dtype=np.int8)
    places = np.arange(-_HALF, _HALF)
    table = np.round(127 / (1 + np.exp(-places / 3000))).astype(np.int8)
    if name == "recall":
        run = recall(machine, weights, inputs, table, _SHIFT).run
    else:
        wanted = random.integers(-100, 100, layers.outputs, dtype=np.int8)
        run = train(machine, weights, inputs[0], wanted, table, _SHIFT, _RATE).run
    return Kernel(run.cycles, run.stalls(), run.instructions)


def run(lab: Lab) -> Result:
    """Each kernel in cycles; the note has causes of the difference and of stalls. A quick run has
    recall alone.
    """
    forward, training = MODEL.recall(WORST).forward, MODEL.training(WORST)
    around = training.reading_cycles + training.overhead_cycles
    closed = {
        "recall": forward.hidden_cycles + forward.outputs_cycles,
        "training": training.total_cycles - around,
    }
    names = list(closed)[: 1 if lab.quick else None]
    found = dict(zip(names, lab.map(simulate, names), strict=True))
    rows = [
        compare(
            f"{name}, all {MODEL.nodes} nodes",
            closed[name],
            found[name].cycles,
            "simulated",
            note=f"{_WHY[name]}; {_stalls(found[name])}",
            unit="cycles",
        )
        for name in names
    ]
    notes = ("published: the closed form of chapters 4 and 6, which was never measured",)
    summary: dict[str, float | str] = {
        "instructions simulated": sum(one.instructions for one in found.values())
    }
    return Result(PAPER, "all_nodes", TITLE, tuple(rows), summary, notes)


def _stalls(kernel: Kernel) -> str:
    parts = (f"{cycles // MODEL.nodes} {cause}" for cause, cycles in sorted(kernel.stalls.items()))
    return f"stalls of a node: {', '.join(parts)}"
