"""The window executor compiled, for runs without values: the same rules on arrays.

In: an executor that has not begun. Out: its run, or None where it has to be executed step by step:
an operation that the compiled loop does not know, or a fault, which the executor names. What is
recorded grows by arrays: an operation takes 40 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.common.compiled import entry_point, piece
from tilewright.common.expr import Binary, Const, Expr, Var
from tilewright.isa import Effect
from tilewright.simulate.window.decode import Step, parsed
from tilewright.simulate.window.run import Cause, WindowRun

if TYPE_CHECKING:
    from tilewright.simulate.window.execute import Executor

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SCALARS = (
    Effect.INT_ADD, Effect.INT_ADD_WORD, Effect.INT_SUBTRACT, Effect.INT_SUBTRACT_WORD,
    Effect.INT_MULTIPLY, Effect.INT_MULTIPLY_WORD, Effect.INT_AND, Effect.INT_OR, Effect.INT_XOR,
    Effect.COMPARE_EQUAL, Effect.COMPARE_LESS, Effect.COMPARE_LESS_EQUAL,
)  # fmt: skip
_OPERATIONS = ("move", "quotient", "scalar_not")
"""Operations on registers alone, numbered behind the scalars."""
_BRANCHES = (
    Effect.BRANCH_ALWAYS, Effect.BRANCH_EQUAL, Effect.BRANCH_NOT_EQUAL, Effect.BRANCH_LESS,
    Effect.BRANCH_LESS_EQUAL, Effect.BRANCH_GREATER, Effect.BRANCH_GREATER_EQUAL,
)  # fmt: skip
_BINARY = ("+", "-", "*", "//", "ceil_div", "min", "max")
_CAUSES = tuple(Cause)
_DATA, _OUTPUT, _UNIT, _BRANCH, _WINDOW, _SPANS = (
    _CAUSES.index(c)
    for c in (Cause.DATA, Cause.OUTPUT, Cause.UNIT, Cause.BRANCH, Cause.WINDOW, Cause.SPANS)
)
_OPERANDS, _SPAN_COUNT, _DEPTH, _READS, _WRITES = 8, 3, 16, 6, 2
_FIRST_RECORDS = 1 << 14
_COLUMNS = 14
"""Arrays of a program that have a row for each step."""
_DONE, _FULL, _FAULT = 1, 2, 3


class _Program(NamedTuple):
    """Steps as arrays. Expressions are programs of a stack machine, from `begin` to `end`."""

    unit: Ints
    reads: Ints
    writes: Ints
    is_long: Ints
    latency: Ints
    occupancy: Ints
    scalar: Ints  # number of what computes a register, -1 for none
    registers: Ints  # of each operand, -1 for a number
    numbers: Ints
    cycles: Ints  # begin and end of the expression
    spans: Ints  # of each span: memory, begin and end of address and count, whether it is written
    branch: Ints  # number of the condition, -1 for none
    target: Ints
    halts: Ints
    codes: Ints
    arguments: Floats
    sizes: Ints  # elements of each memory
    read_only: Ints  # memory, first and end of each range


class _State(NamedTuple):
    """What changes while a program runs; `at` holds the counters below."""

    at: Ints
    register: Ints
    ready: Ints
    unit_free: Ints
    unit_busy: Ints
    slots: Ints
    flights: Ints  # end, then memory, first, end and write of each span
    stack: Floats
    events: Ints
    stalls: Ints


_TIME, _GROUP, _NUMBER, _ISSUED, _ISSUE, _FREED, _EVENTS, _STALLS, _FLIGHT, _LAST = range(10)


class _Rules(NamedTuple):
    width: int
    ordered_writes: int
    next_cycle_writes: int
    branch_ends_group: int
    penalty: int
    in_order: int
    most_cycles: int


# ---------------------------------------------------------------- compiled


@piece
def _value(p: _Program, s: _State, begin: int, end: int, number: int) -> Any:
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


@piece
def _operand(p: _Program, s: _State, number: int, operand: int) -> Any:
    register = p.registers[number, operand]
    return p.numbers[number, operand] if register < 0 else s.register[register]


@piece
def _word(value: int) -> int:
    half = 1 << 31
    return (value + half & (1 << 32) - 1) - half


@piece
def _computed(code: int, a: int, b: int) -> int:
    """The result of a scalar; a and b are its first two operands."""
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


@piece
def _taken(code: int, a: int) -> bool:
    taken = code == 0
    taken = taken or (code == 1 and a == 0) or (code == 2 and a != 0) or (code == 3 and a < 0)
    return taken or (code == 4 and a <= 0) or (code == 5 and a > 0) or (code == 6 and a >= 0)


@piece
def _place_spans(p: _Program, s: _State, number: int) -> bool:
    """Write the spans of a step into the row behind all flights; False for a fault."""
    row = s.flights.shape[0] - 1
    for i in range(_SPAN_COUNT):
        memory = p.spans[number, i, 0]
        s.flights[row, 1 + 4 * i] = memory
        if memory < 0:
            continue
        first = int(_value(p, s, p.spans[number, i, 1], p.spans[number, i, 2], number))
        end = first + int(_value(p, s, p.spans[number, i, 3], p.spans[number, i, 4], number))
        writes = p.spans[number, i, 5]
        if first < 0 or end < first or end > p.sizes[memory]:
            return False
        for r in range(p.read_only.shape[0] if writes else 0):
            own = p.read_only[r, 0] == memory
            if own and first < p.read_only[r, 2] and p.read_only[r, 1] < end:
                return False
        s.flights[row, 2 + 4 * i] = first
        s.flights[row, 3 + 4 * i] = end
        s.flights[row, 4 + 4 * i] = writes
    return True


@piece
def _conflict_end(s: _State) -> int:
    """The cycle in which nothing in flight conflicts with the placed spans any more."""
    row, end = s.flights.shape[0] - 1, 0
    for f in range(s.at[_FLIGHT]):
        if s.flights[f, 0] <= end:
            continue
        meets = False
        for i in range(_SPAN_COUNT):
            for j in range(_SPAN_COUNT):
                a, b = 1 + 4 * i, 1 + 4 * j
                if s.flights[f, a] < 0 or s.flights[f, a] != s.flights[row, b]:
                    continue
                if s.flights[f, a + 3] == 0 and s.flights[row, b + 3] == 0:
                    continue
                apart = s.flights[f, a + 2] <= s.flights[row, b + 1]
                apart = apart or s.flights[row, b + 2] <= s.flights[f, a + 1]
                meets = meets or not apart
        if meets:
            end = s.flights[f, 0]
    return end


@piece
def _stall(s: _State, start: int, stop: int, cause: int, number: int) -> None:
    count = s.at[_STALLS]
    last = count - 1
    goes_on = count and s.stalls[last, 1] == start and s.stalls[last, 2] == cause
    if goes_on and s.stalls[last, 3] == number:
        s.stalls[last, 1] = stop
        return
    if stop > start:
        s.stalls[count, 0], s.stalls[count, 1] = start, stop
        s.stalls[count, 2], s.stalls[count, 3] = cause, number
        s.at[_STALLS] = count + 1


@piece
def _least_slot(s: _State) -> int:
    least = 0
    for i in range(s.slots.size):
        if s.slots[i] < s.slots[least]:
            least = i
    return least


@piece
def _obstacle(p: _Program, s: _State, rules: _Rules, number: int) -> int:
    """What keeps a step from issuing, or -1; `at[_LAST]` becomes the cycle to look again."""
    time = s.at[_TIME]
    when = 0
    for i in range(_READS):
        if p.reads[number, i] >= 0:
            when = max(when, s.ready[p.reads[number, i]])
    if when > time:
        s.at[_LAST] = when
        return _DATA
    slack = p.latency[number] - 1 if rules.ordered_writes else 0
    when = 0
    for i in range(_WRITES):
        if p.writes[number, i] >= 0:
            when = max(when, s.ready[p.writes[number, i]])
    if when > time + slack:
        s.at[_LAST] = when - slack
        return _OUTPUT
    if p.is_long[number]:
        s.at[_LAST] = s.slots[_least_slot(s)]
        return _WINDOW if s.at[_LAST] > time else -1
    if p.spans[number, 0, 0] >= 0:
        _place_spans(p, s, number)
        s.at[_LAST] = _conflict_end(s)
        if s.at[_LAST] > time:
            return _SPANS
    s.at[_LAST] = s.unit_free[p.unit[number]]
    return _UNIT if s.at[_LAST] > time else -1


@piece
def _overwrites(p: _Program, s: _State, rules: _Rules, number: int) -> bool:
    """True if an instruction of this cycle reads what the step writes, where rules forbid that."""
    found = False
    if rules.next_cycle_writes and s.at[_GROUP]:
        for i in range(_WRITES):
            if p.writes[number, i] >= 0:
                found = found or s.ready[s.ready.size // 2 + p.writes[number, i]] == s.at[_TIME]
    return found


@piece
def _fly(p: _Program, s: _State, rules: _Rules, number: int) -> None:
    """Put an operation with placed spans in flight."""
    time, kept, row = s.at[_TIME], 0, s.flights.shape[0] - 1
    for f in range(s.at[_FLIGHT]):
        if s.flights[f, 0] > time:
            for column in range(s.flights.shape[1]):
                s.flights[kept, column] = s.flights[f, column]
            kept += 1
    s.at[_FLIGHT] = kept
    unit = p.unit[number]
    start = max(time, _conflict_end(s), s.unit_free[unit])
    cycles = max(1, int(_value(p, s, p.cycles[number, 0], p.cycles[number, 1], number)))
    end = start + cycles
    s.unit_free[unit] = end
    s.unit_busy[unit] += cycles
    for column in range(1, s.flights.shape[1]):
        s.flights[kept, column] = s.flights[row, column]
    s.flights[kept, 0] = end
    s.at[_FLIGHT] = kept + 1
    s.at[_FREED] = max(s.at[_FREED], end) if rules.in_order else end
    s.slots[_least_slot(s)] = s.at[_FREED]
    for i in range(_WRITES):
        if p.writes[number, i] >= 0:
            s.ready[p.writes[number, i]] = end
    event = s.at[_EVENTS]
    s.events[event, 0], s.events[event, 1], s.events[event, 2] = time, start, end
    s.events[event, 3], s.events[event, 4] = unit, number
    s.at[_EVENTS] = event + 1


@piece
def _next_cycle(s: _State, time: int) -> None:
    s.at[_TIME], s.at[_GROUP] = time, 0


@piece
def _step(p: _Program, s: _State, rules: _Rules) -> Any:
    """Issue the next instruction; False for a fault."""
    number, count = s.at[_NUMBER], p.unit.size
    waiting = True
    while waiting:
        cause = _obstacle(p, s, rules, number)
        if cause < 0 and _overwrites(p, s, rules, number):
            cause, s.at[_LAST] = _OUTPUT, s.at[_TIME] + 1
        if cause < 0:
            waiting = False
        elif s.at[_GROUP]:
            _next_cycle(s, s.at[_TIME] + 1)
        else:
            _stall(s, s.at[_TIME], s.at[_LAST], cause, number)
            _next_cycle(s, s.at[_LAST])
    time = s.at[_TIME]
    if not s.at[_GROUP]:
        s.at[_ISSUE] += 1
    s.at[_ISSUED] += 1
    if not _place_spans(p, s, number):
        return False
    for i in range(_READS):
        if p.reads[number, i] >= 0:
            s.ready[s.ready.size // 2 + p.reads[number, i]] = time
    a = _operand(p, s, number, 0)
    if p.is_long[number]:
        _fly(p, s, rules, number)
    else:
        unit = p.unit[number]
        s.unit_free[unit] = time + p.occupancy[number]
        s.unit_busy[unit] += p.occupancy[number]
        for i in range(_WRITES):
            if p.writes[number, i] >= 0:
                s.ready[p.writes[number, i]] = time + p.latency[number]
    if p.scalar[number] >= 0:
        found = _computed(p.scalar[number], a, _operand(p, s, number, 1))
        for i in range(_WRITES):
            if p.writes[number, i] >= 0:
                s.register[p.writes[number, i]] = found
    following = number + 1
    if p.branch[number] >= 0 and _taken(p.branch[number], a):
        following = p.target[number]
        if following < 0 or following > count or following == number:
            return False
    if p.halts[number]:
        following = count
    s.at[_GROUP] += 1
    if p.branch[number] >= 0:
        is_last = following >= count
        penalty = rules.penalty if following != number + 1 else 0
        if penalty and not is_last:
            _stall(s, time + 1, time + 1 + penalty, _BRANCH, following)
        if penalty or rules.branch_ends_group:
            _next_cycle(s, time + 1 + (0 if is_last else penalty))
    if s.at[_GROUP] == rules.width:
        _next_cycle(s, s.at[_TIME] + 1)
    s.at[_NUMBER] = following
    return s.at[_TIME] <= rules.most_cycles


@entry_point()
def _run(p: _Program, s: _State, rules: _Rules) -> int:
    """Run until the program ends, records are full, or a fault."""
    while s.at[_NUMBER] < p.unit.size:
        if s.at[_EVENTS] + 1 >= s.events.shape[0] or s.at[_STALLS] + 2 >= s.stalls.shape[0]:
            return _FULL
        if not _step(p, s, rules):
            return _FAULT
    return _DONE


# ---------------------------------------------------------------- from and to Python


def timed_run(executor: Executor) -> WindowRun | None:
    """The run of an executor without values that has not begun; None where it is to be executed
    step by step.
    """
    units = tuple(dict.fromkeys(u for step in executor.steps for u in step.units))
    program = _encoded(executor, units)
    if program is None:
        return None
    rules, window = executor.rules, executor.window
    own = _Rules(
        rules.width,
        int(rules.write_after_write == "ordered"),
        int(rules.write_after_read == "next_cycle"),
        int(rules.branch_ends_group),
        rules.taken_branch_penalty_cycles,
        int(window.freed == "in_order"),
        executor.max_cycles,
    )
    registers = len(executor.registers)
    state = _State(
        np.zeros(10, np.int64),
        np.array(executor.registers, np.int64),
        np.concatenate([np.zeros(registers, np.int64), np.full(registers, -1, np.int64)]),
        np.zeros(len(units), np.int64),
        np.zeros(len(units), np.int64),
        np.zeros(window.in_flight, np.int64),
        np.zeros((2 * window.in_flight + 2, 1 + 4 * _SPAN_COUNT), np.int64),
        np.zeros(_DEPTH),
        np.zeros((_FIRST_RECORDS, 5), np.int64),
        np.zeros((_FIRST_RECORDS, 4), np.int64),
    )
    status = _FULL
    while status == _FULL:
        status = _run(program, state, own)
        if status == _FULL:
            state = state._replace(events=_grown(state.events), stalls=_grown(state.stalls))
    return _finished(executor, state, units) if status == _DONE else None


def _grown(records: Ints) -> Ints:
    return np.concatenate([records, np.zeros_like(records)])


def _finished(executor: Executor, s: _State, units: tuple[str, ...]) -> WindowRun:
    """The numbers of the run, as the executor has them."""
    finish = int(s.at[_TIME]) + (1 if s.at[_GROUP] else 0)
    events, stalls = s.events[: s.at[_EVENTS]], s.stalls[: s.at[_STALLS]]
    cycles = int(max(finish, events[:, 2].max(initial=0)))
    if cycles > finish:
        drain = [finish, cycles, _CAUSES.index(Cause.DRAIN), len(executor.steps) - 1]
        stalls = np.concatenate([stalls, np.array([drain], np.int64)])
    return WindowRun(
        cycles=cycles,
        issue_cycles=int(s.at[_ISSUE]),
        instructions=int(s.at[_ISSUED]),
        unit_busy={u: int(n) for u, n in zip(units, s.unit_busy, strict=True) if n},
        event_table=events,
        stall_table=stalls,
        units=units,
        registers=tuple(s.register.tolist()),
        memories=executor.memories.arrays,
    )


def _encoded(executor: Executor, units: tuple[str, ...]) -> _Program | None:
    """The steps as arrays; None where there is one that the compiled loop does not know."""
    steps, memories = executor.steps, list(executor.memories.sizes)
    if executor.zero_registers or not steps:
        return None
    codes: list[tuple[int, float]] = []
    known: dict[tuple[Expr, tuple[str, ...]], tuple[int, int]] = {}
    rows = [_row(step, units, memories, executor.parameters, codes, known) for step in steps]
    if any(row is None for row in rows):
        return None
    columns: Any = [np.array([row[i] for row in rows if row], np.int64) for i in range(_COLUMNS)]
    read_only = [
        (memories.index(r.memory), r.address, r.address + r.count)
        for r in executor.memories.read_only
    ]
    rest: Any = (
        np.array([c for c, _ in codes] or [0], np.int64),
        np.array([a for _, a in codes] or [0], np.float64),
        np.array([executor.memories.sizes[m] for m in memories] or [0], np.int64),
        np.array(read_only, np.int64).reshape(-1, 3),
    )
    return _Program(*columns, *rest)


def _row(
    step: Step,
    units: tuple[str, ...],
    memories: list[str],
    parameters: Mapping[str, float],
    codes: list[tuple[int, float]],
    known: dict[tuple[Expr, tuple[str, ...]], tuple[int, int]],
) -> tuple[Any, ...] | None:
    """The numbers of one step in the order of `_Program`; None for one that is not known."""
    spec, scalar = step.instruction.spec, _scalar_of(step)
    branch = _BRANCHES.index(spec.effect) if spec.effect in _BRANCHES else -1
    known_branch = (step.taken is None) == (branch < 0) and not step.target_role
    sizes = (len(step.units) == 1, len(step.reads) <= _READS, len(step.writes) <= _WRITES)
    fits = all(sizes) and len(step.operands) <= _OPERANDS and len(step.spans) <= _SPAN_COUNT
    if scalar is None or not known_branch or not fits:
        return None
    first = ("a", "b")
    operands = sorted(step.operands, key=lambda o: first.index(o[0]) if o[0] in first else 2)
    names = tuple(role for role, _, _ in operands)

    def expression(text: str) -> tuple[int, int]:
        key = parsed(text), names
        if key not in known:
            begin = len(codes)
            _append(key[0], names, parameters, codes)
            known[key] = begin, len(codes)
        return known[key]

    spans = [
        (memories.index(s.memory), *expression(s.address), *expression(s.count),
         int(s.access == "write"))
        for s in spec.spans
    ]  # fmt: skip
    return (
        units.index(step.units[0]),
        _padded(step.reads, _READS),
        _padded(step.writes, _WRITES),
        int(step.cycles is not None),
        step.instruction.latency_cycles,
        spec.occupancy_cycles,
        scalar,
        _padded([-1 if r is None else r for _, r, _ in operands], _OPERANDS),
        _padded([n for _, _, n in operands], _OPERANDS),
        expression(spec.cycles) if spec.cycles else (0, 0),
        spans + [(-1, 0, 0, 0, 0, 0)] * (_SPAN_COUNT - len(spans)),
        branch,
        step.target,
        int(step.halts),
    )


def _scalar_of(step: Step) -> int | None:
    """The number of what computes a register, -1 for nothing, None for what is not known."""
    spec = step.instruction.spec
    if step.compute is not None:
        return _SCALARS.index(spec.effect) if spec.effect in _SCALARS else None
    if step.meaning is not None and not step.spans:
        known = spec.operation in _OPERATIONS
        return len(_SCALARS) + _OPERATIONS.index(spec.operation) if known else None
    return -1


def _padded(values: Any, count: int) -> list[int]:
    return [*values, *([-1] * (count - len(values)))]


def _append(
    e: Expr, names: tuple[str, ...], parameters: Mapping[str, float], codes: list[tuple[int, float]]
) -> None:
    """Append the program of an expression."""
    match e:
        case Const(value):
            codes.append((0, float(value)))
        case Var(name) if name in names:
            codes.append((1, float(names.index(name))))
        case Var(name):
            codes.append((0, float(parameters[name])))
        case Binary(op, a, b):
            _append(a, names, parameters, codes)
            _append(b, names, parameters, codes)
            codes.append((2 + _BINARY.index(op), 0.0))
