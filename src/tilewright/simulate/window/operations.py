"""A family's operations on spans: their meanings, and the parameters of their cycles.

A table names the operations of its instructions (`isa.Effect.OPERATION`); the family's module
`operations` has an object `OPERATIONS` with their meanings and with the parameters that occur in
the table's expressions of cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from tilewright.machine import Capability, Machine

Span = NDArray[Any]
Meaning = Callable[[Sequence[Span], Mapping[str, int]], int | None]
"""An operation: the spans in the table's order, which it changes, and the values of its operands by
role; what it returns goes into the register `d`, or is how many elements of a span saturated."""


class Operations(Protocol):
    """A family with operations on spans."""

    def parameters(self, machine: Machine) -> Mapping[str, float]:
        """The machine's numbers by the names that expressions of cycles have for them."""

    def meanings(self, machine: Machine) -> Mapping[str, Meaning]:
        """Each operation's meaning, by its name."""


OPERATIONS: Capability[Operations] = Capability(
    "operations", ("parameters", "meanings"), "operations on spans of memories"
)
