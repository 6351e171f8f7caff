"""Fusion: a node and the elementwise nodes that alone use its result become one node.

Convolution, normalisation, activation become one `Fused` node. What a node reads beside has to be
there before the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.graph.fused import Fused
from tilewright.graph.graph import Network, Node
from tilewright.ops import BatchNorm, Bias, Binary, Unary

ELEMENTWISE = (BatchNorm, Bias, Binary, Unary)


@dataclass(frozen=True)
class Fusion:
    """Fuses any node with the elementwise ones behind it."""

    name: ClassVar[str] = "fusion"

    def apply(self, network: Network) -> Network:
        """The network with `Fused` nodes, which have the name of their first one."""
        consumers: dict[str, list[Node]] = {}
        for node in network.nodes:
            for name in dict.fromkeys(node.inputs):
                consumers.setdefault(name, []).append(node)
        known = {t.name for t in (*network.inputs, *network.weights)}
        taken: set[str] = set()
        nodes = []
        for node in network.nodes:
            if node.name in taken:
                continue
            fused = Fused(_followed(node, consumers, set(network.outputs), known))
            taken.update(member.name for member in fused.nodes)
            if len(fused.nodes) > 1:
                last = fused.nodes[-1]
                nodes.append(Node(node.name, fused, fused.reads, last.output))
            else:
                nodes.append(node)
            known.add(nodes[-1].output)
        return replace(network, nodes=tuple(nodes))


def _followed(
    first: Node, consumers: Mapping[str, Sequence[Node]], outputs: set[str], known: set[str]
) -> tuple[Node, ...]:
    """The node, and the elementwise ones that alone use the result of the one before."""
    found = [first]
    while (made := found[-1].output) not in outputs and len(consumers.get(made, ())) == 1:
        (node,) = consumers[made]
        if not isinstance(node.op, ELEMENTWISE) or node.inputs.count(made) != 1:
            break
        whole = node.op.input_shapes[node.inputs.index(made)] == node.op.out_shape
        beside = [name for name in node.inputs if name != made]
        if not whole or any(name not in known for name in beside):
            break
        found.append(node)
    return tuple(found)
