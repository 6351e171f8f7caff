"""Looking elements up in a table (ICSI TR-93-046, 4.2.3: the sigmoid function of sums)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tilewright.ir.nodes import Operand
from tilewright.ir.place import Place
from tilewright.ir.primitive import Argument, Array, Primitive
from tilewright.ir.primitives.registry import register
from tilewright.ir.verify_types import element_types


def table_index(x: Array, entries: int, shift: int) -> Array:
    """The index x / 2 ** `shift`, rounded down and counted from the middle of the table, clamped to
    its ends.
    """
    middle = entries // 2
    shifted = np.asarray(x, np.int64) >> shift
    return np.asarray(np.clip(shifted + middle, 0, entries - 1))


@register
class Lookup(Primitive, frozen=True):
    """y = table[x over 2 ** `shift`, counted from the middle of the table, which lies along k]."""

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
