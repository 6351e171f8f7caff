"""Reductions in SW26010 assembly: y = y gathered with f(x) along loops, row after row of results.

In: what is gathered, the expression, and how a row's operands lie. Out: a routine, whose text is
that of `reduce_text`. Rows whose results lie contiguous and aligned are done four results in
a vector: where the elements do so as well by loads of vectors, else lane by lane. Other rows are
done element by element. Every result takes its elements in the order of the loops. Where the
elements of one result lie contiguous, a routine goes along them in eight partial results, those of
places 0, 1, ... modulo 8, which start with what changes nothing. At the end of each run those four
apart are joined, then those two apart, then the two that are left, with the result; elements behind
the last eight follow one by one. By vectors or by elements, the order is the same.
Arithmetic is in double precision; a store rounds to the elements' type.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from tilewright.common.digest import digest
from tilewright.common.errors import ProgramError
from tilewright.ir.primitives.maps import Gathering
from tilewright.ir.scalar import parse_scalar
from tilewright.isa import Instruction, Register
from tilewright.targets.sw26010.elementwise.code import (
    STACK,
    ZERO,
    load,
    move,
    op,
    scaled_add,
    store,
    with_number,
)
from tilewright.targets.sw26010.elementwise.expression import Arithmetic
from tilewright.targets.sw26010.elementwise.loops import EXTENT, WORD, Block
from tilewright.targets.sw26010.elementwise.steps import Steps, takes_long
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums
from tilewright.targets.sw26010.gemm.parts import instruction
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES, Precision

VECTORS, LANES, ELEMENTS = "vectors", "lanes", "elements"
Y, X, MOVES, LEFT, AT, TAP = 16, 17, 19, 21, 22, 23
Y_STEP, X_STEP, INNER_LEFT = 24, 25, 28
OUTER_LEFT, INNER_MOVE, OUTER_MOVE, OUTSIDE = 0, 1, 2, 3
TO, FROM = 4, 5
"""Pointers that walk over operands whose elements lie apart."""
TRIPS, LENGTH = 6, 7
"""Of a run of elements along which a result is gathered: what is left of it, and its length."""
_FREE, KEPT = (8, 7, 6, 5, 4, 2, 1, 28, 0, 25, 24, 23, 22), (9, 10, 11, 12, 13, 14, 15)
_Y_STEP_AT, _X_STEP_AT = 8 * 5, 8 * 11
"""Where the moves from one result to the next lie among all moves, in bytes."""
_ELEMENT, _GATHERED = 0, 1
"""The numbers of the values that an element is taken in from."""
PARTS = 8
MOST_TAPS = 3


@dataclass(frozen=True)
class Lie:
    """How the operands lie along a row of results.

    `step`: elements of x from one result to the next, which lie contiguous themselves; 0 where that
    is neither 1 nor 2, or results lie apart. The innermost loop that gathers is unrolled where it
    has up to three `taps`; `loops`: whether there are others. `along`: a result's elements lie
    contiguous, and each result is gathered on its own.
    """

    step: int
    taps: int = 1
    loops: bool = False
    along: bool = False

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways in which rows are done, the fastest first."""
        if self.along:
            return VECTORS, ELEMENTS
        return {1: (VECTORS, LANES, ELEMENTS), 2: (LANES, ELEMENTS)}.get(self.step, (ELEMENTS,))


@dataclass(frozen=True)
class ReduceRoutine:
    """The routine of what is gathered; `unrolled` results or vectors of them at a time. Where it is
    `short` of registers, constants and what pointers move by are loaded where they are needed.
    """

    precision: Precision
    function: Gathering
    expression: str
    lie: Lie
    unrolled: int = 1
    short: bool = False

    @property
    def name(self) -> str:
        """Its symbol, which is that of its twin in C."""
        lie = self.lie
        kind = (self.function, self.expression, lie.step, lie.taps, lie.loops, lie.along)
        return f"tw_reduce_{digest(*map(str, kind))[:10]}_{self.precision.name}"

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways in which rows are done, the fastest first."""
        return self.lie.modes

    @cached_property
    def arithmetic(self) -> tuple[Sums, int]:
        """The operations that take in an element, of which the last gives the new result."""
        sums = Sums(count=2)
        value = Arithmetic(sums, [_ELEMENT]).value(parse_scalar(self.expression))
        if self.function == "sum":
            return sums, sums.add("vaddd", _GATHERED, value)
        larger = sums.add("vfcmplt", _GATHERED, value)
        return sums, sums.add("vseleq", larger, _GATHERED, value)

    @property
    def neutral(self) -> float:
        """What a partial result starts with: gathering it changes nothing, zeros' signs neither."""
        return -0.0 if self.function == "sum" else -inf

    @cached_property
    def constants(self) -> tuple[float, ...]:
        """The numbers of the operations, behind them what partial results start with."""
        return (*self.arithmetic[0].constants, *([self.neutral] if self.lie.along else []))

    @property
    def constants_in_memory(self) -> bool:
        """Whether constants are loaded where they are needed: they lie in the frame then."""
        return self.short or len(self.constants) > len(KEPT)

    @property
    def constant_registers(self) -> tuple[int, ...]:
        """Those of the constants, in their order."""
        return () if self.constants_in_memory else tuple(reversed(KEPT))[: len(self.constants)]

    @property
    def moves_in_memory(self) -> bool:
        """Whether what the loops move by is loaded where it is needed."""
        return self.short or self.lie.along

    @property
    def by_lanes(self) -> bool:
        """Whether a run that is not aligned is brought together to vectors: what takes long."""
        return self.lie.along and takes_long(self.arithmetic[0])

    @property
    def registers(self) -> tuple[int, ...]:
        """Those for values, the kept ones last."""
        lie = self.lie
        taken = {*self.constant_registers}
        if lie.loops:
            taken |= {AT, INNER_LEFT, OUTER_LEFT}
        if lie.loops and not self.moves_in_memory:
            taken |= {INNER_MOVE, OUTER_MOVE}
        if lie.taps > 1:
            taken.add(TAP)
        if lie.along:
            taken |= {AT, FROM, TRIPS, LENGTH}
        elif lie.step == 0 and not self.short:
            taken |= {Y_STEP, X_STEP, TO, FROM}
        free = (EXTENT, *_FREE) if lie.along else _FREE
        return tuple(r for r in (*free, *KEPT) if r not in taken)

    @property
    def start(self) -> int:
        """The register of the first element that the innermost loop gathers."""
        return AT if self.lie.loops or self.lie.along else X


class Items:
    """Code on so many items at a time, each operation for all of them; their results stay where
    they are.
    """

    def __init__(self, routine: ReduceRoutine, mode: str, count: int, memory: int = 0) -> None:
        self.routine, self.mode, self.count, self.memory = routine, mode, count, memory
        self.free = deque(routine.registers)
        self.totals = [self.taken() for _ in range(count)]

    def first(self) -> list[Instruction]:
        """Loads the results."""
        name, code, walking = load(self.routine.precision, self._kind), [], Y
        for item, total in enumerate(self.totals):
            if self.routine.lie.step:
                code.append(op(name, total, (self._result_at(item), Y)))
                continue
            code.append(op(name, total, (0, walking)))
            if item + 1 < self.count:
                code.append(op(scaled_add(self.routine.precision), Y_STEP, walking, TO))
                walking = TO
        return code

    def taps(self) -> list[Instruction]:
        """Takes in the elements of the unrolled loop."""
        code, pointer = [], self.routine.start
        for tap in range(self.routine.lie.taps):
            if tap:
                following = pointer if tap > 1 else self.taken()
                code.append(op(scaled_add(self.routine.precision), TAP, pointer, following))
                pointer = following
            code += self.gathered(self.totals, self._loads(pointer))
        if self.routine.lie.taps > 1:
            self.free.append(pointer)
        return code

    def last(self) -> list[Instruction]:
        """Stores the results; both pointers go to the next ones."""
        precision, lie = self.routine.precision, self.routine.lie
        name, code = store(precision, self._kind), []
        for item, total in enumerate(self.totals):
            if lie.step == 0:
                code.append(op(name, total, (0, Y)))
                if not self.routine.moves_in_memory:
                    code += [self._add(Y_STEP, Y), self._add(X_STEP, X)]
            else:
                code.append(op(name, total, (self._result_at(item), Y)))
        if lie.step == 0 and self.routine.moves_in_memory:
            for at, pointer in ((_Y_STEP_AT, Y), (_X_STEP_AT, X)):
                step = self.free[0]
                self.free.rotate(-1)
                code += [op("ldl", step, (at, MOVES)), self._add(step, pointer)]
        if lie.step == 0:
            return code
        distance = self._result_at(self.count)
        return [*code, move(Y, Y, distance), move(X, X, lie.step * distance)]

    def gathered(
        self,
        totals: Sequence[int],
        loads: Sequence[tuple[int, list[Instruction]]],
        mode: str | None = None,
    ) -> list[Instruction]:
        """Takes one element, which its own code loads to a register, in to each of the totals."""
        routine, (sums, _) = self.routine, self.routine.arithmetic
        fixed = {-1 - i: r for i, r in enumerate(routine.constant_registers)}
        lanes = 1 if (mode or self.mode) == ELEMENTS else VECTOR_LANES
        steps = Steps(
            sums, {ZERO_VALUE: ZERO, **fixed}, self.free, self.memory, lanes, routine.expression
        )
        steps.code += [line for _, lines in loads for line in lines]
        places = [
            {_GATHERED: total, _ELEMENT: element}
            for total, (element, _) in zip(totals, loads, strict=True)
        ]
        uses = [value for _, sources, _ in sums.steps for value in sources]
        left = [[*uses, _GATHERED] for _ in totals]
        steps.append(places, left, totals=totals)
        if _ELEMENT not in uses:
            self.free.extend(element for element, _ in loads)
        return steps.code

    def _loads(self, pointer: int) -> list[tuple[int, list[Instruction]]]:
        precision, lie = self.routine.precision, self.routine.lie
        found = []
        walking = pointer
        for item in range(self.count):
            register, code = self.taken(), []
            match self.mode:
                case "vectors":
                    place = (item * precision.vector_bytes, pointer)
                    code = [op(precision.vector_load, register, place)]
                case "lanes":
                    code = self.lanes(register, pointer, item, lie.step)
                case _ if lie.step:
                    place = (item * lie.step * precision.element_bytes, pointer)
                    code = [op(load(precision, ELEMENTS), register, place)]
                case _:
                    code = [op(load(precision, ELEMENTS), register, (0, walking))]
                    if item + 1 < self.count:
                        forward = op(scaled_add(precision), X_STEP, walking, FROM)
                        code, walking = [*code, forward], FROM
            found.append((register, code))
        return found

    def lanes(self, register: int, pointer: int, item: int, step: int) -> list[Instruction]:
        """Four elements, `step` apart from each other, to the lanes of a register."""
        size = self.routine.precision.element_bytes
        name = load(self.routine.precision, ELEMENTS)
        first = item * VECTOR_LANES
        code = [op(name, register, (first * step * size, pointer))]
        for lane in range(1, VECTOR_LANES):
            single = self.taken()
            code.append(op(name, single, ((first + lane) * step * size, pointer)))
            places = Register(single), Register(register), lane, Register(register)
            code.append(instruction("vinsf", *places))
            self.free.append(single)
        return code

    def _result_at(self, item: int) -> int:
        precision = self.routine.precision
        vectors = self._kind == VECTORS
        return item * (precision.vector_bytes if vectors else precision.element_bytes)

    @property
    def _kind(self) -> str:
        """How results are loaded and stored."""
        return ELEMENTS if self.mode == ELEMENTS or self.routine.lie.along else VECTORS

    def _add(self, step: int, pointer: int) -> Instruction:
        return op(scaled_add(self.routine.precision), step, pointer, pointer)

    def taken(self) -> int:
        """A register for a value."""
        if not self.free:
            raise ProgramError(f"{self.routine.expression[:60]!r} has more values than registers")
        return self.free.popleft()


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
