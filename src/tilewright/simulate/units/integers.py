"""Integers of 16 and 32 bit: loads, stores and arithmetic on lanes that hold sign-extended numbers.

Sums and products wrap to 32 bit; 16-bit operands are sign-extended when they are loaded, so that
their products are exact.
"""

from __future__ import annotations

import numpy as np

from tilewright.common.compiled import piece
from tilewright.isa.effects import Effect
from tilewright.simulate.units.execute import checked_address
from tilewright.simulate.units.layout import (
    EFFECT_CODES,
    NARROW_LOAD,
    NARROW_STORE,
    SCALED,
    CoreState,
    RowState,
)

LOAD_HALF, STORE_HALF = EFFECT_CODES[Effect.LOAD_HALF], EFFECT_CODES[Effect.STORE_HALF]
LOAD_I16, LOAD_I32 = EFFECT_CODES[Effect.VECTOR_LOAD_I16], EFFECT_CODES[Effect.VECTOR_LOAD_I32]
STORE_I16 = EFFECT_CODES[Effect.VECTOR_STORE_I16]
EXTEND_I16 = EFFECT_CODES[Effect.SCALAR_EXTEND_LOAD_I16]
ADD, SUBTRACT = EFFECT_CODES[Effect.VECTOR_ADD_I32], EFFECT_CODES[Effect.VECTOR_SUBTRACT_I32]
MULTIPLY = EFFECT_CODES[Effect.VECTOR_MULTIPLY_I32]
MULTIPLY_ADD = EFFECT_CODES[Effect.VECTOR_MULTIPLY_ADD_I32]
MINIMUM, MAXIMUM = (
    EFFECT_CODES[Effect.VECTOR_MINIMUM_I32],
    EFFECT_CODES[Effect.VECTOR_MAXIMUM_I32],
)
SHIFT_RIGHT = EFFECT_CODES[Effect.VECTOR_SHIFT_RIGHT_I32]
SUM, BROADCAST = EFFECT_CODES[Effect.VECTOR_SUM_I32], EFFECT_CODES[Effect.BROADCAST_LANE]
LARGEST_I16 = (1 << 15) - 1


@piece
def execute_narrow(core: CoreState, row: RowState) -> int:
    """Carry out an effect of this module; the next PC, or -1 after a fault."""
    if row.kind in (NARROW_LOAD, NARROW_STORE):
        address = checked_address(core, row)
        if address < 0:
            return -1
        if row.kind == NARROW_LOAD:
            load_integers(core, row, address)
        else:
            store_integers(core, row, address)
    else:
        execute_integer_lanes(core, row)
    return core.pc + 1


@piece
def load_integers(core: CoreState, row: RowState, address: int) -> None:
    """d = memory, sign-extended; an extending load fills every lane."""
    effect, d, x = row.effect, row.d, core.registers_integer
    half, word = address >> 1, address >> 2
    if effect == LOAD_HALF:
        x[d, 0] = core.memory_half[half]
    elif effect == LOAD_I16:
        for i in range(row.lanes):
            x[d, i] = core.memory_half[half + i]
    elif effect == LOAD_I32:
        for i in range(row.lanes):
            x[d, i] = core.memory_word[word + i]
    else:
        value = core.memory_half[half] if effect == EXTEND_I16 else core.memory_word[word]
        for i in range(row.lanes):
            x[d, i] = value


@piece
def store_integers(core: CoreState, row: RowState, address: int) -> None:
    """memory = the low bits of a."""
    effect, a, x = row.effect, row.a, core.registers_integer
    half, word = address >> 1, address >> 2
    if effect == STORE_HALF:
        core.memory_half[half] = np.int16(x[a, 0])
    elif effect == STORE_I16:
        for i in range(row.lanes):
            core.memory_half[half + i] = np.int16(x[a, i])
    else:
        for i in range(row.lanes):
            core.memory_word[word + i] = np.int32(x[a, i])


@piece
def execute_integer_lanes(core: CoreState, row: RowState) -> None:
    """d = f(a, b, c) on every lane, d = the sum of the lanes of a, or lane 0 of a in every lane."""
    effect, a, b, c, d = row.effect, row.a, row.b, row.c, row.d
    x = core.registers_integer
    lanes = core.vector_length if row.flags & SCALED else row.lanes
    if effect == SUM:
        total = 0
        for i in range(lanes):
            total += x[a, i]
        for i in range(lanes):
            x[d, i] = 0
        x[d, 0] = int(np.int32(total))
    elif effect == BROADCAST:
        value = x[a, 0]
        for i in range(lanes):
            x[d, i] = value
    else:
        for i in range(lanes):
            x[d, i] = integer_lane(effect, x[a, i], x[b, i], x[c, i])


@piece
def integer_lane(effect: int, a: int, b: int, c: int) -> int:
    """One lane of an integer effect."""
    if effect == MULTIPLY_ADD:
        return int(np.int32(a * b + c))
    if effect == ADD:
        return int(np.int32(a + b))
    if effect == SUBTRACT:
        return int(np.int32(a - b))
    if effect == MULTIPLY:
        return int(np.int32(a * b))
    if effect == MINIMUM:
        return min(a, b)
    if effect == MAXIMUM:
        return max(a, b)
    if effect == SHIFT_RIGHT:
        return int(np.int32(a)) >> (b & 31)
    return min(max(a, -LARGEST_I16 - 1), LARGEST_I16)
