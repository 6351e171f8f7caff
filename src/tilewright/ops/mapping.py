"""Operators on tensors as they lie in memory: the stages of a network beside its products.

`Mapping` computes an expression for each element, `Reduction` gathers elements along axes, windows
included. Each operand and the result are addressed by an `Access`: which element of a stored tensor
belongs to a step of each axis. So a change of layout, a border, a part of a larger tensor or a
broadcast is the same operator with another access.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, Protocol, Self

import numpy as np

from tilewright.common.dtypes import BOOL
from tilewright.common.errors import ProgramError, ShapeError
from tilewright.ir.primitives.maps import STARTS, Gathering
from tilewright.ir.scalar import (
    check_floats,
    integral,
    numbers_of,
    operand_count,
    operations,
    parse_scalar,
    wrapped,
)
from tilewright.ops.access import Access, elements_of, straight
from tilewright.ops.box import Box
from tilewright.ops.numerics import Numerics, require_float
from tilewright.ops.op import (
    OPERATORS,
    Array,
    Maker,
    Shape,
    Typed,
    in_double,
    in_integers,
    require_positive,
    require_shape,
    rounded,
    show_shape,
)

_GATHERED = {"sum": "sum", "max": "largest", "prod": "product"}
_INTEGER_OPERANDS = 4


def _check(access: Access, kind: str, extents: Shape, *, beyond: bool = False) -> None:
    """Raise ShapeError unless every place lies inside the tensor, or may lie `beyond` it, and steps
    run forwards.
    """
    access.check(kind, extents)
    steps = [step for terms in access.terms for _, step in terms]
    if min(steps, default=1) < 1:
        raise ShapeError(f"{kind}: tensors as they lie are addressed by steps of 1 or more")
    if access.fill is not None and not beyond:
        raise ShapeError(f"{kind}: only what a reduction gathers may lie beyond a tensor")


class _Stored(Protocol):
    @property
    def dtype(self) -> str: ...
    @property
    def input_shapes(self) -> tuple[Shape, ...]: ...
    @property
    def out_shape(self) -> Shape: ...


class _InMemory(Typed):
    """An operator on tensors as they lie: it is computed whole."""

    @property
    def numerics(self: _Stored) -> Numerics:
        """The element types of operands, sums and result; floats may be mixed with others."""
        return Numerics.parse(self.dtype, len(self.input_shapes), mixed=True)

    def computable(self: _Stored, result: Box, terms: Box | None = None) -> Box:
        """The whole result."""
        del result, terms
        return Box.whole(self.out_shape)

    def needed(self: _Stored, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """All operands."""
        del result, terms
        return tuple(Box.whole(shape) for shape in self.input_shapes)

    def part(self, result: Box, terms: Box | None = None) -> Self:
        """The operator itself."""
        del result, terms
        return self


@dataclass(frozen=True)
class Mapping(_InMemory):
    """The result's places hold the expression over the elements x0, x1, ... of the operands; other
    places of it are left alone.
    """

    kind: ClassVar[str] = "map"
    extents: Shape
    result: Access
    operands: tuple[Access, ...] = ()
    expression: str = "x0"
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "extents", self.extents)
        if self.numerics.is_float:
            _require_floats(self.kind, self.expression)
        else:
            self._require_wrapping()
        for access in (self.result, *self.operands):
            _check(access, self.kind, self.extents)
        idle = [i for i, n in enumerate(self.extents) if n > 1 and i not in self.result.axes]
        if idle:
            raise ShapeError(f"map: axis {idle[0]} does not move the place in the result")
        if operand_count(parse_scalar(self.expression)) > len(self.operands):
            raise ShapeError(
                f"map: {self.expression[:60]!r} reads more than {len(self.operands)} operands"
            )

    def _require_wrapping(self) -> None:
        """Integers wrap, so that the result is the same in whatever order they are computed."""
        if len(self.operands) > _INTEGER_OPERANDS:
            raise ShapeError(
                f"map takes up to {_INTEGER_OPERANDS} operands of integers, found "
                f"{len(self.operands)}",
                fix="map its parts one after the other",
            )
        numerics = self.numerics
        indices = {k for access in self.operands for k in access.looked_up.values()}
        read = [kind for i, kind in enumerate(numerics.operands) if i not in indices]
        kinds = (*read, numerics.sums, numerics.result)
        if any(k.kind != "integer" or k.size_bytes > numerics.sums.size_bytes for k in kinds):
            raise ShapeError(
                f"map computes integers in the widest of their types, found {numerics}",
                fix="name the widest in the middle, as i8:i32:i16:even:wrap",
            )
        if numerics.saturate and numerics.requantises and numerics.result != BOOL:
            raise ShapeError(
                f"map wraps integers to their type, {numerics} saturates",
                fix=f"--dtype {replace(numerics, saturate=False)}",
            )
        try:
            numbers = numbers_of(integral(parse_scalar(self.expression)))
        except ProgramError as error:
            raise ShapeError(f"map: {error.message}", fix=error.fix) from error
        low, high = numerics.sums.limits
        for number in numbers:
            if not low <= number <= high:
                raise ShapeError(f"map: {number} is no {numerics.sums}, which has {low} to {high}")

    @property
    def in_memory(self) -> Mapping:
        """Itself."""
        return self

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The operands."""
        return self.operands

    @property
    def kept(self) -> int:
        """The number of loops, which all move the place in the result."""
        return len(self.extents)

    def on(self, extents: Shape, result: Access, accesses: Sequence[Access]) -> Mapping:
        """This work on other loops and places."""
        return replace(self, extents=extents, result=result, operands=tuple(accesses))

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The operands as they are stored."""
        return tuple(access.shape for access in self.operands)

    @property
    def out_shape(self) -> Shape:
        """The result as it is stored."""
        return self.result.shape

    @property
    def flops(self) -> int:
        """The vector operations of the expression, for each element."""
        return prod(self.extents) * operations(parse_scalar(self.expression))

    def describe(self) -> str:
        """Extents and expression; a copy where it is the element alone, a fill without one."""
        if not self.operands:
            return f"fill {show_shape(self.extents)} with {self.expression}"
        if self.expression == "x0":
            return f"copy {show_shape(self.extents)}"
        return f"map {show_shape(self.extents)}: {self.expression}"

    def in_words(self) -> str:
        """The computation in words."""
        what = "elements" if self.operands else "places"
        return f"y = {self.expression} for {show_shape(self.extents)} {what}"

    def reference(self, *operands: Array) -> Array:
        """The result in double precision, or of wrapped integers; 0 where nothing is written."""
        exact = not self.numerics.is_float
        inputs = in_integers(self, operands) if exact else in_double(self, operands)
        elements = elements_of(self.operands, inputs, self.extents)
        scalar = parse_scalar(self.expression)
        if exact:
            return self._stored(wrapped(scalar, elements, self.numerics.sums))
        with np.errstate(all="ignore"):
            found = scalar.value(elements)
        return self._stored(rounded(self, np.asarray(found, np.float64)))

    def _stored(self, values: Array) -> Array:
        whole = np.zeros(self.result.shape, self.numerics.result.numpy)
        self.result.write(whole, self.extents, np.broadcast_to(values, self.extents))
        return whole


def _require_floats(kind: str, *expressions: str) -> None:
    """Raise ShapeError for functions that floats do not have."""
    for expression in expressions:
        try:
            check_floats(parse_scalar(expression))
        except ProgramError as error:
            raise ShapeError(f"{kind}: {error.message}", fix=error.fix) from error


def mapping(n: int, expression: str, *, dtype: str = "f64") -> Mapping:
    """The expression over x0, x1, ... of each of n elements; raises ShapeError for one that reads
    none, ProgramError for what is no expression.

    >>> mapping(3, "2 * (x0 - x1)", dtype="i8:i32:i16:even:wrap").out_dtype
    'i16'
    """
    require_positive("map", n=n)
    count = operand_count(parse_scalar(expression))
    if count == 0:
        raise ShapeError(f"map: {expression[:60]!r} reads no element", fix="name x0 in it")
    place = straight((n,))
    return Mapping((n,), place, (place,) * count, expression, dtype)


OPERATORS["map"] = Maker(Mapping, mapping)


@dataclass(frozen=True)
class Reduction(_InMemory):
    """The result's places hold `finish` (over x0) of the sum, product or largest of `expression`
    (over x0) along the last axes, those beyond the result's `kept` ones. Places beyond the operand
    count for nothing.
    """

    kind: ClassVar[str] = "reduce"
    extents: Shape
    kept: int
    result: Access
    operand: Access
    function: Gathering
    expression: str = "x0"
    finish: str = "x0"
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "extents", self.extents)
        require_float(self.kind, self.numerics)
        _require_floats(self.kind, self.expression, self.finish)
        _check(self.result, self.kind, self.extents)
        _check(self.operand, self.kind, self.extents, beyond=True)
        self._require_neutral()
        if not 0 <= self.kept <= len(self.extents) or max(self.result.axes, default=-1) >= (
            self.kept
        ):
            raise ShapeError(f"reduce: the result has axes beyond the {self.kept} that are kept")

    def _require_neutral(self) -> None:
        if self.operand.fill is None:
            return
        neutral = STARTS[self.function]
        found = parse_scalar(self.expression).value([np.array(self.operand.fill)])
        if found != neutral:
            raise ShapeError(
                f"reduce: places beyond the tensor would count as {float(found)!r} in a "
                f"{self.function}, of which {neutral!r} changes nothing"
            )

    @property
    def in_memory(self) -> Reduction:
        """Itself."""
        return self

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The operand."""
        return (self.operand,)

    def on(self, extents: Shape, result: Access, accesses: Sequence[Access]) -> Reduction:
        """This work on other loops and places, as many of them kept."""
        return replace(self, extents=extents, result=result, operand=accesses[0])

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The operand as it is stored."""
        return (self.operand.shape,)

    @property
    def out_shape(self) -> Shape:
        """The result as it is stored."""
        return self.result.shape

    @property
    def flops(self) -> int:
        """One per gathered element, and the operations of both expressions."""
        each = operations(parse_scalar(self.expression)) + 1
        last = operations(parse_scalar(self.finish))
        return prod(self.extents) * each + prod(self.extents[: self.kept]) * last

    def describe(self) -> str:
        """Extents, function and expressions."""
        kept, gathered = self.extents[: self.kept], self.extents[self.kept :]
        return f"{self.function} {show_shape(kept)} over {show_shape(gathered)}"

    def in_words(self) -> str:
        """The computation in words."""
        kept, gathered = self.extents[: self.kept], self.extents[self.kept :]
        rows, window = show_shape(kept) or "1", show_shape(gathered) or "1"
        what = f"y = the {_GATHERED[self.function]} of {self.expression}"
        last = "" if self.finish == "x0" else f", and of that {self.finish}"
        return f"{what} over {window} elements, {rows} times{last}"

    def reference(self, *operands: Array) -> Array:
        """The result in double precision; 0 where nothing is written."""
        (x,) = in_double(self, operands)
        with np.errstate(all="ignore"):
            each = parse_scalar(self.expression).value([self.operand.read(x, self.extents)])
            along = tuple(range(self.kept, len(self.extents)))
            gather = {"sum": np.add, "prod": np.multiply, "max": np.fmax}[self.function]
            start, every = STARTS[self.function], np.broadcast_to(each, self.extents)
            gathered = gather.reduce(every, axis=along, initial=start)
            found = np.asarray(parse_scalar(self.finish).value([gathered]), np.float64)
        whole = np.zeros(self.result.shape)
        self.result.write(whole, self.extents[: self.kept], found)
        return rounded(self, whole)
