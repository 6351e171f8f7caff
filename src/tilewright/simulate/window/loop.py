"""The compiled loop of the window executor: the same rules of issue on arrays.

In: a program as arrays (`Code`) and a `WindowState`. Out: the state at the end of the program, or
where records are full or a step is at fault (`simulate.window.execute` encodes programs and starts
the loop).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.common.compiled import entry_point, hot_piece
from tilewright.simulate.window import state, steady
from tilewright.simulate.window.state import Code, LoopRules, WindowState
from tilewright.simulate.window.steady import note, note_value, watch

DONE, FULL, FAULT = 1, 2, 3
"""Why the loop ends."""
_DATA, _OUTPUT, _UNIT, _BRANCH, _WINDOW, _SPANS = range(6)
"""Causes of cycles without issue, by index into `run.WaitCause`."""


@hot_piece
def _value(p: Code, s: WindowState, begin: int, end: int, number: int) -> Any:
    depth = 0
    for i in range(begin, end):
        code = p.codes[i]
        if code == 0:
            s.stack[depth] = p.arguments[i]
            depth += 1
        elif code == 1:
            operand = int(p.arguments[i])
            register = p.registers[number, operand]
            s.stack[depth] = p.numbers[number, operand] if register < 0 else s.register[register]
            depth += 1
        else:
            depth -= 1
            a, b = s.stack[depth - 1], s.stack[depth]
            if code == 2:
                a += b
            elif code == 3:
                a -= b
            elif code == 4:
                a *= b
            elif code == 5:
                a = np.floor(a / b)
            elif code == 6:
                a = np.ceil(a / b)
            elif code == 7:
                a = min(a, b)
            else:
                a = max(a, b)
            s.stack[depth - 1] = a
    return s.stack[0]


@hot_piece
def _noted(p: Code, s: WindowState, begin: int, end: int, number: int, fixed: bool) -> Any:
    """An expression's value; notes its operands' values if it is no sum or must stay `fixed`."""
    if s.turns.shape[0]:
        for i in range(begin, end):
            fixed = fixed or p.codes[i] > 3
        for i in range(begin, end):
            if fixed and p.codes[i] == 1:
                note_value(s, _operand(p, s, number, int(p.arguments[i])))
    return _value(p, s, begin, end, number)


@hot_piece
def _operand(p: Code, s: WindowState, number: int, operand: int) -> Any:
    register = p.registers[number, operand]
    return p.numbers[number, operand] if register < 0 else s.register[register]


@hot_piece
def _word(value: int) -> int:
    half = 1 << 31
    return (value + half & (1 << 32) - 1) - half


@hot_piece
def _computed(code: int, a: int, b: int) -> int:
    """The result of a scalar effect; a and b are its first two operands."""
    if code == 0:
        found = a + b
    elif code == 1:
        found = _word(a + b)
    elif code == 2:
        found = a - b
    elif code == 3:
        found = _word(a - b)
    elif code == 4:
        found = a * b
    elif code == 5:
        found = _word(a * b)
    elif code == 6:
        found = a & b
    elif code == 7:
        found = a | b
    elif code == 8:
        found = a ^ b
    elif code == 9:
        found = 1 if a == b else 0
    elif code == 10:
        found = 1 if a < b else 0
    elif code == 11:
        found = 1 if a <= b else 0
    elif code == 12:
        found = a
    elif code == 13:
        found = 0
        if b != 0:
            found = abs(a) // abs(b)
            if (a < 0) != (b < 0):
                found = -found
    else:
        found = 1 if a == 0 else 0
    return found


@hot_piece
def _note_scalar(s: WindowState, code: int, a: int, b: int) -> None:
    """Note that 32-bit sums do not wrap, and the operands' values of effects that are no sums."""
    if code in (1, 3):
        found = a + b if code == 1 else a - b
        note(s, found + (1 << 31))
        note(s, (1 << 31) - 1 - found)
    elif code not in (0, 2, 12):
        note_value(s, a)
        note_value(s, b)


@hot_piece
def _branch_is_taken(code: int, a: int) -> bool:
    taken = code == 0
    taken = taken or (code == 1 and a == 0) or (code == 2 and a != 0) or (code == 3 and a < 0)
    return taken or (code == 4 and a <= 0) or (code == 5 and a > 0) or (code == 6 and a >= 0)


@hot_piece
def _place_spans(p: Code, s: WindowState, number: int) -> bool:
    """Write the spans of a step into the last row of `flights`; False for a fault."""
    row = s.flights.shape[0] - 1
    for i in range(state.SPAN_COUNT):
        memory = p.spans[number, i, 0]
        s.flights[row, 1 + 4 * i] = memory
        if memory < 0:
            continue
        first = int(_noted(p, s, p.spans[number, i, 1], p.spans[number, i, 2], number, False))
        end = first + int(_noted(p, s, p.spans[number, i, 3], p.spans[number, i, 4], number, True))
        writes = p.spans[number, i, 5]
        note(s, first)
        note(s, p.sizes[memory] - end)
        if first < 0 or end < first or end > p.sizes[memory]:
            return False
        for r in range(p.read_only.shape[0] if writes else 0):
            own = p.read_only[r, 0] == memory
            note(s, first - p.read_only[r, 2])
            note(s, p.read_only[r, 1] - end)
            if own and first < p.read_only[r, 2] and p.read_only[r, 1] < end:
                return False
        s.flights[row, 2 + 4 * i] = first
        s.flights[row, 3 + 4 * i] = end
        s.flights[row, 4 + 4 * i] = writes
    return True


@hot_piece
def _conflict_end(s: WindowState) -> Any:
    """First cycle from now in which nothing in flight conflicts with the placed spans."""
    row, end = s.flights.shape[0] - 1, s.at[state.TIME]
    for f in range(s.at[state.FLIGHT]):
        if s.flights[f, 0] <= end:
            continue
        meets = False
        for i in range(state.SPAN_COUNT):
            for j in range(state.SPAN_COUNT):
                a, b = 1 + 4 * i, 1 + 4 * j
                if s.flights[f, a] < 0 or s.flights[f, a] != s.flights[row, b]:
                    continue
                if s.flights[f, a + 3] == 0 and s.flights[row, b + 3] == 0:
                    continue
                behind = s.flights[row, b + 1] - s.flights[f, a + 2]
                before = s.flights[f, a + 1] - s.flights[row, b + 2]
                note(s, behind)
                note(s, before)
                meets = meets or (behind < 0 and before < 0)
        if meets:
            end = s.flights[f, 0]
    return end


@hot_piece
def _stall(s: WindowState, start: int, stop: int, cause: int, number: int) -> None:
    count = s.at[state.STALLS]
    last = count - 1
    goes_on = count and s.stalls[last, 1] == start and s.stalls[last, 2] == cause
    if goes_on and s.stalls[last, 3] == number:
        s.stalls[last, 1] = stop
        return
    if stop > start:
        s.stalls[count, 0], s.stalls[count, 1] = start, stop
        s.stalls[count, 2], s.stalls[count, 3] = cause, number
        s.at[state.STALLS] = count + 1


@hot_piece
def _least_slot(s: WindowState) -> int:
    least = 0
    for i in range(s.slots.size):
        if s.slots[i] < s.slots[least]:
            least = i
    return least


@hot_piece
def _obstacle(p: Code, s: WindowState, rules: LoopRules, number: int) -> int:
    """The cause that keeps a step from issuing, or -1; sets `at[LAST]`, when to look again."""
    time = s.at[state.TIME]
    when = 0
    for i in range(state.READS):
        if p.reads[number, i] >= 0:
            when = max(when, s.ready[p.reads[number, i]])
    if when > time:
        s.at[state.LAST] = when
        return _DATA
    slack = p.latency[number] - 1 if rules.ordered_writes else 0
    when = 0
    for i in range(state.WRITES):
        if p.writes[number, i] >= 0:
            when = max(when, s.ready[p.writes[number, i]])
    if when > time + slack:
        s.at[state.LAST] = when - slack
        return _OUTPUT
    if p.is_long[number]:
        s.at[state.LAST] = s.slots[_least_slot(s)]
        return _WINDOW if s.at[state.LAST] > time else -1
    if p.spans[number, 0, 0] >= 0:
        _place_spans(p, s, number)
        s.at[state.LAST] = _conflict_end(s)
        if s.at[state.LAST] > time:
            return _SPANS
    s.at[state.LAST] = s.unit_free[p.unit[number]]
    return _UNIT if s.at[state.LAST] > time else -1


@hot_piece
def _overwrites(p: Code, s: WindowState, rules: LoopRules, number: int) -> bool:
    """True if a step overwrites a register read in this cycle and the rules forbid that."""
    found = False
    if rules.next_cycle_writes and s.at[state.GROUP]:
        for i in range(state.WRITES):
            if p.writes[number, i] >= 0:
                found = (
                    found or s.ready[s.ready.size // 2 + p.writes[number, i]] == s.at[state.TIME]
                )
    return found


@hot_piece
def _fly(p: Code, s: WindowState, rules: LoopRules, number: int) -> None:
    """Put an operation with placed spans in flight."""
    time, kept, row = s.at[state.TIME], 0, s.flights.shape[0] - 1
    for f in range(s.at[state.FLIGHT]):
        if s.flights[f, 0] > time:
            for column in range(s.flights.shape[1]):
                s.flights[kept, column] = s.flights[f, column]
            kept += 1
    s.at[state.FLIGHT] = kept
    unit = p.unit[number]
    start = max(time, _conflict_end(s), s.unit_free[unit])
    cycles = max(1, int(_noted(p, s, p.cycles[number, 0], p.cycles[number, 1], number, True)))
    end = start + cycles
    s.unit_free[unit] = end
    s.unit_busy[unit] += cycles
    for column in range(1, s.flights.shape[1]):
        s.flights[kept, column] = s.flights[row, column]
    s.flights[kept, 0] = end
    s.at[state.FLIGHT] = kept + 1
    s.at[state.FREED] = max(s.at[state.FREED], end) if rules.in_order else end
    s.slots[_least_slot(s)] = s.at[state.FREED]
    for i in range(state.WRITES):
        if p.writes[number, i] >= 0:
            s.ready[p.writes[number, i]] = end
    event = s.at[state.EVENTS]
    s.events[event, 0], s.events[event, 1], s.events[event, 2] = time, start, end
    s.events[event, 3], s.events[event, 4] = unit, number
    s.at[state.EVENTS] = event + 1
    s.at[state.END] = max(s.at[state.END], end)
    if s.places.shape[0]:
        _keep_places(p, s, number)


@hot_piece
def _keep_places(p: Code, s: WindowState, number: int) -> None:
    """Record the operands and spans of an operation, whose values are computed later."""
    place, row, count = s.at[state.PLACES], s.flights.shape[0] - 1, p.registers.shape[1]
    s.places[place, 0] = number
    for operand in range(count):
        s.places[place, 1 + operand] = _operand(p, s, number, operand)
    for i in range(state.SPAN_COUNT):
        s.places[place, 1 + count + 2 * i] = s.flights[row, 2 + 4 * i]
        s.places[place, 2 + count + 2 * i] = s.flights[row, 3 + 4 * i]
    s.at[state.PLACES] = place + 1


@hot_piece
def _next_cycle(s: WindowState, time: int) -> None:
    s.at[state.TIME], s.at[state.GROUP] = time, 0


@hot_piece
def _wait(p: Code, s: WindowState, rules: LoopRules, number: int) -> None:
    """Advance to the cycle in which an instruction issues."""
    waiting = True
    while waiting:
        cause = _obstacle(p, s, rules, number)
        if cause < 0 and _overwrites(p, s, rules, number):
            cause, s.at[state.LAST] = _OUTPUT, s.at[state.TIME] + 1
        if cause < 0:
            waiting = False
        elif s.at[state.GROUP]:
            _next_cycle(s, s.at[state.TIME] + 1)
        else:
            _stall(s, s.at[state.TIME], s.at[state.LAST], cause, number)
            _next_cycle(s, s.at[state.LAST])


@hot_piece
def _commit(p: Code, s: WindowState, rules: LoopRules, number: int) -> None:
    """Issue an instruction with placed spans: occupy its unit, and write its registers."""
    time = s.at[state.TIME]
    for i in range(state.READS):
        if p.reads[number, i] >= 0:
            s.ready[s.ready.size // 2 + p.reads[number, i]] = time
    if p.is_long[number]:
        _fly(p, s, rules, number)
    else:
        unit = p.unit[number]
        s.unit_free[unit] = time + p.occupancy[number]
        s.unit_busy[unit] += p.occupancy[number]
        for i in range(state.WRITES):
            if p.writes[number, i] >= 0:
                s.ready[p.writes[number, i]] = time + p.latency[number]
    if p.scalar[number] >= 0:
        a, b = _operand(p, s, number, 0), _operand(p, s, number, 1)
        found = _computed(p.scalar[number], a, b)
        _note_scalar(s, p.scalar[number], a, b)
        for i in range(state.WRITES):
            if p.writes[number, i] >= 0:
                s.register[p.writes[number, i]] = found


@hot_piece
def _branched(
    s: WindowState, rules: LoopRules, following: int, next_one: int, is_last: bool
) -> None:
    """End the group after a branch, and charge the penalty of a taken one."""
    time, penalty = s.at[state.TIME], rules.penalty if following != next_one else 0
    if penalty and not is_last:
        _stall(s, time + 1, time + 1 + penalty, _BRANCH, following)
    if penalty or rules.branch_ends_group:
        _next_cycle(s, time + 1 + (0 if is_last else penalty))


@hot_piece
def _step(p: Code, s: WindowState, rules: LoopRules) -> Any:
    """Issue the next instruction; False for a fault, or beyond `most_cycles`."""
    number, count = s.at[state.NUMBER], p.unit.size
    _wait(p, s, rules, number)
    if not s.at[state.GROUP]:
        s.at[state.ISSUE] += 1
    s.at[state.ISSUED] += 1
    if not _place_spans(p, s, number):
        return False
    a = _operand(p, s, number, 0)
    if p.branch[number] >= 0:
        note(s, a)
        note(s, -a)
    _commit(p, s, rules, number)
    following = number + 1
    if p.branch[number] >= 0 and _branch_is_taken(p.branch[number], a):
        following = p.target[number]
        if following < 0 or following > count or following == number:
            return False
    if p.halts[number]:
        following = count
    s.at[state.GROUP] += 1
    if p.branch[number] >= 0:
        _branched(s, rules, following, number + 1, following >= count)
    if s.at[state.GROUP] == rules.width:
        _next_cycle(s, s.at[state.TIME] + 1)
    s.at[state.NUMBER] = following
    if s.turns.shape[0] and following <= number:
        watch(s, rules, p.loops[number])
    return s.at[state.TIME] <= rules.most_cycles


@entry_point(state, steady)
def run(p: Code, s: WindowState, rules: LoopRules) -> int:
    """Run until the program ends, records are full, or a step is at fault; returns which."""
    while s.at[state.NUMBER] < p.unit.size:
        if (
            s.at[state.EVENTS] + 1 >= s.events.shape[0]
            or s.at[state.STALLS] + 2 >= s.stalls.shape[0]
        ):
            return FULL
        if s.places.shape[0] and s.at[state.PLACES] == s.places.shape[0]:
            return FULL
        if not _step(p, s, rules):
            return FAULT
    return DONE
