"""Elementwise operators that follow each other as one expression.

In: the members of a fused node. Out: the expression over the elements of its first operand (what
the first member makes, or reads where that is elementwise itself) and of further ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.graph.graph import Node
from tilewright.ir.scalar import Element, Scalar, renumbered
from tilewright.network.planning.expressions import (
    Constant,
    Elementwise,
    Operand,
    elementwise_expression,
)


@dataclass(frozen=True)
class Read:
    """An operand of an expression: a tensor by its name, or a constant made of tensors. Its
    dimensions lie along `axes` of the result.
    """

    tensors: tuple[str, ...]
    axes: tuple[int, ...]
    made: str | None = None


@dataclass(frozen=True)
class Expressed:
    """An expression; operand 0 is the first member's result if that is not elementwise."""

    scalar: Scalar
    reads: tuple[Read, ...]


def expressed(nodes: Sequence[Node]) -> Expressed:
    """All members but the first, and that where it is elementwise."""
    first = elementwise_expression(nodes[0].op)
    if first is None:
        scalar: Scalar = Element(0)
        reads = [Read((nodes[0].output,), tuple(range(len(nodes[0].op.out_shape))))]
    else:
        scalar, reads = first.scalar, _reads(nodes[0], first)
    made = {nodes[0].output: scalar}
    for node in nodes[1:]:
        found = elementwise_expression(node.op)
        assert found is not None
        numbers: list[Scalar] = []
        for read in _reads(node, found):
            inside = made.get(read.tensors[0]) if read.made is None else None
            if inside is None and read not in reads:
                reads.append(read)
            numbers.append(Element(reads.index(read)) if inside is None else inside)
        made[node.output] = scalar = renumbered(found.scalar, numbers)
    return Expressed(scalar, tuple(reads))


def _reads(node: Node, found: Elementwise) -> list[Read]:
    return [_read(node, operand) for operand in found.operands]


def _read(node: Node, operand: Operand) -> Read:
    match operand.source:
        case Constant(operands, expression):
            return Read(tuple(node.inputs[i] for i in operands), operand.axes, expression)
        case number:
            return Read((node.inputs[number],), operand.axes)
