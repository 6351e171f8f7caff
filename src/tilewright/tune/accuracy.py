"""How far from the exact result an algorithm may be, and how far is too far.

In: an operator and a seed. Out: the largest deviation to expect as a fraction of the largest
result, for operands that are random and independent. Roundings of a sum of n terms add up like a
random walk, to sqrt(n) roundings of the result; Winograd's transforms amplify them, by how much
follows from their matrices (`ir.winograd.amplification`). The factors were fitted to measured
errors (docs/explanation/host-kernels.md).
"""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ScheduleError
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.seeds.space import Seed, parameters

DEFAULT_MAX_ERROR = 1e-5
"""On this computer: what F(4x4, 3x3) keeps up to a thousand channels, and F(6x6, 3x3) does not."""

_LARGEST = 1.6
"""The largest deviation over the largest result is at most so much larger than its model."""
_DIRECT_PER_TERM = 0.13
"""Roundings of a direct sum are kept by a chain in registers, and stored seldom."""


def expected_error(op: Op, seed: Seed) -> float:
    """The largest deviation to expect, as a fraction of the largest result."""
    unit = float(np.finfo(dtype(op.dtype).numpy).eps) / 2
    return _LARGEST * unit * _roundings(op, seed)


def _roundings(op: Op, seed: Seed) -> float:
    if seed.roundings is not None:
        return seed.roundings(parameters(op))
    terms = op.flops / (2 * prod(op.out_shape))
    return _DIRECT_PER_TERM * sqrt(terms)


def error_limit(machine: Machine, max_error: float | None, algorithm: str | None) -> float:
    """The error that candidates may have: as asked for, else the default of this computer.

    An algorithm that is asked for by name is limited only where an error is asked for too, and
    other machines' algorithms only then.
    """
    if max_error is not None:
        return max_error
    by_choice = machine.memory.caches is not None and algorithm is None
    return DEFAULT_MAX_ERROR if by_choice else float("inf")


def accurate(op: Op, seeds: list[Seed], limit: float) -> list[Seed]:
    """The seeds whose expected error is within the limit; ScheduleError where none is."""
    errors = {seed.name: expected_error(op, seed) for seed in seeds}
    kept = [seed for seed in seeds if errors[seed.name] <= limit]
    if kept or not seeds:
        return kept
    least = min(errors, key=lambda name: errors[name])
    raise ScheduleError(
        f"no algorithm computes {op.describe()} with an error of at most {limit:.1e}: "
        f"that of {least} is {errors[least]:.1e}",
        fix=f"--max-error {1.05 * errors[least]:.1e}, or --dtype f64",
    )
