"""The error function of arrays, which NumPy lacks, and its polynomials.

For x up to 1 it is x + x P(x x), then 1 - exp(-x x) Q((x - 2) / (x + 2)), and 1 from 6 on. The
coefficients interpolate at the zeros of Chebyshev polynomials (relative error 1e-17).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

NEAR = (
    0.12837916709551256,
    -0.37612638903183543,
    0.11283791670945006,
    -0.02686617064323777,
    0.0052239776071164225,
    -0.0008548325975389692,
    0.00012055294904839707,
    -1.492473690741966e-05,
    1.6447424703317362e-06,
    -1.6208483801871705e-07,
    1.3720064546777686e-08,
    -7.795898827002142e-10,
)
"""Coefficients of P."""
FAR = (
    0.25539567631050575,
    -0.4271858474139579,
    0.24165819424246987,
    -0.07897858101585253,
    0.00373289240349224,
    0.006997461747753573,
    -0.0008471431980760424,
    -0.0009819773208131022,
    4.3554202452705896e-05,
    0.00017436697232946864,
    2.754312818566672e-05,
    -2.7647305443610053e-05,
    -1.4067532694582058e-05,
    1.820143195975009e-06,
    3.917059299925389e-06,
)
"""Coefficients of Q."""
SPLIT, CENTRE, LAST = 1.0, 2.0, 6.0


def error_function(x: npt.ArrayLike) -> npt.NDArray[Any]:
    """erf of each element, within 2 units in the last place.

    >>> error_function([0.0, -0.5, 7.0]).tolist()
    [0.0, -0.5204998778130465, 1.0]
    """
    value = np.asarray(x, np.float64)
    size = np.minimum(np.abs(value), LAST)
    square = size * size
    near = value + value * np.polynomial.polynomial.polyval(square, NEAR)
    quotient = (size - CENTRE) / (size + CENTRE)
    rest = np.exp(-square) * np.polynomial.polynomial.polyval(quotient, FAR)
    found: npt.NDArray[Any] = np.where(size < SPLIT, near, np.copysign(1 - rest, value))
    return found
