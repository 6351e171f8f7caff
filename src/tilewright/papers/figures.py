"""Drawings shared by experiments, in the style of the papers: bars, lines, scatter.

In: labels and numbers. Out: a matplotlib `Figure`, which `save_figure` writes as SVG and PNG. Text
in figures is literal: a `$` starts no formula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

Numbers = Sequence[float | None]

_WIDTH, _HEIGHT = 5.0, 3.6
"""Smallest drawing and every figure's size, in inches."""

_LETTER = 0.075
"""Inches per letter of a legend."""

_LEGEND_INSIDE = 4
_STYLE: dict[str, object] = {
    "svg.hashsalt": "tilewright",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.alpha": 0.4,
    "font.size": 9,
}
"""Reproducible ids, text kept as text, light grids behind the data."""


def bars(
    labels: Sequence[str], series: Mapping[str, Numbers], *, title: str, y_label: str
) -> Figure:
    """A group of bars per label, one bar per series; None leaves a gap."""
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]  # keys are a Literal there
        beside = len(series) > _LEGEND_INSIDE
        width = 1.5 + 0.13 * len(labels) * (len(series) + 1) + 3.5 * beside
        figure, axes = _sheet(title, "", y_label, width=max(_WIDTH, width))
        share = 0.8 / max(1, len(series))
        for i, (name, values) in enumerate(series.items()):
            places = [j + share * (i - (len(series) - 1) / 2) for j in range(len(labels))]
            heights = [float("nan") if value is None else value for value in values]
            axes.bar(places, heights, share, label=name)
        axes.set_xticks(range(len(labels)), labels)
        if max(map(len, labels), default=0) > 6:
            for text in axes.get_xticklabels():
                text.set(rotation=30, ha="right", rotation_mode="anchor")
        _legend(figure, axes, len(series), beside=beside)
    return figure


def lines(
    x: Sequence[float],
    series: Mapping[str, Numbers],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
) -> Figure:
    """One line with markers per series over the numbers `x`; None leaves a gap."""
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]  # keys are a Literal there
        figure, axes = _sheet(title, x_label, y_label, width=max(_WIDTH, min(11.0, 0.12 * len(x))))
        for name, values in series.items():
            heights = [float("nan") if value is None else value for value in values]
            axes.plot(list(x), heights, marker="o", markersize=3, linewidth=1, label=name)
        if log_x:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        elif all(float(place).is_integer() for place in x):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0)
        _legend(figure, axes, len(series))
    return figure


def scatter(
    points: Mapping[str, Sequence[tuple[float, float]]], *, title: str, x_label: str, y_label: str
) -> Figure:
    """One cloud per series, and the diagonal of equal numbers."""
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]  # keys are a Literal there
        figure, axes = _sheet(title, x_label, y_label, width=4.6)
        for name, cloud in points.items():
            axes.scatter([x for x, _ in cloud], [y for _, y in cloud], s=12, label=name)
        ends = [value for cloud in points.values() for point in cloud for value in point]
        if ends:
            limits = [0.95 * min(ends), 1.05 * max(ends)]
            axes.plot(limits, limits, color="0.6", linewidth=1, zorder=0)
        _legend(figure, axes, len(points))
    return figure


def level_line(figure: Figure, value: float, label: str) -> Figure:
    """The figure with a dashed line at `value`, such as a published bound or a peak."""
    axes = figure.axes[0]
    axes.axhline(value, color="0.3", linestyle="--", linewidth=1, label=label)
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]  # keys are a Literal there
        _legend(figure, axes, 1, beside=True)
    return figure


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write `stem`.svg and `stem`.png; equal figures give equal SVG."""
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("svg", "png")]
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]  # keys are a Literal there
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=150)
    return paths


def _sheet(title: str, x_label: str, y_label: str, width: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(min(width, 14.0), _HEIGHT), layout="constrained")
    axes = figure.subplots()
    figure.suptitle(title, fontsize=10, x=0.01, horizontalalignment="left", wrap=True)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return figure, axes


def _legend(figure: Figure, axes: Axes, count: int, *, beside: bool = False) -> None:
    if beside:
        legend = axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        room = 0.6 + _LETTER * max(len(text.get_text()) for text in legend.get_texts())
        figure.set_figwidth(max(figure.get_figwidth(), _WIDTH + room))
    elif count > 1:
        axes.legend(loc="best", frameon=False)


Found = Sequence[tuple[str, float, float]]
_ROW_HEIGHT = 0.32
"""Inches per row."""
_LEAST = 1.2
"""Points by which the outline widens a bar, so that the shortest is visible."""
_SHORT = 0.01
"""Share of the axis below which bars are outlined in their own colour."""


def spans(
    found: Found, *, title: str, x_label: str, windows: Sequence[tuple[str, float, float]] = ()
) -> Figure:
    """One row per part, in order of appearance, from (part, first cycle, cycles). With `windows`,
    (title, first cycle, last cycle), only these are drawn, side by side.
    """
    parts = list(dict.fromkeys(part for part, _, _ in found))
    width = 8.0 if len(windows) < 2 else 12.0
    figure = Figure(figsize=(width, 1.4 + _ROW_HEIGHT * len(parts)), layout="constrained")
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
