"""A reshape of a reshape: one, from the first shape to the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ops import Reshape


@dataclass(frozen=True)
class Reshapes:
    """Chains of reshapes read the first one's operand; unread ones are left to `dead_nodes`."""

    name: ClassVar[str] = "reshapes"

    def apply(self, network: Network) -> Network:
        """The network in which no reshape reads the result of another one."""
        made: dict[str, Node] = {}
        nodes = []
        for node in network.nodes:
            before = made.get(node.inputs[0]) if node.inputs else None
            match node.op, before:
                case Reshape() as last, Node(_, Reshape() as first, inputs):
                    kept = replace(node, op=replace(last, shape=first.shape), inputs=inputs)
                case _:
                    kept = node
            made[kept.output] = kept
            nodes.append(kept)
        return replace(network, nodes=tuple(nodes))


REWRITE = Reshapes()
