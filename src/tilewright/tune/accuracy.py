"""Expected deviation of an algorithm from the exact result, roundings of sums, and their limits.

In: an operator and a seed. Out: the largest deviation to expect as a fraction of the largest
result, for operands that are random and independent. Roundings of a sum of n terms add up like a
random walk, to sqrt(n) roundings of the result; Winograd's transforms amplify them, by how much
follows from their matrices (`ir.winograd.amplification`). The factors were fitted to measured
errors (docs/explanation/host-kernels.md). Sums of fixed point are rounded once for each product
that they are added up of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod, sqrt
from typing import TypeVar

import numpy as np

from tilewright.common.errors import ScheduleError
from tilewright.cost.totals import executed_calls
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.passes.lowering import lowering_of
from tilewright.seeds.space import Seed, parameters
from tilewright.tune.candidate import Candidate

_LARGEST = 1.7
"""The largest deviation over the largest result is at most so much larger than its model."""
_DIRECT_PER_TERM = 0.53
"""Units for each square root of a term of a sum that is one chain."""


def expected_error(op: Op, seed: Seed) -> float:
    """Largest expected deviation, as a fraction of the largest result; 0 for integers."""
    if not op.numerics.is_float:
        return 0.0
    unit = float(np.finfo(op.numerics.sums.numpy).eps) / 2
    return _LARGEST * unit * _roundings(op, seed)


def _roundings(op: Op, seed: Seed) -> float:
    if seed.roundings is not None:
        return seed.roundings(parameters(op))
    terms = op.flops / (2 * prod(op.out_shape))
    return _DIRECT_PER_TERM * sqrt(terms)


def accurate(
    op: Op,
    seeds: list[Seed],
    machine: Machine,
    max_error: float | None = None,
    algorithm: str | None = None,
) -> list[Seed]:
    """The seeds whose expected error is within the limit: `max_error`, or that of the machine's
    rules, or the least there is where that is more.

    Without a `max_error` an `algorithm` that is asked for by name has no limit. Raises
    ScheduleError where none is within `max_error`.
    """
    default = lowering_of(machine).max_error
    if not seeds or (max_error is None and (algorithm or default is None)):
        return seeds
    errors = {seed.name: expected_error(op, seed) for seed in seeds}
    least = min(errors, key=lambda name: errors[name])
    limit = max(default or 0.0, errors[least]) if max_error is None else max_error
    if errors[least] <= limit:
        return [seed for seed in seeds if errors[seed.name] <= limit]
    raise ScheduleError(
        f"no algorithm computes {op.describe()} with an error of at most {limit:.1e}: "
        f"that of {least} is {errors[least]:.1e}",
        fix=f"--max-error {1.05 * errors[least]:.1e}, or --dtype f64",
    )


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
