"""One translator per ONNX operator: a node in, operators appended to the network.

A translator that is not here is refused by name, with the list of those that are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx_importer import Importer
from tilewright.graph.frontends.onnx_model import OnnxNode
from tilewright.ops import (
    BatchNorm,
    Bias,
    Binary,
    Concat,
    LocalResponseNorm,
    Op,
    Pool2d,
    Reshape,
    Softmax,
    SpaceToDepth,
    Unary,
    conv2d,
    flatten,
    gemm,
    global_average_pool2d,
)
from tilewright.ops.op import Shape
from tilewright.ops.pool import Reduction
from tilewright.ops.window import Padding

Translator = Callable[[Importer, OnnxNode], None]


def _conv(importer: Importer, node: OnnxNode) -> None:
    batch, channels, height, width = importer.images(node)
    weight_shape = importer.shape(node, 1)
    if len(weight_shape) != 4:
        raise GraphError(f"{node.title()}: weights of {len(weight_shape)} dimensions")
    kernel = (weight_shape[2], weight_shape[3])
    if node.integers("kernel_shape", kernel) != kernel:
        raise GraphError(f"{node.title()}: kernel_shape contradicts its {kernel} weights")
    stride, dilation = _pair(node, "strides"), _pair(node, "dilations")
    span = ((kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1)
    op = conv2d(
        batch=batch,
        in_channels=channels,
        out_channels=weight_shape[0],
        height=height,
        width=width,
        kernel=kernel,
        stride=stride,
        padding=_padding(node, (height, width), span, stride),
        dilation=dilation,
        groups=node.integer("group", 1),
        dtype=importer.dtype,
    )
    _with_bias(importer, node, op, 1.0)


def _gemm(importer: Importer, node: OnnxNode) -> None:
    a, b = importer.shape(node, 0), importer.shape(node, 1)
    if len(a) != 2 or len(b) != 2:
        raise GraphError(f"{node.title()}: takes matrices, found {len(a)} and {len(b)} dimensions")
    transpose_a, transpose_b = bool(node.integer("transA", 0)), bool(node.integer("transB", 0))
    m, k = (a[1], a[0]) if transpose_a else a
    op = gemm(
        m,
        b[0] if transpose_b else b[1],
        k,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        alpha=node.number("alpha", 1.0),
        dtype=importer.dtype,
    )
    _with_bias(importer, node, op, node.number("beta", 1.0))


def _with_bias(importer: Importer, node: OnnxNode, op: Op, scale: float) -> None:
    """`op` on the first two inputs, then `scale` times the third, if given, added."""
    operands = (importer.operand(node, 0), importer.operand(node, 1))
    if not node.has_input(2):
        importer.emit(node, op, *operands)
        return
    result = importer.step(node, op, *operands)
    bias, bias_shape = importer.operand(node, 2), importer.shape(node, 2)
    name = f"{node.name or node.kind}_bias"
    adding: Op = Bias(op.out_shape, scale=scale, dtype=importer.dtype)
    if bias_shape != (op.out_shape[1],):
        if scale != 1:
            raise GraphError(f"{node.title()}: beta = {scale:g} needs one number per column")
        adding = Binary("add", op.out_shape, bias_shape, importer.dtype)
    importer.builder.apply(adding, result, bias, name=name, output=node.output())


def _mat_mul(importer: Importer, node: OnnxNode) -> None:
    """Any number of leading dimensions times one matrix."""
    a, b = importer.shape(node, 0), importer.shape(node, 1)
    if len(a) < 2 or len(b) != 2:
        raise GraphError(
            f"{node.title()}: takes a matrix as second operand, "
            f"found {len(a)} and {len(b)} dimensions"
        )
    rows = math.prod(a[:-1])
    op = gemm(rows, b[1], a[-1], dtype=importer.dtype)
    x, weights = importer.operand(node, 0), importer.operand(node, 1)
    if len(a) == 2:
        importer.emit(node, op, x, weights)
        return
    x = importer.step(node, Reshape(a, (rows, a[-1]), importer.dtype), x, suffix="_rows")
    product = importer.step(node, op, x, weights)
    back = Reshape(op.out_shape, (*a[:-1], b[1]), importer.dtype)
    importer.builder.apply(
        back, product, name=f"{node.name or node.kind}_back", output=node.output()
    )


def _unary(
    importer: Importer, node: OnnxNode, *, function: str, alpha: float = 0.0, beta: float = 0.0
) -> None:
    """A function whose parameters are the attributes alpha and beta, with ONNX's defaults."""
    op = Unary(
        function,
        importer.shape(node, 0),
        node.number("alpha", alpha),
        node.number("beta", beta),
        importer.dtype,
    )
    importer.emit(node, op, importer.operand(node, 0))


def _clip(importer: Importer, node: OnnxNode) -> None:
    """Bounds are attributes up to operator set 10 and inputs from 11 on; both are optional."""
    bounds = [node.attributes.get(name) for name in ("min", "max")]
    limits = [-math.inf, math.inf]
    for index in (0, 1):
        if node.has_input(index + 1):
            constant = importer.constant(node, index + 1)
            if constant.size != 1:
                raise GraphError(f"{node.title()}: a bound must be one number")
            limits[index] = float(constant.reshape(()))
        elif isinstance(value := bounds[index], float):
            limits[index] = value
    op = Unary("clip", importer.shape(node, 0), limits[0], limits[1], importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _variadic(importer: Importer, node: OnnxNode, *, function: str) -> None:
    """A function of two tensors, or of a list of them from left to right."""
    result = importer.operand(node, 0)
    if len(node.inputs) == 1:
        importer.emit(
            node, Unary("identity", importer.shape(node, 0), dtype=importer.dtype), result
        )
    for index in range(1, len(node.inputs)):
        right = importer.operand(node, index)
        shapes = importer.builder.shape(result), importer.builder.shape(right)
        op = Binary(function, *shapes, importer.dtype)
        if index == len(node.inputs) - 1:
            importer.emit(node, op, result, right)
        else:
            result = importer.step(node, op, result, right, suffix=f"_{index}")


def _pool(importer: Importer, node: OnnxNode, *, reduction: Reduction) -> None:
    batch, channels, height, width = importer.images(node)
    kernel = _pair(node, "kernel_shape")
    if "kernel_shape" not in node.attributes:
        raise GraphError(f"{node.title()}: attribute kernel_shape is missing")
    if _pair(node, "dilations") != (1, 1):
        raise GraphError(f"{node.title()}: dilated pooling is not supported")
    node.refuse_unless("storage_order", 0)
    stride = _pair(node, "strides")
    op = Pool2d(
        reduction,
        batch,
        channels,
        height,
        width,
        kernel,
        stride,
        _padding(node, (height, width), kernel, stride),
        bool(node.integer("ceil_mode", 0)),
        bool(node.integer("count_include_pad", 0)),
        importer.dtype,
    )
    importer.emit(node, op, importer.operand(node, 0))


def _global_pool(importer: Importer, node: OnnxNode, *, reduction: Reduction) -> None:
    batch, channels, height, width = importer.images(node)
    size = (height, width)
    op = Pool2d(reduction, batch, channels, *size, size, size, dtype=importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _reduce_mean(importer: Importer, node: OnnxNode) -> None:
    """The mean over rows and columns of images, as exporters write global average pooling."""
    shape = importer.images(node)
    axes = importer.integers(node, 1) if node.has_input(1) else node.integers("axes", ())
    if {importer.axis(node, axis, 4) for axis in axes} != {2, 3}:
        raise GraphError(f"{node.title()}: only the mean over axes 2 and 3 is supported")
    op = global_average_pool2d(shape, dtype=importer.dtype)
    if node.integer("keepdims", 1):
        importer.emit(node, op, importer.operand(node, 0))
        return
    mean = importer.step(node, op, importer.operand(node, 0))
    _reshape_to(importer, node, mean, shape[:2])


def _batch_norm(importer: Importer, node: OnnxNode) -> None:
    node.refuse_unless("training_mode", 0)
    op = BatchNorm(importer.shape(node, 0), node.number("epsilon", 1e-5), importer.dtype)
    importer.emit(node, op, *(importer.operand(node, index) for index in range(5)))


def _local_response_norm(importer: Importer, node: OnnxNode) -> None:
    op = LocalResponseNorm(
        importer.shape(node, 0),
        node.integer("size", 0),
        node.number("alpha", 1e-4),
        node.number("beta", 0.75),
        node.number("bias", 1.0),
        importer.dtype,
    )
    importer.emit(node, op, importer.operand(node, 0))


def _softmax(importer: Importer, node: OnnxNode) -> None:
    """Up to operator set 12 the tensor counts as a matrix split before the axis."""
    shape = importer.shape(node, 0)
    x = importer.operand(node, 0)
    if importer.opset >= 13:
        axis = importer.axis(node, node.integer("axis", -1), len(shape))
        importer.emit(node, Softmax(shape, axis, importer.dtype), x)
        return
    axis = importer.axis(node, node.integer("axis", 1), len(shape))
    matrix = flatten(shape, axis=axis, dtype=importer.dtype)
    if matrix.out_shape == shape:
        importer.emit(node, Softmax(shape, 1, importer.dtype), x)
        return
    x = importer.step(node, matrix, x, suffix="_rows")
    x = importer.step(node, Softmax(matrix.out_shape, 1, importer.dtype), x)
    _reshape_to(importer, node, x, shape)


def _flatten(importer: Importer, node: OnnxNode) -> None:
    shape = importer.shape(node, 0)
    axis = node.integer("axis", 1)
    axis = axis if axis == len(shape) else importer.axis(node, axis, len(shape))
    importer.emit(node, flatten(shape, axis=axis, dtype=importer.dtype), importer.operand(node, 0))


def _reshape(importer: Importer, node: OnnxNode) -> None:
    """0 keeps an extent, -1 takes what is left; a batch size fixed by the file is replaced."""
    node.refuse_unless("allowzero", 0)
    shape = importer.shape(node, 0)
    wanted = list(importer.integers(node, 1))
    if any(extent < -1 for extent in wanted) or wanted.count(-1) > 1:
        raise GraphError(f"{node.title()}: {tuple(wanted)} is not a shape")
    if any(extent == 0 and index >= len(shape) for index, extent in enumerate(wanted)):
        raise GraphError(f"{node.title()}: {tuple(wanted)} keeps an extent that {shape} lacks")
    target = [shape[index] if extent == 0 else extent for index, extent in enumerate(wanted)]
    starts_with_batch = target[:1] == [importer.file_batch]
    if importer.batch and starts_with_batch and math.prod(target) != math.prod(shape):
        target[0] = importer.batch
    if -1 in target:
        known = math.prod(extent for extent in target if extent != -1)
        target[target.index(-1)] = math.prod(shape) // max(known, 1)
    _reshape_to(importer, node, importer.operand(node, 0), tuple(target))


def _squeeze(importer: Importer, node: OnnxNode) -> None:
    shape = importer.shape(node, 0)
    given = importer.integers(node, 1) if node.has_input(1) else node.integers("axes", ())
    axes = {importer.axis(node, axis, len(shape)) for axis in given}
    if any(shape[axis] != 1 for axis in axes):
        raise GraphError(f"{node.title()}: an axis of {shape} to drop is longer than 1")
    dropped = axes or {axis for axis, extent in enumerate(shape) if extent == 1}
    rest = tuple(extent for axis, extent in enumerate(shape) if axis not in dropped)
    _reshape_to(importer, node, importer.operand(node, 0), rest)


def _unsqueeze(importer: Importer, node: OnnxNode) -> None:
    shape = importer.shape(node, 0)
    given = importer.integers(node, 1) if node.has_input(1) else node.integers("axes", ())
    rank = len(shape) + len(given)
    axes = {importer.axis(node, axis, rank) for axis in given}
    rest = iter(shape)
    wanted = tuple(1 if axis in axes else next(rest, 0) for axis in range(rank))
    _reshape_to(importer, node, importer.operand(node, 0), wanted)


def _reshape_to(importer: Importer, node: OnnxNode, x: str, shape: Shape) -> None:
    op = Reshape(importer.builder.shape(x), shape, importer.dtype)
    importer.builder.apply(op, x, name=node.name or node.kind, output=node.output())


def _concat(importer: Importer, node: OnnxNode) -> None:
    operands = tuple(importer.operand(node, index) for index in range(len(node.inputs)))
    shapes = tuple(importer.builder.shape(name) for name in operands)
    axis = importer.axis(node, node.integer("axis", 0), len(shapes[0]) if shapes else 0)
    importer.emit(node, Concat(shapes, axis, importer.dtype), *operands)


def _space_to_depth(importer: Importer, node: OnnxNode) -> None:
    batch, channels, height, width = importer.images(node)
    block = node.integer("blocksize", 0)
    op = SpaceToDepth(batch, channels, height, width, block, importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _pair(node: OnnxNode, name: str) -> tuple[int, int]:
    first, second = node.integers(name, (1, 1))
    return first, second


def _padding(
    node: OnnxNode, image: tuple[int, int], span: tuple[int, int], stride: tuple[int, int]
) -> Padding:
    """(top, left, bottom, right) from `pads` or from the older `auto_pad`."""
    mode = node.text("auto_pad", "NOTSET")
    match mode:
        case "NOTSET":
            top, left, bottom, right = node.integers("pads", (0, 0, 0, 0))
            return top, left, bottom, right
        case "VALID":
            return 0, 0, 0, 0
        case "SAME_UPPER" | "SAME_LOWER":
            before, after = [0, 0], [0, 0]
            for axis in (0, 1):
                windows = -(-image[axis] // max(stride[axis], 1))
                total = max(0, (windows - 1) * stride[axis] + span[axis] - image[axis])
                before[axis] = total // 2 if mode == "SAME_UPPER" else total - total // 2
                after[axis] = total - before[axis]
            return before[0], before[1], after[0], after[1]
    raise GraphError(f"{node.title()}: auto_pad must not be {ascii(mode)[:40]}")


TRANSLATORS: dict[str, Translator] = {
    "Abs": partial(_unary, function="abs"),
    "Add": partial(_variadic, function="add"),
    "AveragePool": partial(_pool, reduction="average"),
    "BatchNormalization": _batch_norm,
    "Ceil": partial(_unary, function="ceil"),
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "Div": partial(_variadic, function="div"),
    "Dropout": partial(_unary, function="identity"),
    "Elu": partial(_unary, function="elu", alpha=1.0),
    "Exp": partial(_unary, function="exp"),
    "Flatten": _flatten,
    "Floor": partial(_unary, function="floor"),
    "Gemm": _gemm,
    "GlobalAveragePool": partial(_global_pool, reduction="average"),
    "GlobalMaxPool": partial(_global_pool, reduction="max"),
    "HardSigmoid": partial(_unary, function="hard_sigmoid", alpha=0.2, beta=0.5),
    "Identity": partial(_unary, function="identity"),
    "LRN": _local_response_norm,
    "LeakyRelu": partial(_unary, function="leaky_relu", alpha=0.01),
    "Log": partial(_unary, function="log"),
    "MatMul": _mat_mul,
    "Max": partial(_variadic, function="max"),
    "MaxPool": partial(_pool, reduction="max"),
    "Min": partial(_variadic, function="min"),
    "Mul": partial(_variadic, function="mul"),
    "Neg": partial(_unary, function="neg"),
    "Reciprocal": partial(_unary, function="reciprocal"),
    "ReduceMean": _reduce_mean,
    "Relu": partial(_unary, function="relu"),
    "Reshape": _reshape,
    "Sigmoid": partial(_unary, function="sigmoid"),
    "Softmax": _softmax,
    "Softplus": partial(_unary, function="softplus"),
    "SpaceToDepth": _space_to_depth,
    "Sqrt": partial(_unary, function="sqrt"),
    "Squeeze": _squeeze,
    "Sub": partial(_variadic, function="sub"),
    "Sum": partial(_variadic, function="add"),
    "Tanh": partial(_unary, function="tanh"),
    "Unsqueeze": _unsqueeze,
}
