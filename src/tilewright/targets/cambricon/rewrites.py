"""Networks rewritten for a matrix unit that takes whole windows, and for a host that arranges.

In: a network in fixed point. Out: the same function by other nodes. The sum of squares over
neighbouring channels becomes a product with a matrix of ones and zeros, exact inside it. The first
convolution reads an image of few channels in loading order (Lan et al. 2019, section 3): the host
lays out each window by itself, so that those of many pixels are one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import dtype
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.machine import Machine
from tilewright.ops import (
    Binary,
    Concat,
    Conv2d,
    LocalResponseNorm,
    Op,
    Pad,
    Reshape,
    Transpose,
    conv2d,
)
from tilewright.ops.definition import Computed, one
from tilewright.ops.definitions import Named
from tilewright.ops.elementwise import unary_functions
from tilewright.ops.op import Shape
from tilewright.targets.cambricon.instructions import instruction_cycles
from tilewright.targets.cambricon.round_products import MATRIX

_MOST_CHANNELS = 16
"""Channels of an image that the host lays out: its pixels are repeated for each window."""


def with_band_products(network: Network, elements: str) -> Network:
    """The network with products for the sums over neighbouring channels; `elements` are the types
    of products.
    """
    nodes: list[Node] = []
    weights, values = list(network.weights), dict(network.values)
    for node in network.nodes:
        if not isinstance(node.op, LocalResponseNorm) or len(node.op.shape) != 4:
            nodes.append(node)
            continue
        made = _banded(node, node.op, elements)
        band = made[1].inputs[1]
        weights.append(Tensor(band, made[1].op.input_shapes[1], made[1].op.out_dtype))
        values[band] = _band(node.op, dtype(made[1].op.out_dtype).fraction_bits)
        nodes += made
    return replace(network, nodes=tuple(nodes), weights=tuple(weights), values=values)


def _banded(node: Node, op: LocalResponseNorm, elements: str) -> tuple[Node, Node, Node]:
    """The squares, their sums, and the quotient as the operator defines it."""
    batch, channels, height, width = op.shape
    x, squares = node.inputs[0], Binary("mul", op.shape, op.shape, op.dtype)
    sums = conv2d(batch=batch, in_channels=channels, out_channels=channels, height=height,
                  width=width, kernel=1, dtype=elements)  # fmt: skip
    name = node.name
    return (
        Node(f"{name}_squares", squares, (x, x), f"{node.output}.squares"),
        Node(f"{name}_sums", sums, (f"{node.output}.squares", f"{node.output}.band"),
             f"{node.output}.sums"),
        Node(name, Response(op), (x, f"{node.output}.sums"), node.output),
    )  # fmt: skip


@dataclass(frozen=True)
class Response(Named):
    """The last step of a local response norm: an element over the power of the sum beside it."""

    kind: ClassVar[str] = "response"
    norm: LocalResponseNorm

    @property
    def dtype(self) -> str:
        """The norm's element types."""
        return self.norm.dtype

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The elements and the sums."""
        return self.norm.shape, self.norm.shape

    @property
    def out_shape(self) -> Shape:
        """Of the elements."""
        return self.norm.shape

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """The norm's last one."""
        return one(self.norm.definitions[1].addends[0].definition)

    def describe(self) -> str:
        """The norm that it ends."""
        return f"quotient of {self.norm.describe()}"

    def in_words(self) -> str:
        """The power and the quotient."""
        norm = self.norm
        return f"y = x / ({norm.bias:g} + {norm.alpha / norm.size:g} sums) ** {norm.beta:g}"


def _band(op: LocalResponseNorm, fraction_bits: int) -> Array:
    """Ones where a channel is a neighbour of another: out channels, in channels, 1, 1."""
    number = np.arange(op.shape[1])
    first = number[:, None] - (op.size - 1) // 2
    near = (number[None, :] >= first) & (number[None, :] < first + op.size)
    return (near << fraction_bits).astype(np.int16)[:, :, None, None]


@dataclass(frozen=True)
class Windows:
    """An input as the host lays it out: what is read for some pixels side by side, as channels of
    one; of several the kernel stands at the place of each among zeros.
    """

    tensor: str
    conv: Conv2d
    pixels: int = 1

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns that the pixels read."""
        rows, cols = self.conv.kernel
        return rows, cols + (self.pixels - 1) * self.conv.stride[1]

    @property
    def product(self) -> Conv2d:
        """The convolution as one of pixels whose channels are windows."""
        op = self.conv
        return replace(op, in_channels=op.in_channels * prod(self.reach),
                       out_channels=op.out_channels * self.pixels, height=op.out_height,
                       width=op.out_width // self.pixels, kernel=(1, 1), stride=(1, 1),
                       padding=(0, 0, 0, 0))  # fmt: skip

    @property
    def shape(self) -> Shape:
        """Images, channels by rows and columns of a window, rows, columns of pixels."""
        return self.product.input_shapes[0]

    def arranged(self, image: Array) -> Array:
        """The input in this order."""
        op = self.conv
        top, left, bottom, right = op.padding
        x = np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)))
        every = sliding_window_view(x, self.reach, axis=(2, 3))[
            :, :, :: op.stride[0], :: op.stride[1] * self.pixels
        ]
        return every.transpose(0, 1, 4, 5, 2, 3).reshape(self.shape)

    def cycles(self, machine: Machine) -> float:
        """Of all products; no less than any where the matrix fills more than half its memory."""
        op, pixels = self.product, prod(self.product.out_shape[2:])
        if 2 * prod(op.input_shapes[1]) * 2 > machine.space(MATRIX).capacity_bytes:
            return inf
        size = {"out_size": op.out_channels, "in_size": op.in_channels}
        return float(pixels * instruction_cycles(machine, "mmv", **size))

    def fewest_cycles(self, machine: Machine) -> Windows:
        """The windows with as many pixels in a product as make it best."""
        width = self.conv.out_width
        several = (replace(self, pixels=n) for n in range(2, width + 1) if width % n == 0)
        return min((self, *several), key=lambda own: own.cycles(machine))


def with_windows(network: Network, machine: Machine) -> tuple[Network, tuple[Windows, ...]]:
    """The network that takes inputs in loading order, and those that the host lays out."""
    found: dict[str, Windows] = {}
    nodes: list[Node] = []
    changing = {state.tensor for state in network.states}
    names = {t.name for t in network.inputs} - changing
    fixed = {t.name for t in network.weights} - changing
    done = set[str]()
    for node in network.nodes:
        if _is_first(node, names) and _readers(network, node.inputs[0]) == [node]:
            own = Windows(node.inputs[0], node.op)  # type: ignore[arg-type]
            own = own.fewest_cycles(machine) if node.inputs[1] in fixed else own
            found[node.inputs[0]] = own
            behind = [*_maps_behind(network, node, fixed)] if own.pixels > 1 else []
            done |= {map_.name for map_ in behind}
            nodes += _on_windows(node, own, behind)
        elif node.name not in done:
            nodes.append(node)
    inputs = tuple(
        replace(t, shape=found[t.name].shape) if t.name in found else t for t in network.inputs
    )
    return replace(network, inputs=inputs, nodes=tuple(nodes)), tuple(found.values())


def _readers(network: Network, tensor: str) -> list[Node]:
    return [node for node in network.nodes if tensor in node.inputs]


def _maps_behind(network: Network, node: Node, fixed: set[str]) -> Iterator[Node]:
    """Biases and functions of elements of a result that nothing else reads, one after the other."""
    while node.output not in network.outputs:
        readers = _readers(network, node.output)
        if len(readers) != 1 or not {*readers[0].inputs[1:]} <= fixed:
            return
        (node,) = readers
        bias = node.op.bias_addition
        if node.op.kind not in unary_functions() and (bias is None or bias.axis != 1):
            return
        yield node


def _is_first(node: Node, inputs: set[str]) -> bool:
    """True for a convolution of few channels over an input."""
    op = node.op.convolution
    if op is None or node.inputs[0] not in inputs or node.inputs[1] in inputs:
        return False
    return (
        op.kernel[1] > 1
        and op.dilation == (1, 1)
        and op.groups == 1
        and (op.in_channels <= _MOST_CHANNELS)
    )


def _on_windows(node: Node, windows: Windows, behind: Sequence[Node]) -> Iterator[Node]:
    """The weights as channels of a pixel, and the convolution of pixels; maps `behind` it are of
    pixels side by side, too.
    """
    (x, w), conv, pixels = node.inputs, windows.product, windows.pixels
    own, step = windows.conv.input_shapes[1], windows.conv.stride[1]
    if pixels > 1:
        ends = [(i * step, (pixels - 1 - i) * step) for i in range(pixels)]
        pads = [Pad(own, (0, 0, 0, a), (0, 0, 0, b), dtype=conv.out_dtype) for a, b in ends]
        names = tuple(f"{w}.at_{i}" for i in range(pixels))
        for i, pad in enumerate(pads):
            yield Node(f"{node.name}_at_{i}", pad, (w,), names[i])
        beside = Concat(tuple(pad.out_shape for pad in pads), 0, conv.out_dtype)
        own, w = beside.out_shape, f"{w}.beside"
        yield Node(f"{node.name}_beside", beside, names, w)
    as_channels = Reshape(own, conv.input_shapes[1], conv.out_dtype)
    yield Node(f"{node.name}_windows", as_channels, (w,), f"{w}.windows")
    made = node.output if pixels == 1 else f"{node.output}.beside"
    yield replace(node, op=conv, inputs=(x, f"{w}.windows"), output=made)
    for own_map in behind:
        operands = own_map.inputs[1:]
        if operands:
            repeated = Concat((own_map.op.input_shapes[1],) * pixels, 0, own_map.op.out_dtype)
            numbers = f"{own_map.output}.bias"
            yield Node(f"{own_map.name}_bias", repeated, operands * pixels, numbers)
            operands = (numbers,)
        op = replace(own_map.op, shape=conv.out_shape)  # type: ignore[type-var]
        made, x = f"{own_map.output}.beside", made
        yield replace(own_map, op=op, inputs=(x, *operands), output=made)
    if pixels > 1:
        yield from _side_by_side(behind[-1] if behind else node, made, windows)


def _side_by_side(node: Node, made: str, windows: Windows) -> Iterator[Node]:
    """The channels of several pixels as pixels: memory has them so, with channels last."""
    kind, own, out = node.op.out_dtype, windows.product.out_shape, windows.conv.out_shape
    channels_last, channels_second = (0, 2, 3, 1), (0, 3, 1, 2)
    before, after = (tuple(shape[d] for d in channels_last) for shape in (own, out))
    moves: tuple[Op, ...] = (
        Transpose(own, channels_last, kind),
        Reshape(before, after, kind),
        Transpose(after, channels_second, kind),
    )
    for number, move in enumerate(moves):
        to = node.output if move is moves[-1] else f"{made}_{number}"
        yield Node(f"{node.name}_side_by_side_{number}", move, (made,), to)
        made = to


def with_whole_images(network: Network, elements: str) -> Network:
    """The network with a convolution by windows as large as the image for each product of flattened
    images: its weights take the order in which images lie.
    """
    readers = Counter(name for node in network.nodes for name in node.inputs)
    readers.update(network.outputs)
    flat = {n.output: n for n in network.nodes if n.op.reshapes and len(n.op.input_shapes[0]) == 4}
    weights = {t.name for t in network.weights}
    nodes: list[Node] = []
    dropped: set[str] = set()
    for node in network.nodes:
        before = flat.get(node.inputs[0]) if node.inputs else None
        own = node.op.matrix_product
        rows = own is not None and own.transpose_b and not own.transpose_a
        known = rows and before and node.inputs[1] in weights and readers[before.output] == 1
        if known and before and before.op.out_shape[0] == before.op.input_shapes[0][0]:
            nodes += _on_images(node, before, elements)
            dropped.add(before.name)
        else:
            nodes.append(node)
    return replace(network, nodes=tuple(n for n in nodes if n.name not in dropped))


def _on_images(node: Node, flatten: Node, elements: str) -> tuple[Node, Node, Node]:
    """The weights as windows, the convolution, and its result as a matrix."""
    (batch, channels, height, width), (x,) = flatten.op.input_shapes[0], flatten.inputs
    features, kind = node.op.out_shape[1], node.op.out_dtype
    shape = (features, channels, height, width)
    conv = conv2d(batch=batch, in_channels=channels, out_channels=features, height=height,
                  width=width, kernel=(height, width), dtype=elements)  # fmt: skip
    w, windows, made = node.inputs[1], f"{node.output}.windows", f"{node.output}.pixels"
    as_windows = Reshape(node.op.input_shapes[1], shape, kind)
    as_matrix = Reshape(conv.out_shape, node.op.out_shape, kind)
    return (
        Node(f"{node.name}_windows", as_windows, (w,), windows),
        Node(node.name, conv, (x, windows), made),
        Node(f"{node.name}_matrix", as_matrix, (made,), node.output),
    )


def with_separate_pools(network: Network) -> Network:
    """The network with the largest of windows that overlap by columns, then by rows: whole rows of
    an image are one run, and a column's largest is found once.
    """
    nodes: list[Node] = []
    for node in network.nodes:
        op = node.op.pooling
        if op is None or op.reduction != "max" or 1 in op.kernel or op.kernel == op.stride:
            nodes.append(node)
            continue
        (kernel_rows, kernel_cols), (by_rows, by_cols) = op.kernel, op.stride
        top, left, bottom, right = op.padding
        columns = replace(op, kernel=(kernel_rows, 1), stride=(by_rows, 1),
                          padding=(top, 0, bottom, 0))  # fmt: skip
        rows = replace(op, height=columns.out_shape[2], kernel=(1, kernel_cols),
                       stride=(1, by_cols), padding=(0, left, 0, right))  # fmt: skip
        between = f"{node.output}.columns"
        nodes.append(Node(f"{node.name}_columns", columns, node.inputs, between))
        nodes.append(replace(node, op=rows, inputs=(between,)))
    return replace(network, nodes=tuple(nodes))


def with_rows_first(network: Network) -> Network:
    """The network with transposes in front of products of a transposed first operand: vectors of
    terms are runs of elements.
    """
    nodes: list[Node] = []
    for node in network.nodes:
        op = node.op.matrix_product
        if op is not None and op.transpose_a:
            x, *others = node.inputs
            turned = f"{node.output}.turned"
            move = Transpose(op.input_shapes[0], (1, 0), op.out_dtype)
            nodes.append(Node(f"{node.name}_turned", move, (x,), turned))
            node = replace(node, op=replace(op, transpose_a=False), inputs=(turned, *others))
        nodes.append(node)
    return replace(network, nodes=tuple(nodes))
