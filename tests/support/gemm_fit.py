"""Time models of the GEMM primitive, fitted to simulated cycles: swATOP's Eq. 2 and a form that
follows the code.

In: samples (shape, cycles) of one variant. Out: a `GemmTimeModel` that prices a shape, and its
errors.

swATOP Eq. 2 prints `T = a K + b K M / (vecM * 4) + c K M N / 4 + d`, which divides by zero for vecM
= 0. Here the second term is K times the number of groups that the M loop has: `K M / 4` where M is
vectorised (groups of 4 lanes) and `K M` where it is not, that is `K M / 4**vecM`. The form stays
linear and both cases are finite.

The faithful form follows the loop nest of the code, rows of blocks > blocks > steps > k, with V =
vectorised extent / 16 and S = other extent / 4: a call, V rows, V S blocks, and V S K iterations. A
variant that packs its vector operand adds the sweeps of the packing loop: ceil(K / 4) of them, each
over V. At K = 1 there is no loop over k; the fit is for K >= 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.fitting import fit_relative
from tilewright.targets.sw26010.gemm.shape import (
    SCALAR_BLOCK,
    VECTOR_BLOCK,
    VECTOR_LANES,
    GemmShape,
    GemmVariant,
    plan_gemm,
)

Form = Literal["equation 2", "blocks"]
Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class GemmSample:
    """The cycles of one call, all of it included."""

    shape: GemmShape
    cycles: int


@dataclass(frozen=True)
class GemmTimeModel:
    """`coefficients` times the terms of the form, in cycles."""

    variant: GemmVariant
    form: Form
    coefficients: tuple[float, ...]

    def cycles(self, shape: GemmShape) -> float:
        """Predicted cycles of a call."""
        return float(terms(self.form, self.variant, shape) @ np.array(self.coefficients))


@dataclass(frozen=True)
class ModelError:
    """Relative errors over a set of samples, as fractions of the simulated cycles."""

    mean: float
    worst: float


def term_names(form: Form, variant: GemmVariant) -> tuple[str, ...]:
    """Names of the terms, in the order of the coefficients."""
    if form == "equation 2":
        groups = "K M / 4" if variant.vectorised == "m" else "K M"
        return ("K", groups, "K M N / 4", "1")
    packing = ("ceil(K / 4)", "V ceil(K / 4)") if _packs(variant) else ()
    return ("1", "V", "V S", "V S K", *packing)


def terms(form: Form, variant: GemmVariant, shape: GemmShape) -> Float64:
    """The terms of a form for one shape, in the order of `term_names`."""
    m, n, k = shape.m, shape.n, shape.k
    by_m = variant.vectorised == "m"
    if form == "equation 2":
        return np.array([k, k * m / (VECTOR_LANES if by_m else 1), k * m * n / VECTOR_LANES, 1.0])
    vector, scalar = (m, n) if by_m else (n, m)
    rows = vector / VECTOR_BLOCK
    blocks = rows * scalar / SCALAR_BLOCK
    sweeps = -(-k // VECTOR_LANES)
    packing = [sweeps, rows * sweeps] if _packs(variant) else []
    return np.array([1.0, rows, blocks, blocks * k, *packing])


def _packs(variant: GemmVariant) -> bool:
    vector, scalar = VECTOR_BLOCK, SCALAR_BLOCK
    by_m = variant.vectorised == "m"
    smallest = GemmShape(vector, scalar, 1) if by_m else GemmShape(scalar, vector, 1)
    return plan_gemm(variant, smallest).packs_vector


def fit_gemm_model(
    form: Form, variant: GemmVariant, samples: Sequence[GemmSample]
) -> GemmTimeModel:
    """Least squares of the relative errors. Errors: ScheduleError when the samples do not fix every
    term.
    """
    matrix = [terms(form, variant, sample.shape) for sample in samples]
    cycles = [sample.cycles for sample in samples]
    found = fit_relative(matrix, cycles, term_names(form, variant), form)
    return GemmTimeModel(variant, form, tuple(float(c) for c in found))


def model_error(model: GemmTimeModel, samples: Sequence[GemmSample]) -> ModelError:
    """Mean and worst relative error of a model over samples."""
    errors = [abs(model.cycles(s.shape) / s.cycles - 1.0) for s in samples]
    return ModelError(sum(errors) / len(errors), max(errors))
