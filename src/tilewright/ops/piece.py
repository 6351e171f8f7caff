"""One piece of an operator, and how an extent is cut into equal intervals."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ops.box import Box, Interval
from tilewright.ops.op import Array, Op


@dataclass(frozen=True)
class Piece:
    """The work of one group: an operator on regions of the operands and of the result.

    Operands with an empty region are no operands of `op`.
    """

    op: Op
    operands: tuple[Box, ...]
    result: Box

    def take(self, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """The piece's operands, cut from the whole ones."""
        pairs = zip(operands, self.operands, strict=True)
        return tuple(x[region.slices] for x, region in pairs if region.size)


def operator_piece(op: Op, result: Box, terms: Box | None = None) -> Piece:
    """The piece that computes the region `result`, over `terms` if given. The region grows where no
    operator of this kind computes it alone (`Op.computable`).
    """
    computed = op.computable(result, terms)
    return Piece(op.part(computed, terms), op.needed(computed, terms), computed)


def whole_piece(op: Op) -> Piece:
    """The operator as its own only piece."""
    return Piece(op, tuple(map(Box.whole, op.input_shapes)), Box.whole(op.out_shape))


def intervals(extent: int, groups: int) -> list[Interval]:
    """At most `groups` intervals of equal length that cover `extent`, overlapping if need be.

    >>> intervals(14, 4)
    [(0, 4), (3, 7), (6, 10), (10, 14)]
    >>> intervals(3, 4)
    [(0, 1), (1, 2), (2, 3)]
    """
    length = -(-extent // groups)
    count = min(groups, -(-extent // length))
    starts = [i * (extent - length) // max(1, count - 1) for i in range(count)]
    return [(start, start + length) for start in starts]


Divided = list[tuple[str, tuple[Piece, ...]]]
"""Names of ways to divide an operator, each with its pieces."""


def pieces_along(op: Op, dimension: int, groups: int) -> tuple[Piece, ...]:
    """Pieces of equal extents along one dimension of the result."""
    whole = Box.whole(op.out_shape)
    cut = intervals(op.out_shape[dimension], groups)
    return tuple(operator_piece(op, whole.along(dimension, part)) for part in cut)
