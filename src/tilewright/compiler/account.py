"""Time of a kernel by cause, according to the simulator or to the model alone.

In: a simulated run, or a program and its estimated cycles. Out: an `Account`. A time measured on
this computer has no causes of its own: those of the model stand beside it, named as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilewright.cost.causes import copy_cycles, model_causes
from tilewright.cost.timing import moved_bytes
from tilewright.cost.totals import CallGroup, TransferGroup, executed
from tilewright.ir.nodes import Program
from tilewright.ir.threads import busiest_thread
from tilewright.machine import Machine
from tilewright.passes.allocate_buffers import buffer_bytes
from tilewright.passes.split_ahead import split_ahead
from tilewright.report.view import CauseRow, TimedBy, TrafficRow
from tilewright.simulate.kernel.level import KernelRun

Seconds: TypeAlias = float


@dataclass(frozen=True)
class Account:
    """Cycles of one core group, or of the thread of it that has most to do; `causes` sum to
    `cycles`, `bound` names the largest part.

    `useful_flops` are those of all matrix products on elements of tensors. `measured_seconds` is
    the time on this computer, where it was measured.
    """

    cycles: int
    causes: tuple[CauseRow, ...]
    traffic: tuple[TrafficRow, ...]
    useful_flops: int
    scratchpad_bytes: int
    bound: str
    timed_by: TimedBy
    measured_seconds: Seconds | None = None

    def seconds(self, clock_hz: int) -> Seconds:
        """The time: as measured, else the cycles at this clock."""
        return self.cycles / clock_hz if self.measured_seconds is None else self.measured_seconds


def simulated_account(run: KernelRun) -> Account:
    """The account of a simulated run."""
    return Account(
        run.cycles,
        tuple(CauseRow(c.kind, c.subject, c.cycles) for c in run.causes),
        tuple(
            TrafficRow(
                t.tensor, t.direction, t.asked_bytes, t.moved_bytes, t.requests, t.engine_cycles
            )
            for t in run.tensors
        ),
        run.useful_flops,
        run.allocated_bytes,
        run.bound(),
        "simulated",
    )


def every_call(program: Program) -> Program:
    """The part of a program that runs with every call, not once ahead of them."""
    _, found = split_ahead(program)
    return found


def model_account(
    program: Program, machine: Machine, cycles: float, measured_seconds: Seconds | None
) -> Account:
    """The account by the model of a program whose core makes its copies itself; of several threads
    that of the one with most to do. What runs ahead of all calls is left out.

    What calls, copies and barriers do not explain of the estimate is waiting for operands in place.
    """
    program = every_call(program)
    _, all_calls = executed(program, machine)
    own = replace(program, body=busiest_thread(program.body))
    transfers, _ = executed(own, machine)
    causes = model_causes(program, machine, cycles)
    rows = [CauseRow(kind, subject, c) for (kind, subject), c in causes]
    return Account(
        sum(row.cycles for row in rows),
        tuple(rows),
        tuple(_traffic(moved, machine) for moved in transfers),
        sum(_flops(c, machine) for c in all_calls),
        sum(buffer_bytes(b) for b in program.buffers),
        _bound(rows),
        "model" if measured_seconds is None else "measured",
        measured_seconds,
    )


def _flops(group: CallGroup, machine: Machine) -> int:
    return group.count * int(group.stmt.primitive.flops(group.dims, machine.mesh.columns))


def _bound(rows: Sequence[CauseRow]) -> str:
    """The largest part of the time by the model, by name."""
    names = {"copy": "copies", "primitive": "primitives", "caches": "caches", "barrier": "barriers"}
    parts: dict[str, int] = {}
    for row in rows:
        name = names.get(row.kind, "compute")
        parts[name] = parts.get(name, 0) + row.cycles
    return max(parts, key=lambda part: parts[part]) if parts else "compute"


def _traffic(group: TransferGroup, machine: Machine) -> TrafficRow:
    shape, count = group.shape, group.count
    return TrafficRow(
        group.stmt.tensor,
        group.stmt.direction,
        count * int(shape.asked_bytes),
        count * int(moved_bytes(machine, shape) / machine.cores),
        count * int(shape.requests),
        round(count * copy_cycles(group, machine)),
    )
