"""swATOP Figure 8: efficiency of the convolution algorithms over the grid of Listing 1.

Every schedule is the model's pick over all partitions of the four groups, simulated, on the machine
with the costs that measured kernels show and on the ideal one, whose matrix primitive takes what an
instruction-level simulation of its code takes. Options name one other machine (`machine=NAME`) and
override its numbers (`primitives.gemm.switch_cycles=9`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.ops import Conv2d
from tilewright.papers.figures import level_line, lines
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row, compare, sampled
from tilewright.papers.swatop import schedules
from tilewright.papers.swatop.listings import BATCHES, listing1, listing1_as_printed

TITLE = "efficiency of convolutions over Listing 1"
ALGORITHMS = ("implicit", "explicit", "winograd2")
QUICK = 3
WORST = 10
MACHINES = (schedules.MACHINE, "sw26010")

Found = Mapping[Conv2d, schedules.Outcome]


class PrintedSentence(Struct, frozen=True):
    """One sentence of the text; `batches` are joined by +."""

    algorithm: str
    batches: str
    statistic: str
    efficiency: float
    printed: str

    def chosen(self, found: Found) -> list[float]:
        """The efficiencies of the cases that the sentence covers."""
        batches = [int(batch) for batch in self.batches.split("+")]
        return [o.efficiency for op, o in found.items() if op.batch in batches and not o.refusal]


def run(lab: Lab) -> Findings:
    """The text's statements beside our numbers on each machine, then every case on the first."""
    published = lab.published("swatop", "figure8", PrintedSentence)
    counted, printed = lab.some(listing1(), QUICK), lab.some(listing1_as_printed(), QUICK)
    cases = list(dict.fromkeys([*counted, *printed]))
    settings = [schedules.setting(lab, name) for name in MACHINES]
    found = {
        (s.machine, a): _outcomes(lab, cases, a, s)
        for s in dict.fromkeys(settings)
        for a in ALGORITHMS
    }
    readings = {
        "225 cases": (counted, listing1()),
        "180 as printed": (printed, listing1_as_printed()),
    }
    rows = [
        _statistic(
            sentence,
            {op: found[name, sentence.algorithm][op] for op in ops},
            f"{name}, {reading}",
            sum(str(op.batch) in sentence.batches.split("+") for op in every),
        )
        for name in dict.fromkeys(s.machine for s in settings)
        for reading, (ops, every) in readings.items()
        for sentence in published.rows
    ]
    first = {a: found[settings[0].machine, a] for a in ALGORITHMS}
    return Findings(
        rows=(*rows, *_cases(first, counted)),
        summary=_summary(found, counted),
        notes=(f"published: {published.source}", *_notes(first, settings)),
    )


def draw(result: Result) -> Figure:
    """The cases of one batch after another's, one line per algorithm, as in the paper."""
    series: dict[str, list[float | None]] = {a: [] for a in ALGORITHMS}
    for row in result.rows:
        if (name := row.name.split()[0]) in series and "conv2d" in row.name:
            series[name].append(row.ours)
    places = [float(i) for i in range(len(series["implicit"]))]
    title = "Efficiency over Listing 1, batches 1, 32 and 128 one after the other (simulated)"
    y_label = "operations of the direct form, share of peak"
    figure = lines(places, series, title=title, x_label="case", y_label=y_label)
    level_line(figure, 1.0, "peak")
    (axes,) = figure.axes
    axes.set_ylim(0, 1.45)
    axes.legend(loc="upper left", ncols=4, frameon=False)
    return figure


def _outcomes(lab: Lab, ops: Sequence[Conv2d], algorithm: str, on: schedules.Setting) -> Found:
    tasks = [schedules.TuningTask(op, algorithm, on) for op in ops]
    return dict(zip(ops, lab.map_together(schedules.best_schedules, tasks), strict=True))


def _statistic(sentence: PrintedSentence, found: Found, reading: str, total: int) -> Row:
    """A sentence's number beside ours, for `total` cases of which `found` ran."""
    values = sentence.chosen(found)
    combine = max if sentence.statistic == "best" else statistics.fmean
    ours = combine(values) if values else None
    missing = sum(
        bool(o.refusal) for op, o in found.items() if str(op.batch) in sentence.batches.split("+")
    )
    count = sum(str(op.batch) in sentence.batches.split("+") for op in found)
    note = "; ".join(filter(None, (f"printed: {sentence.printed}", sampled(count, total))))
    if missing:
        note += f"; {missing} cases exceed main memory"
    over = sentence.printed.startswith("over")
    if ours is not None and abs(ours / sentence.efficiency - 1) > 0.1:
        bound = "a lower bound; " if over else ""
        note += f"; {bound}{_where_time_goes(sentence, found)}"
    batches = sentence.batches.replace("+", ", ")
    name = f"{sentence.algorithm}, batch {batches}, {sentence.statistic} ({reading})"
    limits = (sentence.efficiency, math.inf) if over else None
    return compare(name, sentence.efficiency, ours, "simulated", note=note, limits=limits)


def _where_time_goes(sentence: PrintedSentence, found: Found) -> str:
    """The largest mean shares of the time, as evidence for a deviation."""
    batches = sentence.batches.split("+")
    outcomes = [o for op, o in found.items() if str(op.batch) in batches and not o.refusal]
    return f"our time: {schedules.largest_shares(outcomes, 4)}"


def _cases(found: Mapping[str, Found], ops: Sequence[Conv2d]) -> Iterator[Row]:
    """Every case of every algorithm; the worst of each batch state their bounds."""
    for algorithm, outcomes in found.items():
        worst = {
            op
            for batch in BATCHES
            for op in _lowest({op: outcomes[op] for op in ops if op.batch == batch})
        }
        for op in ops:
            outcome = outcomes[op]
            note = _bound(outcome) if op in worst else ""
            note = "exceeds main memory" if outcome.refusal else note
            ours = None if outcome.refusal else outcome.efficiency
            yield compare(f"{algorithm} {op.describe()}", None, ours, "simulated", note=note)


def _lowest(found: Found) -> list[Conv2d]:
    done = [op for op, outcome in found.items() if not outcome.refusal]
    return sorted(done, key=lambda op: found[op].efficiency)[:WORST]


def _bound(outcome: schedules.Outcome) -> str:
    """The bound of a case, with the shares of time that show it."""
    parts = [f"bound by {outcome.bound}"]
    parts += [
        f"{kind} {100 * cycles / outcome.cycles:.0f} %"
        for kind, cycles in list(outcome.causes.items())[:3]
    ]
    parts.append(f"engine busy {100 * outcome.engine_cycles / outcome.cycles:.0f} %")
    if outcome.waits:
        tensor = max(outcome.waits, key=lambda name: outcome.waits[name])
        parts.append(f"waits for {tensor} {100 * outcome.waits[tensor] / outcome.cycles:.0f} %")
    return ", ".join(parts)


def _summary(
    found: Mapping[tuple[str, str], Found], ops: Sequence[Conv2d]
) -> dict[str, float | str]:
    """The mean efficiencies of implicit GEMM on each machine."""
    summary: dict[str, float | str] = {}
    for (machine, algorithm), outcomes in found.items():
        for batch in BATCHES if algorithm == "implicit" else ():
            values = [outcomes[op].efficiency for op in ops if op.batch == batch]
            if values:
                key = f"implicit, batch {batch}, mean efficiency %, {machine}"
                summary[key] = round(100 * statistics.fmean(values), 1)
    return summary


def _notes(found: Mapping[str, Found], settings: Sequence[schedules.Setting]) -> Iterator[str]:
    yield (
        "the efficiency base is the 2969.6 Gflop/s of the 256 cores, of which 2.1 Tflop/s are "
        "70.7 %; of the 3.06 Tflop/s that the paper quotes they are 68.6 %"
    )
    yield f"cases are those on {settings[0].described()}"
    yield from (
        f"all algorithms with {schedules.our_product(on)}" for on in dict.fromkeys(settings)
    )
    refused = {a: sum(bool(o.refusal) for o in outcomes.values()) for a, outcomes in found.items()}
    counts = ", ".join(f"{a} {count}" for a, count in refused.items() if count)
    if counts:
        yield (
            f"cases whose tensors exceed the 8 GB of a group in double precision: {counts}; "
            "explicit GEMM and Winograd write expanded images to main memory whole"
        )
