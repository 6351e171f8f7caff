"""Look-ups in a table: the sigmoid of sums in fixed point (ICSI TR-93-046, 3.1 and 4.2.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.errors import ShapeError
from tilewright.ir.primitives.maps import table_index
from tilewright.ops.box import Box
from tilewright.ops.op import (
    OPERATORS,
    Array,
    Follows,
    Maker,
    Op,
    Shape,
    in_own_type,
    require_positive,
    require_shape,
    same_dimensions,
    show_shape,
)

_BITS = 32


@dataclass(frozen=True)
class Lookup(Op):
    """A look-up in a table of `entries` by each integer of a tensor over 2 ** `shift`, rounded
    down. Zero selects the middle of the table; integers beyond an end select the last entry there.
    """

    kind: ClassVar[str] = "lookup"
    shape: Shape
    entries: int = 1 << 15
    shift: int = 0
    dtype: str = "i32,i8:i32:i8"

    def __post_init__(self) -> None:
        require_shape(self.kind, "the integers", self.shape)
        require_positive(self.kind, entries=self.entries)
        if self.entries % 2:
            raise ShapeError(
                f"lookup: a table of {self.entries} has no middle", fix="an even number of entries"
            )
        if not 0 <= self.shift < _BITS:
            raise ShapeError(f"lookup: shift must be in 0..{_BITS - 1}, found {self.shift}")
        indices, table = self.numerics.operands
        if indices.kind != "integer" or table != self.numerics.result:
            raise ShapeError(
                "lookup takes integers and gives elements of its table, found "
                f"{indices} for the integers, {table} for the table and {self.numerics.result} "
                "for the result",
                fix=f"--dtype i32,{table}:i32:{table}",
            )

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The integers, the table."""
        return self.shape, (self.entries,)

    @property
    def out_shape(self) -> Shape:
        """Shape of the integers."""
        return self.shape

    @property
    def n(self) -> int:
        """Number of integers."""
        return math.prod(self.shape)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """Integers follow the result; the table is always read whole."""
        own = same_dimensions(len(self.shape))
        return own, own, ((None, None),)

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        return result

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        return result, Box.whole((self.entries,))

    def part(self, result: Box, terms: Box | None = None) -> Lookup:
        return replace(self, shape=result.shape)

    @property
    def flops(self) -> int:
        return self.n

    def describe(self) -> str:
        return f"lookup {show_shape(self.shape)} of {self.entries}, shift {self.shift}"

    def reference(self, *operands: Array) -> Array:
        x, table = in_own_type(self, operands)
        found: Array = table[table_index(x, self.entries, self.shift)]
        return found


def lookup(
    n: int, *, entries: int = 1 << 15, shift: int = 0, dtype: str = "i32,i8:i32:i8"
) -> Lookup:
    """Look-ups of n integers over 2 ** `shift` in a table of `entries`. Raises ShapeError for a
    table without a middle, a shift beyond 31 bits, or a result type other than the table's.

    >>> lookup(3, shift=4).out_dtype
    'i8'
    """
    require_positive("lookup", n=n)
    return Lookup((n,), entries, shift, dtype)


def is_table(op: Op) -> bool:
    """True if the operator looks integers up in a table."""
    return isinstance(op, Lookup)


OPERATORS["lookup"] = Maker(Lookup, lookup)
