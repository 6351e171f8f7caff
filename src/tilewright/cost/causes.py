"""Break down the modelled time of a program by cause, where the core makes its copies itself.

In: a program and its estimated cycles. Out: cycles by cause, which sum to them. Of several threads
it is that of the one with most to do.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.cost.calls import priced_call
from tilewright.cost.prices import prices_of
from tilewright.cost.timing import issue_cycles, transfer_cycles
from tilewright.cost.totals import CallGroup, TransferGroup, cycles_of, executed
from tilewright.ir.nodes import Program
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.threads import busiest_thread, thread_meetings
from tilewright.machine import Machine

Cause = tuple[str, str]
"""Kind of a cause, and its subject."""


def model_causes(program: Program, machine: Machine, cycles: float) -> list[tuple[Cause, int]]:
    """Whole cycles of each cause, the largest first; they sum to `cycles`, rounded.

    What calls, copies and barriers do not explain of the estimate is waiting for operands in place,
    the cause `caches`.
    """
    program = prices_of(machine).as_emitted(program)
    transfers, calls = executed(replace(program, body=busiest_thread(program.body)), machine)
    causes: dict[Cause, float] = {}
    if machine.threads is not None and machine.threads.count > 1:
        met = thread_meetings(program.body) + 1
        causes["barrier", ""] = met * machine.threads.meet_cycles
    for call in calls:
        for kind, own in _parts(call, program, machine):
            key = (kind, call.stmt.primitive.name)
            causes[key] = causes.get(key, 0.0) + call.count * own
    for moved in transfers:
        key = ("copy", f"{moved.stmt.tensor} {moved.stmt.direction}")
        causes[key] = causes.get(key, 0.0) + moved.count * copy_cycles(moved, machine)
    return _whole(causes, round(cycles))


def _parts(call: CallGroup, program: Program, machine: Machine) -> tuple[tuple[str, float], ...]:
    """The cycles of one call by cause: for a product, those at the core's peak and those beyond."""
    primitive, cycles = call.stmt.primitive, cycles_of(call, program, machine)
    if not isinstance(primitive, MatrixProduct):
        return (("primitive", cycles),)
    core, kind = machine.core, priced_call(call.stmt, call.dims, program).dtype
    peak = core.peak_flops_per_cycle(kind if kind in core.arithmetic else core.usual_type)
    flops = float(primitive.flops(call.dims, machine.mesh.columns))
    useful = min(flops / peak, cycles)
    return (("compute useful", useful), ("compute overhead", cycles - useful))


def copy_cycles(group: TransferGroup, machine: Machine) -> float:
    """Cycles of one transfer that the core makes itself."""
    service = transfer_cycles(machine, group.stmt.direction, group.shape)
    return float(service + issue_cycles(machine, group.shape))


def _whole(causes: dict[Cause, float], cycles: int) -> list[tuple[Cause, int]]:
    """Round to whole cycles that sum to the estimate."""
    found = [(cause, round(c)) for cause, c in causes.items() if round(c)]
    found.sort(key=lambda item: -item[1])
    rest = cycles - sum(c for _, c in found)
    if rest > 0:
        found.append((("caches", ""), rest))
    elif found:  # what rounding added
        cause, most = found[0]
        found[0] = (cause, most + rest)
    return sorted(found, key=lambda item: -item[1])
