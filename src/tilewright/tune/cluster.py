"""Measuring on a Dask cluster, where its client is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from threading import Thread
from typing import Any, ParamSpec, TypeVar

from tilewright.common.errors import ToolError

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPT_SECONDS = 10
_CONNECT_SECONDS = 15


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
def cluster_executor(address: str, calls: int) -> Iterator[Executor]:
    """An executor on the scheduler at HOST:PORT, for `calls` calls at a time.

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
        with _Waiting(client, calls) as executor, client:  # closing the client ends every wait
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
