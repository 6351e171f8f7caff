"""Graph rewrites: functions from a network to one with the same outputs, or to the given one if
there is nothing to change.

The `REWRITE` of a module of `graph/rewrites/` is a simplification: `simplified` applies all of them
until none changes anything, so their order does not matter. Callers apply other rewrites where
these pay off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from tilewright.graph.graph import Network

_FOLDER = Path(__file__).parent / "rewrites"

Observer = Callable[[str, Network, Network], None]
"""Called with a rewrite's name and the networks before and after it, if they differ."""


def _nothing(_: str, __: Network, ___: Network) -> None:
    """An observer that does nothing."""


@cache
def simplifications() -> dict[str, Callable[[Network], Network]]:
    """The `REWRITE` of each module that has one, by module name, sorted."""
    names = sorted(module.name for module in iter_modules([str(_FOLDER)]))
    modules = {name: import_module(f"tilewright.graph.rewrites.{name}") for name in names}
    return {name: own.REWRITE for name, own in modules.items() if hasattr(own, "REWRITE")}


def simplified(network: Network, observer: Observer = _nothing) -> Network:
    """The network after all simplifications, applied until none changes it any more."""
    before = None
    while before is not network:
        before = network
        for name, rewrite in simplifications().items():
            after = rewrite(network)
            if after.nodes != network.nodes:
                observer(name, network, after)
                network = after
    return network


def reading_instead(network: Network, instead: Mapping[str, str]) -> Network:
    """The network without the nodes that compute the tensors in `instead`; readers of such a tensor
    read its substitute, which may itself have a substitute.
    """

    def meant(name: str) -> str:
        while name in instead:
            name = instead[name]
        return name

    nodes = tuple(
        replace(node, inputs=tuple(map(meant, node.inputs)))
        for node in network.nodes
        if node.output not in instead
    )
    return replace(network, nodes=nodes) if instead else network
