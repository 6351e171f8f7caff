"""Timing generated code on this computer: programs or kernels in, seconds out.

Contenders take turns and disturbed samples are thrown away (`tune.sampling`). All programs
that are to be compared are timed in one interleaved run, since clocks drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.codegen.artifact import EMITS, LOADS, Artifact, BoundKernel
from tilewright.common.dtypes import dtype
from tilewright.common.errors import TilewrightError
from tilewright.ir.parser import parse
from tilewright.machine import Machine
from tilewright.tune.sampling import Contender, Protocol, interleaved, protocol_for


@dataclass(frozen=True)
class NativeMeasure:
    """Runs programs on this computer, those of one operator in turn."""

    kind: str = "measured"
    protocol: Protocol | None = None

    def cycles(self, program_text: str, machine: Machine) -> int:
        """The cycles of one program at the machine's clock."""
        (found,) = self.cycles_of([program_text], machine)
        if isinstance(found, TilewrightError):
            raise found
        return found

    def cycles_of(
        self, program_texts: Sequence[str], machine: Machine
    ) -> list[int | TilewrightError]:
        """The cycles of each program, or why it has none; all are timed in one interleaved run."""
        bound: list[BoundKernel | TilewrightError] = []
        for text in program_texts:
            try:
                bound.append(_bound_program(text, machine))
            except TilewrightError as error:
                bound.append(error)
        kernels = {i: b for i, b in enumerate(bound) if not isinstance(b, TilewrightError)}
        protocol = self.protocol or protocol_for(machine.thread_count)
        found = _timed(list(kernels.values()), protocol, machine.thread_count)
        seconds = dict(zip(kernels, found, strict=True))
        return [
            b if isinstance(b, TilewrightError) else max(1, round(seconds[i] * machine.clock_hz))
            for i, b in enumerate(bound)
        ]


def measured_seconds(
    artifact: Artifact, machine: Machine, protocol: Protocol | None = None
) -> float:
    """Seconds of one call of a kernel on random numbers: the median of undisturbed samples.

    Raises ToolError where it cannot be compiled, BusyError where the computer is too busy.
    """
    threads = machine.thread_count
    (seconds,) = _timed([_bound(artifact, machine)], protocol or protocol_for(threads), threads)
    return seconds


def _bound_program(text: str, machine: Machine) -> BoundKernel:
    return _bound(EMITS.required(machine).emit(parse(text), machine), machine)


def _bound(artifact: Artifact, machine: Machine) -> BoundKernel:
    """The kernel on random numbers."""
    generator = np.random.default_rng(0)
    inputs = {
        t.name: generator.standard_normal(t.shape).astype(dtype(t.dtype).numpy)
        for t in artifact.tensors
        if t.is_given
    }
    return LOADS.required(machine, "simulate it").load(artifact, machine).bind(inputs)


def _timed(kernels: Sequence[BoundKernel], protocol: Protocol, threads: int) -> list[float]:
    contenders = [Contender(str(i), kernel.repeat, threads) for i, kernel in enumerate(kernels)]
    timings = interleaved(contenders, protocol) if contenders else {}
    return [timings[c.name].seconds for c in contenders]
