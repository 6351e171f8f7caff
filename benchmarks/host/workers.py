"""Contenders on several threads: each prepares and times workloads in a process of its own.

    python -m host.workers NAME THREADS MACHINE KIND BATCH QUICK

The answer to a preparation is {"ways": [[ALGORITHM, ERROR], ...]} (`host.processes`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from host.contest import Missing, Workload, layers, products
from host.processes import RemoteContender, Worker, serve
from host.timing import (
    Entry,
    Standing,
    checked,
    find_contestants,
    standings,
)
from tilewright.tune.sampling import Protocol, interleaved


def time_remotely(
    workload: Workload,
    number: int,
    workers: Sequence[Worker],
    threads: int,
    protocol: Protocol,
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
    """The workloads, in an order that parent and workers share: products, or a network's layers."""
    return products(quick=quick) if kind == "products" else layers(kind, batch, quick=quick)


def main() -> None:
    """Serve one contender."""
    name, threads, machine, kind, batch, quick = sys.argv[1:]
    found = [c for c in find_contestants(int(threads), machine) if c.name == name]
    workloads = workloads_of(kind, int(batch), quick=quick == "quick")

    def prepare(number: int) -> tuple[list[Any], Any]:
        contestant, workload = found[0], workloads[number]
        ways = [] if isinstance(contestant, Missing) else contestant.prepare(workload)
        return ways, {"ways": [[w.algorithm, checked(name, w, workload)] for w in ways]}

    serve(int(threads), prepare)


if __name__ == "__main__":
    main()
