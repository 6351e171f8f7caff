"""A run one instruction at a time: breakpoints, watched elements, steps back.

In: what makes a fresh executor. Out: the executor at the place where it stopped, and why. Runs are
repeatable, so that a step back is a run anew up to the instruction before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tilewright.simulate.window.decode import Step
from tilewright.simulate.window.execute import Executor
from tilewright.simulate.window.memories import Range
from tilewright.simulate.window.run import Event


@dataclass
class Stepper:
    """A run that stops where it is told. `executed` instructions have issued so far."""

    make: Callable[[], Executor]
    breakpoints: set[int] = field(default_factory=set)
    ranges: list[Range] = field(default_factory=list)
    executed: int = 0

    def __post_init__(self) -> None:
        self.executor = self.make()

    @property
    def next(self) -> Step | None:
        """The instruction that issues next, None at the end."""
        executor = self.executor
        return None if executor.is_done else executor.steps[executor.number]

    @property
    def last_event(self) -> Event | None:
        """The long operation that issued last, if it was the last instruction."""
        events = self.executor.events
        return events[-1] if events else None

    def forward(self, count: int = 1) -> None:
        """Issue so many instructions. Errors: SimulationError."""
        for _ in range(count):
            if not self.executor.step():
                return
            self.executed += 1

    def back(self, count: int = 1) -> None:
        """Go back so many instructions. Errors: SimulationError."""
        target = max(self.executed - count, 0)
        self.executor, self.executed = self.make(), 0
        self.forward(target)

    def go(self) -> str:
        """Run on to a breakpoint, to a write of watched elements, or to the end; says which.

        Errors: SimulationError.
        """
        while True:
            before = [self._elements(watched) for watched in self.ranges]
            if not self.executor.step():
                return "the program has ended"
            self.executed += 1
            for watched, old in zip(self.ranges, before, strict=True):
                new = self._elements(watched)
                changed = np.flatnonzero(old != new)
                if len(changed):
                    first = int(changed[0])
                    return (
                        f"{len(changed)} watched elements of {watched.memory} changed, the first "
                        f"at {watched.address + first}: {old[first]} to {new[first]}"
                    )
            if self.executor.number in self.breakpoints:
                return "breakpoint"

    def _elements(self, watched: Range) -> np.ndarray:
        array = self.executor.memories.arrays[watched.memory]
        return array[watched.address : watched.address + watched.count].copy()
