"""Primitives that compute arbitrary scalar functions: elementwise (`map`), or gathered along axes
(`reduce`, windows included). They compute in double precision and round once per call; `map` also
computes in integers, which wrap. Look-ups index a table (ICSI TR-93-046, 4.2.3: the sigmoid
function of sums).
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import numpy as np

from tilewright.common.dtypes import DType, converted, dtype, dtype_of
from tilewright.common.errors import ProgramError
from tilewright.ir.nodes import Operand
from tilewright.ir.place import Place
from tilewright.ir.primitive import Argument, Array, Primitive
from tilewright.ir.primitives.registry import register
from tilewright.ir.scalar import (
    Apply,
    Element,
    Scalar,
    check_floats,
    integral,
    operand_count,
    parse_scalar,
    renumbered,
    wrapped,
)
from tilewright.ir.verify_types import check_floating, element_types


def table_index(x: Array, entries: int, shift: int) -> Array:
    """The index x / 2 ** `shift`, rounded down, from the table's middle, clamped to its ends."""
    middle = entries // 2
    shifted = np.asarray(x, np.int64) >> shift
    return np.asarray(np.clip(shifted + middle, 0, entries - 1))


@register
class Lookup(Primitive, frozen=True):
    """y = table[x over 2 ** `shift`, relative to the table's middle]; the table's axis is k."""

    name: ClassVar[str] = "lookup"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("", "writes"),
        Argument(""),
        Argument("k"),
    )
    broadcasts: ClassVar[bool] = True

    shift: int = 0

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        y, x, table = operands
        entries = table.shape[2]
        index = np.broadcast_to(table_index(x, entries, self.shift), y.shape)
        cores = y.shape[:2]
        found = np.take_along_axis(
            table.reshape(*cores, entries), index.reshape(*cores, -1), axis=2
        )
        return found.reshape(y.shape)

    def dependence(self, operands: tuple[Array, ...]) -> Array:
        y, x, table = operands
        total: Array = np.zeros(y.shape) + 0.0 * x + (0.0 * table).sum(axis=2)
        return total

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        if len(operands) != len(self.arguments):
            raise place.error(f"{self.name} takes 3 operands, found {len(operands)}")
        result, index, element = element_types(operands, place)
        if index.kind != "integer" or result != element:
            raise place.error(
                f"lookup takes integers and gives elements of its table, found {index} for the "
                f"integers, {element} for the table and {result} for the result"
            )
        roles = operands[-1].roles.replace(".", "")
        if set(roles) != {"k"}:
            raise place.error(f"the table of lookup lies along k alone, found the roles {roles!r}")


Gathering: TypeAlias = Literal["sum", "max", "prod"]
_GATHERED: dict[Gathering, np.ufunc] = {"sum": np.add, "max": np.fmax, "prod": np.multiply}
STARTS: dict[Gathering, float] = {"sum": 0.0, "max": -np.inf, "prod": 1.0}
"""The neutral element of each gather."""


class ScalarPrimitive(Primitive, frozen=True):
    """A primitive that evaluates an expression over elements."""

    @property
    def scalar(self) -> Scalar:
        """The parsed expression; raises ProgramError if it cannot be parsed."""
        raise NotImplementedError

    @property
    def in_floats(self) -> bool:
        """True if the primitive computes in floating point."""
        return True

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        self.check_types(operands, place)
        try:
            needed = operand_count(self.scalar)
            if self.in_floats:
                check_floats(self.scalar)
        except ProgramError as error:
            raise place.error(error.message, error.fix) from error
        if needed > len(operands) - 1:
            raise place.error(
                f"{self.name} of {str(self.scalar)[:60]!r} reads {needed} operands, "
                f"found {len(operands) - 1}"
            )

    def check_types(self, operands: tuple[Operand, ...], place: Place) -> None:
        """Raise ProgramError unless all operands have one floating-point type."""
        check_floating(self, operands, place)


@register
class Map(ScalarPrimitive, frozen=True):
    """y = the expression over the elements x0, x1, ... of the further operands.

    `dtype` is the type that integers are computed in; results wrap to it, then to the type of y.
    For floats it is given if an operand or y has another type.
    """

    name: ClassVar[str] = "map"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "writes"), Argument(""))
    broadcasts: ClassVar[bool] = True

    expression: str = "x0"
    dtype: str | None = None

    @property
    def scalar(self) -> Scalar:
        return parse_scalar(self.expression)

    @property
    def computed_in(self) -> str | None:
        return self.dtype

    @property
    def in_floats(self) -> bool:
        return self.dtype is None or dtype(self.dtype).is_float

    def check_types(self, operands: tuple[Operand, ...], place: Place) -> None:
        """Integer operands may be narrower than `dtype`; floats accept operands of any type."""
        if self.dtype is None:
            super().check_types(operands, place)
            return
        if self.in_floats:
            return
        try:
            integral(self.scalar)
        except ProgramError as error:
            raise place.error(error.message, error.fix) from error
        kinds = (dtype(self.dtype), *element_types(operands, place))
        for kind in kinds:
            if kind.kind != "integer" or kind.size_bytes > kinds[0].size_bytes:
                raise place.error(f"map computes integers in {kinds[0]}, found {kind}")

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        y, *inputs = operands
        if not self.in_floats and self.dtype is not None:
            whole = wrapped(self.scalar, inputs, dtype(self.dtype))
            return np.broadcast_to(whole, y.shape).astype(y.dtype)
        with np.errstate(all="ignore"):  # infinities and NaN are results, too
            found = self.scalar.value([np.asarray(x, np.float64) for x in inputs])
            whole = np.broadcast_to(np.asarray(found, np.float64), y.shape)
            return np.asarray(converted(whole, dtype_of(y.dtype)))

    def dependence(self, operands: tuple[Array, ...]) -> Array:
        y, *inputs = operands
        return np.zeros(y.shape) + sum(0.0 * x for x in inputs)


@register
class Accumulate(ScalarPrimitive, frozen=True):
    """y = the sum, product or maximum of y and the expression over the elements x0, x1, ... of the
    further operands: one step of a gather whose axes are loops. Runs as a `map`.
    """

    name: ClassVar[str] = "accumulate"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "accumulates"), Argument(""))
    broadcasts: ClassVar[bool] = True

    function: Gathering
    expression: str = "x0"

    @property
    def scalar(self) -> Scalar:
        return parse_scalar(self.expression)

    @property
    def executed(self) -> Map:
        count = operand_count(self.scalar)
        each = renumbered(self.scalar, [Element(i + 1) for i in range(count)])
        taken = {"sum": "+", "max": "max", "prod": "*"}[self.function]
        return Map(str(Apply(taken, (Element(0), each))))

    def start(self, kind: DType) -> float:
        return STARTS[self.function]

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        return self.executed.meaning((operands[0], *operands))


@register
class Reduce(ScalarPrimitive, frozen=True):
    """y = the sum, product or maximum of y and the expression over x0 along axis k; the maximum
    skips NaN.
    """

    name: ClassVar[str] = "reduce"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("", "accumulates"), Argument("k"))

    function: Gathering
    expression: str = "x0"

    @property
    def scalar(self) -> Scalar:
        return parse_scalar(self.expression)

    def start(self, kind: DType) -> float:
        return STARTS[self.function]

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        y, x = operands
        with np.errstate(all="ignore"):
            each = np.asarray(self.scalar.value([np.asarray(x, np.float64)]))
        gather = _GATHERED[self.function]
        gathered = gather.reduce(np.broadcast_to(each, x.shape), axis=2)
        total: Array = gather(np.asarray(y, np.float64), gathered).astype(y.dtype)
        return total

    def dependence(self, operands: tuple[Array, ...]) -> Array:
        y, x = operands
        total: Array = y + (0.0 * x).sum(axis=2)
        return total
