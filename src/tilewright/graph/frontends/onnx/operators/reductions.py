"""ONNX's reductions: sums, means and extremes along axes, and operators made of sums."""

from __future__ import annotations

from functools import partial
from math import prod

from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator, Translator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Binary, Reduce, Unary, global_average_pool2d
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition, Gather
from tilewright.ops.op import Op, Shape


def _reduce(
    importer: Importer,
    node: OnnxNode,
    *,
    function: str,
    before: str = "",
    after: str = "",
) -> None:
    """Append the function `before` of each element, the reduction, and the function `after` of its
    results; over all axes if none is named.
    """
    shape, x = importer.shape(node, 0), importer.operand(node, 0)
    named = importer.axes(node)
    if (
        not named
        and "noop_with_empty_axes" in node.attributes
        and node.integer("noop_with_empty_axes")
    ):
        body = _BODIES.get(before, "x0") if not after else f"{after}({_BODIES.get(before, 'x0')})"
        importer.emit(node, importer.mapped(body, x), x)
        return
    named = named or tuple(range(len(shape)))
    axes = tuple(sorted({importer.axis(node, axis, len(shape)) for axis in named}))
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    keeps = bool(node.integer("keepdims"))
    if not importer.is_float or function == "prod":
        body = _BODIES.get(before, "x0")
        gathers = _gathered(function, body, shape, axes, importer.dtype, keeps=keeps)
        importer.emit(node, gathers, x)
        return
    steps = [_elementwise(before, shape, importer.dtype)] if before else []
    steps.append(_reduction(function, shape, axes, importer.dtype))
    result = steps[-1].out_shape
    steps += [Unary(after, result, dtype=importer.dtype)] if after else []
    *first, last = steps
    for number, op in enumerate(first):
        x = importer.step(node, op, *_operands(op, x), suffix=f"_{number}")
    if keeps:
        importer.emit(node, last, *_operands(last, x))
    else:
        importer.reshape(node, importer.step(node, last, *_operands(last, x)), kept)


_BODIES = {"square": "x0 * x0", "abs": "abs(x0)"}


def _gathered(
    function: str, body: str, shape: Shape, axes: tuple[int, ...], kind: str, *, keeps: bool
) -> Definition:
    """Integers, and products: one definition; truths are all or any."""
    left = [a for a in range(len(shape)) if a not in axes]
    extents = tuple(1 if a in axes else n for a, n in enumerate(shape))
    terms = tuple(() if a in axes else ((a, 1),) for a in range(len(shape)))
    y = Access(extents, terms, (0,) * len(shape))
    if not keeps:
        y = straight(tuple(shape[a] for a in left), tuple(left))
    gather = _GATHERS[function]
    finish, types = "x0", kind
    if function == "mean":
        count = prod(shape[a] for a in axes)
        finish, types = f"x0 / {count}.0", f"{kind}:f64:{kind}"
    return Definition(shape, y, (straight(shape),), body, gather, finish, types)


_GATHERS: dict[str, Gather] = {
    "sum": "sum", "mean": "sum", "max": "max", "min": "min", "prod": "prod",
}  # fmt: skip


def _log_sum_exp(importer: Importer, node: OnnxNode) -> None:
    """The largest, and the logarithm of the sum of powers less it."""
    shape, x = importer.shape(node, 0), importer.operand(node, 0)
    named = importer.axes(node) or tuple(range(len(shape)))
    axes = tuple(sorted({importer.axis(node, axis, len(shape)) for axis in named}))
    kind = importer.dtype
    largest = importer.step(node, Reduce("max", shape, axes, kind), x, suffix="_largest")
    powers = importer.step(
        node, importer.mapped("exp(x0 - x1)", x, largest), x, largest, suffix="_powers"
    )
    total = importer.step(node, Reduce("sum", shape, axes, kind), powers, suffix="_sum")
    op = importer.mapped("x1 + log(x0)", total, largest)
    if node.integer("keepdims"):
        importer.emit(node, op, total, largest)
    else:
        kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
        importer.reshape(node, importer.step(node, op, total, largest, suffix="_log"), kept)


def _elementwise(function: str, shape: Shape, kind: str) -> Op:
    if function == "square":
        return Binary("mul", shape, shape, kind)
    return Unary(function, shape, dtype=kind)


def _operands(op: Op, x: str) -> tuple[str, ...]:
    """Tensor `x` for each operand of `op`."""
    return (x,) * len(op.input_shapes)


def _reduction(function: str, shape: Shape, axes: tuple[int, ...], kind: str) -> Op:
    """The reduction, or global pooling for a mean over rows and columns of images."""
    if function == "mean" and len(shape) == 4 and axes == (2, 3):
        return global_average_pool2d(shape, dtype=kind)
    return Reduce(function, shape, axes, kind)


def _operator(
    kind: str,
    versions: tuple[int, ...],
    function: str,
    *,
    before: str = "",
    after: str = "",
    translate: Translator | None = None,
) -> Operator:
    inputs = 13 if kind == "ReduceSum" else 18  # the version whose axes are an input
    return Operator(
        kind,
        versions,
        (
            Input("X", elements="number"),
            Input("axes", "constant", "integer", optional=True, since=inputs),
        ),
        (
            Attribute("axes", "integers", until=inputs - 1),
            Attribute("keepdims", "integer", 1, (0, 1)),
            Attribute("noop_with_empty_axes", "integer", 0, (0, 1), since=inputs),
        ),
        translate or partial(_reduce, function=function, before=before, after=after),
    )


_USUAL = (1, 11, 13, 18)

REDUCTIONS = (
    _operator("ReduceL1", _USUAL, "sum", before="abs"),
    _operator("ReduceL2", _USUAL, "sum", before="square", after="sqrt"),
    _operator("ReduceLogSum", (*_USUAL, 28), "sum", after="log"),
    _operator("ReduceLogSumExp", (*_USUAL, 28), "sum", translate=_log_sum_exp),
    _operator("ReduceMax", (1, 11, 12, 13, 18, 20), "max"),
    _operator("ReduceMean", _USUAL, "mean"),
    _operator("ReduceMin", (1, 11, 12, 13, 18, 20), "min"),
    _operator("ReduceProd", _USUAL, "prod"),
    _operator("ReduceSum", (1, 11, 13), "sum"),
    _operator("ReduceSumSquare", _USUAL, "sum", before="square"),
)
