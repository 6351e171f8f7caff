"""Execute instructions: registers, lanes and local memory, one function per class of effects.

Each function takes the state, the core and the program row, and changes registers or memory at
once; when a result becomes visible is the pipeline's business. Multiply-add rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import types
from numba.extending import intrinsic

from tilewright.common.compiled import hot_piece, piece
from tilewright.isa.effects import Effect
from tilewright.simulate.units import layout
from tilewright.simulate.units.layout import CoreState, MachineState, RowState


def _code(effect: Effect) -> int:
    return layout.EFFECT_CODES[effect]


ADD, SUBTRACT = _code(Effect.VECTOR_ADD), _code(Effect.VECTOR_SUBTRACT)
MULTIPLY, DIVIDE = _code(Effect.VECTOR_MULTIPLY), _code(Effect.VECTOR_DIVIDE)
SQUARE_ROOT = _code(Effect.VECTOR_SQUARE_ROOT)
MULTIPLY_ADD = _code(Effect.VECTOR_MULTIPLY_ADD)
MULTIPLY_SUBTRACT = _code(Effect.VECTOR_MULTIPLY_SUBTRACT)
NEGATED_MULTIPLY_ADD = _code(Effect.VECTOR_NEGATED_MULTIPLY_ADD)
NEGATED_MULTIPLY_SUBTRACT = _code(Effect.VECTOR_NEGATED_MULTIPLY_SUBTRACT)
ADD_SINGLE = _code(Effect.VECTOR_ADD_SINGLE)
SUBTRACT_SINGLE = _code(Effect.VECTOR_SUBTRACT_SINGLE)
MULTIPLY_SINGLE = _code(Effect.VECTOR_MULTIPLY_SINGLE)
DIVIDE_SINGLE = _code(Effect.VECTOR_DIVIDE_SINGLE)
MULTIPLY_ADD_SINGLE = _code(Effect.VECTOR_MULTIPLY_ADD_SINGLE)
MULTIPLY_SUBTRACT_SINGLE = _code(Effect.VECTOR_MULTIPLY_SUBTRACT_SINGLE)
FLOAT_EQUAL, FLOAT_LESS = _code(Effect.VECTOR_COMPARE_EQUAL), _code(Effect.VECTOR_COMPARE_LESS)
FLOAT_LESS_EQUAL = _code(Effect.VECTOR_COMPARE_LESS_EQUAL)
SELECT_EQUAL, SELECT_LESS = _code(Effect.VECTOR_SELECT_EQUAL), _code(Effect.VECTOR_SELECT_LESS)
SELECT_LESS_EQUAL = _code(Effect.VECTOR_SELECT_LESS_EQUAL)

LOAD_WORD, LOAD_LONG = _code(Effect.LOAD_WORD), _code(Effect.LOAD_LONG)
LOAD_DOUBLE, LOAD_SINGLE = _code(Effect.LOAD_DOUBLE), _code(Effect.LOAD_SINGLE)
VECTOR_LOAD_SINGLE = _code(Effect.VECTOR_LOAD_SINGLE)
EXTEND = _code(Effect.SCALAR_EXTEND_LOAD)
EXTEND_ROW = _code(Effect.SCALAR_EXTEND_ROW_BROADCAST)
EXTEND_COLUMN = _code(Effect.SCALAR_EXTEND_COLUMN_BROADCAST)
EXTEND_SINGLE = _code(Effect.SCALAR_EXTEND_LOAD_SINGLE)

STORE_WORD, STORE_LONG = _code(Effect.STORE_WORD), _code(Effect.STORE_LONG)
STORE_DOUBLE, STORE_SINGLE = _code(Effect.STORE_DOUBLE), _code(Effect.STORE_SINGLE)
VECTOR_STORE_SINGLE = _code(Effect.VECTOR_STORE_SINGLE)

INT_ADD, INT_SUBTRACT = _code(Effect.INT_ADD), _code(Effect.INT_SUBTRACT)
INT_ADD_WORD, INT_SUBTRACT_WORD = _code(Effect.INT_ADD_WORD), _code(Effect.INT_SUBTRACT_WORD)
INT_SCALE4_ADD, INT_SCALE8_ADD = _code(Effect.INT_SCALE4_ADD), _code(Effect.INT_SCALE8_ADD)
INT_MULTIPLY, INT_MULTIPLY_WORD = _code(Effect.INT_MULTIPLY), _code(Effect.INT_MULTIPLY_WORD)
SHIFT_LEFT, SHIFT_RIGHT = _code(Effect.INT_SHIFT_LEFT), _code(Effect.INT_SHIFT_RIGHT)
SHIFT_LEFT_WORD = _code(Effect.INT_SHIFT_LEFT_WORD)
SHIFT_ARITHMETIC = _code(Effect.INT_SHIFT_RIGHT_ARITHMETIC)
AND, OR, XOR = _code(Effect.INT_AND), _code(Effect.INT_OR), _code(Effect.INT_XOR)
EQUAL, LESS = _code(Effect.COMPARE_EQUAL), _code(Effect.COMPARE_LESS)
LESS_EQUAL = _code(Effect.COMPARE_LESS_EQUAL)
ADDRESS_HIGH = _code(Effect.ADDRESS_HIGH)

INSERT_WORD, EXTRACT_WORD = _code(Effect.INSERT_WORD), _code(Effect.EXTRACT_WORD)
INSERT_LANE, EXTRACT_LANE = _code(Effect.INSERT_LANE), _code(Effect.EXTRACT_LANE)

BRANCH_ALWAYS, BRANCH_CALL = _code(Effect.BRANCH_ALWAYS), _code(Effect.BRANCH_CALL)
BRANCH_RETURN = _code(Effect.BRANCH_RETURN)
BRANCH_EQUAL, BRANCH_NOT_EQUAL = _code(Effect.BRANCH_EQUAL), _code(Effect.BRANCH_NOT_EQUAL)
BRANCH_LESS, BRANCH_LESS_EQUAL = _code(Effect.BRANCH_LESS), _code(Effect.BRANCH_LESS_EQUAL)
BRANCH_GREATER = _code(Effect.BRANCH_GREATER)
BRANCH_IF_EQUAL = _code(Effect.BRANCH_IF_EQUAL)
BRANCH_IF_NOT_EQUAL = _code(Effect.BRANCH_IF_NOT_EQUAL)
BRANCH_IF_GREATER = _code(Effect.BRANCH_IF_GREATER)


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
    if effect == MULTIPLY_ADD and lanes == x.shape[1]:
        for i in range(x.shape[1]):  # a number that the compiler knows
            x[d, i] = fused(x[a, i], x[b, i], x[e, i])
        return
    for i in range(lanes):
        x[d, i] = vector_lane(effect, x[a, i], x[b, i], x[e, i])


@piece
def vector_lane(effect: int, a: float, b: float, c: float) -> float:
    """One lane of a floating-point effect."""
    if effect == MULTIPLY_ADD:
        return fused(a, b, c)
    if effect == ADD:
        return a + b
    if effect == SUBTRACT:
        return a - b
    if effect == MULTIPLY:
        return a * b
    if effect == DIVIDE:
        return a / b
    if effect == SQUARE_ROOT:
        return math.sqrt(a) if a >= 0.0 else math.nan
    if effect == MULTIPLY_SUBTRACT:
        return fused(a, b, -c)
    if effect == NEGATED_MULTIPLY_ADD:
        return fused(-a, b, c)
    if effect == NEGATED_MULTIPLY_SUBTRACT:
        return fused(-a, b, -c)
    if effect in (FLOAT_EQUAL, FLOAT_LESS, FLOAT_LESS_EQUAL):
        return 2.0 if _compares(effect, a, b) else 0.0
    if effect in (SELECT_EQUAL, SELECT_LESS, SELECT_LESS_EQUAL):
        return b if _compares(effect, a, 0.0) else c
    return float(np.float32(_single(effect, a, b, c)))


@piece
def _compares(effect: int, a: float, b: float) -> bool:
    """True if the comparison of `a` with `b` holds; with NaN it does not."""
    if effect in (FLOAT_EQUAL, SELECT_EQUAL):
        return a == b
    if effect in (FLOAT_LESS, SELECT_LESS):
        return a < b
    return a <= b


@piece
def _single(effect: int, a: float, b: float, c: float) -> float:
    """Single-precision effects, computed in double and rounded by the caller."""
    if effect == ADD_SINGLE:
        return a + b
    if effect == SUBTRACT_SINGLE:
        return a - b
    if effect == MULTIPLY_SINGLE:
        return a * b
    if effect == DIVIDE_SINGLE:
        return a / b
    if effect == MULTIPLY_ADD_SINGLE:
        return fused(a, b, c)
    return fused(a, b, -c)


@hot_piece
def checked_address(core: CoreState, row: RowState) -> int:
    """Address in the core's memories of what a load or store accesses; -1 with its fault set."""
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
    if effect in (EXTEND, EXTEND_ROW, EXTEND_COLUMN):
        value = core.memory[address >> 3]
        for i in range(lanes):
            x[d, i] = value
    elif effect == EXTEND_SINGLE:
        for i in range(lanes):
            x[d, i] = core.memory_single[address >> 2]
    elif effect == VECTOR_LOAD_SINGLE:
        for i in range(lanes):
            x[d, i] = core.memory_single[(address >> 2) + i]
    elif effect == LOAD_WORD:
        core.registers_integer[d, 0] = core.memory_word[address >> 2]
    elif effect == LOAD_SINGLE:
        x[d, 0] = core.memory_single[address >> 2]
    elif effect in (LOAD_LONG, LOAD_DOUBLE):
        core.registers_integer[d, 0] = core.memory_integer[address >> 3]
    else:
        for i in range(lanes):
            x[d, i] = core.memory[(address >> 3) + i]


@piece
def execute_store(core: CoreState, row: RowState, address: int) -> None:
    """memory = a."""
    effect, a = row.effect, row.a
    x, lanes = core.registers, row.lanes
    if effect == STORE_WORD:
        core.memory_word[address >> 2] = np.int32(core.registers_integer[a, 0])
    elif effect == STORE_SINGLE:
        core.memory_single[address >> 2] = np.float32(x[a, 0])
    elif effect in (STORE_LONG, STORE_DOUBLE):
        core.memory_integer[address >> 3] = core.registers_integer[a, 0]
    elif effect == VECTOR_STORE_SINGLE:
        for i in range(lanes):
            core.memory_single[(address >> 2) + i] = np.float32(x[a, i])
    else:
        for i in range(lanes):
            core.memory[(address >> 3) + i] = x[a, i]


@piece
def execute_integer(core: CoreState, row: RowState) -> None:
    """d = a op (b + value) on lane 0; one of b and value is zero."""
    x = core.registers_integer
    right = x[row.b, 0] + row.value
    x[row.d, 0] = integer_result(row.effect, x[row.a, 0], right, row.value)


@piece
def integer_result(effect: int, a: int, b: int, value: int) -> int:
    """The result of an integer effect; address effects add to the base, which is in b."""
    if effect == INT_ADD:
        return a + b
    if effect == INT_SUBTRACT:
        return a - b
    if effect == INT_ADD_WORD:
        return int(np.int32(a + b))
    if effect == INT_SUBTRACT_WORD:
        return int(np.int32(a - b))
    if effect == INT_SCALE4_ADD:
        return (a << 2) + b
    if effect == INT_SCALE8_ADD:
        return (a << 3) + b
    if effect == EQUAL:
        return int(a == b)
    if effect == LESS:
        return int(a < b)
    if effect == LESS_EQUAL:
        return int(a <= b)
    if effect == ADDRESS_HIGH:
        return b - value + (value << 16)
    return _logic_result(effect, a, b)


@piece
def _logic_result(effect: int, a: int, b: int) -> int:
    if effect == AND:
        return a & b
    if effect == OR:
        return a | b
    if effect == XOR:
        return a ^ b
    if effect == SHIFT_LEFT:
        return a << (b & 63)
    if effect == SHIFT_LEFT_WORD:
        return int(np.int32(a << (b & 31)))
    if effect == SHIFT_RIGHT:
        return int(np.int64(np.uint64(a) >> np.uint64(b & 63)))
    if effect == SHIFT_ARITHMETIC:
        return a >> (b & 63)
    if effect == INT_MULTIPLY:
        return a * b
    if effect == INT_MULTIPLY_WORD:
        return int(np.int32(a * b))
    return b  # INT_COPY, and ADDRESS: base + displacement


@piece
def execute_lanes(core: CoreState, row: RowState) -> None:
    """Insert, extract and shuffle; the index or selection is the row's value."""
    effect, a, b, d, value = row.effect, row.a, row.b, row.d, row.value
    x, lanes = core.registers, row.lanes
    if effect == EXTRACT_WORD:
        core.registers_integer[d, 0] = core.registers_word[a, value]
    elif effect == EXTRACT_LANE:
        x[d, 0] = x[a, value]
    elif effect in (INSERT_WORD, INSERT_LANE):
        word, lane = core.registers_word[a, 0], core.registers_integer[a, 0]
        for i in range(lanes):
            core.registers_integer[d, i] = core.registers_integer[b, i]
        if effect == INSERT_WORD:
            core.registers_word[d, value] = word
        else:
            core.registers_integer[d, value] = lane
    else:
        first, second = x[b, value & 3], x[b, value >> 2 & 3]
        third, fourth = x[a, value >> 4 & 3], x[a, value >> 6 & 3]
        x[d, 0], x[d, 1], x[d, 2], x[d, 3] = first, second, third, fourth


@piece
def execute_branch(m: MachineState, core: CoreState, row: RowState) -> int:
    """The next program counter; -1 with the core's fault set when it lies outside the program."""
    x = core.registers_integer
    effect, following = row.effect, core.pc + 1
    if effect == BRANCH_RETURN:
        target = core.base + (x[row.a, 0] - core.code_address) // m.word_bytes
    elif branch_taken(effect, x[row.a, 0] - x[row.b, 0]):
        target = following + row.value
    else:
        target = following
    if effect == BRANCH_CALL:
        behind = following + m.delay_slots - core.base
        x[row.d, 0] = core.code_address + behind * m.word_bytes
    if target < core.base or target > core.end:
        core.fault = layout.BAD_TARGET
        core.fault_address = core.code_address + (target - core.base) * m.word_bytes
        return -1
    return int(target)


@piece
def branch_taken(effect: int, value: int) -> bool:
    """True if a branch other than a return goes to its target: by a, less b where it compares."""
    if effect in (BRANCH_NOT_EQUAL, BRANCH_IF_NOT_EQUAL):
        return value != 0
    if effect in (BRANCH_EQUAL, BRANCH_IF_EQUAL):
        return value == 0
    if effect in (BRANCH_GREATER, BRANCH_IF_GREATER):
        return value > 0
    if effect == BRANCH_LESS:
        return value < 0
    if effect == BRANCH_LESS_EQUAL:
        return value <= 0
    if effect in (BRANCH_ALWAYS, BRANCH_CALL):
        return True
    return value >= 0
