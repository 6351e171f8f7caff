"""Programs of a family's own assembly language, run as their host does: data in, launch, data out.

A family has a module `runtime` with an object `RUNTIME`: it knows what a program declared and how
its data lies in main memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from tilewright.asm import Object
from tilewright.machine import Capability, Machine
from tilewright.simulate.window.run import WindowRun


@dataclass(frozen=True, eq=False)
class HostedRun:
    """What the host has after a run: the data that the program may write, by name."""

    outputs: Mapping[str, NDArray[Any]]
    run: WindowRun


class Runtime(Protocol):
    """A family whose programs are launched by a host."""

    def run(
        self, image: Object, machine: Machine, inputs: Mapping[str, NDArray[Any]], *, values: bool
    ) -> HostedRun:
        """Put the inputs into main memory, run the program, and fetch what it may write. Without
        `values` the program is only timed. Errors: AssemblyError, SimulationError, ShapeError.
        """


RUNTIMES: Capability[Runtime] = Capability("runtime", ("run",), "runtime for assembled programs")
