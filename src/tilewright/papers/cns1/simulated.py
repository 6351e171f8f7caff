"""Tables 5.3, 5.5, 7.1, 7.4 and 7.5 beside programs of all nodes with simulated messages: one node
runs in full, the others only exchange their messages (`targets.cns1.nodes.symmetric`).

The printed rates are the closed form's, with procedures and threads, which these programs lack.
They have I/O, and look-ups of zeros, which meet at one port as in the worst case.
"""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from tilewright.graph.tables import table_step
from tilewright.papers.cns1 import cases
from tilewright.papers.cns1.plans import PATTERNS, perceptron_of
from tilewright.papers.cns1.printed import printed_numbers
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.partition.objective import TIME
from tilewright.targets.cns1.division import DIVISION
from tilewright.targets.cns1.nodes.symmetric import NodeTiming

TITLE = "the tables of recall and training beside programs of all nodes"
_WEIGHT_BYTES = 2
_HIDDEN = 0.975
"""Least share of the transfer that interleaving hides (section 5.2.3)."""
_OF_NODE = "of a node, from the first instruction of its layer on"
_WHY = {
    cases.PRODUCTS: "misses overlap with what the pipeline has ahead",
    cases.MAPS: "a sum is looked up by the node that finishes it, not by all that share it",
    cases.HANDLING: "a sum goes once, to the node that finishes it",
    cases.OUTSIDE: "each of the four columns of a port takes inputs of its own",
    cases.AROUND: "programs have none",
}


class SimulatedPass(Struct, frozen=True):
    """Cycles of a pass; of the fully simulated node, cycles and waits (for messages or its
    interface) of each layer, and all cycles by part.
    """

    cycles: int
    layers: list[int]
    waits: list[int]
    parts: dict[str, float]


def _simulate(asked: tuple[cases.TableCell, str]) -> SimulatedPass:
    """Recall of two patterns or training on one, distributed by the planner."""
    case, name = asked
    sizes = case.layers.inputs, case.layers.hidden, case.layers.outputs
    network = perceptron_of(sizes, PATTERNS)
    if name == "training":
        network = table_step(perceptron_of(sizes, 1), scaling=None)
    return _figures(DIVISION.divide(network, case.machine(), None, TIME, 1.0).nodes.timed())


def _figures(timing: NodeTiming) -> SimulatedPass:
    begins = [cycle for name, cycle in timing.begins.items() if name.startswith("layer_")]
    bounds = [*sorted(begins), timing.begins["outputs"]]
    layers = [last - first for first, last in pairwise(bounds)]
    waits = [timing.waited(*one) for one in pairwise(bounds)]
    outside = {cases.OUTSIDE: float(timing.cycles - sum(layers))}
    parts = cases.node_parts(timing.spent, sum(waits)) | outside
    return SimulatedPass(timing.cycles, layers, waits, parts)


def fits(case: cases.TableCell) -> bool:
    """True if the nodes hold the weights beside tables: the report's two largest do not."""
    weights = _WEIGHT_BYTES * case.layers.connections // case.nodes
    return weights < case.machine().main.capacity_bytes


def run(lab: Lab) -> Findings:
    """Each network of Table 3.1 that its chips hold; a quick run has recall of the first."""
    fitting = [case for case in cases.CASES if fits(case)]
    asked = [(case, name) for case in fitting for name in ("recall", "training")]
    asked = asked[:1] if lab.quick else asked
    found = dict(zip(asked, lab.map(_simulate, asked), strict=True))
    rows = [_rate(*one, own) for one, own in found.items()]
    rows += _recall_steps(found[cases.MODEL, "recall"])
    closed = cases.recall_parts(cases.MODEL.recall(cases.WORST))
    rows += cases.rows_of_parts("recall", closed, found[cases.MODEL, "recall"].parts, _WHY)
    if not lab.quick:
        rows += _training_steps(found[cases.MODEL, "training"])
        trained = cases.training_parts(cases.MODEL.training(cases.WORST))
        rows += cases.rows_of_parts("training", trained, found[cases.MODEL, "training"].parts, _WHY)
    left = sorted({case.name for case in cases.CASES if not fits(case)})
    notes = (
        "one node in full, the others by their messages: the cycles of all nodes, of zeros",
        f"not held by their nodes, though the report has them: {'; '.join(left)}",
    )
    return Findings(tuple(rows), notes=notes)


def _rate(case: cases.TableCell, name: str, own: SimulatedPass) -> Row:
    recalls = name == "recall"
    printed = printed_numbers("table5_5" if recalls else "table7_1")
    closed = (case.recall(cases.WORST) if recalls else case.training(cases.WORST)).total_cycles
    rate = (cases.recall_rate if recalls else cases.training_rate)(case, own.cycles)
    said = f"{own.cycles} cycles for {closed:.0f} of the closed form"
    unit = f"10^9 {'connections' if recalls else 'updates'}/s"
    published = printed[f"{case.name}: rate"]
    return compare(f"{name}, {case.name}", published, rate, "simulated", note=said, unit=unit)


def _recall_steps(own: SimulatedPass) -> list[Row]:
    """Steps of Table 5.3, and the hidden share of the transfer (5.2.3)."""
    printed = printed_numbers("table5_3")
    name = "best instruction misses, worst lookups: "
    steps = [
        cases.simulated_row(f"recall, step {step}", printed[f"{name}step {step}"], cycles, _OF_NODE)
        for step, cycles in enumerate(own.layers, 2)
    ]
    without = "without procedures and threads"
    total = cases.simulated_row("recall, in all", printed[f"{name}total"], own.cycles, without)
    waited = sum(own.waits)
    transfer = cases.MODEL.recall(cases.WORST).forward.in_all.sum_network_cycles
    hidden = compare(
        "recall, transfer hidden",
        100 * _HIDDEN,
        100 * (1 - waited / transfer),
        "simulated",
        note=f"{waited} cycles of waits for messages or the interface, of {transfer} that the "
        "sums of the closed form are on their way",
        unit="percent",
    )
    return [*steps, total, hidden]


def _training_steps(own: SimulatedPass) -> list[Row]:
    """Table 7.4 by layer of the step: forward, backward and both updates; from Table 7.5 the
    exposed transfer, and all parts of the layers with transfer.
    """
    printed, parts = printed_numbers("table7_4"), printed_numbers("table7_5")
    names = (
        ("2 feedforward A",),
        ("3 feedforward B", "5 error"),
        ("6-7 backpropagation",),
        ("8 update B",),
        ("9 update A",),
    )
    visible = "network visible"
    passes = zip((2, 3, 6), own.layers[:3], own.waits[:3], strict=True)
    shown = [
        cases.simulated_row(f"training, step {step}, {name}", published, cycles, note)
        for step, cycles_of_layer, waited in passes
        for total in [f"step {step}, in all: "]
        for name, published, cycles, note in (
            (visible, parts[total + visible], waited, "waits for messages or the interface"),
            ("in all", sum(n for name, n in parts.items()
                           if name.startswith(total) and not name.endswith("hidden")),
             cycles_of_layer, "products, sigmoid or scaling, processor and what is visible"),
        )
    ]  # fmt: skip
    return shown + [
        cases.simulated_row(
            f"training, {' and '.join(of)}", sum(printed[n] for n in of), cycles, _OF_NODE
        )
        for of, cycles in zip(names, own.layers, strict=True)
    ]
