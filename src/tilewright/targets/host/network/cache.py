"""The code of networks in the user's cache folder, under a digest of everything that decides it.

In: a network, a machine, and how to generate the code. Out: the code, as it was generated once.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

import tilewright.common
from tilewright.codegen.c.compiler import cache_folder
from tilewright.graph.graph import Network
from tilewright.machine import Machine
from tilewright.targets.host.network.run import NetworkCode


def cached_code(
    network: Network, machine: Machine, search: str, generate: Callable[[], NetworkCode]
) -> NetworkCode:
    """The code of the network, from the cache or anew; a damaged entry is replaced.

    `search` says how kernels are chosen.
    """
    path = cache_folder() / f"network-{_digest(network, machine, search)}.json"
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=NetworkCode)
    code = generate()
    with suppress(OSError):
        _write(path, msgspec.json.encode(code))
    return code


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(temporary).replace(path)


def _digest(network: Network, machine: Machine, search: str) -> str:
    """The structure of the network, without the numbers of its weights, the machine, the sources of
    tilewright itself.
    """
    parts = [
        repr((network.name, network.inputs, network.weights, network.nodes, network.outputs)),
        msgspec.json.encode(machine).decode(),
        search,
        _own_sources(),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


@cache
def _own_sources() -> str:
    """A digest of the package: what a new version generates is not what an old one did."""
    found = hashlib.sha256()
    for path in sorted(Path(tilewright.common.__file__).parents[1].rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()
