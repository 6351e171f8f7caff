"""Beyond the paper: values moved by the best plans of whole networks on its 56 cores.

Values are counted unicast, regions clipped to the real image, pools and fully connected layers
included. The limit bounds a core's work in any layer as a multiple of its work under the paper's
optimised strategy; without a limit, one core does everything and nothing moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from tilewright.graph import Network, network
from tilewright.graph.builder import NetworkBuilder
from tilewright.ops import Bias, conv2d, relu
from tilewright.papers.bwdsp.network import BASELINE, CORES, OPTIMISED, TILES, image_layers
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.partition.layers import Layer, layers_of
from tilewright.partition.objective import Weights
from tilewright.partition.placement import best_placed_plan
from tilewright.partition.plan import fixed_plan, space

TITLE = "values that the best plans of networks move on 56 cores"
_ACTIVATIONS = "activations"
_EVERYTHING = "everything"
_PLACED = "activations, parts placed by assignment"
_OBJECTIVES = {
    _ACTIVATIONS: Weights(activations=1, weights=0, sums=1),
    _EVERYTHING: Weights(activations=1, weights=1, sums=1),
    _PLACED: Weights(activations=1, weights=0, sums=1),
}
_CHANNELS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)


class _Case(Struct, frozen=True):
    """A network, the objective, the limit (0: none), and True if vectors are included."""

    network: str
    objective: str
    limit: float
    vectors: bool


class _PlanValues(Struct, frozen=True):
    """Values that the plan moves, by kind, and whether it is proven optimal."""

    activations: int
    weights: int
    sums: int
    proven: bool
    bound: float


def run(lab: Lab) -> Findings:
    """The paper's strategies and the best plans, for each network."""
    limits = [1.0] if lab.quick else [1.0, 2.0, 0.0]
    cases = [
        _Case("vgg16", objective, limit, vectors)
        for vectors in (False, True)
        for objective in (_ACTIVATIONS, _EVERYTHING)
        for limit in limits
    ]
    others = (
        ("alexnet",) if lab.quick else ("alexnet", "mobilenet1", "mobilenet2", "resnet50", "yolov2")
    )
    cases += [_Case(name, _EVERYTHING, 1.0, True) for name in others]
    cases += [] if lab.quick else [_Case("vgg16", _PLACED, 1.0, False)]
    rows: list[Row] = []
    summary: dict[str, float | str] = {}
    for case, found in zip(cases, lab.map(planned, cases), strict=True):
        papers = fixed_plan(_layers(case), CORES, OPTIMISED).volume
        rows += _rows(case, found)
        moved = _counted_values(case, found.activations, found.weights, found.sums)
        before = _counted_values(case, papers.activations, papers.weights, papers.sums)
        summary[f"{_name(case)}: below the paper's plan, %"] = round(100 * (1 - moved / before), 2)
    for vectors in (False, True):
        for strategy in (BASELINE, OPTIMISED):
            case = _Case("vgg16", strategy, 1.0, vectors)
            volume = fixed_plan(_layers(case), CORES, strategy).volume
            rows += _rows(
                case, _PlanValues(volume.activations, volume.weights, volume.sums, False, 0)
            )
    return Findings(
        rows=tuple(rows),
        summary=summary,
        notes=(
            "the space: tiles of equal size along batch, channels, rows and columns, even sizes for"
            " the latter two as well, and input channels with a reduction, with a core for each",
            "fully connected layers, which the paper leaves as future work, have their outputs"
            " divided in its plans",
        ),
    )


def planned(case: _Case) -> _PlanValues:
    """The best plan of one case."""
    given = space(
        _layers(case), CORES, _OBJECTIVES[case.objective],
        most_work=case.limit or None, strategies=TILES,
    )  # fmt: skip
    plan = best_placed_plan(given) if case.objective == _PLACED else given.best()
    volume = plan.volume
    return _PlanValues(volume.activations, volume.weights, volume.sums, plan.proven, plan.bound)


def mobilenet1() -> Network:
    """The convolutions of MobileNet v1 (Howard et al. 2017), a chain."""
    net = NetworkBuilder("mobilenet1", "f64")
    x = net.input("images", (1, 3, 224, 224))
    x = _convolution(net, x, "conv1", 32, 3, 2, 1)
    for number, (channels, stride) in enumerate(zip(_CHANNELS, _STRIDES, strict=True), 2):
        x = _convolution(net, x, f"conv{number}_dw", 0, 3, stride, 0)
        x = _convolution(net, x, f"conv{number}_pw", channels, 1, 1, 1)
    return net.build((x,))


def _convolution(
    net: NetworkBuilder, x: str, name: str, channels: int, kernel: int, stride: int, groups: int
) -> str:
    """A convolution with bias and rectifier; depthwise without `groups`."""
    batch, inputs, height, width = net.shape(x)
    op = conv2d(batch=batch, in_channels=inputs, out_channels=channels or inputs, height=height,
                width=width, kernel=kernel, stride=stride, padding=kernel // 2,
                groups=groups or inputs)  # fmt: skip
    x = net.apply(op, x, net.weight(f"{name}_weight", op.input_shapes[1]), name=name)
    bias = net.weight(f"{name}_bias_values", (op.out_channels,))
    x = net.apply(Bias(op.out_shape), x, bias, name=f"{name}_bias")
    return net.apply(relu(op.out_shape), x, name=f"{name}_relu")


def _layers(case: _Case) -> list[Layer]:
    whole = mobilenet1() if case.network == "mobilenet1" else network(case.network, 1)
    layers = list(layers_of(whole))
    return layers if case.vectors else image_layers(layers)


def _counted_values(case: _Case, activations: int, weights: int, sums: int) -> int:
    return activations + sums + (0 if case.objective in (_ACTIVATIONS, _PLACED) else weights)


def _name(case: _Case) -> str:
    part = "all layers" if case.vectors else "convolutions and pools"
    if case.objective not in _OBJECTIVES:
        return f"{case.network}, {part}, {case.objective}"
    limit = f"work {case.limit:g}x" if case.limit else "no limit"
    return f"{case.network}, {part}, least {case.objective}, {limit}"


def _rows(case: _Case, found: _PlanValues) -> Iterator[Row]:
    bound = f"each layer and exchange at its own least: {found.bound:.0f}"
    note = f"optimal in its space; {bound}" if found.proven else ""
    for kind in ("activations", "weights", "sums"):
        value = getattr(found, kind)
        yield compare(f"{_name(case)}: {kind}", None, value, "exact", note=note, unit="values")
