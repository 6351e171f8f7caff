"""The window executor compiled, for runs without values: the same rules on arrays.

In: an executor that has not begun. Out: its run, or None where it has to be executed step by step:
an operation that the compiled loop does not know, or a fault, which the executor names. What is
recorded grows by arrays: an operation takes 40 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.common.expr import Binary, Const, Expr, Var
from tilewright.isa import Effect
from tilewright.simulate.window.decode import Step, parsed
from tilewright.simulate.window.loop import (
    DONE,
    EVENTS,
    FULL,
    GROUP,
    ISSUE,
    ISSUED,
    READS,
    SPAN_COUNT,
    STALLS,
    TIME,
    WRITES,
    Code,
    Ints,
    Rules,
    State,
    run,
)
from tilewright.simulate.window.run import Cause, WindowRun

if TYPE_CHECKING:
    from tilewright.simulate.window.execute import Executor

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
_OPERANDS, _DEPTH = 8, 16
_FIRST_RECORDS = 1 << 14
_COLUMNS = 14
"""Arrays of a program that have a row for each step."""


def timed_run(executor: Executor) -> WindowRun | None:
    """The run of an executor without values that has not begun; None where it is to be executed
    step by step.
    """
    units = tuple(dict.fromkeys(u for step in executor.steps for u in step.units))
    program = _encoded(executor, units)
    if program is None:
        return None
    rules, window = executor.rules, executor.window
    own = Rules(
        rules.width,
        int(rules.write_after_write == "ordered"),
        int(rules.write_after_read == "next_cycle"),
        int(rules.branch_ends_group),
        rules.taken_branch_penalty_cycles,
        int(window.freed == "in_order"),
        executor.max_cycles,
    )
    registers = len(executor.registers)
    state = State(
        np.zeros(10, np.int64),
        np.array(executor.registers, np.int64),
        np.concatenate([np.zeros(registers, np.int64), np.full(registers, -1, np.int64)]),
        np.zeros(len(units), np.int64),
        np.zeros(len(units), np.int64),
        np.zeros(window.in_flight, np.int64),
        np.zeros((2 * window.in_flight + 2, 1 + 4 * SPAN_COUNT), np.int64),
        np.zeros(_DEPTH),
        np.zeros((_FIRST_RECORDS, 5), np.int64),
        np.zeros((_FIRST_RECORDS, 4), np.int64),
    )
    status = FULL
    while status == FULL:
        status = run(program, state, own)
        if status == FULL:
            state = state._replace(events=_grown(state.events), stalls=_grown(state.stalls))
    return _finished(executor, state, units) if status == DONE else None


def _grown(records: Ints) -> Ints:
    return np.concatenate([records, np.zeros_like(records)])


def _finished(executor: Executor, s: State, units: tuple[str, ...]) -> WindowRun:
    """The numbers of the run, as the executor has them."""
    finish = int(s.at[TIME]) + (1 if s.at[GROUP] else 0)
    events, stalls = s.events[: s.at[EVENTS]], s.stalls[: s.at[STALLS]]
    cycles = int(max(finish, events[:, 2].max(initial=0)))
    if cycles > finish:
        drain = [finish, cycles, _CAUSES.index(Cause.DRAIN), len(executor.steps) - 1]
        stalls = np.concatenate([stalls, np.array([drain], np.int64)])
    return WindowRun(
        cycles=cycles,
        issue_cycles=int(s.at[ISSUE]),
        instructions=int(s.at[ISSUED]),
        unit_busy={u: int(n) for u, n in zip(units, s.unit_busy, strict=True) if n},
        event_table=events,
        stall_table=stalls,
        units=units,
        registers=tuple(s.register.tolist()),
        memories=executor.memories.arrays,
    )


def _encoded(executor: Executor, units: tuple[str, ...]) -> Code | None:
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
    return Code(*columns, *rest)


def _row(
    step: Step,
    units: tuple[str, ...],
    memories: list[str],
    parameters: Mapping[str, float],
    codes: list[tuple[int, float]],
    known: dict[tuple[Expr, tuple[str, ...]], tuple[int, int]],
) -> tuple[Any, ...] | None:
    """The numbers of one step in the order of `Code`; None for one that is not known."""
    spec, scalar = step.instruction.spec, _scalar_of(step)
    branch = _BRANCHES.index(spec.effect) if spec.effect in _BRANCHES else -1
    known_branch = (step.taken is None) == (branch < 0) and not step.target_role
    sizes = (len(step.units) == 1, len(step.reads) <= READS, len(step.writes) <= WRITES)
    fits = all(sizes) and len(step.operands) <= _OPERANDS and len(step.spans) <= SPAN_COUNT
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
        _padded(step.reads, READS),
        _padded(step.writes, WRITES),
        int(step.cycles is not None),
        step.instruction.latency_cycles,
        spec.occupancy_cycles,
        scalar,
        _padded([-1 if r is None else r for _, r, _ in operands], _OPERANDS),
        _padded([n for _, _, n in operands], _OPERANDS),
        expression(spec.cycles) if spec.cycles else (0, 0),
        spans + [(-1, 0, 0, 0, 0, 0)] * (SPAN_COUNT - len(spans)),
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
