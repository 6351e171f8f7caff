"""ONNX's Resize: the nearest element, or a weighted sum of neighbours along each axis.

The place of every element is computed as the standard says, with fractions. Elements a step apart,
and copies of each, are moved; others are products with the weights of each element, known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, isfinite

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator, X
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Resize, Slice, Unary
from tilewright.ops.einsum import einsum
from tilewright.ops.op import Op, Shape

_COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric",
)  # fmt: skip
_POLICIES = ("stretch", "not_larger", "not_smaller")
_MOST_PLACES = 1 << 18
"""Elements of a resized axis: the place of each is computed with fractions."""
_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _resize(importer: Importer, node: OnnxNode) -> None:
    shape = importer.shape(node, 0)
    mode = "nearest" if node.version < 11 else node.text("mode")
    if mode != "nearest":
        _weighted(importer, node, shape, [
            (axis, _neighbours(node, shape[axis], scale, size))
            for axis, scale, size in _targets(importer, node, shape)
        ])  # fmt: skip
        return
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
            _weighted(importer, node, shape, [
                (a, np.eye(shape[a])[_places(node, shape[a], s, n)])
                for a, s, n in _targets(importer, node, shape)
            ])  # fmt: skip
            return
        cuts[axis] = cut
    _emit(importer, node, shape, cuts)


def _weighted(
    importer: Importer, node: OnnxNode, shape: Shape, matrices: list[tuple[int, np.ndarray]]
) -> None:
    """Append a product with the weights of each element along each axis that changes."""
    x, kind = importer.operand(node, 0), dtype(importer.file_dtype).numpy
    own = [(a, m) for a, m in matrices if m.shape[0] != m.shape[1] or (m != np.eye(len(m))).any()]
    if not own:
        importer.emit(node, importer.mapped("x0", x), x)
    for number, (axis, weights) in enumerate(own):
        name = importer.new_constant(f"{node.output()}/weights{axis}", weights.astype(kind))
        held = importer.use(name, node.title())
        before = importer.builder.shape(x)
        letters = "abcdefgh"[: len(before)]
        result = letters.replace(letters[axis], "z")
        op = einsum(f"{letters},z{letters[axis]}->{result}", [before, weights.shape],
                    dtype=importer.dtype)  # fmt: skip
        if number + 1 < len(own):
            x = importer.step(node, op, x, held, suffix=f"_{axis}")
        else:
            importer.emit(node, op, x, held)


def _neighbours(node: OnnxNode, n: int, scale: Fraction, size: int) -> np.ndarray:
    """The weight of each of n elements in each of `size` results, by the mode's kernel."""
    cubic, a = node.text("mode") == "cubic", node.number("cubic_coeff_a")
    smooth = "antialias" in node.attributes and bool(node.integer("antialias"))
    width = min(float(scale), 1.0) if smooth else 1.0
    reach = int(np.ceil((2 if cubic else 1) / width))
    x = np.array([float(_coordinate(node, i, n, scale, size)) for i in range(size)])
    if node.text("coordinate_transformation_mode") == "align_corners" and scale * n > 1:
        x = np.arange(size) * (n - 1) / float(scale * n - 1)
    taps = np.floor(x)[:, None].astype(int) + np.arange(1 - reach, reach + 1)
    t = np.abs(taps - x[:, None]) * width
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    weights = np.where(t <= 1, near, np.where(t < 2, far, 0)) if cubic else np.maximum(1 - t, 0)
    if node.integer("exclude_outside"):
        weights = np.where((taps >= 0) & (taps < n), weights, 0)
    weights = weights / weights.sum(1, keepdims=True)
    found = np.zeros((size, n))
    np.add.at(found, (np.arange(size)[:, None], np.clip(taps, 0, n - 1)), weights)
    return found


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
        return _of_sizes(node, shape, axes, sizes)
    found = [(a, s, floor(shape[a] * s)) for a, s in zip(axes, scales, strict=True)]
    if any(size < 1 for _, _, size in found):
        raise GraphError(f"{node.title()}: leaves no element")
    return found


def _of_sizes(
    node: OnnxNode, shape: Shape, axes: Sequence[int], sizes: Sequence[int]
) -> list[tuple[int, Fraction, int]]:
    """Scales by the sizes that are asked for, one for all axes where the aspect is kept."""
    policy = "stretch"
    if "keep_aspect_ratio_policy" in node.attributes:
        policy = node.text("keep_aspect_ratio_policy")
    scales = [Fraction(n, shape[a]) for a, n in zip(axes, sizes, strict=True)]
    if policy == "stretch":
        return list(zip(axes, scales, sizes, strict=True))
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [(a, scale, floor(shape[a] * scale + Fraction(1, 2))) for a in axes]


def _scales(importer: Importer, node: OnnxNode) -> tuple[Fraction, ...]:
    index = 1 if node.version < 11 else 2
    scales = [float(s) for s in importer.constant(node, index).reshape(-1)]
    if not all(isfinite(s) for s in scales):
        raise GraphError(f"{node.title()}: scales must be finite")
    return tuple(Fraction(s) for s in scales)


def _places(node: OnnxNode, n: int, scale: Fraction, size: int) -> list[int]:
    """Source index along n elements for each of `size` results."""
    rounding = "floor" if node.version < 11 else node.text("nearest_mode")
    exact = (_coordinate(node, i, n, scale, size) for i in range(size))
    return [min(max(_rounded(x, rounding), 0), n - 1) for x in exact]


def _coordinate(node: OnnxNode, i: int, n: int, scale: Fraction, size: int) -> Fraction:
    """The place of result number i along n elements."""
    coordinates, half = "asymmetric", Fraction(1, 2)
    if node.version >= 11:
        coordinates = node.text("coordinate_transformation_mode")
    match coordinates:
        case "asymmetric":
            return i / scale
        case "align_corners":
            return Fraction(i * (n - 1), max(size - 1, 1))
        case "pytorch_half_pixel" if size == 1:
            return Fraction(0)
        case "half_pixel_symmetric":
            whole = Fraction(size) / (scale * n)
            return Fraction(n, 2) * (1 - whole) + (i + half) / scale - half
        case _:
            return (i + half) / scale - half


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
            Attribute("mode", "text", "nearest", ("nearest",), until=10),
            Attribute("mode", "text", "nearest", ("nearest", "linear", "cubic"), since=11),
            Attribute(
                "coordinate_transformation_mode", "text", "half_pixel", _COORDINATES, since=11
            ),
            Attribute("nearest_mode", "text", "round_prefer_floor", _ROUNDING, since=11),
            Attribute("cubic_coeff_a", "number", -0.75, since=11),
            Attribute("exclude_outside", "integer", 0, since=11),
            Attribute("extrapolation_value", "number", 0.0, since=11),
            Attribute("antialias", "integer", 0, (0, 1), since=18),
            Attribute("axes", "integers", since=18),
            Attribute("keep_aspect_ratio_policy", "text", "stretch", _POLICIES, since=18),
        ),
        _resize,
        limits=f"at most {_MOST_PLACES} along an axis",
    ),
)
