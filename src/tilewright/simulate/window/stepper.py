"""A run one instruction at a time: breakpoints, watched elements, steps back.

In: what makes a fresh executor. Out: the executor at the place where it stopped, and why. Runs are
repeatable, so that a step back is a run anew up to the instruction before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tilewright.isa import Instruction
from tilewright.simulate.stepping import Watch
from tilewright.simulate.window.execute import Executor
from tilewright.simulate.window.memories import ElementRange


@dataclass
class Stepper:
    """A run that stops on request."""

    make: Callable[[], Executor]
    register_names: Sequence[str]
    breakpoints: set[int] = field(default_factory=set)
    watches: list[Watch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.executor = self.make()

    @property
    def executed(self) -> int:
        """Instructions that have issued so far."""
        return self.executor.issued

    @property
    def time(self) -> int:
        """The current cycle."""
        return self.executor.time

    @property
    def labels(self) -> Mapping[str, int]:
        """Instructions by label."""
        steps = self.executor.steps
        return {label: step.number for step in steps for label in step.instruction.labels}

    @property
    def sizes(self) -> Mapping[str, int]:
        """Number of elements of each memory."""
        return self.executor.memories.sizes

    @property
    def instructions(self) -> Sequence[Instruction]:
        """The whole program."""
        return [step.instruction for step in self.executor.steps]

    def upcoming(self, count: int) -> Sequence[tuple[int, Instruction]]:
        """The next instructions of the program with their numbers; none at the end."""
        executor = self.executor
        if executor.is_done:
            return ()
        steps = executor.steps[executor.number : executor.number + count]
        return [(step.number, step.instruction) for step in steps]

    def registers(self) -> Mapping[str, int]:
        """The registers that are not zero."""
        values = zip(self.register_names, self.executor.registers, strict=True)
        return {name: value for name, value in values if value}

    def elements(self, place: ElementRange) -> NDArray[Any]:
        """Elements of a memory."""
        array = self.executor.memories.arrays[place.memory]
        return array[place.address : place.address + place.count]

    def forward(self, count: int = 1) -> None:
        """Issue the next `count` instructions. Errors: SimulationError."""
        for _ in range(count):
            if not self.executor.step():
                return

    def back(self, count: int = 1) -> None:
        """Go back by `count` instructions. Errors: SimulationError."""
        target = max(self.executor.issued - count, 0)
        self.executor = self.make()
        self.forward(target)

    def go(self) -> str:
        """Run on to a breakpoint, to a write of watched elements, or to the end; says which.

        Errors: SimulationError.
        """
        while True:
            before = [self.elements(watch.place).copy() for watch in self.watches]
            if not self.executor.step():
                return "the program has ended"
            for watch, old in zip(self.watches, before, strict=True):
                text = watch.changed(old, self.elements(watch.place))
                if text:
                    return text
            if self.executor.number in self.breakpoints:
                return "breakpoint"
