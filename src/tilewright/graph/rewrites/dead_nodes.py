"""Nodes whose results no output needs: gone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.graph.graph import Network, Node


@dataclass(frozen=True)
class DeadNodes:
    """Drops nodes that no output needs; inputs and weights stay."""

    name: ClassVar[str] = "dead_nodes"

    def apply(self, network: Network) -> Network:
        """The network without nodes that no output needs."""
        needed, kept = set(network.outputs), list[Node]()
        for node in reversed(network.nodes):
            if node.output in needed:
                needed.update(node.inputs)
                kept.append(node)
        return replace(network, nodes=tuple(reversed(kept)))


REWRITE = DeadNodes()
