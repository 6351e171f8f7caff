"""ONNX's operators with weights: convolution, matrix products, normalisation, also on integers, and
quantisation by scales and zero points.

Zero points of 8-bit operands are subtracted first. The difference needs nine bits, so the operand
becomes a tensor of 16 bits; sums have 32 bits. For a constant operand with a known zero point, the
difference is a constant, too.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright import ops
from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, Importer
from tilewright.graph.frontends.onnx.operators.windows import (
    IMAGE_RANK,
    IMAGES,
    convolution,
    node_windows,
    with_bias,
)
from tilewright.ops.notation import einsum
from tilewright.ops.op import Shape, show_shape

_DIFFERENCE = "i16"
_ONLY = {"output_dtype": (0,), "block_size": (0,)}


def _conv(at: Importer) -> None:
    if len(at.shape(0)) != IMAGE_RANK:
        with_bias(at, convolution(at, at.shape(0), at.shape(1)))
        return
    op = _of_images(at, at.shape(0), at.shape(1), at.dtype)
    if at.node.has_input(2) and at.shape(2) != (op.out_channels,):
        raise at.wrong(f"{op.out_channels} biases are needed, found {show_shape(at.shape(2))}")
    _with_addend(at, op, 1.0)


def _of_images(at: Importer, images: Shape, weights: Shape, numerics: str) -> ops.Conv2d:
    """The convolution of images that a node's attributes describe; `numerics` is its `dtype`."""
    if len(weights) != IMAGE_RANK:
        raise at.wrong(f"weights of {len(weights)} dimensions")
    batch, channels, height, width = images
    kernel = (weights[2], weights[3])
    if at.node.attributes.get("kernel_shape", kernel) != kernel:
        raise at.wrong(f"kernel_shape contradicts its {kernel} weights")
    found = node_windows(at.node, images[2:], kernel)
    (down, right), (dilated, across), (top, left) = found.stride, found.dilation, found.before
    return ops.conv2d(
        batch=batch, in_channels=channels, out_channels=weights[0], height=height, width=width,
        kernel=kernel, stride=(down, right), padding=(top, left, found.after[0], found.after[1]),
        dilation=(dilated, across), groups=at.node.integer("group"), dtype=numerics,
    )  # fmt: skip


def _matrices(at: Importer, *types: str) -> tuple[Shape, Shape]:
    a, b = at.shape(0, types), at.shape(1, types)
    if len(a) != 2 or len(b) != 2:
        raise at.wrong(f"takes matrices, found {len(a)} and {len(b)} dimensions")
    return a, b


def _gemm(at: Importer) -> None:
    a, b = _matrices(at)
    transposed = {"transpose_a": at.node.flag("transA"), "transpose_b": at.node.flag("transB")}
    m, k = reversed(a) if at.node.flag("transA") else a
    n = b[0] if at.node.flag("transB") else b[1]
    op = ops.gemm(m, n, k, **transposed, alpha=at.node.number("alpha"), dtype=at.dtype)
    if at.node.has_input(2):
        _require_addend(at, op.out_shape, at.shape(2))
    _with_addend(at, op, at.node.number("beta"))


def _require_addend(at: Importer, product: Shape, addend: Shape) -> None:
    """Require that C broadcasts to the product; up to version 6 only with the attribute set."""
    extents = zip(reversed(product), reversed(addend), strict=False)
    fits = len(addend) <= 2 and all(own in (1, whole) for whole, own in extents)
    if not fits or (at.node.version < 7 and addend != product and not at.node.flag("broadcast")):
        raise at.wrong(f"C is {show_shape(addend)}, which cannot be added to {show_shape(product)}")


def _with_addend(at: Importer, op: ops.Op, scale: float) -> None:
    """Append `op` on the first two inputs, plus `scale` times the third, if any. A scale of 0 makes
    the third input irrelevant, NaN included, as in BLAS.
    """
    operands = (at.operand(0), at.operand(1))
    if not at.node.has_input(2) or scale == 0:
        at.emit(op, *operands)
        return
    result, addend, shape = at.step(op, *operands), at.operand(2), at.shape(2)
    adding: ops.Op = ops.Bias(op.out_shape, scale=scale, dtype=at.dtype)
    if shape != (op.out_shape[1],):
        adding = ops.Binary("add", op.out_shape, shape, at.dtype)
        if addend in at.constants:
            addend = at.held("scaled", np.asarray(scale * at.constants[addend]))
        elif scale != 1:
            addend = at.each(f"{scale!r} * x0", addend, suffix="_beta")
    at.give(at.node.output(), adding, result, addend, suffix="_bias")


def _einsum(at: Importer) -> None:
    names = at.operands()
    shapes = [at.builder.shape(name) for name in names]
    at.emit(einsum(at.node.text("equation"), shapes, dtype=at.dtype), *names)


def _mat_mul(at: Importer) -> None:
    """MatMul: a tensor with any number of leading dimensions times a matrix or a batch."""
    a, b = at.shape(0), at.shape(1)
    x, weights = at.operand(0), at.operand(1)
    if len(a) < 2 or len(b) != 2 or not at.is_float:
        kind = at.dtype if at.is_float else f"{at.dtype}:i64:{at.dtype}:even:wrap"
        at.emit(product_of_batches(at, a, b, kind), x, weights)
        return
    rows = prod(a[:-1])
    op = ops.gemm(rows, b[1], a[-1], dtype=at.dtype)
    if len(a) == 2:
        at.emit(op, x, weights)
    else:
        product = at.step(op, at.reshaped(x, (rows, a[-1]), "_rows"), weights)
        at.reshape(product, (*a[:-1], b[1]))


def product_of_batches(at: Importer, a: Shape, b: Shape, kind: str) -> ops.Op:
    """The product of tensors with broadcast leading dimensions; vectors count as matrices of one
    row or column.
    """
    if not a or not b:
        raise at.wrong("a single number is no matrix")
    letters = "abcdefghij"[: max(len(a), len(b), 2) - 2]
    left = "k" if len(a) == 1 else f"{letters[len(letters) - len(a) + 2 :]}mk"
    right = "k" if len(b) == 1 else f"{letters[len(letters) - len(b) + 2 :]}kn"
    result = letters + "m" * (len(a) > 1) + "n" * (len(b) > 1)
    return einsum(f"{left},{right}->{result}", [a, b], dtype=kind)


def _batch_norm(at: Importer) -> None:
    at.emit(ops.BatchNorm(at.shape(0), at.node.number("epsilon"), at.dtype), *at.operands())


def _local_response_norm(at: Importer) -> None:
    alpha, beta, bias = (at.node.number(name) for name in ("alpha", "beta", "bias"))
    size = at.node.integer("size")
    at.emit(ops.LocalResponseNorm(at.shape(0), size, alpha, beta, bias, at.dtype), at.operand(0))


def _softmax(at: Importer) -> None:
    """Softmax; up to operator set 12, over the tensor as a matrix split before the axis."""
    x, shape, axis = at.operand(0), at.shape(0), at.axis()
    matrix = (
        shape if at.node.version >= 13 else ops.flatten(shape, axis=axis, dtype=at.dtype).out_shape
    )
    op = ops.Softmax(matrix, axis if at.node.version >= 13 else 1, at.dtype)
    if matrix == shape:
        at.emit(op, x)
    else:
        at.reshape(at.step(op, at.reshaped(x, matrix, "_rows")), shape)


def _conv_integer(at: Importer) -> None:
    w = at.shape(1, EVERY_TYPE)
    names = _centred(at, 0, 2, (1,)), _centred(at, 1, 3, (*w[:1], 1, 1, 1))
    kinds = ",".join(map(at.builder.element_type, names))
    at.emit(_of_images(at, at.images(EVERY_TYPE), w, f"{kinds}:i32"), *names)


def _mat_mul_integer(at: Importer) -> None:
    a, b = _matrices(at, *EVERY_TYPE)
    names = _centred(at, 0, 2, (a[0], 1)), _centred(at, 1, 3, (1, b[1]))
    kinds = ",".join(map(at.builder.element_type, names))
    at.emit(ops.gemm(a[0], b[1], a[1], dtype=f"{kinds}:i32"), *names)


def _centred(at: Importer, index: int, zero: int, many: Shape) -> str:
    """The operand at `index` minus its zero point, a single one or one per index of `many`."""
    name, operand = at.node.input(index), at.operand(index, EVERY_TYPE)
    kind = at.builder.element_type(operand)
    points = at.node.input(zero) if at.node.has_input(zero) else ""
    if not points or (points in at.constants and not np.any(at.constants[points])):
        return operand
    count = prod(at.shape(zero, (kind,)))
    if count not in (1, prod(many)):
        raise at.wrong(
            f"input {zero} holds {count} zero points, "
            f"expected one{f' or {max(many)}' if max(many) > 1 else ''}"
        )
    wanted = many if count > 1 else (1,)
    if {name, points} <= at.constants.keys():
        less = at.constants[name].astype(np.int16) - at.constants[points].reshape(wanted)
        return at.held(f"centred{index}", less)
    op = ops.Binary("sub", at.builder.shape(operand), wanted, f"{kind}:{_DIFFERENCE}")
    suffix = "_centred" if index == 0 else "_weights_centred"
    zeros = at.reshaped(at.operand(zero, (kind,)), wanted, f"_zero{zero}")
    return at.step(op, operand, zeros, suffix=suffix)


def _along(at: Importer) -> list[str]:
    """The operand, its scale and its zero point, single numbers or one per index of the axis."""
    x, *others = at.operands(EVERY_TYPE)
    shape, found = at.builder.shape(x), [x]
    for name in others:
        own = at.builder.shape(name)
        if len(own) > 1:
            raise at.wrong("scales of blocks are not supported")
        if own not in ((), (1,)):
            axis = at.axis(rank=len(shape))
            name = at.reshaped(name, tuple(own[0] if d == axis else 1 for d in range(len(shape))))
        found.append(name)
    return found


def _quantise(at: Importer) -> None:
    """QuantizeLinear: the quotient rounded to even, plus the zero point, clamped to its type."""
    x, scale, *zero = _along(at)
    quotient = at.each("x0 / x1", x, scale, suffix="_quotient", computed="f32")
    kind = at.builder.element_type(zero[0]) if zero else "u8"
    body = "round(x0) + x1" if zero else "round(x0)"
    at.map(body, quotient, *zero, computed="f32", result=kind)


def _dequantise(at: Importer) -> None:
    names = _along(at)
    body, kind = (
        "(x0 - x2) * x1" if len(names) > 2 else "x0 * x1",
        at.builder.element_type(names[1]),
    )
    at.map(body, *names, computed="f32", result=kind)


def _product(at: Importer) -> None:
    """QLinearMatMul: the product of the dequantised matrices, quantised again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = at.operands(EVERY_TYPE)
    names = [at.each("x0 - x1", *pair, computed="f32") for pair in ((a, a_zero), (b, b_zero))]
    shapes = [at.builder.shape(name) for name in names]
    made = at.step(product_of_batches(at, shapes[0], shapes[1], "f32"), *names, suffix="_product")
    operands, kind = (made, a_scale, b_scale, y_scale, y_zero), at.builder.element_type(y_zero)
    at.map("round(x0 * (x1 * x2 / x3)) + x4", *operands, computed="f32", result=kind)


READ = (
    Operator(
        "BatchNormalization", _batch_norm, limits="inference",
        only={"is_test": (1,), "spatial": (1,), "training_mode": (0,)},
    ),
    Operator("Conv", _conv),
    Operator("ConvInteger", _conv_integer, limits=IMAGES),
    Operator("Einsum", _einsum),
    Operator("Gemm", _gemm),
    Operator("LRN", _local_response_norm),
    Operator("MatMul", _mat_mul, "number"),
    Operator("MatMulInteger", _mat_mul_integer, limits="A and B are matrices"),
    Operator("DequantizeLinear", _dequantise, "any", only=_ONLY),
    Operator("QLinearMatMul", _product, "any"),
    Operator("QuantizeLinear", _quantise, "any", only=_ONLY),
    Operator("Softmax", _softmax),
)  # fmt: skip
