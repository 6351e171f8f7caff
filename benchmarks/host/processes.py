"""A process for each contender, driven in turn over pipes.

Libraries in one process compete for its processors, as their idle worker threads keep spinning. So
each contender prepares, computes and measures its time in a process of its own, and blocks in a
read between its turns. On one thread all take their turns on one processor: if other virtual
machines share the cores, two processors differ in speed for longer than a run takes.

    parent -> worker   {"prepare": WHAT} | {"run": CALLS, "way": NUMBER}
    worker -> parent   what was prepared  | [WALL, CPU]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.tune.sampling import Contender, Sample

FOLDER = Path(__file__).parents[1]


@dataclass
class Worker:
    """The process of one contender."""

    name: str
    process: subprocess.Popen[str]

    def ask(self, question: dict[str, Any]) -> Any:
        """Send a question to the worker; returns its answer."""
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
        """The times of `calls` runs in the worker."""
        if self.worker is None:
            raise SystemExit(f"{self.name} has no process")
        wall, cpu = self.worker.ask({"run": calls, "way": self.way})
        return Sample(wall, cpu, calls)


@contextmanager
def workers(
    module: str, names: Sequence[str], threads: int, source: Sequence[str]
) -> Iterator[list[Worker]]:
    """A process of `module` for each contender, which ends with the context; the arguments `source`
    select the workloads.
    """
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(2**40),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # huge pages for all, as tilewright asks for
        "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path]),
    }
    with ExitStack() as stack:
        found = []
        for name in names:
            command = [sys.executable, "-m", module, name, str(threads), *source]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
            stack.enter_context(process)
            stack.callback(process.terminate)
            found.append(Worker(name, process))
        yield found


def serve(threads: int, prepare: Callable[[Any], tuple[list[Any], Any]]) -> None:
    """Answer questions on standard input until it ends.

    `prepare` returns the functions that run a workload in each way, and the answer to send.
    """
    contenders: list[Contender] = []
    usable = os.sched_getaffinity(0)
    for line in sys.stdin:
        question = json.loads(line)
        preparing = "prepare" in question
        os.sched_setaffinity(0, usable if preparing or threads > 1 else {max(usable)})
        if preparing:
            ways, answer = prepare(question["prepare"])
            contenders = [Contender(str(i), way, threads) for i, way in enumerate(ways)]
        else:
            taken = contenders[question["way"]].sample(question["run"])
            answer = [taken.wall_seconds, taken.cpu_seconds]
        print(json.dumps(answer), flush=True)
