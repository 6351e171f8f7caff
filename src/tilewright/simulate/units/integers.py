"""Integers of 16 and 32 bits: loads, stores and arithmetic on lanes of sign-extended numbers.

Sums and products wrap to 32 bits; 16-bit operands are sign-extended by their loads, so that their
products are exact. Streams and gathers move as many elements as the vector length register says;
streams advance their address register.
"""

from __future__ import annotations

import numpy as np

from tilewright.common.compiled import piece
from tilewright.simulate.units import codes, layout
from tilewright.simulate.units.execute import checked_address
from tilewright.simulate.units.layout import NARROW_LOAD, NARROW_STORE, SCALED, CoreState, RowState

LARGEST_I16 = (1 << 15) - 1


@piece
def execute_narrow(core: CoreState, row: RowState) -> int:
    """Execute a narrow access or an effect on integer lanes; the next PC, or -1 after a fault."""
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
    if effect == codes.LOAD_HALF:
        x[d, 0] = core.memory_half[half]
    elif effect == codes.VECTOR_LOAD_I16:
        for i in range(row.lanes):
            x[d, i] = core.memory_half[half + i]
    elif effect == codes.VECTOR_LOAD_I32:
        for i in range(row.lanes):
            x[d, i] = core.memory_word[word + i]
    else:
        value = (
            core.memory_half[half]
            if effect == codes.SCALAR_EXTEND_LOAD_I16
            else core.memory_word[word]
        )
        for i in range(row.lanes):
            x[d, i] = value


@piece
def store_integers(core: CoreState, row: RowState, address: int) -> None:
    """memory = the low bits of a."""
    effect, a, x = row.effect, row.a, core.registers_integer
    half, word = address >> 1, address >> 2
    if effect == codes.STORE_HALF:
        core.memory_half[half] = np.int16(x[a, 0])
    elif effect == codes.VECTOR_STORE_I16:
        for i in range(row.lanes):
            core.memory_half[half + i] = np.int16(x[a, i])
    else:
        for i in range(row.lanes):
            core.memory_word[word + i] = np.int32(x[a, i])


@piece
def execute_integer_lanes(core: CoreState, row: RowState) -> None:
    """d = f(a, b, c) on every lane, the sum of the lanes of a, or lane 0 of a in every lane."""
    effect, a, b, c, d = row.effect, row.a, row.b, row.c, row.d
    x = core.registers_integer
    lanes = core.vector_length if row.flags & SCALED else row.lanes
    if effect == codes.VECTOR_SUM_I32:
        total = 0
        for i in range(lanes):
            total += x[a, i]
        for i in range(lanes):
            x[d, i] = 0
        x[d, 0] = int(np.int32(total))
    elif effect == codes.BROADCAST_LANE:
        value = x[a, 0]
        for i in range(lanes):
            x[d, i] = value
    else:
        for i in range(lanes):
            x[d, i] = integer_lane(effect, x[a, i], x[b, i], x[c, i])


@piece
def integer_lane(effect: int, a: int, b: int, c: int) -> int:
    """One lane of an integer effect."""
    if effect == codes.VECTOR_MULTIPLY_ADD_I32:
        return int(np.int32(a * b + c))
    if effect == codes.VECTOR_ADD_I32:
        return int(np.int32(a + b))
    if effect == codes.VECTOR_SUBTRACT_I32:
        return int(np.int32(a - b))
    if effect == codes.VECTOR_MULTIPLY_I32:
        return int(np.int32(a * b))
    if effect == codes.VECTOR_MINIMUM_I32:
        return min(a, b)
    if effect == codes.VECTOR_MAXIMUM_I32:
        return max(a, b)
    if effect == codes.VECTOR_SHIFT_RIGHT_I32:
        return int(np.int32(a)) >> (b & 31)
    return min(max(a, -LARGEST_I16 - 1), LARGEST_I16)


CLIP_LIMIT = 1 << 14
"""Half the largest look-up table: clipped sums are indices from -CLIP_LIMIT to CLIP_LIMIT - 1."""


@piece
def execute_stream(core: CoreState, row: RowState) -> int:
    """Execute a stream load, stream store or gather; returns the next PC, or -1 after a fault."""
    if row.kind == layout.GATHER:
        return gather(core, row)
    x, address = core.registers_integer, core.registers_integer[row.b, 0]
    lanes = core.vector_length
    if address < 0 or address + lanes * row.element > row.last + 1:
        core.fault, core.fault_address = layout.OUT_OF_RANGE, address
        return -1
    if address & row.align:
        core.fault, core.fault_address = layout.MISALIGNED, address
        return -1
    place = (address + row.origin) // row.element
    if row.kind == layout.STREAM_LOAD:
        for i in range(lanes):
            x[row.d, i] = _loaded(core, row.element, place + i)
    else:
        for i in range(lanes):
            _store(core, row.element, place + i, x[row.a, i])
    x[row.b, 0] = address + x[row.c, 0]
    return core.pc + 1


@piece
def _loaded(core: CoreState, element: int, place: int) -> int:
    """One element, sign-extended."""
    if element == 1:
        return int(core.memory_byte[place])
    if element == 2:
        return int(core.memory_half[place])
    return int(core.memory_word[place])


@piece
def _store(core: CoreState, element: int, place: int, value: int) -> None:
    """Store the low bits of one lane."""
    if element == 1:
        core.memory_byte[place] = np.int8(value)
    elif element == 2:
        core.memory_half[place] = np.int16(value)
    else:
        core.memory_word[place] = np.int32(value)


@piece
def gather(core: CoreState, row: RowState) -> int:
    """d[i] = the byte at b + c[i]; returns the next PC, or -1 after a fault."""
    x, base = core.registers_integer, core.registers_integer[row.b, 0]
    for i in range(core.vector_length):
        address = base + x[row.c, i]
        if address < 0 or address > row.last:
            core.fault, core.fault_address = layout.OUT_OF_RANGE, address
            return -1
    for i in range(core.vector_length):
        x[row.d, i] = core.memory_byte[base + x[row.c, i] + row.origin]
    return core.pc + 1


@piece
def execute_lengths(core: CoreState, row: RowState) -> None:
    """d = f(a, b, d) on the lanes of the vector length."""
    effect, a, b, d = row.effect, row.a, row.b, row.d
    x, lanes = core.registers_integer, core.vector_length
    scalar = x[b, 0]
    if effect == codes.VECTOR_TAIL_I32:
        for i in range(lanes):
            at = i + scalar
            x[d, i] = x[a, at] if 0 <= at < row.lanes else 0
        return
    for i in range(lanes):
        x[d, i] = length_lane(effect, x[a, i], x[b, i], scalar, x[d, i], core.vector_shift)


@piece
def length_lane(effect: int, a: int, b: int, scalar: int, d: int, shift: int) -> int:
    if effect == codes.VECTOR_SCALE_ACCUMULATE_I32:
        return int(np.int32(d + a * scalar))
    if effect == codes.VECTOR_ACCUMULATE_I32:
        return int(np.int32(d + a * b))
    if effect == codes.VECTOR_SCALE_I32:
        return int(np.int32(a * scalar))
    if effect == codes.VECTOR_LESS_SCALAR_I32:
        return int(np.int32(a - scalar))
    if effect == codes.VECTOR_ADD_CLIP_I16:
        moved = int(np.int32(a + b)) >> shift
        return min(max(moved, -CLIP_LIMIT), CLIP_LIMIT - 1)
    return a
