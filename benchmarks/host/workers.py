"""Contenders on several threads: a process for each, driven in turn over pipes.

Libraries that share a process fight over its threads: their idle workers go on spinning. So each
contender prepares, computes and takes its own time in a process of its own, where it is alone, and
waits for its turn in a read.

    parent -> worker   {"prepare": NUMBER} | {"run": CALLS, "way": NUMBER}
    worker -> parent   {"ways": [[ALGORITHM, ERROR], ...]} | [WALL, CPU]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host.contest import Contestant, Missing, Workload, layers, products
from host.timing import (
    TOGETHER,
    Entry,
    Standing,
    checked,
    find_contestants,
    standings,
)
from tilewright.targets.host.sampling import Contender, Protocol, Sample, interleaved

FOLDER = Path(__file__).parents[1]


@dataclass
class Worker:
    """One process with one contender."""

    name: str
    process: subprocess.Popen[str]

    def ask(self, question: dict[str, Any]) -> Any:
        """The worker's answer."""
        if self.process.stdin is None or self.process.stdout is None:
            raise SystemExit(f"the process of {self.name} has no pipes")
        print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of {self.name} ended")
        return json.loads(answer)


@dataclass(frozen=True)
class RemoteContender(Contender):
    """A contender whose samples another process takes."""

    worker: Worker | None = field(default=None, repr=False)
    way: int = 0

    def sample(self, calls: int) -> Sample:
        """Let the worker run, and take its times."""
        if self.worker is None:
            raise SystemExit(f"{self.name} has no process")
        wall, cpu = self.worker.ask({"run": calls, "way": self.way})
        return Sample(wall, cpu, calls)


@contextmanager
def workers(names: Sequence[str], threads: int, source: Sequence[str]) -> Iterator[list[Worker]]:
    """A process for each contender, which ends with the block; `source` says which workloads."""
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(2**40),
        "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path]),
    }
    with ExitStack() as stack:
        found = []
        for name in names:
            command = [sys.executable, "-m", "host.workers", name, str(threads), *source]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
            stack.enter_context(process)
            stack.callback(process.terminate)
            found.append(Worker(name, process))
        yield found


def time_remotely(
    workload: Workload,
    number: int,
    workers: Sequence[Worker],
    threads: int,
    protocol: Protocol = TOGETHER,
) -> list[Standing]:
    """The standings on workload `number` of the workers' list."""
    entries = []
    for worker in workers:
        for way, (algorithm, error) in enumerate(worker.ask({"prepare": number})["ways"]):
            name = f"{worker.name} {way}"
            contender = RemoteContender(name, print, threads, worker, way)
            entries.append(Entry(worker.name, algorithm, error, contender))
    if not entries:
        return []
    timings = interleaved([e.contender for e in entries], protocol)
    return standings(workload, entries, timings)


def workloads_of(kind: str, batch: int, *, quick: bool) -> list[Workload]:
    """The list that parent and workers agree on: `products`, or a network's layers."""
    return products(quick=quick) if kind == "products" else layers(kind, batch, quick=quick)


def main() -> None:
    """Serve one contender: NAME THREADS MACHINE KIND BATCH QUICK, questions on standard input."""
    name, threads, machine, kind, batch, quick = sys.argv[1:]
    found = [c for c in find_contestants(int(threads), machine) if c.name == name]
    workloads = workloads_of(kind, int(batch), quick=quick == "quick")
    contenders: list[Contender] = []
    for line in sys.stdin:
        question = json.loads(line)
        if "prepare" in question:
            workload = workloads[question["prepare"]]
            ways = _prepare(found[0], workload)
            contenders = [Contender(name, way, int(threads)) for way, _ in ways]
            answer: Any = {"ways": [[way.algorithm, error] for way, error in ways]}
        else:
            taken = contenders[question["way"]].sample(question["run"])
            answer = [taken.wall_seconds, taken.cpu_seconds]
        print(json.dumps(answer), flush=True)


def _prepare(contestant: Contestant | Missing, workload: Workload) -> list[Any]:
    if isinstance(contestant, Missing):
        return []
    ways = contestant.prepare(workload)
    return [(way, checked(contestant.name, way, workload)) for way in ways]


if __name__ == "__main__":
    main()
