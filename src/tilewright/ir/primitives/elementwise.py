"""Elementwise primitives: fill, copy, scale and add, multiply and accumulate, requantise, and
re-pack.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tilewright.common.fixed_point import Rounding, requantised
from tilewright.ir.nodes import Operand, View
from tilewright.ir.place import Place
from tilewright.ir.primitive import Argument, Array, Primitive
from tilewright.ir.primitives.registry import register
from tilewright.ir.verify_types import check_one_type, check_whole, element_types


@register
class Fill(Primitive, frozen=True):
    """y = value."""

    name: ClassVar[str] = "fill"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "writes"),)

    value: float = 0.0

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        return np.full_like(operands[0], _number(self.value, operands[0]))

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_one_type(self, operands, place)
        check_whole(self, operands, place)


@register
class Copy(Primitive, frozen=True):
    """y = x."""

    name: ClassVar[str] = "copy"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "writes"), Argument(""))

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        return operands[1].reshape(operands[0].shape)

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_one_type(self, operands, place)


@register
class ScaleAdd(Primitive, frozen=True):
    """y = alpha y + beta x for each further operand x."""

    name: ClassVar[str] = "scale_add"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "accumulates"), Argument(""))
    broadcasts: ClassVar[bool] = True

    alpha: float = 1.0
    beta: float = 1.0

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        result: Array = _number(self.alpha, operands[0]) * operands[0]
        for other in operands[1:]:
            result = result + _number(self.beta, other) * other
        return result

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_one_type(self, operands, place)
        check_whole(self, operands, place)


@register
class MultiplyAccumulate(Primitive, frozen=True):
    """y = y + x w, where x and w may lack axes of y."""

    name: ClassVar[str] = "multiply_accumulate"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("", "accumulates"),
        Argument(""),
        Argument(""),
    )
    broadcasts: ClassVar[bool] = True

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        y, x, w = operands
        result: Array = y + x * w
        return result

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        if len(operands) != len(self.arguments):
            raise place.error(f"{self.name} takes 3 operands, found {len(operands)}")
        check_one_type(self, operands, place)


@register
class Requantise(Primitive, frozen=True):
    """y = x over 2 ** `shift`, rounded once, then saturated or wrapped to the type of y.

    `dtype` is the element type of x.
    """

    name: ClassVar[str] = "requantise"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "writes"), Argument(""))

    shift: int = 0
    rounding: Rounding = "even"
    saturate: int = 1
    dtype: str | None = None

    @property
    def computed_in(self) -> str | None:
        return self.dtype

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, x = operands
        if out.dtype.kind == "f":
            return x.reshape(out.shape)
        wide = x.astype(np.int64).reshape(out.shape)
        divisor, saturate = 1 << self.shift, bool(self.saturate)
        return requantised(wide, divisor, self.rounding, saturate=saturate, to=out.dtype)

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        result, sums = element_types(operands, place)
        if result.is_float or sums.is_float:
            raise place.error(f"requantise makes integers of integers, not {result} of {sums}")
        bits = sums.fraction_bits - result.fraction_bits
        if self.shift != bits or bits < 0:
            raise place.error(
                f"requantise shifts {sums} by {self.shift} bits, to {result} it is {bits}",
                f"shift={bits}" if bits >= 0 else "give the result fewer fraction bits",
            )


@register
class Repack(Primitive, frozen=True):
    """Change the packed shape of the tile in a buffer slot in place: pad with zeros where it grows,
    crop where it shrinks. Both operands are views of that slot.
    """

    name: ClassVar[str] = "repack"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "accumulates"), Argument(""))

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        new, old = operands
        kept = tuple(slice(0, min(pair)) for pair in zip(new.shape, old.shape, strict=True))
        result = np.zeros_like(new)
        result[kept] = old[kept]
        return result

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        target, source = operands
        if not (isinstance(target, View) and isinstance(source, View)):
            raise place.error(
                "repack works on views of a buffer", "use it from the staged stage on"
            )
        if (target.buffer, target.slot) != (source.buffer, source.slot):
            message = f"repack works inside one slot, found {target.buffer}[{target.slot}] and "
            raise place.error(f"{message}{source.buffer}[{source.slot}]")
        if target.roles != source.roles:
            found = f"found {source.roles!r} before and {target.roles!r} after"
            raise place.error(f"repack keeps the axes, {found}", "give both views the same roles")


def _number(value: float, array: Array) -> float | int:
    """An attribute as an integer or float, by the array's type."""
    return float(value) if array.dtype.kind == "f" else int(value)
