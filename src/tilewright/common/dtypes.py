"""The element types of tensors: what each is called in the IR, in NumPy and in generated C."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.common.errors import ShapeError


@dataclass(frozen=True, slots=True)
class DType:
    """One element type: its name in programs and on the command line, and its other names."""

    name: str
    size_bytes: int
    numpy: np.dtype[np.floating]
    c_name: str

    def __str__(self) -> str:
        return self.name


F64 = DType("f64", 8, np.dtype(np.float64), "double")
F32 = DType("f32", 4, np.dtype(np.float32), "float")

DTYPES: tuple[DType, ...] = (F64, F32)


def dtype(name: str) -> DType:
    """The element type called `name`; raises ShapeError when there is none.

    >>> dtype("f32").size_bytes
    4
    """
    for candidate in DTYPES:
        if candidate.name == name:
            return candidate
    known = ", ".join(candidate.name for candidate in DTYPES)
    raise ShapeError(f"unknown element type {name!r}", fix=f"use one of {known}")
