"""What boundaries cost: lightweight padding against the classic copying of whole operands.

    python benchmarks/boundary.py [--quick] [--machine sw26010_cg] [--json]

The cases are the 216 unaligned matrix products of swATOP Listing 2, the comparison is that of its
section 5.3.2 and Fig. 11. Both ways are tuned by the model, each in its own space, and simulated at
kernel level.

Lightweight: the tile that reaches beyond a matrix is re-packed in the scratchpad, other tiles pay
nothing. Classic: copy both operands to padded matrices (multiples of 128), multiply, crop the
result. The overhead is what an ideal run would save, as a share of the time: the same program with
no time for re-packing or without the copies, and with every call of the matrix primitive shortened
by the share of multiply-adds that are on zeros. "On zeros" is that share of the primitive's own
cycles, hidden behind transfers or not.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from shared.listings import listing2_unaligned, spread_sample
from shared.output import note, processor, show, text_table

from tilewright.common.expr import Value
from tilewright.cost.primitives import CALL_COSTS, Attributes, Dims
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.machine.load import load_machine
from tilewright.ops import Gemm
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel_level import KernelRun, simulate
from tilewright.tune.search import Candidate, rank

QUICK = 12
CLASSIC_LIMIT = 0.10
"""Fig. 11 shows the cases whose classic overhead is above this."""

LIGHTWEIGHT_LIMIT = 0.05
"""What swATOP brings those cases below."""

Row = dict[str, Any]


def free(_: Machine, __: Dims, ___: Attributes) -> float:
    """A call that takes no time."""
    return 0.0


def best(op: Gemm, algorithm: str, machine: Machine) -> Candidate:
    """The model's pick."""
    (seed,) = seeds_for(op, algorithm)
    (ranking,) = rank([(op, seed)], machine)
    return ranking.best[0]


def useful_share(run: KernelRun, op: Gemm, machine: Machine) -> float:
    """The share of the matrix primitive's multiply-adds that are not on zeros."""
    kinds = run.by_kind()
    peak = machine.cores * machine.core.flops_per_cycle
    at_peak = kinds.get("compute useful", 0) + kinds.get("compute padding", 0)
    return min(1.0, op.flops / peak / at_peak)


def ideal_cycles(program: Program, share: float, machine: Machine) -> int:
    """The program's time without re-packing and without work on zeros."""

    def gemm(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
        return CALL_COSTS["gemm"](machine, dims, attributes) * share

    return simulate(program, machine, costs={**CALL_COSTS, "repack": free, "gemm": gemm}).cycles


def row(run: KernelRun, copying: int, share: float, ideal: int) -> Row:
    """Time and overhead of one way."""
    primitive = sum(n for kind, n in run.by_kind().items() if kind.startswith("compute "))
    return {
        "cycles": run.cycles,
        "overhead": 1 - ideal / run.cycles,
        "copying": copying / run.cycles,
        "on_zeros": primitive * (1 - share) / run.cycles,
    }


def lightweight(op: Gemm, machine: Machine) -> Row:
    """Time and overhead of the shipped boundary handling."""
    program = best(op, "gemm", machine).program(machine)
    run = simulate(program, machine)
    unpacked = simulate(program, machine, costs={**CALL_COSTS, "repack": free})
    share = useful_share(run, op, machine)
    return row(run, run.cycles - unpacked.cycles, share, ideal_cycles(program, share, machine))


def classic(op: Gemm, machine: Machine) -> Row:
    """Time and overhead of copying whole operands."""
    candidate = best(op, "padded", machine)
    run = simulate(candidate.program(machine), machine)
    (middle,) = (n for n in candidate.nests if n.structure.space.nest.name == "product")
    product = Candidate(op, candidate.seed, (middle,)).program(machine)
    alone = simulate(product, machine)
    share = useful_share(alone, op, machine)
    return row(run, run.cycles - alone.cycles, share, ideal_cycles(product, share, machine))


def measured(ops: list[Gemm], machine: Machine) -> Iterator[Row]:
    """One row per product."""
    for i, op in enumerate(ops, 1):
        light, whole = lightweight(op, machine), classic(op, machine)
        note(f"{i}/{len(ops)} {op.describe()}: {light['overhead']:.1%} {whole['overhead']:.1%}")
        yield {
            "case": op.describe(),
            "extents": [op.m, op.n, op.k],
            "lightweight": light,
            "classic": whole,
            "in_figure_11": whole["overhead"] > CLASSIC_LIMIT,
        }


def summary(rows: list[Row]) -> list[Row]:
    """Overheads of all cases and of those that Fig. 11 would show."""
    found = []
    for name, chosen in (
        ("all", rows),
        ("classic > 10 %", [r for r in rows if r["in_figure_11"]]),
    ):
        if not chosen:
            continue
        light = [r["lightweight"]["overhead"] for r in chosen]
        packing = [r["lightweight"]["copying"] for r in chosen]
        whole = [r["classic"]["overhead"] for r in chosen]
        faster = [r["classic"]["cycles"] / r["lightweight"]["cycles"] for r in chosen]
        found.append(
            {
                "cases": name,
                "count": len(chosen),
                "lightweight_mean": statistics.fmean(light),
                "lightweight_median": statistics.median(light),
                "lightweight_worst": max(light),
                "lightweight_above_limit": sum(x > LIGHTWEIGHT_LIMIT for x in light),
                "lightweight_copying_mean": statistics.fmean(packing),
                "lightweight_copying_worst": max(packing),
                "classic_mean": statistics.fmean(whole),
                "classic_worst": max(whole),
                "speed_up_geometric_mean": statistics.geometric_mean(faster),
            }
        )
    return found


def distribution(rows: list[Row]) -> str:
    """How many cases have which overhead."""
    edges = (0.0, 0.01, 0.02, 0.05, 0.10, 0.20, 0.50, 1.0)
    ways = [(way, part) for part in ("copying", "overhead") for way in ("lightweight", "classic")]
    lines = []
    for low, high in pairwise(edges):
        counts = [sum(low <= r[way][part] < high for r in rows) for way, part in ways]
        lines.append((f"{low:.0%} to {high:.0%}", *counts))
    return text_table(("share of the time", *(f"{way} {part}" for way, part in ways)), lines)


def as_text(rows: list[Row], table: list[Row]) -> str:
    """The distribution, the summary and the cases above the limit."""
    lines = [
        (
            r["cases"], r["count"], f"{r['lightweight_mean']:.1%}",
            f"{r['lightweight_median']:.1%}", f"{r['lightweight_worst']:.1%}",
            r["lightweight_above_limit"], f"{r['lightweight_copying_mean']:.1%}",
            f"{r['lightweight_copying_worst']:.1%}", f"{r['classic_mean']:.1%}",
            f"{r['classic_worst']:.1%}",
            f"{r['speed_up_geometric_mean']:.2f}",
        )
        for r in table
    ]  # fmt: skip
    headers = ("cases", "count", "lightweight mean", "median", "worst", "above 5 %",
               "re-packing mean", "worst", "classic mean", "worst", "speed-up")  # fmt: skip
    above = sorted(
        (r for r in rows if r["lightweight"]["overhead"] > LIGHTWEIGHT_LIMIT),
        key=lambda r: -r["lightweight"]["overhead"],
    )
    listed = [
        (r["case"], f"{r['lightweight']['overhead']:.1%}", f"{r['lightweight']['copying']:.1%}",
         f"{r['lightweight']['on_zeros']:.1%}", f"{r['classic']['overhead']:.1%}",
         "yes" if r["in_figure_11"] else "no")
        for r in above
    ]  # fmt: skip
    columns = ("lightweight above 5 %", "overhead", "re-packing", "on zeros", "classic",
               "in Fig. 11")  # fmt: skip
    title = "cases by the share of the time that boundaries cost (simulated)"
    parts = [title, distribution(rows), text_table(headers, lines)]
    return "\n\n".join([*parts, text_table(columns, listed)] if listed else parts)


def main() -> None:
    """Run, then print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machine", default="sw26010_cg")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} of the 216 cases")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ops = spread_sample(listing2_unaligned(), QUICK if arguments.quick else None)
    rows = list(measured(ops, load_machine(arguments.machine)))
    table = summary(rows)
    result = {
        "processor": processor(),
        "machine": arguments.machine,
        "kind": "simulated",
        "summary": table,
        "rows": rows,
    }
    show(result, as_text(rows, table), arguments.json)


if __name__ == "__main__":
    main()
