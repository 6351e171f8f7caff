"""Elementwise operators, alone or following each other, as one expression for each element.

In: the members of a fused node. Out: the expression over the elements of its first operand (what
the first member makes, or reads where that is elementwise itself) and of further ones. Parameters
of a normalisation become two numbers per channel, made once, ahead of all runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.graph.graph import Node
from tilewright.graph.rewrites.fusion import is_elementwise
from tilewright.ir.scalar import Element, Scalar, parse_scalar, renumbered
from tilewright.ops.definitions import pointwise


@dataclass(frozen=True)
class Read:
    """An operand of an expression: a tensor by its name, or a constant `made` of tensors by an
    expression over their elements, in double precision. Its dimensions lie along `axes` of the
    result.
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
    first, *rest = nodes
    found = Expressed(Element(0), (Read((first.output,), tuple(range(len(first.op.out_shape)))),))
    if is_elementwise(first.op):
        found = _expression(first)
    scalar, reads = found.scalar, list(found.reads)
    made = {first.output: scalar}
    for node in rest:
        found = _expression(node)
        numbers: list[Scalar] = []
        for read in found.reads:
            inside = made.get(read.tensors[0]) if read.made is None else None
            if inside is None and read not in reads:
                reads.append(read)
            numbers.append(Element(reads.index(read)) if inside is None else inside)
        made[node.output] = scalar = renumbered(found.scalar, numbers)
    return Expressed(scalar, tuple(reads))


def _expression(node: Node) -> Expressed:
    """An elementwise node alone."""
    every = tuple(range(len(node.op.out_shape)))
    if (norm := node.op.normalisation) is not None:
        x, scale, bias, mean, variance = node.inputs
        factor = f"x0 / sqrt(x1 + {norm.epsilon!r})"
        factors = Read((scale, variance), (1,), factor)
        shift = Read((scale, variance, bias, mean), (1,), f"x2 - x3 * ({factor})")
        return Expressed(parse_scalar("x0 * x1 + x2"), (Read((x,), every), factors, shift))
    own = pointwise(node.op)
    assert own is not None
    reads = []
    for name, access in zip(node.inputs, own.operands, strict=True):
        aligned = every[len(every) - len(access.shape) :]
        axes = (p[0][0] if p else d for p, d in zip(access.terms, aligned, strict=True))
        reads.append(Read((name,), tuple(axes)))
    return Expressed(own.scalar, tuple(reads))
