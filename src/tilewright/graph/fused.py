"""Nodes that are computed in one go, as one operator.

In: nodes of which each but the first reads what those before it give, and nobody else does. Out: an
operator that means the same as they do one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tilewright.graph.graph import Node
from tilewright.ops.op import Array, Op, Shape


@dataclass(frozen=True)
class Fused(Op):
    """The first node, and the elementwise ones that follow it."""

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
        """The tensors that are read from outside, in order and each once."""
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
