"""Whole networks on this computer: ours against onnxruntime and torch's compiled mode.

    PYTHONPATH=src python benchmarks/host_networks.py [vgg16 | resnet50 | yolov2 ...]
        [--threads 1] [--batch 1] [--machine host] [--quick] [--json] [--csv FILE]

Graph and weights are the same for all: onnxruntime gets our ONNX export, torch a module built from
the graph, compiled by inductor with constant weights, images in channels-last. Each has a process
of its own; they take turns. "ours is faster by" is the median over the rounds with half the
distance of the quartiles; "difference" is the largest one of an output from ours, over the largest
magnitude. "ready" is what passed until it had run once: compiling, and the first run.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from host.contest import NETWORKS, Missing
from host.network_contest import find_runners
from host.processes import RemoteContender, Worker, workers
from shared.output import note, processor, show, text_table
from shared.results import add_csv_option, write_results

from tilewright.common.errors import ToolError
from tilewright.network.results import largest_difference
from tilewright.tune.sampling import (
    Protocol,
    Ratio,
    Timing,
    interleaved,
    protocol_for,
    ratio_of_speeds,
)

HEADERS = ("contender", "ms", "first over it", "difference", "ready, s", "clock")
QUICK_ROUNDS = 3


@dataclass(frozen=True)
class Result:
    """How one contender did on one network."""

    name: str
    timing: Timing
    first_over_it: Ratio
    difference: float
    ready_seconds: float


def contested(
    network: str, processes: Sequence[Worker], threads: int, protocol: Protocol, folder: Path
) -> list[Result]:
    """All who can run the network, the first compared with each."""
    seconds, contenders = {}, []
    for worker in processes:
        note(f"{network}: {worker.name} gets ready")
        answer = worker.ask({"prepare": network})
        if "failed" in answer:
            note(f"  {worker.name} takes no part: {answer['failed']}")
            continue
        seconds[worker.name] = answer["seconds"]
        contenders.append(RemoteContender(worker.name, print, threads, worker))
    if not contenders:
        return []
    note(f"{network}: timed")
    timings = interleaved(contenders, protocol)
    outputs = {name: dict(np.load(folder / f"{name}.npz")) for name in seconds}
    first = contenders[0].name
    return [
        Result(
            name,
            timings[name],
            ratio_of_speeds(timings[first], timings[name]),
            largest_difference(outputs[name], outputs[first]),
            taken,
        )
        for name, taken in seconds.items()
    ]


def every_network(
    names: Sequence[str], arguments: argparse.Namespace
) -> Iterator[tuple[str, list[Result]]]:
    """The results on each network; what the load prevents is noted and left out."""
    threads = arguments.threads
    protocol = protocol_for(threads)
    if arguments.quick:
        protocol = protocol.hurried(QUICK_ROUNDS)
    found = []
    for runner in find_runners(threads, arguments.machine):
        if isinstance(runner, Missing):
            note(f"{runner.name} takes no part: {runner.why}; to add it: {runner.fix}")
        else:
            note(f"{runner.name} {runner.version}")
            found.append(runner.name)
    for name in names:
        # New processes for each network: what one has kept in memory is no burden for the next.
        with tempfile.TemporaryDirectory() as folder:
            source = [arguments.machine, str(arguments.batch), folder]
            with workers("host.network_worker", found, threads, source) as processes:
                try:
                    yield name, contested(name, processes, threads, protocol, Path(folder))
                except ToolError as error:
                    note(f"  not timed: {error}")


def rows(results: Sequence[Result]) -> list[list[str]]:
    """One line for each contender."""
    found = []
    for r in results:
        ratio = f"{r.first_over_it.median:.3f} ± {r.first_over_it.spread:.3f}"
        cells = [r.name, f"{1e3 * r.timing.seconds:.1f}", ratio, f"{r.difference:.0e}"]
        found.append([*cells, f"{r.ready_seconds:.1f}", r.timing.clock])
    return found


def as_json(name: str, results: Sequence[Result]) -> dict[str, Any]:
    """One network for programs."""
    return {
        "name": name,
        "results": [
            {
                "contender": r.name,
                "milliseconds": 1e3 * r.timing.seconds,
                "first_over_it": asdict(r.first_over_it),
                "difference": r.difference,
                "ready_seconds": r.ready_seconds,
                "clock": r.timing.clock,
                "samples": len(r.timing.by_round),
                "disturbed": r.timing.disturbed,
            }
            for r in results
        ],
    }


def csv_rows(values: Sequence[dict[str, Any]]) -> list[dict[str, object]]:
    """One row for each network and contender."""
    return [
        {
            "network": value["name"],
            "contender": result["contender"],
            "time_milliseconds": result["milliseconds"],
            "first_over_it": result["first_over_it"]["median"],
            "spread": result["first_over_it"]["spread"],
            "difference": result["difference"],
            "clock": result["clock"],
        }
        for value in values
        for result in value["results"]
    ]


def keep(arguments: argparse.Namespace, values: Sequence[dict[str, Any]]) -> None:
    """Write the CSV that was asked for."""
    write_results(
        arguments.csv,
        csv_rows(values),
        title=f"Whole networks, {'one thread' if arguments.threads == 1 else 'several threads'}",
        kind="measured",
        machine=arguments.machine,
        conditions=f"f32, batch {arguments.batch}, threads: {arguments.threads}; nothing tuned by "
        "measuring; medians over the rounds",
        meanings={
            "first_over_it": "speed of tilewright over this contender's",
            "spread": "half the distance of the quartiles",
            "difference": "largest one from our output, over the largest value",
        },
    )


def main() -> None:
    """Time the chosen networks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "network", nargs="*", help=f"of the zoo; {', '.join(NETWORKS)} unless given"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--machine", default="host", help="ours is compiled for this one")
    parser.add_argument("--quick", action="store_true", help="one network, few rounds")
    parser.add_argument("--json", action="store_true")
    add_csv_option(parser)
    arguments = parser.parse_args()
    names = arguments.network or (["resnet50"] if arguments.quick else list(NETWORKS))
    values = []
    if not arguments.json:
        print(f"{processor()}, {arguments.threads} threads, batch {arguments.batch}")
    for name, results in every_network(names, arguments):
        values.append(as_json(name, results))
        if results and not arguments.json:
            print(f"\n{name}\n{text_table(HEADERS, rows(results))}", flush=True)
    keep(arguments, values)
    conditions = {"processor": processor(), "threads": arguments.threads, "batch": arguments.batch}
    if arguments.json:
        show({**conditions, "networks": values}, "", True)


if __name__ == "__main__":
    main()
