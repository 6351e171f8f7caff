"""Executors of calls: this process, processes of this computer, or a cluster.

In: a word of the command line, and calls. Out: a `concurrent.futures.Executor`, or None for this
process, and results in the order of completion. Calls are module-level functions on plain values,
program texts and machines, so workers need nothing but tilewright.
"""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from multiprocessing import get_context, resource_tracker
from struct import Struct
from threading import Thread
from typing import Any, ParamSpec, TypeVar

from tilewright.common.errors import ToolError
from tilewright.common.progress import Steps, uncounted

Key = TypeVar("Key")
P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPT_SECONDS = 10
_CONNECT_SECONDS = 15


_LOCAL = re.compile(r"local(?::(?P<count>[1-9][0-9]{0,3}))?")
_CLUSTER = re.compile(r"dask://(?P<address>[A-Za-z0-9_.\-\[\]:]+:[0-9]{1,5})")

_CALL = Struct("i")
"""Number of a call, as written to the pipe."""
_CLAIMS = 4096
"""Most numbers in the pipe, which has room for them all: claim n is the calls n, n + 4096, ..."""
_IN_FLIGHT = 32
"""Most calls submitted to an executor at a time; more would only hold memory."""


class _Workers(ProcessPoolExecutor):
    """Worker processes that block interrupts from start-up on; only this process handles them."""

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit with interrupts blocked, so that processes started here inherit the block."""
        resource_tracker.ensure_running()  # started later, it would unblock interrupts here
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
        with _cluster_executor(cluster["address"]) as executor:
            yield executor
    else:
        raise ToolError(
            f"unknown executor {name!r}", fix="use inline, local, local:N or dask://HOST:PORT"
        )


def as_done(
    executor: Executor | None, calls: Iterable[tuple[Key, Callable[[], T]]]
) -> Iterator[tuple[Key, Callable[[], T]]]:
    """Yield each call's key with a function that returns its result or raises its error.

    Without `executor`, that function makes the call in this process. With one, at most `_IN_FLIGHT`
    calls are submitted at a time and yielded as they complete. Raises ToolError if workers end.
    """
    if executor is None:
        yield from calls
        return
    source = iter(calls)
    # Calls left over here are cancelled by whoever opened the executor: Python 3.11 fails on calls
    # that are already cancelled when the workers end.
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


class _Waiting(ThreadPoolExecutor):
    """Runs calls on the workers of a Dask client; a thread of this process waits for each.

    The client's own executor queries a call's state after fetching its result, and fails if the
    worker that computed it is lost in between.
    """

    def __init__(self, client: Any, calls: int) -> None:
        super().__init__(calls)
        self._client = client

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        def wait() -> T:
            result: T = self._client.submit(call, *args, pure=False, **kwargs).result()
            return result

        return super().submit(wait)


@contextmanager
def _cluster_executor(address: str) -> Iterator[Executor]:
    """An executor on the Dask scheduler at `address`, HOST:PORT.

    Another worker repeats the calls of a lost one. Raises ToolError if the scheduler cannot be
    reached or is lost, or if one call ends several workers.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise ToolError(
            "the Dask client is not installed", fix="pip install tilewright[cluster]"
        ) from None
    client = _connected(distributed, address)
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # the error says it all
    try:
        with _Waiting(client, _IN_FLIGHT) as executor, client:  # closing the client ends every wait
            yield executor
    except distributed.KilledWorker as error:
        raise _lost("workers end") from error
    except (CancelledError, distributed.comm.CommClosedError) as error:
        raise _lost("scheduler is lost") from error


def _connected(distributed: Any, address: str) -> Any:
    """A client of the scheduler at `address`; raises ToolError if none answers in time.

    The client's own timeout is per attempt: it would retry a silent listener for minutes. So a
    daemon thread connects, and is abandoned after `_CONNECT_SECONDS`.
    """
    found: Future[Any] = Future()

    def connect() -> None:
        try:
            client = distributed.Client(f"tcp://{address}", timeout=_ATTEMPT_SECONDS)
        except BaseException as error:  # the waiting thread raises it
            found.set_exception(error)
        else:
            found.set_result(client)

    Thread(target=connect, daemon=True).start()
    try:
        return found.result(timeout=_CONNECT_SECONDS)
    except TimeoutError as error:
        if found.done():
            raise ToolError(f"no Dask scheduler answers at {address}: {error}") from error
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        raise ToolError(
            f"no Dask scheduler answers at {address} within {_CONNECT_SECONDS} s",
            fix="see whether one runs there and what listens at this port",
        ) from error
    except OSError as error:
        raise ToolError(f"no Dask scheduler answers at {address}: {error}") from error


def _lost(what: str) -> ToolError:
    return ToolError(
        f"the cluster's {what} before all is done",
        fix="look at the scheduler's messages; what was finished is recorded",
    )


Call = Callable[[], object]


def process_count() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def call_beside(calls: Sequence[Call], steps: Steps = uncounted) -> None:
    """Warm the cache: make all calls in parallel, in this process and forked copies of it, one per
    processor. Results survive in the cache alone, and errors recur when a call is repeated; with
    one processor or call, nothing is done. `steps` counts the calls begun.

    Copies start with everything loaded and planned so far. No other thread of this process may hold
    a lock.
    """
    processes = min(process_count(), len(calls))
    if processes < 2:
        return
    numbers, given = os.pipe()  # an idle process reads the number of its next call
    os.write(given, b"".join(map(_CALL.pack, range(min(len(calls), _CLAIMS)))))
    os.close(given)
    copies: list[int] = []
    try:
        while len(copies) < processes - 1:
            if copy := os.fork():
                copies.append(copy)
            else:
                _end_after(calls, numbers)
        for number in _claimed_calls(calls, numbers):
            steps(number, len(calls))
    except BaseException:
        for copy in copies:
            os.kill(copy, signal.SIGKILL)
        raise
    finally:
        os.close(numbers)
        for copy in copies:
            os.waitpid(copy, 0)


def _claimed_calls(calls: Sequence[Call], numbers: int) -> Iterator[int]:
    """Claim and make calls until none is left; yields each number before making its call."""
    while found := os.read(numbers, _CALL.size):
        (first,) = _CALL.unpack(found)
        for number in range(first, len(calls), _CLAIMS):
            yield number
            with suppress(Exception):
                calls[number]()


def _end_after(calls: Sequence[Call], numbers: int) -> None:
    """Make calls, then exit this copy without tearing down anything of the original process."""
    with suppress(BaseException):
        list(_claimed_calls(calls, numbers))
    os._exit(0)
