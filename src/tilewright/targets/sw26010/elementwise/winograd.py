"""Winograd's transforms of SW26010 in assembly: y = M x M^T / divisor for one item of tiles.

In: the matrices of `ir.winograd`. Out: the text of a routine with six nested loops over tiles: it
multiplies all columns of a tile by the matrix, into the frame, then all rows. Rows of tiles whose
points are contiguous and aligned are done by vectors, others tile by tile; the choice is made once
per call. Arithmetic is in double precision for all element types.

Calling convention: arguments in $16 .. $21 and behind the stack pointer, $9 .. $15, $26, $29, $30
are kept. The frame lies on the stack, in the core's local memory. A tile takes nearly all
registers, so those of the nest are saved in the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import frexp

from tilewright.codegen.c.winograd_text import transform_name
from tilewright.ir.winograd import Matrix, transforms
from tilewright.isa import Instruction
from tilewright.isa.dependence import AliasRules
from tilewright.targets.sw26010.elementwise.code import (
    LINK,
    MODES,
    STACK,
    ZERO,
    RoutineCode,
    constant_to_lanes,
    item_elements,
    load_item,
    move,
    op,
    saved,
    scaled_add,
    store,
    with_number,
)
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums, matrix_product
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES, Precision

Y, X, COUNT, Y_STRIDES, X_STRIDES = 16, 17, 18, 19, 20
TO, FROM, EXTENT, OUTER, LEFT = 21, 22, 23, 24, 25
ROWS_LEFT, Y_STEP, X_STEP = 27, 28, 0
TO_STEP, FROM_STEP = 7, 8
"""Distances in elements from one element of a row to the next."""
CONTROL = (Y, X, COUNT, Y_STRIDES, X_STRIDES, EXTENT, OUTER, ROWS_LEFT, Y_STEP, X_STEP)
_TEMPORARIES = (2, 3, 4, 5, 6)

LEVELS, _WORD = 6, 8
_IN_MEMORY = LEVELS - 2
"""Loops whose counters stay in the frame; the row and the loop around it use registers."""
_LEFT_AT, _Y_AT, _X_AT = 0, 32, 64
SPILLED_AT, STACK_AT, STEPS_AT, ITEM_AT, WORDS_AT = 96, 176, 184, 200, 224
SAVED_AT = 256
SCRATCH_AT = SAVED_AT + 32 * 7
_SAVES, _WORDS = (9, 10, 11, 12, 13, 14, 15), (LINK, 29)
"""Callee-saved registers that the transform overwrites, whole ones and those of one word."""
OBJECTS = {Y: "y", TO: "y", X: "x", FROM: "x", STACK: "frame"} | dict.fromkeys(
    (COUNT, Y_STRIDES, X_STRIDES), "arguments"
)
"""The object each pointer addresses, for alias analysis: operands are disjoint, or the same element
by element.
"""


Y_ROW, Y_COLUMN, X_ROW, X_COLUMN = 9, 10, 11, 12
"""Distances in bytes between the points of a tile."""
_COLUMN, _POINT, _RESULT_ROW, _RESULT = 13, 14, 15, 18
"""Pointers that run over a tile: its columns and their points, the result's rows and points."""
_POINTERS = ((_COLUMN, "x"), (_POINT, "x"), (_RESULT_ROW, "y"), (_RESULT, "y"))
_CONSTANTS = (16, 17, 19, 20, 23)
_ITEM = (TO, FROM, LEFT)
"""Registers that the next item needs, saved in the frame during this one."""
_VALUES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 24, 27, 28, 26, 29, *_ITEM)
_VECTOR_BYTES = 32
_Access = Callable[[int], list[Instruction]]


@dataclass(frozen=True)
class WinogradWork:
    """One transform. Its arguments are y, x, the extents of the loops, the strides of y and x in
    each, and those of a tile's points.
    """

    precision: Precision
    which: str
    points: str

    @property
    def name(self) -> str:
        """The symbol of the routine."""
        return f"tw_winograd_{self.which}_{transform_name(self.points)}_{self.precision.name}"

    @property
    def matrix(self) -> Matrix:
        """The transform's matrix."""
        found: Matrix = getattr(transforms(self.points), self.which)
        return found

    @property
    def divisor(self) -> float:
        """The divisor of the results: 1 except in the output transform."""
        return transforms(self.points).divisor if self.which == "output" else 1.0

    @cached_property
    def constants(self) -> tuple[float, ...]:
        """The factors of the sums and of the division, in the order of their registers."""
        sums = Sums()
        self._line(sums, divided=True)
        return tuple(sums.constants)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the frame for a tile between both products."""
        rows, side = self.matrix.shape
        return _VECTOR_BYTES * int(rows) * int(side)

    def arguments(self) -> list[Instruction]:
        """Strides in bytes; $1 is the caller's stack pointer."""
        stacked = (Y_COLUMN, X_ROW, X_COLUMN)
        code = [move(TO, Y_ROW)]
        code += [op("ldl", register, (8 * i, 1)) for i, register in enumerate(stacked)]
        add = scaled_add(self.precision)
        return [*code, *(op(add, r, ZERO, r) for r in (Y_ROW, *stacked))]

    def row_starts(self) -> list[Instruction]:
        """Code at the start of every row: the constants, whose registers the nest takes."""
        pairs = zip(self.constants, _CONSTANTS, strict=False)
        return [line for factor, register in pairs for line in constant_to_lanes(factor, register)]

    def item(self, mode: str) -> list[Instruction]:
        """One tile of vectors, or of elements, with both pointers advanced. The inputs of a line
        are loaded before the previous line is computed, so that loads overlap with arithmetic.
        """
        free = [*_CONSTANTS[len(self.constants) :], *_VALUES]
        columns, rows = self._columns(mode), self._rows(mode)
        code = [move(FROM, _COLUMN), move(TO, _RESULT_ROW), *_item("stl")]
        for lines in (columns, rows):
            code += lines[0].loaded(free)
            for line, following in zip(lines, [*lines[1:], None], strict=True):
                code += following.loaded(free) if following else []
                code += line.computed(free)
        return [*code, *_item("ldl"), *self._forward(mode)]

    def _columns(self, mode: str) -> list[_Line]:
        """The first product: points of the tile in, columns of the frame out."""
        rows, side = self.matrix.shape
        found = []
        for column in range(side):
            sums, values, results = self._line()
            loads = _walk(
                load_item(self.precision, mode), (_COLUMN, _POINT), (X_ROW, X_COLUMN), side
            )
            kept = [_frame_access("vstd", row * side + column) for row in range(rows)]
            found.append(_Line(sums, dict(zip(values, loads, strict=True)), results, kept))
        return found

    def _rows(self, mode: str) -> list[_Line]:
        """The second product: rows of the frame in, points of the result out."""
        rows, side = self.matrix.shape
        found = []
        for row in range(rows):
            sums, values, results = self._line(divided=True)
            kept = {
                v: _frame_access("vldd", row * side + column) for column, v in enumerate(values)
            }
            name, pointers = store(self.precision, mode), (_RESULT_ROW, _RESULT)
            found.append(_Line(sums, kept, results, _walk(name, pointers, (Y_COLUMN, Y_ROW), rows)))
        return found

    def _line(
        self, sums: Sums | None = None, *, divided: bool = False
    ) -> tuple[Sums, list[int], list[int]]:
        """Arithmetic on one column or row, as (sums, inputs, results)."""
        sums = sums or Sums(list(self.constants))
        values = [sums.new() for _ in range(self.matrix.shape[1])]
        results = matrix_product(sums, self.matrix, values)
        return sums, values, [self._quotient(sums, r) for r in results] if divided else results

    def _quotient(self, sums: Sums, value: int) -> int:
        """The value over the divisor, rounded once even if the reciprocal is inexact: the remainder
        of the first quotient corrects it.
        """
        if self.divisor == 1:
            return value
        inverse = sums.constant(1 / self.divisor)
        quotient = sums.add("vmuld", value, inverse)
        if frexp(self.divisor)[0] == 0.5:
            return quotient
        remainder = sums.add("vnmad", quotient, sums.constant(self.divisor), value)
        return sums.add("vmad", remainder, inverse, quotient)

    def _forward(self, mode: str) -> list[Instruction]:
        if mode == "vectors":
            step = VECTOR_LANES * self.precision.element_bytes
            return [move(TO, TO, step), move(FROM, FROM, step)]
        add, step_to, step_from = scaled_add(self.precision), _VALUES[0], _VALUES[1]
        return [
            op("ldl", step_to, (STEPS_AT, STACK)),
            op("ldl", step_from, (STEPS_AT + 8, STACK)),
            op(add, step_to, TO, TO),
            op(add, step_from, FROM, FROM),
        ]


def _walk(
    name: str, pointers: tuple[int, int], steps: tuple[int, int], count: int
) -> list[_Access]:
    """Accesses to the points of a line from pointer `start` on, which ends at the next line."""
    (start, pointer), (step, line) = pointers, steps

    def access(number: int, register: int) -> list[Instruction]:
        before = start if number == 1 else pointer
        code = [op("addl", before, step, pointer)] if number else []
        code.append(op(name, register, (0, pointer if number else start)))
        return [*code, op("addl", start, line, start)] if number == count - 1 else code

    return [partial(access, number) for number in range(count)]


def _frame_access(name: str, place: int) -> _Access:
    def access(register: int) -> list[Instruction]:
        return [op(name, register, (SCRATCH_AT + _VECTOR_BYTES * place, STACK))]

    return access


def _item(name: str) -> list[Instruction]:
    return [op(name, r, (ITEM_AT + 8 * i, STACK)) for i, r in enumerate(_ITEM)]


@dataclass
class _Line:
    """A column or row in progress: its inputs, arithmetic and stores."""

    sums: Sums
    inputs: Mapping[int, _Access]
    results: Sequence[int]
    stores: Sequence[_Access]
    place: dict[int, int] = field(default_factory=dict)

    def loaded(self, free: list[int]) -> list[Instruction]:
        """Load its inputs into the registers that have been free for longest."""
        code = []
        for value, access in self.inputs.items():
            self.place[value] = free.pop(0)
            code += access(self.place[value])
        return code

    def computed(self, free: list[int]) -> list[Instruction]:
        """Compute it, then store its results; a register is freed after its value's last use."""
        uses = [value for _, sources, _ in self.sums.steps for value in sources]
        uses += self.results
        code = []
        for name, sources, result in self.sums.steps:
            given = [self._register(value) for value in sources]
            self._release(sources, uses, free)
            self.place[result] = free.pop(0)
            code.append(op(name, *given, self.place[result]))
        for value, access in zip(self.results, self.stores, strict=True):
            code += access(self.place[value])
        self._release(self.results, uses, free)
        return code

    def _release(self, values: Sequence[int], uses: list[int], free: list[int]) -> None:
        for value in values:
            uses.remove(value)
            if value >= 0 and value not in uses:
                free.append(self.place[value])

    def _register(self, value: int) -> int:
        if value == ZERO_VALUE:
            return ZERO
        return self.place[value] if value >= 0 else _CONSTANTS[-1 - value]


def nest_routine(work: WinogradWork) -> RoutineCode:
    """The code of a routine: rows of tiles in six loops."""
    routine = RoutineCode(work.name, AliasRules(OBJECTS | dict(_POINTERS)))
    routine.block("", _opening(work))
    routine.block("", [op("beq", OUTER, "mode")])
    routine.block("", _start_of_loops())
    routine.block("mode", [op("bne", LEFT, "elements_row")])
    for mode in MODES:
        _row_blocks(routine, work, mode)
    closing = [*saved(_SAVES, SAVED_AT, restore=True), *_words("ldl")]
    routine.block("done", [*closing, op("ldl", STACK, (STACK_AT, STACK)), op("ret", LINK)])
    return routine


def _opening(work: WinogradWork) -> list[Instruction]:
    """Allocate the frame, and test for empty loops and obstacles to vectors; return if there is
    nothing to do, and start at once if there is one row.
    """
    code = [
        move(STACK, 1),
        move(STACK, 0, -SCRATCH_AT - work.scratch_bytes),
        with_number("srl", 0, 5, 0),
        with_number("sll", 0, 5, 0),
        move(0, STACK),
        op("stl", 1, (STACK_AT, STACK)),
        *saved(_SAVES, SAVED_AT),
        *_words("stl"),
        *work.arguments(),
    ]
    counts = (*_TEMPORARIES, EXTENT)
    code += [op("ldl", r, (_WORD * d, COUNT)) for d, r in enumerate(counts)]
    for step, strides in ((TO_STEP, Y_STRIDES), (FROM_STEP, X_STRIDES)):
        code.append(op("ldl", step, (_WORD * (LEVELS - 1), strides)))
    code += [op("stl", TO_STEP, (STEPS_AT, STACK)), op("stl", FROM_STEP, (STEPS_AT + _WORD, STACK))]
    code += [with_number("subl", r, 1, r) for r in _TEMPORARIES]
    code += [move(_TEMPORARIES[0], OUTER)]
    code += [op("or", OUTER, r, OUTER) for r in _TEMPORARIES[1:]]
    code += _misaligned(work)
    return [*code, with_number("subl", EXTENT, 1, 3), op("or", OUTER, 3, 3), op("blt", 3, "done")]


def _misaligned(work: WinogradWork) -> list[Instruction]:
    """Set LEFT to 0 only if rows are contiguous and consist of whole, aligned vectors."""
    last, scratch = work.precision.vector_bytes - 1, 2
    code = [with_number("and", EXTENT, VECTOR_LANES - 1, LEFT)]
    for step, start in ((TO_STEP, Y), (FROM_STEP, X)):
        code += [
            with_number("xor", step, 1, scratch),
            op("or", LEFT, scratch, LEFT),
            with_number("and", start, last, scratch),
            op("or", LEFT, scratch, LEFT),
        ]
    return code


def _start_of_loops() -> list[Instruction]:
    """Initialise counters and pointers of the outer loops; strides that are not whole vectors rule
    out vectors.
    """
    code = []
    for level in range(_IN_MEMORY):
        code += [
            op("ldl", 2, (_WORD * level, COUNT)),
            op("stl", 2, (_LEFT_AT + _WORD * level, STACK)),
            op("stl", Y, (_Y_AT + _WORD * level, STACK)),
            op("stl", X, (_X_AT + _WORD * level, STACK)),
        ]
    code.append(op("ldl", ROWS_LEFT, (_WORD * _IN_MEMORY, COUNT)))
    code.append(move(31, 4))
    for strides, step in ((Y_STRIDES, Y_STEP), (X_STRIDES, X_STEP)):
        for level in range(_IN_MEMORY):
            code += [op("ldl", 3, (_WORD * level, strides)), op("or", 4, 3, 4)]
        code += [op("ldl", step, (_WORD * _IN_MEMORY, strides)), op("or", 4, step, 4)]
    return [*code, with_number("and", 4, VECTOR_LANES - 1, 4), op("or", LEFT, 4, LEFT)]


def _row_blocks(routine: RoutineCode, work: WinogradWork, mode: str) -> None:
    """The loop over rows in one mode."""
    spilled = enumerate(CONTROL)
    opening = [move(Y, TO), move(X, FROM)]
    opening += [op("stl", r, (SPILLED_AT + _WORD * i, STACK)) for i, r in spilled]
    opening.append(with_number("srl", EXTENT, item_elements(mode).bit_length() - 1, LEFT))
    opening += work.row_starts()
    routine.block(f"{mode}_row", [*opening, op("beq", LEFT, f"{mode}_next")])
    count = with_number("subl", LEFT, 1, LEFT)
    routine.block(f"{mode}_group", [*work.item(mode), count, op("bne", LEFT, f"{mode}_group")])
    restored = [op("ldl", r, (SPILLED_AT + _WORD * i, STACK)) for i, r in enumerate(CONTROL)]
    routine.block(f"{mode}_next", [*restored, op("beq", OUTER, "done")])
    add = scaled_add(work.precision)
    forward = [op(add, Y_STEP, Y, Y), op(add, X_STEP, X, X)]
    count = with_number("subl", ROWS_LEFT, 1, ROWS_LEFT)
    routine.block("", [*forward, count, op("bne", ROWS_LEFT, f"{mode}_row")])
    for level in reversed(range(_IN_MEMORY)):
        _next_of_level(routine, work, mode, level)
    routine.block("", [op("br", "done")])


def _next_of_level(routine: RoutineCode, work: WinogradWork, mode: str, level: int) -> None:
    """The end of an outer loop's iteration: the next one, or the loop around."""
    at, add = _WORD * level, scaled_add(work.precision)
    left, count = 2, 25
    over = f"{mode}_over_{level}"
    routine.block(
        "",
        [
            op("ldl", left, (_LEFT_AT + at, STACK)),
            op("ldl", count, (at, COUNT)),
            with_number("subl", left, 1, left),
            op("beq", left, over),
        ],
    )
    code = [op("stl", left, (_LEFT_AT + at, STACK))]
    code.append(op("ldl", ROWS_LEFT, (_WORD * _IN_MEMORY, COUNT)))
    for places, strides, pointer, place, stride in (
        (_Y_AT, Y_STRIDES, Y, 3, 4),
        (_X_AT, X_STRIDES, X, 5, 6),
    ):
        code += [op("ldl", place, (places + at, STACK)), op("ldl", stride, (at, strides))]
        code += [op(add, stride, place, pointer)]
        inner = range(level, _IN_MEMORY)
        code += [op("stl", pointer, (places + _WORD * d, STACK)) for d in inner]
    routine.block("", [*code, op("br", f"{mode}_row")])
    routine.block(over, [op("stl", count, (_LEFT_AT + at, STACK))])


def _words(name: str) -> list[Instruction]:
    return [op(name, r, (WORDS_AT + _WORD * i, STACK)) for i, r in enumerate(_WORDS)]
