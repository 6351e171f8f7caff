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
from tilewright.ops import Op
from tilewright.ops.definitions import pointwise


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
            fused = Fused(_followed(node, consumers, network, known))
            taken.update(member.name for member in fused.nodes)
            if len(fused.nodes) > 1:
                last = fused.nodes[-1]
                nodes.append(Node(node.name, fused, fused.reads, last.output))
            else:
                nodes.append(node)
            known.add(nodes[-1].output)
        return replace(network, nodes=tuple(nodes))


def _followed(
    first: Node, consumers: Mapping[str, Sequence[Node]], network: Network, known: set[str]
) -> tuple[Node, ...]:
    """The node, and the elementwise ones that alone use the result of the one before; none follow
    what another core group has, which is read where it lies. A state's next value is written in the
    state's place by elementwise nodes alone.
    """
    found, outputs = [first], set(network.outputs)
    held = {s.next for s in network.states} if not is_elementwise(first.op) else set()
    if first.op.of_group is not None:
        return (first,)
    while (made := found[-1].output) not in outputs and len(consumers.get(made, ())) == 1:
        (node,) = consumers[made]
        if not is_elementwise(node.op) or node.inputs.count(made) != 1:
            break
        whole = node.op.input_shapes[node.inputs.index(made)] == node.op.out_shape
        beside = [name for name in node.inputs if name != made]
        if not whole or any(name not in known for name in beside) or node.output in held:
            break
        found.append(node)
    return tuple(found)


def is_elementwise(op: Op) -> bool:
    """True if each element of the result is computed from those of the operands beside it."""
    return op.normalisation is not None or pointwise(op) is not None
