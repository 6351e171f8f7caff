"""Programs in a family's own assembly language, run as by a host: data in, launch, data out.

The object `RUNTIME` of a family's module `runtime` knows a program's declarations and the layout of
its data in main memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from tilewright.asm import Object
from tilewright.common.limits import MOST_WINDOW_CYCLES
from tilewright.machine import Capability, Machine
from tilewright.simulate.stepping import Watch
from tilewright.simulate.window.execute import Executor
from tilewright.simulate.window.memories import ElementRange
from tilewright.simulate.window.run import WindowRun


@dataclass(frozen=True, eq=False)
class HostedRun:
    """A run, and the data that the host has after it: all that the program may write, by name."""

    outputs: Mapping[str, NDArray[Any]]
    run: WindowRun


class Debugged(Protocol):
    """A program with its data, ready to be run step by step."""

    @property
    def register_names(self) -> Sequence[str]:
        """The names of the registers, by number."""

    @property
    def names(self) -> Sequence[str]:
        """The names of declared data."""

    def executor(self) -> Executor:
        """A new run, which has not begun."""

    def segment(self, name: str, index: Sequence[int]) -> tuple[ElementRange, tuple[int, ...]]:
        """Range and shape of a segment of data, by default the first. Raises ShapeError."""

    def numbers(self, elements: NDArray[Any]) -> NDArray[Any]:
        """The real numbers that elements stand for."""

    def watch(self, name: str, index: Sequence[int]) -> Watch:
        """A watch of declared data, or of a segment of it. Errors: ShapeError."""


class _Runtime(Protocol):
    """A family whose programs are launched by a host."""

    def run(
        self,
        image: Object,
        machine: Machine,
        inputs: Mapping[str, NDArray[Any]],
        *,
        values: bool,
        max_cycles: int = MOST_WINDOW_CYCLES,
    ) -> HostedRun:
        """Put the inputs into main memory, run the program, and fetch the data that it may write.
        Without `values` the program is only timed. Errors: AssemblyError, ShapeError, and
        SimulationError, also beyond `max_cycles`.
        """

    def debug(
        self, image: Object, machine: Machine, inputs: Mapping[str, NDArray[Any]]
    ) -> Debugged:
        """The program with its inputs in main memory. Errors: AssemblyError, ShapeError."""


RUNTIMES: Capability[_Runtime] = Capability(
    "runtime", ("run", "debug"), "runtime for assembled programs"
)
