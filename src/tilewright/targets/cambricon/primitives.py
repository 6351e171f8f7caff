"""Primitives of fixed point as the units of a Cambricon have them: each result is rounded once.

The matrix unit sums products exactly and rounds when it writes; what is added afterwards is added
to numbers of 16 bits and saturates. So how often a result is rounded is how many products it takes.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tilewright.common.fixed_point import exact_product, requantised
from tilewright.ir.nodes import Operand
from tilewright.ir.place import Place
from tilewright.ir.primitive import Argument, Array, Primitive
from tilewright.ir.primitives import MatrixProduct, register
from tilewright.ir.verify_types import check_one_type, element_types


@register
class RoundedProduct(MatrixProduct, frozen=True):
    """C = A B over 2 ** `shift`: sums exact, rounded once to nearest and even, and saturated."""

    name: ClassVar[str] = "rounded_product"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("mn", "writes"),
        Argument("mk"),
        Argument("kn"),
    )

    shift: int = 0

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, a, b = operands
        rows, columns, m, k = a.shape
        n = b.shape[3]
        whole_a = a.transpose(0, 2, 1, 3).reshape(rows * m, columns * k)
        whole_b = b.transpose(0, 2, 1, 3).reshape(rows * b.shape[2], columns * n)
        sums = exact_product(whole_a, whole_b).reshape(rows, m, columns, n).transpose(0, 2, 1, 3)
        return requantised(sums, 1 << self.shift, "even", saturate=True, to=out.dtype)

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        """The factors have `shift` fraction bits more than the result."""
        out, a, b = element_types(operands, place)
        bits = a.fraction_bits + b.fraction_bits - out.fraction_bits
        if out.is_float or bits != self.shift or bits < 0:
            raise place.error(f"{self.name} of {a} and {b} to {out} shifts by {bits} bits")


@register
class SaturatingAdd(Primitive, frozen=True):
    """y = y + x, the nearest number of its type where the sum has none."""

    name: ClassVar[str] = "saturating_add"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "accumulates"), Argument(""))

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        y, x = operands
        limits = np.iinfo(y.dtype)
        wide = y.astype(np.int64) + x.reshape(y.shape)
        return np.clip(wide, limits.min, limits.max).astype(y.dtype)

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_one_type(self, operands, place)
