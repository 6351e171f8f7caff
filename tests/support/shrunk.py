"""Known networks with fewer channels and pixels, and integers on which they are exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.codegen.artifact import Array
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.ops import (
    Concat,
    Conv2d,
    Gemm,
    LocalResponseNorm,
    Pool2d,
    Softmax,
    SpaceToDepth,
    Unary,
    flatten,
)
from tilewright.ops.op import Op, Shape

SIZES = {"alexnet": (67, 16), "resnet50": (64, 32), "vgg16": (32, 64), "yolov2": (64, 64)}
"""Pixels along a side of an image, and how many times fewer channels, of each network."""
_TAPS = 3
"""Weights of a channel that are not zero: sums grow slowly enough to stay exact in 50 layers."""


def shrunk(network: Network, side: int, fewer: int) -> Network:
    """The network without a softmax at its end on images of `side` pixels, with one of `fewer`
    channels. Normalisation over channels divides by 4 whatever the channels are,
    and leaky rectifiers halve.
    """
    (images,) = network.inputs
    net = NetworkBuilder(network.name, images.dtype)
    net.input(images.name, (*images.shape[:2], side, side))
    nodes = [node for node in network.nodes if not isinstance(node.op, Softmax)]
    for node in nodes:
        op = _smaller(node.op, [net.shape(x) for x in node.inputs if net.has(x)], fewer)
        named = zip(node.inputs, op.input_shapes, strict=True)
        inputs = [x if net.has(x) else net.weight(x, shape) for x, shape in named]
        net.apply(op, *inputs, name=node.name, output=node.output)
    return net.build((nodes[-1].output,))


def _smaller(op: Op, shapes: list[Shape], fewer: int) -> Op:
    shape = shapes[0]
    match op:
        case Conv2d():
            out = op.groups * max(1, op.out_channels // op.groups // fewer)
            return replace(
                op, in_channels=shape[1], out_channels=out, height=shape[2], width=shape[3]
            )
        case Gemm():
            return replace(op, n=max(2, op.n // fewer), k=shape[1])
        case Pool2d():
            whole = op.kernel == (op.height, op.width)
            window = {"kernel": shape[2:], "stride": shape[2:]} if whole else {}
            return replace(op, channels=shape[1], height=shape[2], width=shape[3], **window)

        case SpaceToDepth():
            return replace(op, channels=shape[1], height=shape[2], width=shape[3])
        case Concat():
            return replace(op, input_shapes=tuple(shapes))
        case LocalResponseNorm():
            return replace(op, shape=shape, alpha=0.0, beta=0.5, bias=16.0)
        case _ if op.kind == "reshape":
            return flatten(shape, dtype=op.dtype)
        case _ if op.kind == "add":
            return replace(op, a_shape=shape, b_shape=shape)
        case Unary(function="leaky_relu"):
            return replace(op, shape=shape, alpha=0.5)
        case _:
            return replace(op, shape=shape)


def integers(network: Network) -> tuple[dict[str, Array], dict[str, Array]]:
    """(weights, inputs) of which all sums are exact."""
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.integers(-2, 3, t.shape).astype(float) for t in network.inputs}
    weights = {t.name: _numbers(rng, t.name, t.shape) for t in network.weights}
    return weights, inputs


def _numbers(rng: np.random.Generator, name: str, shape: Shape) -> Array:
    found: Any
    if name.endswith("variance"):
        return np.full(shape, 1 - 1e-5)
    if len(shape) == 1:
        return rng.integers(-2, 3, shape).astype(float) if "scale" not in name else np.ones(shape)
    found = np.zeros((shape[0], int(np.prod(shape[1:]))))
    for row in found:
        row[rng.integers(0, len(row), _TAPS)] = rng.choice([-1.0, 1.0], _TAPS)
    return found.reshape(shape)
