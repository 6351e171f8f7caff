"""Small networks under random divisions: unequal tiles, divided sums, any number of cores."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.graph import Network
from tilewright.graph.builder import NetworkBuilder
from tilewright.ops import (
    BatchNorm,
    Bias,
    Concat,
    LocalResponseNorm,
    Pool2d,
    Softmax,
    SpaceToDepth,
    add,
    conv2d,
    flatten,
    gemm,
    relu,
)
from tilewright.ops.box import Box
from tilewright.partition.divided import CoreMemory, Execution, execute
from tilewright.partition.grids import Grid, undivided
from tilewright.partition.layers import Layer, layers_of
from tilewright.partition.parts import Computes, by_reference, divide, tasks_of
from tilewright.partition.plan import PartitionPlan, Planned, given_plan, space
from tilewright.partition.strategies import STRATEGIES

GRIDS = (56, 4, 15, 1)
"""Cores of 7 x 8, 4 x 1, 3 x 5 and 1 x 1 grids."""
_LARGEST = 4
"""Whole numbers up to this keep sums exact."""
KINDS = ("conv", "conv", "conv", "pool", "product", "add", "concat", "other")


@dataclass(frozen=True)
class Case:
    """A network, a plan for it, and numbers."""

    network: Network
    plan: PartitionPlan
    feeds: dict[str, np.ndarray]

    def check(self, computes: Computes = by_reference) -> None:
        """The cores together compute what the reference does."""
        expected = self.network.evaluate(self.feeds)
        for name, found in execute(self.network, self.plan, self.feeds, computes).items():
            np.testing.assert_array_equal(found, expected[name])


def check_layers(network: Network, cores: int) -> None:
    """Every layer from the same small whole numbers, divided and by one core: bit for bit, those
    that round included.
    """
    plan = space(layers_of(network), cores).best()
    _Layers(network, plan, numbers(network, 2)).run()


class _Layers(Execution):
    """Compares each layer with that of one core, and goes on with whole numbers near its result."""

    def _compute(self, planned: Planned) -> None:
        super()._compute(planned)
        layer = planned.layer
        (part,) = divide(layer, undivided(layer), "whole").parts
        whole = CoreMemory(0)
        for name in layer.reads:
            whole.put(name, Box.whole(self._network.tensors[name].shape), self._assembled(name))
        (task,) = tasks_of(layer, part)
        expected = self._first_step(layer, part, task, whole)
        small = np.clip(np.rint(expected), -_LARGEST, _LARGEST)
        for core, own in zip(planned.cores, planned.division.parts, strict=True):
            if own.kept.size:
                memory, place = self.memories[core], own.kept.slices
                np.testing.assert_array_equal(memory.read(layer.output, own.kept), expected[place])
                memory.put(layer.output, own.kept, small[place])


def random_case(seed: int) -> Case:
    """One case; the same for the same seed."""
    random = np.random.default_rng(seed)
    network = random_network(random)
    layers = layers_of(network)
    cores = int(random.integers(1, 12))
    grids = [random_grid(random, layer, cores) for layer in layers]
    plan = given_plan(layers, cores, [("random", grid) for grid in grids])
    return Case(network, plan, numbers(network, seed))


def numbers(network: Network, seed: int) -> dict[str, np.ndarray]:
    """Small whole numbers, so that all sums are exact; variances that have whole roots."""
    random = np.random.default_rng(seed)
    norms = [node for node in network.nodes if isinstance(node.op, BatchNorm)]
    variances = {node.inputs[4] for node in norms}
    return {
        tensor.name: np.full(tensor.shape, 4.0)
        if tensor.name in variances
        else random.integers(-3, 4, tensor.shape).astype(np.float64)
        for tensor in (*network.inputs, *network.weights)
    }


def random_network(random: np.random.Generator) -> Network:
    """One to three layers on small images."""
    while True:
        net = NetworkBuilder("random", "f64")
        shape = (
            int(random.integers(1, 4)),
            int(random.integers(1, 5)),
            *random_pair(random, 4, 10),
        )
        x = net.input("x", shape)
        try:
            for number in range(int(random.integers(1, 4))):
                x = _layer(net, random, x, f"n{number}", str(random.choice(KINDS)))
        except ShapeError:
            continue
        return net.build((x,))


def random_pair(random: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    first, second = random.integers(low, high, 2)
    return int(first), int(second)


def random_grid(random: np.random.Generator, layer: Layer, cores: int) -> Grid:
    """Of a strategy, or cut at random places."""
    if random.random() < 0.4:
        strategy = random.choice(list(STRATEGIES.values()))
        found = strategy.grids(layer, cores)
        if len(found):
            return found.grid(int(random.integers(len(found))))
    left, cuts = cores, []
    for extent in layer.shape:
        cuts.append(_cut(random, extent, left))
        left //= len(cuts[-1])
    if random.random() < 0.3:
        pairs = zip(cuts, layer.shape, strict=True)
        return Grid(tuple(_overlapping(random, found, extent) for found, extent in pairs))
    terms = tuple(_cut(random, extent, left) for extent in layer.op.terms[:1])
    others = tuple(((0, extent),) for extent in layer.op.terms[1:])
    parts = (*terms, *others) if terms and len(terms[0]) > 1 else ()
    return Grid(tuple(cuts), parts, turned=bool(random.random() < 0.5))


def _overlapping(
    random: np.random.Generator, cuts: tuple[tuple[int, int], ...], extent: int
) -> tuple[tuple[int, int], ...]:
    """The intervals, some of them longer than up to where the next one begins."""
    ends = [int(random.integers(b, min(b + 2, extent) + 1)) for _, b in cuts]
    return tuple((a, max(ends[: i + 1])) for i, (a, _) in enumerate(cuts))


def _cut(random: np.random.Generator, extent: int, parts: int) -> tuple[tuple[int, int], ...]:
    count = int(random.integers(1, min(extent, parts) + 1))
    places = sorted(random.choice(np.arange(1, extent), count - 1, replace=False).tolist())
    ends = [0, *places, extent]
    return tuple(itertools.pairwise(ends))


def _layer(net: NetworkBuilder, random: np.random.Generator, x: str, name: str, kind: str) -> str:
    shape = net.shape(x)
    if len(shape) != 4:
        return net.apply(Softmax(shape) if kind == "other" else relu(shape), x, name=name)
    match kind:
        case "conv":
            return _convolution(net, random, x, name)
        case "pool":
            kernel, modes = random_pair(random, 1, 4), random.integers(0, 2, 2)
            padding = tuple(int(random.integers(0, k)) for k in (*kernel, *kernel))
            op = Pool2d("max", *shape, kernel, random_pair(random, 1, 4), padding, bool(modes[0]))
            return net.apply(op, x, name=name)
        case "product":
            batch, inputs = shape[0], int(np.prod(shape[1:]))
            flat = net.apply(flatten(shape), x, name=f"{name}_flat")
            op = gemm(batch, int(random.integers(1, 9)), inputs, transpose_b=True)
            weight = net.weight(f"{name}_w", op.input_shapes[1])
            return net.apply(op, flat, weight, name=name)
        case "add":
            y = net.apply(relu(shape), x, name=f"{name}_relu")
            return net.apply(add(shape), x, y, name=name)
        case "concat":
            y = _convolution(net, random, x, f"{name}_side", same=True)
            return net.apply(Concat((shape, net.shape(y))), x, y, name=name)
        case _:
            ops = [LocalResponseNorm(shape, 3, alpha=0.0), relu(shape)]
            if shape[2] % 2 == 0 and shape[3] % 2 == 0:
                ops.append(SpaceToDepth(*shape, 2))
            return net.apply(ops[int(random.integers(len(ops)))], x, name=name)


def _convolution(
    net: NetworkBuilder, random: np.random.Generator, x: str, name: str, *, same: bool = False
) -> str:
    batch, channels, height, width = net.shape(x)
    groups = int(random.choice([g for g in (1, 2, channels) if channels % g == 0]))
    kernel = (3, 3) if same else random_pair(random, 1, 4)
    op = conv2d(
        batch=batch,
        in_channels=channels,
        out_channels=groups * int(random.integers(1, 5)),
        height=height,
        width=width,
        kernel=kernel,
        stride=1 if same else random_pair(random, 1, 3),
        padding=1 if same else tuple(int(n) for n in random.integers(0, 3, 4)),
        dilation=1 if same else random_pair(random, 1, 3),
        groups=groups,
    )
    x = net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)
    if random.random() < 0.5:
        bias = net.weight(f"{name}_b", (op.out_channels,))
        x = net.apply(Bias(op.out_shape), x, bias, name=f"{name}_bias")
        x = net.apply(relu(op.out_shape), x, name=f"{name}_relu")
    return x


def residual_block(dtype: str = "f64") -> Network:
    """The second block of a stage of ResNet-50, with an eighth of its channels."""
    net = NetworkBuilder("block", dtype)
    x = inputs = net.input("x", (1, 32, 14, 14))
    for number, (channels, kernel) in enumerate(((8, 1), (8, 3), (32, 1))):
        batch, ins, height, width = net.shape(x)
        op = conv2d(batch=batch, in_channels=ins, out_channels=channels, height=height,
                    width=width, kernel=kernel, padding=kernel // 2, dtype=dtype)  # fmt: skip
        name = f"conv{number}"
        x = net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)
        norm = BatchNorm(op.out_shape, epsilon=0.0, dtype=dtype)
        words = ("scale", "shift", "mean", "variance")
        x = net.apply(norm, x, *(net.weight(f"{name}_{w}", (channels,)) for w in words),
                      name=f"{name}_norm")  # fmt: skip
        if number < 2:
            x = net.apply(relu(op.out_shape, dtype=dtype), x, name=f"{name}_relu")
    x = net.apply(add(net.shape(x), dtype=dtype), inputs, x, name="sum")
    return net.build((net.apply(relu(net.shape(x), dtype=dtype), x, name="out"),))
