"""The nest of loops around every elementwise routine of SW26010: rows of items, six levels.

In: a `Work`, which says what one row does to its items. Out: the routine's text, with the interface
of the C function of the same name in `tw_primitives.h`. Rows that lie contiguous and aligned are
done by vectors, others element by element; which of the two is decided once in a call.

Calling convention: arguments in $16 .. $21 and behind the stack pointer, $9 .. $15, $26, $29, $30
are kept. The frame lies on the stack, in the core's local memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from tilewright.isa import Instruction
from tilewright.isa.dependence import AliasRules
from tilewright.targets.sw26010.elementwise.code import (
    LINK,
    MODES,
    STACK,
    RoutineCode,
    item_elements,
    move,
    op,
    saved,
    scaled_add,
    with_number,
)
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
SMALL_FRAME_BYTES = 96
_WORDS = (LINK, 29)
"""Kept registers of one word that a work which spills overwrites."""
OBJECTS = {Y: "y", TO: "y", X: "x", FROM: "x", STACK: "frame"} | dict.fromkeys(
    (COUNT, Y_STRIDES, X_STRIDES), "arguments"
)
"""The object each pointer addresses, for alias analysis: operands are disjoint, or the same element
by element.
"""


@dataclass(frozen=True)
class Work(ABC):
    """The work that a routine does on its rows.

    `unrolled` items are done in each iteration of a row's loop, the rest by halves. `saves` are
    kept registers that the work overwrites; a work that `spills` uses those of the nest as well.
    `pointers` are those of its own, to "x" or "y"; `scratch_bytes` of the frame are its own.
    """

    precision: Precision
    has_source: ClassVar[bool] = True
    unrolled: ClassVar[int] = 1
    saves: ClassVar[tuple[int, ...]] = ()
    spills: ClassVar[bool] = False
    pointers: ClassVar[tuple[tuple[int, str], ...]] = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The symbol of the routine."""

    @property
    def scratch_bytes(self) -> int:
        """A multiple of a vector."""
        return 0

    def arguments(self) -> list[Instruction]:
        """Brings arguments to where the nest and `items` want them; where the work saves registers
        they have been, and $1 is the caller's stack pointer.
        """
        return []

    def row_starts(self) -> list[Instruction]:
        """Code at the start of every row."""
        return []

    @abstractmethod
    def items(self, mode: str, count: int) -> list[Instruction]:
        """Code of `count` items, with both pointers advanced."""


def nest_routine(work: Work) -> RoutineCode:
    """The code of a routine."""
    routine = RoutineCode(work.name, AliasRules(OBJECTS | dict(work.pointers)))
    routine.block("", _opening(work))
    routine.block("", [op("beq", OUTER, "mode")])
    routine.block("", _start_of_loops(work))
    routine.block("mode", [op("bne", LEFT, "elements_row")])
    for mode in MODES:
        _rows(routine, work, mode)
    routine.block("done", [*_closing(work), op("ret", LINK)])
    return routine


def _frame_bytes(work: Work) -> int:
    """Stack bytes of the routine, before rounding."""
    return SCRATCH_AT + work.scratch_bytes if work.saves else SMALL_FRAME_BYTES


def _opening(work: Work) -> list[Instruction]:
    """Allocate the frame, and test for empty loops and obstacles to vectors; return if there is
    nothing to do, and start at once if there is one row.
    """
    code = _frame(work)
    counts = (*_TEMPORARIES, EXTENT)
    code += [op("ldl", r, (_WORD * d, COUNT)) for d, r in enumerate(counts)]
    code += [op("ldl", TO_STEP, (_WORD * (LEVELS - 1), Y_STRIDES))]
    if work.has_source:
        code += [op("ldl", FROM_STEP, (_WORD * (LEVELS - 1), X_STRIDES))]
    if work.spills:
        code += [
            op("stl", TO_STEP, (STEPS_AT, STACK)),
            op("stl", FROM_STEP, (STEPS_AT + _WORD, STACK)),
        ]
    code += [with_number("subl", r, 1, r) for r in _TEMPORARIES]
    code += [move(_TEMPORARIES[0], OUTER)]
    code += [op("or", OUTER, r, OUTER) for r in _TEMPORARIES[1:]]
    code += _misaligned(work)
    return [*code, with_number("subl", EXTENT, 1, 3), op("or", OUTER, 3, 3), op("blt", 3, "done")]


def _frame(work: Work) -> list[Instruction]:
    if not work.saves:
        return [*work.arguments(), move(STACK, STACK, -SMALL_FRAME_BYTES)]
    return [
        move(STACK, 1),
        move(STACK, 0, -_frame_bytes(work)),
        with_number("srl", 0, 5, 0),
        with_number("sll", 0, 5, 0),
        move(0, STACK),
        op("stl", 1, (STACK_AT, STACK)),
        *saved(work.saves, SAVED_AT),
        *(_words("stl") if work.spills else []),
        *work.arguments(),
    ]


def _misaligned(work: Work) -> list[Instruction]:
    """Set LEFT to 0 only if rows are contiguous and consist of whole, aligned vectors."""
    last, scratch = work.precision.vector_bytes - 1, 2
    code = [with_number("and", EXTENT, VECTOR_LANES - 1, LEFT)]
    for step, start in ((TO_STEP, Y), (FROM_STEP, X))[: 1 + work.has_source]:
        code += [
            with_number("xor", step, 1, scratch),
            op("or", LEFT, scratch, LEFT),
            with_number("and", start, last, scratch),
            op("or", LEFT, scratch, LEFT),
        ]
    return code


def _start_of_loops(work: Work) -> list[Instruction]:
    """Initialise counters and pointers of the outer loops; strides that are not whole vectors rule
    out vectors.
    """
    code = []
    for level in range(_IN_MEMORY):
        code += [
            op("ldl", 2, (_WORD * level, COUNT)),
            op("stl", 2, (_LEFT_AT + _WORD * level, STACK)),
            op("stl", Y, (_Y_AT + _WORD * level, STACK)),
        ]
        if work.has_source:
            code.append(op("stl", X, (_X_AT + _WORD * level, STACK)))
    code.append(op("ldl", ROWS_LEFT, (_WORD * _IN_MEMORY, COUNT)))
    code.append(move(31, 4))
    for strides, step in ((Y_STRIDES, Y_STEP), (X_STRIDES, X_STEP))[: 1 + work.has_source]:
        for level in range(_IN_MEMORY):
            code += [op("ldl", 3, (_WORD * level, strides)), op("or", 4, 3, 4)]
        code += [op("ldl", step, (_WORD * _IN_MEMORY, strides)), op("or", 4, step, 4)]
    return [*code, with_number("and", 4, VECTOR_LANES - 1, 4), op("or", LEFT, 4, LEFT)]


def _rows(routine: RoutineCode, work: Work, mode: str) -> None:
    """The loop over rows in one mode."""
    group = work.unrolled * item_elements(mode)
    opening = [move(Y, TO)] + ([move(X, FROM)] if work.has_source else [])
    if work.spills:
        opening += [op("stl", r, (SPILLED_AT + _WORD * i, STACK)) for i, r in enumerate(CONTROL)]
    shift = group.bit_length() - 1
    opening.append(with_number("srl", EXTENT, shift, LEFT))
    opening += work.row_starts()
    routine.block(f"{mode}_row", [*opening, op("beq", LEFT, f"{mode}_rest")])
    _loop(routine, f"{mode}_group", work.items(mode, work.unrolled))
    routine.rest(f"{mode}_rest", mode, work.unrolled, EXTENT, LEFT, partial(work.items, mode))
    _next_row(routine, work, mode)


def _loop(routine: RoutineCode, label: str, body: Sequence[Instruction]) -> None:
    count = with_number("subl", LEFT, 1, LEFT)
    routine.block(label, [*body, count, op("bne", LEFT, label)])


def _next_row(routine: RoutineCode, work: Work, mode: str) -> None:
    """Leads to the next row, through as many levels of the nest as have ended."""
    restored = []
    if work.spills:
        restored = [op("ldl", r, (SPILLED_AT + _WORD * i, STACK)) for i, r in enumerate(CONTROL)]
    routine.block(f"{mode}_next", [*restored, op("beq", OUTER, "done")])
    add = scaled_add(work.precision)
    forward = [op(add, Y_STEP, Y, Y)] + ([op(add, X_STEP, X, X)] if work.has_source else [])
    count = with_number("subl", ROWS_LEFT, 1, ROWS_LEFT)
    routine.block("", [*forward, count, op("bne", ROWS_LEFT, f"{mode}_row")])
    for level in reversed(range(_IN_MEMORY)):
        _next_of_level(routine, work, mode, level)
    routine.block("", [op("br", "done")])


def _next_of_level(routine: RoutineCode, work: Work, mode: str, level: int) -> None:
    """The end of an outer loop's iteration: on to the next one, or to the loop around."""
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
    moved = ((_Y_AT, Y_STRIDES, Y, 3, 4), (_X_AT, X_STRIDES, X, 5, 6))[: 1 + work.has_source]
    for places, strides, pointer, place, stride in moved:
        code += [op("ldl", place, (places + at, STACK)), op("ldl", stride, (at, strides))]
        code += [op(add, stride, place, pointer)]
        inner = range(level, _IN_MEMORY)
        code += [op("stl", pointer, (places + _WORD * d, STACK)) for d in inner]
    routine.block("", [*code, op("br", f"{mode}_row")])
    routine.block(over, [op("stl", count, (_LEFT_AT + at, STACK))])


def _closing(work: Work) -> list[Instruction]:
    if not work.saves:
        return [move(STACK, STACK, SMALL_FRAME_BYTES)]
    code = saved(work.saves, SAVED_AT, restore=True) + (_words("ldl") if work.spills else [])
    return [*code, op("ldl", STACK, (STACK_AT, STACK))]


def _words(name: str) -> list[Instruction]:
    return [op(name, r, (WORDS_AT + _WORD * i, STACK)) for i, r in enumerate(_WORDS)]
