"""Layout of a tensor in memory: order of dimensions, channel blocks and a border of zeros.

A `Form` says for each place in memory which element it holds. A tensor can stand in for another
without a copy exactly if their forms are equal, so forms are kept canonical.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tilewright.codegen.artifact import Array
from tilewright.common.errors import ProgramError

Shape = tuple[int, ...]
Indices = npt.NDArray[np.integer]


_PORTION = 1 << 20
"""Places compared, or elements reordered, at once."""


class StoredDim(Struct, frozen=True):
    """One dimension of memory: a step along it is `step` indices of the tensor's `axis`."""

    axis: int
    step: int
    extent: int


class Form(Struct, frozen=True, cache_hash=True):
    """Dimensions of memory, slowest first, dense.

    The index of an element along an axis is the sum of place times step over the axis' dimensions,
    less `before`. Places whose index lies outside the shape hold zeros.

    >>> Form((2, 5), (StoredDim(1, 1, 7), StoredDim(0, 1, 2)), (0, 1)).elements
    14
    """

    shape: Shape
    dims: tuple[StoredDim, ...]
    before: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements in memory, zeros included."""
        return prod(d.extent for d in self.dims)

    @property
    def has_zeros(self) -> bool:
        """True if memory has places that hold no element."""
        return self.elements != prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one place to the next, for each dimension of memory."""
        return tuple(prod(d.extent for d in self.dims[i + 1 :]) for i in range(len(self.dims)))

    def along(self, axis: int) -> tuple[StoredDim, ...]:
        """The dimensions of memory that run along an axis."""
        return tuple(d for d in self.dims if d.axis == axis)

    def stored(self, array: Array) -> Array:
        """The elements of `array` in memory order, zeros between them."""
        if not self.has_zeros:
            return self._permuted(array).reshape(-1)
        places = self.places()
        return np.where(places < 0, 0, array.reshape(-1)[np.maximum(places, 0)]).reshape(-1)

    def stored_parts(self, array: Array) -> Iterator[Array]:
        """`stored` in parts, where a copy of all of it may be most of a gigabyte."""
        if self.has_zeros or self.elements <= _PORTION:
            yield self.stored(array)
            return
        blocks = self._permuted(array)
        step = max(1, _PORTION * len(blocks) // self.elements)
        for first in range(0, len(blocks), step):
            yield blocks[first : first + step].reshape(-1)

    def _permuted(self, array: Array) -> Array:
        """A view of `array` in the order of a form without zeros: axis blocks, permuted."""
        numbers = range(len(self.dims))
        cut = sorted(numbers, key=lambda i: (self.dims[i].axis, -self.dims[i].step))
        blocks = array.reshape([self.dims[i].extent for i in cut])
        return blocks.transpose([cut.index(i) for i in numbers])

    def read(self, memory: Array) -> Array:
        """The tensor read back from memory."""
        places = self.places().reshape(-1)
        result = np.empty(prod(self.shape), memory.dtype)
        inside = places >= 0
        result[places[inside]] = memory.reshape(-1)[inside]
        return result.reshape(self.shape)

    def places(self) -> Indices:
        """For each place the row-major number of its element, -1 for a zero."""
        ones = [1] * len(self.dims)
        number: Indices = np.zeros(ones, np.int64)
        inside: npt.NDArray[np.bool_] | None = None
        for axis, size in enumerate(self.shape):
            index = np.full(ones, -self.before[axis], np.int64)
            for i, d in enumerate(self.dims):
                if d.axis == axis:
                    along = [d.extent if i == other else 1 for other in range(len(ones))]
                    index = index + (np.arange(d.extent) * d.step).reshape(along)
            number = number + index * prod(self.shape[axis + 1 :])
            within = (index >= 0) & (index < size)
            if not within.all():
                inside = within if inside is None else inside & within
        return number if inside is None else np.where(inside, number, -1)


def form_text(form: Form) -> str:
    """The dimensions of memory, slowest first, in short.

    >>> form_text(row_major((8, 3, 5, 5))), form_text(row_major((8, 3)))
    ('n c h w', 'rows columns')
    >>> blocked = (StoredDim(1, 16, 2), StoredDim(3, 1, 7), StoredDim(1, 1, 16))
    >>> form_text(Form((8, 32, 5, 5), blocked, (0, 0, 0, 1)))
    'c/16 w+2 c16'
    """
    letters = {4: "nchw", 2: ("rows", "columns")}.get(len(form.shape), "abcdefgh")
    words = []
    for d in form.dims:
        word, own = letters[d.axis], form.along(d.axis)
        if d.step > 1:
            word += f"/{d.step}"
        elif len(own) > 1:
            word += str(d.extent)
        elif d.extent > form.shape[d.axis]:
            word += f"+{d.extent - form.shape[d.axis]}"
        words.append(word)
    return " ".join(words) or "scalar"


def row_major(shape: Sequence[int]) -> Form:
    """The form of a C array.

    >>> row_major((1, 3, 2)).dims
    (StoredDim(axis=1, step=1, extent=3), StoredDim(axis=2, step=1, extent=2))
    """
    dims = [StoredDim(axis, 1, extent) for axis, extent in enumerate(shape)]
    return canonical(tuple(shape), dims, (0,) * len(shape))


def canonical(shape: Shape, dims: Sequence[StoredDim], before: Sequence[int]) -> Form:
    """The form without dimensions of extent 1 or that continue the next outer one."""
    kept = [d for d in dims if d.extent > 1]
    joined: list[StoredDim] = []
    for d in kept:
        last = joined[-1] if joined else None
        if last and last.axis == d.axis and last.step == d.step * d.extent:
            joined[-1] = StoredDim(d.axis, d.step, last.extent * d.extent)
        else:
            joined.append(d)
    return Form(shape, tuple(joined), tuple(before))


def permuted(form: Form, order: Sequence[int]) -> Form:
    """The form of a transposed tensor in the same memory: its axis i is axis `order[i]` here.

    >>> permuted(row_major((2, 5)), (1, 0)).dims
    (StoredDim(axis=1, step=1, extent=2), StoredDim(axis=0, step=1, extent=5))
    >>> permuted(permuted(row_major((2, 5)), (1, 0)), (1, 0)) == row_major((2, 5))
    True
    """
    dims = [StoredDim(order.index(d.axis), d.step, d.extent) for d in form.dims]
    shape = tuple(form.shape[axis] for axis in order)
    return canonical(shape, dims, tuple(form.before[axis] for axis in order))


def same_memory(a: Form, b: Form) -> bool:
    """True if tensors in both forms have the same bytes, whatever their shapes."""
    if a == b:
        return True
    return not a.has_zeros and not b.has_zeros and is_row_major(a) and is_row_major(b)


def is_row_major(form: Form) -> bool:
    """True if `form` is a C array of its shape."""
    return form == row_major(form.shape)


def like(form: Form, shape: Shape) -> Form:
    """`form`'s axis order and blocks for another shape, without a border.

    >>> like(row_major((1, 4, 6, 6)), (1, 4, 3, 3)) == row_major((1, 4, 3, 3))
    True
    """
    if len(form.shape) != len(shape):
        return row_major(shape)
    dims: list[StoredDim] = []
    for d in form.dims:
        wider = [o.step for o in form.along(d.axis) if o.step > d.step]
        extent = min(wider) // d.step if wider else -(-shape[d.axis] // d.step)
        dims.append(StoredDim(d.axis, d.step, extent))
    present = {d.axis for d in dims}
    missing = [StoredDim(a, 1, n) for a, n in enumerate(shape) if n > 1 and a not in present]
    return canonical(shape, [*missing, *dims], (0,) * len(shape))


def form_of(shape: Shape, numbers: Indices) -> Form:
    """The form of a tensor, derived from the element at each place of memory.

    `numbers` has one dimension per memory dimension; it holds the row-major number of the element
    plus one, 0 for a zero. The form has the same dimensions and is not canonical. Raises
    ProgramError where no form describes them.
    """
    flat = int(np.argmax(numbers > 0))
    first = tuple(int(i) for i in np.unravel_index(flat, numbers.shape))
    origin = _indices(shape, numbers, first)
    dims: list[StoredDim] = []
    for d in range(numbers.ndim):
        taken = {dim.axis for dim in dims}
        dims.append(_dim(shape, numbers, first, d, taken))
    before = [
        sum(d.step * at for d, at in zip(dims, first, strict=True) if d.axis == axis) - origin[axis]
        for axis in range(len(shape))
    ]
    found = Form(shape, tuple(dims), tuple(before))
    if not _agrees(found, numbers):
        raise ProgramError(f"a tensor of shape {shape} lies in memory in a way that has no form")
    return found


def _agrees(form: Form, numbers: Indices) -> bool:
    """True if `numbers` are the places of `form` plus 1. Compares in portions, so that the form's
    places take little memory beside the given ones.
    """
    if not numbers.ndim or not form.shape:
        return bool(np.array_equal(form.places() + 1, numbers))
    longest = int(np.argmax(numbers.shape))
    dim, size = form.dims[longest], numbers.shape[longest]
    portion = max(1, _PORTION * size // numbers.size)
    for start in range(0, size, portion):
        extent = min(portion, size - start)
        dims, before = list(form.dims), list(form.before)
        dims[longest] = StoredDim(dim.axis, dim.step, extent)
        before[dim.axis] -= start * dim.step
        given = numbers[(slice(None),) * longest + (slice(start, start + extent),)]
        if not np.array_equal(Form(form.shape, tuple(dims), tuple(before)).places() + 1, given):
            return False
    return True


def _dim(
    shape: Shape, numbers: Indices, first: tuple[int, ...], d: int, taken: set[int]
) -> StoredDim:
    """Memory dimension `d`, derived from the index change at one step from the first element."""
    extent = numbers.shape[d]
    following = (*first[:d], first[d] + 1, *first[d + 1 :])
    here = _indices(shape, numbers, first)
    if first[d] + 1 < extent and numbers[following] > 0:
        steps = [b - a for a, b in zip(here, _indices(shape, numbers, following), strict=True)]
        axis = int(np.argmax(steps))
        return StoredDim(axis, steps[axis], extent)
    # All other places along it hold zeros, as around an axis with a single index.
    single = [axis for axis, size in enumerate(shape) if size == 1 and axis not in taken]
    return StoredDim(single[-1] if extent > 1 and single else 0, 1, extent)


def _indices(shape: Shape, numbers: Indices, place: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(numbers[place]) - 1, shape))


def chain(forms: Sequence[Form], axis: int) -> tuple[int, ...] | None:
    """The steps of loops along an axis that are affine in all these forms, largest first.

    None if there are none: blocks that do not divide each other, or a border along blocks.
    """
    steps = {1}
    for form in forms:
        own = form.along(axis)
        if len(own) > 1 and form.before[axis]:
            return None
        if len(own) == 1 and own[0].step != 1 and form.shape[axis] > 1:
            return None
        steps |= {d.step for d in own if len(own) > 1}
    found = tuple(sorted(steps, reverse=True))
    return None if any(outer % inner for outer, inner in pairwise(found)) else found
