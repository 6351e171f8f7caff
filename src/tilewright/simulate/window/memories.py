"""Memories of a core with a window: arrays of elements, checked spans, read-only ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tilewright.common.errors import SimulationError
from tilewright.simulate.window.decode import DecodedInstruction, SpanStep


@dataclass(frozen=True, slots=True)
class ElementRange:
    """`count` elements of a memory from `address`."""

    memory: str
    address: int
    count: int

    def meets(self, other: ElementRange) -> bool:
        """True if both ranges have an element in common."""
        return (
            self.memory == other.memory
            and self.address < other.address + other.count
            and other.address < self.address + self.count
        )


@dataclass(frozen=True, slots=True)
class Memories:
    """Memories by name as arrays of elements; a run without values needs only their sizes.

    `read_only` are ranges that no operation may write.
    """

    sizes: Mapping[str, int]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    read_only: tuple[ElementRange, ...] = ()

    def check(self, span: ElementRange, step: DecodedInstruction, *, writes: bool) -> None:
        """Refuse a span outside its memory, or a write to a read-only range."""
        size = self.sizes[span.memory]
        if span.address < 0 or span.count < 0 or span.address + span.count > size:
            raise SimulationError(
                f"{step.instruction.text()}: {span.count} elements at address {span.address} lie "
                f"outside the {size} elements of the {span.memory} memory",
                where=place_of(step),
            )
        if writes and any(span.meets(kept) for kept in self.read_only):
            raise SimulationError(
                f"{step.instruction.text()}: {span.count} elements at address {span.address} of "
                f"the {span.memory} memory are read-only",
                where=place_of(step),
                fix="declare what is written in a section that may be written",
            )

    def views(
        self, spans: Sequence[SpanStep], values: Mapping[str, int]
    ) -> tuple[NDArray[Any], ...]:
        """The elements of checked spans, to be read and changed in place."""
        found = []
        for span in spans:
            first = int(span.address(values))
            found.append(self.arrays[span.memory][first : first + int(span.count(values))])
        return tuple(found)


def place_of(step: DecodedInstruction) -> str:
    """Location of a step, for messages."""
    line = step.instruction.line
    return f"instruction {step.number}, line {line}" if line else f"instruction {step.number}"
