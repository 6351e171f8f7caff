"""Networks of random operators, and their gradients by central differences."""

import numpy as np

import tilewright as tw
from support.random_operators import random_operator
from tilewright.graph.builder import NetworkBuilder
from tilewright.ops.op import Op

STEP = 1e-5
SMOOTH = ("gemm", "batched_matmul", "conv2d", "pool2d", "reduce", "unary", "binary", "bias",
          "batch_norm", "softmax", "local_response_norm", "transpose", "pad", "slice", "resize",
          "space_to_depth", "concat", "reshape")  # fmt: skip
ROUGH = ("ceil", "floor", "round", "trunc", "sign")
BOUNDED = ("acos", "asin", "atanh", "acosh", "log", "log1p", "sqrt", "reciprocal", "div", "pow",
           "tan", "fmod")  # fmt: skip


def summed(op: Op):
    """A network of one operator and the sum of its result weighted by an input `g`."""
    net = NetworkBuilder("one", "f64")
    inputs = [net.input(f"x{i}", shape) for i, shape in enumerate(op.input_shapes)]
    g = net.input("g", op.out_shape)
    y = net.apply(op, *inputs, name="y")
    axes = ",".join(f"a{d}" for d in range(len(op.out_shape)))
    total = tw.define(f"loss[0] += y[{axes}] * g[{axes}]", y=op.out_shape, g=op.out_shape)
    return net.build((net.apply(total, y, g, name="loss"),)), inputs


def differences(network, feeds, name, loss="loss"):
    """The gradient by central differences."""
    found = np.zeros(feeds[name].shape)
    for place in np.ndindex(found.shape):
        beside = []
        for change in (STEP, -STEP):
            moved = {**feeds, name: feeds[name].copy()}
            moved[name][place] += change
            beside.append(network.evaluate(moved)[loss].sum())
        found[place] = (beside[0] - beside[1]) / (2 * STEP)
    return found


def floats(op):
    """The operator in double precision, of functions that are smooth and defined everywhere."""
    return op.dtype == "f64" and getattr(op, "function", "") not in (*ROUGH, *BOUNDED)


def drawn(rng: np.random.Generator, kind: str):
    """(a network of a random operator and a weighted sum of its result, its operands' names,
    numbers for all).
    """
    op = random_operator(rng, kind)
    while not floats(op):
        op = random_operator(rng, kind)
    network, inputs = summed(op)
    feeds = {t.name: rng.standard_normal(t.shape) for t in network.inputs}
    if kind == "batch_norm":
        feeds["x4"] = np.abs(feeds["x4"]) + 0.5
    return network, inputs, feeds
