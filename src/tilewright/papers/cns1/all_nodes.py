"""Both kernels on all nodes of the model machine, with values and every message, beside the closed
form: steps 2 and 3 of recall, 2 to 9 of training (section 5.1.1; the report has no such table).
Training also runs in sets, whose patterns share each read of the weights.

A second table has the steps of both kernels on one node, with all look-ups going to one port, the
worst case of the formulas; its closed form omits global sums. Each table is a function by its name
in `TITLES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tilewright.graph import Network
from tilewright.graph.tables import SCALING, table_step
from tilewright.machine.build import changed
from tilewright.papers.cns1.cases import MODEL, WORST, TableCell, simulated_row, training_rate
from tilewright.papers.cns1.digits import arithmetic
from tilewright.papers.cns1.plans import perceptron_of
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, compare
from tilewright.partition.objective import TIME
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.division import DIVISION
from tilewright.targets.cns1.kernels import reference
from tilewright.targets.cns1.kernels import run as kernels
from tilewright.targets.cns1.kernels.learning import learn
from tilewright.targets.cns1.kernels.run import NodeResult
from tilewright.targets.cns1.timing.layers import on_each_node

Array = NDArray[Any]
TITLES = {
    "all_nodes": "recall and training on all nodes beside the closed form",
    "node_steps": "steps on one simulated node beside the closed form",
}
_SHIFT, _HALF = 8, 1 << 14
_WHY = {
    "recall": "factors are copied to the cache once, sums leave behind whole chunks",
    "training": "eight cycles more around each four rows of steps 6 to 9, and copies of factors",
}
SETS = {"training in sets of 2": 2, "training in sets of 3": 3}
_REPORT_RATE = 22.0
"""Giga updates per second in the abstract: all connections over the time of a pattern."""


class _Kernel(Struct, frozen=True):
    """Cycles of the slowest node, stalls of all nodes by cause, instructions, and True if the
    values equal those of the fixed-point network.
    """

    cycles: int
    stalls: dict[str, int]
    instructions: int
    same_bits: bool


def simulate_kernel(name: str) -> _Kernel:
    """Run one kernel on random numbers, distributed by the planner."""
    run, same = recalled() if name == "recall" else trained(SETS.get(name, 1))
    return _Kernel(run.cycles, run.stalls(), run.instructions, same)


def recalled(case: TableCell = MODEL) -> tuple[MeshRun, bool]:
    """Recall of two patterns on all nodes, and True if the outputs equal the reference's."""
    given = random_numbers(case, 2)
    found, run = _simulated(case, perceptron_of(_sizes(case), 2, _SHIFT), given)
    _, outputs = forward_of(given)
    return run, bool((next(iter(found.values())) == outputs).all())


def trained(together: int, case: TableCell = MODEL) -> tuple[MeshRun, bool]:
    """Training on one pattern in the report's arithmetic or on a set in scaled arithmetic, and True
    if the weights equal those of the fixed-point network.
    """
    given, scaled = random_numbers(case, together), together > 1
    network = perceptron_of(_sizes(case), together, _SHIFT)
    step = table_step(network, scaling=SCALING if scaled else None)
    found, run = _simulated(case, step, given, together)
    expected = weights_after(given, together, scaled=scaled)
    pairs = zip(step.states, expected, strict=True)
    return run, all((found[state.next] == weights).all() for state, weights in pairs)


def weights_after(given: dict[str, Array], together: int, *, scaled: bool) -> tuple[Array, Array]:
    """Both matrices after one set, updated in place: copies of large ones would fill memory."""
    order, numbers = np.arange(together)[np.newaxis], arithmetic(scaled=scaled)
    x, labels, table = (given[name].astype(np.int64) for name in ("x", "labels", "table"))
    learn(given["w0"], given["w1"], x, labels, order, table, numbers)
    return given["w0"], given["w1"]


def _sizes(case: TableCell) -> tuple[int, int, int]:
    return case.layers.inputs, case.layers.hidden, case.layers.outputs


def _simulated(
    case: TableCell, network: Network, given: dict[str, Array], together: int = 2
) -> tuple[dict[str, Array], MeshRun]:
    machine = changed(case.machine(), {"kernels.patterns": max(2, together)})
    return DIVISION.divide(network, machine, None, TIME, 1.0).nodes.simulated(given)


def random_numbers(case: TableCell, patterns: int) -> dict[str, Array]:
    """Random inputs, labels and weights whose sums cover the whole table."""
    random, (inputs, hidden, outputs) = np.random.default_rng(1), _sizes(case)
    table = np.round(127 / (1 + np.exp(-np.arange(-_HALF, _HALF) / 3000))).astype(np.int8)
    return {
        "x": random.integers(-100, 100, (patterns, inputs), dtype=np.int8),
        "labels": random.integers(-100, 100, (patterns, outputs), dtype=np.int8),
        "w0": random.integers(-2000, 2000, (inputs, hidden), dtype=np.int16),
        "w1": random.integers(-2000, 2000, (hidden, outputs), dtype=np.int16),
        "table": table,
    }


def forward_of(given: dict[str, Array]) -> tuple[Array, Array]:
    hidden = reference.forward(given["w0"], given["x"], given["table"], _SHIFT)
    return hidden, reference.forward(given["w1"], hidden, given["table"], _SHIFT)


def all_nodes(lab: Lab) -> Findings:
    """Each kernel's cycles, with causes of difference and stalls; quick: recall alone."""
    forward, training = MODEL.recall(WORST).forward, MODEL.training(WORST)
    around = training.reading_cycles + training.overhead_cycles
    closed = {
        "recall": forward.hidden_cycles + forward.outputs_cycles,
        "training": training.total_cycles - around,
    }
    names = [*closed, *SETS][: 1 if lab.quick else None]
    found = dict(zip(names, lab.map(simulate_kernel, names), strict=True))
    rows = [
        simulated_row(
            f"{name}, all {MODEL.nodes} nodes",
            closed.get(name),
            found[name].cycles,
            "; ".join([*filter(None, [_WHY.get(name)]), _comparison_text(found[name])]),
        )
        for name in names
    ]
    rows += [
        compare(
            f"{name}: updates",
            _REPORT_RATE,
            SETS.get(name, 1) * training_rate(MODEL, found[name].cycles),
            "simulated",
            note="connections x patterns by the time of steps 2 to 9",
            unit="giga a second",
        )
        for name in names[1:]
    ]
    notes = ("published: the closed form of chapters 4 and 6, which was never measured",)
    summary: dict[str, float | str] = {
        "instructions simulated": sum(one.instructions for one in found.values())
    }
    return Findings(tuple(rows), summary, notes)


def _comparison_text(kernel: _Kernel) -> str:
    parts = (f"{cycles // MODEL.nodes} {cause}" for cause, cycles in sorted(kernel.stalls.items()))
    bits = "the bits" if kernel.same_bits else "other bits than those"
    return f"{bits} of the fixed-point network; stalls of a node: {', '.join(parts)}"


# The steps of both kernels on one node.

_WHY_STEPS = {
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
    """Run one step on one node, on numbers whose sums all clip to the last entry of the table."""
    found = _step_of(name)
    return _Step(found.cycles, found.run.stalls, found.run.instructions)


def node_steps(lab: Lab) -> Findings:
    """Each step's cycles, with notes on the difference and the causes of stalls."""
    closed = closed_form()
    found = dict(zip(closed, lab.map(simulate_step, list(closed)), strict=True))
    rows = [
        simulated_row(name, cycles, own.cycles, f"{_WHY_STEPS[name.split()[0]]}; {_stalls(own)}")
        for (name, cycles), own in zip(closed.items(), found.values(), strict=True)
    ]
    notes = ("published: the closed form of chapters 4 and 6, which was never measured",)
    instructions = sum(step.instructions for step in found.values())
    summary: dict[str, float | str] = {"instructions simulated": instructions}
    return Findings(tuple(rows), summary, notes)


def closed_form() -> Mapping[str, float]:
    """Cycles of each step by the formulas, without global sums, procedures and threads."""
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


def _step_of(name: str) -> NodeResult:
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
