"""Execute instructions: registers, lanes and local memory, one function per class of effects.

Each function executes a program row on a core and changes its registers or memory at once; the
pipeline decides when a result becomes visible. Multiply-add rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import types
from numba.extending import intrinsic

from tilewright.common.compiled import hot_piece, piece
from tilewright.simulate.units import codes, layout
from tilewright.simulate.units.layout import CoreState, MachineState, RowState


def _fused(_typing: Any, _x: Any, _y: Any, _z: Any) -> Any:

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


fused: Callable[[float, float, float], float] = cast(Any, intrinsic(_fused))
"""x * y + z with one rounding, as one machine instruction."""


@hot_piece
def execute_vector(core: CoreState, row: RowState) -> None:
    """Floating point on every lane: d = f(a, b, c)."""
    effect, a, b, e, d = row.effect, row.a, row.b, row.c, row.d
    x, lanes = core.registers, row.lanes
    if effect == codes.VECTOR_MULTIPLY_ADD and lanes == x.shape[1]:
        for i in range(x.shape[1]):  # a constant for the compiler
            x[d, i] = fused(x[a, i], x[b, i], x[e, i])
        return
    for i in range(lanes):
        x[d, i] = vector_lane(effect, x[a, i], x[b, i], x[e, i])


@piece
def vector_lane(effect: int, a: float, b: float, c: float) -> float:
    """One lane of a floating-point effect."""
    if effect == codes.VECTOR_MULTIPLY_ADD:
        return fused(a, b, c)
    if effect == codes.VECTOR_ADD:
        return a + b
    if effect == codes.VECTOR_SUBTRACT:
        return a - b
    if effect == codes.VECTOR_MULTIPLY:
        return a * b
    if effect == codes.VECTOR_DIVIDE:
        return a / b
    if effect == codes.VECTOR_SQUARE_ROOT:
        return math.sqrt(a) if a >= 0.0 else math.nan
    if effect == codes.VECTOR_MULTIPLY_SUBTRACT:
        return fused(a, b, -c)
    if effect == codes.VECTOR_NEGATED_MULTIPLY_ADD:
        return fused(-a, b, c)
    if effect == codes.VECTOR_NEGATED_MULTIPLY_SUBTRACT:
        return fused(-a, b, -c)
    if effect in (
        codes.VECTOR_COMPARE_EQUAL,
        codes.VECTOR_COMPARE_LESS,
        codes.VECTOR_COMPARE_LESS_EQUAL,
    ):
        return 2.0 if _compares(effect, a, b) else 0.0
    if effect in (
        codes.VECTOR_SELECT_EQUAL,
        codes.VECTOR_SELECT_LESS,
        codes.VECTOR_SELECT_LESS_EQUAL,
    ):
        return b if _compares(effect, a, 0.0) else c
    return float(np.float32(_single(effect, a, b, c)))


@piece
def _compares(effect: int, a: float, b: float) -> bool:
    """True if the comparison of `a` with `b` holds; with NaN it does not."""
    if effect in (codes.VECTOR_COMPARE_EQUAL, codes.VECTOR_SELECT_EQUAL):
        return a == b
    if effect in (codes.VECTOR_COMPARE_LESS, codes.VECTOR_SELECT_LESS):
        return a < b
    return a <= b


@piece
def _single(effect: int, a: float, b: float, c: float) -> float:
    """Single-precision effects, computed in double and rounded by the caller."""
    if effect == codes.VECTOR_ADD_SINGLE:
        return a + b
    if effect == codes.VECTOR_SUBTRACT_SINGLE:
        return a - b
    if effect == codes.VECTOR_MULTIPLY_SINGLE:
        return a * b
    if effect == codes.VECTOR_DIVIDE_SINGLE:
        return a / b
    if effect == codes.VECTOR_MULTIPLY_ADD_SINGLE:
        return fused(a, b, c)
    return fused(a, b, -c)


@hot_piece
def checked_address(core: CoreState, row: RowState) -> int:
    """Address of a load or store in the core's memories; -1 after setting the core's fault."""
    address = core.registers_integer[row.b, 0] + row.value
    if address < 0 or address > row.last:
        core.fault = layout.OUT_OF_RANGE
    elif address & row.align:
        core.fault = layout.MISALIGNED
    else:
        return int(address + row.origin)
    core.fault_address = address
    return -1


@piece
def execute_load(core: CoreState, row: RowState, address: int) -> None:
    """d = memory; single precision is widened, an extending load fills every lane."""
    effect, d = row.effect, row.d
    x, lanes = core.registers, row.lanes
    if effect in (
        codes.SCALAR_EXTEND_LOAD,
        codes.SCALAR_EXTEND_ROW_BROADCAST,
        codes.SCALAR_EXTEND_COLUMN_BROADCAST,
    ):
        value = core.memory[address >> 3]
        for i in range(lanes):
            x[d, i] = value
    elif effect == codes.SCALAR_EXTEND_LOAD_SINGLE:
        for i in range(lanes):
            x[d, i] = core.memory_single[address >> 2]
    elif effect == codes.VECTOR_LOAD_SINGLE:
        for i in range(lanes):
            x[d, i] = core.memory_single[(address >> 2) + i]
    elif effect == codes.LOAD_WORD:
        core.registers_integer[d, 0] = core.memory_word[address >> 2]
    elif effect == codes.LOAD_SINGLE:
        x[d, 0] = core.memory_single[address >> 2]
    elif effect in (codes.LOAD_LONG, codes.LOAD_DOUBLE):
        core.registers_integer[d, 0] = core.memory_integer[address >> 3]
    else:
        for i in range(lanes):
            x[d, i] = core.memory[(address >> 3) + i]


@piece
def execute_store(core: CoreState, row: RowState, address: int) -> None:
    """memory = a, rounded or truncated to the element."""
    effect, a = row.effect, row.a
    x, lanes = core.registers, row.lanes
    if effect == codes.STORE_WORD:
        core.memory_word[address >> 2] = np.int32(core.registers_integer[a, 0])
    elif effect == codes.STORE_SINGLE:
        core.memory_single[address >> 2] = np.float32(x[a, 0])
    elif effect in (codes.STORE_LONG, codes.STORE_DOUBLE):
        core.memory_integer[address >> 3] = core.registers_integer[a, 0]
    elif effect == codes.VECTOR_STORE_SINGLE:
        for i in range(lanes):
            core.memory_single[(address >> 2) + i] = np.float32(x[a, i])
    else:
        for i in range(lanes):
            core.memory[(address >> 3) + i] = x[a, i]


@piece
def execute_integer(core: CoreState, row: RowState) -> None:
    """d = a op (b + value) on lane 0, where b or value is zero."""
    x = core.registers_integer
    right = x[row.b, 0] + row.value
    x[row.d, 0] = integer_result(row.effect, x[row.a, 0], right, row.value)


@piece
def integer_result(effect: int, a: int, b: int, value: int) -> int:
    """The result of an integer effect; for address effects, `b` is base + displacement."""
    if effect == codes.INT_ADD:
        return a + b
    if effect == codes.INT_SUBTRACT:
        return a - b
    if effect == codes.INT_ADD_WORD:
        return int(np.int32(a + b))
    if effect == codes.INT_SUBTRACT_WORD:
        return int(np.int32(a - b))
    if effect == codes.INT_SCALE4_ADD:
        return (a << 2) + b
    if effect == codes.INT_SCALE8_ADD:
        return (a << 3) + b
    if effect == codes.COMPARE_EQUAL:
        return int(a == b)
    if effect == codes.COMPARE_LESS:
        return int(a < b)
    if effect == codes.COMPARE_LESS_EQUAL:
        return int(a <= b)
    if effect == codes.ADDRESS_HIGH:
        return b - value + (value << 16)
    return _logic_result(effect, a, b)


@piece
def _logic_result(effect: int, a: int, b: int) -> int:
    if effect == codes.INT_AND:
        return a & b
    if effect == codes.INT_OR:
        return a | b
    if effect == codes.INT_XOR:
        return a ^ b
    if effect == codes.INT_SHIFT_LEFT:
        return a << (b & 63)
    if effect == codes.INT_SHIFT_LEFT_WORD:
        return int(np.int32(a << (b & 31)))
    if effect == codes.INT_SHIFT_RIGHT:
        return int(np.int64(np.uint64(a) >> np.uint64(b & 63)))
    if effect == codes.INT_SHIFT_RIGHT_ARITHMETIC:
        return a >> (b & 63)
    if effect == codes.INT_MULTIPLY:
        return a * b
    if effect == codes.INT_MULTIPLY_WORD:
        return int(np.int32(a * b))
    return b  # INT_COPY, and ADDRESS: base + displacement


@piece
def execute_lanes(core: CoreState, row: RowState) -> None:
    """Insert, extract and shuffle; the index or selection is the row's value."""
    effect, a, b, d, value = row.effect, row.a, row.b, row.d, row.value
    x, lanes = core.registers, row.lanes
    if effect == codes.EXTRACT_WORD:
        core.registers_integer[d, 0] = core.registers_word[a, value]
    elif effect == codes.EXTRACT_LANE:
        x[d, 0] = x[a, value]
    elif effect in (codes.INSERT_WORD, codes.INSERT_LANE):
        word, lane = core.registers_word[a, 0], core.registers_integer[a, 0]
        for i in range(lanes):
            core.registers_integer[d, i] = core.registers_integer[b, i]
        if effect == codes.INSERT_WORD:
            core.registers_word[d, value] = word
        else:
            core.registers_integer[d, value] = lane
    else:
        first, second = x[b, value & 3], x[b, value >> 2 & 3]
        third, fourth = x[a, value >> 4 & 3], x[a, value >> 6 & 3]
        x[d, 0], x[d, 1], x[d, 2], x[d, 3] = first, second, third, fourth


@piece
def execute_branch(m: MachineState, core: CoreState, row: RowState) -> int:
    """The next PC; -1, with the core's fault set, if it lies outside the program."""
    x = core.registers_integer
    effect, following = row.effect, core.pc + 1
    if effect == codes.BRANCH_RETURN:
        target = core.base + (x[row.a, 0] - core.code_address) // m.word_bytes
    elif branch_taken(effect, x[row.a, 0] - x[row.b, 0]):
        target = following + row.value
    else:
        target = following
    if effect == codes.BRANCH_CALL:
        behind = following + m.delay_slots - core.base
        x[row.d, 0] = core.code_address + behind * m.word_bytes
    if target < core.base or target > core.end:
        core.fault = layout.BAD_TARGET
        core.fault_address = core.code_address + (target - core.base) * m.word_bytes
        return -1
    return int(target)


@piece
def branch_taken(effect: int, value: int) -> bool:
    """True if a branch other than a return is taken; `value` is a, or a - b where it compares."""
    if effect in (codes.BRANCH_NOT_EQUAL, codes.BRANCH_IF_NOT_EQUAL):
        return value != 0
    if effect in (codes.BRANCH_EQUAL, codes.BRANCH_IF_EQUAL):
        return value == 0
    if effect in (codes.BRANCH_GREATER, codes.BRANCH_IF_GREATER):
        return value > 0
    if effect == codes.BRANCH_LESS:
        return value < 0
    if effect == codes.BRANCH_LESS_EQUAL:
        return value <= 0
    if effect in (codes.BRANCH_ALWAYS, codes.BRANCH_CALL):
        return True
    return value >= 0
