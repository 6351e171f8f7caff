"""Depthwise convolutions as sums of elements, for machines without a way of their own for these.

In: a network. Out: the same network in which a convolution of one channel a group is its definition
and no product of matrices, whose rows, columns and terms would have one element each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ops import Conv2d


@dataclass(frozen=True)
class ChannelSums:
    """Takes the name from convolutions of floats with one channel a group."""

    name: ClassVar[str] = "channel_sums"

    def apply(self, network: Network) -> Network:
        """The network without depthwise convolutions, the given one where it has none."""
        nodes = tuple(map(_unnamed, network.nodes))
        return network if nodes == network.nodes else replace(network, nodes=nodes)


def _unnamed(node: Node) -> Node:
    op = node.op
    if not isinstance(op, Conv2d) or not op.numerics.is_float:
        return node
    is_depthwise = op.groups == op.in_channels == op.out_channels > 1
    return replace(node, op=op.definition) if is_depthwise else node
