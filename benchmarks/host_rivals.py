"""Our code on this computer against the libraries that are installed: ratios, measured in one run.

    PYTHONPATH=src python benchmarks/host_rivals.py
        [products | vgg16 | resnet50 | efficientnet_b0 | FILE.onnx ...] [--threads 1] [--batch 1]
        [--machine host] [--only NAME] [--against NAME] [--quick] [--json] [--csv FILE]

The rows of a table come from one interleaved run. "first over it" is the median over the rounds of
the first contender's speed over this one's, with half the interquartile range; only such ratios are
meaningful, as the clock drifts. "of peak" compares with a loop of multiply-adds alone in the same
run. "error" is the largest deviation from a double-precision result, over its largest value.
"clock" is "wall" if there were undisturbed samples, else "processor", the processor time of
disturbed ones (`tilewright.tune.sampling`).
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from host.contest import Contestant, Missing, Workload
from host.network_contest import write_files
from host.processes import workers
from host.timing import PEAK, Standing, find_contestants, time_workload
from host.workers import time_remotely, workloads_of
from shared.output import note, processor, show, text_table
from shared.results import add_csv_option, write_results

from tilewright.common.errors import ToolError
from tilewright.graph import list_networks
from tilewright.tune.sampling import protocol_for

HEADERS = ("contender", "algorithm", "Gflop/s", "of peak", "first over it", "error", "clock")
QUICK_ROUNDS = 3


def timed(
    kind: str, arguments: argparse.Namespace, found: Sequence[Contestant]
) -> Iterator[tuple[Workload, list[Standing]]]:
    """The standings on each workload; those that the load prevents from timing are only noted."""
    quick, threads = arguments.quick, arguments.threads
    together = threads > 1
    protocol = protocol_for(threads)
    if quick:
        protocol = protocol.hurried(QUICK_ROUNDS)
    source = [arguments.machine, kind, str(arguments.batch), "quick" if quick else "all"]
    names = [c.name for c in found] if together else []
    with workers("host.workers", names, threads, source) as processes:
        for number, workload in enumerate(workloads_of(kind, arguments.batch, quick=quick)):
            if arguments.only not in workload.name:
                continue
            note(f"{workload.name}: {workload.op.describe()}")
            try:
                if together:
                    yield workload, time_remotely(workload, number, processes, threads, protocol)
                else:
                    yield workload, time_workload(workload, found, protocol)
            except ToolError as error:
                note(f"  not timed: {error}")


def rows(standings: Sequence[Standing]) -> list[list[str]]:
    """One table row for each contender."""
    peak = next((s.flops_per_second for s in standings if s.name == PEAK), math.nan)
    found = []
    for s in standings:
        ratio = f"{s.ratio.median:.3f} ± {s.ratio.spread:.3f}" if s.ratio.rounds else ""
        cells = [s.name, s.algorithm, f"{s.flops_per_second / 1e9:.1f}"]
        cells += [f"{s.flops_per_second / peak:.1%}" if peak > 0 else "", ratio]
        found.append([*cells, f"{s.error:.0e}" if s.name != PEAK else "", s.timing.clock])
    return found


def best_ratios(results: Sequence[tuple[Workload, list[Standing]]]) -> dict[str, list[float]]:
    """For each rival, the first contender's speed over the rival's best algorithm, by workload."""
    found: dict[str, list[float]] = {}
    for _, standings in results:
        first, *others = dict.fromkeys(s.name for s in standings if s.name != PEAK)
        for name in others:
            ways = [s.ratio.median for s in standings if s.name == name and s.ratio.rounds]
            found.setdefault(f"{first} over {name}", []).extend([min(ways)] if ways else [])
    return found


def summary(results: Sequence[tuple[Workload, list[Standing]]]) -> str:
    """Geometric means over the workloads, with each rival's best algorithm."""
    lines = []
    for pair, ratios in best_ratios(results).items():
        if not ratios:
            continue
        mean = statistics.geometric_mean(ratios)
        low, high = min(ratios), max(ratios)
        lines.append(
            f"{pair}: geometric mean {mean:.3f} of {len(ratios)} workloads "
            f"({low:.3f} to {high:.3f})"
        )
    return "\n".join(lines)


def as_json(workload: Workload, standings: Sequence[Standing]) -> dict[str, Any]:
    """The standings on one workload, for JSON."""
    return {
        "name": workload.name,
        "shape": workload.op.describe(),
        "count": workload.count,
        "standings": [
            {
                "contender": s.name,
                "algorithm": s.algorithm,
                "gflops": s.flops_per_second / 1e9,
                "first_over_it": asdict(s.ratio),
                "error": s.error,
                "clock": s.timing.clock,
                "samples": len(s.timing.by_round),
                "disturbed": s.timing.disturbed,
            }
            for s in standings
        ],
    }


def csv_rows(values: Sequence[dict[str, Any]]) -> list[dict[str, object]]:
    """One row for each workload and contender."""
    return [
        {
            "workload": value["name"],
            "shape": value["shape"],
            "contender": standing["contender"],
            "algorithm": standing["algorithm"],
            "speed_gflops": standing["gflops"],
            "first_over_it": standing["first_over_it"]["median"],
            "spread": standing["first_over_it"]["spread"],
            "error": standing["error"],
            "clock": standing["clock"],
        }
        for value in values
        for standing in value["standings"]
    ]


def keep(arguments: argparse.Namespace, values: Sequence[dict[str, Any]]) -> None:
    """Write the CSV file, if one was requested."""
    write_results(
        arguments.csv,
        csv_rows(values),
        title=f"Kernels against libraries: {', '.join(arguments.kind or ['products'])}",
        kind="measured",
        machine=arguments.machine,
        conditions=f"f32, batch {arguments.batch}, threads: {arguments.threads}",
        meanings={
            "first_over_it": "speed of tilewright over this contender's, median over the rounds",
            "spread": "half the distance of the quartiles",
            "error": "largest deviation from a double-precision result over its largest value",
        },
    )


def sources(kinds: Sequence[str], folder: Path, batch: int) -> list[str]:
    """The workloads' sources: networks of torchvision and timm as ONNX files, others unchanged."""
    known = ("products", *list_networks())
    theirs = [kind for kind in kinds if kind not in known and not kind.endswith(".onnx")]
    write_files(theirs, folder, batch)
    return [str(folder / f"{kind}.onnx") if kind in theirs else kind for kind in kinds]


def main() -> None:
    """Time the chosen workloads."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "kind", nargs="*", help="products, an ONNX file, a network of the zoo, torchvision or timm"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--machine", default="host", help="ours is compiled for this one")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    parser.add_argument("--against", default="", help="rivals whose name has this in it")
    parser.add_argument("--quick", action="store_true", help="few workloads, few rounds")
    parser.add_argument("--json", action="store_true")
    add_csv_option(parser)
    arguments = parser.parse_args()
    # The libraries' OpenMP reads this when `find_contestants` loads it.
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    ours, *rivals = find_contestants(arguments.threads, arguments.machine)
    everyone = [ours, *(one for one in rivals if arguments.against in one.name)]
    for one in everyone:
        if isinstance(one, Missing):
            note(f"{one.name} takes no part: {one.why}; to add it: {one.fix}")
        else:
            note(f"{one.name} {one.version}")
    found = [one for one in everyone if not isinstance(one, Missing)]
    if not arguments.json:
        print(f"{processor()}, {arguments.threads} threads")
    with tempfile.TemporaryDirectory() as place:
        kinds = sources(arguments.kind or ["products"], Path(place), arguments.batch)
        values = [value for kind in kinds for value in contest(kind, arguments, found)]
    keep(arguments, values)
    if arguments.json:
        show({"processor": processor(), "workloads": values}, "", True)


def contest(
    kind: str, arguments: argparse.Namespace, found: Sequence[Contestant]
) -> list[dict[str, Any]]:
    """Time all workloads of a kind, print each as soon as it is done, and return them for JSON."""
    results = []
    for workload, standings in timed(kind, arguments, found):
        if standings:
            results.append((workload, standings))
            tell(workload, standings, arguments.json)
    if not arguments.json:
        print(summary(results) if results else f"{kind}: nothing was timed", flush=True)
    return [as_json(*result) for result in results]


def tell(workload: Workload, standings: Sequence[Standing], as_json: bool) -> None:
    """Print the table of one workload, unless output is JSON."""
    if not as_json:
        table = text_table(HEADERS, rows(standings))
        print(f"{workload.name}, {workload.op.describe()}\n{table}\n", flush=True)


if __name__ == "__main__":
    main()
