"""Arrays of the compiled window executor: a program and its state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

READS, WRITES, SPAN_COUNT = 6, 2, 3
"""Most registers that a step reads, most that it writes, and most spans of a step."""


class Code(NamedTuple):
    """Steps as arrays. Expressions are programs of a stack machine, from `begin` to `end`."""

    unit: Ints
    is_long: Ints
    latency: Ints
    occupancy: Ints
    scalar: Ints  # number of the effect that computes a register, -1 for none
    cycles: Ints  # begin and end of the expression
    spans: Ints  # per span: memory, begin and end of address and of count, whether it is written
    branch: Ints  # number of the condition, -1 for none
    halts: Ints
    target: Ints
    reads: Ints
    writes: Ints
    registers: Ints  # per operand, -1 for a number
    numbers: Ints
    codes: Ints
    arguments: Floats
    sizes: Ints  # elements of each memory
    read_only: Ints  # memory, first and end of each range
    loops: Ints  # number of the loop that a backward branch closes, -1 for other steps


class WindowState(NamedTuple):
    """State of a running program; `at` holds the counters below."""

    at: Ints
    register: Ints
    ready: Ints
    unit_free: Ints
    unit_busy: Ints
    slots: Ints
    flights: Ints  # end, then per span memory, first, end, whether it is written
    stack: Floats
    events: Ints
    stalls: Ints
    places: Ints  # per operation since the last stop: step, operands, first and end of each span
    turns: Ints  # per loop: numbers after its last turn, what that turn added, what repeats
    marks: Ints  # per loop: turns alike, where the notes of the last two begin
    notes: Ints  # numbers that turns depend on, and whether their value or their sign matters


TIME, GROUP, NUMBER, ISSUED, ISSUE, FREED, EVENTS, STALLS, FLIGHT, LAST, PLACES, NOTES, END = range(
    13
)


class LoopRules(NamedTuple):
    """Rules of issue, and the cycle after which a run is given up."""

    width: int
    ordered_writes: int
    next_cycle_writes: int
    branch_ends_group: int
    penalty: int
    in_order: int
    most_cycles: int
