"""The timelines of the report's figures: who is busy when."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

Found = Sequence[tuple[str, float, float]]
_HEIGHT = 0.32
_LEAST = 1.2
"""Points that the outline adds to a bar, so that the shortest can be seen."""
_SHORT = 0.01
"""Bars of less than this share of the axis have an outline of their own colour."""


def spans(
    found: Found, *, title: str, x_label: str, windows: Sequence[tuple[str, float, float]] = ()
) -> Figure:
    """One line for each part, in order of appearance: (part, first cycle, cycles). With `windows`,
    (what, first cycle, last cycle), only these are drawn, beside each other.
    """
    parts = list(dict.fromkeys(part for part, _, _ in found))
    width = 8.0 if len(windows) < 2 else 12.0
    figure = Figure(figsize=(width, 1.4 + _HEIGHT * len(parts)), layout="constrained")
    panels = figure.subplots(1, max(1, len(windows)), sharey=True, squeeze=False)[0]
    end = max(start + cycles for _, start, cycles in found)
    short = min(cycles for _, _, cycles in found) < _SHORT * end
    for i, part in enumerate(parts):
        colour = f"C{i}"
        edge = colour if short else "white"
        own = [(start, cycles) for name, start, cycles in found if name == part]
        for axes in panels:
            axes.broken_barh(
                own, (i - 0.4, 0.8), facecolor=f"C{i}", edgecolor=edge, linewidth=_LEAST
            )
    panels[0].set_yticks(range(len(parts)), parts)
    panels[0].invert_yaxis()
    for axes, (what, first, last) in zip(panels, windows, strict=False):
        axes.set_xlim(first, last)
        axes.set_title(what, fontsize=9)
    for axes in panels:
        axes.set_xlabel(x_label)
    figure.suptitle(title, fontsize=10, x=0.01, horizontalalignment="left")
    return figure
