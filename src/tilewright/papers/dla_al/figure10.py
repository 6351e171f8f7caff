"""Fig. 10: the ten benchmarks in the hand-written order, as blocks, and by the automatic schedule.

The paper's bars have no numbers; its text has the means and single ratios of FC and conv3, which
stand beside ours, as do those of whole networks and of fusion. The automatic schedule stands for
its hand-optimised code. GPU rows are published alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.machine import Machine, load_machine
from tilewright.papers.dla_al.benchmarks import (
    UNKNOWN,
    mean_row,
    published,
    published_layers,
    ratios,
)
from tilewright.papers.dla_al.layers import LAYERS, BlockLayer, run_of_blocks
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.papers.dla_al.programs import GRADIENTS, NATURAL, alexnet, conv_relu_pool
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, Row, compare

TITLE = "ten benchmarks: hand-written order, blocks, the automatic schedule"
_BENCHMARKS, _QUICK = 10, 1


def run(lab: Lab) -> Result:
    """A row for each benchmark and each of its versions, then each number of the text."""
    machine = load_machine(PAPER_MACHINE)
    every = published_layers()[:_BENCHMARKS]
    rows, found = ratios(lab, every if not lab.quick else [x for x in every if x.name == "fc3"],
                         _QUICK)  # fmt: skip
    if found.keys() == {layer.name for layer in every}:
        fc = max(found[name] for name in ("fc1", "fc2", "fc3"))
        rows.append(mean_row("mean, forward", list(found.values()),
                             published("mean of ten", "hand-optimised"), ""))  # fmt: skip
        for name, ours in (("FC", fc), ("conv3", found["conv3"])):
            value = published(name, "hand-optimised")
            rows.append(compare(f"{name} against hand-optimised", value, round(ours, 3),
                                "simulated", explanation=UNKNOWN))  # fmt: skip
    for layers, direction in ((LAYERS[:_BENCHMARKS], "forward"), (GRADIENTS, "backward")):
        rows += _hand_written(lab, layers, direction, machine)
    rows += () if lab.quick else _wholes(machine)
    for subject, against, direction in (
        ("mean of ten", "hand-optimised", "backward"),
        ("mean of ten", "GPU", "forward"),
        ("mean of ten", "GPU", "backward"),
        ("conv3", "GPU", "forward"),
        ("VGG16", "hand-written", "forward"),
    ):
        value = published(subject, against, direction)
        rows.append(compare(f"{subject} against {against}, {direction}", value, None, "published"))
    return Result(
        paper="dla_al",
        experiment="figure10",
        title=TITLE,
        rows=tuple(rows),
        summary={},
        notes=(
            "the automatic schedule stands for hand-optimised code, which the paper does not print",
            "changes of layout are the host's, as they are for blocks",
            "backward there are blocks for eight of the ten, whose LRN does not fit, nor an LSTM",
        ),
    )


def _slower(program: str, machine: Machine) -> float:
    """Time of the hand-written order over that of blocks."""
    orders = (run_of_blocks(text, machine).cycles for text in (program + NATURAL, program))
    natural, ahead = orders
    return natural / ahead


def _hand_written(
    lab: Lab, layers: Sequence[BlockLayer], direction: str, machine: Machine
) -> list[Row]:
    """For each layer the time of the hand-written order over that of its block, and the mean."""
    some = lab.some(list(layers), _QUICK)
    found = {layer.name: _slower(layer.program, machine) for layer in some}

    def row(name: str, value: float | None, ours: float, note: str = "") -> Row:
        title = f"{name}: hand-written over blocks, {direction}"
        return compare(title, value, round(ours, 3), "simulated", note=note, explanation=UNKNOWN)

    printed = {"conv3": published("conv3", "hand-written")} if direction == "forward" else {}
    rows = [row(name, printed.get(name), ours) for name, ours in found.items()]
    mean, count = sum(found.values()) / len(found), len(found)
    note = "" if count == _BENCHMARKS else f"of {count} layers"
    return [*rows, row("mean", published("mean of ten", "hand-written", direction), mean, note)]


def _wholes(machine: Machine) -> list[Row]:
    """AlexNet in both orders, and what fusion of three blocks saves."""
    whole, fused = (run_of_blocks(conv_relu_pool(fused=f), machine) for f in (False, True))
    moving, less = (run.unit_busy["TRANSFER"] for run in (whole, fused))
    subject = "Conv-ReLU-Pool fused"
    saved = published("memory access time saved by fusion", "not fused")
    rows = (
        ("AlexNet: hand-written over blocks", published("AlexNet", "hand-written"),
         _slower(alexnet(), machine), ""),
        (f"{subject}: not fused over fused", published(subject, "not fused"),
         whole.cycles / fused.cycles, ""),
        (f"{subject}: memory access time saved", saved, 100 * (1 - less / moving), "%"),
    )  # fmt: skip
    return [
        compare(name, value, round(ours, 3), "simulated", unit=unit, explanation=UNKNOWN)
        for name, value, ours, unit in rows
    ]
