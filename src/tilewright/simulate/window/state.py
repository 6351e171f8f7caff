"""Arrays of the compiled window executor: a program, and its running state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

READS, WRITES, SPAN_COUNT = 6, 2, 3
"""Most registers that a step reads and writes, and most of its spans."""


class Code(NamedTuple):
    """Steps as arrays. Expressions are programs of a stack machine, from `begin` to `end`."""

    unit: Ints
    is_long: Ints
    latency: Ints
    occupancy: Ints
    scalar: Ints  # number of what computes a register, -1 for none
    cycles: Ints  # begin and end of the expression
    spans: Ints  # of each span: memory, begin and end of address and count, whether it is written
    branch: Ints  # number of the condition, -1 for none
    halts: Ints
    target: Ints
    reads: Ints
    writes: Ints
    registers: Ints  # of each operand, -1 for a number
    numbers: Ints
    codes: Ints
    arguments: Floats
    sizes: Ints  # elements of each memory
    read_only: Ints  # memory, first and end of each range
    loops: Ints  # number of the loop that a branch backwards closes, -1 for other steps


class WindowState(NamedTuple):
    """State of a running program; `at` holds the counters below."""

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
    places: Ints  # of operations since the last stop: step, operands, first and end of each span
    turns: Ints  # of each loop: numbers behind its last turn, what the turn added, what repeats
    marks: Ints  # of each loop: turns alike, where notes of the last two begin
    notes: Ints  # what turns depend on, and whether its value or its sign counts


TIME, GROUP, NUMBER, ISSUED, ISSUE, FREED, EVENTS, STALLS, FLIGHT, LAST, PLACES, NOTES, END = range(
    13
)


class LoopRules(NamedTuple):
    """Rules of issue, and the cycle in which a run is given up."""

    width: int
    ordered_writes: int
    next_cycle_writes: int
    branch_ends_group: int
    penalty: int
    in_order: int
    most_cycles: int
