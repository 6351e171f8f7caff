"""ONNX's Resize: the nearest element, where that copies or leaves out whole elements.

The place of every element is computed as the standard says, with fractions; what comes out is
elements a step apart, and copies of each, or it is refused.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, isfinite

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator, X
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Resize, Slice, Unary
from tilewright.ops.op import Op, Shape

_COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
_MOST_PLACES = 1 << 18
"""Elements of a resized axis: the place of each is computed with fractions."""
_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _resize(importer: Importer, node: OnnxNode) -> None:
    shape = importer.shape(node, 0)
    cuts = [(0, n, 1, 1) for n in shape]
    for axis, scale, size in _targets(importer, node, shape):
        if size > _MOST_PLACES:
            raise GraphError(
                f"{node.title()}: axis {axis} becomes {size} elements, at most {_MOST_PLACES} are "
                "supported"
            )
        places = _places(node, shape[axis], scale, size)
        cut = _cut(places)
        if cut is None:
            raise GraphError(
                f"{node.title()}: axis {axis} of {shape[axis]} elements becomes {size}, which "
                "neither copies each of them equally often nor takes them a step apart"
            )
        cuts[axis] = cut
    _emit(importer, node, shape, cuts)


def _emit(
    importer: Importer, node: OnnxNode, shape: Shape, cuts: list[tuple[int, int, int, int]]
) -> None:
    """Append a slice and copies of it, by (start, count, step, copies) along each axis."""
    starts, counts, steps, factors = (tuple(numbers) for numbers in zip(*cuts, strict=True))
    ops: list[Op] = []
    if counts != shape or set(steps) > {1}:
        ops.append(Slice(shape, starts, counts, steps, importer.dtype))
    if set(factors) != {1}:
        ops.append(Resize(counts, factors, importer.dtype))
    x = importer.operand(node, 0)
    *first, last = ops or [Unary("identity", shape, dtype=importer.dtype)]
    for op in first:
        x = importer.step(node, op, x)
    importer.emit(node, last, x)


def _targets(importer: Importer, node: OnnxNode, shape: Shape) -> list[tuple[int, Fraction, int]]:
    """(axis, scale, elements of the result) for each axis that is resized."""
    given = node.attributes.get("axes")
    named = range(len(shape)) if given is None else node.integers("axes")
    axes = [importer.axis(node, axis, len(shape)) for axis in named]
    sizes = importer.integers(node, 3) if node.has_input(3) else ()
    scales = () if sizes else _scales(importer, node)
    if len(sizes or scales) != len(axes):
        raise GraphError(
            f"{node.title()}: {len(sizes or scales)} scales or sizes do not fit {len(axes)} axes"
        )
    if min(sizes or scales, default=1) <= 0:
        raise GraphError(f"{node.title()}: scales and sizes must be positive")
    if sizes:
        return [(a, Fraction(n, shape[a]), n) for a, n in zip(axes, sizes, strict=True)]
    found = [(a, s, floor(shape[a] * s)) for a, s in zip(axes, scales, strict=True)]
    if any(size < 1 for _, _, size in found):
        raise GraphError(f"{node.title()}: leaves no element")
    return found


def _scales(importer: Importer, node: OnnxNode) -> tuple[Fraction, ...]:
    index = 1 if node.version < 11 else 2
    scales = [float(s) for s in importer.constant(node, index).reshape(-1)]
    if not all(isfinite(s) for s in scales):
        raise GraphError(f"{node.title()}: scales must be finite")
    return tuple(Fraction(s) for s in scales)


def _places(node: OnnxNode, n: int, scale: Fraction, size: int) -> list[int]:
    """Source index along n elements for each of `size` results."""
    coordinates, rounding = "asymmetric", "floor"
    if node.version >= 11:
        coordinates = node.text("coordinate_transformation_mode")
        rounding = node.text("nearest_mode")
    found = []
    for i in range(size):
        match coordinates:
            case "asymmetric":
                x = i / scale
            case "align_corners":
                x = Fraction(i * (n - 1), max(size - 1, 1))
            case "pytorch_half_pixel" if size == 1:
                x = Fraction(0)
            case _:
                x = (i + Fraction(1, 2)) / scale - Fraction(1, 2)
        found.append(min(max(_rounded(x, rounding), 0), n - 1))
    return found


def _rounded(x: Fraction, rounding: str) -> int:
    match rounding:
        case "floor":
            return floor(x)
        case "ceil":
            return ceil(x)
        case "round_prefer_ceil":
            return floor(x + Fraction(1, 2))
        case _:
            return ceil(x - Fraction(1, 2))


def _cut(places: list[int]) -> tuple[int, int, int, int] | None:
    """(start, count, step, copies) of elements a step apart, each repeated; None for others."""
    copies = places.count(places[0])
    if len(places) % copies:
        return None
    taken = places[::copies]
    step = taken[1] - taken[0] if len(taken) > 1 else 1
    start, count = taken[0], len(taken)
    regular = [start + step * (i // copies) for i in range(len(places))]
    return (start, count, step, copies) if step > 0 and regular == places else None


RESIZE = (
    Operator(
        "Resize",
        (10, 11, 13, 18, 19),
        (
            X,
            Input("scales", "constant", until=10),
            Input("roi", "constant", since=11, until=12),
            Input("scales", "constant", since=11, until=12),
            Input("roi", "constant", optional=True, since=13),
            Input("scales", "constant", optional=True, since=13),
            Input("sizes", "constant", "integer", optional=True, since=11),
        ),
        (
            Attribute("mode", "text", "nearest", ("nearest",)),
            Attribute(
                "coordinate_transformation_mode", "text", "half_pixel", _COORDINATES, since=11
            ),
            Attribute("nearest_mode", "text", "round_prefer_floor", _ROUNDING, since=11),
            Attribute("cubic_coeff_a", "number", -0.75, since=11),
            Attribute("exclude_outside", "integer", 0, since=11),
            Attribute("extrapolation_value", "number", 0.0, since=11),
            Attribute("antialias", "integer", 0, (0,), since=18),
            Attribute("axes", "integers", since=18),
            Attribute("keep_aspect_ratio_policy", "text", "stretch", ("stretch",), since=18),
        ),
        _resize,
        limits=(
            f"the nearest element, by whole factors or steps, at most {_MOST_PLACES} along an axis"
        ),
    ),
)
