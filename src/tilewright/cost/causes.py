"""Where the time of a program goes by the model, where its core makes its copies itself.

In: a program and its estimated cycles. Out: cycles by cause, which sum to them. Of several threads
it is that of the one with most to do.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.cost.timing import issue_cycles, transfer_cycles
from tilewright.cost.totals import TransferGroup, cycles_of, executed
from tilewright.ir.nodes import Program
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.threads import busiest_thread, meetings
from tilewright.machine import Machine

Cause = tuple[str, str]
"""A kind of cause, and what it is about."""


def model_causes(program: Program, machine: Machine, cycles: float) -> list[tuple[Cause, int]]:
    """Whole cycles of each cause, the largest first; they sum to `cycles`, rounded.

    What calls, copies and barriers do not explain of the estimate is waiting for operands in place,
    the cause `caches`.
    """
    transfers, calls = executed(replace(program, body=busiest_thread(program.body)), machine)
    causes: dict[Cause, float] = {}
    if machine.threads is not None and machine.threads.count > 1:
        met = meetings(program.body) + 1
        causes["barrier", ""] = met * machine.threads.meet_cycles
    for call in calls:
        primitive = call.stmt.primitive
        kind = "compute useful" if isinstance(primitive, MatrixProduct) else "primitive"
        key = (kind, primitive.name)
        causes[key] = causes.get(key, 0.0) + call.count * cycles_of(call, program, machine)
    for moved in transfers:
        key = ("copy", f"{moved.stmt.tensor} {moved.stmt.direction}")
        causes[key] = causes.get(key, 0.0) + moved.count * copy_cycles(moved, machine)
    return _whole(causes, round(cycles))


def copy_cycles(group: TransferGroup, machine: Machine) -> float:
    """Cycles of one transfer that the core makes itself."""
    service = transfer_cycles(machine, group.stmt.direction, group.shape)
    return float(service + issue_cycles(machine, group.shape))


def _whole(causes: dict[Cause, float], cycles: int) -> list[tuple[Cause, int]]:
    """In whole cycles that sum to the estimate."""
    found = [(cause, round(c)) for cause, c in causes.items() if round(c)]
    found.sort(key=lambda item: -item[1])
    rest = cycles - sum(c for _, c in found)
    if rest < 0 and found:  # what rounding added
        cause, most = found[0]
        found[0] = (cause, most + rest)
    elif rest > 0:
        found.append((("caches", ""), rest))
    return sorted(found, key=lambda item: -item[1])
