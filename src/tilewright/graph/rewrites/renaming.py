"""Readers of one tensor made readers of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.graph.graph import Network


def reading_instead(network: Network, instead: Mapping[str, str]) -> Network:
    """The network without the nodes that give the tensors named in `instead`; each reader of one
    reads the tensor that stands for it, which itself may have one that stands for it.
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
