"""Who does the measuring: this process, processes of this computer, or a cluster.

In: a word of the command line. Out: a `concurrent.futures.Executor`, or None for this process.
Workers get program texts and machines, and need nothing but tilewright.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from tilewright.common.errors import ToolError
from tilewright.tune.cluster import cluster_executor

_LOCAL = re.compile(r"local(?::(?P<count>[1-9][0-9]{0,3}))?")
_CLUSTER = re.compile(r"dask://(?P<address>[A-Za-z0-9_.\-\[\]:]+:[0-9]{1,5})")


@contextmanager
def open_executor(name: str) -> Iterator[Executor | None]:
    """`inline`, `local`, `local:N` or `dask://HOST:PORT`; raises ToolError for anything else."""
    if name == "inline":
        yield None
    elif local := _LOCAL.fullmatch(name):
        workers = int(local["count"] or os.cpu_count() or 1)
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
            yield executor
    elif cluster := _CLUSTER.fullmatch(name):
        with cluster_executor(cluster["address"]) as executor:
            yield executor
    else:
        raise ToolError(
            f"unknown executor {name!r}", fix="use inline, local, local:N or dask://HOST:PORT"
        )
