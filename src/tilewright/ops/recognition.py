"""Recognition of definitions that equal a named operator up to axis names, order and grouping.

In: a contraction of two operands. Out: the equal matrix product, batched product or convolution
with up to two window dimensions, and the reshapes and transposes around it. Kernels and rules of
the named operator then apply to the definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tilewright.common.errors import ShapeError
from tilewright.ops.access import Access
from tilewright.ops.conv2d import Conv2d
from tilewright.ops.definition import Definition
from tilewright.ops.gemm import BatchedMatmul, Gemm
from tilewright.ops.moves import Reshape, Transpose
from tilewright.ops.op import Op, Shape

_MOST_WINDOWS = 2


@dataclass(frozen=True)
class Recognised:
    """A named operator with the numbers of the definition's operands, in its order; the moves that
    bring each operand into its layout; and the moves that restore the definition's result.
    """

    op: Op
    operands: tuple[int, int]
    arranging: tuple[tuple[Op, ...], tuple[Op, ...]]
    restoring: tuple[Op, ...]


@dataclass(frozen=True)
class _Window:
    """A dimension addressed at `stride` times an axis of the result plus `dilation` times a tap,
    less the border `before`; without a tap, the window is one element.
    """

    axis: int
    tap: int | None
    stride: int
    dilation: int
    before: int


_Part = int | _Window


@dataclass(frozen=True)
class _StoredTensor:
    """A tensor with its stored dimensions cut into axes and windows, in order."""

    shape: Shape
    extents: tuple[int, ...]
    parts: tuple[_Part, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes outside windows, in the order of the dimensions."""
        return tuple(p for p in self.parts if isinstance(p, int))

    @property
    def windows(self) -> tuple[_Window, ...]:
        """Windows in the order of the dimensions."""
        return tuple(p for p in self.parts if isinstance(p, _Window))


def recognised(op: Definition) -> Recognised | None:
    """The named operator that equals a contraction, or None."""
    if op.kind != "contraction":
        return None
    held = [_stored_tensor(x, op) for x in op.operands]
    result = _stored_tensor(op.result, op)
    if result is None or result.windows or None in held:
        return None
    x, w = (h for h in held if h is not None)
    if w.windows:
        found = _by_roles(op, w, x, result, swapped=True)
    else:
        found = _by_roles(op, x, w, result, swapped=False)
    return found


def as_named(op: Op) -> Op:
    """The named operator that equals a definition without any moves; `op` itself if there is none.

    In networks, `ops.normal_form` inserts the moves where a layout differs.
    """
    found = recognised(op) if isinstance(op, Definition) else None
    if found is None or found.operands != (0, 1) or any((*found.arranging, found.restoring)):
        return op
    return found.op


def _stored_tensor(access: Access, op: Definition) -> _StoredTensor | None:
    """The tensor cut into axes and windows; None if a dimension is neither."""
    extents: list[int] = []
    parts: list[_Part] = []
    dims = zip(access.shape, access.terms, access.offsets, strict=True)
    for d, (size, place, offset) in enumerate(dims):
        terms = sorted(((a, s) for a, s in place if op.extents[a] > 1), key=lambda term: -term[1])
        if access.runs_through(d, op.extents):
            extents += [op.extents[a] for a, _ in terms]
            parts += [a for a, _ in terms]
        elif window := _window(terms, offset, op):
            extents.append(size)
            parts.append(window)
        else:
            return None
    axes = [a for p in parts for a in ((p,) if isinstance(p, int) else (p.axis, p.tap))]
    padded = access.fill not in (None, 0.0)
    if len(set(axes)) < len(axes) or (padded and any(isinstance(p, _Window) for p in parts)):
        return None
    return _StoredTensor(access.shape, tuple(extents), tuple(parts))


def _window(terms: Sequence[tuple[int, int]], offset: int, op: Definition) -> _Window | None:
    kept = [(a, s) for a, s in terms if a in op.result.axes]
    taps = [(a, s) for a, s in terms if a not in op.result.axes]
    if len(kept) != 1 or len(taps) != 1 or min(s for _, s in terms) < 1:
        return None
    return _Window(kept[0][0], taps[0][0], kept[0][1], taps[0][1], -offset)


def _by_roles(
    op: Definition, x: _StoredTensor, w: _StoredTensor, result: _StoredTensor, *, swapped: bool
) -> Recognised | None:
    """Recognise a contraction by the roles of its axes; only `x` may have windows."""
    wide, taps = [p.axis for p in x.windows], [p.tap for p in x.windows if p.tap is not None]
    in_x, in_w, kept = {*x.axes}, {*w.axes}, {*result.axes} - {*wide}
    both = in_x & in_w
    plain = w.windows == () and len(wide) <= _MOST_WINDOWS and {*taps} <= {*w.axes}
    summed = {a for a, n in enumerate(op.extents) if n > 1} - kept - {*wide, *taps}
    if not plain or {*wide} & {*w.axes} or summed != both - kept or kept - in_x - in_w:
        return None
    if not {*wide} <= {*result.axes}:
        return None
    order = [a for a in result.axes if a not in wide]
    groups = [a for a in order if a in both]
    rows = [a for a in order if a in in_w and a not in both]
    columns = [a for a in order if a in in_x and a not in both]
    terms = [a for a in w.axes if a in both and a not in kept]
    if not wide and not (terms and (rows or columns)):
        return None
    if wide:
        return _convolution(op, (x, w, result), (columns, groups, rows, terms), swapped=swapped)
    for pair, turned in ((((x, w), rows), swapped), (((w, x), columns), not swapped)):
        if not groups and (found := _of_single_places(op, *pair, result, terms, swapped=turned)):
            return found
    return _product(op, (x, w, result), (groups, columns, rows, terms), swapped=swapped)


def _product(
    op: Definition,
    held: tuple[_StoredTensor, _StoredTensor, _StoredTensor],
    roles: tuple[list[int], list[int], list[int], list[int]],
    *,
    swapped: bool,
) -> Recognised:
    """A matrix product or a batched one; the left operand's axes come first in the result."""
    (x, w, result), (batch, columns, rows, terms) = held, roles
    left, right, m, n = (x, w, columns, rows)
    if result.axes == (*batch, *rows, *columns):
        left, right, m, n = (w, x, rows, columns)
        swapped = not swapped
    count, height, width, depth = (
        prod(op.extents[a] for a in axes) for axes in (batch, m, n, terms)
    )
    transpose_a = left.axes == (*batch, *terms, *m) and left.axes != (*batch, *m, *terms)
    transpose_b = right.axes == (*batch, *n, *terms) and right.axes != (*batch, *terms, *n)
    make = partial(BatchedMatmul, count) if batch else Gemm
    made: Op = make(
        height, width, depth, transpose_a=transpose_a, transpose_b=transpose_b, dtype=op.dtype
    )
    first = (*batch, *terms, *m) if transpose_a else (*batch, *m, *terms)
    second = (*batch, *n, *terms) if transpose_b else (*batch, *terms, *n)
    orders = first, second, (*batch, *m, *n)
    return _arranged(op, made, (left, right, result), orders, swapped=swapped)


def _of_single_places(
    op: Definition,
    held: tuple[_StoredTensor, _StoredTensor],
    rows: list[int],
    result: _StoredTensor,
    terms: list[int],
    *,
    swapped: bool,
) -> Recognised | None:
    """A 1 x 1 convolution, where the first operand and the result are images, which a product would
    have to transpose.
    """
    (x, w), last = held, len(terms)
    first = next((n for n in range(1, len(x.axes)) if x.axes[n : n + last] == (*terms,)), 0)
    images, places = x.axes[:first], x.axes[first + last :]
    plane = len(places) == _MOST_WINDOWS
    if not images or not plane or result.axes != (*images, *rows, *places):
        return None
    batch, depth, count, height, width = (
        prod(op.extents[a] for a in axes) for axes in (images, terms, rows, places[:1], places[1:])
    )
    made = Conv2d(batch, depth, count, height, width, (1, 1), dtype=op.dtype)
    orders = x.axes, (*rows, *terms), result.axes
    return _arranged(op, made, (x, w, result), orders, swapped=swapped)


def _convolution(
    op: Definition,
    held: tuple[_StoredTensor, _StoredTensor, _StoredTensor],
    roles: tuple[list[int], list[int], list[int], list[int]],
    *,
    swapped: bool,
) -> Recognised | None:
    (x, w, result), (images, groups, rows, terms) = held, roles
    x, images = _as_plane(x, result, images, (*groups, *terms))
    windows = x.windows
    sizes = [size for size, p in zip(x.extents, x.parts, strict=True) if isinstance(p, _Window)]
    count = [prod(op.extents[a] for a in axes) for axes in (images, groups, rows, terms)]
    sides = [_side(op, p, size) for p, size in zip(windows, sizes, strict=True)]
    if len(sides) < _MOST_WINDOWS:
        sides.insert(0, (1, 1, 1, 1, 0, 0))
    (height, kernel_rows, *down), (width, kernel_columns, *right) = sides
    try:
        made = Conv2d(
            count[0],
            count[1] * count[3],
            count[1] * count[2],
            height,
            width,
            (kernel_rows, kernel_columns),
            (down[0], right[0]),
            (down[2], right[2], down[3], right[3]),
            (down[1], right[1]),
            count[1],
            op.dtype,
        )
    except ShapeError:  # for instance a border wider than the window
        return None
    wide = tuple(op.extents[p.axis] for p in windows)
    if made.out_shape[4 - len(wide) :] != wide:
        return None
    taps = tuple(p.tap for p in windows if p.tap is not None)
    axes = (*images, *groups, *rows, *(p.axis for p in windows))
    pixels: tuple[_Part, ...] = (*images, *groups, *terms, *windows)
    orders = pixels, (*groups, *rows, *terms, *taps), axes
    return _arranged(op, made, (x, w, result), orders, swapped=swapped)


def _as_plane(
    x: _StoredTensor, result: _StoredTensor, images: list[int], channels: Sequence[int]
) -> tuple[_StoredTensor, list[int]]:
    """The images and the axes that number them. If an axis of images lies next to the only window,
    in the order of the result, it becomes a window of one element, which saves transposing images.
    """
    *first, a, b = (None, *x.parts)
    pair = tuple(p.axis if isinstance(p, _Window) else p for p in (a, b))
    plane = next((p for p in (a, b) if p in images), None)
    rest = [axis for axis in images if axis != plane]
    if plane is None or result.axes[-2:] != pair or (*first[1:],) != (*rest, *channels):
        return x, images
    parts = (_Window(p, None, 1, 1, 0) if p == plane else p for p in x.parts)
    return replace(x, parts=tuple(parts)), rest


def _side(op: Definition, window: _Window, size: int) -> tuple[int, int, int, int, int, int]:
    """Size, taps, stride, dilation, and the border before and after, of one dimension."""
    taps = 1 if window.tap is None else op.extents[window.tap]
    count = op.extents[window.axis]
    reach = (count - 1) * window.stride + (taps - 1) * window.dilation + 1
    after = max(0, reach - size - window.before)
    return size, taps, window.stride, window.dilation, window.before, after


def _arranged(
    op: Definition,
    made: Op,
    held: tuple[_StoredTensor, _StoredTensor, _StoredTensor],
    orders: tuple[Sequence[_Part], Sequence[_Part], Sequence[int]],
    *,
    swapped: bool,
) -> Recognised:
    """The operator `made` with moves from and to the tensors `held`; `orders` lists the parts of
    its operands and the axes of its result. `swapped` if its first operand is the definition's
    second.
    """
    (*operands, result), (*taken, given) = held, orders
    numbers, kinds = (int(swapped), int(not swapped)), op.operand_dtypes
    first, second = (
        _moved(own.shape, own.extents, tuple(own.parts.index(p) for p in order), shape, kinds[n])
        for own, order, shape, n in zip(operands, taken, made.input_shapes, numbers, strict=True)
    )
    extents, back = tuple(op.extents[a] for a in given), tuple(given.index(a) for a in result.axes)
    restoring = _moved(made.out_shape, extents, back, result.shape, op.out_dtype)
    return Recognised(made, numbers, (first, second), restoring)


def _moved(
    shape: Shape, parts: Shape, order: tuple[int, ...], last: Shape, dtype: str
) -> tuple[Op, ...]:
    """Reshape into `parts`, transpose, reshape to `last`; moves that change nothing are omitted."""
    if order == tuple(range(len(order))):
        return (Reshape(shape, last, dtype),) if shape != last else ()
    turned = Transpose(parts, order, dtype)
    into = (Reshape(shape, parts, dtype),) if shape != parts else ()
    out = (Reshape(turned.out_shape, last, dtype),) if turned.out_shape != last else ()
    return (*into, turned, *out)
