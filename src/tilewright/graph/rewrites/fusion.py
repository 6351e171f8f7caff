"""Fusion: a node and the elementwise nodes that alone use its result become one node.

Convolution, normalisation and activation become one `Fused` node, whose reference applies them in
sequence. Several members may read the same result, as in x * sigmoid(x). All other operands must
exist before the first member.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.graph.graph import Network, Node
from tilewright.ops.definitions import pointwise
from tilewright.ops.op import Array, Op, Shape


@dataclass(frozen=True)
class Fused(Op):
    """An operator of a first node and the elementwise nodes that follow it."""

    kind: ClassVar[str] = "fused"
    nodes: tuple[Node, ...]

    @property
    def first(self) -> Node:
        """The node that the others follow."""
        return self.nodes[0]

    @property
    def dtype(self) -> str:
        return self.first.op.dtype

    @property
    def operand_dtypes(self) -> tuple[str, ...]:
        return tuple(kind for _, _, kind in self._operands())

    @property
    def out_dtype(self) -> str:
        return self.nodes[-1].op.out_dtype

    @property
    def reads(self) -> tuple[str, ...]:
        """The tensors that are read from outside, in order, each once."""
        return tuple(name for name, _, _ in self._operands())

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Shapes of the tensors that are read from outside."""
        return tuple(shape for _, shape, _ in self._operands())

    @property
    def out_shape(self) -> Shape:
        """Shape of the last node's result."""
        return self.nodes[-1].op.out_shape

    @property
    def flops(self) -> int:
        return sum(node.op.flops for node in self.nodes)

    def describe(self) -> str:
        return " ".join([self.first.op.describe(), *(node.op.kind for node in self.nodes[1:])])

    def reference(self, *operands: Array) -> Array:
        held = dict(zip(self.reads, operands, strict=True))
        for node in self.nodes:
            result = node.op.reference(*(held[name] for name in node.inputs))
            held[node.output] = result
        return result

    def _operands(self) -> list[tuple[str, Shape, str]]:
        inside = {node.output for node in self.nodes}
        found: dict[str, tuple[str, Shape, str]] = {}
        for node in self.nodes:
            triples = zip(node.inputs, node.op.input_shapes, node.op.operand_dtypes, strict=True)
            for name, shape, kind in triples:
                if name not in inside:
                    found.setdefault(name, (name, shape, kind))
        return list(found.values())


def members(node: Node) -> tuple[Node, ...]:
    """The nodes of a fused node, or the node itself."""
    return node.op.nodes if isinstance(node.op, Fused) else (node,)


def fused_nodes(network: Network) -> Network:
    """The network with each node and the elementwise nodes that follow it as one `Fused` node,
    which has the first one's name.
    """
    known = {t.name for t in (*network.inputs, *network.weights)}
    held = {state.next for state in network.states}
    taken: set[str] = set()
    nodes = []
    for node in network.nodes:
        if node.name in taken:
            continue
        fused = Fused(_followed(node, network, known, held))
        taken.update(member.name for member in fused.nodes)
        if len(fused.nodes) > 1:
            last = fused.nodes[-1]
            nodes.append(Node(node.name, fused, fused.reads, last.output))
        else:
            nodes.append(node)
        known.add(nodes[-1].output)
    return replace(network, nodes=tuple(nodes))


def _followed(first: Node, network: Network, known: Set[str], held: Set[str]) -> tuple[Node, ...]:
    """The node and the longest run of elementwise nodes after it that leaves a single result. None
    follow a tensor of another core group, which is read in place. Only elementwise nodes may end in
    a `held` tensor, a state's next value, since they can overwrite the state in place.
    """
    held = set() if is_elementwise(first.op) else held
    if first.op.of_group is not None:
        return (first,)
    found, made, length = [first], {first.output}, 1
    waiting = list(network.readers(first.output))
    while waiting and made.isdisjoint(network.outputs):
        node = next((n for n in waiting if all(x in known or x in made for x in n.inputs)), None)
        if node is None or node.output in held or not _is_whole(node, made):
            break
        found.append(node)
        made.add(node.output)
        waiting = [n for n in waiting if n is not node]
        if not waiting:
            length = len(found)
        waiting += [n for n in network.readers(node.output) if n not in waiting]
    return tuple(found[:length])


def _is_whole(node: Node, made: Set[str]) -> bool:
    """True for an elementwise node that reads `made` tensors in the shape of its result only."""
    shapes = zip(node.inputs, node.op.input_shapes, strict=True)
    whole = all(shape == node.op.out_shape for name, shape in shapes if name in made)
    return whole and is_elementwise(node.op)


def is_elementwise(op: Op) -> bool:
    """True if each element of the result depends only on operands' elements at its own index."""
    return op.normalisation is not None or pointwise(op) is not None
