"""Operators on tensors as they lie in memory: what the stages of a network compute beside products.

`Mapping` computes an expression for each element, `Reduction` gathers elements along axes, windows
included. Each operand and the result are addressed by an `Access`: which element of a stored tensor
belongs to a step of each axis. So a change of layout, a border, a part of a larger tensor or a
broadcast is the same operator with another access.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Protocol, Self

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ir.primitives.maps import Gathering
from tilewright.ir.scalar import operand_count, operations, parse_scalar
from tilewright.ops.box import Box
from tilewright.ops.numerics import require_float
from tilewright.ops.op import (
    Array,
    Floats,
    Shape,
    Typed,
    in_double,
    require_shape,
    rounded,
    show_shape,
)

Term = tuple[int, int]
"""An axis, and how many places one step along it is."""


@dataclass(frozen=True)
class Access:
    """Where in a tensor stored as `shape` the element of a step of the axes lies: along each
    dimension at `offsets` plus the sum of the `terms`.
    """

    shape: Shape
    terms: tuple[tuple[Term, ...], ...]
    offsets: tuple[int, ...]

    @property
    def axes(self) -> frozenset[int]:
        """The axes along which the place moves."""
        return frozenset(axis for dim in self.terms for axis, _ in dim)

    def index(self, extents: Shape) -> tuple[Array, ...]:
        """The places of all steps, an array for each dimension that broadcasts to `extents`."""
        found = []
        for terms, offset in zip(self.terms, self.offsets, strict=True):
            place = np.full([1] * len(extents), offset, np.int64)
            for axis, step in terms:
                along = [1] * len(extents)
                along[axis] = extents[axis]
                place = place + (np.arange(extents[axis]) * step).reshape(along)
            found.append(place)
        return tuple(found)

    def check(self, kind: str, extents: Shape) -> None:
        """Raise ShapeError where a place lies outside the tensor."""
        require_shape(kind, "stored shape", self.shape)
        if not len(self.shape) == len(self.terms) == len(self.offsets):
            raise ShapeError(f"{kind}: each of {len(self.shape)} dimensions needs one place")
        for d, terms in enumerate(self.terms):
            last = self.offsets[d] + sum((extents[axis] - 1) * step for axis, step in terms)
            if self.offsets[d] < 0 or last >= self.shape[d] or any(s < 1 for _, s in terms):
                raise ShapeError(
                    f"{kind}: dimension {d} of {show_shape(self.shape)} is addressed from "
                    f"{self.offsets[d]} to {last}"
                )

    def read(self, stored: Array, extents: Shape) -> Array:
        """The elements at all steps; an axis that the place does not move along has extent 1."""
        if not self.shape:
            return stored.reshape([1] * len(extents))
        return stored[self.index(extents)]


def straight(shape: Shape, axes: tuple[int, ...] | None = None) -> Access:
    """A tensor whose dimensions are these axes, or all in order."""
    named = range(len(shape)) if axes is None else axes
    return Access(shape, tuple(((axis, 1),) for axis in named), (0,) * len(shape))


class _Stored(Protocol):
    @property
    def input_shapes(self) -> tuple[Shape, ...]: ...
    @property
    def out_shape(self) -> Shape: ...


class _InMemory(Typed):
    """An operator on tensors as they lie: it is computed whole."""

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
        require_float(self.kind, self.numerics)
        for access in (self.result, *self.operands):
            access.check(self.kind, self.extents)
        idle = [i for i, n in enumerate(self.extents) if n > 1 and i not in self.result.axes]
        if idle:
            raise ShapeError(f"map: axis {idle[0]} does not move the place in the result")
        if operand_count(parse_scalar(self.expression)) > len(self.operands):
            raise ShapeError(
                f"map: {self.expression[:60]!r} reads more than {len(self.operands)} operands"
            )

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
        """Extents and expression."""
        return f"map {show_shape(self.extents)}: {self.expression}"

    def reference(self, *operands: Array) -> Array:
        """In double precision; zero where nothing is written."""
        inputs = in_double(self, operands)
        elements = [a.read(x, self.extents) for a, x in zip(self.operands, inputs, strict=True)]
        with np.errstate(all="ignore"):
            found = parse_scalar(self.expression).value(elements)
        return self._stored(np.broadcast_to(np.asarray(found, np.float64), self.extents))

    def _stored(self, values: Floats) -> Array:
        whole = np.zeros(self.result.shape)
        whole[self.result.index(self.extents)] = values
        return rounded(self, whole)


@dataclass(frozen=True)
class Reduction(_InMemory):
    """The result's places hold `finish` (over x0) of the sum or the largest of `expression` (over
    x0) along the last axes, those beyond the result's `kept` ones.
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
        for access in (self.result, self.operand):
            access.check(self.kind, self.extents)
        if not 0 <= self.kept <= len(self.extents) or max(self.result.axes, default=-1) >= (
            self.kept
        ):
            raise ShapeError(f"reduce: the result has axes beyond the {self.kept} that are kept")

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
        """One per element that is gathered, and those of the expressions."""
        each = operations(parse_scalar(self.expression)) + 1
        last = operations(parse_scalar(self.finish))
        return prod(self.extents) * each + prod(self.extents[: self.kept]) * last

    def describe(self) -> str:
        """Extents, function and expressions."""
        kept, gathered = self.extents[: self.kept], self.extents[self.kept :]
        return f"{self.function} {show_shape(kept)} over {show_shape(gathered)}"

    def reference(self, *operands: Array) -> Array:
        """In double precision; zero where nothing is written."""
        (x,) = in_double(self, operands)
        with np.errstate(all="ignore"):
            each = parse_scalar(self.expression).value([self.operand.read(x, self.extents)])
            along = tuple(range(self.kept, len(self.extents)))
            gather = np.add if self.function == "sum" else np.fmax
            gathered = gather.reduce(np.broadcast_to(each, self.extents), axis=along)
            found = np.asarray(parse_scalar(self.finish).value([gathered]), np.float64)
        whole = np.zeros(self.result.shape)
        whole[self.result.index(self.extents[: self.kept])] = found
        return rounded(self, whole)
