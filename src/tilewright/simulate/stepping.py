"""Stepwise runs, of one core or of a window executor, with breakpoints, watches and steps back.

In: a loaded image, or a function that makes a fresh executor. Out: the state before a step, and why
a run stopped. Runs are deterministic, so a state, or a step back, is found by running again up to
that step. A core's steps are the cycles in which something issues, known from one complete run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

from numpy.typing import NDArray

from tilewright.isa import Instruction
from tilewright.simulate.image import LoadedImage
from tilewright.simulate.instruction_level import core_after, simulate_core
from tilewright.simulate.runs import CoreRun, IssuedInstruction
from tilewright.simulate.window.execute import Executor
from tilewright.simulate.window.memories import ElementRange


@dataclass(frozen=True, eq=False)
class Watch:
    """Elements of a memory or of data `of` whose change stops a run; `index` names an element."""

    place: ElementRange
    of: str
    index: Callable[[int], str]

    def changed(self, old: NDArray[Any], new: NDArray[Any]) -> str:
        """Describe the changed elements; "" if there are none."""
        places = (old != new).nonzero()[0]
        if not len(places):
            return ""
        first, noun = int(places[0]), "element" if len(places) == 1 else "elements"
        return (
            f"{len(places)} watched {noun} of {self.of} changed, the first at "
            f"{self.index(first)}: {old[first]} to {new[first]}"
        )


def watch_of_range(place: ElementRange) -> Watch:
    """A watch of a memory's elements, indexed by address."""
    return Watch(place, place.memory, lambda number: str(place.address + number))


@dataclass(kw_only=True)
class Stepping(ABC):
    """A run that stops at breakpoints and when watched elements change. Methods that advance it
    raise SimulationError if the program faults.
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
        """Cycle of the next step."""

    @property
    @abstractmethod
    def labels(self) -> Mapping[str, int]:
        """Instruction numbers by label."""

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
        """Numbers of the instructions of the next step."""

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
        """Run to a breakpoint, a change of watched elements, or the end; says which."""
        while self.upcoming(1):
            before = [self.elements(watch.place).copy() for watch in self.watches]
            self.forward()
            for watch, old in zip(self.watches, before, strict=True):
                if text := watch.changed(old, self.elements(watch.place)):
                    return text
            if self.breakpoints.intersection(self.at):
                return "breakpoint"
        return "the program has ended"


_ELEMENT_BYTES = 8


@dataclass
class CoreStepper(Stepping):
    """A run of one core alone, after `position` steps. Elements of memory are doubles."""

    image: LoadedImage
    position: int = 0

    def __post_init__(self) -> None:
        whole = simulate_core(
            self.image.program, registers=self.image.registers, local_memory=self.image.local_memory
        )
        self._whole = whole
        self._steps = [list(each) for _, each in groupby(whole.issues, lambda issue: issue.cycle)]

    @cached_property
    def labels(self) -> Mapping[str, int]:
        return self.image.program.labels

    @property
    def executed(self) -> int:
        return sum(map(len, self._steps[: self.position]))

    @property
    def time(self) -> int:
        return self._next[0].cycle if self._next else self._whole.cycles

    @property
    def _next(self) -> list[IssuedInstruction]:
        return self._steps[self.position] if self.position < len(self._steps) else []

    @property
    def sizes(self) -> Mapping[str, int]:
        memories = self.image.program.table.memories
        return {memory.name: memory.capacity_bytes // _ELEMENT_BYTES for memory in memories}

    @property
    def instructions(self) -> Sequence[Instruction]:
        return self.image.program.instructions

    @property
    def at(self) -> Sequence[int]:
        return [issue.instruction for issue in self._next]

    def upcoming(self, count: int) -> Sequence[tuple[int, Instruction]]:
        behind = [issue for step in self._steps[self.position :][:count] for issue in step]
        program = self.image.program.instructions
        return [(issue.instruction, program[issue.instruction]) for issue in behind[:count]]

    def registers(self) -> Mapping[str, Any]:
        """The registers that are not zero: as integers if only lane 0 is set, to a small one."""
        run, found = self._run(), {}
        for number, name in enumerate(run.program.table.register_names):
            integers = run.integer_registers[number]
            if integers.any():
                is_integer = not integers[1:].any() and abs(int(integers[0])) < 1 << 48
                found[name] = int(integers[0]) if is_integer else run.registers[number].tolist()
        return found

    def elements(self, place: ElementRange) -> NDArray[Any]:
        doubles = self._run().memory(place.memory).view("<f8")
        return doubles[place.address : place.address + place.count]

    def forward(self, count: int = 1) -> None:
        self.position = min(self.position + count, len(self._steps))

    def back(self, count: int = 1) -> None:
        self.position = max(self.position - count, 0)

    def _run(self) -> CoreRun:
        """State of the core before the next step."""
        if not self._next:
            return self._whole
        return core_after(
            self.image.program,
            self.time,
            registers=self.image.registers,
            local_memory=self.image.local_memory,
        )


@dataclass
class Stepper(Stepping):
    """A run of a window executor; its steps are instructions."""

    make: Callable[[], Executor]
    register_names: Sequence[str]

    def __post_init__(self) -> None:
        self.executor = self.make()

    @property
    def executed(self) -> int:
        return self.executor.issued

    @property
    def time(self) -> int:
        return self.executor.time

    @property
    def labels(self) -> Mapping[str, int]:
        steps = self.executor.steps
        return {label: step.number for step in steps for label in step.instruction.labels}

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.executor.memories.sizes

    @property
    def instructions(self) -> Sequence[Instruction]:
        return [step.instruction for step in self.executor.steps]

    @property
    def at(self) -> Sequence[int]:
        return [self.executor.number]

    def upcoming(self, count: int) -> Sequence[tuple[int, Instruction]]:
        executor = self.executor
        steps = executor.steps[executor.number :][:count]
        return [(step.number, step.instruction) for step in steps]

    def registers(self) -> Mapping[str, int]:
        values = zip(self.register_names, self.executor.registers, strict=True)
        return {name: value for name, value in values if value}

    def elements(self, place: ElementRange) -> NDArray[Any]:
        array = self.executor.memories.arrays[place.memory]
        return array[place.address : place.address + place.count]

    def forward(self, count: int = 1) -> None:
        for _ in range(count):
            if not self.executor.step():
                return

    def back(self, count: int = 1) -> None:
        target = max(self.executor.issued - count, 0)
        self.executor = self.make()
        self.forward(target)
