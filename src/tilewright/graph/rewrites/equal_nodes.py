"""Nodes that compute the same of the same: computed once (common subexpressions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.graph.graph import Network
from tilewright.graph.rewrites.renaming import reading_instead
from tilewright.ops import Op


@dataclass(frozen=True)
class EqualNodes:
    """Merges equal nodes into the first, except for outputs of the network."""

    name: ClassVar[str] = "equal_nodes"

    def apply(self, network: Network) -> Network:
        """The network in which no two nodes have equal operators and operands."""
        first: dict[tuple[Op, tuple[str, ...]], str] = {}
        instead: dict[str, str] = {}
        for node in network.nodes:
            operands = tuple(instead.get(name, name) for name in node.inputs)
            known = first.setdefault((node.op, operands), node.output)
            if known != node.output and node.output not in network.outputs:
                instead[node.output] = known
        return reading_instead(network, instead)


REWRITE = EqualNodes()
