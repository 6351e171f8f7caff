"""Operators as definitions in sequence: the common form of all named operators.

In: an operator. Out: tensors, each the sum of the results of definitions over the operands and the
tensors before. A convolution is one definition, an average over windows a sum
and a quotient, a concatenation one definition for each tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from math import inf, prod

from tilewright.common.errors import ShapeError
from tilewright.ir.scalar import expanded
from tilewright.ops.access import Access, Term, broadcast, straight
from tilewright.ops.arranging import Pad, Resize, Slice, Transpose
from tilewright.ops.assembly import Assembly
from tilewright.ops.batched_matmul import BatchedMatmul
from tilewright.ops.conv2d import Conv2d
from tilewright.ops.definition import Definition, Gather
from tilewright.ops.elementwise import Bias, Binary, Unary
from tilewright.ops.gemm import Gemm
from tilewright.ops.normalize import BatchNorm, LocalResponseNorm, Softmax
from tilewright.ops.op import Array, Op, Shape
from tilewright.ops.pool import Pool2d
from tilewright.ops.reduce import Reduce
from tilewright.ops.shaping import Concat, Reshape, SpaceToDepth

Place = tuple[tuple[Term, ...], int]
"""A place along one dimension: terms, and an offset."""


@dataclass(frozen=True)
class Addend:
    """A definition and its operands: operands of the operator by number, then earlier tensors."""

    definition: Definition
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Computed:
    """A tensor: the sum of its addends' results. Where it is `constant`, the operator's result does
    not depend on it, whatever its numbers are (a largest element that is taken off).
    """

    addends: tuple[Addend, ...]
    constant: bool = False


def evaluated_by_definitions(op: Op, operands: Sequence[Array]) -> Array:
    """The result of an operator by its definitions."""
    held = list(operands)
    for tensor in definitions_of(op):
        parts = [p.definition.reference(*(held[i] for i in p.reads)) for p in tensor.addends]
        held.append(sum(parts[1:], parts[0]))
    return held[-1]


@singledispatch
def definitions_of(op: Op) -> tuple[Computed, ...]:
    """The definitions of an operator; ShapeError for one that has none."""
    raise ShapeError(f"{op.describe()} is no sequence of definitions")


def _one(definition: Definition, *reads: int) -> tuple[Computed, ...]:
    found = reads or tuple(range(len(definition.operands)))
    return (Computed((Addend(definition, found),)),)


def _access(shape: Shape, *places: Place, fill: float | None = None) -> Access:
    return Access(shape, tuple(p[0] for p in places), tuple(p[1] for p in places), fill)


def _along(*axes: int) -> tuple[Place, ...]:
    """One axis in each dimension."""
    return tuple((((axis, 1),), 0) for axis in axes)


@definitions_of.register
def _(op: Definition) -> tuple[Computed, ...]:
    return _one(op)


@definitions_of.register
def _(op: Assembly) -> tuple[Computed, ...]:
    return (Computed(tuple(map(Addend, op.parts, op.reads))),)


@definitions_of.register
def _(op: Gemm) -> tuple[Computed, ...]:
    a, b = (2, 0) if op.transpose_a else (0, 2), (1, 2) if op.transpose_b else (2, 1)
    factors = straight(op.input_shapes[0], a), straight(op.input_shapes[1], b)
    result = straight(op.out_shape)
    plain = (op.alpha, op.beta) == (1.0, 0.0)
    kind = op.dtype if plain else op.numerics.sums.name
    product = Definition((op.m, op.n, op.k), result, factors, "x0 * x1", "sum", "x0", kind, _MNK)
    if plain:
        return _one(product)
    added = f" + {op.beta!r} * x1" if op.beta else ""
    places = (result, result) if op.beta else (result,)
    body = f"{op.alpha!r} * x0{added}"
    last = Definition(op.out_shape, result, places, body, None, "x0", kind)
    reads = (3, 2) if op.beta else (2,)
    return (*_one(product), Computed((Addend(last, reads),)))


_MNK = ("m", "n", "k")


@definitions_of.register
def _(op: BatchedMatmul) -> tuple[Computed, ...]:
    a = (0, 3, 1) if op.transpose_a else (0, 1, 3)
    b = (0, 2, 3) if op.transpose_b else (0, 3, 2)
    left, right = op.input_shapes
    factors = straight(left, a), straight(right, b)
    extents = (op.batch, op.m, op.n, op.k)
    result, names = straight(op.out_shape), ("b", *_MNK)
    return _one(Definition(extents, result, factors, "x0 * x1", "sum", "x0", op.dtype, names))


@definitions_of.register
def _(op: Conv2d) -> tuple[Computed, ...]:
    """Channels of several groups are two axes in one dimension."""
    images, weights = op.input_shapes
    inputs, outputs = op.in_channels // op.groups, op.out_channels // op.groups
    many = op.groups > 1
    n, o, r, c, i, u, v = range(7)
    extents: tuple[int, ...] = (op.batch, outputs, op.out_height, op.out_width, inputs, *op.kernel)
    out: Place = (((7, outputs), (o, 1)), 0) if many else (((o, 1),), 0)
    into: Place = (((7, inputs), (i, 1)), 0) if many else (((i, 1),), 0)
    rows = (((r, op.stride[0]), (u, op.dilation[0])), -op.padding[0])
    columns = (((c, op.stride[1]), (v, op.dilation[1])), -op.padding[1])
    (image,) = _along(n)
    x = _access(images, image, into, rows, columns, fill=0.0)
    w = _access(weights, out, *_along(i, u, v))
    y = _access(op.out_shape, image, out, *_along(r, c))
    names = ("n", "o", "r", "c", "i", "u", "v", *("g" * many))
    extents = (*extents, op.groups) if many else extents
    return _one(
        Definition(extents, y, (x, w), "x0 * x1", "sum", "x0", op.dtype, names, ("y", "x", "w"))
    )


@definitions_of.register
def _(op: Pool2d) -> tuple[Computed, ...]:
    """Largest elements beside the lowest number; averages divide sums by counts, which are sums of
    ones under the same windows.
    """
    least = -inf if op.numerics.is_float else float(op.numerics.operands[0].limits[0])
    if op.reduction == "max":
        return _one(_windows(op, op.input_shapes[0], "max", op.padding, least, op.dtype))
    kind = op.numerics.sums.name
    total = _windows(op, op.input_shapes[0], "sum", op.padding, 0.0, kind)
    counts = op.counts()
    if (counts == counts.flat[0]).all() and op.numerics.is_float:
        return _one(replace(total, finish=f"x0 / {float(counts.flat[0])!r}"))
    if not op.numerics.is_float:
        raise ShapeError(f"{op.describe()}: averages of {op.dtype} round once, by no definition")
    top, left, bottom, right = op.padding if op.count_padding else (0, 0, 0, 0)
    image = (op.height + top + bottom, op.width + left + right)
    ones = Definition(image, straight(image), (), "1", None, "x0", kind)
    padding = (0, 0, 0, 0) if op.count_padding else op.padding
    under = _windows(op, (1, 1, *image), "sum", padding, 0.0, kind, of_image=True)
    y = straight(op.out_shape)
    quotient = Definition(op.out_shape, y, (y, straight(op.out_shape[2:], (2, 3))), "x0 / x1",
                          None, "x0", kind)  # fmt: skip
    made = ((ones, ()), (under, (1,)), (total, (0,)), (quotient, (3, 2)))
    return tuple(Computed((Addend(definition, reads),)) for definition, reads in made)


def _windows(
    op: Pool2d,
    shape: Shape,
    gather: Gather,
    padding: tuple[int, int, int, int],
    fill: float,
    kind: str,
    *,
    of_image: bool = False,
) -> Definition:
    """Windows of images, or of one image that has neither batch nor channels."""
    n, c, r, s, u, v = range(6)
    rows = (((r, op.stride[0]), (u, 1)), -padding[0])
    columns = (((s, op.stride[1]), (v, 1)), -padding[1])
    outer = () if of_image else _along(n, c)
    extents = ((1, 1) if of_image else op.out_shape[:2]) + (*op.out_shape[2:], *op.kernel)
    x = _access(shape[2:] if of_image else shape, *outer, rows, columns, fill=fill)
    y = _access(op.out_shape[2:] if of_image else op.out_shape, *outer, *_along(r, s))
    return Definition(extents, y, (x,), "x0", gather, "x0", kind, tuple("ncrsuv"))


@definitions_of.register
def _(op: Reduce) -> tuple[Computed, ...]:
    rank = len(op.shape)
    kept = tuple((() if a in op.axes else ((a, 1),), 0) for a in range(rank))
    count = prod(op.shape[axis] for axis in op.axes)
    gathers: dict[str, Gather] = {"max": "max", "min": "min", "mean": "sum", "sum": "sum"}
    finish = f"x0 / {float(count)!r}" if op.function == "mean" else "x0"
    y = _access(op.out_shape, *kept)
    return _one(Definition(op.shape, y, (straight(op.shape),), "x0", gathers[op.function], finish,
                           op.dtype))  # fmt: skip


@definitions_of.register
def _(op: Unary) -> tuple[Computed, ...]:
    x = straight(op.shape)
    body = str(expanded(op.scalar))
    return _one(Definition(op.shape, x, (x,), body, None, "x0", op.dtype))


@definitions_of.register
def _(op: Binary) -> tuple[Computed, ...]:
    shape, body = op.out_shape, str(expanded(op.scalar))
    places = [broadcast(own, shape) for own in op.input_shapes]
    return _one(Definition(shape, straight(shape), tuple(places), body, None, "x0", op.dtype))


@definitions_of.register
def _(op: Bias) -> tuple[Computed, ...]:
    x, b = straight(op.shape), straight(op.input_shapes[1], (op.axis,))
    body = "x0 + x1" if op.scale == 1 else f"x0 + {op.scale!r} * x1"
    return _one(Definition(op.shape, x, (x, b), body, None, "x0", op.dtype))


@definitions_of.register
def _(op: BatchNorm) -> tuple[Computed, ...]:
    x, channels = straight(op.shape), straight((op.shape[1],), (1,))
    body = f"(x0 - x3) / sqrt(x4 + {op.epsilon!r}) * x1 + x2"
    return _one(Definition(op.shape, x, (x, *[channels] * 4), body, None, "x0", op.dtype))


@definitions_of.register
def _(op: Softmax) -> tuple[Computed, ...]:
    """Largest, powers, sum, quotient; the largest changes no result."""
    x, rank = straight(op.shape), len(op.shape)
    axes = tuple(a for a in range(rank) if a != op.axis)
    row = straight(tuple(op.shape[a] for a in axes), axes)
    kind = op.dtype
    largest = Definition(op.shape, row, (x,), "x0", "max", "x0", kind)
    powers = Definition(op.shape, x, (x, row), "exp(x0 - x1)", None, "x0", kind)
    total = Definition(op.shape, row, (x,), "x0", "sum", "x0", kind)
    quotient = Definition(op.shape, x, (x, row), "x0 / x1", None, "x0", kind)
    return (
        Computed((Addend(largest, (0,)),), constant=True),
        Computed((Addend(powers, (0, 1)),)),
        Computed((Addend(total, (2,)),)),
        Computed((Addend(quotient, (2, 3)),)),
    )


@definitions_of.register
def _(op: LocalResponseNorm) -> tuple[Computed, ...]:
    """The sum of squares over neighbouring channels, then the power."""
    rank, x = len(op.shape), straight(op.shape)
    near = [*_along(*range(rank))]
    near[1] = (((1, 1), (rank, 1)), -((op.size - 1) // 2))
    around = _access(op.shape, *near, fill=0.0)
    squares = Definition((*op.shape, op.size), x, (around,), "x0 * x0", "sum", "x0", op.dtype)
    body = f"x0 / pow({op.bias!r} + {op.alpha / op.size!r} * x1, {op.beta!r})"
    result = Definition(op.shape, x, (x, x), body, None, "x0", op.dtype)
    return *_one(squares), Computed((Addend(result, (0, 1)),))


@definitions_of.register
def _(op: Transpose) -> tuple[Computed, ...]:
    source = straight(op.shape, tuple(op.order.index(a) for a in range(len(op.shape))))
    return _one(_moved(op, op.out_shape, straight(op.out_shape), source))


@definitions_of.register
def _(op: Pad) -> tuple[Computed, ...]:
    places = ((((d, 1),), -before) for d, before in enumerate(op.before))
    source = _access(op.shape, *places, fill=op.value)
    return _one(_moved(op, op.out_shape, straight(op.out_shape), source))


@definitions_of.register
def _(op: Slice) -> tuple[Computed, ...]:
    numbers = zip(op.start, op.step, strict=True)
    source = _access(op.shape, *((((d, by),), start) for d, (start, by) in enumerate(numbers)))
    return _one(_moved(op, op.counts, straight(op.out_shape), source))


@definitions_of.register
def _(op: Resize) -> tuple[Computed, ...]:
    """An axis over the elements and one over the copies of each, along every dimension."""
    extents = tuple(n for pair in zip(op.shape, op.factors, strict=True) for n in pair)
    places = ((((2 * d, f), (2 * d + 1, 1)), 0) for d, f in enumerate(op.factors))
    source = straight(op.shape, tuple(2 * d for d in range(len(op.shape))))
    return _one(_moved(op, extents, _access(op.out_shape, *places), source))


@definitions_of.register
def _(op: SpaceToDepth) -> tuple[Computed, ...]:
    batch, _, rows, columns = op.out_shape
    block, channels = op.block, op.channels
    extents = (batch, channels, rows, columns, block, block)
    n, i, r, c, u, v = range(6)
    source = _access(op.input_shapes[0], *_along(n, i), (((r, block), (u, 1)), 0),
                     (((c, block), (v, 1)), 0))  # fmt: skip
    depth: Place = (((u, block * channels), (v, channels), (i, 1)), 0)
    (image,) = _along(n)
    return _one(_moved(op, extents, _access(op.out_shape, image, depth, *_along(r, c)), source))


@definitions_of.register
def _(op: Concat) -> tuple[Computed, ...]:
    """Each tensor into its part of the result."""
    parts, start = [], 0
    for number, shape in enumerate(op.input_shapes):
        places = [*_along(*range(len(shape)))]
        places[op.axis] = (((op.axis, 1),), start)
        moved = _moved(op, shape, _access(op.out_shape, *places), straight(shape))
        parts.append(Addend(moved, (number,)))
        start += shape[op.axis]
    return (Computed(tuple(parts)),)


def _moved(op: Op, extents: Shape, target: Access, source: Access) -> Definition:
    """A copy; elements keep their type."""
    return Definition(extents, target, (source,), "x0", None, "x0", op.out_dtype)


@definitions_of.register
def _(op: Reshape) -> tuple[Computed, ...]:
    """Axes of the extents that both shapes are cut into; ShapeError where neither divides."""
    extents: list[int] = []
    shapes = [list(op.shape), list(op.out_shape)]
    places: list[list[list[tuple[int, int]]]] = [[[] for _ in s] for s in shapes]
    at = [len(s) - 1 for s in shapes]
    left = [s[-1] if s else 1 for s in shapes]
    total, steps = prod(op.shape), [1, 1]
    while total > 1:
        for side in (0, 1):
            while left[side] == 1:
                at[side] -= 1
                left[side], steps[side] = shapes[side][at[side]], 1
        extent = min(left)
        if any(n % extent for n in left):
            raise ShapeError(f"{op.describe()}: the extents have no common parts")
        for side in (0, 1):
            places[side][at[side]].insert(0, (len(extents), steps[side]))
            left[side] //= extent
            steps[side] *= extent
        extents.append(extent)
        total //= extent
    source, target = (
        _access(tuple(s), *((tuple(p), 0) for p in own))
        for s, own in zip(shapes, places, strict=True)
    )
    return _one(_moved(op, tuple(extents), target, source))
