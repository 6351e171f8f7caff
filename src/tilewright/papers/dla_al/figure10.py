"""Fig. 10: the ten benchmarks forward and backward, whole networks and a fusion, in four versions.

The paper's bars have no numbers; its text has the means, single ratios of FC and conv3, those of
whole networks, and what fusion saves. GPU rows are published alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from tilewright.machine import load_machine
from tilewright.papers.dla_al.benchmarks import printed, published_layers
from tilewright.papers.dla_al.layers import run_of_blocks
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.papers.dla_al.versions import DIRECTIONS, UNKNOWN, ratio_row, version_rows
from tilewright.papers.dla_al.wholes import conv_relu_pool
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare, sampled

TITLE = "ten benchmarks: hand-written, hand-optimised and automatic over blocks"
_BENCHMARKS = tuple(layer.name for layer in published_layers()[:10])
_QUICK = ["fc3"]


def run(lab: Lab) -> Findings:
    """A row for each benchmark and each of its versions, then each number of the text."""
    rows = [row for direction in DIRECTIONS for row in _benchmarks(lab, direction)]
    if not lab.quick:
        rows += version_rows(lab, ("AlexNet", "VGG16"))[0]
        rows += _fusion(lab)
    for subject, direction in (
        ("mean of ten", "forward"),
        ("mean of ten", "backward"),
        ("conv3", "forward"),
    ):
        value = printed(subject, "GPU", direction)
        rows.append(compare(f"{subject} against GPU, {direction}", value, None, "published"))
    return Findings(
        rows=tuple(rows),
        notes=(
            "changes of layout are the host's, and backward what the layer made is given",
            "hand-optimised blocks compute a tile in two, with half of the next loads beside each",
        ),
    )


def _benchmarks(lab: Lab, direction: str) -> Iterator[Row]:
    """The versions of all benchmarks, their means, and the numbers of FC and of the worst case."""
    names = _QUICK if lab.quick else list(_BENCHMARKS)
    rows, ratios = version_rows(lab, names, direction)
    yield from rows
    for order, found in ratios.items():
        note = sampled(len(names), len(_BENCHMARKS), "layers")
        yield ratio_row("mean of ten", order, direction, fmean(found), note)
    if direction == "forward":
        own = dict(zip(names, ratios["hand-optimised"], strict=True))
        fully_connected = max(own[name] for name in names if name.startswith("fc"))
        yield ratio_row("FC", "hand-optimised", direction, fully_connected)
        yield ratio_row("worst case", "hand-optimised", direction, min(own.values()))


def _fusion(lab: Lab) -> Iterator[Row]:
    """Cycles saved by fusing three blocks."""
    (whole, moving), (fused, less) = lab.map(_fused_cycles, [False, True])
    subject, saving = "Conv-ReLU-Pool fused", "memory access time saved by fusion"
    for name, ours, unit in (
        (subject, whole / fused, "times"),
        (saving, 1 - less / moving, ""),
    ):
        value = printed(name, "not fused")
        yield compare(name, value, round(ours, 3), "simulated", unit=unit, explanation=UNKNOWN)


def _fused_cycles(fused: bool) -> tuple[int, int]:
    """Cycles of the three blocks, and those of transfers."""
    run = run_of_blocks(conv_relu_pool(fused=fused), load_machine(PAPER_MACHINE))
    return run.cycles, run.unit_busy["TRANSFER"]
