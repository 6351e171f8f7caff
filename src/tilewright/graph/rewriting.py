"""Graph rewrites: frozen values that turn a network into another with the same outputs.

A module of `graph/rewrites/` with an object `REWRITE` is a simplification: `simplified` applies all
of them until none changes anything, so that their order means nothing. Other rewrites have fields
and are applied by who knows these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import ClassVar, Protocol

from tilewright.graph.graph import Network

_FOLDER = Path(__file__).parent / "rewrites"

Observer = Callable[[str, Network, Network], None]
"""Sees the name of a rewrite, the network before it and the one after it where they differ."""


class Rewrite(Protocol):
    """A step from network to network; observers get its `name`."""

    name: ClassVar[str]

    def apply(self, network: Network) -> Network:
        """A network with the same inputs and outputs, the given one where nothing is to do."""


def _nothing(_: str, __: Network, ___: Network) -> None:
    """An observer that looks away."""


@cache
def simplifications() -> tuple[Rewrite, ...]:
    """The objects `REWRITE` of all modules, by the names of these."""
    names = sorted(module.name for module in iter_modules([str(_FOLDER)]))
    modules = [import_module(f"tilewright.graph.rewrites.{name}") for name in names]
    return tuple(module.REWRITE for module in modules if hasattr(module, "REWRITE"))


def simplified(network: Network, observer: Observer = _nothing) -> Network:
    """The network that no simplification changes any more."""
    before = None
    while before is not network:
        before = network
        for rewrite in simplifications():
            after = rewrite.apply(network)
            if after.nodes != network.nodes:
                observer(rewrite.name, network, after)
                network = after
    return network
