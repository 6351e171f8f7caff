"""A memory of the interpreter: elements, and a bitmap of those that have been written.

An element that nothing has written may be moved and computed with; what depends on it is unwritten,
too. So it shows in a result of any element type: floats that are unwritten come out as NaN, for
integers, which have none, the program is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError

Array = npt.NDArray[Any]
Written = npt.NDArray[np.bool_]
Index = Any


@dataclass(frozen=True)
class Elements:
    """Elements that were read, and which of them are written: all where `written` is None."""

    values: Array
    written: Written | None = None

    def changed(self, change: Callable[[Array], Array]) -> Elements:
        """These elements after `change` to their order or shape, the written marks with them."""
        written = None if self.written is None else change(self.written)
        return Elements(change(self.values), written)


@dataclass(frozen=True)
class Memory:
    """The elements of a tensor or of a buffer in every core; a given tensor is written whole."""

    values: Array
    written: Written | None

    @classmethod
    def given(cls, values: Array) -> Memory:
        """Memory of given values, which is read and never written."""
        return cls(values, None)

    @classmethod
    def fresh(cls, shape: int | tuple[int, ...], kind: str) -> Memory:
        """Elements of the type called `kind` that nothing has written yet."""
        return cls(np.zeros(shape, dtype(kind).numpy), np.zeros(shape, bool))

    def view(self, change: Callable[[Array], Array]) -> Memory:
        """Some of the elements, to be read and written through `change`, which copies nothing."""
        return Memory(change(self.values), None if self.written is None else change(self.written))

    def read(self, index: Index) -> Elements:
        """The elements at `index`, in any form that NumPy takes, or all as `...`."""
        if self.written is None:
            return Elements(self.values[index])
        return _part(self.values[index], self.written[index])

    def write(self, index: Index, part: Elements) -> None:
        """Put a part of its own shape at `index`."""
        self.values[index] = part.values
        if self.written is not None:
            self.written[index] = True if part.written is None else part.written

    def result(self, name: str, shape: tuple[int, ...], *, masked: bool = False) -> Array:
        """The whole tensor; raises ProgramError for an integer that nothing has written, unless
        these are `masked`.
        """
        values = self.values.reshape(shape)
        if self.written is None or self.written.all():
            return values
        missing = ~self.written.reshape(shape)
        if values.dtype.kind != "f" and masked:
            return np.ma.masked_array(values, missing)
        if values.dtype.kind != "f":
            place = ", ".join(str(int(i)) for i in np.argwhere(missing)[0])
            raise ProgramError(
                f"{name}[{place}] depends on an element that nothing has written; "
                f"{int(missing.sum())} of {missing.size} elements do",
                fix="fill or fetch what is read first",
            )
        values[missing] = np.nan
        return values


def _part(values: Array, written: Written) -> Elements:
    return Elements(values, None if written.all() else written)


Meaning = Callable[[tuple[Array, ...]], Array]


def computed(
    meaning: Meaning, operands: tuple[Elements, ...], dependence: Meaning | None = None
) -> Elements:
    """Apply `meaning` to the operands; results that depend on unwritten elements are unwritten.

    To find these, `dependence` (by default `meaning`) is applied to NaN in place of the unwritten
    elements and 0 elsewhere: NaN results are unwritten.
    """
    result = meaning(tuple(part.values for part in operands))
    if all(part.written is None for part in operands):
        return Elements(result)
    marks = (np.zeros(part.values.shape) for part in operands)
    marked = tuple(
        mark if part.written is None else np.where(part.written, mark, np.nan)
        for mark, part in zip(marks, operands, strict=True)
    )
    return _part(result, ~np.isnan((dependence or meaning)(marked)))
