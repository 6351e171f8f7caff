"""ONNX's operators with outputs that are known in advance: shapes, ranges, diagonals."""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.graph.frontends.onnx.declare import TYPES, Operator
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, MOST_ELEMENTS, Importer
from tilewright.ops.op import show_shape


def _constant_of_shape(at: Importer) -> None:
    value, extents = at.node.attributes.get("value", np.zeros(1, np.float32)), at.integers(0)
    if min(extents, default=1) < 0 or prod(extents) > MOST_ELEMENTS or np.size(value) != 1:  # type: ignore[arg-type]  # a tensor
        raise at.wrong(f"one value of the shape {extents}, at most {MOST_ELEMENTS} elements")
    at.constants[at.node.output()] = np.full(
        extents, np.asarray(value).item(), np.asarray(value).dtype
    )


def _range(at: Importer) -> None:
    numbers = [at.constant(i).reshape(-1)[0] for i in range(3)]
    start, limit, delta = (number.item() for number in numbers)
    if not delta:
        raise at.wrong("steps of 0 reach no limit")
    if not (limit - start) / delta <= MOST_ELEMENTS:
        raise at.wrong(f"from {start} to {limit} by {delta} are more than {MOST_ELEMENTS} elements")
    at.constants[at.node.output()] = np.arange(*numbers, dtype=numbers[0].dtype)


def _eye_like(at: Importer) -> None:
    """Ones on a diagonal, in the operand's type or the one of an attribute."""
    shape, kind = at.shape(0, EVERY_TYPE), at.element_type(at.node.input(0))
    if "dtype" in at.node.attributes:
        kind = TYPES.get(at.node.integer("dtype"), "")
    if not kind or len(shape) != 2:
        raise at.wrong(f"its dtype, of a tensor of {len(shape)} dimensions, is not supported")
    if prod(shape) > MOST_ELEMENTS:
        raise at.wrong(f"a matrix of {show_shape(shape)}, at most {MOST_ELEMENTS} elements")
    eye = np.eye(*shape, max(-(1 << 31), min(at.node.integer("k"), 1 << 31)), dtype(kind).numpy)
    at.constants[at.node.output()] = eye


READ = (
    Operator("ConstantOfShape", _constant_of_shape, known="input"),
    Operator("EyeLike", _eye_like, "any"),
    Operator("NonZero", fold=lambda node, x: np.argwhere(x).T, limits="of constants alone"),
    Operator("Range", _range, known="start limit delta"),
    Operator("Size", fold=lambda node, own: np.array(np.prod(own), np.int64), extents="data"),
)
