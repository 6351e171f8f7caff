"""The steps of both kernels on one simulated node, beside the closed form.

Model conditions (section 5.1.1) with lookups that all go to one port, the worst that the formulas
know. Messages are not simulated: the closed form is taken without global sums. The report has no
such table.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tilewright.papers.cns1.cases import MODEL, WORST, simulated_row
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings
from tilewright.targets.cns1.kernels import run as kernels
from tilewright.targets.cns1.kernels.run import NodeResult
from tilewright.targets.cns1.timing.layers import on_each_node

TITLE = "steps on one simulated node beside the closed form"
_WHY = {
    "recall": "the same bound, the multiplier",
    "forward": "misses overlap with the work that the pipeline has ahead",
    "error": "our loop takes 48 cycles a pass, the report's 53",
    "backpropagation": "8 cycles more around each four rows: the pipeline fills and drains",
    "update": "96 cycles a pass for 98, and 29 around each four rows, which the report hides",
}


class _Step(Struct, frozen=True):
    """Cycles, stalls by cause, and instructions of one step."""

    cycles: int
    stalls: dict[str, int]
    instructions: int


def simulate_step(name: str) -> _Step:
    """One step on one node, with numbers whose sums all clip to the last entry of the table."""
    found = _kernel(name)
    return _Step(found.cycles, found.run.stalls, found.run.instructions)


def run(lab: Lab) -> Findings:
    """Each step in cycles; the note has the reason of the difference and the causes of stalls."""
    closed = closed_form()
    found = dict(zip(closed, lab.map(simulate_step, list(closed)), strict=True))
    rows = [
        simulated_row(name, cycles, own.cycles, f"{_WHY[name.split()[0]]}; {_stalls(own)}")
        for (name, cycles), own in zip(closed.items(), found.values(), strict=True)
    ]
    notes = ("published: the closed form of chapters 4 and 6, which was never measured",)
    instructions = sum(step.instructions for step in found.values())
    summary: dict[str, float | str] = {"instructions simulated": instructions}
    return Findings(tuple(rows), summary, notes)


def closed_form() -> Mapping[str, float]:
    """The formulas' cycles of each step, without global sums, procedures and threads."""
    recall, training = MODEL.recall(WORST).forward, MODEL.training(WORST)
    found: dict[str, float] = {}
    for kernel, forward in (("recall", recall), ("forward", training.forward)):
        for matrix, layer in (("A", forward.hidden), ("B", forward.outputs)):
            own = layer.in_all
            found[f"{kernel} {matrix}"] = own.product_cycles + own.sigmoid_cycles
    backward = training.backward
    rounds = backward.rounds * (backward.local_cycles + backward.scaling_cycles)
    found["error"] = training.error_cycles
    found["backpropagation B"] = rounds + backward.parameter_cycles
    found["update B"] = training.update_outputs_cycles
    found["update A"] = training.update_hidden_cycles
    return found


def _kernel(name: str) -> NodeResult:
    machine, local = MODEL.machine(), on_each_node(MODEL.machine(), MODEL.layers)
    kind, _, matrix = name.partition(" ")
    rows, columns = (local.inputs, local.hidden) if matrix == "A" else (local.hidden, local.outputs)
    weights, error = np.full((rows, columns), 100, "<i2"), np.full(columns, 5, "<i2")
    match kind:
        case "recall" | "forward":
            patterns = _ones(2 if kind == "recall" else 1, rows)
            table = np.zeros(WORST.table_elements, np.int8)
            return kernels.forward(machine, weights, patterns, table, 0)
        case "error":
            return kernels.errors(machine, _ones(columns), _ones(columns), 3)
        case "backpropagation":
            return kernels.backward(machine, weights, error, _ones(rows))
        case _:
            return kernels.update(machine, weights, error, _ones(rows))


def _ones(*shape: int) -> NDArray[np.int8]:
    return np.full(shape, 5, np.int8)


def _stalls(step: _Step) -> str:
    parts = (f"{cycles} {cause}" for cause, cycles in sorted(step.stalls.items()))
    return f"stalls: {', '.join(parts)}"
