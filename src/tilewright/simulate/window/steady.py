"""Skip turns of loops that repeat, with an exact result.

In: the state of the compiled window executor after each backward branch. Out: the state as many
turns later as are alike. A turn depends on times, which repeat relative to its start; on registers,
which are sums, so that an increment equal in two turns is equal in all later ones; and on signs: of
the distance between two spans, of a span's distance from the end of its memory, of a value that a
branch tests. Each such number is noted. It grows by the same amount in every turn, and turns are
alike as long as no number changes its sign or, for sizes, its value. Of the turns skipped, only the
last is noted for the turns of enclosing loops: between it and the one executed no sign changes.
"""

from __future__ import annotations

import numpy as np

from tilewright.common.compiled import piece
from tilewright.simulate.window import state

_ADDED, _REPEATED = 1, 2
"""Rows of a loop's `turns` after row 0, its numbers: what a turn added to them, what repeats."""
_ALIKE, _BEFORE, _BEGIN = 0, 1, 2
"""Columns of a loop's `marks`: how far consecutive turns agree (0 .. 2), and where the notes of the
last turn but one and of the last turn begin.
"""
_NOTES = 1 << 18
"""Most notes kept of the turns that are compared."""


def room(
    loops: int, registers: int, units: int, slots: int
) -> tuple[state.Ints, state.Ints, state.Ints]:
    """The arrays `turns`, `marks` and `notes` for `loops` loops on a core of these sizes."""
    flights = 2 * slots + 2
    numbers = 3 + units + registers + 2 * state.SPAN_COUNT * flights
    repeated = 3 + 2 * registers + units + slots + (1 + 2 * state.SPAN_COUNT) * flights
    shapes = (loops, 3, max(numbers, repeated)), (loops, 3), (_NOTES * min(loops, 1), 2)
    turns, marks, notes = (np.zeros(shape, np.int64) for shape in shapes)
    return turns, marks, notes


@piece
def note(s: state.WindowState, number: int) -> None:
    """Note a number of which the sign matters: negative, or not."""
    _note(s, number, 0)


@piece
def note_value(s: state.WindowState, number: int) -> None:
    """Note a number of which the value matters."""
    _note(s, number, 1)


@piece
def _note(s: state.WindowState, number: int, kind: int) -> None:
    if s.turns.shape[0] == 0:
        return
    if s.at[state.NOTES] == s.notes.shape[0]:
        s.at[state.NOTES] = 0
        for loop in range(s.marks.shape[0]):
            s.marks[loop, _ALIKE] = 0
    place = s.at[state.NOTES]
    s.notes[place, 0], s.notes[place, 1] = number, kind
    s.at[state.NOTES] = place + 1


@piece
def watch(s: state.WindowState, rules: state.LoopRules, loop: int) -> None:
    """Compare the state after a turn of a loop to earlier ones, and skip the turns alike."""
    _tidy(s)
    repeats = _repeats(s, loop)
    grows = _grows(s, loop)
    if s.marks[loop, _ALIKE] == 0 or not repeats:
        s.marks[loop, _ALIKE] = 1
    elif s.marks[loop, _ALIKE] == 1 or not grows:
        s.marks[loop, _ALIKE] = 2
    else:
        turns = _turns_alike(s, rules, loop)
        if turns > 0:
            _skip(s, loop, turns)
    s.marks[loop, _BEFORE], s.marks[loop, _BEGIN] = s.marks[loop, _BEGIN], s.at[state.NOTES]


@piece
def _tidy(s: state.WindowState) -> None:
    """Drop flights that have ended, and sort slots by their ends."""
    kept = 0
    for f in range(s.at[state.FLIGHT]):
        if s.flights[f, 0] > s.at[state.TIME]:
            for column in range(s.flights.shape[1]):
                s.flights[kept, column] = s.flights[f, column]
            kept += 1
    s.at[state.FLIGHT] = kept
    for i in range(1, s.slots.size):
        place = i
        while place > 0 and s.slots[place - 1] > s.slots[place]:
            s.slots[place - 1], s.slots[place] = s.slots[place], s.slots[place - 1]
            place -= 1


@piece
def _is_kept(s: state.WindowState, loop: int, row: int, place: int, number: int) -> bool:
    """Store a number of a loop; True if it is unchanged."""
    same = s.turns[loop, row, place] == number
    s.turns[loop, row, place] = number
    return bool(same)


@piece
def _repeats(s: state.WindowState, loop: int) -> bool:
    """Store the state after a turn, relative to its time; True if it equals the previous one."""
    time, registers = s.at[state.TIME], s.ready.size // 2
    same = _is_kept(s, loop, _REPEATED, 0, s.at[state.GROUP])
    same &= _is_kept(s, loop, _REPEATED, 1, s.at[state.FLIGHT])
    same &= _is_kept(s, loop, _REPEATED, 2, max(s.at[state.FREED] - time, 0))
    place = 3
    for i in range(registers):
        read_now = int(s.ready[registers + i] == time)
        same &= _is_kept(s, loop, _REPEATED, place, max(s.ready[i] - time, 0))
        same &= _is_kept(s, loop, _REPEATED, place + 1, read_now)
        place += 2
    for i in range(s.unit_free.size):
        same &= _is_kept(s, loop, _REPEATED, place, max(s.unit_free[i] - time, 0))
        place += 1
    for i in range(s.slots.size):
        same &= _is_kept(s, loop, _REPEATED, place, max(s.slots[i] - time, 0))
        place += 1
    for f in range(s.at[state.FLIGHT]):
        same &= _is_kept(s, loop, _REPEATED, place, s.flights[f, 0] - time)
        place += 1
        for i in range(state.SPAN_COUNT):
            memory, writes = s.flights[f, 1 + 4 * i], s.flights[f, 4 + 4 * i]
            same &= _is_kept(s, loop, _REPEATED, place, memory)
            same &= _is_kept(s, loop, _REPEATED, place + 1, writes)
            place += 2
    return same


@piece
def _is_grown(s: state.WindowState, loop: int, place: int, number: int) -> bool:
    """Store a number of a loop and its increment; True if the increment is unchanged."""
    added = number - s.turns[loop, 0, place]
    s.turns[loop, 0, place] = number
    return _is_kept(s, loop, _ADDED, place, added)


@piece
def _grows(s: state.WindowState, loop: int) -> bool:
    """Store the numbers that grow from turn to turn; True if all increments are unchanged."""
    same = _is_grown(s, loop, 0, s.at[state.TIME])
    same &= _is_grown(s, loop, 1, s.at[state.ISSUED])
    same &= _is_grown(s, loop, 2, s.at[state.ISSUE])
    place = 3
    for i in range(s.unit_busy.size):
        same &= _is_grown(s, loop, place, s.unit_busy[i])
        place += 1
    for i in range(s.register.size):
        same &= _is_grown(s, loop, place, s.register[i])
        place += 1
    for f in range(s.at[state.FLIGHT]):
        for i in range(state.SPAN_COUNT):
            same &= _is_grown(s, loop, place, s.flights[f, 2 + 4 * i])
            same &= _is_grown(s, loop, place + 1, s.flights[f, 3 + 4 * i])
            place += 2
    return same


@piece
def _turns_alike(s: state.WindowState, rules: state.LoopRules, loop: int) -> int:
    """How many more turns leave every noted number's sign, or fixed value, as in the last one."""
    before, begin, end = s.marks[loop, _BEFORE], s.marks[loop, _BEGIN], s.at[state.NOTES]
    count = end - begin
    if count != begin - before or end + count > s.notes.shape[0]:
        return 0
    turns = (rules.most_cycles - s.at[state.TIME]) // s.turns[loop, _ADDED, 0]
    for i in range(count):
        number = s.notes[begin + i, 0]
        added = number - s.notes[before + i, 0]
        if s.notes[begin + i, 1] != s.notes[before + i, 1]:
            turns = 0
        elif s.notes[begin + i, 1]:
            turns = turns if added == 0 else 0
        elif number >= 0 and added < 0:
            turns = min(turns, number // -added)
        elif number < 0 and added > 0:
            turns = min(turns, (-number - 1) // added)
    return int(turns)


@piece
def _skip(s: state.WindowState, loop: int, turns: int) -> None:
    """Advance the state by `turns`, and append the notes of the last of them."""
    before, begin, end = s.marks[loop, _BEFORE], s.marks[loop, _BEGIN], s.at[state.NOTES]
    for i in range(end - begin):
        number, kind = s.notes[begin + i, 0], s.notes[begin + i, 1]
        s.notes[end + i, 0] = number + turns * (number - s.notes[before + i, 0])
        s.notes[end + i, 1] = kind
    s.marks[loop, _BEGIN], s.at[state.NOTES] = end, end + end - begin
    for place in range(s.turns.shape[2]):
        s.turns[loop, 0, place] += turns * s.turns[loop, _ADDED, place]
    _advance_times(s, turns * s.turns[loop, _ADDED, 0])
    s.at[state.TIME], s.at[state.ISSUED], s.at[state.ISSUE] = (
        s.turns[loop, 0, 0], s.turns[loop, 0, 1], s.turns[loop, 0, 2]
    )  # fmt: skip
    place = 3
    for i in range(s.unit_busy.size):
        s.unit_busy[i] = s.turns[loop, 0, place + i]
    place += s.unit_busy.size
    for i in range(s.register.size):
        s.register[i] = s.turns[loop, 0, place + i]
    place += s.register.size
    for f in range(s.at[state.FLIGHT]):
        for i in range(state.SPAN_COUNT):
            s.flights[f, 2 + 4 * i] = s.turns[loop, 0, place]
            s.flights[f, 3 + 4 * i] = s.turns[loop, 0, place + 1]
            place += 2


@piece
def _advance_times(s: state.WindowState, cycles: int) -> None:
    s.at[state.FREED] += cycles
    s.at[state.END] += cycles
    for i in range(s.ready.size):
        s.ready[i] += cycles
    for i in range(s.unit_free.size):
        s.unit_free[i] += cycles
    for i in range(s.slots.size):
        s.slots[i] += cycles
    for f in range(s.at[state.FLIGHT]):
        s.flights[f, 0] += cycles
