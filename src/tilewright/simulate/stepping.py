"""Interface of a run that a debugger makes one step at a time, whatever executes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from tilewright.isa import Instruction
from tilewright.simulate.window.memories import ElementRange


@dataclass(frozen=True, eq=False)
class Watch:
    """Elements of a memory or of data (`of`) whose writes stop a run. `index` places one."""

    place: ElementRange
    of: str
    index: Callable[[int], str]

    def changed(self, old: NDArray[Any], new: NDArray[Any]) -> str:
        """Describe what a write changed, "" if nothing."""
        places = (old != new).nonzero()[0]
        if not len(places):
            return ""
        first, noun = int(places[0]), "element" if len(places) == 1 else "elements"
        return (
            f"{len(places)} watched {noun} of {self.of} changed, the first at "
            f"{self.index(first)}: {old[first]} to {new[first]}"
        )


def watch_of_range(place: ElementRange) -> Watch:
    """A watch of elements of a memory, by address."""
    return Watch(place, place.memory, lambda number: str(place.address + number))


class Stepping(Protocol):
    """A run that stops on request: before instructions, and after writes of memory."""

    breakpoints: set[int]
    watches: list[Watch]

    @property
    def executed(self) -> int:
        """Instructions that have issued."""

    @property
    def time(self) -> int:
        """The current cycle."""

    @property
    def labels(self) -> Mapping[str, int]:
        """Instructions by label."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Number of elements of each memory."""

    @property
    def instructions(self) -> Sequence[Instruction]:
        """The whole program."""

    def upcoming(self, count: int) -> Sequence[tuple[int, Instruction]]:
        """The next instructions with their numbers; none at the end."""

    def registers(self) -> Mapping[str, Any]:
        """The registers that are not zero."""

    def elements(self, place: ElementRange) -> NDArray[Any]:
        """Elements of a memory."""

    def forward(self, count: int = 1) -> None:
        """Advance by `count` steps. Errors: SimulationError."""

    def back(self, count: int = 1) -> None:
        """Go back by `count` steps. Errors: SimulationError."""

    def go(self) -> str:
        """Run on to a breakpoint, to a write of watched elements, or to the end; says which.

        Errors: SimulationError.
        """
