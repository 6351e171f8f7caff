"""Four elements that lie apart to the lanes of a register and back, and powers of two of lanes.

The core's loads and stores of vectors take four elements that lie contiguous and aligned, and its
integer instructions work on the first lane: others are reached by inserting and extracting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.isa import Instruction, Register
from tilewright.targets.sw26010.elementwise.code import (
    load_item,
    op,
    scaled_add,
    store,
    with_number,
)
from tilewright.targets.sw26010.elementwise.functions import EXPONENT_BIT, POWER
from tilewright.targets.sw26010.elementwise.logarithms import EXPONENT, MANTISSA
from tilewright.targets.sw26010.gemm.parts import instruction
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES, Precision

Access: TypeAlias = Callable[[Precision, str], str]
"""The instruction that loads or stores in a mode."""
LanesAccess: TypeAlias = Callable[[Precision, int, int, tuple[int, int]], list[Instruction]]
_ELEMENTS = "elements"


@dataclass(frozen=True)
class Chunk:
    """Elements of a row that are processed together: `items` vectors, groups of lanes, or single
    elements.
    """

    mode: str
    items: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.items * (1 if self.mode == _ELEMENTS else VECTOR_LANES)


def loaded_lanes(
    precision: Precision, register: int, single: int, walk: tuple[int, int]
) -> list[Instruction]:
    """Load four strided elements into a register by way of `single`; `walk` is the pointer, which
    ends after the last, and the register of its step.
    """
    name, (pointer, step) = load_item(precision, _ELEMENTS), walk
    code = []
    for lane in range(VECTOR_LANES):
        code.append(op(name, single if lane else register, (0, pointer)))
        code.append(op(scaled_add(precision), step, pointer, pointer))
        if lane:
            code.append(_inserted(single, register, lane))
    return code


def stored_lanes(
    precision: Precision, register: int, single: int, walk: tuple[int, int]
) -> list[Instruction]:
    """Store the four elements of a register to strided places."""
    name, (pointer, step) = store(precision, _ELEMENTS), walk
    code = []
    for lane in range(VECTOR_LANES):
        if lane:
            code.append(_extracted(register, lane, single))
        code.append(op(name, single if lane else register, (0, pointer)))
        code.append(op(scaled_add(precision), step, pointer, pointer))
    return code


def _powers_of_two(
    given: Sequence[int], target: int, singles: Sequence[int], lanes: int
) -> list[Instruction]:
    """The bits of each lane moved to where a double has its exponent."""
    (shifted,), (single,) = given, singles
    code = [with_number("sll", shifted, EXPONENT_BIT, target)]
    for lane in range(1, lanes):
        code.append(_extracted(shifted, lane, single))
        code.append(with_number("sll", single, EXPONENT_BIT, single))
        code.append(_inserted(single, target, lane))
    return code


def _exponents(
    given: Sequence[int], target: int, singles: Sequence[int], lanes: int
) -> list[Instruction]:
    """The number of doublings from the root of 1/2 to each lane, added to the bits of the shift."""
    (x, root, shift), (single,) = given, singles
    code = []
    for lane in range(lanes):
        to = single if lane else target
        code += [_extracted(x, lane, to)] if lane else []
        code += [op("subl", to if lane else x, root, to)]
        code += [with_number("sra", to, EXPONENT_BIT, to), op("addl", to, shift, to)]
        code += [_inserted(single, target, lane)] if lane else []
    return code


def _mantissas(
    given: Sequence[int], target: int, singles: Sequence[int], lanes: int
) -> list[Instruction]:
    """Each lane with its `shifted` bits subtracted from the exponent."""
    (x, shifted), (single, other) = given, singles
    code = [with_number("sll", shifted, EXPONENT_BIT, single), op("subl", x, single, target)]
    for lane in range(1, lanes):
        code += [_extracted(shifted, lane, other), _extracted(x, lane, single)]
        code += [with_number("sll", other, EXPONENT_BIT, other), op("subl", single, other, single)]
        code.append(_inserted(single, target, lane))
    return code


def _inserted(single: int, register: int, lane: int) -> Instruction:
    whole = Register(register)
    return instruction("vinsf", Register(single), whole, lane, whole)


def _extracted(register: int, lane: int, single: int) -> Instruction:
    return instruction("vextf", Register(register), lane, Register(single))


LaneWork: TypeAlias = Callable[[Sequence[int], int, Sequence[int], int], list[Instruction]]
"""Instructions that compute a target register from given registers, by way of some single ones, in
a number of lanes.
"""
LANE_WORKS: Mapping[str, tuple[int, LaneWork]] = {
    POWER: (1, _powers_of_two),
    EXPONENT: (1, _exponents),
    MANTISSA: (2, _mantissas),
}
"""The operations that the core does on the first lane alone, each with its number of single
registers.
"""
