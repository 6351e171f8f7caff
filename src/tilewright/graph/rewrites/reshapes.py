"""Joins a reshape of a reshape into one, from the first shape to the last."""

from __future__ import annotations

from dataclasses import replace

from tilewright.graph.graph import Network, Node
from tilewright.ops import Reshape


def joined_reshapes(network: Network) -> Network:
    """The network with reshapes reading past other reshapes; the latter may become dead."""
    made: dict[str, Node] = {}
    nodes = []
    for node in network.nodes:
        before = made.get(node.inputs[0]) if node.inputs else None
        kept = node
        if before is not None and node.op.reshapes and before.op.reshapes:
            both = Reshape(before.op.input_shapes[0], node.op.out_shape, node.op.dtype)
            kept = replace(node, op=both, inputs=before.inputs)
        made[kept.output] = kept
        nodes.append(kept)
    return replace(network, nodes=tuple(nodes))


REWRITE = joined_reshapes
