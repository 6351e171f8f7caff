"""Small random operators of every named kind."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops import (
    BatchNorm,
    Bias,
    Binary,
    Concat,
    LocalResponseNorm,
    Op,
    Pad,
    Pool2d,
    Reduce,
    Reshape,
    Resize,
    Shuffle,
    Slice,
    Softmax,
    SpaceToDepth,
    Transpose,
    Unary,
    conv2d,
    gemm,
)
from tilewright.ops.elementwise import binary_functions, unary_functions
from tilewright.ops.gemm import batched_matmul

PRODUCTS = ("f64", "f32", "i8:i32", "i16:i32:i16")
FLOATS = ("f64", "f32")


def random_operator(rng: np.random.Generator, kind: str) -> Op:
    """An operator of that kind, made anew where the numbers contradict each other."""
    while True:
        try:
            return _MAKERS[kind](rng)
        except ShapeError:
            continue


def _shape(rng, rank=0):
    return tuple(int(n) for n in rng.integers(1, 6, rank or int(rng.integers(2, 5))))


def _numbers(rng, low, high, count):
    return tuple(int(n) for n in rng.integers(low, high, count))


def _kind(rng, kinds):
    return str(rng.choice(kinds))


def _gemm(rng):
    kind = _kind(rng, PRODUCTS)
    drawn = {"alpha": float(rng.integers(1, 3)), "beta": float(rng.integers(3))}
    scales = {} if ":" in kind else drawn
    turned = {f"transpose_{x}": bool(rng.integers(2)) for x in "ab"}
    return gemm(*_numbers(rng, 1, 7, 3), **turned, **scales, dtype=kind)


def _batched(rng):
    turned = {f"transpose_{x}": bool(rng.integers(2)) for x in "ab"}
    return batched_matmul(*_numbers(rng, 1, 6, 4), **turned, dtype=_kind(rng, PRODUCTS))


def _conv2d(rng):
    groups = int(rng.choice([1, 1, 2, 3]))
    batch, inputs, outputs = _numbers(rng, 1, 4, 3)
    height, width = _numbers(rng, 1, 11, 2)
    return conv2d(
        batch=batch, in_channels=groups * inputs, out_channels=groups * outputs, height=height,
        width=width, kernel=_numbers(rng, 1, 5, 2), stride=_numbers(rng, 1, 4, 2),
        padding=_numbers(rng, 0, 4, 4), dilation=_numbers(rng, 1, 4, 2), groups=groups,
        dtype=_kind(rng, PRODUCTS),
    )  # fmt: skip


def _pool2d(rng):
    reduction = _kind(rng, ("max", "average"))
    kinds = ("f64", "f32", "i8") if reduction == "max" else FLOATS
    return Pool2d(
        reduction, *_numbers(rng, 1, 9, 4), _numbers(rng, 1, 4, 2), _numbers(rng, 1, 4, 2),
        _numbers(rng, 0, 3, 4), bool(rng.integers(2)), bool(rng.integers(2)), _kind(rng, kinds),
    )  # fmt: skip


def _reduce(rng):
    shape = _shape(rng)
    axes = tuple(a for a in range(len(shape)) if rng.integers(2)) or (0,)
    return Reduce(_kind(rng, ("max", "mean", "min", "sum")), shape, axes, _kind(rng, FLOATS))


def _unary(rng):
    return Unary(_kind(rng, unary_functions()), _shape(rng), 0.25, 0.5, _kind(rng, FLOATS))


def _binary(rng):
    shape = _shape(rng)
    other = tuple(n if rng.integers(3) else 1 for n in shape[int(rng.integers(len(shape))) :])
    pair = (shape, other) if rng.integers(2) else (other, shape)
    function = _kind(rng, sorted({*binary_functions()} & {"add", "sub", "mul", "max", "min"}))
    return Binary(function, *pair, _kind(rng, FLOATS))


def _pad(rng):
    shape = _shape(rng)
    before, after = (_numbers(rng, 0, 3, len(shape)) for _ in range(2))
    return Pad(shape, before, after, float(rng.integers(3)), _kind(rng, ("f64", "f32", "i16")))


def _slice(rng):
    shape = _shape(rng)
    return Slice(shape, *(_numbers(rng, low, 4, len(shape)) for low in (0, 1, 1)))


def _concat(rng):
    shape = _shape(rng)
    axis = int(rng.integers(len(shape)))
    extents = _numbers(rng, 1, 4, int(rng.integers(1, 4)))
    return Concat(tuple((*shape[:axis], n, *shape[axis + 1 :]) for n in extents), axis)


def _reshape(rng):
    factors = list(_numbers(rng, 1, 5, 4))
    shapes = []
    for _ in range(2):
        cuts = sorted({0, 4, *_numbers(rng, 0, 5, 2)})
        shapes.append(tuple(int(np.prod(factors[a:b])) for a, b in pairwise(cuts)))
    return Reshape(*shapes)


def _space_to_depth(rng):
    batch, channels, rows, columns, block = _numbers(rng, 1, 4, 5)
    return SpaceToDepth(batch, channels, rows * block, columns * block, block)


def _shuffle(rng):
    shape, (parts, start, count) = _shape(rng), _numbers(rng, 1, 4, 3)
    axis, each = int(rng.integers(len(shape))), start + count
    shape = (*shape[:axis], parts * each, *shape[axis + 1 :])
    return Shuffle(shape, axis, parts, start, count)


def _with_axis(make):
    def made(rng):
        shape = _shape(rng)
        return make(shape, int(rng.integers(len(shape))))

    return made


_MAKERS = {
    "gemm": _gemm,
    "batched_matmul": _batched,
    "conv2d": _conv2d,
    "pool2d": _pool2d,
    "reduce": _reduce,
    "unary": _unary,
    "binary": _binary,
    "bias": _with_axis(lambda shape, axis: Bias(shape, axis, float(axis + 1))),
    "batch_norm": lambda rng: BatchNorm(_shape(rng)),
    "softmax": _with_axis(Softmax),
    "local_response_norm": lambda rng: LocalResponseNorm(_shape(rng), int(rng.integers(1, 6))),
    "transpose": lambda rng: (
        lambda shape: Transpose(shape, tuple(map(int, rng.permutation(len(shape)))))
    )(_shape(rng)),
    "pad": _pad,
    "slice": _slice,
    "resize": lambda rng: (lambda shape: Resize(shape, _numbers(rng, 1, 4, len(shape))))(
        _shape(rng)
    ),
    "shuffle": _shuffle,
    "space_to_depth": _space_to_depth,
    "concat": _concat,
    "reshape": _reshape,
}
