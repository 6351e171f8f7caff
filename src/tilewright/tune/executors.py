"""Who does the work: this process, processes of this computer, or a cluster.

In: a word of the command line, and calls. Out: a `concurrent.futures.Executor`, or None for this
process, and the results of the calls as they are done. What is called is a module-level function
with plain values, program texts and machines, so that workers need nothing but tilewright.
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
"""The number of a call."""
_IN_FLIGHT = 32
"""Calls handed to an executor at a time; more would only hold memory."""


class _Workers(ProcessPoolExecutor):
    """Processes that leave interrupts to this one from their first imports on."""

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
        with _cluster_executor(cluster["address"]) as executor:
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


class _Waiting(ThreadPoolExecutor):
    """Calls made by the workers of a Dask client; a thread of this process waits for each.

    The client's own executor asks for a call's state after it has fetched the result, and fails
    where the worker that computed it is lost in between.
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
    """An executor on the scheduler at HOST:PORT, for so many calls at a time.

    What a lost worker computed is computed by another. Raises ToolError where the scheduler cannot
    be reached or is lost, and where one call ends several workers.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise ToolError(
            "the Dask client is not installed", fix="pip install tilewright[cluster]"
        ) from None
    client = _connected(distributed, address)
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # told by the error alone
    try:
        with _Waiting(client, _IN_FLIGHT) as executor, client:  # closing the client ends every wait
            yield executor
    except distributed.KilledWorker as error:
        raise _lost("workers end") from error
    except (CancelledError, distributed.comm.CommClosedError) as error:
        raise _lost("scheduler is lost") from error


def _connected(distributed: Any, address: str) -> Any:
    """The client of a scheduler; raises ToolError where none answers in time.

    The client's own limit is one of each attempt: what takes connections and says nothing would be
    tried for minutes. It is left in its thread, which ends with this process.
    """
    found: Future[Any] = Future()

    def connect() -> None:
        try:
            client = distributed.Client(f"tcp://{address}", timeout=_ATTEMPT_SECONDS)
        except BaseException as error:  # whatever it is, who waits is told
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
    """How many processes this one may keep busy."""
    return len(os.sched_getaffinity(0))


def call_beside(calls: Sequence[Call], steps: Steps = uncounted) -> None:
    """Make all calls, each in one of as many processes as there are cores, this one among them.
    What a call makes is left in the cache, what it raises to whoever makes it again; nothing is
    done on one core. `steps` counts the calls begun.

    The others are forked copies of this process, which start with all that is loaded and planned so
    far. Only for a process whose other threads hold no locks.
    """
    processes = min(process_count(), len(calls))
    if processes < 2:
        return
    numbers, given = os.pipe()  # whoever is free reads the next one
    os.write(given, b"".join(map(_CALL.pack, range(len(calls)))))
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
    """The numbers of the calls that this process gets, each before it is made."""
    while found := os.read(numbers, _CALL.size):
        (number,) = _CALL.unpack(found)
        yield number
        with suppress(Exception):
            calls[number]()


def _end_after(calls: Sequence[Call], numbers: int) -> None:
    """Make calls and end, with nothing torn down that belongs to the process copied."""
    with suppress(BaseException):
        list(_claimed_calls(calls, numbers))
    os._exit(0)
