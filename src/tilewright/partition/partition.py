"""Pieces of an operator for the core groups, each with its own memory and DMA engine.

In: an operator and the number of groups. Out: every way to divide it, as pieces that are operators
themselves, with the regions of the operands that a piece reads and of the result that it writes.
All pieces of a partition have the same extents, so one program serves every group and its time is
that of the whole. Where the number of groups does not divide an extent, neighbouring pieces overlap
and compute the same values twice. swDNN III-D divides the rows of the output images; images and
channels are divided alike. The sums of a single image can be divided, too: each group then has a
partial result for every element, and all groups add these up together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops import Op
from tilewright.ops.box import Box
from tilewright.ops.op import Array
from tilewright.ops.piece import Piece, intervals, operator_piece, whole_piece

_LONG = 4
"""Least ratio of a sum's terms to a side of the result from which dividing sums pays off."""

__all__ = ["TERMS", "Partition", "Piece", "split", "split_sums"]

WHOLE, TERMS = "whole", "terms"


@dataclass(frozen=True)
class Partition:
    """One way to divide `op` into pieces, one per group."""

    kind: str
    op: Op
    pieces: tuple[Piece, ...]

    @property
    def piece(self) -> Op:
        """The operator of the first piece; the others have the same extents."""
        return self.pieces[0].op

    @property
    def shared_operands(self) -> tuple[bool, ...]:
        """For each operand, True if there are several pieces and all read the same region of it."""
        several, first = len(self.pieces) > 1, self.pieces[0].operands
        return tuple(
            several and all(piece.operands[i] == region for piece in self.pieces)
            for i, region in enumerate(first)
        )

    @property
    def partial(self) -> bool:
        """True if each piece has partial sums of every element."""
        return self.kind == TERMS

    def assemble(self, results: Sequence[Array]) -> Array:
        """The whole result, from the pieces' results in order."""
        if self.partial:
            return reduce(np.add, results)
        whole = np.empty(self.op.out_shape, results[0].dtype)
        for own, result in zip(self.pieces, results, strict=True):
            whole[own.result.slices] = result
        return whole


def split(op: Op, groups: int) -> list[Partition]:
    """Every way to divide `op` over `groups` core groups; where there is none, the whole operator.

    Raises ShapeError if `groups` is below one.
    """
    if groups < 1:
        raise ShapeError(f"{op.kind} cannot be divided over {groups} core groups")
    partitions = [
        Partition(kind, op, pieces) for kind, pieces in op.divided(groups) if len(pieces) > 1
    ]
    return partitions or [Partition(WHOLE, op, (whole_piece(op),))]


def split_sums(op: Op, groups: int) -> list[Partition]:
    """`op` with the terms of its sums, input channels or k, divided over `groups` core groups.

    Empty where the result has several images or rows, which divide without partial results, unless
    the sums are far longer than its sides. Also empty where one program cannot serve all pieces:
    the pieces differ in number of terms, only the first adds an operand, or partial sums are wider
    than results.
    """
    if groups == 1 or not op.terms or op.terms[0] % groups:
        return []
    images, others = op.out_shape[0], prod(op.out_shape[1:])
    if images > 1 and prod(op.terms) < _LONG * max(images, others):
        return []
    whole, terms = Box.whole(op.out_shape), Box.whole(op.terms)
    parts = intervals(op.terms[0], groups)
    pieces = tuple(operator_piece(op, whole, terms.along(0, part)) for part in parts)
    first = pieces[0].op
    if first.dtype != op.dtype or any(p.op != first or p.result != whole for p in pieces):
        return []
    return [Partition(TERMS, op, pieces)]
