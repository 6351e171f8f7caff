"""The text of a reduction's routine: six loops over results around up to three that gather.

In: a `ReduceRoutine`. Out: its text. The arguments are y, x, the extents of the loops (six over
results, two that gather, the length of a run) and what pointers move by, in elements: y and x at
the end of an iteration of each loop over results, x in the two loops that gather, and from one tap
to the next. In which of its modes a routine does its rows is decided once in a call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from tilewright.common.errors import ProgramError
from tilewright.ir.primitives.maps import Gathering
from tilewright.ir.scalar import expanded, operand_count, parse_scalar
from tilewright.isa import Instruction
from tilewright.isa.dependence import AliasRules
from tilewright.targets.sw26010.elementwise.code import (
    STACK,
    ZERO,
    RoutineText,
    constant,
    move,
    op,
    scaled_add,
    with_number,
)
from tilewright.targets.sw26010.elementwise.loops import (
    COUNT,
    EXTENT,
    LEVELS,
    SAVED_AT,
    WORD,
    Block,
    Loops,
    Part,
    closing,
    framed,
)
from tilewright.targets.sw26010.elementwise.reduce import (
    AT,
    ELEMENTS,
    FROM,
    INNER_LEFT,
    INNER_MOVE,
    KEPT,
    LANES,
    LEFT,
    LENGTH,
    MOVES,
    OUTER_LEFT,
    OUTER_MOVE,
    OUTSIDE,
    TAP,
    TO,
    VECTORS,
    X_STEP,
    Y_STEP,
    Along,
    Items,
    Lie,
    ReduceRoutine,
    X,
    Y,
)
from tilewright.targets.sw26010.elementwise.steps import stored_constants
from tilewright.targets.sw26010.gemm.shape import F32, F64, VECTOR_LANES

OUTER_AT, INNER_AT, LENGTH_AT = LEVELS, LEVELS + 1, LEVELS + 2
"""Their places among the extents."""
OUTER_MOVE_AT, INNER_MOVE_AT, TAP_AT = 2 * LEVELS, 2 * LEVELS + 1, 2 * LEVELS + 2
"""Their places among the moves."""
_X_FORBIDS, _RUNS = OUTER_LEFT, 8
_UNROLLED = (4, 2, 1)
_PRECISIONS = {p.name: p for p in (F64, F32)}


@cache
def reduce_routine(
    function: Gathering, expression: str, lie: Lie, dtype: str
) -> ReduceRoutine | None:
    """The routine of a reduction; none where the core has no instruction for a function, or not the
    registers for its values.
    """
    scalar = expanded(parse_scalar(expression))
    if dtype not in _PRECISIONS or operand_count(scalar) > 1:
        return None
    plain = ReduceRoutine(_PRECISIONS[dtype], function, str(scalar), lie)
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
def reduce_text(routine: ReduceRoutine) -> str:
    """The assembly text of a routine."""
    objects = {Y: "y", TO: "y", X: "x", FROM: "x", AT: "x", STACK: "frame"}
    if routine.lie.step and not routine.lie.along:
        objects = {Y: "y", X: "x", STACK: "frame"}
    objects |= dict.fromkeys((COUNT, MOVES), "arguments")
    text = RoutineText(routine.name, AliasRules(objects))
    loops = Loops(text, LEFT, OUTSIDE, spare=TO, moved=partial(_moved, routine))
    text.block("", _opening(routine, loops))
    modes = routine.lie.modes
    if ELEMENTS in modes and len(modes) > 1 and not routine.lie.along:
        text.block("", [op("bne", LEFT, f"{ELEMENTS}_row")])
    if VECTORS in modes:
        text.block("", [op("bne", _X_FORBIDS, f"{modes[1]}_row")])
    for mode in modes:
        parts = [_part(routine, mode, count) for count in _counts(routine)]
        opening = with_number("srl", EXTENT, parts[0].elements.bit_length() - 1, LEFT)
        if routine.lie.along:
            opening = op("ldl", LEFT, (WORD * (LEVELS - 1), COUNT))
        loops.rows(mode, [opening], parts)
    text.block("done", closing(_saves(routine), SAVED_AT))
    return text.text()


def _part(routine: ReduceRoutine, mode: str, count: int) -> Part:
    """So many results, or vectors of them."""
    size = VECTOR_LANES if mode in (VECTORS, LANES) and not routine.lie.along else 1
    memory = _constants_at(routine)
    return Part(str(count), count * size, lambda at: _items(routine, mode, count, at, memory))


def _counts(routine: ReduceRoutine) -> tuple[int, ...]:
    """Items that are done together: those of the loop, then what may be left."""
    return tuple(n for n in _UNROLLED if n <= routine.unrolled)


def _saves(routine: ReduceRoutine) -> tuple[int, ...]:
    """The kept registers that are overwritten."""
    blocks = [
        block
        for mode in routine.lie.modes
        for count in _counts(routine)
        for block in _items(routine, mode, count, "")
    ]
    taken = {r for _, code in blocks for one in code for r in one.writes}
    return tuple(r for r in KEPT if r in taken or r in routine.constant_registers)


def _constants_at(routine: ReduceRoutine) -> int:
    """The place of constants in the frame, behind that of the registers that are saved."""
    return SAVED_AT + 32 * len(_saves(routine))


def _items(
    routine: ReduceRoutine, mode: str, count: int, prefix: str, memory: int = 0
) -> list[Block]:
    """Blocks that do so many results, or vectors of them, each with its label."""
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
    """The next iteration of a loop that gathers."""
    code, distance = [], INNER_MOVE if at == INNER_MOVE_AT else OUTER_MOVE
    if routine.moves_in_memory:
        distance = items.free[0]
        code.append(op("ldl", distance, (WORD * at, MOVES)))
    code += [op(scaled_add(routine.precision), distance, AT, AT)]
    return "", [*code, with_number("subl", left, 1, left), op("bne", left, label)]


def _opening(routine: ReduceRoutine, loops: Loops) -> list[Instruction]:
    """Takes the frame, reads the arguments, looks for empty loops and for what forbids vectors."""
    in_memory = routine.constants if routine.constants_in_memory else ()
    size = _constants_at(routine) + WORD * len(in_memory)
    turns = deque((5, 6, 7))
    code = [*framed(size, _saves(routine), SAVED_AT), move(ZERO, OUTSIDE)]
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
        code += constant(value, register)
    return [*code, op("blt", _RUNS, "done")]


def _forbidden(routine: ReduceRoutine) -> list[Instruction]:
    """LEFT = 0 only where results are whole vectors that start aligned, and the flag of x only
    where its elements are.
    """
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
    """What stays in registers."""
    lie, code = routine.lie, []
    if lie.along:
        return [op("ldl", LENGTH, (WORD * LENGTH_AT, COUNT))]
    wanted = {TAP: TAP_AT} if lie.taps > 1 else {}
    if lie.loops and not routine.moves_in_memory:
        wanted |= {INNER_MOVE: INNER_MOVE_AT, OUTER_MOVE: OUTER_MOVE_AT}
    if lie.step == 0 and not routine.moves_in_memory:
        wanted |= {Y_STEP: LEVELS - 1, X_STEP: 2 * LEVELS - 1}
    code += [op("ldl", register, (WORD * at, MOVES)) for register, at in wanted.items()]
    return code


def _moved(routine: ReduceRoutine, level: int) -> list[Instruction]:
    """Both pointers to the next iteration of a loop."""
    add = scaled_add(routine.precision)
    return [
        op("ldl", FROM, (WORD * level, MOVES)),
        op(add, FROM, Y, Y),
        op("ldl", _RUNS, (WORD * (LEVELS + level), MOVES)),
        op(add, _RUNS, X, X),
    ]
