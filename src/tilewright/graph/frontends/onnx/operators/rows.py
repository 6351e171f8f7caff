"""ONNX's operators on rows seen whole: normalisations, soft maxima, sums up to a place, arguments.

Each is a sequence of definitions: what is gathered of a row, then maps over the row and that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator, X
from tilewright.graph.frontends.onnx.importer import Importer, converting
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Reduce, Reshape
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.op import Shape


def _step(importer: Importer, node: OnnxNode, body: str, *names: str) -> str:
    """An expression over tensors that are broadcast."""
    return importer.step(node, importer.mapped(body, *names), *names, suffix="_each")


def _of_rows(importer: Importer, node: OnnxNode, function: str, x: str, axes: Sequence[int]) -> str:
    """Rows gathered along axes, which stay with one element."""
    op = Reduce(function, importer.builder.shape(x), tuple(axes), importer.dtype)
    return importer.step(node, op, x, suffix=f"_{function}")


def _behind(importer: Importer, node: OnnxNode, index: int, rank: int) -> str:
    """An operand with extents of 1 behind its own, to lie along the channels."""
    name = importer.operand(node, index)
    shape = importer.builder.shape(name)
    wanted = (*shape, *(1,) * (rank - 1 - len(shape)))
    if wanted == shape:
        return name
    return importer.step(node, Reshape(shape, wanted, importer.dtype), name, suffix=f"_{index}")


def _standardised(
    importer: Importer, node: OnnxNode, x: str, axes: Sequence[int], epsilon: float
) -> tuple[str, str, str]:
    """(rows less their mean over their deviation, the means, one over the deviations)."""
    mean = _of_rows(importer, node, "mean", x, axes)
    centred = _step(importer, node, "x0 - x1", x, mean)
    squares = _step(importer, node, "x0 * x0", centred)
    variance = _of_rows(importer, node, "mean", squares, axes)
    inverse = _step(importer, node, f"1 / sqrt(x0 + {epsilon!r})", variance)
    return _step(importer, node, "x0 * x1", centred, inverse), mean, inverse


def _layer_norm(importer: Importer, node: OnnxNode) -> None:
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    first = importer.axis(node, node.integer("axis"), len(shape))
    axes = range(first, len(shape))
    rows, mean, inverse = _standardised(importer, node, x, axes, node.number("epsilon"))
    names = [rows, importer.operand(node, 1)]
    body = "x0 * x1"
    if node.has_input(2):
        names.append(importer.operand(node, 2))
        body += " + x2"
    importer.emit(node, importer.mapped(body, *names), *names)
    for output, name in zip(node.outputs[1:], (mean, inverse), strict=False):
        if output:
            importer.give(output, node, importer.mapped("x0", name), name, suffix="_kept")


def _rms_norm(importer: Importer, node: OnnxNode) -> None:
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    first = importer.axis(node, node.integer("axis"), len(shape))
    squares = _step(importer, node, "x0 * x0", x)
    mean = _of_rows(importer, node, "mean", squares, range(first, len(shape)))
    names = (x, mean, importer.operand(node, 1))
    body = f"x0 / sqrt(x1 + {node.number('epsilon')!r}) * x2"
    importer.emit(node, importer.mapped(body, *names), *names)


def _instance_norm(importer: Importer, node: OnnxNode) -> None:
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    rank = len(shape)
    rows, *_ = _standardised(importer, node, x, range(2, rank), node.number("epsilon"))
    names = (rows, _behind(importer, node, 1, rank), _behind(importer, node, 2, rank))
    importer.emit(node, importer.mapped("x0 * x1 + x2", *names), *names)


def _group_norm(importer: Importer, node: OnnxNode) -> None:
    """Groups of channels as rows; scale and bias for each channel, or group before version 21."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    groups, rank = node.integer("num_groups"), len(shape)
    cut = (shape[0], groups, shape[1] // groups, *shape[2:])
    x = importer.step(node, Reshape(shape, cut, importer.dtype), x, suffix="_groups")
    rows, *_ = _standardised(importer, node, x, range(2, rank + 1), node.number("epsilon"))
    if node.version < 21:
        own = (_behind(importer, node, 1, rank + 1), _behind(importer, node, 2, rank + 1))
        rows = _step(importer, node, "x0 * x1 + x2", rows, *own)
        importer.reshape(node, rows, shape)
        return
    back = importer.step(node, Reshape(cut, shape, importer.dtype), rows, suffix="_back")
    names = (back, _behind(importer, node, 1, rank), _behind(importer, node, 2, rank))
    importer.emit(node, importer.mapped("x0 * x1 + x2", *names), *names)


def _mean_variance(importer: Importer, node: OnnxNode) -> None:
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    axes = [importer.axis(node, axis, len(shape)) for axis in node.integers("axes")]
    mean = _of_rows(importer, node, "mean", x, axes)
    centred = _step(importer, node, "x0 - x1", x, mean)
    variance = _of_rows(importer, node, "mean", _step(importer, node, "x0 * x0", centred), axes)
    op = importer.mapped("x0 / (sqrt(x1) + 1e-9)", centred, variance)
    importer.emit(node, op, centred, variance)


def _lp_norm(importer: Importer, node: OnnxNode) -> None:
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    axis = importer.axis(node, node.integer("axis"), len(shape))
    single = node.integer("p") == 1
    each = _step(importer, node, "abs(x0)" if single else "x0 * x0", x)
    total = _of_rows(importer, node, "sum", each, (axis,))
    root = "x1" if single else "sqrt(x1)"
    op = importer.mapped(f"0 if x1 == 0 else x0 / {root}", x, total)
    importer.emit(node, op, x, total)


def _log_softmax(importer: Importer, node: OnnxNode) -> None:
    """Up to operator set 12 the axes from the given one on are one row."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    first = importer.axis(node, node.integer("axis"), len(shape))
    axes = (first,) if node.version >= 13 else range(first, len(shape))
    largest = _of_rows(importer, node, "max", x, axes)
    less = _step(importer, node, "x0 - x1", x, largest)
    total = _of_rows(importer, node, "sum", _step(importer, node, "exp(x0)", less), axes)
    importer.emit(node, importer.mapped("x0 - log(x1)", less, total), less, total)


def _hardmax(importer: Importer, node: OnnxNode) -> None:
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    axis = importer.axis(node, node.integer("axis"), len(shape))
    first = _argument(importer, node, x, axis, "max", last=False)
    places = _along(importer, node, shape, axis)
    op = importer.mapped("1 if x0 == x1 else 0", places, first)
    importer.emit(node, op, places, first)


def _along(importer: Importer, node: OnnxNode, shape: Shape, axis: int) -> str:
    """The places of an axis, over all of a shape."""
    numbers = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    kind = importer.file_dtype if importer.dtype == importer.builder.dtype else importer.dtype
    own = numbers.astype(dtype(kind).numpy)
    name = importer.new_constant(f"{node.output()}/places", own)
    return importer.use(name, node.title())


def _argument(
    importer: Importer, node: OnnxNode, x: str, axis: int, function: str, *, last: bool
) -> str:
    """The first or last place of the largest or smallest of each row, in floats."""
    shape = importer.builder.shape(x)
    extreme = _of_rows(importer, node, function, x, (axis,))
    places = _along(importer, node, shape, axis)
    beyond = "-1" if last else str(shape[axis])
    hits = _step(importer, node, f"x2 if x0 == x1 else {beyond}", x, extreme, places)
    return _of_rows(importer, node, "max" if last else "min", hits, (axis,))


def _arg(importer: Importer, node: OnnxNode, *, function: str) -> None:
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    axis = importer.axis(node, node.integer("axis"), len(shape))
    last = "select_last_index" in node.attributes and bool(node.integer("select_last_index"))
    found = _argument(importer, node, x, axis, function, last=last)
    own = importer.builder.shape(found)
    op = converting(own, importer.dtype, "i64")
    if node.integer("keepdims"):
        importer.emit(node, op, found)
    else:
        made = importer.step(node, op, found, suffix="_place")
        importer.reshape(node, made, tuple(n for d, n in enumerate(shape) if d != axis))


def _running(importer: Importer, node: OnnxNode, *, gather: str) -> None:
    """Of each place all up to it: a window that ends there, ones or zeros beyond the border."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    axis = importer.axis(node, int(importer.constant(node, 1).reshape(-1)[0]), len(shape))
    size, rank = shape[axis], len(shape)
    back, apart = bool(node.integer("reverse")), bool(node.integer("exclusive"))
    count = size - 1 if apart else size
    neutral = 0.0 if gather == "sum" else 1.0
    terms: list[tuple[tuple[int, int], ...]] = [((d, 1),) for d in range(rank)]
    terms[axis] = ((axis, 1), (rank, 1))
    first = (1 if apart else 0) if back else -(size - 1)
    offsets = tuple(first if d == axis else 0 for d in range(rank))
    if not count:
        importer.emit(node, importer.mapped(f"0 * x0 + {neutral!r}", x), x)
        return
    window = Access(shape, tuple(terms), offsets, neutral)
    kind = importer.dtype
    op = Definition((*shape, count), straight(shape, tuple(range(rank))), (window,), "x0",
                    "sum" if gather == "sum" else "prod", "x0", kind)  # fmt: skip
    importer.emit(node, op, x)


_AXIS = Attribute("axis", "integer", -1)
_EPSILON = Attribute("epsilon", "number", 1e-5)
_STASH = Attribute("stash_type", "integer", 1)
_NUMBER = Input("X", elements="number")


def _argument_operator(kind: str, function: str) -> Operator:
    attributes = (
        Attribute("axis", "integer", 0),
        Attribute("keepdims", "integer", 1, (0, 1)),
        Attribute("select_last_index", "integer", 0, (0, 1), since=12),
    )
    return Operator(kind, (1, 11, 12, 13), (X,), attributes, partial(_arg, function=function))


def _running_operator(kind: str, versions: tuple[int, ...], gather: str) -> Operator:
    attributes = (
        Attribute("exclusive", "integer", 0, (0, 1)),
        Attribute("reverse", "integer", 0, (0, 1)),
    )
    inputs = (_NUMBER, Input("axis", "constant", "integer"))
    return Operator(kind, versions, inputs, attributes, partial(_running, gather=gather))


ROWS = (
    _argument_operator("ArgMax", "max"),
    _argument_operator("ArgMin", "min"),
    _running_operator("CumProd", (26,), "prod"),
    _running_operator("CumSum", (11, 14), "sum"),
    Operator(
        "GroupNormalization",
        (18, 21),
        (X, Input("scale"), Input("bias")),
        (
            _EPSILON,
            Attribute("num_groups", "integer", required=True),
            Attribute("stash_type", "integer", 1, since=21),
        ),
        _group_norm,
    ),
    Operator(
        "Hardmax",
        (1, 11, 13),
        (X,),
        (Attribute("axis", "integer", 1, until=12), Attribute("axis", "integer", -1, since=13)),
        _hardmax,
    ),
    Operator(
        "InstanceNormalization",
        (1, 6, 22),
        (X, Input("scale"), Input("B")),
        (_EPSILON, Attribute("consumed_inputs", "integers", until=5)),
        _instance_norm,
    ),
    Operator(
        "LayerNormalization",
        (17,),
        (X, Input("Scale"), Input("B", optional=True)),
        (_AXIS, _EPSILON, _STASH),
        _layer_norm,
        many=True,
    ),
    Operator(
        "LogSoftmax",
        (1, 11, 13),
        (X,),
        (Attribute("axis", "integer", 1, until=12), Attribute("axis", "integer", -1, since=13)),
        _log_softmax,
    ),
    Operator(
        "LpNormalization", (1, 22), (X,), (_AXIS, Attribute("p", "integer", 2, (1, 2))), _lp_norm
    ),
    Operator(
        "MeanVarianceNormalization",
        (9, 13),
        (X,),
        (Attribute("axes", "integers", (0, 2, 3)),),
        _mean_variance,
    ),
    Operator("RMSNormalization", (23,), (X, Input("scale")), (_AXIS, _EPSILON, _STASH), _rms_norm),
)
