"""ONNX's reductions: sums, means and extremes along axes, and operators made of sums."""

from __future__ import annotations

from functools import partial

from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator, X
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Binary, Reduce, Unary, global_average_pool2d
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
    named = importer.axes(node) or tuple(range(len(shape)))
    axes = tuple(sorted({importer.axis(node, axis, len(shape)) for axis in named}))
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    steps = [_elementwise(before, shape, importer.dtype)] if before else []
    steps.append(_reduction(function, shape, axes, importer.dtype))
    result = steps[-1].out_shape
    steps += [Unary(after, result, dtype=importer.dtype)] if after else []
    keeps = bool(node.integer("keepdims"))
    *first, last = steps
    for number, op in enumerate(first):
        x = importer.step(node, op, *_operands(op, x), suffix=f"_{number}")
    if keeps:
        importer.emit(node, last, *_operands(last, x))
    else:
        importer.reshape(node, importer.step(node, last, *_operands(last, x)), kept)


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
    kind: str, versions: tuple[int, ...], function: str, *, before: str = "", after: str = ""
) -> Operator:
    inputs = 13 if kind == "ReduceSum" else 18  # the version whose axes are an input
    return Operator(
        kind,
        versions,
        (X, Input("axes", "constant", "integer", optional=True, since=inputs)),
        (
            Attribute("axes", "integers", until=inputs - 1),
            Attribute("keepdims", "integer", 1, (0, 1)),
            Attribute("noop_with_empty_axes", "integer", 0, (0,), since=inputs),
        ),
        partial(_reduce, function=function, before=before, after=after),
    )


_USUAL = (1, 11, 13, 18)

REDUCTIONS = (
    _operator("ReduceL1", _USUAL, "sum", before="abs"),
    _operator("ReduceL2", _USUAL, "sum", before="square", after="sqrt"),
    _operator("ReduceLogSum", (*_USUAL, 28), "sum", after="log"),
    _operator("ReduceMax", (1, 11, 12, 13, 18, 20), "max"),
    _operator("ReduceMean", _USUAL, "mean"),
    _operator("ReduceMin", (1, 11, 12, 13, 18, 20), "min"),
    _operator("ReduceSum", (1, 11, 13), "sum"),
    _operator("ReduceSumSquare", _USUAL, "sum", before="square"),
)
