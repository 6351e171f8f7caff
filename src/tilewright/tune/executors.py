"""Who does the work: this process, processes of this computer, or a cluster.

In: a word of the command line, and calls. Out: a `concurrent.futures.Executor`, or None for this
process, and the results of the calls as they are done. What is called is a module-level function
with plain values, program texts and machines, so that workers need nothing but tilewright.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, resource_tracker
from typing import ParamSpec, TypeVar

from tilewright.common.errors import ToolError
from tilewright.tune.cluster import cluster_executor

_LOCAL = re.compile(r"local(?::(?P<count>[1-9][0-9]{0,3}))?")
_CLUSTER = re.compile(r"dask://(?P<address>[A-Za-z0-9_.\-\[\]:]+:[0-9]{1,5})")

_IN_FLIGHT = 32
"""Calls handed to an executor at a time; more would only hold memory."""

Key = TypeVar("Key")
P = ParamSpec("P")
T = TypeVar("T")


class _Workers(ProcessPoolExecutor):
    """Processes that leave an interrupt to this one, from their first imports on: a terminal sends
    it to all of them.
    """

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit with interrupts blocked, so that the processes started here inherit the block."""
        resource_tracker.ensure_running()  # by itself it would let interrupts through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            return super().submit(call, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """Terminate the processes without waiting for their work."""
        for process in list(self._processes.values()):
            process.terminate()


@contextmanager
def open_executor(name: str) -> Iterator[Executor | None]:
    """`inline`, `local`, `local:N` or `dask://HOST:PORT`; raises ToolError for anything else."""
    if name == "inline":
        yield None
    elif local := _LOCAL.fullmatch(name):
        workers = int(local["count"] or os.cpu_count() or 1)
        with _Workers(workers, mp_context=get_context("spawn")) as executor:
            try:
                yield executor
            except KeyboardInterrupt:
                executor.end()
                raise
            except BaseException:
                executor.shutdown(cancel_futures=True)
                raise
    elif cluster := _CLUSTER.fullmatch(name):
        with cluster_executor(cluster["address"], _IN_FLIGHT) as executor:
            yield executor
    else:
        raise ToolError(
            f"unknown executor {name!r}", fix="use inline, local, local:N or dask://HOST:PORT"
        )


def as_done(
    executor: Executor | None, calls: Iterable[tuple[Key, Callable[[], T]]]
) -> Iterator[tuple[Key, Callable[[], T]]]:
    """Pairs of a call's key and a function that returns its result or raises its error.

    Without `executor` the calls are made in this process and in their order. With one they are
    taken from `calls` a window at a time and yielded as they are done. Raises ToolError where the
    workers end.
    """
    if executor is None:
        yield from calls
        return
    source = iter(calls)
    # Who opened the executor ends what is left of these: where the workers are ended, Python 3.11
    # fails on calls that are cancelled already.
    flying: dict[Future[T], Key] = {}
    try:
        while True:
            for key, call in islice(source, _IN_FLIGHT - len(flying)):
                flying[executor.submit(call)] = key
            if not flying:
                return
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                if isinstance(error := future.exception(), BrokenExecutor):
                    raise error
                yield flying.pop(future), future.result
    except BrokenExecutor as error:
        raise ToolError(
            f"the executor's workers ended: {error}",
            fix="leave the executor, or give it fewer workers; what was finished is recorded",
        ) from error
