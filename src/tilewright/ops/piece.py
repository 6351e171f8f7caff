"""One piece of an operator, and how an extent is cut into equal intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.ops.op import Array, Op

Slices = tuple[slice, ...]
EVERYTHING = slice(None)


@dataclass(frozen=True)
class Piece:
    """What one group computes: an operator on regions of the operands and of the result."""

    op: Op
    operands: tuple[Slices, ...]
    result: Slices

    def take(self, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """The piece's operands out of the whole ones."""
        return tuple(x[region] for x, region in zip(operands, self.operands, strict=True))


def whole_piece(op: Op) -> Piece:
    """The operator as its own only piece."""
    regions = tuple((EVERYTHING,) * len(shape) for shape in op.input_shapes)
    return Piece(op, regions, (EVERYTHING,) * len(op.out_shape))


def intervals(extent: int, groups: int) -> list[slice]:
    """Intervals of one length that cover `extent`; they overlap where it is not divisible.

    >>> intervals(14, 4)
    [slice(0, 4, None), slice(3, 7, None), slice(6, 10, None), slice(10, 14, None)]
    >>> intervals(3, 4)
    [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None)]
    """
    length = -(-extent // groups)
    count = min(groups, -(-extent // length))
    starts = [i * (extent - length) // max(1, count - 1) for i in range(count)]
    return [slice(start, start + length) for start in starts]


Divided = list[tuple[str, tuple[Piece, ...]]]
"""Ways to divide an operator by name, each with its pieces."""


def pieces_along(
    op: Any, field: str, groups: int, operands: Sequence[int | None], result: int
) -> tuple[Piece, ...]:
    """Pieces over the extent that `field` names: dimension `result` of the result, and of each of
    the `operands` the dimension given, None for one that all pieces read whole.

    `op` is a frozen dataclass whose `field` may be any smaller extent.
    """
    return tuple(
        Piece(
            replace(op, **{field: part.stop - part.start}),
            tuple(
                _region(len(shape), dimension, part)
                for shape, dimension in zip(op.input_shapes, operands, strict=True)
            ),
            _region(len(op.out_shape), result, part),
        )
        for part in intervals(getattr(op, field), groups)
    )


def _region(rank: int, dimension: int | None, part: slice) -> Slices:
    return tuple(part if d == dimension else EVERYTHING for d in range(rank))
