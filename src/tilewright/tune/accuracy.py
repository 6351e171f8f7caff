"""Expected deviation of an algorithm from the exact result, and its limits.

In: an operator and a seed. Out: the largest deviation to expect as a fraction of the largest
result, for operands that are random and independent. Roundings of a sum of n terms add up like a
random walk, to sqrt(n) roundings of the result; Winograd's transforms amplify them, by how much
follows from their matrices (`ir.winograd.amplification`). The factors were fitted to measured
errors (docs/explanation/host-kernels.md).
"""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from tilewright.common.errors import ScheduleError
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.passes.lowering import lowering_of
from tilewright.seeds.space import Seed, parameters

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
