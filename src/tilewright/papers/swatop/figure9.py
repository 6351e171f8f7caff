"""swATOP Figure 9: performance of the model's pick against the best of its whole space.

The best is found by simulating every candidate that could win. A candidate is skipped only if its
calls alone, or its transfers alone, take as long as the fastest run so far: the cores run one call
at a time and the engine serves one transfer at a time, so neither sum can be undercut, however good
the estimate is. The lowest ratio of simulated cycles to that bound is reported (it must not be
below 1), and for a few cases everything is simulated. The paper ran its candidates on the machine.

Each case is one core group's piece with the output rows divided over four (swDNN III-D).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.ops import Conv2d
from tilewright.papers.figures import level_line, lines
from tilewright.papers.lab import Lab, spread_sample
from tilewright.papers.model import Findings, Result, Row, compare
from tilewright.papers.swatop.listings import listing1
from tilewright.papers.swatop.schedules import Setting, piece_of, setting
from tilewright.seeds.space import seeds_for
from tilewright.tune.brute_force import search_by_simulation
from tilewright.tune.fit import main_memory_bytes

TITLE = "performance of the model's pick, as a share of the best of its space"
SAMPLE = 45
"""Cases sampled for algorithms that the paper does not show."""

EVERYTHING = 2
QUICK = 3
CASES = {"implicit": None, "explicit": SAMPLE, "winograd2": SAMPLE, "winograd4": SAMPLE}


class _Limit(Struct, frozen=True):
    """A statement of the text: the share of the best performance that is reached."""

    statistic: str
    share: float


class SearchCase(Struct, frozen=True):
    """One space to search; with `everything`, no candidate is skipped."""

    op: Conv2d
    algorithm: str
    on: Setting
    everything: bool = False


class Found(Struct, frozen=True):
    """Cycles of the pick and of the best, and the evidence; `refusal` if nothing fits."""

    refusal: str = ""
    picked_cycles: int = 0
    best_cycles: int = 0
    priced: int = 0
    simulated: int = 0
    lowest_ratio: float = 1.0
    highest_ratio: float = 1.0
    lowest_bound_ratio: float = 1.0

    @property
    def share(self) -> float:
        """Performance of the pick as a share of the best."""
        return self.best_cycles / self.picked_cycles


def search(case: SearchCase) -> Found:
    """Search the space of one case by simulation."""
    machine = case.on.load()
    piece = piece_of(case.op, machine)
    (seed,) = seeds_for(piece, case.algorithm)
    if main_memory_bytes(piece, seed) > machine.main.capacity_bytes:
        return Found(refusal="its tensors exceed the main memory of a core group")
    found = search_by_simulation(piece, seed, machine, everything=case.everything)
    if found is None:
        return Found(refusal="no tile fits the scratchpad")
    return Found(
        picked_cycles=found.picked_cycles,
        best_cycles=found.best_cycles,
        priced=found.priced,
        simulated=found.simulated,
        lowest_ratio=found.lowest_ratio,
        highest_ratio=found.highest_ratio,
        lowest_bound_ratio=found.lowest_bound_ratio,
    )


def run(lab: Lab) -> Findings:
    """Mean and worst of each algorithm, the check that skips nothing, every implicit case."""
    published = lab.published("swatop", "figure9", _Limit)
    limits = {row.statistic: row.share for row in published.rows}
    on = setting(lab)
    found = {
        algorithm: _searched(lab, lab.some(spread_sample(listing1(), count), QUICK), algorithm, on)
        for algorithm, count in CASES.items()
    }
    whole = _check(lab, list(found["implicit"]), on)
    rows = [row for a, some in found.items() for row in _shares(a, some, limits)]
    return Findings(
        rows=(*rows, *_checked(found["implicit"], whole), *_cases(found["implicit"])),
        summary=_summary([f for some in found.values() for f in some.values() if not f.refusal]),
        notes=(f"published: {published.source}", *_notes(found, on)),
    )


def draw(result: Result) -> Figure:
    """The share of the best for every case, as in the paper."""
    shares = [row.ours for row in result.rows if row.name.startswith("conv2d")]
    places = [float(i) for i in range(len(shares))]
    title = "Performance of the model's pick as a share of the best, implicit GEMM (simulated)"
    y_label = "share of the best performance"
    figure = lines(places, {"ours": shares}, title=title, x_label="case", y_label=y_label)
    figure.axes[0].set_ylim(0.9, 1.005)
    return level_line(figure, 0.92, "worst case of swATOP")


def _searched(
    lab: Lab, ops: Sequence[Conv2d], algorithm: str, on: Setting
) -> Mapping[Conv2d, Found]:
    return dict(
        zip(ops, lab.map(search, [SearchCase(op, algorithm, on) for op in ops]), strict=True)
    )


def _check(lab: Lab, ops: Sequence[Conv2d], on: Setting) -> Mapping[Conv2d, Found]:
    """A few cases searched without skipping."""
    some = spread_sample(ops, 0 if lab.quick else EVERYTHING)
    cases = [SearchCase(op, "implicit", on, everything=True) for op in some]
    return dict(zip(some, lab.map(search, cases), strict=True))


def _shares(
    algorithm: str, found: Mapping[Conv2d, Found], limits: Mapping[str, float]
) -> Iterator[Row]:
    shares = [f.share for f in found.values() if not f.refusal]
    refused = len(found) - len(shares)
    note = f"{len(shares)} cases" + (f", {refused} exceed main memory" if refused else "")
    for statistic, value in (("mean", statistics.fmean(shares)), ("worst", min(shares))):
        published = limits[statistic] if algorithm == "implicit" else None
        text = f"{note}; printed as a bound" if published else note
        yield compare(
            f"{algorithm}, {statistic} share", published, value, "simulated", note=text,
            limits=(published or 0.0, math.inf),
        )  # fmt: skip


def _checked(few: Mapping[Conv2d, Found], whole: Mapping[Conv2d, Found]) -> Iterator[Row]:
    """Best cycles of both searches, for the cases that were simulated completely."""
    for op, every in whole.items():
        note = f"all {every.simulated} simulated, {few[op].simulated} of them in the search"
        name = f"best cycles, {op.describe()}: all against those that could win"
        every_cycles, few_cycles = every.best_cycles, few[op].best_cycles
        yield compare(name, every_cycles, few_cycles, "simulated", note=note, printed=False)


def _cases(found: Mapping[Conv2d, Found]) -> Iterator[Row]:
    for op, one in found.items():
        share = None if one.refusal else one.share
        note = one.refusal or f"{one.simulated} of {one.priced} simulated"
        yield compare(op.describe(), None, share, "simulated", note=note)


def _summary(found: Sequence[Found]) -> dict[str, float | str]:
    return {
        "candidates priced": sum(f.priced for f in found),
        "candidates simulated": sum(f.simulated for f in found),
        "simulated / estimated, lowest": round(min(f.lowest_ratio for f in found), 3),
        "simulated / estimated, highest": round(max(f.highest_ratio for f in found), 3),
        "simulated / bound, lowest": round(min(f.lowest_bound_ratio for f in found), 6),
    }


def _notes(found: Mapping[str, Mapping[Conv2d, Found]], on: Setting) -> Iterator[str]:
    yield (
        f"on {on.described()}: the simulator takes the model's time for a single call or transfer, "
        "so the loss is that of composing them; the paper's also holds what the machine does beyond"
    )
    for algorithm, some in found.items():
        worst = sorted(
            ((f.share, op) for op, f in some.items() if not f.refusal), key=lambda pair: pair[0]
        )[:1]
        yield from (
            f"worst of {algorithm}: {op.describe()}, {100 * (1 - share):.2f} %"
            for share, op in worst
        )
