"""swATOP Figure 10: gain of fetching ahead where the version without it does best.

"Given Ro, Co we select 8 parameters where baseline version performs best": for each output size,
the 8 best of Listing 1's batches and channels. The paper does not say whether its baseline's
schedule was tuned for single buffers, or is the schedule with fetching ahead, changed only in the
fetching. Both are shown, each where it does best itself; the printed mean lies between them. All
are picks of the model, simulated.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.ops import Conv2d
from tilewright.papers.figures import bars, level_line
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row, compare, sampled
from tilewright.papers.swatop import schedules
from tilewright.papers.swatop.listings import SIZES, listing1

TITLE = "gain of fetching ahead where the baseline does best"
SHOWN = 8
QUICK = 4

BASELINES: tuple[schedules.Fetching, ...] = ("late, tuned", "late")
NAMES = {"late, tuned": "baseline, tuned", "late": "baseline, same schedule", "ahead": "ahead"}

Versions = Mapping[schedules.Fetching, schedules.Outcome]
Found = Mapping[Conv2d, Versions]


class Gain(Struct, frozen=True):
    """An improvement stated in the text."""

    statistic: str
    improvement: float


def run(lab: Lab) -> Findings:
    """The means for each baseline, then the cases shown."""
    published = lab.published("swatop", "figure10", Gain)
    (mean,) = published.rows
    every, on = listing1(), schedules.setting(lab)
    ops = lab.some(every, QUICK)
    found = _measured(lab, ops, on)
    rows, shown = [], dict[schedules.Fetching, Found]()
    for baseline in BASELINES:
        chosen = {size: best_of_baseline(found, size, baseline) for size in SIZES}
        shown[baseline] = {op: found[op] for ops in chosen.values() for op in ops}
        of = sampled(len(ops), len(every))
        rows.append(_mean("those shown", shown[baseline], baseline, mean.improvement, of))
        rows += [
            _mean(f"size {size}", {op: found[op] for op in some}, baseline, mean.improvement, of)
            for size, some in chosen.items()
            if some
        ]
        rows.append(_mean(f"all {len(found)} cases", found, baseline, None))
    return Findings(
        rows=(*rows, *(row for b in BASELINES for row in _cases(shown[b], b))),
        summary={
            f"mean gain over the {NAMES[b]}, those shown %": round(100 * _mean_gain(shown[b], b), 1)
            for b in BASELINES
        },
        notes=(f"published: {published.source}", f"on {on.described()}"),
    )


def draw(result: Result) -> Figure:
    """Efficiency with and without fetching ahead; the cases of one size after another's."""
    name = NAMES["late, tuned"]
    cases = [row for row in result.rows if row.name.startswith(name) and "->" in row.name]
    labels = list(dict.fromkeys(row.name.split(": ")[1] for row in cases))
    series: dict[str, list[float | None]] = {
        version: [row.ours for row in cases if row.name.endswith(f": {version}")]
        for version in (name, NAMES["ahead"])
    }
    y_label = "share of the cores' peak (simulated)"
    title = "Efficiency with and without fetching ahead: size, batch, channels"
    figure = bars(labels, series, title=title, y_label=y_label)
    level_line(figure, 1.0, "peak")
    (axes,) = figure.axes
    axes.set_ylim(0, 1.3)
    axes.legend(loc="upper left", ncols=3, frameon=False)
    return figure


def _measured(lab: Lab, ops: Sequence[Conv2d], on: schedules.Setting) -> Found:
    versions: tuple[schedules.Fetching, ...] = ("ahead", *BASELINES)
    columns = {
        v: lab.map_together(
            schedules.best_schedules, [schedules.TuningTask(op, "implicit", on, v) for op in ops]
        )
        for v in versions
    }
    return {op: {v: columns[v][i] for v in versions} for i, op in enumerate(ops)}


def best_of_baseline(found: Found, size: int, baseline: schedules.Fetching) -> list[Conv2d]:
    """The operators of one output size on which the baseline is most efficient."""
    ops = [op for op in found if op.out_height == size]
    return sorted(ops, key=lambda op: -found[op][baseline].efficiency)[:SHOWN]


def gain(versions: Versions, baseline: schedules.Fetching) -> float:
    """Speedup from fetching ahead, minus 1."""
    return versions[baseline].cycles / versions["ahead"].cycles - 1


def _mean_gain(found: Found, baseline: schedules.Fetching) -> float:
    return statistics.fmean(gain(versions, baseline) for versions in found.values())


def _mean(
    which: str, found: Found, baseline: schedules.Fetching, published: float | None, of: str = ""
) -> Row:
    """The mean gain of some cases; `of` notes how many, if not all were tried."""
    ours = _mean_gain(found, baseline)
    note = of
    if published and abs(ours / published - 1) > 0.1:
        note = "; ".join(filter(None, (of, _why(found, baseline))))
    name = f"mean gain over the {NAMES[baseline]}, {which}"
    return compare(name, published, ours, "simulated", note=note)


def _why(found: Found, baseline: schedules.Fetching) -> str:
    """The baseline's waits, the most that fetching ahead can hide, and the waits that it leaves."""
    slow = [versions[baseline] for versions in found.values()]
    fast = [versions["ahead"] for versions in found.values()]
    waits, left = (
        statistics.fmean(sum(o.waits.values()) / o.cycles for o in some) for some in (slow, fast)
    )
    tuned = (
        "tuned for one copy of each buffer, it has larger tiles and waits less often"
        if baseline == "late, tuned"
        else "its tiles leave half of the scratchpad to copies that it does not have"
    )
    return (
        f"this baseline waits for transfers in {100 * waits:.0f} % of its time ({tuned}), fetching "
        f"ahead still in {100 * left:.0f} %"
    )


def _cases(found: Found, baseline: schedules.Fetching) -> Iterator[Row]:
    for op, versions in found.items():
        case = f"{op.out_height}, {op.batch}, {op.in_channels} -> {op.out_channels}"
        for version in (baseline, "ahead"):
            note = f"{100 * gain(versions, baseline):+.1f} %" if version == "ahead" else ""
            name = f"{NAMES[baseline]}: {case}: {NAMES[version]}"
            yield compare(name, None, versions[version].efficiency, "simulated", note=note)
