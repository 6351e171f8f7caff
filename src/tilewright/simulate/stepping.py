"""What a debugger asks of a run that is made one step at a time, whatever executes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from tilewright.isa import Instruction
from tilewright.simulate.window.memories import Range


class Stepping(Protocol):
    """A run that stops where it is told: before instructions, and after writes of memory."""

    breakpoints: set[int]
    ranges: list[Range]

    @property
    def executed(self) -> int:
        """Instructions that have issued."""

    @property
    def time(self) -> int:
        """The cycle."""

    @property
    def labels(self) -> Mapping[str, int]:
        """Instructions by label."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Elements of each memory."""

    def upcoming(self, count: int) -> Sequence[tuple[int, Instruction]]:
        """The next instructions with their numbers; none at the end."""

    def registers(self) -> Mapping[str, Any]:
        """The registers that are not zero."""

    def elements(self, place: Range) -> NDArray[Any]:
        """Elements of a memory."""

    def forward(self, count: int = 1) -> None:
        """Go so many steps. Errors: SimulationError."""

    def back(self, count: int = 1) -> None:
        """Go back so many steps. Errors: SimulationError."""

    def go(self) -> str:
        """Run on to a breakpoint, to a write of watched elements, or to the end; says which.

        Errors: SimulationError.
        """


def changed(watched: Range, old: NDArray[Any], new: NDArray[Any]) -> str:
    """What a write changed of watched elements, "" for nothing."""
    places = (old != new).nonzero()[0]
    if not len(places):
        return ""
    first = int(places[0])
    return (
        f"{len(places)} watched elements of {watched.memory} changed, the first at "
        f"{watched.address + first}: {old[first]} to {new[first]}"
    )
