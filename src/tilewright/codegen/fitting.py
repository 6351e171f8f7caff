"""Linear time models fitted to measured or simulated cycles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.common.errors import ScheduleError


def fit_relative(
    terms: ArrayLike, cycles: ArrayLike, names: Sequence[str], form: str
) -> NDArray[np.float64]:
    """Coefficients of the columns of `terms` that minimise the squared relative errors.

    `names` and `form` describe the columns and the model in errors. Raises ScheduleError where the
    samples do not determine every term.

    >>> fit_relative([[1, 1], [1, 2], [1, 4]], [13, 16, 22], ["1", "k"], "line").round(6).tolist()
    [10.0, 3.0]
    """
    matrix, wanted = np.asarray(terms, float), np.asarray(cycles, float)
    weighted = matrix / wanted[:, None]
    scale = np.linalg.norm(weighted, axis=0)
    solution, _, rank, _ = np.linalg.lstsq(weighted / scale, np.ones(len(wanted)), rcond=None)
    if rank < len(names):
        raise ScheduleError(
            f"{len(wanted)} samples fix {rank} of the {len(names)} terms of '{form}'",
            fix="vary m, n and k independently",
        )
    return np.asarray(solution / scale)
