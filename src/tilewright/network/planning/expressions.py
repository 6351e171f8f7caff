"""Elementwise operators as expressions that a stage computes for each element.

In: a node's operator. Out: an `Elementwise`: the expression over the elements of operands, and
along which axes of the result each operand beside the first lies. Parameters of a normalisation
become two numbers per channel, made once, ahead of all runs (`Constant`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.scalar import Scalar, parse_scalar
from tilewright.ops import Op
from tilewright.ops.definitions import pointwise


@dataclass(frozen=True)
class Constant:
    """A tensor that is made of weights ahead of all runs: an expression over some of a node's
    operands, by their numbers, element by element in double precision.
    """

    operands: tuple[int, ...]
    expression: str = "x0"


@dataclass(frozen=True)
class Operand:
    """An operand of an expression: an operand of the node by its number, or a constant. Its
    dimensions lie along `axes` of the result.
    """

    source: int | Constant
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Elementwise:
    """An expression over the elements of operands."""

    scalar: Scalar
    operands: tuple[Operand, ...]


def elementwise_expression(op: Op) -> Elementwise | None:
    """The operator as an expression, or None if it is not elementwise."""
    every = tuple(range(len(op.out_shape)))
    if (norm := op.normalisation) is not None:
        factor = f"x0 / sqrt(x1 + {norm.epsilon!r})"
        factors = Constant((1, 4), factor)
        shift = Constant((1, 4, 2, 3), f"x2 - x3 * ({factor})")
        sources = (Operand(0, every), Operand(factors, (1,)), Operand(shift, (1,)))
        return Elementwise(parse_scalar("x0 * x1 + x2"), sources)
    if (own := pointwise(op)) is None:
        return None
    operands = []
    for number, access in enumerate(own.operands):
        aligned = every[len(every) - len(access.shape) :]
        axes = (p[0][0] if p else d for p, d in zip(access.terms, aligned, strict=True))
        operands.append(Operand(number, tuple(axes)))
    return Elementwise(own.scalar, tuple(operands))
