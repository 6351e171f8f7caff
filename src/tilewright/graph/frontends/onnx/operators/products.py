"""ONNX's operators with weights: convolution, matrix products, normalisation."""

from __future__ import annotations

import math

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError, ShapeError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator, X
from tilewright.graph.frontends.onnx.importer import Importer, require_images
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.operators import any_rank
from tilewright.graph.frontends.onnx.operators.windows import (
    AUTO_PAD,
    IMAGE_RANK,
    PADS,
    STRIDES,
    padding,
    pair,
)
from tilewright.ops import (
    BatchNorm,
    Bias,
    Binary,
    Conv2d,
    LocalResponseNorm,
    Op,
    Reshape,
    Softmax,
    conv2d,
    flatten,
    gemm,
)
from tilewright.ops.einsum import einsum
from tilewright.ops.op import Shape, show_shape


def _conv(importer: Importer, node: OnnxNode) -> None:
    if len(importer.shape(node, 0)) != IMAGE_RANK:
        images, weights = importer.shape(node, 0), importer.shape(node, 1)
        general = any_rank.convolution(importer, node, images, weights)
        names = importer.operand(node, 0), importer.operand(node, 1)
        any_rank.with_bias(importer, node, general, names)
        return
    op = convolution(node, importer.shape(node, 0), importer.shape(node, 1), importer.dtype)
    if node.has_input(2) and importer.shape(node, 2) != (op.out_channels,):
        raise GraphError(
            f"{node.title()}: {op.out_channels} biases are needed, found "
            f"{show_shape(importer.shape(node, 2))}"
        )
    _with_addend(importer, node, op, 1.0)


def convolution(node: OnnxNode, images: Shape, weights: Shape, numerics: str) -> Conv2d:
    """The convolution that a node's attributes describe; `numerics` names its element types."""
    batch, channels, height, width = require_images(node, images)
    if len(weights) != 4:
        raise GraphError(f"{node.title()}: weights of {len(weights)} dimensions")
    kernel = (weights[2], weights[3])
    if "kernel_shape" in node.attributes and node.integers("kernel_shape") != kernel:
        raise GraphError(f"{node.title()}: kernel_shape contradicts its {kernel} weights")
    stride, dilation = pair(node, "strides"), pair(node, "dilations")
    span = ((kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1)
    return conv2d(
        batch=batch,
        in_channels=channels,
        out_channels=weights[0],
        height=height,
        width=width,
        kernel=kernel,
        stride=stride,
        padding=padding(node, (height, width), span, stride),
        dilation=dilation,
        groups=node.integer("group"),
        dtype=numerics,
    )


def _gemm(importer: Importer, node: OnnxNode) -> None:
    a, b = importer.shape(node, 0), importer.shape(node, 1)
    if len(a) != 2 or len(b) != 2:
        raise GraphError(f"{node.title()}: takes matrices, found {len(a)} and {len(b)} dimensions")
    transpose_a, transpose_b = bool(node.integer("transA")), bool(node.integer("transB"))
    m, k = (a[1], a[0]) if transpose_a else a
    op = gemm(
        m,
        b[0] if transpose_b else b[1],
        k,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        alpha=node.number("alpha"),
        dtype=importer.dtype,
    )
    if node.has_input(2):
        _require_addend(node, op.out_shape, importer.shape(node, 2))
    _with_addend(importer, node, op, node.number("beta"))


def _require_addend(node: OnnxNode, product: Shape, addend: Shape) -> None:
    """C is broadcast to the product and never the other way; up to version 6 only if asked to."""
    extents = zip(reversed(product), reversed(addend), strict=False)
    fits = len(addend) <= 2 and all(own in (1, whole) for whole, own in extents)
    if not fits or (node.version < 7 and addend != product and not node.integer("broadcast")):
        raise GraphError(
            f"{node.title()}: C is {show_shape(addend)}, which cannot be added to "
            f"{show_shape(product)}"
        )


def _with_addend(importer: Importer, node: OnnxNode, op: Op, scale: float) -> None:
    """`op` on the first two inputs, then `scale` times the third, if given, added; where the scale
    is 0 the third input is ignored, NaN included, as in BLAS.
    """
    operands = (importer.operand(node, 0), importer.operand(node, 1))
    if not node.has_input(2) or scale == 0:
        importer.emit(node, op, *operands)
        return
    result = importer.step(node, op, *operands)
    addend, shape = importer.operand(node, 2), importer.shape(node, 2)
    adding: Op = Bias(op.out_shape, scale=scale, dtype=importer.dtype)
    if shape != (op.out_shape[1],):
        adding = Binary("add", op.out_shape, shape, importer.dtype)
        addend = _scaled(importer, node, addend, scale)
    importer.give(node.output(), node, adding, result, addend, suffix="_bias")


def _scaled(importer: Importer, node: OnnxNode, x: str, scale: float) -> str:
    """`scale` times a tensor; constants are scaled at once."""
    if scale == 1:
        return x
    kind = dtype(importer.file_dtype).numpy
    if x in importer.constants:
        numbers = np.asarray(scale * importer.constants[x], kind)
        return importer.use(importer.new_constant(f"{x}/scaled", numbers), node.title())
    factor = importer.new_constant(f"{node.output()}/beta", np.full((1,), scale, kind))
    op = Binary("mul", importer.builder.shape(x), (1,), importer.dtype)
    return importer.step(node, op, x, importer.use(factor, node.title()), suffix="_beta")


def _einsum(importer: Importer, node: OnnxNode) -> None:
    shapes = [importer.shape(node, i) for i in range(len(node.inputs))]
    try:
        op = einsum(node.text("equation"), shapes, dtype=importer.dtype)
    except ShapeError as error:
        raise GraphError(f"{node.title()}: {error.message}") from error
    importer.emit(node, op, *(importer.operand(node, i) for i in range(len(shapes))))


def _mat_mul(importer: Importer, node: OnnxNode) -> None:
    """Any number of leading dimensions times one matrix."""
    a, b = importer.shape(node, 0), importer.shape(node, 1)
    if len(a) < 2 or len(b) != 2 or not importer.is_float:
        _of_batches(importer, node, a, b)
        return
    rows = math.prod(a[:-1])
    op = gemm(rows, b[1], a[-1], dtype=importer.dtype)
    x, weights = importer.operand(node, 0), importer.operand(node, 1)
    if len(a) == 2:
        importer.emit(node, op, x, weights)
        return
    x = importer.step(node, Reshape(a, (rows, a[-1]), importer.dtype), x, suffix="_rows")
    product = importer.step(node, op, x, weights)
    back = Reshape(op.out_shape, (*a[:-1], b[1]), importer.dtype)
    importer.give(node.output(), node, back, product, suffix="_back")


def _of_batches(importer: Importer, node: OnnxNode, a: Shape, b: Shape) -> None:
    """Products of computed tensors, whose leading dimensions are broadcast; vectors are matrices
    of one row or column.
    """
    if not a or not b:
        raise GraphError(f"{node.title()}: a single number is no matrix")
    letters = "abcdefghij"[: max(len(a), len(b), 2) - 2]
    left = "k" if len(a) == 1 else f"{letters[len(letters) - len(a) + 2 :]}mk"
    right = "k" if len(b) == 1 else f"{letters[len(letters) - len(b) + 2 :]}kn"
    result = letters + ("m" if len(a) > 1 else "") + ("n" if len(b) > 1 else "")
    kind = importer.dtype if importer.is_float else f"{importer.dtype}:i64:{importer.dtype}"
    op = einsum(f"{left},{right}->{result}", [a, b], dtype=kind)
    importer.emit(node, op, importer.operand(node, 0), importer.operand(node, 1))


def _batch_norm(importer: Importer, node: OnnxNode) -> None:
    op = BatchNorm(importer.shape(node, 0), node.number("epsilon"), importer.dtype)
    importer.emit(node, op, *(importer.operand(node, index) for index in range(5)))


def _local_response_norm(importer: Importer, node: OnnxNode) -> None:
    op = LocalResponseNorm(
        importer.shape(node, 0),
        node.integer("size"),
        node.number("alpha"),
        node.number("beta"),
        node.number("bias"),
        importer.dtype,
    )
    importer.emit(node, op, importer.operand(node, 0))


def _softmax(importer: Importer, node: OnnxNode) -> None:
    """Up to operator set 12 the tensor counts as a matrix split before the axis."""
    shape = importer.shape(node, 0)
    x = importer.operand(node, 0)
    axis = importer.axis(node, node.integer("axis"), len(shape))
    matrix = flatten(shape, axis=axis, dtype=importer.dtype)
    if node.version >= 13:
        importer.emit(node, Softmax(shape, axis, importer.dtype), x)
    elif matrix.out_shape == shape:
        importer.emit(node, Softmax(shape, 1, importer.dtype), x)
    else:
        x = importer.step(node, matrix, x, suffix="_rows")
        x = importer.step(node, Softmax(matrix.out_shape, 1, importer.dtype), x)
        importer.reshape(node, x, shape)


CONVOLUTION = (
    AUTO_PAD,
    Attribute("dilations", "integers"),
    Attribute("group", "integer", 1),
    Attribute("kernel_shape", "integers"),
    PADS,
    STRIDES,
)
"""The attributes of every convolution."""

PRODUCTS = (
    Operator(
        "Conv",
        (1, 11, 22),
        (X, Input("W"), Input("B", optional=True)),
        CONVOLUTION,
        _conv,
    ),
    Operator(
        "Gemm",
        (1, 6, 7, 9, 11, 13),
        (Input("A"), Input("B"), Input("C", until=10), Input("C", optional=True, since=11)),
        (
            Attribute("alpha", "number", 1.0),
            Attribute("beta", "number", 1.0),
            Attribute("broadcast", "integer", 0, (0, 1), until=6),
            Attribute("transA", "integer", 0, (0, 1)),
            Attribute("transB", "integer", 0, (0, 1)),
        ),
        _gemm,
    ),
    Operator(
        "Einsum",
        (12, 28),
        (Input("Inputs"),),
        (Attribute("equation", "text", required=True),),
        _einsum,
        variadic=True,
    ),
    Operator(
        "MatMul",
        (1, 9, 13),
        (Input("A", elements="number"), Input("B", elements="number")),
        (),
        _mat_mul,
    ),
    Operator(
        "BatchNormalization",
        (1, 6, 7, 9, 14, 15),
        (X, *(Input(name) for name in ("scale", "B", "mean", "var"))),
        (
            Attribute("epsilon", "number", 1e-5),
            Attribute("momentum", "number", 0.9),
            Attribute("is_test", "integer", 0, (1,), until=6),
            Attribute("spatial", "integer", 1, (1,), until=8),
            Attribute("training_mode", "integer", 0, (0,), since=14),
            Attribute("consumed_inputs", "integers", required=True, until=5),
        ),
        _batch_norm,
        limits="inference",
    ),
    Operator(
        "LRN",
        (1, 13),
        (X,),
        (
            Attribute("size", "integer", required=True),
            Attribute("alpha", "number", 1e-4),
            Attribute("beta", "number", 0.75),
            Attribute("bias", "number", 1.0),
        ),
        _local_response_norm,
    ),
    Operator(
        "Softmax",
        (1, 11, 13),
        (X,),
        (
            Attribute("axis", "integer", 1, until=12),
            Attribute("axis", "integer", -1, since=13),
        ),
        _softmax,
    ),
)
