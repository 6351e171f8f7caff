"""Fig. 11: the five convolutions of Table 3 in four versions."""

from __future__ import annotations

from statistics import fmean

from tilewright.papers.dla_al.benchmarks import published_layers
from tilewright.papers.dla_al.versions import ratio_row, version_rows
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, sampled

TITLE = "five convolutions: hand-written, hand-optimised and automatic over blocks"
_QUICK = 1


def run(lab: Lab) -> Findings:
    """A row for each convolution and each of its versions, and the mean that the text gives."""
    every = [layer.name for layer in published_layers() if layer.name.startswith("Table 3")]
    names = lab.some(every, _QUICK)
    rows, ratios = version_rows(lab, names)
    note = sampled(len(names), len(every), "layers")
    rows += [
        ratio_row("mean of five convolutions", order, "forward", fmean(found), note)
        for order, found in ratios.items()
    ]
    return Findings(tuple(rows))
