"""How the operands of a reduction lie along a row of results, and in which modes rows are done."""

from __future__ import annotations

from dataclasses import dataclass

VECTORS, LANES, ELEMENTS = "vectors", "lanes", "elements"


@dataclass(frozen=True)
class Lie:
    """Layout of the operands along a row of results.

    `step`: elements of x from one result to the next, which lie contiguous themselves; 0 where that
    is neither 1 nor 2, or results lie apart. The innermost loop that gathers is unrolled where it
    has up to three `taps`; `loops`: whether there are others. `along`: a result's elements lie
    contiguous, and each result is gathered on its own.
    """

    step: int
    taps: int = 1
    loops: bool = False
    along: bool = False

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways in which rows are done, the fastest first."""
        if self.along:
            return VECTORS, ELEMENTS
        return {1: (VECTORS, LANES, ELEMENTS), 2: (LANES, ELEMENTS)}.get(self.step, (ELEMENTS,))
