"""swDNN Figs. 7 and 9: many convolutions on the whole chip, by swDNN's plans and by the tuner.

In: convolutions of 128 images with 64 x 64 outputs (swDNN VII). Out: Gflop/s of four core groups,
each computing a quarter of the output rows (swDNN III-D). swDNN's plans are its two algorithms, as
printed and promoted, with blocks by its rule and chosen by its own model, with the public kernels'
matrix product and with ours; `tuned` is our model's best schedule of all implicit convolutions. The
configurations are those of the scripts of Fig. 8.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.cost.calls import Costs
from tilewright.cost.prices import call_costs
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine, load_machine
from tilewright.ops import Conv2d
from tilewright.papers.figures import level_line, lines
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row, compare, sampled
from tilewright.papers.swdnn.fixed_plans import SEEDS, best_swdnn_plan, layer
from tilewright.papers.swdnn.kernel import swdnn_gemm_cost
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import Option, choose

TITLES = {
    "figure7": "convolutions over the numbers of channels, four core groups",
    "figure9": "convolutions over the size of the kernel, four core groups",
}
Way = Literal[
    "swDNN's plans, public product",
    "swDNN's plans, public product, measured costs",
    "swDNN's plans, our product",
    "tuned, our product",
]
MACHINES: dict[Way, str] = {
    "swDNN's plans, public product": "sw26010",
    "swDNN's plans, public product, measured costs": "sw26010_measured",
    "swDNN's plans, our product": "sw26010",
    "tuned, our product": "sw26010",
}
_COSTS = {
    "sw26010": "where taken branches and changes of roles cost nothing",
    "sw26010_measured": "with the costs that measured kernels show",
}
_UNIT = "Gflop/s"
PEAK_GFLOPS = 4 * 742.4
_BATCH, _OUTPUT = 128, 64
_IMPLICIT = "implicit"


class SweepConfiguration(Struct, frozen=True):
    """One configuration of the figure."""

    in_channels: int
    out_channels: int
    kernel: int = 3

    @property
    def name(self) -> str:
        """The row's name."""
        size = "" if self.kernel == 3 else f" K {self.kernel}"
        return f"Ni {self.in_channels} No {self.out_channels}{size}"


class _Case(Struct, frozen=True):
    """A configuration computed in one way."""

    layer: SweepConfiguration
    way: Way


SMALL = [SweepConfiguration(i, o) for i in range(64, 129, 32) for o in range(64, 257, 32)]
LARGE = [SweepConfiguration(i, o) for i in range(128, 385, 32) for o in range(128, 385, 32)]
KERNELS = [SweepConfiguration(n, n, kernel) for n in (128, 192, 256) for kernel in range(3, 22, 2)]


def figure7(lab: Lab) -> Findings:
    """3 x 3 kernels over channel counts: the left and middle scripts, ends included."""
    counts = (
        "the loops as printed in Fig. 8 give 14 and 64 configurations (Ni < 128; < 384), with all"
        " ends included 21 and 81; the text counts 1 to 21 and 22 to 101. Ends are included here"
    )
    return sweep_result(lab, "figure7", [*SMALL, *LARGE], 6, counts)


def figure9(lab: Lab) -> Findings:
    """Kernels from 3 x 3 to 21 x 21: the right script, ends included."""
    counts = (
        "the loops as printed in Fig. 8 give 20 configurations, with ends included 30, as the text"
        " counts; the script starts No, but tests and steps Ni: Ni = No is taken"
    )
    return sweep_result(lab, "figure9", KERNELS, 4, counts)


_LOWER_BOUND = "printed as a lower bound; the summary counts what is above it"


class Speed(Struct, frozen=True):
    """Simulated Gflop/s of the chip, and the schedule that ran."""

    gflops: float
    schedule: str


class _Claim(Struct, frozen=True):
    """A statement of the text about the whole figure, which prints no numbers itself."""

    claim: str
    value: float
    unit: str


def _simulated(case: _Case) -> Speed:
    """The way's best plan by its own model, simulated."""
    machine = load_machine(MACHINES[case.way])
    found = case.layer
    channels = (found.in_channels, found.out_channels)
    op = layer(batch=_BATCH, channels=channels, rows=_OUTPUT, cols=_OUTPUT, kernel=found.kernel)
    tuned = case.way.startswith("tuned")
    candidate = _tuned(op, machine) if tuned else best_swdnn_plan(op, machine)
    assert candidate is not None  # batches of 128 have both plans
    costs: Costs | None = None
    if "public product" in case.way:
        costs = {**call_costs(machine), MatrixProduct: swdnn_gemm_cost}
    run = simulate(candidate.program(machine), machine, costs=costs)
    return Speed(op.flops / run.seconds / 1e9, _described(candidate))


def _tuned(op: Conv2d, machine: Machine) -> Candidate:
    """The best schedule of all implicit convolutions, swDNN's plans with any blocks included."""
    options: list[Option] = []
    for name in (_IMPLICIT, *SEEDS.values()):
        (choice,) = choose([op], machine, algorithm=name, partition="rows", keep=1)
        options += choice.options
    return min((option.candidate for option in options), key=lambda c: c.cycles)


def _described(candidate: Candidate) -> str:
    factors = candidate.nests[0].factors
    tiles = ", ".join(f"{n[:-5]} {v}" for n, v in factors.items() if n.endswith("_tile"))
    return f"{candidate.seed.name}: {tiles}"


def sweep_result(
    lab: Lab, experiment: str, every: Sequence[SweepConfiguration], quick: int, counts: str
) -> Findings:
    """Every layer in every way (`quick` of them in a quick run), and the claims about all."""
    table, layers = lab.published("swdnn", experiment, _Claim), lab.some(every, quick)
    cases = [_Case(layer, way) for layer in layers for way in MACHINES]
    speeds = lab.map(_simulated, cases)
    rows = [
        compare(_name(case), None, speed.gflops, "simulated", note=speed.schedule, unit=_UNIT)
        for case, speed in zip(cases, speeds, strict=True)
    ]
    by_way = {
        way: [speed.gflops for case, speed in zip(cases, speeds, strict=True) if case.way == way]
        for way in MACHINES
    }
    claims = [row for claim in table.rows for row in _claim_rows(claim, by_way, len(every))]
    return Findings(
        rows=(*claims, *rows),
        summary=_summary(by_way, table.rows),
        notes=(
            f"published: {table.source}",
            "public product: that of the public swDNN kernels, which ran the plans of the paper;"
            " our product: this project's matrix primitive in its place",
            *(f"{way}: on {MACHINES[way]}, {_COSTS[MACHINES[way]]}" for way in MACHINES),
            f"{_BATCH} images, {_OUTPUT} x {_OUTPUT} outputs, a quarter of the rows on each group",
            f"54 % of the {PEAK_GFLOPS:.1f} Gflop/s of the cores are 1603.6; of the 3062.4 with the"
            " four managing cores, which the paper calls 3.06 Tflops, 1600 are 52.2 %",
            counts,
        ),
    )


def sweep_figure(result: Result) -> Figure:
    """Each way over the configuration's number, as in the paper."""
    series: dict[str, list[float | None]] = {
        way: [row.ours for row in result.rows if row.name.endswith(f": {way}")] for way in MACHINES
    }
    numbers = list(range(1, max(map(len, series.values())) + 1))
    y_label = f"{_UNIT} of four groups (simulated)"
    figure = lines(numbers, series, title=result.title, x_label="configuration", y_label=y_label)
    claimed = [row.published for row in result.rows if row.published and row.unit == _UNIT]
    for value in dict.fromkeys(claimed):
        level_line(figure, value, f"published: most above {value:g}")
    return figure


draw_figure7 = draw_figure9 = sweep_figure


def _name(case: _Case) -> str:
    return f"{case.layer.name}: {case.way}"


def _claim_rows(claim: _Claim, by_way: dict[Way, list[float]], total: int) -> Iterator[Row]:
    """Each way's median against the level that "most" exceed; speedups need both ways."""
    if claim.unit == "x":
        note = "the speeds of the K40m are not printed"
        yield compare(claim.claim, claim.value, None, "published", note=note, unit=claim.unit)
        return
    for way, speeds in by_way.items():
        median = statistics.median(speeds)
        ours = 100 * median / PEAK_GFLOPS if claim.unit == "%" else median
        name = f"{claim.claim}; median of {way}"
        yield compare(
            name,
            claim.value,
            ours,
            "simulated",
            note=sampled(len(speeds), total, "configurations"),
            unit=claim.unit,
            explanation=_LOWER_BOUND,
            limits=(claim.value, math.inf),
        )


def _summary(by_way: dict[Way, list[float]], claims: Sequence[_Claim]) -> dict[str, float | str]:
    least = [claim.value for claim in claims if claim.unit == _UNIT]
    found: dict[str, float | str] = {}
    for way, speeds in by_way.items():
        found[f"{way}, {_UNIT}, least to most"] = f"{min(speeds):.0f} to {max(speeds):.0f}"
        for bound in least:
            above = sum(speed > bound for speed in speeds)
            found[f"{way}, above {bound:g}"] = f"{above} of {len(speeds)}"
    return found
