"""Primitives: objects with a name, typed attributes, operands, a meaning and limits.

A tensorised primitive is the computation of a core in one call (swATOP 4.1). Each is a subclass of
`Primitive` with its attributes as fields, and a call in a program holds an instance. Costs and code
depend on the machine: families register both by type. Shipped primitives are in `ir.primitives`; a
family may add more in its module `primitives`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy.typing as npt
from msgspec import Struct

from tilewright.common.dtypes import DType
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Value

if TYPE_CHECKING:
    from tilewright.ir.nodes import Operand
    from tilewright.ir.place import Place

Array = npt.NDArray[Any]
Attribute: TypeAlias = "str | int | float"
Access = Literal["reads", "writes", "accumulates"]


@dataclass(frozen=True)
class Argument:
    """One operand of a primitive: its leading axes, one letter each, and how it is accessed.

    An operand that is accumulated into must have been initialised.
    """

    axes: str
    access: Access = "reads"


class Primitive(Struct, frozen=True, forbid_unknown_fields=True):
    """A primitive with the values of its attributes; equal types and attributes compare equal.

    A call's operands carry one role letter per dimension. Equal letters are the same axis in all
    operands; several dimensions of one letter are that axis, flattened in order. Besides the axes
    of `arguments`, operands have the other axes of the first one, unless the primitive is `closed`.
    A primitive that `broadcasts` accepts one or more operands like its last argument, and repeats
    them along axes that they lack. A primitive `by_elements` computes each element of the result
    from elements at the same index. Fetches of the next tile are spread between calls of one that
    `spreads`. Fields that are None are absent from the text form.
    """

    name: ClassVar[str]
    arguments: ClassVar[tuple[Argument, ...]]
    broadcasts: ClassVar[bool] = False
    closed: ClassVar[bool] = False
    by_elements: ClassVar[bool] = False
    spreads: ClassVar[bool] = False

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        """The new value of the first operand, from the operands' local tiles: arrays of shape (mesh
        rows, mesh columns, axes in the order of `axes_of`).
        """
        raise ProgramError(
            f"primitive {self.name!r} has no meaning, so its programs cannot be interpreted",
            fix="define `meaning` in its class",
        )

    def dependence(self, operands: tuple[Array, ...]) -> Array:
        """NaN wherever the new value depends on a NaN. Defaults to `meaning`; overridden where that
        skips NaN.
        """
        return self.meaning(operands)

    def start(self, kind: DType) -> float:
        """Initial value of the first operand if the primitive accumulates into it."""
        del kind
        return 0.0

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        """The primitive's own limits, beyond the rules for all calls; raises ProgramError."""

    def flops(self, dims: Mapping[str, Value], mesh_columns: int) -> Value:
        """Floating-point operations of one core in one call that count towards its peak.

        `dims` are the extents of the axes on one core.
        """
        del dims, mesh_columns
        return 0

    @property
    def computed_in(self) -> str | None:
        """The element type that the core computes in, if it is not the first operand's."""
        return None

    def buffers(self) -> tuple[str, ...]:
        """The buffers that a call uses besides its operands."""
        return ()

    def renamed(self, name: Callable[[str], str]) -> Self:
        """The primitive with its buffers renamed by `name`."""
        del name
        return self

    @property
    def accumulates(self) -> bool:
        """True if the primitive accumulates into its first operand."""
        return self.arguments[0].access == "accumulates"

    @property
    def executed(self) -> Primitive:
        """The primitive that machines execute in its place; itself by default."""
        return self

    @property
    def replaces(self) -> bool:
        """True if the result does not depend on the first operand's old value."""
        return not self.accumulates and len(self.arguments) > 1

    @property
    def axes(self) -> str:
        """The letters of the primitive's own axes, each once."""
        return "".join(dict.fromkeys("".join(a.axes for a in self.arguments)))

    def axes_of(self, operand: int, rest: str = "") -> str:
        """The axes of operand number `operand` if the first operand has the further axes `rest`."""
        return self.arguments[min(operand, len(self.arguments) - 1)].axes + rest

    def attributes(self) -> tuple[tuple[str, Attribute], ...]:
        """Name and value of each attribute that is not None, as in the text form."""
        named = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return tuple((name, value) for name, value in named if value is not None)
