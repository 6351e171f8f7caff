"""The kernel-level simulator: a program's numbers and its cycles, every cycle with its cause.

In: an instantiated explicit-stage program, a machine, optionally the input tensors. Out: a
`KernelRun`. One core group, its cores in lockstep; calls take their calibrated time, transfers
share one DMA engine (swATOP 4.6 without its "maximum of two sums"). Loops in a steady state are
multiplied instead of repeated, with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.cost.calls import Costs
from tilewright.cost.prices import call_costs
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Program
from tilewright.machine import Capability, Machine
from tilewright.simulate.kernel.account import FLOPS, STATEMENTS, Cause, TensorTraffic
from tilewright.simulate.kernel.cost import KernelCosts
from tilewright.simulate.kernel.execute import Executor
from tilewright.simulate.kernel.prepare import prepare
from tilewright.simulate.kernel.timeline import Timeline
from tilewright.simulate.trace import Trace

Array = npt.NDArray[Any]

_BOUNDS = {
    "compute useful": "compute",
    "compute padding": "compute",
    "compute overhead": "compute",
    "primitive": "primitives",
    "dma issue": "dma issue",
    "wait latency": "dma latency",
    "wait bandwidth": "dma bandwidth",
    "barrier": "barriers",
    "issue": "issue",
}
"""Name of each kind of cause as the bound of a run."""


@dataclass(frozen=True)
class KernelRun:
    """One simulated run on one core group.

    `causes` sum to `cycles`. `useful_flops` are those of matrix products on elements of tensors,
    all cores together. `allocated_bytes` is what the buffers take of one scratchpad, `peak_bytes`
    the most that was in use at one time: a slot is in use from its first get or write until its put
    is done. `statements` were executed (transfers, waits, barriers, calls), of which
    `simulated_statements` one by one, the rest by multiplication.
    """

    cycles: int
    seconds: float
    causes: tuple[Cause, ...]
    tensors: tuple[TensorTraffic, ...]
    useful_flops: int
    allocated_bytes: int
    peak_bytes: int
    statements: int
    simulated_statements: int
    outputs: Mapping[str, Array] | None = None
    trace: Trace | None = None

    def by_kind(self) -> dict[str, int]:
        """Cycles of each kind of cause, the largest first; they sum to `cycles`."""
        kinds: dict[str, int] = {}
        for cause in self.causes:
            kinds[cause.kind] = kinds.get(cause.kind, 0) + cause.cycles
        return dict(sorted(kinds.items(), key=lambda item: -item[1]))

    def by_bound(self) -> dict[str, int]:
        """Cycles of what may bound a run: kinds of causes that are one to whoever would help."""
        parts: dict[str, int] = {}
        for kind, cycles in self.by_kind().items():
            parts[_BOUNDS[kind]] = parts.get(_BOUNDS[kind], 0) + cycles
        return parts

    def bound(self) -> str:
        """The bound that takes the largest part of the time."""
        parts = self.by_bound()
        return max(parts, key=lambda part: parts[part]) if parts else "compute"

    def then(self, other: KernelRun, called: str) -> KernelRun:
        """This run and another one behind it, with the outputs and the trace of this one; the name
        of the other stands before what its causes and tensors are called.
        """
        own = (replace(c, subject=f"{called} {c.subject}".strip()) for c in other.causes)
        causes = sorted((*self.causes, *own), key=lambda cause: -cause.cycles)
        tensors = (replace(t, tensor=f"{called} {t.tensor}") for t in other.tensors)
        return replace(
            self,
            cycles=self.cycles + other.cycles,
            seconds=self.seconds + other.seconds,
            causes=tuple(causes),
            tensors=(*self.tensors, *tensors),
            useful_flops=self.useful_flops + other.useful_flops,
            allocated_bytes=max(self.allocated_bytes, other.allocated_bytes),
            peak_bytes=max(self.peak_bytes, other.peak_bytes),
            statements=self.statements + other.statements,
            simulated_statements=self.simulated_statements + other.simulated_statements,
        )


class SimulatesCode(Protocol):
    """A family with a simulator of its own code, which takes the place of this one."""

    def simulate(self, program: Program, machine: Machine) -> KernelRun:
        """The run of the program's code; raises as `simulate` does."""


SIMULATES: Capability[SimulatesCode] = Capability(
    "code", ("simulate",), "simulator of its own code"
)


def simulate(
    program: Program,
    machine: Machine,
    inputs: Mapping[str, Array] | None = None,
    *,
    trace_limit: int = 0,
    skip: bool = True,
    costs: Costs | None = None,
    barrier_cycles: int = 0,
) -> KernelRun:
    """Run `program` on one core group of `machine`; with `inputs` also compute its output tensors.
    A family that simulates its own code does that instead, without a trace.

    `trace_limit` is how many events are recorded in detail (0: no trace); `skip=False` executes
    every iteration; `costs` replaces the cycles that the machine's family gives to primitives; a
    barrier takes `barrier_cycles`. Raises SimulationError where a slot is misused, with buffer,
    slot and statement, CapacityError where the buffers do not fit the scratchpad, ProgramError
    where the numbers cannot be computed.
    """
    own, mesh = SIMULATES.of(machine), (machine.mesh.rows, machine.mesh.columns)
    outputs = None if inputs is None else interpret(program, inputs, mesh)
    if own is not None:
        return replace(own.simulate(program, machine), outputs=outputs)
    prepared = prepare(program, machine)
    timeline = Timeline(trace_limit)
    executor = Executor(
        prepared,
        machine,
        KernelCosts(machine, call_costs(machine) if costs is None else costs),
        timeline,
        skip=skip,
        barrier_cycles=barrier_cycles,
    )
    executor.run()
    counts = [int(count) for count in np.asarray(executor.counts)]
    cycles = executor.state.now
    return KernelRun(
        cycles=cycles,
        seconds=cycles / machine.clock_hz,
        causes=executor.ledger.causes(counts),
        tensors=executor.ledger.traffic(counts),
        useful_flops=counts[FLOPS],
        allocated_bytes=prepared.allocated_bytes,
        peak_bytes=executor.peak_bytes,
        statements=counts[STATEMENTS],
        simulated_statements=executor.simulated_statements,
        outputs=outputs,
        trace=timeline.close(cycles),
    )
