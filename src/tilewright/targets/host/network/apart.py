"""Generate the code of a network in a process of its own, whose memory is freed when it ends.

In: what `generate` takes. Out: the same code, the same progress and the same errors. The values of
weights do not affect the code and are not sent. `worker` is the other process: a request goes to
its standard input, which stays open for as long as the answer is wanted.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import IO

from tilewright.common.errors import ToolError
from tilewright.common.progress import Progress
from tilewright.graph.graph import Network
from tilewright.machine import Machine
from tilewright.network.search import Search
from tilewright.targets.host.network.run import NetworkCode

_WORKER = "tilewright.targets.host.network.worker"
_PATIENCE_SECONDS = 5.0
"""Time that a process no longer wanted gets to tidy up."""


def generated_apart(
    network: Network, machine: Machine, search: Search, progress: Progress
) -> NetworkCode:
    """Run `generate.generated` in another process, and return or raise what it does. Raises
    ToolError if that process ends without an answer.
    """
    request = pickle.dumps((replace(network, values={}), machine, search))
    with _worker() as (process, requests, answers):
        with suppress(BrokenPipeError):
            requests.write(request)
            requests.flush()
        with suppress(EOFError, pickle.UnpicklingError):
            return _answer(answers, progress)
        status = process.wait()
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    raise ToolError(
        f"the process that generates the code of {network.name!r} ended with {how}",
        fix="see whether the computer has run out of memory",
    )


def _answer(answers: IO[bytes], progress: Progress) -> NetworkCode:
    while True:
        match pickle.load(answers):
            case NetworkCode() as code:
                return code
            case Exception() as error:
                raise error
            case (stage, done, total):
                progress(stage, done, total)


@contextmanager
def _worker() -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """A worker process with its two pipes; it is ended on the way out, whatever happens."""
    # A subprocess and no fork: threads may run here, those of a network among them. It finds
    # modules where this one does, and does not run the user's script as multiprocessing's would.
    command = [sys.executable, "-P", "-m", _WORKER]
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    with _interrupts_blocked():
        process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, process.stdin, process.stdout
    finally:
        _end(process, process.stdin, process.stdout)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT meanwhile. A process started inside is interrupted once it unblocks the signal,
    not while it starts.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: subprocess.Popen[bytes], *pipes: IO[bytes]) -> None:
    """Close the process's input, which tells it to stop; kill it if it does not."""
    try:
        for pipe in pipes:
            with suppress(OSError):
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
