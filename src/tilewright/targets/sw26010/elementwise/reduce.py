"""Reductions in SW26010 assembly: y = y gathered with f(x) along loops, row after row of results.

In: how to gather, the expression, and the layout of a row's operands. Out: the text of a routine:
six loops over results around up to three that gather. Its mode is chosen once per call. Rows of
contiguous, aligned results are done four results in a vector, with vector loads if the elements are
contiguous and aligned, too, otherwise lane by lane. Other rows are done element by element. Every
result gathers its elements in the order of the loops. If the elements of one result are contiguous,
a routine gathers them in eight partial results, for places 0, 1, ... modulo 8, which start with the
identity. At the end of a run, partial results four apart are combined, then those two apart, then
the last two, then the result; elements after the last eight follow one by one. Arithmetic is in
double precision; a store rounds to the elements' type.

The arguments are y, x, the extents of the loops (six over results, two that gather, the length of a
run) and the pointer steps, in elements: of y and x at the end of an iteration of each loop over
results, of x in the two gathering loops, and from one tap to the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import inf

from tilewright.common.digest import digest
from tilewright.common.errors import ProgramError
from tilewright.ir.primitives.maps import Gathering
from tilewright.ir.scalar import expanded, operand_count, parse_scalar
from tilewright.isa import Instruction, Register
from tilewright.isa.dependence import AliasRules
from tilewright.targets.sw26010.elementwise.code import (
    STACK,
    ZERO,
    RoutineCode,
    constant_to_lanes,
    load_item,
    move,
    op,
    scaled_add,
    store,
    timed_name,
    with_number,
)
from tilewright.targets.sw26010.elementwise.expression import ExpressionOperations
from tilewright.targets.sw26010.elementwise.lie import ELEMENTS, LANES, VECTORS, Lie
from tilewright.targets.sw26010.elementwise.loops import (
    COUNT,
    EXTENT,
    LEVELS,
    SAVED_AT,
    WORD,
    Block,
    Loops,
    RowPart,
    closing,
    framed,
)
from tilewright.targets.sw26010.elementwise.steps import Steps, stored_constants, takes_long
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums
from tilewright.targets.sw26010.gemm.parts import instruction
from tilewright.targets.sw26010.gemm.shape import PRECISIONS, VECTOR_LANES, Precision

Y, X, MOVES, LEFT, AT, TAP = 16, 17, 19, 21, 22, 23
Y_STEP, X_STEP, INNER_LEFT = 24, 25, 28
OUTER_LEFT, INNER_MOVE, OUTER_MOVE, OUTSIDE = 0, 1, 2, 3
TO, FROM = 4, 5
"""Registers of the pointers that walk over operands whose elements lie apart."""
TRIPS, LENGTH = 6, 7
"""Registers of the run along which a result is gathered: iterations left, and its length."""
_FREE, KEPT = (8, 7, 6, 5, 4, 2, 1, 28, 0, 25, 24, 23, 22), (9, 10, 11, 12, 13, 14, 15)
_Y_STEP_AT, _X_STEP_AT = WORD * (LEVELS - 1), WORD * (2 * LEVELS - 1)
"""Offsets in bytes, among all pointer steps, of the steps from one result to the next."""
_ELEMENT, _GATHERED = 0, 1
"""The numbers of the values that gathering combines."""
PARTS = 8
MOST_TAPS = 3
OUTER_AT, INNER_AT, LENGTH_AT = LEVELS, LEVELS + 1, LEVELS + 2
"""Their places among the extents."""
OUTER_MOVE_AT, INNER_MOVE_AT, TAP_AT = 2 * LEVELS, 2 * LEVELS + 1, 2 * LEVELS + 2
"""Their places among the moves."""
_X_FORBIDS, _RUNS = OUTER_LEFT, 8
_UNROLLED = (4, 2, 1)
_BATCH = 2
"""Elements loaded before they are gathered, which takes registers."""
_SAME, _UPPER = 0b11100100, 0b11101110
"""Shuffle masks: the register's own lanes, and its upper two lanes twice."""


@dataclass(frozen=True)
class ReduceRoutine:
    """The routine of a reduction, with `unrolled` results or vectors of results at a time. If it is
    `short` of registers, constants and pointer steps are loaded at each use.
    """

    precision: Precision
    function: Gathering
    expression: str
    lie: Lie
    unrolled: int = 1
    short: bool = False

    @property
    def name(self) -> str:
        """The routine's symbol, shared with its C twin."""
        lie = self.lie
        kind = (self.function, self.expression, lie.step, lie.taps, lie.loops, lie.along)
        return f"tw_reduce_{digest(*map(str, kind))[:10]}_{self.precision.name}"

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways in which rows are done, the fastest first."""
        return self.lie.modes

    @property
    def timed_as(self) -> str:
        """Its name among the timings, regardless of the values of constants."""
        sums, result = self.arithmetic
        how = (self.precision.name, self.function, self.lie, self.unrolled, self.short)
        return timed_name(("reduce", *how, sums.steps, result), self.constants)

    def code(self) -> RoutineCode:
        """The routine's instructions, in the order of its text."""
        return _code_of(self)

    def text(self) -> str:
        """The routine's assembly."""
        return self.code().text()

    @cached_property
    def arithmetic(self) -> tuple[Sums, int]:
        """The operations that gather one element; the last one gives the new result."""
        sums = Sums(count=2)
        value = ExpressionOperations(sums, [_ELEMENT]).value(parse_scalar(self.expression))
        if self.function == "sum":
            return sums, sums.add("vaddd", _GATHERED, value)
        larger = sums.add("vfcmplt", _GATHERED, value)
        return sums, sums.add("vseleq", larger, _GATHERED, value)

    @property
    def neutral(self) -> float:
        """Start of a partial result: the identity of the reduction, signs of zeros included."""
        return -0.0 if self.function == "sum" else -inf

    @cached_property
    def constants(self) -> tuple[float, ...]:
        """The constants of the operations, then the start of partial results."""
        return (*self.arithmetic[0].constants, *([self.neutral] if self.lie.along else []))

    @property
    def constants_in_memory(self) -> bool:
        """True if constants lie in the frame and are loaded at each use."""
        return self.short or len(self.constants) > len(KEPT)

    @property
    def constant_registers(self) -> tuple[int, ...]:
        """The registers that hold the constants, in the constants' order."""
        return () if self.constants_in_memory else tuple(reversed(KEPT))[: len(self.constants)]

    @property
    def moves_in_memory(self) -> bool:
        """True if the pointer steps of the loops are loaded at each use."""
        return self.short or self.lie.along

    @property
    def by_lanes(self) -> bool:
        """True if an unaligned run is gathered into vectors, as long expressions are."""
        return self.lie.along and takes_long(self.arithmetic[0])

    @property
    def registers(self) -> tuple[int, ...]:
        """Registers free for values, callee-saved ones last."""
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
    """Code for `count` items at a time, operation by operation; each result keeps its register."""

    def __init__(self, routine: ReduceRoutine, mode: str, count: int, memory: int = 0) -> None:
        self.routine, self.mode, self.count, self.memory = routine, mode, count, memory
        self.free = deque(routine.registers)
        self.totals = [self.taken() for _ in range(count)]

    def first(self) -> list[Instruction]:
        """Load the results."""
        name, code, walking = load_item(self.routine.precision, self._kind), [], Y
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
        """Gather the elements of the unrolled loop."""
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
        """Store the results; both pointers advance to the next ones."""
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
        """Gather one element, loaded to a register by its own code, into each of the totals."""
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
                    code = [op(load_item(precision, ELEMENTS), register, place)]
                case _:
                    code = [op(load_item(precision, ELEMENTS), register, (0, walking))]
                    if item + 1 < self.count:
                        forward = op(scaled_add(precision), X_STEP, walking, FROM)
                        code, walking = [*code, forward], FROM
            found.append((register, code))
        return found

    def lanes(self, register: int, pointer: int, item: int, step: int) -> list[Instruction]:
        """Load four elements, `step` apart, to the lanes of a register."""
        size = self.routine.precision.element_bytes
        name = load_item(self.routine.precision, ELEMENTS)
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
        """The access mode of results."""
        return ELEMENTS if self.mode == ELEMENTS or self.routine.lie.along else VECTORS

    def _add(self, step: int, pointer: int) -> Instruction:
        return op(scaled_add(self.routine.precision), step, pointer, pointer)

    def taken(self) -> int:
        """A register for a value."""
        if not self.free:
            raise ProgramError(f"{self.routine.expression[:60]!r} has more values than registers")
        return self.free.popleft()


class Along:
    """The code of one result's runs."""

    def __init__(self, routine: ReduceRoutine, mode: str, memory: int = 0) -> None:
        self.routine, self.mode = routine, LANES if routine.by_lanes and mode != VECTORS else mode
        self.items = Items(routine, mode, 1, memory)
        size = 1 if self.mode == ELEMENTS else VECTOR_LANES
        self.parts = [self.items.taken() for _ in range(PARTS // size)]
        self.item_bytes = size * routine.precision.element_bytes

    def run(self, prefix: str) -> list[Block]:
        """Blocks that gather a run; the last one follows it."""
        items = self.items
        ends = [self._neutral(part) for part in self.parts]
        shift = PARTS.bit_length() - 1
        ends += [move(AT, FROM), with_number("srl", LENGTH, shift, TRIPS)]
        rest = [with_number("and", LENGTH, PARTS - 1, TRIPS), op("beq", TRIPS, f"{prefix}_end")]
        element = self.routine.precision.element_bytes
        single = [*self._taken_in(items.totals, 0, ELEMENTS), move(FROM, FROM, element)]
        return [
            ("", [*ends, op("beq", TRIPS, f"{prefix}_rest")]),
            (f"{prefix}_eight", self._again(self._eight(), f"{prefix}_eight")),
            ("", self._join_partial_results()),
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

    def _taken_in(self, totals: list[int], first: int, mode: str) -> list[Instruction]:
        loads = []
        for i in range(len(totals)):
            register = self.items.taken()
            place = ((first + i) * self.item_bytes, FROM)
            code = [op(load_item(self.routine.precision, mode), register, place)]
            if mode == LANES:
                code = self.items.lanes(register, FROM, first + i, 1)
            loads.append((register, code))
        return self.items.gathered(totals, loads, mode)

    def _join_partial_results(self) -> list[Instruction]:
        """Combine the partial results with each other, and the last one with the result."""
        items, parts, code = self.items, list(self.parts), []
        if self.mode != ELEMENTS:
            code += self._join(parts[0], parts[1])
            for lanes in (_UPPER, 1):
                code += [_shuffled(parts[0], parts[1], lanes), *self._join(parts[0], parts[1])]
        while len(parts) > 1 and self.mode == ELEMENTS:
            half = len(parts) // 2
            for one, other in zip(parts[:half], parts[half:], strict=True):
                code += self._join(one, other)
            parts = parts[:half]
        return [*code, *self._join(items.totals[0], parts[0])]

    def _join(self, total: int, part: int) -> list[Instruction]:
        if self.routine.function == "sum":
            return [op("vaddd", total, part, total)]
        larger = self.items.taken()
        self.items.free.append(larger)
        return [op("vfcmplt", total, part, larger), op("vseleq", larger, total, part, total)]


def _shuffled(source: int, target: int, selection: int) -> Instruction:
    return instruction("vshff", Register(source), Register(source), selection, Register(target))


@cache
def reduce_routine(
    function: Gathering, expression: str, lie: Lie, dtype: str
) -> ReduceRoutine | None:
    """The routine of a reduction; None if the core lacks instructions for a function, or registers
    for its values.
    """
    scalar = expanded(parse_scalar(expression))
    if dtype not in PRECISIONS or operand_count(scalar) > 1:
        return None
    plain = ReduceRoutine(PRECISIONS[dtype], function, str(scalar), lie)
    ways = [(unrolled, False) for unrolled in ((1,) if lie.along else _UNROLLED)]
    for unrolled, short in (*ways, (1, True)):
        routine = replace(plain, unrolled=unrolled, short=short)
        try:
            for mode in lie.modes:
                for count in _counts(routine):
                    _items(routine, mode, count, "")
        except ProgramError:
            continue
        return routine
    return None


@cache
def _code_of(routine: ReduceRoutine) -> RoutineCode:
    objects = {Y: "y", TO: "y", X: "x", FROM: "x", AT: "x", STACK: "frame"}
    if routine.lie.step and not routine.lie.along:
        objects = {Y: "y", X: "x", STACK: "frame"}
    objects |= dict.fromkeys((COUNT, MOVES), "arguments")
    code = RoutineCode(routine.name, AliasRules(objects))
    loops = Loops(code, LEFT, OUTSIDE, spare=TO, moved=partial(_moved, routine))
    code.block("", _opening(routine, loops))
    modes = routine.lie.modes
    if ELEMENTS in modes and len(modes) > 1 and not routine.lie.along:
        code.block("", [op("bne", LEFT, f"{ELEMENTS}_row")])
    if VECTORS in modes:
        code.block("", [op("bne", _X_FORBIDS, f"{modes[1]}_row")])
    for mode in modes:
        parts = [_part(routine, mode, count) for count in _counts(routine)]
        opening = with_number("srl", EXTENT, parts[0].elements.bit_length() - 1, LEFT)
        if routine.lie.along:
            opening = op("ldl", LEFT, (WORD * (LEVELS - 1), COUNT))
        loops.rows(mode, [opening], parts)
    code.block("done", closing(_frame_bytes(routine), _saves(routine), SAVED_AT))
    return code


def _part(routine: ReduceRoutine, mode: str, count: int) -> RowPart:
    """The part of a row with `count` results, or vectors of results."""
    size = VECTOR_LANES if mode in (VECTORS, LANES) and not routine.lie.along else 1
    memory = _constants_at(routine)
    return RowPart(str(count), count * size, lambda at: _items(routine, mode, count, at, memory))


def _counts(routine: ReduceRoutine) -> tuple[int, ...]:
    """Numbers of items processed together: in the main loop, then in the rest."""
    return tuple(n for n in _UNROLLED if n <= routine.unrolled)


@cache
def _saves(routine: ReduceRoutine) -> tuple[int, ...]:
    """The kept registers that are overwritten."""
    ways = ((mode, count) for mode in routine.modes for count in _counts(routine))
    code = (one for way in ways for _, lines in _items(routine, *way, "") for one in lines)
    taken = {r for one in code for r in one.writes}
    return tuple(r for r in KEPT if r in taken or r in routine.constant_registers)


def _constants_at(routine: ReduceRoutine) -> int:
    """Offset of the constants in the frame, after the saved registers."""
    return SAVED_AT + 32 * len(_saves(routine))


def _frame_bytes(routine: ReduceRoutine) -> int:
    in_memory = routine.constants if routine.constants_in_memory else ()
    return _constants_at(routine) + WORD * len(in_memory)


def _items(
    routine: ReduceRoutine, mode: str, count: int, prefix: str, memory: int = 0
) -> list[Block]:
    """Labelled blocks for `count` results, or vectors of results."""
    lie, along = routine.lie, None
    if lie.along:
        along = Along(routine, mode, memory)
        items, run = along.items, along.run(f"{prefix}_run")
    else:
        items = Items(routine, mode, count, memory)
        run = [("", items.taps())]
    first, last = items.first(), items.last()
    if lie.loops:
        first += [move(X, AT), op("ldl", OUTER_LEFT, (WORD * OUTER_AT, COUNT))]
        inner, outer = f"{prefix}_inner", f"{prefix}_outer"
        starts = [op("ldl", INNER_LEFT, (WORD * INNER_AT, COUNT))]
        begun = [(outer, starts), (inner, []), *run]
        ends = [(INNER_LEFT, INNER_MOVE_AT, inner), (OUTER_LEFT, OUTER_MOVE_AT, outer)]
        return [("", first), *begun, *(_next(routine, items, *end) for end in ends), ("", last)]
    if along is not None:
        first.append(move(X, AT))
    return [("", first), *run, ("", last)]


def _next(routine: ReduceRoutine, items: Items, left: int, at: int, label: str) -> Block:
    """Advance to the next iteration of a gathering loop."""
    code, distance = [], INNER_MOVE if at == INNER_MOVE_AT else OUTER_MOVE
    if routine.moves_in_memory:
        distance = items.free[0]
        code.append(op("ldl", distance, (WORD * at, MOVES)))
    code += [op(scaled_add(routine.precision), distance, AT, AT)]
    return "", [*code, with_number("subl", left, 1, left), op("bne", left, label)]


def _opening(routine: ReduceRoutine, loops: Loops) -> list[Instruction]:
    """Allocate the frame, read the arguments, test for empty loops and obstacles to vectors."""
    in_memory = routine.constants if routine.constants_in_memory else ()
    turns = deque((5, 6, 7))
    code = [*framed(_frame_bytes(routine), _saves(routine), SAVED_AT), move(ZERO, OUTSIDE)]
    code += loops.counted(turns)
    code += [op("ldl", EXTENT, (WORD * (LEVELS - 1), COUNT))]
    code += [with_number("subl", EXTENT, 1, _RUNS), op("or", OUTSIDE, _RUNS, _RUNS)]
    for at in (OUTER_AT, INNER_AT, LENGTH_AT):
        code += [op("ldl", turns[0], (WORD * at, COUNT))]
        code += [with_number("subl", turns[0], 1, 4), op("or", _RUNS, 4, _RUNS)]
        turns.rotate(-1)
    code += _forbidden(routine) + stored_constants(in_memory, _constants_at(routine), turns)
    code += _arguments(routine)
    for value, register in zip(routine.constants, routine.constant_registers, strict=False):
        code += constant_to_lanes(value, register)
    return [*code, op("blt", _RUNS, "done")]


def _forbidden(routine: ReduceRoutine) -> list[Instruction]:
    """Set LEFT to 0 only if results are whole aligned vectors; the flag of x likewise."""
    lie, code, turns = routine.lie, [], deque((5, 6, 7, 4, 2))
    last = routine.precision.vector_bytes - 1

    def watched(flag: int, pointer: int, places: Sequence[int]) -> None:
        code.append(with_number("and", pointer, last, flag))
        for place in places:
            code.append(op("ldl", turns[0], (WORD * place, MOVES)))
            code.append(with_number("and", turns[0], VECTOR_LANES - 1, turns[0]))
            code.append(op("or", flag, turns[0], flag))
            turns.rotate(-1)

    if lie.step and not lie.along:
        watched(LEFT, Y, range(LEVELS - 1))
        code.append(with_number("and", EXTENT, VECTOR_LANES - 1, turns[0]))
        code.append(op("or", LEFT, turns[0], LEFT))
    if VECTORS in lie.modes:
        places = [*range(LEVELS, 2 * LEVELS - 1 + lie.along)]
        places += [OUTER_MOVE_AT, INNER_MOVE_AT] if lie.loops else []
        places += [TAP_AT] if lie.taps > 1 else []
        watched(_X_FORBIDS, X, places)
    return code


def _arguments(routine: ReduceRoutine) -> list[Instruction]:
    """Load the arguments that stay in registers."""
    lie = routine.lie
    if lie.along:
        return [op("ldl", LENGTH, (WORD * LENGTH_AT, COUNT))]
    wanted = {TAP: TAP_AT} if lie.taps > 1 else {}
    if lie.loops and not routine.moves_in_memory:
        wanted |= {INNER_MOVE: INNER_MOVE_AT, OUTER_MOVE: OUTER_MOVE_AT}
    if lie.step == 0 and not routine.moves_in_memory:
        wanted |= {Y_STEP: LEVELS - 1, X_STEP: 2 * LEVELS - 1}
    return [op("ldl", register, (WORD * at, MOVES)) for register, at in wanted.items()]


def _moved(routine: ReduceRoutine, level: int) -> list[Instruction]:
    """Advance both pointers to the next iteration of a loop."""
    add = scaled_add(routine.precision)
    return [
        op("ldl", FROM, (WORD * level, MOVES)),
        op(add, FROM, Y, Y),
        op("ldl", _RUNS, (WORD * (LEVELS + level), MOVES)),
        op(add, _RUNS, X, X),
    ]
