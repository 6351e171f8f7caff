"""Maps of expressions over elements in SW26010 assembly: y = f(x0, ..., x3), row after row.

In: an expression, which of its operands stay the same along a row, and the precision. Out: the text
of a routine with six nested loops. Rows that lie contiguous and aligned are done by vectors, others
element by element, or four of them in the lanes of a vector where the expression takes long; which
of the two is decided once in a call. Arithmetic is in double precision, whatever the elements are,
and rounds as the expression says; a store rounds to the elements' type.

The arguments are y, the operands' addresses, the extents of the loops, and for y and each operand
what its pointer moves by at the end of an iteration of each loop, in elements: innermost from one
element to the next, further out what is left to the next row once a row is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from tilewright.common.digest import digest
from tilewright.common.errors import ProgramError
from tilewright.ir.scalar import operand_count, parse_scalar
from tilewright.isa import Instruction
from tilewright.isa.dependence import AliasRules
from tilewright.targets.sw26010.gemm_shape import F32, F64, VECTOR_LANES, Precision
from tilewright.targets.sw26010.vector_code import (
    LINK,
    MODES,
    STACK,
    ZERO,
    RoutineText,
    constant,
    load,
    move,
    op,
    saved,
    scaled_add,
    store,
    with_number,
)
from tilewright.targets.sw26010.vector_expression import Arithmetic
from tilewright.targets.sw26010.vector_functions import POWER
from tilewright.targets.sw26010.vector_lanes import (
    Access,
    Chunk,
    LanesAccess,
    loaded_lanes,
    powers_of_two,
    stored_lanes,
)
from tilewright.targets.sw26010.vector_sums import ZERO_VALUE, Sums

MOST_SOURCES, LEVELS = 4, 6
_Y, _PLACES, _COUNT, _STEPS, _EXTENT = 16, 17, 18, 19, 20
_SOURCES = (21, 22, 23, 24)
_LEFT, _ROWS_LEFT, _OUTER = 25, 27, 28
_STEP = (0, 1, 2, 3, 4)
"""What the pointers of y and of the operands move by from one element to the next."""
_FREE, _KEPT = (5, 6, 7, 8, _PLACES), (9, 10, 11, 12, 13, 14, 15)
_WORD, _STACK_AT, _SAVED_AT = 8, 40, 64
_LOOPS_IN_MEMORY = LEVELS - 2
_UNROLLED = (4, 2, 1)
_PRECISIONS = {p.name: p for p in (F64, F32)}


@dataclass(frozen=True)
class MapRoutine:
    """The routine of an expression; `still` says of each operand whether it stays the same along a
    row.
    """

    precision: Precision
    expression: str
    still: tuple[bool, ...]
    unrolled: int

    @property
    def name(self) -> str:
        """Its symbol, which is that of its twin in C."""
        what = digest(self.expression, ",".join(map(str, self.still)))[:10]
        return f"tw_map_{what}_{self.precision.name}"

    def text(self) -> str:
        """Its assembly."""
        return _text(self)

    @cached_property
    def arithmetic(self) -> tuple[Sums, int]:
        """The operations on one item, whose values 0, 1, ... are the operands, and the result."""
        sums = Sums(count=len(self.still))
        scalar = parse_scalar(self.expression)
        return sums, Arithmetic(sums, range(len(self.still))).value(scalar)

    @cached_property
    def uses(self) -> list[int]:
        """Every use of a value, one after the other."""
        sums, result = self.arithmetic
        return [*(value for _, sources, _ in sums.steps for value in sources), result]

    @property
    def by_lanes(self) -> bool:
        """Whether elements that lie apart are brought together to vectors: those of what takes
        long enough.
        """
        long = (POWER, "vdivd", "vsqrtd")
        return self.unrolled > 1 and any(name in long for name, _, _ in self.arithmetic[0].steps)

    def chunks(self, mode: str) -> tuple[Chunk, ...]:
        """What a row is cut into: as many of the first one as there are, then those of half the
        size each once at most.
        """
        counts = [n for n in _UNROLLED if n <= self.unrolled]
        if mode == "elements" and self.by_lanes:
            lanes = (Chunk("lanes", n) for n in counts)
            return (*lanes, Chunk(mode, 2), Chunk(mode, 1))
        return tuple(Chunk(mode, n) for n in counts)

    @property
    def walking(self) -> tuple[int, ...]:
        """The operands that a row walks over."""
        return tuple(i for i, still in enumerate(self.still) if not still and i in self.uses)

    @property
    def registers(self) -> tuple[int, ...]:
        """Those of constants, then of operands that stay the same, then for values."""
        used = (*_SOURCES[: len(self.still)], *_STEP[: 1 + len(self.still)])
        others = (r for r in (*_SOURCES, *_STEP) if r not in used)
        return (*_FREE, *others, *_KEPT)

    @cached_property
    def place(self) -> dict[int, int]:
        """The registers of constants, by value, and of operands that stay the same."""
        constants = [-1 - i for i in range(len(self.arithmetic[0].constants))]
        still = [i for i, same in enumerate(self.still) if same and i in self.uses]
        if self.constants_in_memory:
            constants = []
        fixed = dict(zip([*constants, *still], reversed(self.registers), strict=False))
        return {ZERO_VALUE: ZERO, **fixed}

    @property
    def constants_in_memory(self) -> bool:
        """Whether constants are loaded where they are needed: they lie in the frame then."""
        still = sum(same and i in self.uses for i, same in enumerate(self.still))
        return len(self.arithmetic[0].constants) + still > len(_KEPT)

    @property
    def constants_at(self) -> int:
        """Their place in the frame, behind that of the registers that are saved."""
        return _SAVED_AT + 32 * len(self.saves)

    @cached_property
    def saves(self) -> tuple[int, ...]:
        """The kept registers that are overwritten."""
        found = (chunk for mode in MODES for chunk in self.chunks(mode))
        code = [one for c in found for one in _Items(self, c.mode).code(c.items)]
        taken = {*self.place.values(), *(r for one in code for r in one.writes)}
        return tuple(r for r in _KEPT if r in taken)

    def items(self, chunk: Chunk) -> list[Instruction]:
        """A chunk, with the pointers advanced; ProgramError where registers run out."""
        return _Items(self, chunk.mode, self.constants_at).code(chunk.items)


class _Items:
    """Successive items: each operation for all of them, operands loaded where they are needed."""

    def __init__(self, routine: MapRoutine, mode: str, memory: int = 0) -> None:
        self.routine, self.mode, self.memory = routine, mode, memory
        self.free = deque(r for r in routine.registers if r not in routine.place.values())
        self.instructions: list[Instruction] = []

    def code(self, count: int) -> list[Instruction]:
        """All instructions of the items."""
        routine = self.routine
        sums, result = routine.arithmetic
        places = [dict(routine.place) for _ in range(count)]
        left = [list(routine.uses) for _ in range(count)]
        for mnemonic, sources, target in sums.steps:
            shared = self._constants(sources)
            for item in range(count):
                place = {**shared, **places[item]}
                given = [self._register(value, place, item) for value in sources]
                places[item] = {v: r for v, r in place.items() if v not in shared}
                if mnemonic == POWER:
                    places[item][target] = self._power(*given)
                    self._release(sources, places[item], left[item])
                    continue
                self._release(sources, places[item], left[item])
                places[item][target] = self._taken()
                self.instructions.append(op(mnemonic, *given, places[item][target]))
            self.free.extend(shared.values())
        for item in range(count):
            register = self._register(result, places[item], item)
            self._access(store, stored_lanes, register, 0, item)
            self._release([result], places[item], left[item])
        return [*self.instructions, *self._forward(count)]

    def _constants(self, sources: Sequence[int]) -> dict[int, int]:
        """Loads constants that lie in memory, for all items; their registers."""
        found = {}
        for value in sources:
            if value < 0 and value not in self.routine.place and value not in found:
                found[value] = self._taken()
                place = (_WORD * (-1 - value) + self.memory, STACK)
                self.instructions.append(op("ldde", found[value], place))
        return found

    def _power(self, shifted: int) -> int:
        target, single = self._taken(), self._taken()
        lanes = 1 if self.mode == "elements" else VECTOR_LANES
        self.instructions += powers_of_two(shifted, target, single, lanes)
        self.free.append(single)
        return target

    def _register(self, value: int, place: dict[int, int], item: int) -> int:
        if value not in place:
            place[value] = self._taken()
            self._access(load, loaded_lanes, place[value], 1 + value, item)
        return place[value]

    def _taken(self) -> int:
        if not self.free:
            raise ProgramError(f"{self.routine.expression[:60]!r} has more values than registers")
        return self.free.popleft()

    def _access(
        self, one: Access, lanes: LanesAccess, register: int, operand: int, item: int
    ) -> None:
        precision, pointer = self.routine.precision, _SOURCES[operand - 1] if operand else _Y
        if self.mode == "lanes":
            single = self._taken()
            walk = pointer, _STEP[operand]
            self.instructions += lanes(precision, register, single, walk)
            self.free.append(single)
            return
        name = one(precision, self.mode)
        if self.mode == "vectors":
            self.instructions.append(op(name, register, (item * precision.vector_bytes, pointer)))
        else:
            forward = op(scaled_add(precision), _STEP[operand], pointer, pointer)
            self.instructions += [op(name, register, (0, pointer)), forward]

    def _release(self, values: Sequence[int], place: dict[int, int], left: list[int]) -> None:
        for value in values:
            left.remove(value)
            if value not in left and value in place and value not in self.routine.place:
                self.free.append(place[value])

    def _forward(self, count: int) -> list[Instruction]:
        if self.mode != "vectors":
            return []
        pointers = [_Y, *(_SOURCES[i] for i in self.routine.walking)]
        return [move(p, p, count * self.routine.precision.vector_bytes) for p in pointers]


@cache
def map_routine(expression: str, still: tuple[bool, ...], dtype: str) -> MapRoutine | None:
    """The routine of an expression over so many operands; none where the core has no instruction
    for a function, or not the registers for its values.
    """
    if dtype not in _PRECISIONS or len(still) > MOST_SOURCES:
        return None
    scalar = parse_scalar(expression)
    if operand_count(scalar) > len(still):
        return None
    for unrolled in _UNROLLED:
        routine = MapRoutine(_PRECISIONS[dtype], str(scalar), still, unrolled)
        try:
            for chunk in (chunk for mode in MODES for chunk in routine.chunks(mode)):
                routine.items(chunk)
        except ProgramError:
            continue
        return routine
    return None


@cache
def _text(routine: MapRoutine) -> str:
    objects = {_Y: "y", STACK: "frame"} | dict.fromkeys(_SOURCES, "x")
    objects |= dict.fromkeys((_PLACES, _COUNT, _STEPS), "arguments")
    text = RoutineText(routine.name, AliasRules(objects))
    text.block("", _opening(routine))
    text.block("", [op("bne", _LEFT, "elements_row")])
    for mode in MODES:
        _rows(text, routine, mode)
    text.block("done", [*_closing(routine), op("ret", LINK)])
    return text.text()


def _opening(routine: MapRoutine) -> list[Instruction]:
    """Takes the frame, reads the arguments, looks for empty loops and for what forbids vectors."""
    in_memory = routine.arithmetic[0].constants if routine.constants_in_memory else []
    size = routine.constants_at + _WORD * len(in_memory)
    code = [move(STACK, 5), move(STACK, 6, -size), with_number("srl", 6, 5, 6)]
    code += [with_number("sll", 6, 5, 6), move(6, STACK), op("stl", 5, (_STACK_AT, STACK))]
    code += saved(routine.saves, _SAVED_AT)
    code += [
        op("ldl", _SOURCES[i], (_WORD * i, _PLACES))
        for i in range(len(routine.still))
        if i in routine.uses
    ]
    turns = deque((5, 6, 7, 8))
    code += [move(ZERO, _OUTER), op("ldl", _EXTENT, (_WORD * (LEVELS - 1), _COUNT))]
    for level in range(LEVELS - 1):
        register = _ROWS_LEFT if level == _LOOPS_IN_MEMORY else turns[0]
        turns.rotate(-1)
        code.append(op("ldl", register, (_WORD * level, _COUNT)))
        if level < _LOOPS_IN_MEMORY:
            code.append(op("stl", register, (_WORD * level, STACK)))
        code += [with_number("subl", register, 1, turns[0])]
        code += [op("or", _OUTER, turns[0], _OUTER)]
        turns.rotate(-1)
    code += _forbidden(routine, turns)
    for number, value in enumerate(routine.arithmetic[0].constants):
        if in_memory:
            *bits, _ = constant(value, turns[0])
            code += [*bits, op("stl", turns[0], (routine.constants_at + _WORD * number, STACK))]
            turns.rotate(-1)
        else:
            code += constant(value, routine.place[-1 - number])
    code += [with_number("subl", _EXTENT, 1, 5), op("or", _OUTER, 5, 5)]
    return [*code, op("blt", 5, "done")]


def _forbidden(routine: MapRoutine, turns: deque[int]) -> list[Instruction]:
    """LEFT = 0 only where rows are contiguous, whole vectors that start aligned."""
    last = routine.precision.vector_bytes - 1
    code = [with_number("and", _EXTENT, VECTOR_LANES - 1, _LEFT)]
    for operand in (0, *(1 + i for i in routine.walking)):
        pointer = _SOURCES[operand - 1] if operand else _Y
        code.append(op("ldl", _STEP[operand], (_step_at(operand, LEVELS - 1), _STEPS)))
        first, second = turns[0], turns[1]
        code += [with_number("xor", _STEP[operand], 1, first), op("or", _LEFT, first, _LEFT)]
        code += [with_number("and", pointer, last, second), op("or", _LEFT, second, _LEFT)]
        turns.rotate(-2)
        for level in range(LEVELS - 1):
            code.append(op("ldl", turns[0], (_step_at(operand, level), _STEPS)))
            code.append(with_number("and", turns[0], VECTOR_LANES - 1, turns[0]))
            code.append(op("or", _LEFT, turns[0], _LEFT))
            turns.rotate(-1)
    return code


def _step_at(operand: int, level: int) -> int:
    return _WORD * (LEVELS * operand + level)


def _rows(text: RoutineText, routine: MapRoutine, mode: str) -> None:
    """One row after the other in one mode."""
    most, *fewer = routine.chunks(mode)
    follows = [*(f"{mode}_rest_{chunk.elements}" for chunk in fewer), f"{mode}_next"]
    opening = [with_number("srl", _EXTENT, most.elements.bit_length() - 1, _LEFT)]
    still = [i for i, same in enumerate(routine.still) if same and i in routine.place]
    name = routine.precision.scalar_load
    opening += [op(name, routine.place[i], (0, _SOURCES[i])) for i in still]
    text.block(f"{mode}_row", [*opening, op("beq", _LEFT, follows[0])])
    group = f"{mode}_group"
    count = [with_number("subl", _LEFT, 1, _LEFT), op("bne", _LEFT, group)]
    text.block(group, [*routine.items(most), *count])
    for chunk, label, following in zip(fewer, follows, follows[1:], strict=False):
        test = with_number("and", _EXTENT, chunk.elements, _LEFT)
        text.block(label, [test, op("beq", _LEFT, following)])
        text.block("", routine.items(chunk))
    _next(text, routine, mode)


def _next(text: RoutineText, routine: MapRoutine, mode: str) -> None:
    """Leads to the next row, through as many levels of the nest as have ended."""
    text.block(f"{mode}_next", [op("beq", _OUTER, "done")])
    count = with_number("subl", _ROWS_LEFT, 1, _ROWS_LEFT)
    forward = _moved(routine, _LOOPS_IN_MEMORY)
    text.block("", [*forward, count, op("bne", _ROWS_LEFT, f"{mode}_row")])
    for level in reversed(range(_LOOPS_IN_MEMORY)):
        inner = level + 1
        again = [op("ldl", _ROWS_LEFT, (_WORD * inner, _COUNT))]
        if inner < _LOOPS_IN_MEMORY:
            again = [op("ldl", 5, (_WORD * inner, _COUNT)), op("stl", 5, (_WORD * inner, STACK))]
        code = [op("ldl", _LEFT, (_WORD * level, STACK)), *again, *_moved(routine, level)]
        code += [with_number("subl", _LEFT, 1, _LEFT), op("stl", _LEFT, (_WORD * level, STACK))]
        text.block("", [*code, op("bne", _LEFT, f"{mode}_row")])
    text.block("", [op("br", "done")])


def _moved(routine: MapRoutine, level: int) -> list[Instruction]:
    """Every pointer to the next iteration of a loop."""
    turns, code = deque((6, 7, 8, _PLACES)), []
    for operand in (0, *(1 + i for i in range(len(routine.still)) if i in routine.uses)):
        pointer = _SOURCES[operand - 1] if operand else _Y
        code.append(op("ldl", turns[0], (_step_at(operand, level), _STEPS)))
        code.append(op(scaled_add(routine.precision), turns[0], pointer, pointer))
        turns.rotate(-1)
    return code


def _closing(routine: MapRoutine) -> list[Instruction]:
    code = saved(routine.saves, _SAVED_AT, restore=True)
    return [*code, op("ldl", STACK, (_STACK_AT, STACK))]
