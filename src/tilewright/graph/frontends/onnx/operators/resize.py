"""ONNX's Resize: the nearest element, or a weighted sum of neighbours along each axis.

Source coordinates are computed as in the standard, with exact fractions. Regular selections, with
equal steps and copies, become moves; all others become products with constant weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, floor, isfinite

import numpy as np

from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Resize, Slice, Unary
from tilewright.ops.notation import einsum
from tilewright.ops.op import Op, Shape

_MOST_PLACES = 1 << 18
"""Most elements of a resized axis, since fractions are slow."""


def _resize(at: Importer) -> None:
    shape, targets = at.shape(0), _targets(at)
    for axis, _, size in targets:
        if size > _MOST_PLACES:
            raise at.wrong(
                f"axis {axis} becomes {size} elements, at most {_MOST_PLACES} are supported"
            )
    if at.node.attributes.get("mode", "nearest") != "nearest":
        _weighted(at, {a: _neighbours(at.node, shape[a], s, n) for a, s, n in targets})
        return
    places = {a: _places(at.node, shape[a], s, n) for a, s, n in targets}
    cuts = {a: cut for a, own in places.items() if (cut := _strided_copies(own))}
    if len(cuts) == len(places):
        _emit(at, shape, [cuts.get(a, (0, n, 1, 1)) for a, n in enumerate(shape)])
    else:
        _weighted(at, {a: np.eye(shape[a])[own] for a, own in places.items()})


def _weighted(at: Importer, matrices: dict[int, np.ndarray]) -> None:
    """Append a product with a matrix of weights along each axis that changes."""
    x, letters = at.operand(0), "abcdefgh"[: len(at.shape(0))]
    own = [(a, m) for a, m in matrices.items()
           if m.shape[0] != m.shape[1] or (m != np.eye(len(m))).any()]  # fmt: skip
    if not own:
        at.map("x0", x)
    for number, (axis, weights) in enumerate(own):
        equation = f"{letters},z{letters[axis]}->{letters.replace(letters[axis], 'z')}"
        op = einsum(equation, [at.builder.shape(x), weights.shape], dtype=at.dtype)
        operands = x, at.held(f"weights{axis}", weights)
        if number + 1 < len(own):
            x = at.step(op, *operands, suffix=f"_{axis}")
        else:
            at.emit(op, *operands)


def _neighbours(node: OnnxNode, n: int, scale: Fraction, size: int) -> np.ndarray:
    """The weights of n elements in each of `size` results, by the mode's kernel: (size, n)."""
    cubic, a = node.text("mode") == "cubic", node.number("cubic_coeff_a")
    width = min(float(scale), 1.0) if node.flag("antialias") else 1.0
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


def _emit(at: Importer, shape: Shape, cuts: list[tuple[int, int, int, int]]) -> None:
    """Append a slice and a repetition, by (start, count, step, copies) along each axis."""
    starts, counts, steps, factors = (tuple(numbers) for numbers in zip(*cuts, strict=True))
    ops: list[Op] = []
    if counts != shape or set(steps) > {1}:
        ops.append(Slice(shape, starts, counts, steps, at.dtype))
    if set(factors) != {1}:
        ops.append(Resize(counts, factors, at.dtype))
    x = at.operand(0)
    *first, last = ops or [Unary("identity", shape, dtype=at.dtype)]
    for op in first:
        x = at.step(op, x)
    at.emit(last, x)


def _targets(at: Importer) -> list[tuple[int, Fraction, int]]:
    """For each resized axis: the axis, its scale, and the extent of the result."""
    shape, index = at.shape(0), 1 if at.node.version < 11 else 2
    every = "axes" not in at.node.attributes
    axes = list(map(at.axis, range(len(shape)) if every else at.node.integers("axes")))
    sizes, scales = at.integers(3), tuple[Fraction, ...]()
    if not sizes:
        numbers = [float(s) for s in at.constant(index).reshape(-1)]
        if not all(map(isfinite, numbers)):
            raise at.wrong("scales must be finite")
        scales = tuple(map(Fraction, numbers))
    if len(sizes or scales) != len(axes):
        raise at.wrong(f"{len(sizes or scales)} scales or sizes do not fit {len(axes)} axes")
    if min(sizes or scales, default=1) <= 0:
        raise at.wrong("scales and sizes must be positive")
    if sizes:
        return _of_sizes(at.node, shape, axes, sizes)
    found = [(a, s, floor(shape[a] * s)) for a, s in zip(axes, scales, strict=True)]
    if any(size < 1 for _, _, size in found):
        raise at.wrong("leaves no element")
    return found


def _of_sizes(
    node: OnnxNode, shape: Shape, axes: Sequence[int], sizes: Sequence[int]
) -> list[tuple[int, Fraction, int]]:
    """Targets from the requested sizes; a kept aspect ratio means one scale for all axes."""
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    scales = [Fraction(n, shape[a]) for a, n in zip(axes, sizes, strict=True)]
    if policy == "stretch":
        return list(zip(axes, scales, sizes, strict=True))
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [(a, scale, max(1, floor(shape[a] * scale + Fraction(1, 2)))) for a in axes]


def _places(node: OnnxNode, n: int, scale: Fraction, size: int) -> list[int]:
    """Source index along n elements for each of `size` results."""
    rounded = _ROUNDED[str(node.attributes.get("nearest_mode", "floor"))]
    exact = (_coordinate(node, i, n, scale, size) for i in range(size))
    return [min(max(rounded(x), 0), n - 1) for x in exact]


def _coordinate(node: OnnxNode, i: int, n: int, scale: Fraction, size: int) -> Fraction:
    """The source coordinate of result i along n elements."""
    half = Fraction(1, 2)
    match node.attributes.get("coordinate_transformation_mode", "asymmetric"):
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


_ROUNDED: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda x: ceil(x - Fraction(1, 2)),
    "round_prefer_ceil": lambda x: floor(x + Fraction(1, 2)),
    "floor": floor,
    "ceil": ceil,
}


def _strided_copies(places: list[int]) -> tuple[int, int, int, int] | None:
    """Start, count, step and copies of a regular selection; None for an irregular one."""
    copies = places.count(places[0])
    if len(places) % copies:
        return None
    taken = places[::copies]
    step = taken[1] - taken[0] if len(taken) > 1 else 1
    start, count = taken[0], len(taken)
    regular = [start + step * (i // copies) for i in range(len(places))]
    return (start, count, step, copies) if step > 0 and regular == places else None


READ = (
    Operator(
        "Resize", _resize, known="roi scales sizes", limits=f"at most {_MOST_PLACES} along an axis",
        only={
            "mode": ("nearest", "linear", "cubic"), "nearest_mode": tuple(_ROUNDED),
            "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
            "coordinate_transformation_mode": (
                "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners",
                "half_pixel_symmetric",
            ),
        },
    ),
)  # fmt: skip
