"""The paper's fifteen layers as networks that the planner schedules, and the ratios it prints.

In: rows of `published/layers.csv`. Out: cycles on the paper's machine. The automatic schedule
stands where the paper has hand-optimised code, which it does not print; given and asked images lie
as the host lays them out, as blocks have them, so that changes of layout are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

from tilewright.common.progress import silent
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.machine import Machine, load_machine
from tilewright.network.plans import NETWORKS
from tilewright.network.search import BY_THE_MODEL
from tilewright.ops import Binary, LocalResponseNorm, Unary, conv2d, gemm, max_pool2d
from tilewright.papers.dla_al.layers import LAYERS, cycles_by_blocks
from tilewright.papers.dla_al.loops import PAPER_MACHINE
from tilewright.papers.lab import Lab
from tilewright.papers.model import Row, compare
from tilewright.papers.published import read_published

UNKNOWN = "the bandwidth, and the segments of most of its programs, are not in the paper"
"""All that can be said of a distance from its numbers."""


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
    """A number that the paper prints; a ratio is one `against` something."""

    place: str
    subject: str
    value: float
    against: str = ""
    direction: str = ""
    unit: str = ""


def published_layers() -> tuple[LayerRow, ...]:
    """Tables 2 and 3."""
    return read_published("dla_al", "layers", LayerRow).rows


def published(subject: str, against: str, direction: str = "forward") -> float:
    """A ratio of the text."""
    for row in read_published("dla_al", "numbers", PrintedNumber).rows:
        if (row.subject, row.against, row.direction) == (subject, against, direction):
            return row.value
    raise KeyError(subject)


def paper_network(layer: LayerRow, elements: str) -> Network:
    """A layer alone, of one image, in fixed point."""
    return FixedPoint(elements).apply(layer_in_reals(layer))


def layer_in_reals(layer: LayerRow) -> Network:
    """A layer alone, of one image."""
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
    """A step of LSTM and the layer on its result, as the blocks of `layers.lstm_step`."""
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


def automatic_cycles(layer: LayerRow, machine: Machine) -> int:
    """Cycles of the planned layer by the window simulator, without changes of layout."""
    network = paper_network(layer, machine.core.elements or "")
    made = NETWORKS.required(machine).compile(network, machine, BY_THE_MODEL, progress=silent)
    work = made.simulated.by_work()
    return sum(cycles for kind, cycles in work.items() if kind != "layout")


def ratios(lab: Lab, layers: Sequence[LayerRow], quick: int) -> tuple[list[Row], dict[str, float]]:
    """For each layer the time of the automatic schedule over that of its block."""
    machine, blocks = load_machine(PAPER_MACHINE), {layer.name: layer for layer in LAYERS}
    rows, found = list[Row](), dict[str, float]()
    for layer in lab.some(list(layers), quick):
        ours, block = (
            automatic_cycles(layer, machine),
            cycles_by_blocks(blocks[layer.name], machine),
        )
        found[layer.name] = ours / block
        rows.append(
            compare(
                f"{layer.name}: automatic over blocks", None, round(ours / block, 3), "simulated",
                note=f"{ours} and {block} cycles",
            )
        )  # fmt: skip
    return rows, found


def mean_row(name: str, found: Sequence[float], value: float, note: str) -> Row:
    """The published mean beside ours."""
    return compare(
        name, value, round(fmean(found), 3), "simulated", note=note,
        explanation=UNKNOWN,
    )  # fmt: skip
