"""Expected error of an algorithm, roundings of fixed-point sums, and limits on both.

In: an operator and a seed. Out: the largest deviation to expect, as a fraction of the largest
result, for random independent operands. The roundings of a sum of n terms accumulate like a random
walk, to sqrt(n) roundings of the result. Winograd transforms amplify them by a factor that follows
from their matrices (`ir.winograd.amplification`). The factors were fitted to measured errors
(docs/explanation/host-kernels.md). A fixed-point sum is rounded once for each product that
contributes to it.
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
"""Most by which the largest deviation exceeds its model, both relative to the largest result."""
_DIRECT_PER_TERM = 0.53
"""Unit roundoffs per square root of the number of terms, for a sum that is one chain."""


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
    """The seeds whose expected error is within `max_error`, by default the machine's own limit or,
    if no seed meets that, the least error of any seed.

    An `algorithm` requested by name has no default limit. Raises ScheduleError if no seed is within
    `max_error`.
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
    """Products, each rounded, that sum up to one element of the result; 1 without products."""
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
    """The items whose candidates round each element of the result at most `most` times. Raises
    ScheduleError if there are none; the error names the fewest roundings of any item.
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
