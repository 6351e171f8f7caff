"""How the operands of a reduction lie along a row of results, and the modes that rows can use."""

from __future__ import annotations

from dataclasses import dataclass

VECTORS, LANES, ELEMENTS = "vectors", "lanes", "elements"


@dataclass(frozen=True)
class Lie:
    """Layout of the operands along a row of results. `step`: elements of x between neighbouring
    results, which are contiguous; 0 if it is neither 1 nor 2, or results are not contiguous. The
    innermost gathering loop is unrolled if it has up to three `taps`; `loops`: whether there are
    others. `along`: a result's elements are contiguous, and each result is gathered separately.
    """

    step: int
    taps: int = 1
    loops: bool = False
    along: bool = False

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that rows can use, fastest first."""
        if self.along:
            return VECTORS, ELEMENTS
        return {1: (VECTORS, LANES, ELEMENTS), 2: (LANES, ELEMENTS)}.get(self.step, (ELEMENTS,))
