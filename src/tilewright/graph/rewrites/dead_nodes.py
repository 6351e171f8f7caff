"""Removes nodes whose results no output needs."""

from __future__ import annotations

from dataclasses import replace

from tilewright.graph.graph import Network, Node


def without_dead_nodes(network: Network) -> Network:
    """The network without nodes that no output needs; inputs and weights stay."""
    needed, kept = set(network.outputs), list[Node]()
    for node in reversed(network.nodes):
        if node.output in needed:
            needed.update(node.inputs)
            kept.append(node)
    return replace(network, nodes=tuple(reversed(kept)))


REWRITE = without_dead_nodes
