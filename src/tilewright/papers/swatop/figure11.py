"""swATOP Figure 11: cost of boundaries, lightweight padding against classic copying.

The cases are the 216 unaligned matrix products of Listing 2 on one core group. Both ways are tuned
by the model, each in its own space, and simulated. Lightweight: a tile that extends beyond a matrix
is re-packed in the scratchpad, other tiles cost nothing extra. Classic: copy both operands to
padded matrices (multiples of 128), multiply, crop the result. "Copying" is the share of the time
that the re-packing or the three copies add. The overhead also includes work on zeros: it is the
saving of the same program without either, with every call of the matrix primitive shortened by its
share of multiply-adds on zeros.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, PricedCall
from tilewright.cost.prices import call_costs
from tilewright.ir.nodes import Program
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct, Repack
from tilewright.machine import Machine
from tilewright.ops import Gemm
from tilewright.papers.figures import bars, level_line
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row, compare, sampled
from tilewright.papers.swatop.listings import listing2_unaligned
from tilewright.papers.swatop.schedules import Setting, our_product, setting
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel.level import KernelRun, simulate
from tilewright.tune.candidate import Candidate
from tilewright.tune.refills import steadied
from tilewright.tune.search import rank

TITLE = "boundaries of matrix products: lightweight padding against copying whole operands"
QUICK = 4


class _Limit(Struct, frozen=True):
    """The text's limit for one way: no case shown exceeds `share`."""

    way: str
    bound: str
    share: float


class ProductCase(Struct, frozen=True):
    """One matrix product."""

    op: Gemm
    on: Setting


class BoundaryCost(Struct, frozen=True):
    """One way: its cycles, and the shares of them due to boundaries."""

    cycles: int
    copying: float
    overhead: float


class Costs(Struct, frozen=True):
    """Both ways."""

    lightweight: BoundaryCost
    classic: BoundaryCost


def boundary_costs(case: ProductCase) -> Costs:
    """Tune and simulate both ways."""
    machine = case.on.load()
    return Costs(_lightweight(case.op, machine), _classic(case.op, machine))


def _lightweight(op: Gemm, machine: Machine) -> BoundaryCost:
    program = _best(op, "gemm", machine).program(machine)
    run = simulate(program, machine)
    unpacked = simulate(program, machine, costs={**call_costs(machine), Repack: _free})
    ideal = _ideal_cycles(program, _useful_share(run, op, machine), machine)
    return _cost(run.cycles, unpacked.cycles, ideal)


def _classic(op: Gemm, machine: Machine) -> BoundaryCost:
    candidate = _best(op, "padded", machine)
    run = simulate(candidate.program(machine), machine)
    (middle,) = (n for n in candidate.nests if n.structure.space.nest.name == "product")
    product = Candidate(op, candidate.seed, (middle,)).program(machine)
    alone = simulate(product, machine)
    ideal = _ideal_cycles(product, _useful_share(alone, op, machine), machine)
    return _cost(run.cycles, alone.cycles, ideal)


def _cost(cycles: int, without_copying: int, ideal: int) -> BoundaryCost:
    return BoundaryCost(cycles, 1 - without_copying / cycles, 1 - ideal / cycles)


def _best(op: Gemm, algorithm: str, machine: Machine) -> Candidate:
    """The model's pick, priced with refills of the instruction cache."""
    (seed,) = seeds_for(op, algorithm)
    (ranking,) = rank([(op, seed)], machine)
    ((best, *_),) = steadied([ranking.best], machine, lambda own: own, lambda _, own: own)
    return best


def _useful_share(run: KernelRun, op: Gemm, machine: Machine) -> float:
    """The share of the matrix primitive's multiply-adds that are not on zeros."""
    kinds = run.by_kind()
    peak = machine.cores * machine.core.flops_per_cycle
    at_peak = kinds.get("compute useful", 0) + kinds.get("compute padding", 0)
    return min(1.0, op.flops / peak / at_peak)


def _ideal_cycles(program: Program, share: float, machine: Machine) -> int:
    """The program's cycles without re-packing and without work on zeros."""

    own = call_costs(machine)

    def shortened(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
        return own[MatrixProduct](machine, call) * share

    costs: dict[type[Primitive], CallCost] = {**own, Repack: _free, MatrixProduct: shortened}
    return simulate(program, machine, costs=costs).cycles


def _free(_: Machine, __: PricedCall[Primitive]) -> float:
    """Cycles of a free call."""
    return 0.0


Found = Mapping[Gemm, Costs]


def run(lab: Lab) -> Findings:
    """The text's limits beside the cases shown, then those cases."""
    published = lab.published("swatop", "figure11", _Limit)
    limits = {row.way: row.share for row in published.rows}
    every = listing2_unaligned()
    ops = lab.some(every, QUICK)
    of = sampled(len(ops), len(every))
    costs = lab.map(boundary_costs, [ProductCase(op, setting(lab)) for op in ops])
    found = dict(zip(ops, costs, strict=True))
    shown = {op: c for op, c in found.items() if c.classic.copying > limits["classic"]}
    return Findings(
        rows=(*_limits(shown, limits, of), *_cases(shown)),
        summary=_summary(found, shown),
        notes=(
            f"published: {published.source}",
            f"both ways with {our_product(setting(lab))}, one core group",
            *_NOTES,
            *_distribution(found),
        ),
    )


_NOTES = (
    "the primitive computes multiples of 128 along the vectors and of 32 along the other dimension,"
    " so an extent of 200 costs as much as 256 or 224; no handling of boundaries avoids that",
    "the paper says that all cases need padding in all three dimensions; here the depth never does "
    "where it is a multiple of 8, as all six extents are",
)


def draw(result: Result) -> Figure:
    """Shares of both ways for the cases shown, largest first."""
    cases: dict[str, dict[str, float | None]] = {}
    for row in result.rows:
        if " x " in row.name:
            name, way = row.name.rsplit(", ", 1)
            cases.setdefault(name, {})[way] = row.ours
    order = sorted(cases, key=lambda name: -(cases[name]["classic"] or 0))
    series = {way: [cases[name][way] for name in order] for way in ("lightweight", "classic")}
    title = "Share of the time that copying for boundaries takes (simulated), largest first"
    figure = bars([""] * len(order), series, title=title, y_label="share of the time")
    figure.axes[0].set_xticks([])
    return level_line(figure, 0.05, "5 %")


def _limits(shown: Found, limits: Mapping[str, float], of: str) -> Iterator[Row]:
    """The text's limits beside the cases shown; `of` notes the number of cases of a quick run."""
    if not shown:
        return
    light = [c.lightweight for c in shown.values()]
    classic = [c.classic for c in shown.values()]
    share = limits["lightweight"]
    zeros = sum(cost.overhead > share for cost in light)
    name = f"cases with classic copying above {100 * limits['classic']:.0f} %, the ones shown"
    yield compare(name, None, len(shown), "simulated", note=of)
    worst = max(cost.copying for cost in light)
    note = "; ".join(filter(None, ("printed as an upper bound", of)))
    if worst < share:
        note += "; only the last tile of an axis is re-packed, in the scratchpad"
    yield compare(
        "lightweight copying, highest of those shown", share, worst, "simulated", note=note,
        limits=(-math.inf, share),
    )  # fmt: skip
    for name, costs in (("lightweight", light), ("classic", classic)):
        mean = statistics.fmean(cost.copying for cost in costs)
        yield compare(f"{name} copying, mean of those shown", None, mean, "simulated")
        mean = statistics.fmean(cost.overhead for cost in costs)
        note = f"{zeros} cases above 5 %, for their zeros" if name == "lightweight" else ""
        yield compare(f"{name} with zeros, mean of those shown", None, mean, "simulated", note=note)


def _cases(shown: Found) -> Iterator[Row]:
    for op, costs in shown.items():
        for way in ("lightweight", "classic"):
            cost: BoundaryCost = getattr(costs, way)
            name = f"{op.m} x {op.n} x {op.k}, {way}"
            note = f"with zeros {100 * cost.overhead:.1f} %"
            yield compare(name, None, cost.copying, "simulated", note=note)


def _summary(found: Found, shown: Found) -> dict[str, float | str]:
    ratios = [c.classic.cycles / c.lightweight.cycles for c in found.values()]
    return {
        "cases": len(found),
        "cases shown": len(shown),
        "classic / lightweight cycles, geometric mean": round(statistics.geometric_mean(ratios), 3),
        "classic / lightweight cycles, lowest": round(min(ratios), 3),
    }


_EDGES = (0.0, 0.01, 0.02, 0.05, 0.10, 0.20, 0.50, 1.0)


def _distribution(found: Found) -> Iterator[str]:
    """Lines that count all cases by their share of the time."""
    for way in ("lightweight", "classic"):
        for part in ("copying", "overhead"):
            shares = [getattr(getattr(c, way), part) for c in found.values()]
            counts = ", ".join(_counts(shares))
            name = "copying" if part == "copying" else "copying and zeros"
            yield f"{way} {name}, cases by share of the time: {counts}"


def _counts(shares: Sequence[float]) -> Iterator[str]:
    for low, high in pairwise(_EDGES):
        count = sum(low <= share < high for share in shares)
        if count:
            yield f"{100 * low:.0f} to {100 * high:.0f} %: {count}"
