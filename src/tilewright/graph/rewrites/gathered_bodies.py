"""Bodies of several operands are computed where they are gathered, for loops that read any number.

In: a network whose definitions are in normal form. Out: the same network in which a definition of
each element that one gathering alone reads is the body of that: distances need no tensor of all
differences.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ir.scalar import operations
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import definitions_in

_MOST_OPERATIONS = 8
"""Longer bodies are functions, which loops of their own compute by vectors."""


@dataclass(frozen=True)
class GatheredBodies:
    """Joins a definition of elements with the only one that gathers them."""

    name: ClassVar[str] = "gathered_bodies"

    def apply(self, network: Network) -> Network:
        """The network without tensors that are only gathered."""
        readers = Counter(name for node in network.nodes for name in node.inputs)
        readers.update(network.outputs)
        made = {node.output: node for node in network.nodes}
        gone, nodes = set[str](), list[Node]()
        for node in network.nodes:
            body = made.get(node.inputs[0]) if len(node.inputs) == 1 else None
            if body is not None and readers[body.output] == 1:
                joined = _joined(body, node)
                if joined is not None:
                    gone.add(body.name)
                    node = replace(node, op=joined, inputs=body.inputs)
            nodes.append(node)
        kept = tuple(node for node in nodes if node.name not in gone)
        return replace(network, nodes=kept) if gone else network


def _joined(body: Node, gathering: Node) -> Definition | None:
    """The gathering over the operands of its body, None where they are not just that, or where it
    is a sum of products, which has kernels.
    """
    inner, outer = _alone(body), _alone(gathering)
    if inner is None or outer is None or inner.gather is not None or outer.gather is None:
        return None
    axes = tuple(place[0][0] for place in outer.operands[0].terms if place)
    whole = (
        outer.operands[0] == straight(inner.out_shape, axes)
        and inner.result == straight(inner.extents)
        and (outer.body, inner.finish) == ("x0", "x0")
        and prod(outer.extents) == prod(inner.extents)  # each is computed once
        and operations(inner.scalar) <= _MOST_OPERATIONS
    )
    if not whole or inner.has_look_ups or inner.numerics.is_mixed or not inner.numerics.is_float:
        return None
    operands = tuple(_along(access, axes) for access in inner.operands)
    joined = replace(outer, operands=operands, body=inner.body, tensors=())
    return None if joined.kind == "contraction" else joined


def _alone(node: Node) -> Definition | None:
    """The only definition of a node that has no name."""
    every = [] if node.op.is_named else definitions_in(node.op)
    return every[0] if len(every) == 1 else None


def _along(access: Access, axes: tuple[int, ...]) -> Access:
    """The access by the numbers that its axes have in the gathering."""
    terms = tuple(tuple((axes[a], step) for a, step in place) for place in access.terms)
    return replace(access, terms=terms)
