"""Figure 6: values moved for each convolution under both strategies, and under the best plan.

The figure prints no numbers, and the paper does not define the count. Each definition that the text
permits has its rows (`_DEFINITIONS`), with piece j on core j.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from math import prod

from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.papers.bwdsp.network import (
    BASELINE,
    BEST,
    CORES,
    OPTIMISED,
    PrintedLayer,
    padded_reads,
    plan,
)
from tilewright.papers.figures import lines
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row, compare
from tilewright.papers.published import read_published

TITLE = "values moved for each convolution of VGG-16"
MOVED = "moved"
_STRATEGIES = (BASELINE, OPTIMISED, BEST)
_DEFINITIONS = {
    "read": "all that the cores read, the image's padding included",
    "halo": "what they read beyond an equal share of the image",
    MOVED: "what they read and another core computed, once for each core that gets it",
    "moved, multicast": "the same, what one core sends to several alike counted once",
    "moved with the pool": "what is moved, and what the pool behind the convolution takes from"
    " other cores",
    "moved with weights": "what is moved, and the weights that all cores load",
}


class _Printed(Struct, frozen=True):
    """The only number in the text."""

    layer: str
    reduction: float


def run(lab: Lab) -> Findings:
    """Volumes of every convolution, then the reduction of the layer in the text."""
    table = lab.published("bwdsp", "figure6", _Printed)
    found = {strategy: volumes(strategy) for strategy in _STRATEGIES}
    rows: list[Row] = []
    for definition in _DEFINITIONS:
        for layer in found[BASELINE][definition]:
            rows += _volumes(definition, layer, found)
    for line in table.rows:
        rows += _reductions(line, found)
    totals = {strategy: plan(strategy).volume.activations for strategy in _STRATEGIES}
    return Findings(
        rows=tuple(rows),
        summary={
            **{f"moved over convolutions and pools: {s}": float(v) for s, v in totals.items()},
            "the best plan is optimal in its space": "yes" if plan(BEST).proven else "not proven",
        },
        notes=(
            f"published: {table.source}",
            *(f"{name}: {meaning}" for name, meaning in _DEFINITIONS.items()),
            "the 46.3 % of conv4_3 are not reproducible without choosing a definition: what moves"
            " into conv4_3 and its pool falls by 53.6 %, to 46.4 % of the baseline's, perhaps by"
            " chance",
            f"{BEST}: {plan(BEST).considered} grids, none of which gives a core more work than the"
            " paper's optimised strategy; no choice among them moves less",
        ),
    )


def draw(result: Result) -> Figure:
    """Values moved by each convolution, with a line for each strategy."""
    names = [row.name for row in result.rows]
    layers = [n.split(",")[0] for n in names if n.endswith(f", {MOVED}: {BASELINE}")]
    by_name = {row.name: row.ours for row in result.rows}
    series = {s: [by_name[f"{n}, {MOVED}: {s}"] for n in layers] for s in _STRATEGIES}
    places = range(1, len(layers) + 1)
    y_label = "values read that another core computed"
    figure = lines(places, series, title=TITLE, x_label="convolution", y_label=y_label)
    figure.axes[0].set_xticks(places, layers, rotation=45, ha="right")
    return figure


def volumes(strategy: str) -> dict[str, dict[str, int]]:
    """Values moved, by definition and convolution."""
    made = plan(strategy)
    moved = {planned.layer.name: planned.volume.activations for planned in made.layers}
    names = [planned.layer.name for planned in made.layers]
    reads = {name: (padded, real) for name, padded, real in padded_reads(strategy)}
    found: dict[str, dict[str, int]] = {definition: {} for definition in _DEFINITIONS}
    followed = zip(made.layers, made.exchanges, [*names[1:], ""], strict=True)
    for planned, exchanges, following in followed:
        name = planned.layer.name
        if not name.startswith("conv"):
            continue
        size = planned.layer.op.input_shapes[0]
        found["read"][name] = reads[name][0]
        found["halo"][name] = reads[name][0] - prod(size[1:])
        found[MOVED][name] = moved[name]
        behind = moved[following] if following.startswith("pool") else 0
        found["moved with the pool"][name] = moved[name] + behind
        found["moved, multicast"][name] = sum(
            move.box.size for _, sent in exchanges.inputs for move in sent
        )
        found["moved with weights"][name] = moved[name] + planned.volume.weights
    return found


def _volumes(
    definition: str, layer: str, found: dict[str, dict[str, dict[str, int]]]
) -> Iterator[Row]:
    """A row for each strategy, with its share of the baseline's volume."""
    before = found[BASELINE][definition][layer]
    for strategy in _STRATEGIES:
        value = found[strategy][definition][layer]
        is_less = strategy != BASELINE and before
        note = f"{100 * value / before:.1f} % of {BASELINE}" if is_less else ""
        yield compare(f"{layer}, {definition}: {strategy}", None, value, "exact", note=note,
                      unit="values")  # fmt: skip


def _reductions(line: _Printed, found: dict[str, dict[str, dict[str, int]]]) -> Iterator[Row]:
    for definition in _DEFINITIONS:
        before, after = (found[s][definition][line.layer] for s in (BASELINE, OPTIMISED))
        yield compare(
            f"{line.layer}, {definition}: reduction",
            line.reduction,
            1 - after / before,
            "exact",
            note=f"{before} to {after} values",
        )
    general, optimised = (
        row.in_rows * row.in_columns
        for row in read_published("bwdsp", "table4", PrintedLayer).rows
        if row.layer == line.layer
    )
    yield compare(
        f"{line.layer}, input regions of Table 4 on {CORES} cores: reduction",
        line.reduction,
        1 - optimised / general,
        "exact",
        note=f"{general} to {optimised} pixels a core, the former without padding",
    )
    every = [
        1 - found[OPTIMISED][MOVED][layer] / before
        for layer, before in found[BASELINE][MOVED].items()
        if before
    ]
    fewer = sum(value > 0 for value in every)
    note = f"the text says all of them; on average {statistics.fmean(every):.3f}"
    yield compare("convolutions with fewer moves", len(every), fewer, "exact", note=note)
