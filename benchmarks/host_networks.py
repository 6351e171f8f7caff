"""Whole networks on this computer: ours against onnxruntime and torch's compiled mode.

    PYTHONPATH=src python benchmarks/host_networks.py [vgg16 | mobilenet_v3_large ...]
        [--threads 1] [--batch 1] [--machine host] [--against NAME]... [--together 1]
        [--ready-within SECONDS] [--rounds N] [--quick] [--check] [--json] [--csv FILE]

Networks are those of the zoo, and of torchvision and timm if these are installed; `most` stands for
the fourteen on the page of results. All contenders have the same graph and weights. For a network
of the zoo, onnxruntime loads our ONNX export and torch a module built from the graph; for one of
torchvision, we and onnxruntime load the file that torch exports. Torch compiles with inductor,
constant weights and channels-last images. Each contender has a process of its own, and they take
turns. "first over it" is the median ratio of speeds over the rounds with half the interquartile
range, "by least" the ratio of the least times; "difference" is the largest difference of an output
from ours, over the largest magnitude. "ready" is the time until the first run is done: compiling
and running once, at the same time as others with `--together`. With `--check` nothing is timed:
our network, as the compiler optimises it, is compared with the interpreter of graphs.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from host.contest import NETWORKS, Missing
from host.network_contest import Task, find_runners, write_files
from host.processes import RemoteContender, Worker, workers
from shared.output import note, processor, show, text_table
from shared.results import add_csv_option, write_results

from tilewright.common.errors import ToolError
from tilewright.graph.rewriting import simplified
from tilewright.machine import find_machine
from tilewright.network.results import largest_difference
from tilewright.network.rival import compare_outputs
from tilewright.targets.host.network.native import compile_network
from tilewright.tune.sampling import (
    Protocol,
    Ratio,
    Timing,
    interleaved,
    protocol_for,
    ratio_of_speeds,
)

HEADERS = ("contender", "ms", "least", "first over it", "by least", "difference", "ready, s",
           "clock")  # fmt: skip
QUICK_ROUNDS = 3
MOST = ("mobilenet2", "mobilenet_v3_large", "efficientnet_b0", "mnasnet1_0", "ghostnet_100",
        "shufflenet_v2_x1_0", "densenet121", "squeezenet1_1", "inception_v3", "regnet_y_400mf",
        "convnext_tiny", "vgg16", "yolov2", "resnet50")  # fmt: skip


@dataclass(frozen=True)
class Result:
    """The figures of one contender on one network."""

    name: str
    timing: Timing
    first_over_it: Ratio
    difference: float
    ready_seconds: float
    by_least: float


@dataclass(frozen=True)
class Network:
    """A network, with a process for each contender."""

    name: str
    processes: Sequence[Worker]
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def prepared(self, worker: Worker) -> None:
        """Make one contender compile and run the network once."""
        note(f"{self.name}: {worker.name} gets ready")
        self.answers[worker.name] = worker.ask({"prepare": self.name})


def contested(found: Network, threads: int, protocol: Protocol, folder: Path) -> list[Result]:
    """Results of all contenders that can run the network; the first is compared with each."""
    seconds, contenders = {}, []
    for worker in found.processes:
        answer = found.answers.get(worker.name, {"failed": "it was not ready in time"})
        if "failed" in answer:
            note(f"{found.name}: {worker.name} takes no part: {answer['failed']}")
            continue
        seconds[worker.name] = answer["seconds"]
        contenders.append(RemoteContender(worker.name, print, threads, worker))
    if not contenders:
        return []
    note(f"{found.name}: timed")
    timings = interleaved(contenders, protocol)
    outputs = {name: dict(np.load(folder / f"{name}.{found.name}.npz")) for name in seconds}
    first = contenders[0].name
    return [
        Result(
            name,
            timings[name],
            ratio_of_speeds(timings[first], timings[name]),
            largest_difference(outputs[name], outputs[first]),
            taken,
            timings[name].best_seconds / timings[first].best_seconds,
        )
        for name, taken in seconds.items()
    ]


def every_network(
    names: Sequence[str], arguments: argparse.Namespace
) -> Iterator[tuple[str, list[Result]]]:
    """The results on each network; networks that the load prevents from timing are only noted."""
    threads, together = arguments.threads, arguments.together
    protocol = protocol_for(threads)
    if rounds := QUICK_ROUNDS if arguments.quick else arguments.rounds:
        protocol = protocol.hurried(rounds)
    found = contestants(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_files(names, folder, arguments.batch)
        for start in range(0, len(names), together):
            # New processes for each network, so that memory of one does not burden the next.
            source = [arguments.machine, str(arguments.batch), place]
            with ExitStack() as stack:
                networks = [
                    Network(name, stack.enter_context(
                        workers("host.network_worker", found, threads, source)))
                    for name in names[start : start + together]
                ]  # fmt: skip
                get_ready(networks, together, arguments.ready_within)
                for one in networks:
                    try:
                        yield one.name, contested(one, threads, protocol, folder)
                    except ToolError as error:
                        note(f"  not timed: {error}")


def check(names: Sequence[str], arguments: argparse.Namespace) -> None:
    """Raise SystemExit if an output differs from the interpreter's by more than rounding."""
    target = find_machine(arguments.machine, {"threads.count": arguments.threads})
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        write_files(names, Path(place), arguments.batch)
        for name in names:
            task = Task(name, arguments.batch, Path(place))
            compiled = compile_network(simplified(task.network), target)
            outputs = compiled.run(weights=task.weights, **task.inputs)
            numbers = (task.network, task.weights or task.network.values, task.inputs)
            found = compare_outputs("reference", *numbers, outputs, None)
            print(f"{name}: differs by {found.largest_difference:.1e} of {found.bound:.1e}")
            wrong += [] if found.is_within_bound else [name]
    if wrong:
        raise SystemExit(f"wrong: {', '.join(wrong)}")


def get_ready(networks: Sequence[Network], together: int, seconds: float | None) -> None:
    """Prepare contenders, `together` at once, ours first; those not ready in `seconds` drop out."""
    pairs = [(one, worker) for one in networks for worker in one.processes]
    pairs.sort(key=lambda pair: pair[0].processes.index(pair[1]))
    pool = ThreadPoolExecutor(together)
    wait([pool.submit(one.prepared, worker) for one, worker in pairs], seconds)
    pool.shutdown(wait=False, cancel_futures=True)


def contestants(arguments: argparse.Namespace) -> list[str]:
    """Names of the installed contenders to compare with; the missing ones are noted."""
    found = []
    for runner in find_runners(arguments.threads, arguments.machine):
        if isinstance(runner, Missing):
            note(f"{runner.name} takes no part: {runner.why}; to add it: {runner.fix}")
        elif not found or not arguments.against or runner.name in arguments.against:
            note(f"{runner.name} {runner.version}")
            found.append(runner.name)
    return found


def rows(results: Sequence[Result]) -> list[list[str]]:
    """One table row for each contender."""
    found = []
    for r in results:
        ratio = f"{r.first_over_it.median:.3f} ± {r.first_over_it.spread:.3f}"
        times = [f"{1e3 * t:.2f}" for t in (r.timing.seconds, r.timing.best_seconds)]
        cells = [r.name, *times, ratio, f"{r.by_least:.3f}", f"{r.difference:.0e}"]
        found.append([*cells, f"{r.ready_seconds:.1f}", r.timing.clock])
    return found


def summary(every: Mapping[str, Sequence[Result]]) -> str:
    """Table of speed ratios by least times over each rival and over the best, with means."""
    rivals = list(dict.fromkeys(r.name for results in every.values() for r in results[1:]))
    found = {
        name: [{r.name: r.by_least for r in results}.get(rival, math.nan) for rival in rivals]
        for name, results in every.items()
        if len(results) > 1
    }
    table = {name: [*over, np.nanmin(over)] for name, over in found.items()}
    if not table:
        return ""
    means = np.exp(np.nanmean(np.log(list(table.values())), axis=0))
    every_row = {**table, "geometric mean": means}
    rows = [[name, *(f"{x:.3f}" for x in row)] for name, row in every_row.items()]
    headers = ["by least times, ours over", *rivals, "the best of them"]
    return text_table(headers, rows)


def as_json(name: str, results: Sequence[Result]) -> dict[str, Any]:
    """The results on one network, for JSON."""
    return {
        "name": name,
        "results": [
            {
                "contender": r.name,
                "milliseconds": 1e3 * r.timing.seconds,
                "least_milliseconds": 1e3 * r.timing.best_seconds,
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
    """Write the CSV file, if one was requested."""
    write_results(
        arguments.csv,
        csv_rows(values),
        title=f"Whole networks, {'one thread' if arguments.threads == 1 else 'several threads'}",
        kind="measured",
        machine=arguments.machine,
        conditions=f"f32, batch {arguments.batch}, threads: {arguments.threads}; huge pages; "
        "nothing tuned by measuring; medians over the rounds",
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
        "network",
        nargs="*",
        help=f"of the zoo, torchvision or timm, or `most`; {', '.join(NETWORKS)} unless given",
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--machine", default="host", help="ours is compiled for this one")
    parser.add_argument("--against", action="append", help="a rival; all that are installed")
    parser.add_argument("--together", type=int, default=1, help="networks and processes at once")
    parser.add_argument("--ready-within", type=float, metavar="SECONDS", help="of one such group")
    parser.add_argument("--rounds", type=int, help="more where others share the processor's cores")
    parser.add_argument("--quick", action="store_true", help="one network, few rounds")
    parser.add_argument("--check", action="store_true", help="compare with the interpreter instead")
    parser.add_argument("--json", action="store_true")
    add_csv_option(parser)
    arguments = parser.parse_args()
    names = arguments.network or (["resnet50"] if arguments.quick else list(NETWORKS))
    names = [one for name in names for one in (MOST if name == "most" else (name,))]
    if arguments.check:
        check(names, arguments)
        return
    values, every = [], {}
    if not arguments.json:
        print(f"{processor()}, {arguments.threads} threads, batch {arguments.batch}")
    for name, results in every_network(names, arguments):
        values.append(as_json(name, results))
        every[name] = results
        if results and not arguments.json:
            print(f"\n{name}\n{text_table(HEADERS, rows(results))}", flush=True)
    if not arguments.json:
        print(f"\n{summary(every)}", flush=True)
    keep(arguments, values)
    conditions = {"processor": processor(), "threads": arguments.threads, "batch": arguments.batch}
    if arguments.json:
        show({**conditions, "networks": values}, "", True)


if __name__ == "__main__":
    main()
