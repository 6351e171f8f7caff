"""Maps of expressions over elements in SW26010 assembly: y = f(x0, ..., x3), row after row.

In: an expression, which of its operands are constant along a row, and the precision. Out: the text
of a routine with six nested loops. Contiguous, aligned rows are done by vectors; others element by
element or, if the expression takes long, by gathering four elements in the lanes of a vector. The
choice is made once per call. Arithmetic is in double precision for all element types and rounds as
the expression says; a store rounds to the elements' type.

The arguments are y, the operands' addresses, the extents of the loops, and the pointer steps of y
and each operand at the end of an iteration of each loop, in elements: in the innermost loop from
one element to the next, in outer ones the remaining distance to the next row after a finished row.
The first pointers are in registers; others are in the frame, and free registers load them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from typing import ClassVar

from tilewright.common.digest import digest
from tilewright.common.errors import ProgramError
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Copy, Fill, MultiplyAccumulate, ScaleAdd, Windows
from tilewright.ir.scalar import Number, expanded, operand_count, parse_scalar
from tilewright.isa import Instruction
from tilewright.isa.dependence import AliasRules
from tilewright.targets.sw26010.elementwise.code import (
    MODES,
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
from tilewright.targets.sw26010.elementwise.loops import (
    COUNT,
    EXTENT,
    LEVELS,
    SAVED_AT,
    WORD,
    Loops,
    RowPart,
    closing,
    framed,
)
from tilewright.targets.sw26010.elementwise.steps import (
    Access,
    Chunk,
    LanesAccess,
    Steps,
    loaded_lanes,
    stored_constants,
    stored_lanes,
    takes_long,
)
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums
from tilewright.targets.sw26010.gemm.shape import PRECISIONS, VECTOR_LANES, Precision

Y, PLACES, STEPS = 16, 17, 19
"""Registers: the result, the operands' addresses, and the pointer steps of each loop."""
SOURCES, STEP = (21, 22, 23, 24), (0, 1, 2, 3, 4)
"""Pointers of operands, and the steps of the result's and the operands' pointers from one element
to the next.
"""
MOST_SOURCES = 8
_FAR_AT, _SPARE = 48, 2
"""Offset in the frame of the other pointers, and how many fit before the saved registers."""


def _is_far(operand: int) -> bool:
    """True if the operand's pointer lies in the frame."""
    return operand > len(SOURCES)


def far_bytes(sources: int) -> int:
    """Bytes of the frame, in whole vectors, for the pointers beyond those it has room for."""
    more = max(0, sources - len(SOURCES) - _SPARE)
    return -(-more // VECTOR_LANES) * VECTOR_LANES * WORD


def step_at(operand: int, level: int) -> int:
    """The offset in bytes of the step of an operand's pointer in a loop."""
    return WORD * (LEVELS * operand + level)


def begun(operand: int, register: int) -> list[Instruction]:
    """Load an operand's address from where the caller has put it, through a register."""
    place = (WORD * (operand - 1), PLACES)
    if not _is_far(operand):
        return [op("ldl", SOURCES[operand - 1], place)]
    return [op("ldl", register, place), op("stl", register, _far(operand))]


def first_element(precision: Precision, operand: int, register: int) -> list[Instruction]:
    """Load the element that an operand points to into every lane of `register`."""
    if not _is_far(operand):
        return [op(precision.scalar_load, register, (0, _pointer(operand)))]
    return [op("ldl", register, _far(operand)), op(precision.scalar_load, register, (0, register))]


def reached(
    operand: int, taken: Callable[[], int], code: Callable[[int, int], list[Instruction]]
) -> tuple[list[Instruction], tuple[int, ...]]:
    """Code that runs around an operand's pointer and may advance it, the register of its step, and
    the registers taken for both.
    """
    if not _is_far(operand):
        return code(_pointer(operand), STEP[operand]), ()
    pointer, step = taken(), taken()
    lines, place = code(pointer, step), _far(operand)
    before = [op("ldl", pointer, place)]
    if any(step in line.reads for line in lines):
        before.append(op("ldl", step, (step_at(operand, LEVELS - 1), STEPS)))
    moves = any(pointer in line.writes for line in lines)
    after = [op("stl", pointer, place)] if moves else []
    return [*before, *lines, *after], (pointer, step)


def next_pointer(
    precision: Precision, operand: int, level: int, turns: deque[int]
) -> list[Instruction]:
    """Advance a pointer to the next iteration of a loop, through registers in turn."""
    step, code = turns[0], [op("ldl", turns[0], (step_at(operand, level), STEPS))]
    turns.rotate(-1)
    if not _is_far(operand):
        pointer = _pointer(operand)
        return [*code, op(scaled_add(precision), step, pointer, pointer)]
    pointer, place = turns[0], _far(operand)
    turns.rotate(-1)
    code += [op("ldl", pointer, place), op(scaled_add(precision), step, pointer, pointer)]
    return [*code, op("stl", pointer, place)]


def watched(precision: Precision, operand: int, flag: int, turns: deque[int]) -> list[Instruction]:
    """Set the flag's bits if an operand does not start with a vector, or its steps prevent that;
    the step between its elements is in its register from here on.
    """
    far, last = _is_far(operand), precision.vector_bytes - 1
    first, second = turns[0], turns[1]
    step = first if far else STEP[operand]
    code = [op("ldl", second, _far(operand))] if far else []
    code.append(op("ldl", step, (step_at(operand, LEVELS - 1), STEPS)))
    pointer = second if far else _pointer(operand)
    code += [with_number("xor", step, 1, first), op("or", flag, first, flag)]
    code += [with_number("and", pointer, last, second), op("or", flag, second, flag)]
    turns.rotate(-2)
    return code


def watched_between(operands: Iterable[int], flag: int, turns: deque[int]) -> list[Instruction]:
    """Set the flag's bits if steps between rows prevent operands from starting with a vector."""
    every = turns.popleft()
    first, *others = (step_at(*step) for step in product(operands, range(LEVELS - 1)))
    code = [op("ldl", every, (first, STEPS))]
    for place in others:
        code += [op("ldl", turns[0], (place, STEPS)), op("or", every, turns[0], every)]
        turns.rotate(-1)
    return [*code, with_number("and", every, VECTOR_LANES - 1, every), op("or", flag, every, flag)]


def _far(operand: int) -> tuple[int, int]:
    return _FAR_AT + WORD * (operand - 1 - len(SOURCES)), STACK


def _pointer(operand: int) -> int:
    return SOURCES[operand - 1] if operand else Y


_LEFT, _OUTER = 25, 28
_TURNS = (5, 6, 7, 8)
_FREE, _KEPT = (*_TURNS, PLACES), (9, 10, 11, 12, 13, 14, 15)
_UNROLLED = (8, 4, 2, 1)
_MOST_COMPUTED = 4
"""Items at a time of an expression with operations; pure moves take more."""


@dataclass(frozen=True)
class MapRoutine:
    """The routine of an expression; `still` tells which operands are constant along a row. If it is
    `short` of registers, constants and these operands are loaded at each use. If it `updates` the
    result, the result is the first operand, a product and its addend are rounded once, and operands
    that are constant along a row are constant in a whole call.
    """

    precision: Precision
    expression: str
    still: tuple[bool, ...]
    unrolled: int
    short: bool = False
    updates: bool = False
    modes: ClassVar[tuple[str, ...]] = MODES

    @property
    def name(self) -> str:
        """The routine's symbol, shared with its C twin."""
        kind = ["updates"] if self.updates else []
        what = digest(self.expression, ",".join(map(str, self.still)), *kind)[:10]
        return f"tw_map_{what}_{self.precision.name}"

    @property
    def timed_as(self) -> str:
        """Its name among the timings, regardless of the values of constants."""
        sums, result = self.arithmetic
        how = (self.precision.name, self.still, self.unrolled, self.short, self.updates)
        return timed_name(("map", *how, sums.steps, result), sums.constants)

    def code(self) -> RoutineCode:
        """The routine's instructions, in the order of its text."""
        return _code_of(self)

    def text(self) -> str:
        """The routine's assembly."""
        return self.code().text()

    @cached_property
    def arithmetic(self) -> tuple[Sums, int]:
        """The operations on one item, whose values 0, 1, ... are the operands, and the result."""
        sums = Sums(count=len(self.still))
        scalar = parse_scalar(self.expression)
        result = ExpressionOperations(sums, range(len(self.still))).value(scalar)
        return (sums.fused(result) if self.updates else sums), result

    @cached_property
    def uses(self) -> list[int]:
        """The values used, in order, repeated for each use."""
        sums, result = self.arithmetic
        return [*(value for _, sources, _ in sums.steps for value in sources), result]

    @property
    def by_lanes(self) -> bool:
        """True if strided elements are gathered into vectors: expressions that take long enough."""
        return takes_long(self.arithmetic[0])

    def chunks(self, mode: str) -> tuple[Chunk, ...]:
        """The chunks of a row: as many of the first as fit, then at most one each of half the size
        of the one before.
        """
        counts = [n for n in _UNROLLED if n <= self.unrolled]
        if mode == "elements" and self.by_lanes:
            lanes = (Chunk("lanes", n) for n in counts)
            return (*lanes, Chunk(mode, 2), Chunk(mode, 1))
        return tuple(Chunk(mode, n) for n in counts)

    @property
    def is_short(self) -> bool:
        """True if a call takes little longer than starting its loops: moves and updates. A single
        row then starts at once.
        """
        return self.updates or not self.arithmetic[0].steps

    @property
    def walking(self) -> tuple[int, ...]:
        """The operands that a row walks over."""
        return tuple(i for i in self.pointed if not self.still[i])

    @property
    def pointed(self) -> tuple[int, ...]:
        """The operands that are read by a pointer of their own."""
        return tuple(i for i in range(self.updates, len(self.still)) if i in self.uses)

    @property
    def moving(self) -> tuple[int, ...]:
        """The result, 0, and the operands whose pointers move from row to row, from 1 on."""
        return (0, *(1 + i for i in self.pointed if not (self.updates and self.still[i])))

    @property
    def walked(self) -> tuple[int, ...]:
        return (0, *(1 + i for i in self.walking))

    @property
    def registers(self) -> tuple[int, ...]:
        """Free registers, in the order in which values take them."""
        return (*_FREE, *self._others, *_KEPT)

    @property
    def _others(self) -> tuple[int, ...]:
        """Pointers and steps left free by the operands."""
        count = len(self.still)
        used = (*SOURCES[:count], STEP[0], *STEP[1 + self.updates : 1 + count])
        return tuple(r for r in (*SOURCES, *STEP) if r not in used)

    @cached_property
    def row_steps(self) -> dict[int, int]:
        """Registers not needed otherwise, for steps of operands from one row to the next."""
        taken = {*self.place.values(), *(r for one in self._every for r in one.writes)}
        free = (r for r in self._others if r not in taken)
        near = (operand for operand in self.moving if not _is_far(operand))
        return dict(zip(near, free, strict=False))

    @cached_property
    def place(self) -> dict[int, int]:
        """The registers of constants, by value, and of operands that are constant along a row."""
        constants = [-1 - i for i in range(len(self.arithmetic[0].constants))]
        still = [i for i, same in enumerate(self.still) if same and i in self.uses]
        if self.constants_in_memory:
            constants = []
        if self.short:
            still = []
        registers = [*reversed(self._others), *reversed(_KEPT)]
        fixed = dict(zip([*constants, *still], registers, strict=False))
        return {ZERO_VALUE: ZERO, **fixed}

    @property
    def constants_in_memory(self) -> bool:
        """True if constants lie in the frame and are loaded at each use."""
        still = sum(same and i in self.uses for i, same in enumerate(self.still))
        return self.short or len(self.arithmetic[0].constants) + still > len(_KEPT)

    @property
    def constants_at(self) -> int:
        """Offset of the constants in the frame, after the saved registers."""
        return self.saved_at + 32 * len(self.saves)

    @property
    def saved_at(self) -> int:
        """Offset of the saved registers in the frame, after the pointers."""
        return SAVED_AT + far_bytes(len(self.still))

    @cached_property
    def saves(self) -> tuple[int, ...]:
        """The kept registers that are overwritten."""
        taken = {*self.place.values(), *(r for one in self._every for r in one.writes)}
        return tuple(r for r in _KEPT if r in taken)

    @cached_property
    def _every(self) -> list[Instruction]:
        """The code of all chunks, up to the place of the constants."""
        chunks = (chunk for mode in MODES for chunk in self.chunks(mode))
        return [one for chunk in chunks for one in self._code(chunk, 0)]

    def items(self, chunk: Chunk) -> list[Instruction]:
        """A chunk, with the pointers advanced. Raises ProgramError if registers run out."""
        return self._code(chunk, self.constants_at)

    def _code(self, chunk: Chunk, memory: int) -> list[Instruction]:
        """The code of a chunk; elements that exceed the registers follow each other."""
        count = min(chunk.items, self.unrolled)
        once = _Items(self, chunk.mode, memory).code(count)
        return once * (chunk.items // count)


class _Items:
    """Successive items: each operation for all of them, operands loaded at their use."""

    def __init__(self, routine: MapRoutine, mode: str, memory: int = 0) -> None:
        self.routine, self.mode = routine, mode
        free = deque(r for r in routine.registers if r not in routine.place.values())
        lanes = 1 if mode == "elements" else VECTOR_LANES
        sums, text = routine.arithmetic[0], routine.expression
        self.steps = Steps(sums, routine.place, free, memory, lanes, text)

    def code(self, count: int) -> list[Instruction]:
        """All instructions of the items."""
        steps, (_, result) = self.steps, self.routine.arithmetic
        places: list[dict[int, int]] = [{} for _ in range(count)]
        left = [list(self.routine.uses) for _ in range(count)]
        steps.append(places, left, self._loaded)
        for item, place in enumerate(places):
            if result not in place and result not in self.routine.place:
                place[result] = self._loaded(result, item)
            register = {**self.routine.place, **place}[result]
            self._access(store, stored_lanes, register, 0, item)
            steps.release([result], place, left[item])
        reading = [move(Y, SOURCES[0])] if self.routine.updates and self.mode == "elements" else []
        return [*reading, *steps.code, *self._forward(count)]

    def _loaded(self, value: int, item: int) -> int:
        register, precision = self.steps.taken(), self.routine.precision
        if self.routine.still[value]:
            self.steps.code += first_element(precision, 1 + value, register)
            return register
        self._access(load_item, loaded_lanes, register, 1 + value, item)
        return register

    def _access(
        self, one: Access, lanes: LanesAccess, register: int, operand: int, item: int
    ) -> None:
        precision, steps, mode = self.routine.precision, self.steps, self.mode
        single = steps.taken() if mode == "lanes" else register

        def accessed(pointer: int, step: int) -> list[Instruction]:
            if operand == 1 and self.routine.updates:
                pointer, step = (Y if mode == "vectors" else pointer), STEP[0]
            if mode == "lanes":
                return lanes(precision, register, single, (pointer, step))
            name = one(precision, mode)
            if mode == "vectors":
                return [op(name, register, (item * precision.vector_bytes, pointer))]
            forward = op(scaled_add(precision), step, pointer, pointer)
            return [op(name, register, (0, pointer)), forward]

        code, spare = reached(operand, steps.taken, accessed)
        steps.code += code
        steps.free.extend((*spare, single) if mode == "lanes" else spare)

    def _forward(self, count: int) -> list[Instruction]:
        if self.mode != "vectors":
            return []
        distance, code = count * self.routine.precision.vector_bytes, []
        for operand in (0, *(1 + i for i in self.routine.walking)):
            forward, spare = reached(operand, self.steps.taken, lambda p, _: [move(p, p, distance)])
            code += forward
            self.steps.free.extend(spare)
        return code


@cache
def map_routine(
    expression: str, still: tuple[bool, ...], dtype: str, *, updates: bool = False
) -> MapRoutine | None:
    """The routine of an expression over `len(still)` operands; None if the core lacks instructions
    for a function, or registers for the values.
    """
    if dtype not in PRECISIONS or len(still) > MOST_SOURCES:
        return None
    scalar = expanded(parse_scalar(expression))
    if operand_count(scalar) > len(still):
        return None
    for unrolled, short in (*((n, False) for n in _UNROLLED), (1, True)):
        routine = MapRoutine(PRECISIONS[dtype], str(scalar), still, unrolled, short, updates)
        if unrolled > _MOST_COMPUTED and routine.arithmetic[0].steps:
            continue
        try:
            for chunk in (chunk for mode in MODES for chunk in routine.chunks(mode)):
                routine.items(chunk)
        except ProgramError:
            continue
        return routine
    return None


def written_as_maps(
    primitive: Primitive, operands: int, dtype: str
) -> tuple[MapRoutine, ...] | None:
    """The successive routines of a primitive on so many operands that is a move or an update of its
    result; None for others, and for elements that the core does not compute.
    """
    match primitive:
        case Fill(value):
            found = [map_routine(str(Number(float(value))), (), dtype)]
        case Copy() | Windows():
            found = [map_routine("x0", (False,), dtype)]
        case ScaleAdd(alpha, beta):
            updates = [_scaled(alpha), *("x0" for _ in range(operands - 2))]
            added = f" + {_scaled(beta, 'x1')}" if operands > 1 else ""
            still = (False,) * min(operands, 2)
            found = [map_routine(one + added, still, dtype, updates=True) for one in updates]
        case MultiplyAccumulate():
            found = [map_routine("x0 + x1 * x2", (False, False, True), dtype, updates=True)]
        case _:
            return None
    routines = tuple(routine for routine in found if routine is not None)
    return routines or None


def _scaled(factor: float, of: str = "x0") -> str:
    return of if factor == 1 else f"{Number(float(factor))} * {of}"


@cache
def _code_of(routine: MapRoutine) -> RoutineCode:
    objects = {Y: "y", STACK: "frame"} | dict.fromkeys(SOURCES, "x")
    objects |= dict.fromkeys((PLACES, COUNT, STEPS), "arguments")
    code = RoutineCode(routine.name, AliasRules(objects))
    moved = partial(_moved, routine)
    loops = Loops(code, _LEFT, _OUTER, 5, moved, asks_for_rest=routine.is_short)
    code.block("", _opening(routine, loops))
    if routine.is_short:
        code.block("", [op("beq", _OUTER, "mode")])
        code.block("", [*loops.started(deque(_TURNS)), *_between_rows(routine)])
    code.block("mode", [op("bne", _LEFT, "elements_row")])
    for mode in MODES:
        chunks = routine.chunks(mode)
        opening = [with_number("srl", EXTENT, chunks[0].elements.bit_length() - 1, _LEFT)]
        opening += [] if routine.updates else _unchanging(routine)
        loops.rows(mode, opening, [_part(routine, chunk) for chunk in chunks])
    code.block("done", closing(_frame_bytes(routine), routine.saves, routine.saved_at))
    return code


def _part(routine: MapRoutine, chunk: Chunk) -> RowPart:
    return RowPart(str(chunk.elements), chunk.elements, lambda _: [("", routine.items(chunk))])


def _opening(routine: MapRoutine, loops: Loops) -> list[Instruction]:
    """Allocate the frame, read the arguments, test for empty loops and obstacles to vectors."""
    in_memory = routine.arithmetic[0].constants if routine.constants_in_memory else []
    code = framed(_frame_bytes(routine), routine.saves, routine.saved_at)
    for i in routine.pointed:
        code += begun(1 + i, 5)
    turns = deque(_TURNS)
    code += [move(ZERO, _OUTER), op("ldl", EXTENT, (WORD * (LEVELS - 1), COUNT))]
    code += loops.counted(turns, rows_only=routine.is_short) + _forbidden(routine, turns)
    code += [] if routine.is_short else _between_rows(routine)
    code += stored_constants(in_memory, routine.constants_at, turns)
    code += _unchanging(routine) if routine.updates else []
    if not routine.constants_in_memory:
        for number, value in enumerate(routine.arithmetic[0].constants):
            code += constant_to_lanes(value, routine.place[-1 - number])
    code += [with_number("subl", EXTENT, 1, 5), op("or", _OUTER, 5, 5)]
    return [*code, op("blt", 5, "done")]


def _between_rows(routine: MapRoutine) -> list[Instruction]:
    """Set up the steps that only several rows need, which may forbid vectors."""
    code = watched_between(routine.walked, _LEFT, deque(_TURNS))
    for operand, register in routine.row_steps.items():
        code.append(op("ldl", register, (step_at(operand, LEVELS - 2), STEPS)))
    return code


def _unchanging(routine: MapRoutine) -> list[Instruction]:
    """Load the operands that stay in registers: for a row, or in an update for a whole call."""
    still = [i for i, same in enumerate(routine.still) if same and i in routine.place]
    loads = (first_element(routine.precision, 1 + i, routine.place[i]) for i in still)
    return [line for load in loads for line in load]


def _frame_bytes(routine: MapRoutine) -> int:
    in_memory = routine.arithmetic[0].constants if routine.constants_in_memory else []
    return routine.constants_at + WORD * len(in_memory)


def _forbidden(routine: MapRoutine, turns: deque[int]) -> list[Instruction]:
    """Set LEFT to 0 only if rows are contiguous and consist of whole, aligned vectors."""
    code = [with_number("and", EXTENT, VECTOR_LANES - 1, _LEFT)]
    for operand in routine.walked:
        code += watched(routine.precision, operand, _LEFT, turns)
    return code


def _moved(routine: MapRoutine, level: int) -> list[Instruction]:
    """Advance every pointer to the next iteration of a loop."""
    turns, code = deque((6, 7, 8, PLACES)), []
    for operand in routine.moving:
        if level == LEVELS - 2 and operand in routine.row_steps:
            step, pointer = routine.row_steps[operand], _pointer(operand)
            code.append(op(scaled_add(routine.precision), step, pointer, pointer))
            continue
        code += next_pointer(routine.precision, operand, level, turns)
    return code
