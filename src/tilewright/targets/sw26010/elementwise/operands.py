"""The pointers of a map's routine: the first ones in registers, others in the frame.

In: the number of an operand, 0 for the result. Out: instructions that use its pointer, or move it
on, by way of free registers where it lies in the frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tilewright.isa import Instruction
from tilewright.targets.sw26010.elementwise.code import STACK, op, scaled_add, with_number
from tilewright.targets.sw26010.elementwise.loops import LEVELS, WORD
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES, Precision

Y, PLACES, STEPS = 16, 17, 19
"""The result, the operands' addresses, and what pointers move by in each loop."""
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
    """Takes an operand's address from where the caller has put it, by way of a register."""
    place = (WORD * (operand - 1), PLACES)
    if not _is_far(operand):
        return [op("ldl", SOURCES[operand - 1], place)]
    return [op("ldl", register, place), op("stl", register, _far(operand))]


def first_element(precision: Precision, operand: int, register: int) -> list[Instruction]:
    """Loads the element that an operand points to into every lane of `register`."""
    if not _is_far(operand):
        return [op(precision.scalar_load, register, (0, _pointer(operand)))]
    return [op("ldl", register, _far(operand)), op(precision.scalar_load, register, (0, register))]


def reached(
    operand: int, taken: Callable[[], int], code: Callable[[int, int], list[Instruction]]
) -> tuple[list[Instruction], tuple[int, ...]]:
    """Code over an operand's pointer, which it may move on, and the register of its step, and the
    registers that were taken for these.
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
    """The pointer to the next iteration of a loop, by way of registers in turn."""
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
    """Bits of the flag where an operand does not start with a vector, or steps keep it from that;
    its step from one element to the next is in its register from here on.
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
    for level in range(LEVELS - 1):
        code.append(op("ldl", turns[0], (step_at(operand, level), STEPS)))
        code.append(with_number("and", turns[0], VECTOR_LANES - 1, turns[0]))
        code.append(op("or", flag, turns[0], flag))
        turns.rotate(-1)
    return code


def _far(operand: int) -> tuple[int, int]:
    return _FAR_AT + WORD * (operand - 1 - len(SOURCES)), STACK


def _pointer(operand: int) -> int:
    return SOURCES[operand - 1] if operand else Y
