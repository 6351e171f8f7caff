"""Fig. 11: the five convolutions of Table 3, blocks against the automatic schedule."""

from __future__ import annotations

from tilewright.papers.dla_al.benchmarks import mean_row, published, published_layers, ratios
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result

TITLE = "five convolutions, blocks against the automatic schedule"
_QUICK = 1


def run(lab: Lab) -> Result:
    """A row for each convolution, and the mean that the text gives."""
    every = [layer for layer in published_layers() if layer.name.startswith("Table 3")]
    rows, found = ratios(lab, every, _QUICK)
    value = published("mean of five convolutions", "hand-optimised") / 100
    note = "" if len(found) == len(every) else f"of {len(found)} of {len(every)} layers"
    rows.append(mean_row("mean", list(found.values()), value, note))
    return Result(
        paper="dla_al",
        experiment="figure11",
        title=TITLE,
        rows=tuple(rows),
        summary={},
        notes=(
            "the automatic schedule stands for hand-optimised code, which the paper does not print",
        ),
    )
