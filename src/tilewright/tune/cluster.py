"""Measuring on a Dask cluster, where its client is installed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager
from importlib import import_module

from tilewright.common.errors import ToolError


@contextmanager
def cluster_executor(address: str) -> Iterator[Executor]:
    """An executor on the scheduler at HOST:PORT.

    What a lost worker computed is computed by another. Raises ToolError where the scheduler cannot
    be reached or is lost, and where one call ends several workers.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise ToolError(
            "the Dask client is not installed", fix="pip install tilewright[cluster]"
        ) from None
    try:
        client = distributed.Client(f"tcp://{address}", timeout=10)
    except OSError as error:
        raise ToolError(f"no Dask scheduler answers at {address}: {error}") from error
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # told by the error alone
    try:
        with client, client.get_executor() as executor:
            yield executor
    except (CancelledError, distributed.KilledWorker) as error:
        lost = "workers end" if isinstance(error, distributed.KilledWorker) else "scheduler is lost"
        raise ToolError(
            f"the cluster's {lost} before all is done",
            fix="look at the scheduler's messages; what was finished is recorded",
        ) from error
