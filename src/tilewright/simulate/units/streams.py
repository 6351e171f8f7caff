"""Vectors of integers that are streamed through a memory: loads and stores that advance their
address, gathers, and effects on as many lanes as the vector length register says.
"""

from __future__ import annotations

import numpy as np

from tilewright.common.compiled import piece
from tilewright.isa.effects import Effect
from tilewright.simulate.units import layout
from tilewright.simulate.units.layout import CoreState, RowState

COPY = layout.EFFECT_CODES[Effect.VECTOR_COPY_I32]
SCALE = layout.EFFECT_CODES[Effect.VECTOR_SCALE_I32]
LESS_SCALAR = layout.EFFECT_CODES[Effect.VECTOR_LESS_SCALAR_I32]
ACCUMULATE = layout.EFFECT_CODES[Effect.VECTOR_ACCUMULATE_I32]
SCALE_ACCUMULATE = layout.EFFECT_CODES[Effect.VECTOR_SCALE_ACCUMULATE_I32]
TAIL = layout.EFFECT_CODES[Effect.VECTOR_TAIL_I32]
ADD_CLIP = layout.EFFECT_CODES[Effect.VECTOR_ADD_CLIP_I16]
CLIP_LIMIT = 1 << 14
"""Half of the largest table of results: a clipped sum is an index from -CLIP_LIMIT on."""


@piece
def execute_stream(core: CoreState, row: RowState) -> int:
    """Carry out a load, store or gather; the next PC, or -1 after a fault."""
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
    """The low bits of one lane."""
    if element == 1:
        core.memory_byte[place] = np.int8(value)
    elif element == 2:
        core.memory_half[place] = np.int16(value)
    else:
        core.memory_word[place] = np.int32(value)


@piece
def gather(core: CoreState, row: RowState) -> int:
    """d[i] = the byte at b + c[i]; the next PC, or -1 after a fault."""
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
    if effect == TAIL:
        for i in range(lanes):
            at = i + scalar
            x[d, i] = x[a, at] if 0 <= at < row.lanes else 0
        return
    for i in range(lanes):
        x[d, i] = length_lane(effect, x[a, i], x[b, i], scalar, x[d, i], core.vector_shift)


@piece
def length_lane(effect: int, a: int, b: int, scalar: int, d: int, shift: int) -> int:
    if effect == SCALE_ACCUMULATE:
        return int(np.int32(d + a * scalar))
    if effect == ACCUMULATE:
        return int(np.int32(d + a * b))
    if effect == SCALE:
        return int(np.int32(a * scalar))
    if effect == LESS_SCALAR:
        return int(np.int32(a - scalar))
    if effect == ADD_CLIP:
        moved = int(np.int32(a + b)) >> shift
        return min(max(moved, -CLIP_LIMIT), CLIP_LIMIT - 1)
    return a
