"""The timelines of the report's figures: who is busy when."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

_HEIGHT = 0.32


def spans(found: Sequence[tuple[str, float, float]], *, title: str, x_label: str) -> Figure:
    """One line for each part, in order of appearance: (part, first cycle, cycles)."""
    parts = list(dict.fromkeys(part for part, _, _ in found))
    figure = Figure(figsize=(8.0, 1.2 + _HEIGHT * len(parts)), layout="constrained")
    axes = figure.subplots()
    for i, part in enumerate(parts):
        own = [(start, cycles) for name, start, cycles in found if name == part]
        axes.broken_barh(own, (i - 0.4, 0.8), edgecolor="white", linewidth=0.5)
    axes.set_yticks(range(len(parts)), parts)
    axes.invert_yaxis()
    axes.set_xlabel(x_label)
    figure.suptitle(title, fontsize=10, x=0.01, horizontalalignment="left")
    return figure
