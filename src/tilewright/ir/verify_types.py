"""What the verifier demands of the element types of a call's operands.

A primitive computes with one type, with two exceptions: a matrix product of integers may have
operands that are narrower than its sums, and `requantise` makes one integer type of another.
"""

from __future__ import annotations

from tilewright.common.dtypes import DType, dtype
from tilewright.common.fixed_point import ROUNDINGS
from tilewright.ir.nodes import Call
from tilewright.ir.place import Place
from tilewright.ir.printer import print_operand


def check_types(call: Call, place: Place) -> None:
    """Raise ProgramError where the operands' element types do not go together."""
    kinds = [dtype(place.program.element_type(operand)) for operand in call.operands]
    if call.primitive == "requantise":
        _check_requantise(call, kinds, place)
    elif call.primitive == "gemm" and not any(kind.is_float for kind in kinds):
        _check_product(call, kinds, place)
    else:
        _check_one_type(call, kinds, place)


def _check_one_type(call: Call, kinds: list[DType], place: Place) -> None:
    for operand, kind in zip(call.operands, kinds, strict=True):
        if kind != kinds[0]:
            raise place.error(
                f"{print_operand(operand)} is of {kind}, the first operand of {call.primitive} "
                f"of {kinds[0]}",
                "give both one element type",
            )
    if kinds[0].is_float:
        return
    if call.primitive.startswith("winograd"):
        raise place.error(f"{call.primitive} computes in floating point, not in {kinds[0]}")
    for name in ("value", "alpha", "beta"):
        value = float(call.attribute(name, 0.0))
        if value != int(value):
            raise place.error(
                f"{call.primitive} of {kinds[0]} has {name} = {value:g}", "give a whole number"
            )


def _check_product(call: Call, kinds: list[DType], place: Place) -> None:
    sums, a, b = kinds
    for operand, kind in zip(call.operands, kinds, strict=True):
        if kind.size_bytes > sums.size_bytes:
            raise place.error(
                f"{print_operand(operand)} is of {kind}, wider than the sums of {sums}",
                "give the sums as many bits",
            )
    if sums.fraction_bits != a.fraction_bits + b.fraction_bits:
        raise place.error(
            f"products of {a} and {b} have {a.fraction_bits + b.fraction_bits} fraction bits, "
            f"the sums of {sums} have {sums.fraction_bits}",
            "give the sums as many",
        )


def _check_requantise(call: Call, kinds: list[DType], place: Place) -> None:
    result, sums = kinds
    if result.is_float or sums.is_float:
        raise place.error(f"requantise makes integers of integers, not {result} of {sums}")
    shift, bits = call.attribute("shift", 0), sums.fraction_bits - result.fraction_bits
    if shift != bits or bits < 0:
        raise place.error(
            f"requantise shifts {sums} by {shift} bits, to {result} it is {bits}",
            f"shift={bits}" if bits >= 0 else "give the result fewer fraction bits",
        )
    rounding = call.attribute("rounding", "even")
    if rounding not in ROUNDINGS:
        known = ", ".join(ROUNDINGS)
        raise place.error(f"requantise knows no rounding {rounding!r}", f"use one of {known}")
