"""Handwritten digits: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI
Machine Learning Repository (1998), CC BY 4.0; the 1797 images of its test set.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_PIXEL = 16
_FILE = Path(__file__).parent / "data" / "digits.csv.gz"


def handwritten_digits() -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """(pixels [1797, 8, 8] from 0 to 16, the digit of each image).

    >>> pixels, labels = handwritten_digits()
    >>> pixels.shape, int(pixels.max()), labels[:5].tolist()
    ((1797, 8, 8), 16, [0, 1, 2, 3, 4])
    """
    with gzip.open(_FILE, "rt", encoding="ascii") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.uint8)
    return rows[:, :-1].reshape(-1, 8, 8), rows[:, -1].astype(np.int64)
