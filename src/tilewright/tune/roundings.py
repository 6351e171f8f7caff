"""How often sums of fixed point are rounded: once for each product that they are added up of.

In: candidates, best first, and a limit. Out: those within it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod
from typing import TypeVar

from tilewright.common.errors import ScheduleError
from tilewright.cost.totals import executed_calls
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.tune.candidate import Candidate

_Item = TypeVar("_Item")


def roundings(candidate: Candidate, machine: Machine) -> int:
    """The products, each rounded, that make a result, 1 where none does."""
    calls = executed_calls(candidate.program(machine), machine)
    written = sum(
        int(call.count * call.dims["m"] * call.dims["n"])
        for call in calls
        if isinstance(call.stmt.primitive, MatrixProduct)
    )
    return max(1, ceil(written / prod(candidate.op.out_shape)))


def few_roundings(
    items: Sequence[_Item], machine: Machine, most: int, candidate_of: Callable[[_Item], Candidate]
) -> list[_Item]:
    """The items whose candidates round a result at most so often. Raises ScheduleError where none
    does, with the fewest that one of those ranked has.
    """
    counts = [roundings(candidate_of(item), machine) for item in items]
    found = [item for item, count in zip(items, counts, strict=True) if count <= most]
    if found:
        return found
    op, least = candidate_of(items[0]).op, min(counts)
    raise ScheduleError(
        f"{op.describe()}: the fastest schedules on {machine.name} round a sum {least} times or "
        f"more, --max-roundings allows {most}",
        fix=f"--max-roundings {least}, or larger scratchpads",
    )
