"""Along the elements of one result that lie contiguous: eight partial results, then the rest.

In: a routine whose operands lie so, and a mode. Out: blocks of code that gather one run to the
result's register. Partial results start with what changes nothing; result number i of them takes
elements i, i + 8, ...; at the end of the run those four apart are joined, then those two apart,
then the two that are left, with the result. Elements behind the last eight follow one by one.
"""

from __future__ import annotations

from tilewright.isa import Instruction, Register
from tilewright.targets.sw26010.elementwise.code import STACK, load, move, op, with_number
from tilewright.targets.sw26010.elementwise.reduce import (
    AT,
    ELEMENTS,
    FROM,
    LANES,
    LENGTH,
    PARTS,
    TRIPS,
    VECTORS,
    Items,
    ReduceRoutine,
)
from tilewright.targets.sw26010.elementwise.steps import WORD
from tilewright.targets.sw26010.gemm.parts import instruction
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES

Block = tuple[str, list[Instruction]]
_BATCH = 2
"""Elements that are loaded before they are taken in, which need registers."""
_SAME, _UPPER = 0b11100100, 0b11101110
"""The lanes of a shuffle: those of the register itself, and its upper two twice."""


class Along:
    """The code of one result's runs."""

    def __init__(self, routine: ReduceRoutine, mode: str, memory: int = 0) -> None:
        self.routine, self.mode = routine, LANES if routine.by_lanes and mode != VECTORS else mode
        self.items = Items(routine, mode, 1, memory)
        size = 1 if self.mode == ELEMENTS else VECTOR_LANES
        self.parts = [self.items.taken() for _ in range(PARTS // size)]
        self.item_bytes = size * routine.precision.element_bytes

    def run(self, prefix: str) -> list[Block]:
        """Blocks that gather a run; the last one is behind it."""
        items = self.items
        ends = [self._neutral(part) for part in self.parts]
        shift = PARTS.bit_length() - 1
        ends += [move(AT, FROM), with_number("srl", LENGTH, shift, TRIPS)]
        rest = [with_number("and", LENGTH, PARTS - 1, TRIPS), op("beq", TRIPS, f"{prefix}_end")]
        single = self._elements(items.totals, 1)
        return [
            ("", [*ends, op("beq", TRIPS, f"{prefix}_rest")]),
            (f"{prefix}_eight", self._again(self._eight(), f"{prefix}_eight")),
            ("", self._joined()),
            (f"{prefix}_rest", rest),
            (f"{prefix}_single", self._again(single, f"{prefix}_single")),
            (f"{prefix}_end", []),
        ]

    def _neutral(self, part: int) -> Instruction:
        if self.routine.constants_in_memory:
            last = WORD * (len(self.routine.constants) - 1)
            return op("ldde", part, (self.items.memory + last, STACK))
        return _shuffled(self.routine.constant_registers[-1], part, _SAME)

    def _again(self, body: list[Instruction], label: str) -> list[Instruction]:
        return [*body, with_number("subl", TRIPS, 1, TRIPS), op("bne", TRIPS, label)]

    def _eight(self) -> list[Instruction]:
        code: list[Instruction] = []
        batch = 1 if self.routine.short else _BATCH
        for start in range(0, len(self.parts), batch):
            code += self._taken_in(self.parts[start : start + batch], start, self.mode)
        return [*code, move(FROM, FROM, PARTS * self.routine.precision.element_bytes)]

    def _elements(self, totals: list[int], count: int) -> list[Instruction]:
        code = self._taken_in(totals, 0, ELEMENTS)
        return [*code, move(FROM, FROM, count * self.routine.precision.element_bytes)]

    def _taken_in(self, totals: list[int], first: int, mode: str) -> list[Instruction]:
        loads = []
        for i in range(len(totals)):
            register = self.items.taken()
            place = ((first + i) * self.item_bytes, FROM)
            code = [op(load(self.routine.precision, mode), register, place)]
            if mode == LANES:
                code = self.items.lanes(register, FROM, first + i, 1)
            loads.append((register, code))
        return self.items.gathered(totals, loads, mode)

    def _joined(self) -> list[Instruction]:
        """The partial results with each other, and the last one with the result."""
        items, parts, code = self.items, list(self.parts), []
        if self.mode != ELEMENTS:
            code += self._join(parts[0], parts[1])
            code += self._lanes(parts[0], parts[1], _UPPER)
            code += self._lanes(parts[0], parts[1], 1)
        while len(parts) > 1 and self.mode == ELEMENTS:
            half = len(parts) // 2
            for one, other in zip(parts[:half], parts[half:], strict=True):
                code += self._join(one, other)
            parts = parts[:half]
        return [*code, *self._join(items.totals[0], parts[0])]

    def _lanes(self, part: int, other: int, selection: int) -> list[Instruction]:
        return [_shuffled(part, other, selection), *self._join(part, other)]

    def _join(self, total: int, part: int) -> list[Instruction]:
        if self.routine.function == "sum":
            return [op("vaddd", total, part, total)]
        larger = self.items.taken()
        self.items.free.append(larger)
        return [op("vfcmplt", total, part, larger), op("vseleq", larger, total, part, total)]


def _shuffled(source: int, target: int, selection: int) -> Instruction:
    return instruction("vshff", Register(source), Register(source), selection, Register(target))
