"""The assembly routines of the primitives that move or transform whole tiles.

In: a primitive and an element type. Out: the `Routine` that is emitted for it; None for other
primitives. `tw_repack_rows` changes the length of a tile's rows in place; its arguments are tile,
rows, new and old length in elements. Rows that grow are moved last row first and from their ends,
and new elements are zero; rows that shrink are moved first row first. So nothing is overwritten
before it has moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar

from tilewright.codegen.c.winograd_text import TILES_OF_CORES, TRANSFORMS
from tilewright.ir.nodes import Call, Program
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Repack, WinogradTransform
from tilewright.ir.visit import walk
from tilewright.isa import Instruction
from tilewright.isa.dependence import AliasRules
from tilewright.targets.sw26010.elementwise.code import (
    LINK,
    MODES,
    ZERO,
    RoutineCode,
    item_elements,
    load_item,
    move,
    op,
    scaled_add,
    store,
    with_number,
)
from tilewright.targets.sw26010.elementwise.winograd import WinogradWork, nest_routine
from tilewright.targets.sw26010.gemm.shape import PRECISIONS, VECTOR_LANES, Precision

UNROLLED = 8
TILE, ROWS, NEW, OLD = 16, 17, 18, 19
_TO, _FROM, _LEFT, _TO_ROW, _FROM_ROW, _ADDED, _MODE = 20, 21, 22, 23, 24, 25, 27
_MOVED = (1, 2, 3, 4, 5, 6, 7, 8)


def rows_name(precision: Precision) -> str:
    """The symbol of the routine."""
    return f"tw_repack_rows_{precision.name}"


def rows_routine(precision: Precision) -> RoutineCode:
    """The code of the routine."""
    # Rows overlap where they come from and where they go: no access passes another.
    routine = RoutineCode(rows_name(precision), AliasRules())
    aligned = [op("or", NEW, OLD, _MODE), with_number("and", _MODE, VECTOR_LANES - 1, _MODE)]
    aligned.append(with_number("and", TILE, precision.vector_bytes - 1, _LEFT))
    aligned += [op("or", _MODE, _LEFT, _MODE), op("subl", NEW, OLD, _ADDED)]
    routine.block("", [*aligned, op("beq", _ADDED, "done")])
    routine.block("", [op("ble", ROWS, "done")])
    routine.block("", [op("blt", _ADDED, "shrink")])
    _grow(routine, precision)
    _shrink(routine, precision)
    routine.block("done", [op("ret", LINK)])
    return routine


def _grow(routine: RoutineCode, precision: Precision) -> None:
    """Lengthen rows, the last one first, with pointers to the ends of rows; $1 takes products."""
    add = scaled_add(precision)
    ends = [op("mull", ROWS, NEW, 1), op(add, 1, TILE, _TO_ROW)]
    ends += [op("mull", ROWS, OLD, 2), op(add, 2, TILE, _FROM_ROW)]
    routine.block("", [*ends, op("bne", _MODE, "grow_elements")])
    for mode in MODES:
        row = [move(_TO_ROW, _TO), move(_FROM_ROW, _FROM)]
        row += _load_row_count(mode, _ADDED)
        routine.block(f"grow_{mode}", [*row, op("beq", _LEFT, f"zero_{mode}_rest")])
        zeros = partial(_zeros, precision, mode)
        _loop(routine, f"zero_{mode}", zeros(UNROLLED))
        routine.rest(f"zero_{mode}_rest", mode, UNROLLED, _ADDED, _LEFT, zeros)
        routine.block("", [with_number("subl", ROWS, 1, ROWS), op("beq", ROWS, "done")])
        _moves(routine, f"up_{mode}", precision, mode, OLD, -1)
        size = f"s{precision.element_bytes}addl"
        back = [op("subl", ZERO, NEW, 1), op(size, 1, _TO_ROW, _TO_ROW)]
        back += [op("subl", ZERO, OLD, 2), op(size, 2, _FROM_ROW, _FROM_ROW)]
        routine.block("", [*back, op("br", f"grow_{mode}")])


def _shrink(routine: RoutineCode, precision: Precision) -> None:
    """Shorten rows; the first one is already in its place."""
    add = scaled_add(precision)
    start = [move(TILE, _TO_ROW), move(TILE, _FROM_ROW)]
    routine.block("shrink", [*start, op("bne", _MODE, "shrink_elements")])
    for mode in MODES:
        row = [with_number("subl", ROWS, 1, ROWS)]
        row += [op(add, NEW, _TO_ROW, _TO_ROW), op(add, OLD, _FROM_ROW, _FROM_ROW)]
        routine.block(f"shrink_{mode}", [*row, op("beq", ROWS, "done")])
        routine.block("", [move(_TO_ROW, _TO), move(_FROM_ROW, _FROM)])
        _moves(routine, f"down_{mode}", precision, mode, NEW, 1)
        routine.block("", [op("br", f"shrink_{mode}")])


def _moves(
    routine: RoutineCode, label: str, precision: Precision, mode: str, length: int, way: int
) -> None:
    """Move a row of `length` elements from `_FROM` to `_TO`, forward or backward."""
    routine.block("", [*_load_row_count(mode, length), op("beq", _LEFT, f"{label}_rest")])
    moved = partial(_moved, precision, mode, way)
    _loop(routine, label, moved(UNROLLED))
    routine.rest(f"{label}_rest", mode, UNROLLED, length, _LEFT, moved)


def _load_row_count(mode: str, length: int) -> list[Instruction]:
    shift = (UNROLLED * item_elements(mode)).bit_length() - 1
    return [with_number("srl", length, shift, _LEFT)]


def _loop(routine: RoutineCode, label: str, body: Sequence[Instruction]) -> None:
    count = with_number("subl", _LEFT, 1, _LEFT)
    routine.block(label, [*body, count, op("bne", _LEFT, label)])


def _zeros(precision: Precision, mode: str, count: int) -> list[Instruction]:
    return _stored(precision, mode, [ZERO] * count, -1)


def _moved(precision: Precision, mode: str, way: int, count: int) -> list[Instruction]:
    data = _MOVED[:count]
    size, name = _item_bytes(precision, mode), load_item(precision, mode)
    places = [way * i * size if way > 0 else -(i + 1) * size for i in range(count)]
    code = [op(name, r, (p, _FROM)) for r, p in zip(data, places, strict=True)]
    return [*code, move(_FROM, _FROM, way * count * size), *_stored(precision, mode, data, way)]


def _stored(
    precision: Precision, mode: str, registers: Sequence[int], way: int
) -> list[Instruction]:
    size, name = _item_bytes(precision, mode), store(precision, mode)
    places = [i * size if way > 0 else -(i + 1) * size for i in range(len(registers))]
    code = [op(name, r, (p, _TO)) for r, p in zip(registers, places, strict=True)]
    return [*code, move(_TO, _TO, way * len(registers) * size)]


def _item_bytes(precision: Precision, mode: str) -> int:
    return item_elements(mode) * precision.element_bytes


@dataclass(frozen=True)
class Routine:
    """One routine: a transform on tiles in a nest of loops, or without it the rows of a tile."""

    precision: Precision
    work: WinogradWork | None = None
    modes: ClassVar[tuple[str, ...]] = MODES

    @property
    def name(self) -> str:
        """The routine's symbol, that of the C function in `tw_primitives.c`."""
        return self.work.name if self.work else rows_name(self.precision)

    @property
    def timed_as(self) -> str:
        """Its name among the timings."""
        return self.name

    def code(self) -> RoutineCode:
        """The routine's instructions, in the order of its text."""
        return _code_of(self)

    def text(self) -> str:
        """The routine's assembly."""
        return self.code().text()


@cache
def _code_of(routine: Routine) -> RoutineCode:
    work = routine.work
    return nest_routine(work) if work else rows_routine(routine.precision)


def routine_of(primitive: Primitive, dtype: str) -> Routine | None:
    """The routine of a primitive for one element type."""
    precision = PRECISIONS.get(dtype)
    if precision is None:
        return None
    match primitive:
        case Repack():
            return Routine(precision)
        case WinogradTransform():
            return _transform(primitive, precision)
        case _:
            return None


def program_routines(program: Program) -> tuple[Routine, ...]:
    """The distinct routines of a program's calls, in their order."""
    found = []
    for call in walk(program.body):
        if isinstance(call, Call):
            dtype = program.element_type(call.operands[0])
            found.append(routine_of(call.primitive, dtype))
    return tuple(dict.fromkeys(routine for routine in found if routine))


def _transform(transform: WinogradTransform, precision: Precision) -> Routine | None:
    points = transform.finite_points
    if points not in TILES_OF_CORES:
        return None
    which = transform.name.removeprefix("winograd_")
    return Routine(precision, WinogradWork(precision, which, points))


def all_routines() -> tuple[Routine, ...]:
    """Every routine of the package."""
    found = []
    for precision in PRECISIONS.values():
        works = [WinogradWork(precision, w, p) for p in TILES_OF_CORES for w in TRANSFORMS]
        found += [Routine(precision, work) for work in works]
        found.append(Routine(precision))
    return tuple(found)
