"""Time generated code on this computer: programs or kernels in, seconds out.

Contenders take turns, and disturbed samples are discarded (`tune.sampling`). Programs to be
compared are timed in one interleaved run, since clocks drift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.codegen.artifact import EMITS, LOADS, Artifact, BoundKernel
from tilewright.common.dtypes import dtype
from tilewright.common.errors import BusyError, TilewrightError
from tilewright.ir.parser import parse
from tilewright.machine import Machine
from tilewright.tune.sampling import Contender, Protocol, interleaved, protocol_for


@dataclass(frozen=True)
class NativeMeasure:
    """Times programs on this computer; those to be compared take turns."""

    kind: str = "measured"
    protocol: Protocol | None = None

    def cycles(self, program_text: str, machine: Machine) -> int:
        """Cycles of one program at the machine's clock."""
        (found,) = self.cycles_of([program_text], machine)
        if isinstance(found, TilewrightError):
            raise found
        return found

    def cycles_of(
        self, program_texts: Sequence[str], machine: Machine
    ) -> list[int | TilewrightError]:
        """Cycles of each program, or why it has none; all are timed in one interleaved run.

        Raises BusyError if the computer is too busy for enough samples to rank by.
        """
        bound: list[BoundKernel | TilewrightError] = []
        emit = EMITS.required(machine).emit
        for text in program_texts:
            try:
                bound.append(_bound(emit(parse(text), machine), machine))
            except TilewrightError as error:
                bound.append(error)
        places = [f"candidate {i} of {len(bound)}" for i in range(1, len(bound) + 1)]
        pairs = list(zip(places, bound, strict=True))
        kernels = {place: b for place, b in pairs if not isinstance(b, TilewrightError)}
        protocol = self.protocol or protocol_for(machine.thread_count)
        try:
            seconds = _timed(kernels, protocol, machine.thread_count)
        except BusyError as error:
            way_out = "measure while the computer is less busy; without --top the model chooses"
            raise BusyError(error.message, fix=way_out) from None
        return [
            b if isinstance(b, TilewrightError) else max(1, round(seconds[p] * machine.clock_hz))
            for p, b in pairs
        ]


def measured_seconds(
    artifact: Artifact, machine: Machine, protocol: Protocol | None = None
) -> float:
    """Seconds of one call of a kernel on random inputs: the median of undisturbed samples.

    Raises ToolError if it cannot be compiled, BusyError if the computer is too busy.
    """
    threads = machine.thread_count
    kernels = {artifact.name: _bound(artifact, machine)}
    return _timed(kernels, protocol or protocol_for(threads), threads)[artifact.name]


def _bound(artifact: Artifact, machine: Machine) -> BoundKernel:
    """The artifact's kernel, loaded and bound to random inputs."""
    generator = np.random.default_rng(0)
    inputs = {
        t.name: generator.standard_normal(t.shape).astype(dtype(t.dtype).numpy)
        for t in artifact.tensors
        if t.is_given
    }
    return LOADS.required(machine, "simulate it").load(artifact, machine).bind(inputs)


def _timed(
    kernels: Mapping[str, BoundKernel], protocol: Protocol, threads: int
) -> dict[str, float]:
    """Seconds per call of each kernel; the keys name them in errors."""
    contenders = [Contender(name, kernel.repeat, threads) for name, kernel in kernels.items()]
    timings = interleaved(contenders, protocol) if contenders else {}
    return {name: timing.seconds for name, timing in timings.items()}
