"""Measuring on a Dask cluster, where its client is installed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module

from tilewright.common.errors import ToolError


@contextmanager
def cluster_executor(address: str) -> Iterator[Executor]:
    """An executor on the scheduler at HOST:PORT; raises ToolError where it cannot be reached."""
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise ToolError("the Dask client is not installed", fix="pip install distributed") from None
    try:
        client = distributed.Client(f"tcp://{address}", timeout=10)
    except OSError as error:
        raise ToolError(f"no Dask scheduler answers at {address}: {error}") from error
    with client, client.get_executor() as executor:
        yield executor
