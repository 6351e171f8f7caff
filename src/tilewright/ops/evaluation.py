"""The reference of a definition in NumPy: strided views, and BLAS for sums of products.

In: a definition and its operands. Out: the result; floats are computed in double precision and
rounded once, integers exactly, modulo the bits of their sums, and rounded once. Steps are evaluated
in portions, so that temporaries stay about as large as the operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.common.fixed_point import exact_product
from tilewright.ir.scalar import Scalar, integral, parse_scalar, wrapped
from tilewright.ops.access import elements_of, straight
from tilewright.ops.op import Array, Shape, for_sums, in_double, in_integers, in_own_type, rounded

if TYPE_CHECKING:
    from tilewright.ops.definition import Definition

_PORTION = 1 << 20
"""Steps, or elements of an operand, per portion: enough for BLAS, few enough for caches."""
_WIDE = 256
"""Columns of a product from which BLAS is about as fast as with more."""
_GATHERED: dict[str, np.ufunc] = {
    "sum": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "prod": np.multiply,
    "any": np.maximum,
}
"""Max and min skip NaN, as pooling does."""
_START = {"max": -inf, "min": inf}
"""The extremes of elements that are all NaN."""


def evaluated(op: Definition, operands: Sequence[Array]) -> Array:
    """The result of a definition; raises ShapeError for operands of other shapes or types."""
    exact = not op.numerics.is_float
    if (
        op.gather is None
        and op.body == op.finish == "x0"
        and op.numerics.operands == (op.numerics.result,)
        and not op.has_look_ups
    ):
        (x,) = in_own_type(op, operands)
        return _placed(op, op.operands[0].read(x, op.extents))
    with np.errstate(all="ignore"):  # infinities and NaN are results, too
        if op.kind == "contraction":
            terms = prod(op.extents[a] for a in op.gathered)
            given = in_own_type(op, operands) if exact else for_sums(op, operands, terms)
            sums = _contracted(op, given)
            return op.numerics.write_back(sums) if exact else rounded(op, sums)
        given = [*in_integers(op, operands)] if exact else [*in_double(op, operands)]
        return _stored(op, _gathered(op, given))


def _stored(op: Definition, values: Array) -> Array:
    """The result's tensor from values (all axes, with extent 1 along gathered ones)."""
    if op.numerics.is_float:
        values = rounded(op, np.asarray(values, np.float64))
    elif op.gather is None:
        values = values.astype(op.numerics.sums.numpy).astype(op.numerics.result.numpy)
    else:
        values = op.numerics.write_back(values)
    return _placed(op, values)


def _placed(op: Definition, values: Array) -> Array:
    """The result's tensor with the values at their indices, zeros elsewhere."""
    if op.result.read_from:
        return values.reshape(op.out_shape)
    kept = tuple(n if a in op.result.axes else 1 for a, n in enumerate(op.extents))
    if op.result == straight(op.out_shape) and values.size == prod(op.out_shape) == prod(kept):
        return np.ascontiguousarray(values).reshape(op.out_shape)
    whole = np.zeros(op.out_shape, values.dtype)
    op.result.write(whole, op.extents, np.broadcast_to(values, kept))
    return whole


def _gathered(op: Definition, operands: Sequence[Array]) -> Array:
    """The values of the body over all steps, gathered and finished."""
    elements = elements_of(op.operands, operands, op.extents)
    if op.result.read_from:
        return _added(op, elements)
    kept = [n if a in op.result.axes else 1 for a, n in enumerate(op.extents)]
    kind = np.float64 if op.numerics.is_float else np.int64
    found = np.empty(kept, kind)
    body, finish = _scalar(op, op.body), _scalar(op, op.finish)
    wraps = not op.numerics.is_float  # at each operation, as on cores
    for part in _portions(op.extents, op.kept):
        shape = [len(range(*s.indices(n))) for s, n in zip(part, op.extents, strict=True)]
        own = [x[_along(part, x.shape)] for x in elements]
        each = wrapped(body, own, op.numerics.sums) if wraps else body.value(own)
        values = np.broadcast_to(np.asarray(each, kind), shape)
        if op.gather == "any":
            values = (values != 0).astype(kind)
        if op.gather is not None and op.gathered:
            gather = _GATHERED[op.gather]
            values = gather.reduce(values, op.gathered, keepdims=True)
            if kind is np.float64 and op.gather in _START:
                values = gather(values, _START[op.gather])
        values = np.asarray(finish.value([values]))
        if values.shape == found.shape:  # a single portion
            return values
        found[_along(part, found.shape)] = values
    return found


def _added(op: Definition, elements: Sequence[Array]) -> Array:
    """The sums where operands hold the result's indices."""
    kind = np.float64 if op.numerics.is_float else np.int64
    values = np.broadcast_to(np.asarray(_scalar(op, op.body).value(elements), kind), op.extents)
    whole = np.zeros(op.out_shape, kind)
    places = op.result.places(op.extents, dict(enumerate(elements)))
    np.add.at(whole, tuple(np.broadcast_to(p, op.extents) for p in places), values)
    found: Array = _scalar(op, op.finish).value([whole])
    return found


def _scalar(op: Definition, text: str) -> Scalar:
    scalar = parse_scalar(text)
    return scalar if op.numerics.is_float else integral(scalar)


def _portions(extents: Shape, axes: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Portions of the steps as slices along the first of `axes`, usually outermost in memory."""
    every = [slice(None)] * len(extents)
    if prod(extents) <= _PORTION or not axes:
        yield tuple(every)
        return
    axis = next((a for a in axes if extents[a] > 1), axes[0])
    step = max(1, _PORTION * extents[axis] // prod(extents))
    for start in range(0, extents[axis], step):
        every[axis] = slice(start, start + step)
        yield tuple(every)


def _along(part: Sequence[slice], shape: Shape) -> tuple[slice, ...]:
    """The slices of a portion for an array that has extent 1 along some axes."""
    return tuple(slice(None) if n == 1 else s for s, n in zip(part, shape, strict=True))


def _contracted(op: Definition, operands: Sequence[Array]) -> Array:
    """Sums of products of two operands, by batched matrix products, in the result's tensor."""
    a, b = (x.read(y, op.extents) for x, y in zip(op.operands, operands, strict=True))
    last = [axis for place in op.result.terms for axis, _ in place if op.extents[axis] > 1][-1:]
    if last and a.shape[last[0]] > b.shape[last[0]]:
        a, b = b, a  # so that columns are contiguous in the result
    own = [frozenset(d for d, n in enumerate(x.shape) if n > 1) for x in (a, b)]
    kept, gathered = frozenset(op.kept), frozenset(op.gathered)
    a, b = _summed(a, own[0] & gathered - own[1]), _summed(b, own[1] & gathered - own[0])
    batch = sorted(own[0] & own[1] & kept)
    rows, columns = sorted(own[0] & kept - own[1]), sorted(own[1] & kept - own[0])
    depth = sorted(own[0] & own[1] - kept)
    places = [[axis for axis, _ in place if op.extents[axis] > 1] for place in op.result.terms]
    written = [axis for place in places for axis in place]
    outer = [] if batch else _outer(op, written, columns)
    inner = [d for d in columns if d not in outer]
    left = _laid_out(a, [*batch, *outer], rows, depth)
    multiply = np.matmul if op.numerics.is_float else exact_product
    single = prod(op.extents[d] for d in gathered - own[0] - own[1])
    order = [*batch, *outer, *rows, *inner]
    parts = list(_portions(b.shape, [*outer, *inner]))
    filled = prod(op.out_shape) == prod(op.extents[d] for d in order)
    if len(parts) == 1 and written == order and filled and max(map(len, places), default=0) < 2:
        product = multiply(left, _laid_out(b, [*batch, *outer], depth, inner))
        found = product.reshape(op.out_shape)
        return found * single if single > 1 else found
    found = np.zeros(op.out_shape, left.dtype if op.numerics.is_float else np.int64)
    order += [d for d in range(len(op.extents)) if d not in order]
    target = op.result.view(found, op.extents).transpose(order)
    for part in parts:
        product = multiply(left, _laid_out(b[part], [*batch, *outer], depth, inner))
        own_part = target[tuple(part[d] for d in order)]
        steps = zip(order, own_part.shape, strict=True)
        own_part[...] = product.reshape([n if d in own[0] | own[1] else 1 for d, n in steps])
    return found * single if single > 1 else found


def _outer(op: Definition, written: Sequence[int], columns: Sequence[int]) -> list[int]:
    """Leading axes of columns to loop over, such as the images of a convolution: each step's
    product writes the result in order and stays wide enough for BLAS.
    """
    found = list(takewhile(columns.__contains__, written))
    wide = prod(op.extents[d] for d in columns if d not in found) >= _WIDE
    return found if wide else []


def _summed(x: Array, axes: frozenset[int]) -> Array:
    """The operand summed along axes that the other operand lacks."""
    if not axes:
        return x
    wide = x.astype(np.int64) if x.dtype.kind != "f" else x
    total: Array = wide.sum(axis=tuple(axes), keepdims=True)
    return total


def _laid_out(x: Array, batch: list[int], rows: list[int], columns: list[int]) -> Array:
    """The array as batch x rows x columns; its other dimensions have extent 1."""
    order = [*batch, *rows, *columns]
    rest = [d for d in range(x.ndim) if d not in order]
    parts = [prod(x.shape[d] for d in dims) for dims in (batch, rows, columns)]
    return x.transpose([*order, *rest]).reshape(parts)
