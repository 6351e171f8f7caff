"""Pieces of an operator for the core groups, each with its own memory and DMA engine.

In: an operator and the number of groups. Out: every way to divide it, as pieces that are operators
themselves, with the regions of the operands that a piece reads and of the result that it writes.
All pieces of a partition have the same extents, so one program serves every group and its time is
that of the whole: where the groups do not divide an extent, neighbouring pieces overlap and compute
the same values twice. swDNN III-D divides the rows of the output images; images and channels are
divided alike. Reductions are not divided: no piece needs another's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops import Op
from tilewright.ops.op import Array
from tilewright.ops.piece import Piece, whole_piece

__all__ = ["Partition", "Piece", "split"]

WHOLE = "whole"


@dataclass(frozen=True)
class Partition:
    """One way to divide `op`: as many groups as there are pieces compute one each."""

    kind: str
    op: Op
    pieces: tuple[Piece, ...]

    @property
    def piece(self) -> Op:
        """The operator of the first piece; the others have the same extents."""
        return self.pieces[0].op

    @property
    def shared_operands(self) -> tuple[bool, ...]:
        """For each operand whether all of several pieces read the same of it."""
        several, first = len(self.pieces) > 1, self.pieces[0].operands
        return tuple(
            several and all(piece.operands[i] == region for piece in self.pieces)
            for i, region in enumerate(first)
        )

    def assemble(self, results: Sequence[Array]) -> Array:
        """The whole result from those of the pieces, in their order."""
        whole = np.empty(self.op.out_shape, results[0].dtype)
        for piece, result in zip(self.pieces, results, strict=True):
            whole[piece.result.slices] = result
        return whole


def split(op: Op, groups: int) -> list[Partition]:
    """Every way to divide `op` over `groups` core groups; undivided where there is none.

    Raises ShapeError unless there is at least one group.
    """
    if groups < 1:
        raise ShapeError(f"{op.kind} cannot be divided over {groups} core groups")
    found = op.divided(groups) if groups > 1 else []
    partitions = [Partition(kind, op, pieces) for kind, pieces in found if len(pieces) > 1]
    return partitions or [Partition(WHOLE, op, (whole_piece(op),))]
