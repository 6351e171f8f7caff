"""Fuses an addition of maps into one map, so that operands are read once and no addend is stored.

Such sums arise in gradients: a tensor with several readers receives an addend from each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.graph.graph import Network, Node
from tilewright.ir.scalar import Apply, Element, Scalar, renumbered
from tilewright.ops.access import Access
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import pointwise

_MOST_OPERANDS = 8
"""Most tensors that a map reads, since their tiles share one memory."""
_ADDITION = Apply("+", (Element(0), Element(1)))


def added_maps(network: Network) -> Network:
    """The network with sums of float maps fused, where the addition is their only reader."""
    maps: dict[str, tuple[Node, Definition]] = {}
    gone, nodes = set[str](), list[Node]()
    for node in network.nodes:
        parts = [maps[x] for x in node.inputs if x in maps and network.uses[x] == 1]
        own = pointwise(node.op)
        adds = own is not None and node.op.is_named and own.scalar == _ADDITION
        if adds and len(parts) == 2:
            joined = _sum_of_maps(node, parts)
            if joined is not None:
                gone |= {part.name for part, _ in parts}
                node, own = joined, pointwise(joined.op)
        if own is not None and own == node.op:
            maps[node.output] = node, own
        nodes.append(node)
    kept = tuple(node for node in nodes if node.name not in gone)
    return replace(network, nodes=kept) if gone else network


def _sum_of_maps(node: Node, parts: Sequence[tuple[Node, Definition]]) -> Node | None:
    """The sum of maps of one shape as a single map; None if it would read too many tensors."""
    read: dict[tuple[str, Access], int] = {}
    bodies: list[Scalar] = []
    for part, op in parts:
        if op.out_shape != node.op.out_shape:
            return None
        pairs = zip(part.inputs, op.operands, strict=True)
        numbers = [Element(read.setdefault(pair, len(read))) for pair in pairs]
        bodies.append(renumbered(op.scalar, numbers))
    if len(read) > _MOST_OPERANDS:
        return None
    body = str(Apply("+", (bodies[0], bodies[1])))
    operands = tuple(access for _, access in read)
    op = replace(parts[0][1], operands=operands, body=body, axes=(), tensors=())
    return replace(node, op=op, inputs=tuple(name for name, _ in read))
