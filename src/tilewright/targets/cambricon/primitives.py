"""Fixed-point primitives as the units of a Cambricon compute them: each result is rounded once.

The matrix unit sums products exactly and rounds when it writes. Later additions work on 16-bit
numbers and saturate, so a result is rounded as often as it takes products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import ClassVar, Self

import numpy as np
from msgspec.structs import replace

from tilewright.common.fixed_point import requantised
from tilewright.ir.nodes import Operand
from tilewright.ir.place import Place
from tilewright.ir.primitive import Argument, Array, Primitive
from tilewright.ir.primitives import Copy, MatrixProduct, register
from tilewright.ir.verify_types import check_one_type, element_types
from tilewright.isa import load_table
from tilewright.targets.cambricon.operations import element_functions, exact_sums, saturated
from tilewright.targets.cambricon.vector_steps import RESULT, VectorSteps, vector_steps_of


@register
class RoundedProduct(MatrixProduct, frozen=True):
    """C = A B over 2 ** `shift`: exact sums, rounded once to nearest and even, and saturated."""

    name: ClassVar[str] = "rounded_product"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("mn", "writes"),
        Argument("mk"),
        Argument("kn"),
    )

    shift: int = 0

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, a, b = operands
        sums = self.on_mesh(a, b, exact_sums)
        return requantised(sums, 1 << self.shift, "even", saturate=True, to=out.dtype)

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        """Check that the factors have `shift` fraction bits more than the result."""
        out, a, b = element_types(operands, place)
        bits = a.fraction_bits + b.fraction_bits - out.fraction_bits
        if out.is_float or bits != self.shift or bits < 0:
            raise place.error(f"{self.name} of {a} and {b} to {out} shifts by {bits} bits")


@register
class OuterProduct(RoundedProduct, frozen=True):
    """A product of a column and a row; the result lies in the matrix scratchpad."""

    name: ClassVar[str] = "outer_product"


@register
class SaturatingAdd(Primitive, frozen=True):
    """y = y + x, saturated to the type of y."""

    name: ClassVar[str] = "saturating_add"
    by_elements: ClassVar[bool] = True
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "accumulates"), Argument(""))

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        y, x = operands
        limits = np.iinfo(y.dtype)
        wide = y.astype(np.int64) + x.reshape(y.shape)
        return np.clip(wide, limits.min, limits.max).astype(y.dtype)

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_one_type(self, operands, place)


@register
class Turned(Copy, frozen=True):
    """y = x with the axes m and n stored the other way round: m outside n in y, inside it in x.
    Computes x, as a matrix, times one unit vector after the other, which is exact; the buffer
    `work` holds zeros around a one.
    """

    name: ClassVar[str] = "turned"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("mn", "writes"), Argument("mn"))

    one: int = 1
    work: str = ""

    def buffers(self) -> tuple[str, ...]:
        return (self.work,)

    def renamed(self, name: Callable[[str], str]) -> Self:
        return replace(self, work=name(self.work))


class StepByStep(Primitive, frozen=True):
    """A primitive computed by the vector instructions of an expression, each of which rounds and
    saturates; temporaries lie in the buffer `work`.
    """

    by_elements: ClassVar[bool] = True

    expression: str = "x0"
    fraction_bits: int = 0
    work: str | None = None

    def steps(self, operands: int) -> VectorSteps:
        """The instructions for so many operands."""
        return vector_steps_of(self.expression, operands, self.fraction_bits)

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_one_type(self, operands, place)

    def buffers(self) -> tuple[str, ...]:
        return (self.work,) if self.work else ()

    def renamed(self, name: Callable[[str], str]) -> Self:
        return replace(self, work=name(self.work)) if self.work else self

    def computed(self, y: Array, *operands: Array) -> Array:
        """The expression over the operands, as elements of the type of y."""
        functions, steps = _functions(self.fraction_bits), self.steps(len(operands))
        held = {1 + i: x.astype(np.int64) for i, x in enumerate(operands)} | {RESULT: y}
        for step in (*steps.constants, *steps.steps):
            own = [held[s] for s in step.sources]
            found = own[0] + step.immediate if step.immediate is not None else own[0]
            if step.mnemonic in functions:
                found = functions[step.mnemonic](*own)
            held[step.out] = saturated(found)
        return np.broadcast_to(held[RESULT], y.shape).astype(y.dtype)


@cache
def _functions(fraction_bits: int) -> Mapping[str, Callable[..., Array]]:
    """The operations of vector instructions by mnemonic, element by element."""
    named, table = element_functions(fraction_bits), load_table("cambricon").by_mnemonic
    return {m: named[i.operation] for m, i in table.items() if i.operation in named}


@register
class RoundedMap(StepByStep, frozen=True):
    """y = the expression over the elements x0, x1, ... of the further operands."""

    name: ClassVar[str] = "rounded_map"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "writes"), Argument(""))
    broadcasts: ClassVar[bool] = True

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        return self.computed(*operands)


@register
class RoundedStep(RoundedMap, frozen=True):
    """A map of one instruction, one of several of an expression."""

    name: ClassVar[str] = "rounded_step"
    spreads: ClassVar[bool] = True


@register
class RoundedReduce(StepByStep, frozen=True):
    """y = the expression over x0 = y and x1 = x, for each index of axis k in order."""

    name: ClassVar[str] = "rounded_reduce"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "accumulates"), Argument("k"))

    def steps(self, operands: int) -> VectorSteps:
        """The instructions on the result so far and one element."""
        del operands
        return vector_steps_of(self.expression, 2, self.fraction_bits)

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        y, x = operands
        for index in range(x.shape[2]):
            y = self.computed(y, y, x[:, :, index])
        return y
