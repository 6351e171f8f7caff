"""Random small networks of all operators, computed by random candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from hypothesis import strategies as st

from support.candidates import Machines, candidate
from support.native import quick_library
from tilewright.codegen.artifact import Array
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network, Tensor, merged_network
from tilewright.graph.weights import random_weights
from tilewright.machine import Machine
from tilewright.network.planning.products import Ranked
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
    Slice,
    Softmax,
    SpaceToDepth,
    Transpose,
    Unary,
    average_pool2d,
    conv2d,
    flatten,
    gemm,
    max_pool2d,
)
from tilewright.seeds.space import seeds_for
from tilewright.targets.host.network.generate import network_code
from tilewright.targets.host.network.run import LoadedNetwork, NetworkCode
from tilewright.tune.candidate import Candidate

UNARY = ("relu", "leaky_relu", "tanh", "sigmoid", "clip", "abs", "elu")
MOST_LAYERS = 6
TOLERANCE = {"f32": 1e-4, "f64": 1e-11}
"""Of the largest number of an output; sums are taken in another order than the reference's."""


@st.composite
def networks(
    draw: st.DrawFn, dtypes: Sequence[str] = ("f32", "f64"), *, moving: bool = False
) -> Network:
    """Convolutions with what stands around them, joined by sums and concatenations, a head;
    `moving`: also what moves and reduces.
    """
    net = NetworkBuilder(
        draw(st.sampled_from(["net", "exp", "../x y"])), draw(st.sampled_from(dtypes))
    )
    side = draw(st.sampled_from([4, 6, 8]))
    channels = draw(st.sampled_from([1, 3, 4, 18]))
    batch = draw(st.sampled_from([1, 2, 4, 5, 8, 9] if moving else [1, 2]))
    x = net.input(
        draw(st.sampled_from(["x", "in/put 0", "*/ main"])), (batch, channels, side, side)
    )
    before = [x]
    for number in range(draw(st.integers(1, MOST_LAYERS))):
        moved = moving and draw(st.sampled_from([False, False, True]))
        x = draw((moves if moved else layers)(net, x, before, f"l{number}"))
        before.append(x)
    outputs = (x,)
    if draw(st.booleans()):
        outputs = (head(net, x), x)
    return net.build(outputs)


ANY = networks(moving=True)


@st.composite
def layers(draw: st.DrawFn, net: NetworkBuilder, x: str, before: list[str], name: str) -> str:
    """One more operator on x."""
    shape, dtype = net.shape(x), net.dtype
    alike = [t for t in before if net.shape(t) == shape and t != x]
    kinds = ["conv", "conv", "conv", "unary", "norm", "bias", "pool", "response"]
    kinds += ["sum", "sum", "concat"] * bool(alike) + ["depth"] * (shape[2] % 2 == 0)
    match draw(st.sampled_from(kinds)):
        case "conv":
            return draw(convolution(net, x, name))
        case "unary":
            op = Unary(draw(st.sampled_from(UNARY)), shape, 0.25, 0.5, dtype)
            return net.apply(op, x, name=name)
        case "norm":
            return norm(net, x, name)
        case "bias":
            bias = net.weight(f"{name}_b", (shape[1],))
            axis = draw(st.sampled_from([1, 1, 2])) if shape[2] == shape[1] else 1
            return net.apply(Bias(shape, axis, dtype=dtype), x, bias, name=name)
        case "pool":
            pool = draw(st.sampled_from([max_pool2d, average_pool2d]))
            stride, padding = draw(st.sampled_from([(1, 1), (2, 0), (2, 1)]))
            kernel = min(draw(st.sampled_from([2, 3])), min(shape[2:]) + 2 * padding)
            padding = min(padding, kernel - 1)
            op = pool(shape, kernel, stride=stride, padding=padding, dtype=dtype)
            return net.apply(op, x, name=name)
        case "response":
            beta = draw(st.sampled_from([0.75, 0.5]))
            op = LocalResponseNorm(shape, 3, beta=beta, dtype=dtype)
            return net.apply(op, x, name=name)
        case "sum":
            function = draw(st.sampled_from(["add", "sub", "mul", "max"]))
            other = draw(st.sampled_from(alike))
            return net.apply(Binary(function, shape, shape, dtype), other, x, name=name)
        case "concat":
            other = draw(st.sampled_from(alike))
            return net.apply(Concat((shape, shape), 1, dtype), x, other, name=name)
        case _:
            if shape[2] % 2 or shape[3] % 2:
                return x
            return net.apply(SpaceToDepth(*shape, 2, dtype), x, name=name)


@st.composite
def moves(draw: st.DrawFn, net: NetworkBuilder, x: str, before: list[str], name: str) -> str:
    """One more operator that moves or reduces the elements of x."""
    shape, dtype = net.shape(x), net.dtype
    _, _, rows, columns = shape
    kinds = ["transpose", "pad", "slice", "resize", "reduce", "softmax", "reshape", "reshape"]
    match draw(st.sampled_from(kinds)):
        case "transpose":
            order = draw(st.sampled_from([(0, 1, 3, 2), (0, 3, 2, 1), (0, 2, 3, 1)]))
            return net.apply(Transpose(shape, order, dtype), x, name=name)
        case "pad":
            ends = st.tuples(st.just(0), *[st.integers(0, 2)] * 3)
            value = draw(st.sampled_from([0.0, 1.0]))
            return net.apply(Pad(shape, draw(ends), draw(ends), value, dtype), x, name=name)
        case "slice":
            step = (1, draw(st.integers(1, 2)), 1, draw(st.integers(1, 2)))
            start = (0, *(draw(st.integers(0, min(2, n - 1))) for n in shape[1:]))
            numbers = zip(shape, start, step, strict=True)
            counts = tuple(-(-(n - first) // by) for n, first, by in numbers)
            return net.apply(Slice(shape, start, counts, step, dtype), x, name=name)
        case "resize":
            factors = (1, 1, 2, draw(st.integers(1, 3))) if rows * columns < 65 else (1, 2, 1, 1)
            return net.apply(Resize(shape, factors, dtype), x, name=name)
        case "reduce":
            return draw(reduction(net, x, name))
        case "softmax":
            return net.apply(Softmax(shape, draw(st.integers(0, 3)), dtype), x, name=name)
        case _:
            return draw(reshaped(net, x, name))


@st.composite
def reduction(draw: st.DrawFn, net: NetworkBuilder, x: str, name: str) -> str:
    """One or two dimensions of x, any of them, as one element each."""
    shape = net.shape(x)
    function = draw(st.sampled_from(["max", "mean", "min", "sum"]))
    axis = st.sampled_from([*range(len(shape)), *range(1, len(shape)), len(shape) - 1])
    axes = draw(st.lists(axis, min_size=1, max_size=2, unique=True))
    return net.apply(Reduce(function, shape, tuple(sorted(axes)), net.dtype), x, name=name)


@st.composite
def reshaped(draw: st.DrawFn, net: NetworkBuilder, x: str, name: str) -> str:
    """The elements of x under another shape, what computes on that, and images again."""
    y = draw(under_another_shape(net, x, f"{name}_to", draw(st.integers(1, 5))))
    for number in range(draw(st.integers(0, 3))):
        shape, own, every = net.shape(y), f"{name}_{number}", range(len(net.shape(y)))
        match draw(st.sampled_from(["unary", "unary", "bias", "transpose", "softmax", "reduce"])):
            case "unary":
                op: Op = Unary(draw(st.sampled_from(UNARY)), shape, 0.25, 0.5, net.dtype)
                y = net.apply(op, y, name=own)
            case "bias":
                axis = draw(st.sampled_from(every))
                bias = net.weight(f"{own}_b", (shape[axis],))
                y = net.apply(Bias(shape, axis, dtype=net.dtype), y, bias, name=own)
            case "transpose":
                order = draw(st.permutations(every))
                y = net.apply(Transpose(shape, tuple(order), net.dtype), y, name=own)
            case "softmax":
                op = Softmax(shape, draw(st.sampled_from(every)), net.dtype)
                y = net.apply(op, y, name=own)
            case _:
                y = draw(reduction(net, y, own))
    y = draw(under_another_shape(net, y, f"{name}_back", 4))
    if draw(st.booleans()):
        y = net.apply(Unary("relu", net.shape(y), dtype=net.dtype), y, name=f"{name}_relu")
    return y


@st.composite
def under_another_shape(draw: st.DrawFn, net: NetworkBuilder, x: str, name: str, rank: int) -> str:
    """A reshape to so many dimensions, which often keeps the first one."""
    shape = net.shape(x)
    kept = shape[:1] if rank > 1 and draw(st.sampled_from([True, True, False])) else ()
    found, rest = list(kept), prod(shape[len(kept) :])
    while len(found) + 1 < rank:
        found.append(draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0])))
        rest //= found[-1]
    return net.apply(Reshape(shape, (*found, rest), net.dtype), x, name=name)


@st.composite
def convolution(draw: st.DrawFn, net: NetworkBuilder, x: str, name: str) -> str:
    """A convolution, often with normalisation, bias, sum and activation."""
    batch, channels, height, width = net.shape(x)
    kernel = draw(st.sampled_from([1, 1, 3]))
    groups = 2 if channels % 2 == 0 and draw(st.sampled_from([False, False, True])) else 1
    op = conv2d(
        batch=batch, in_channels=channels, out_channels=2 * draw(st.integers(1, 10)),
        height=height, width=width, kernel=kernel, groups=groups, dtype=net.dtype,
        padding=1 if kernel > min(height, width) else draw(st.sampled_from([0, 1])),
        stride=draw(st.sampled_from([1, 1, 2])),
    )  # fmt: skip
    y = net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)
    if draw(st.booleans()):
        y = norm(net, y, f"{name}_n")
    if net.shape(y) == net.shape(x) and draw(st.booleans()):
        y = net.apply(Binary("add", net.shape(y), net.shape(y), net.dtype), x, y, name=f"{name}_s")
    if draw(st.booleans()):
        y = net.apply(Unary("relu", net.shape(y), dtype=net.dtype), y, name=f"{name}_r")
    return y


def norm(net: NetworkBuilder, x: str, name: str) -> str:
    op = BatchNorm(net.shape(x), dtype=net.dtype)
    words = ("scale", "shift", "mean", "variance")
    values = [net.weight(f"{name}_{w}", op.input_shapes[1]) for w in words]
    return net.apply(op, x, *values, name=name)


def head(net: NetworkBuilder, x: str) -> str:
    """A classifier."""
    flat = net.apply(flatten(net.shape(x), dtype=net.dtype), x, name="flat")
    rows, columns = net.shape(flat)
    op = gemm(rows, 5, columns, transpose_b=True, dtype=net.dtype)
    y = net.apply(op, flat, net.weight("head_w", (5, columns)), name="head")
    return net.apply(Softmax((rows, 5), dtype=net.dtype), y, name="prob")


@st.composite
def joined_networks(draw: st.DrawFn) -> Network:
    """Convolutions of one tensor, side by side along any axis, and perhaps one that reads all."""
    net = NetworkBuilder("joined", draw(st.sampled_from(["f32", "f64"])))
    channels = draw(st.sampled_from([1, 3, 4, 16, 18]))
    shape = (draw(st.sampled_from([1, 1, 2])), channels, *draw(st.tuples(*[st.integers(1, 9)] * 2)))
    x, axis, parts = net.input("x", shape), draw(st.sampled_from([1, 1, 1, 2, 3])), list[str]()
    for number in range(draw(st.integers(2, 4))):
        out = draw(st.sampled_from([1, 2, 5, 16, 17, 40])) if axis == 1 else channels
        y = draw(same_size(net, x, f"p{number}", out))
        if draw(st.booleans()):
            bias = net.weight(f"b{number}", (out,))
            y = net.apply(Bias(net.shape(y), dtype=net.dtype), y, bias, name=f"p{number}_b")
        if out == channels and draw(st.booleans()):
            y = net.apply(Binary("add", shape, shape, net.dtype), x, y, name=f"p{number}_s")
        parts.append(y)
    joined = net.apply(Concat(tuple(map(net.shape, parts)), axis, net.dtype), *parts, name="joined")
    read = draw(same_size(net, joined, "read", 3)) if draw(st.booleans()) else joined
    return net.build((read, *draw(st.sampled_from([(), (parts[0],)]))))


@st.composite
def same_size(draw: st.DrawFn, net: NetworkBuilder, x: str, name: str, out: int) -> str:
    """A convolution whose images are as large as those that it reads, by channels if it can."""
    batch, channels, height, width = net.shape(x)
    kernel = draw(st.sampled_from([1, 3]))
    op = conv2d(
        batch=batch, in_channels=channels, out_channels=out, height=height, width=width,
        kernel=kernel, padding=kernel // 2, dtype=net.dtype,
        groups=draw(st.sampled_from([1, channels])) if out == channels else 1,
    )  # fmt: skip
    return net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)


@st.composite
def ranked_networks(
    draw: st.DrawFn, machines: Machines, given: st.SearchStrategy[Network] = ANY
) -> tuple[Network, Machine, Ranked]:
    """A network, any or a `given` one, with random candidates of random layouts."""
    network, machine = draw(given), draw(st.sampled_from(machines))
    chosen: dict[Op, Candidate] = {}
    for op in dict.fromkeys(op for _, op in network.layers()):
        known = [s.name for s in seeds_for(op, addressed=True)] + ["prepacked"] * (
            op.kind == "gemm"
        )
        algorithm = draw(st.sampled_from(known))
        unpriced = candidate(draw, op, algorithm, machine)
        nests = tuple(replace(nest, cycles=1e6) for nest in unpriced.nests)
        chosen[op] = replace(unpriced, nests=nests)
    return network, machine, Ranked({op: (found,) for op, found in chosen.items()})


@st.composite
def compiled_networks(
    draw: st.DrawFn, machines: Machines, given: st.SearchStrategy[Network] = ANY
) -> tuple[Network, NetworkCode]:
    """A network, any or a `given` one, and its code by random candidates of random layouts."""
    network, machine, ranked = draw(ranked_networks(machines, given))
    return network, network_code(network, machine, ranked)


def merged(parts: Sequence[Network]) -> Network:
    """Networks side by side as one; the tensors of number `i` are called `i/...`."""
    names = [{name: f"{number}/{name}" for name in part.tensors} for number, part in
             enumerate(parts)]  # fmt: skip
    return merged_network("merged", parts, names, [f"n{number}" for number in range(len(parts))])


def quickly_loaded(code: NetworkCode) -> LoadedNetwork:
    """The network's library without the optimiser."""
    return LoadedNetwork(code, quick_library(code.files, code.flags))


def numbers_for(network: Network) -> tuple[dict[str, Array], dict[str, Array]]:
    """(weights, inputs)."""
    generator = np.random.default_rng(1)
    kind = {"f32": np.float32, "f64": np.float64}[network.inputs[0].dtype]
    inputs = {t.name: generator.standard_normal(t.shape).astype(kind) for t in network.inputs}
    return random_weights(network), inputs


def small_integers(network: Network) -> tuple[dict[str, Array], dict[str, Array]]:
    """(weights, inputs) of small integers; variances are squares."""
    generator = np.random.default_rng(1)
    kind = {"f32": np.float32, "f64": np.float64}[network.inputs[0].dtype]

    def numbers(t: Tensor) -> Array:
        if t.name.endswith("variance"):
            return np.full(t.shape, 4, kind)
        return generator.integers(-2, 3, t.shape).astype(kind)

    return {t.name: numbers(t) for t in network.weights}, {
        t.name: numbers(t) for t in network.inputs
    }
