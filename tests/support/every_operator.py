"""A network with an output for every operator that some stage computes."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.ops import (
    BatchNorm,
    Bias,
    Binary,
    Concat,
    LocalResponseNorm,
    Op,
    Pad,
    Reduce,
    Reshape,
    Resize,
    Shuffle,
    Slice,
    Softmax,
    SpaceToDepth,
    Transpose,
    Unary,
    average_pool2d,
    conv2d,
    gemm,
    max_pool2d,
)
from tilewright.ops.definitions import Assembly, Named
from tilewright.ops.elementwise import binary_functions, unary_functions
from tilewright.ops.notation import operator_of

SHAPE = (2, 4, 6, 6)
DILATED = operator_of(
    "y[n,i,r,c] max= x[n,i,r+2*u-2,c]", n=2, i=4, r=6, c=6, u=3, x=SHAPE, fill=-inf
)
EVEN, ODD = (
    replace(operator_of(text, n=2, i=4, r=6, c=6, y=(2, 4, 6, 12)), dtype="f32")
    for text in ("y[n,i,r,2*c] = x[n,i,r,c]", "y[n,i,r,2*c+1] = 2 * x[n,i,r,c]")
)
ALONE: list[Op] = [
    replace(DILATED, dtype="f32"),
    Assembly((EVEN, ODD), ((0,), (0,)), "f32"),
    max_pool2d(SHAPE, 3, stride=2, padding=1, dtype="f32"),
    average_pool2d(SHAPE, 3, stride=2, padding=1, dtype="f32"),
    average_pool2d(SHAPE, 3, stride=1, padding=1, count_padding=False, dtype="f32"),
    Softmax(SHAPE, 1, "f32"),
    LocalResponseNorm(SHAPE, 3, dtype="f32"),
    *(Reduce(name, SHAPE, (1, 3), "f32") for name in ("max", "mean", "min", "sum")),
    Pad(SHAPE, (0, 1, 0, 2), (1, 0, 2, 1), 1.5, "f32"),
    Reshape(SHAPE, (8, 36), "f32"),
    Resize(SHAPE, (1, 1, 2, 3), "f32"),
    Slice(SHAPE, (0, 1, 0, 1), (2, 2, 3, 3), (1, 1, 2, 2), "f32"),
    Shuffle(SHAPE, 1, 2, 0, 1, "f32"),
    SpaceToDepth(*SHAPE, 2, "f32"),
    Transpose(SHAPE, (0, 2, 3, 1), "f32"),
    *(Unary(name, SHAPE, 0.2, 0.5, "f32") for name in unary_functions()),
]
"""Operators of one operand; parameters are those of a clip and of a slope."""
CONVOLUTION = conv2d(
    batch=2, in_channels=4, out_channels=6, height=6, width=6, kernel=3, padding=1, dtype="f32"
)  # fmt: skip
TOGETHER: list[Op] = [
    Concat((SHAPE, SHAPE), 1, "f32"),
    *(Binary(name, SHAPE, SHAPE, "f32") for name in binary_functions()),
    Bias(SHAPE, 1, dtype="f32"),
    Bias(SHAPE, 2, scale=0.5, dtype="f32"),
    BatchNorm(SHAPE, 1e-5, "f32"),
    CONVOLUTION,
    gemm(5, 7, 6, dtype="f32"),
    gemm(5, 7, 6, transpose_a=True, transpose_b=True, dtype="f32"),
]
"""Operators of several operands."""


def named_classes(of: type = Named) -> set[type]:
    """Every class of operators that have names."""
    below = {found for own in of.__subclasses__() for found in named_classes(own)}
    return below | ({of} if "dtype" in vars(of).get("__annotations__", ()) else set())


def every_operator() -> Network:
    """Each operator on inputs, and those of several operands on weights behind the first, too."""
    net = NetworkBuilder("every", "f32")
    x, outputs = net.input("x", SHAPE), []
    for number, op in enumerate(ALONE):
        outputs.append(net.apply(op, x, name=f"alone{number}"))
    for number, op in enumerate(TOGETHER):
        first, *others = op.input_shapes
        given = net.input(f"x{number}", first)
        beside = [net.input(f"x{number}_{i}", shape) for i, shape in enumerate(others)]
        weights = [net.weight(f"w{number}_{i}", shape) for i, shape in enumerate(others)]
        outputs.append(net.apply(op, given, *beside, name=f"computed{number}"))
        outputs.append(net.apply(op, given, *weights, name=f"weighted{number}"))
    return net.build(tuple(outputs))
