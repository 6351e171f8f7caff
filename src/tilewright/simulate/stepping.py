"""A run that a debugger makes one step at a time, whatever executes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(kw_only=True)
class Stepping(ABC):
    """A run that stops on request: before instructions, and after writes of memory. Errors of what
    advances it: SimulationError where the program faults.
    """

    breakpoints: set[int] = field(default_factory=set)
    watches: list[Watch] = field(default_factory=list)

    @property
    @abstractmethod
    def executed(self) -> int:
        """Instructions that have issued."""

    @property
    @abstractmethod
    def time(self) -> int:
        """The current cycle, which is that of the next step."""

    @property
    @abstractmethod
    def labels(self) -> Mapping[str, int]:
        """Instructions by label."""

    @property
    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """Number of elements of each memory."""

    @property
    @abstractmethod
    def instructions(self) -> Sequence[Instruction]:
        """The whole program."""

    @property
    @abstractmethod
    def at(self) -> Sequence[int]:
        """The instructions of the next step, by number."""

    @abstractmethod
    def upcoming(self, count: int) -> Sequence[tuple[int, Instruction]]:
        """Up to `count` instructions that issue next, with their numbers; none at the end."""

    @abstractmethod
    def registers(self) -> Mapping[str, Any]:
        """The registers that are not zero."""

    @abstractmethod
    def elements(self, place: ElementRange) -> NDArray[Any]:
        """Elements of a memory."""

    @abstractmethod
    def forward(self, count: int = 1) -> None:
        """Advance by `count` steps."""

    @abstractmethod
    def back(self, count: int = 1) -> None:
        """Go back by `count` steps."""

    def go(self) -> str:
        """Run on to a breakpoint, to a write of watched elements, or to the end; says which."""
        while self.upcoming(1):
            before = [self.elements(watch.place).copy() for watch in self.watches]
            self.forward()
            for watch, old in zip(self.watches, before, strict=True):
                if text := watch.changed(old, self.elements(watch.place)):
                    return text
            if self.breakpoints.intersection(self.at):
                return "breakpoint"
        return "the program has ended"
