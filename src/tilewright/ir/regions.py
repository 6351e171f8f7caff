"""A strided region of a row-major tensor as contiguous blocks, for the cost model and for code.

In: the tensor's shape, the region's extents and steps. Out: `Blocks` (swATOP 4.5.1: block, stride
and size). Every number may be an integer, an array (one region per element) or an expression.
Expressions are compared syntactically: if an extent is 1 or a row whole only at run time, a split
by expressions may have more requests than one by values, but never fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tilewright.common.expr import Const, Expr, product

Size: TypeAlias = Any  # int, an integer ndarray or Expr; NumPy's stubs make a union unusable here


@dataclass(frozen=True)
class Repeat:
    """`count` repetitions, with starts `stride` apart."""

    count: Size
    stride: Size


@dataclass(frozen=True)
class Blocks:
    """A region as requests of `count` blocks, each `length` long, with starts `stride` apart.

    A request has one block size and one stride; `outer`, outermost first, are the repetitions
    around it. A request of one block has its length as the stride. Blocks of `adjoining`
    neighbouring cores are contiguous; with `before`, this block ends such a sequence of blocks of
    that length.
    """

    length: Size
    count: Size
    stride: Size
    outer: tuple[Repeat, ...] = ()
    adjoining: Size = 1
    before: Size = field(default=0, repr=False)

    @property
    def requests(self) -> Size:
        """Number of requests."""
        found: Size = 1
        for repeat in self.outer:
            found = repeat.count * found
        return found


def strides_of(shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """Strides in elements of a row-major tensor, dimension by dimension.

    >>> [str(stride) for stride in strides_of((Const(4), Const(16), Const(32)))]
    ['512', '32', '1']
    """
    return tuple(product(shape[d + 1 :]) for d in range(len(shape)))


def split_region(
    repeats: Sequence[Repeat], unit: Size, cores: Sequence[Size] = (), before: Sequence[Size] = ()
) -> Blocks:
    """Split a region that iterates over `repeats`, outermost first, of elements of length `unit`.

    The innermost contiguous dimensions form the block, the next ones that continue one stride its
    count; the scratchpad's side is packed. For each dimension, `cores` is the number of
    neighbouring cores that continue it, and `before` the length of their parts if this one is last.

    >>> split_region([Repeat(4, 512), Repeat(2, 32), Repeat(8, 1)], 1)
    Blocks(length=8, count=2, stride=32, outer=(Repeat(count=4, stride=512),), adjoining=1)
    >>> split_region([Repeat(4, 64), Repeat(2, 32), Repeat(8, 1)], 1)
    Blocks(length=8, count=8, stride=32, outer=(), adjoining=1)
    >>> split_region([Repeat(1, 8), Repeat(8, 1)], 1, [4, 1]).adjoining
    4
    """
    one: Size = Const(1) if isinstance(unit, Expr) else 1
    blocks, beside = Blocks(unit, one, unit), cores or [1] * len(repeats)
    whole: Size = True
    along = zip(repeats, beside, before or [0] * len(repeats), strict=True)
    for repeat, adjoining, others in reversed([*along]):
        several, single = repeat.count != one, blocks.count == one
        has_neighbours = adjoining > 1
        if several is False and not _anywhere(has_neighbours):
            continue
        first, later = several & single, several & (blocks.count != one)
        follows = single & (repeat.stride == blocks.length)
        grows = several & follows
        begins = first ^ grows
        continues = later & whole & (repeat.stride == blocks.count * blocks.stride)
        repeated = later ^ continues
        whole = whole & (repeated ^ True)
        length = _where(grows, repeat.count * blocks.length, blocks.length)
        continued = grows | has_neighbours & follows
        blocks = Blocks(
            length,
            _where(begins | continues, repeat.count * blocks.count, blocks.count),
            _where(begins, repeat.stride, _where(grows, length, blocks.stride)),
            _around(blocks.outer, repeat, repeated, one),
            _where(continued, adjoining, blocks.adjoining),
            _where(continued, others, blocks.before),
        )
    return blocks


def _around(
    outer: tuple[Repeat, ...], repeat: Repeat, repeated: Size, one: Size
) -> tuple[Repeat, ...]:
    """The repetitions with `repeat` added outside if `repeated`, merged with the outermost one if
    the strides allow it.
    """
    if not _anywhere(repeated):
        return outer
    added = Repeat(_where(repeated, repeat.count, one), repeat.stride)
    if outer and np.all(added.stride == outer[0].count * outer[0].stride):
        return (Repeat(added.count * outer[0].count, outer[0].stride), *outer[1:])
    return (added, *outer)


def _where(condition: Size, a: Size, b: Size) -> Size:
    """`a` if the condition holds, else `b`; element by element for arrays."""
    if isinstance(condition, np.ndarray):
        count = np.count_nonzero(condition)
        if 0 < count < condition.size:
            return np.where(condition, a, b)
    return a if _anywhere(condition) else b


def _anywhere(condition: Size) -> bool:
    """True if a condition holds for any element; `np.any` takes long for a plain bool."""
    return bool(condition.any() if isinstance(condition, np.ndarray) else condition)
