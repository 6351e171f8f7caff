"""First convolutions whose images the host lays out in loading order (Lan et al. 2019, section 3).

In: a network in fixed point. Out: an equivalent network of products of windows, and the layout in
which the host stores each image of few channels: window by window, so that the windows of many
pixels are one run. The gradient of the weights reads a second copy, by the weight each pixel meets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tilewright.codegen.artifact import Array
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.machine import Machine
from tilewright.ops import Concat, Conv2d, Op, Pad, Reshape, Transpose, gemm
from tilewright.ops.elementwise import unary_functions
from tilewright.ops.op import Shape
from tilewright.targets.cambricon.instructions import instruction_cycles
from tilewright.targets.cambricon.round_products import MATRIX

_MOST_CHANNELS = 16
"""Most channels of an image that the host lays out; its pixels are repeated in each window."""


@dataclass(frozen=True)
class HostWindows:
    """An input as the host lays it out: the window of `pixels` neighbouring pixels as the channels
    of one pixel. With several, each has a copy of the kernel in its place among zeros. The gradient
    of the weights reads a second input, `by_taps`: everything each weight meets, in all images.
    """

    tensor: str
    conv: Conv2d
    pixels: int = 1
    by_taps: Tensor | None = None

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns that the pixels of one window read."""
        rows, cols = self.conv.kernel
        return rows, cols + (self.pixels - 1) * self.conv.stride[1]

    @property
    def product(self) -> Conv2d:
        """The convolution as one of single pixels whose channels are windows."""
        op = self.conv
        return replace(op, in_channels=op.in_channels * prod(self.reach),
                       out_channels=op.out_channels * self.pixels, height=op.out_height,
                       width=op.out_width // self.pixels, kernel=(1, 1), stride=(1, 1),
                       padding=(0, 0, 0, 0))  # fmt: skip

    @property
    def shape(self) -> Shape:
        """Images, channels times rows and columns of a window, rows, columns of pixels."""
        return self.product.input_shapes[0]

    def arranged(self, image: Array) -> dict[str, Array]:
        """The input in this order, and by taps if the gradient needs it."""
        found = {self.tensor: (windows := self._windows(image))}
        if self.by_taps:
            found[self.by_taps.name] = windows.swapaxes(0, 1).reshape(self.by_taps.shape)
        return found

    def _windows(self, image: Array) -> Array:
        op = self.conv
        top, left, bottom, right = op.padding
        x = np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)))
        every = sliding_window_view(x, self.reach, axis=(2, 3))[
            :, :, :: op.stride[0], :: op.stride[1] * self.pixels
        ]
        return every.transpose(0, 1, 4, 5, 2, 3).reshape(self.shape)

    def cycles(self, machine: Machine) -> float:
        """Cycles of all products; infinite if the matrix would fill more than half its memory."""
        op, pixels = self.product, prod(self.product.out_shape[2:])
        if 2 * prod(op.input_shapes[1]) * 2 > machine.space(MATRIX).capacity_bytes:
            return inf
        size = {"out_size": op.out_channels, "in_size": op.in_channels}
        return float(pixels * instruction_cycles(machine, "mmv", **size))

    def fewest_cycles(self, machine: Machine) -> HostWindows:
        """The windows with the number of pixels per product that takes the fewest cycles."""
        width = self.conv.out_width
        several = (replace(self, pixels=n) for n in range(2, width + 1) if width % n == 0)
        return min((self, *several), key=lambda own: own.cycles(machine))


def with_windows(network: Network, machine: Machine) -> tuple[Network, tuple[HostWindows, ...]]:
    """The network that takes inputs in loading order, and the layouts of those inputs."""
    found: dict[str, HostWindows] = {}
    nodes: list[Node] = []
    changing = {state.tensor for state in network.states}
    names = {t.name for t in network.inputs} - changing
    fixed = {t.name for t in network.weights} - changing
    done = set[str]()
    for node in network.nodes:
        own = _first_windows(network, node) if _is_first(node, names) else None
        if own is not None:
            own = own.fewest_cycles(machine) if node.inputs[1] in fixed else own
            found[node.inputs[0]] = own
            behind = [*_maps_behind(network, node, fixed)] if own.pixels > 1 else []
            done |= {n.name for n in (*behind, *network.readers(own.tensor))}
            nodes += _on_windows(node, own, behind)
        elif sums := next((s for s in found.values() if _sums_taps(node, s.conv)), None):
            assert sums.by_taps
            nodes += _on_taps(node, sums.by_taps)
        elif node.name not in done:
            nodes.append(node)
    inputs = (
        replace(t, shape=found[t.name].shape) if t.name in found else t for t in network.inputs
    )
    taps = (own.by_taps for own in found.values() if own.by_taps)
    return replace(network, inputs=(*inputs, *taps), nodes=tuple(nodes)), tuple(found.values())


def _first_windows(network: Network, node: Node) -> HostWindows | None:
    """A first convolution's windows; None where more than its weights' gradient reads the image."""
    assert node.op.convolution
    own = HostWindows(node.inputs[0], node.op.convolution)
    others = [n for n in network.readers(own.tensor) if n is not node]
    if not others:
        return own
    swapped = others[0]
    sums = network.readers(swapped.output)
    if len(others) > 1 or len(sums) != 1 or not _sums_taps(sums[0], own.conv):
        return None
    if swapped.op != Transpose(own.conv.input_shapes[0], (1, 0, 2, 3), own.conv.out_dtype):
        return None
    if sums[0].inputs[0] != swapped.output or swapped.output in network.outputs:
        return None
    product, dy = own.product, own.conv.out_shape
    shape = (product.in_channels, dy[0] * dy[2] * dy[3])
    return replace(own, by_taps=Tensor(f"{own.tensor}.by_taps", shape, own.conv.out_dtype))


def _sums_taps(node: Node, conv: Conv2d) -> bool:
    """True for the gradient of a convolution's weights: a convolution with images as channels that
    has as many taps as the weights.
    """
    op = node.op.convolution
    if op is None or op.groups != 1 or op.stride != (1, 1) or op.dilation != conv.stride:
        return False
    channels, images = op.input_shapes[0][:2]
    same = (images, channels, op.input_shapes[0][2:]) == (
        conv.batch, conv.in_channels, conv.input_shapes[0][2:])  # fmt: skip
    taps = op.out_shape[1:] == (conv.out_channels, *conv.kernel)
    return same and taps and op.kernel == conv.out_shape[2:] and op.padding[:2] == conv.padding[:2]


def _on_taps(node: Node, taps: Tensor) -> tuple[Node, ...]:
    """The gradient as a product of the result's gradient and the pixels each weight meets."""
    op = node.op.convolution
    assert op is not None
    kind, (features, *_) = op.out_dtype, op.input_shapes[1]
    rows, made = f"{node.output}.pixels", f"{node.output}.by_taps"
    product = gemm(features, *taps.shape, transpose_b=True, dtype=op.dtype)
    by_rows = (features, op.out_shape[0], *op.out_shape[2:])
    return (
        Node(f"{node.name}_pixels", Reshape(op.input_shapes[1], product.input_shapes[0], kind),
             (node.inputs[1],), rows),
        Node(node.name, product, (rows, taps.name), made),
        Node(f"{node.name}_rows", Reshape(product.out_shape, by_rows, kind), (made,),
             f"{made}.rows"),
        Node(f"{node.name}_channels", Transpose(by_rows, (1, 0, 2, 3), kind), (f"{made}.rows",),
             node.output),
    )  # fmt: skip


def _maps_behind(network: Network, node: Node, fixed: set[str]) -> Iterator[Node]:
    """Biases and functions of elements of a result that nothing else reads, one after the other."""
    while node.output not in network.outputs:
        readers = network.readers(node.output)
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


def _on_windows(node: Node, windows: HostWindows, behind: Sequence[Node]) -> Iterator[Node]:
    """The weights as channels of a pixel, and the convolution of pixels. With several pixels side
    by side the maps `behind` it take them so, too.
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


def _side_by_side(node: Node, made: str, windows: HostWindows) -> Iterator[Node]:
    """Turn the channels of several pixels into pixels; with channels last, memory holds them so."""
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
