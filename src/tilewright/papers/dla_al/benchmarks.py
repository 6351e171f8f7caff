"""The paper's fifteen layers as networks that the planner schedules, and its printed numbers."""

from __future__ import annotations

from msgspec import Struct

from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.ops import Binary, LocalResponseNorm, Unary, conv2d, gemm, max_pool2d
from tilewright.papers.published import read_published


class LayerRow(Struct, frozen=True):
    """A row of Table 2 or 3; sides are those of square images."""

    name: str
    kind: str
    in_maps: int
    out_maps: int
    in_side: int | None = None
    out_side: int | None = None
    kernel: int | None = None
    stride: int | None = None
    hidden: int | None = None


class PrintedNumber(Struct, frozen=True):
    """A printed number; a ratio has a reference in `against`."""

    place: str
    subject: str
    value: float
    against: str = ""
    direction: str = ""
    unit: str = ""


def published_layers() -> tuple[LayerRow, ...]:
    """Tables 2 and 3."""
    return read_published("dla_al", "layers", LayerRow).rows


def other_numbers() -> tuple[PrintedNumber, ...]:
    """All other printed numbers."""
    return read_published("dla_al", "numbers", PrintedNumber).rows


def printed(subject: str, against: str, direction: str = "forward") -> float | None:
    """A ratio from the text, percents as shares; None if it has none."""
    for row in other_numbers():
        if (row.subject, row.against, row.direction) == (subject, against, direction):
            return row.value / 100 if row.unit == "%" else row.value
    return None


def paper_network(layer: LayerRow, elements: str) -> Network:
    """A layer alone, for one image, in fixed point."""
    return FixedPoint(elements).apply(layer_in_reals(layer))


def layer_in_reals(layer: LayerRow) -> Network:
    """A layer alone, for one image, in reals."""
    net = NetworkBuilder(layer.name.lower().replace(" ", "_"), "f64")
    side = layer.in_side or 1
    if layer.kind == "lstm":
        return _lstm(net, layer)
    if layer.kind == "fc":
        x = net.input("x", (1, layer.in_maps))
        op = gemm(1, layer.out_maps, layer.in_maps, transpose_b=True)
        made = net.apply(op, x, net.weight("w", op.input_shapes[1]), name="y")
        return net.build((made,))
    x = net.input("x", (1, layer.in_maps, side, side))
    kernel, stride = layer.kernel or 1, layer.stride or 1
    if layer.kind == "conv":
        border = ((layer.out_side or 1) - 1) * stride + kernel - side
        conv = conv2d(batch=1, in_channels=layer.in_maps, out_channels=layer.out_maps, height=side,
                      width=side, kernel=kernel, stride=stride, padding=border // 2)  # fmt: skip
        made = net.apply(conv, x, net.weight("w", conv.input_shapes[1]), name="y")
    elif layer.kind == "pool":
        made = net.apply(max_pool2d(net.shape(x), kernel, stride=stride), x, name="y")
    else:
        made = net.apply(LocalResponseNorm(net.shape(x), 5), x, name="y")
    return net.build((made,))


def _lstm(net: NetworkBuilder, layer: LayerRow) -> Network:
    """A step of LSTM and the layer on its result, like the blocks of `layers.lstm_step`."""
    hidden = layer.hidden or 1
    x = net.input("x", (1, layer.in_maps))
    before, cell = net.input("hidden", (1, hidden)), net.input("cell", (1, hidden))

    def product(name: str, of: str, outputs: int) -> str:
        op = gemm(1, outputs, net.shape(of)[1], transpose_b=True)
        return net.apply(op, of, net.weight(f"w_{name}", op.input_shapes[1]), name=name)

    def joined(function: str, a: str, b: str, name: str) -> str:
        return net.apply(Binary(function, net.shape(a), net.shape(b)), a, b, name=name)

    gates = {}
    for gate, activation in (("i", "sigmoid"), ("f", "sigmoid"), ("o", "sigmoid"), ("g", "tanh")):
        own, kept = product(f"{gate}_x", x, hidden), product(f"{gate}_h", before, hidden)
        summed = joined("add", own, kept, f"{gate}_sum")
        biased = joined("add", summed, net.weight(f"b_{gate}", (1, hidden)), f"{gate}_biased")
        gates[gate] = net.apply(Unary(activation, (1, hidden)), biased, name=gate)
    kept = joined("mul", gates["f"], cell, "kept")
    following = joined("add", kept, joined("mul", gates["i"], gates["g"], "taken"), "cell_next")
    squashed = net.apply(Unary("tanh", (1, hidden)), following, name="squashed")
    after = joined("mul", gates["o"], squashed, "hidden_next")
    return net.build((product("y", after, layer.out_maps), following))
