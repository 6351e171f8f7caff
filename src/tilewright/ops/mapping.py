"""Definitions on tensors as stored in memory: the stages of a network besides its products.

A stage computes an `InMemory` as it is: an expression for each element, or elements gathered along
axes, windows included. An `Access` maps steps of the axes to elements of a stored tensor. So a
change of layout, a border, a part of a larger tensor or a broadcast is the same operator with
another access.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from tilewright.common.dtypes import BOOL
from tilewright.common.errors import ProgramError, ShapeError
from tilewright.ir.primitives.maps import STARTS
from tilewright.ir.scalar import check_floats, integral, numbers_of, operand_count, parse_scalar
from tilewright.ops.access import straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Definition
from tilewright.ops.numerics import require_float
from tilewright.ops.op import OPERATORS, Maker, require_positive, show_shape
from tilewright.ops.piece import Divided

_GATHERED = {"sum": "sum", "max": "largest", "prod": "product"}
_INTEGER_OPERANDS = 4


@dataclass(frozen=True)
class InMemory(Definition):
    """A definition on tensors as stored, always computed whole. Elements of the result that no step
    writes keep their value. The axes of the result come first, gathered axes last.

    Only floats are gathered; indices may lie beyond a tensor if the fill is neutral to the gather.
    Raises ShapeError for a definition that no stage computes.
    """

    is_named: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gather is None:
            self._require_mapped()
        else:
            self._require_gathered()

    def _require_mapped(self) -> None:
        if any(access.fill is not None for access in self.operands):
            raise ShapeError("map: only what a reduction gathers may lie beyond a tensor")
        if self.numerics.is_float:
            _require_floats("map", self.body, self.finish)
        else:
            self._require_wrapping()

    def _require_gathered(self) -> None:
        require_float("reduce", self.numerics)
        _require_floats("reduce", self.body, self.finish)
        if self.gather not in STARTS or self.has_look_ups:
            raise ShapeError(f"reduce: no stage gathers by {self.gather} what is looked up")
        between = [a for a in self.gathered if a < self.outer and self.extents[a] > 1]
        if between:
            raise ShapeError(f"reduce: axis {between[0]} stands before those of the result")
        self._require_neutral()

    def _require_neutral(self) -> None:
        """Refuse a fill that is not neutral: where one operand ends and others do not, the body
        must yield the gather's start value.
        """
        neutral = STARTS[self.gather]  # type: ignore[index]  # one of these
        for number, access in enumerate(self.operands):
            if access.fill is None:
                continue
            others = np.array([-1.0, 1.0, 3.0])
            given = [np.array(access.fill) if i == number else others
                     for i in range(len(self.operands))]  # fmt: skip
            found = np.asarray(self.scalar.value(given))
            if not np.all(found == neutral):
                raise ShapeError(
                    f"reduce: places beyond the tensor would count as "
                    f"{float(found.flat[0])!r} in a {self.gather}, of which {neutral!r} changes "
                    "nothing"
                )

    def _require_wrapping(self) -> None:
        """Require integers that wrap, so that results do not depend on the order of operations."""
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
        low, high = numerics.sums.limits
        for number in numbers_of(integral(self.scalar)):
            if not low <= number <= high:
                raise ShapeError(f"map: {number} is no {numerics.sums}, which has {low} to {high}")

    @property
    def kind(self) -> str:
        return "map" if self.gather is None else "reduce"

    @property
    def _word(self) -> str:
        return self.kind

    @cached_property
    def is_contraction(self) -> bool:
        return False

    @property
    def in_memory(self) -> InMemory:
        return self

    @cached_property
    def outer(self) -> int:
        """The number of axes before the gathered ones."""
        if self.gather is None:
            return len(self.extents)
        if self.result.axes:
            return max(self.result.axes) + 1
        longer = (a for a, n in enumerate(self.extents) if n > 1)
        return next(longer, len(self.extents))

    def describe(self) -> str:
        """Extents and expression; `copy` if the body is x0, `fill` if there is no operand."""
        every = show_shape(self.extents)
        if self.gather is not None:
            kept, gathered = self.extents[: self.outer], self.extents[self.outer :]
            return f"{self.gather} {show_shape(kept)} over {show_shape(gathered)}"
        if not self.operands:
            return f"fill {every} with {self.body}"
        return f"copy {every}" if self.body == "x0" else f"map {every}: {self.body}"

    def in_words(self) -> str:
        """The computation in words."""
        if self.gather is None:
            what = "elements" if self.operands else "places"
            return f"y = {self.body} for {show_shape(self.extents)} {what}"
        kept, gathered = self.extents[: self.outer], self.extents[self.outer :]
        rows, window = show_shape(kept) or "1", show_shape(gathered) or "1"
        what = f"y = the {_GATHERED[self.gather]} of {self.body}"
        last = "" if self.finish == "x0" else f", and of that {self.finish}"
        return f"{what} over {window} elements, {rows} times{last}"

    # Stages compute the whole result, so regions and parts are whole, too.

    @cached_property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        """None of the dimensions."""
        return frozenset()

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        return Box.whole(self.out_shape)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        return tuple(map(Box.whole, self.input_shapes))

    def part(self, result: Box, terms: Box | None = None) -> InMemory:
        return self

    def divided(self, groups: int) -> Divided:
        return []


def _require_floats(kind: str, *expressions: str) -> None:
    """Raise ShapeError for functions that are undefined on floats."""
    for expression in expressions:
        try:
            check_floats(parse_scalar(expression))
        except ProgramError as error:
            raise ShapeError(f"{kind}: {error.message}", fix=error.fix) from error


def mapping(n: int, expression: str, *, dtype: str = "f64") -> InMemory:
    """An expression over x0, x1, ... for each of `n` elements. Raises ShapeError if it reads no
    element, ProgramError if it cannot be parsed.

    >>> mapping(3, "2 * (x0 - x1)", dtype="i8:i32:i16:even:wrap").out_dtype
    'i16'
    """
    require_positive("map", n=n)
    count = operand_count(parse_scalar(expression))
    if count == 0:
        raise ShapeError(f"map: {expression[:60]!r} reads no element", fix="name x0 in it")
    place = straight((n,))
    return InMemory((n,), place, (place,) * count, expression, dtype=dtype)


OPERATORS["map"] = Maker(InMemory, mapping)
