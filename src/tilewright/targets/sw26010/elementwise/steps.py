"""Operations of an expression on successive items, each operation for all of them.

In: operations on numbered values, the registers of some values, and free registers for others. Out:
instructions. Constants without a register are loaded from the frame at each use. The core's vector
loads and stores take four contiguous, aligned elements, and its integer instructions work on the
first lane; other elements and lanes are reached by inserting and extracting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tilewright.common.errors import ProgramError
from tilewright.isa import Instruction, Register
from tilewright.targets.sw26010.elementwise.code import (
    STACK,
    constant_to_lanes,
    load_item,
    op,
    scaled_add,
    store,
    with_number,
)
from tilewright.targets.sw26010.elementwise.functions import EXPONENT_BIT, POWER
from tilewright.targets.sw26010.elementwise.logarithms import EXPONENT, MANTISSA
from tilewright.targets.sw26010.elementwise.loops import WORD
from tilewright.targets.sw26010.elementwise.sums import Sums
from tilewright.targets.sw26010.gemm.parts import instruction
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES, Precision

Access: TypeAlias = Callable[[Precision, str], str]
"""The instruction that loads or stores in a mode."""
LanesAccess: TypeAlias = Callable[[Precision, int, int, tuple[int, int]], list[Instruction]]
_ELEMENTS = "elements"


@dataclass(frozen=True)
class Chunk:
    """Elements of a row processed together: `items` vectors, groups of lanes, single elements."""

    mode: str
    items: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.items * (1 if self.mode == _ELEMENTS else VECTOR_LANES)


def loaded_lanes(
    precision: Precision, register: int, single: int, walk: tuple[int, int]
) -> list[Instruction]:
    """Load four strided elements into a register through `single`; `walk` has the pointer, which
    ends after the last one, and the register of its step.
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
    """Move the bits of each lane to the exponent of a double."""
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


_LONG, _MANY = (*LANE_WORKS, "vdivd", "vsqrtd"), 32
"""Operations that take long, and a number of others that together do."""


def takes_long(sums: Sums) -> bool:
    """True if the operations take long enough for gathering strided elements to pay."""
    return len(sums.steps) > _MANY or any(name in _LONG for name, _, _ in sums.steps)


@dataclass
class Steps:
    """The operations of `sums`. `fixed` are the registers of values shared by all items, `free`
    those for others; `lanes` of each register are in use, and `text` names the expression.
    """

    sums: Sums
    fixed: Mapping[int, int]
    free: deque[int]
    constants_at: int
    lanes: int
    text: str
    code: list[Instruction] = field(default_factory=list)

    def append(
        self,
        places: Sequence[dict[int, int]],
        left: Sequence[list[int]],
        fetched: Callable[[int, int], int] | None = None,
        totals: Sequence[int] = (),
    ) -> None:
        """Append the operations. `places` are each item's registers by value, `left` the uses of
        values that remain; `fetched` loads a value of an item that has no register yet. If there
        are `totals`, they take the result of the last operation.
        """
        last = self.sums.steps[-1][2] if totals else None
        for mnemonic, sources, target in self.sums.steps:
            shared = {**self.fixed, **self._constants(sources)}
            for item, place in enumerate(places):
                for value in sources:
                    if fetched and value not in shared and value not in place:
                        place[value] = fetched(value, item)
                given = [shared[v] if v in shared else place[v] for v in sources]
                if mnemonic in LANE_WORKS:
                    place[target] = self._by_lanes(mnemonic, given)
                    self.release(sources, place, left[item])
                    continue
                self.release(sources, place, left[item])
                place[target] = totals[item] if target == last else self.taken()
                self.code.append(op(mnemonic, *given, place[target]))
            self.free.extend(r for v, r in shared.items() if v not in self.fixed)

    def release(self, values: Sequence[int], place: Mapping[int, int], left: list[int]) -> None:
        """Count one use of each value; registers without further uses become free."""
        for value in values:
            left.remove(value)
            if value not in left and value in place and value not in self.fixed:
                self.free.append(place[value])

    def taken(self) -> int:
        """A register for a value."""
        if not self.free:
            raise ProgramError(f"{self.text[:60]!r} has more values than registers")
        return self.free.popleft()

    def _constants(self, sources: Sequence[int]) -> dict[int, int]:
        """Load the constants that lie in memory, for all items; returns their registers."""
        found: dict[int, int] = {}
        for value in sources:
            if value < 0 and value not in self.fixed and value not in found:
                found[value] = self.taken()
                place = (WORD * (-1 - value) + self.constants_at, STACK)
                self.code.append(op("ldde", found[value], place))
        return found

    def _by_lanes(self, mnemonic: str, given: Sequence[int]) -> int:
        count, work = LANE_WORKS[mnemonic]
        target, *singles = (self.taken() for _ in range(1 + count))
        self.code += work(given, target, singles, self.lanes)
        self.free.extend(singles)
        return target


def stored_constants(numbers: Sequence[float], place: int, turns: deque[int]) -> list[Instruction]:
    """Constants to the frame from byte `place` on, by way of registers in turn."""
    code: list[Instruction] = []
    for number, value in enumerate(numbers):
        *bits, _ = constant_to_lanes(value, turns[0])
        code += [*bits, op("stl", turns[0], (place + WORD * number, STACK))]
        turns.rotate(-1)
    return code
