"""Rules for the element types of a call's operands, which primitives combine in their checks.

Most primitives compute with one type; others override `check`.
"""

from __future__ import annotations

from tilewright.common.dtypes import DType, dtype
from tilewright.ir.nodes import Operand
from tilewright.ir.place import Place
from tilewright.ir.primitive import Primitive
from tilewright.ir.printer import print_operand


def element_types(operands: tuple[Operand, ...], place: Place) -> list[DType]:
    """The element type of each operand."""
    return [dtype(place.program.element_type(operand)) for operand in operands]


def check_one_type(primitive: Primitive, operands: tuple[Operand, ...], place: Place) -> None:
    """Raise ProgramError unless all operands have one type."""
    kinds = element_types(operands, place)
    for operand, kind in zip(operands, kinds, strict=True):
        if kind != kinds[0]:
            raise place.error(
                f"{print_operand(operand)} is of {kind}, the first operand of {primitive.name} "
                f"of {kinds[0]}",
                "give both one element type",
            )


def check_floating(primitive: Primitive, operands: tuple[Operand, ...], place: Place) -> None:
    """Raise ProgramError unless all operands have one floating-point type."""
    check_one_type(primitive, operands, place)
    kind = element_types(operands, place)[0]
    if not kind.is_float:
        raise place.error(f"{primitive.name} computes in floating point, not in {kind}")


def check_whole(primitive: Primitive, operands: tuple[Operand, ...], place: Place) -> None:
    """Raise ProgramError for an attribute with a fraction if the operands are integers."""
    kind = element_types(operands, place)[0]
    for name, value in primitive.attributes():
        if not kind.is_float and isinstance(value, float) and not value.is_integer():
            raise place.error(
                f"{primitive.name} of {kind} has {name} = {value:g}", "give a whole number"
            )
