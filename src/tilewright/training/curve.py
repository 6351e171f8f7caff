"""The course of a training as a picture: loss and accuracy over the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.common.deferred import Deferred
from tilewright.common.files import new_file
from tilewright.training.checkpoint import Epoch

figures = Deferred("tilewright.papers.figures")
PICTURES = (".png", ".svg")
_DOTS_PER_INCH = 150


def write_curve(path: Path, name: str, epochs: Sequence[Epoch]) -> None:
    """Draw into a .png or .svg file. OSError where it cannot be written."""
    series = {
        "loss": [epoch.loss for epoch in epochs],
        "errors while training": [1 - epoch.accuracy for epoch in epochs],
        "errors when tested": [1 - epoch.test_accuracy for epoch in epochs],
    }
    figure = figures.lines(
        [epoch.number for epoch in epochs],
        series,
        title=f"training of {name}",
        x_label="epoch",
        y_label="loss, share of errors",
    )
    with new_file(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=_DOTS_PER_INCH)
