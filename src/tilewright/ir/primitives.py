"""The tensorised primitives: their meaning in NumPy, one entry each.

A call's operands carry one role letter per dimension; the same letter is the same axis in every
operand, several
dimensions of one letter are that axis flattened in order. A meaning takes the operands' local tiles
as arrays of
shape (mesh rows, mesh columns, axes in the order of `axes`) and gives the new value of the first.
`gemm` is the one
collective: the 64 local blocks are one matrix product (swATOP 4.1 and appendix, swDNN Fig. 3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.fixed_point import exact_product, requantised, rounding_called
from tilewright.ir.nodes import Attribute
from tilewright.ir.winograd import transforms_of

Array = npt.NDArray[Any]
Attributes = Mapping[str, Attribute]
Meaning = Callable[[Attributes, tuple[Array, ...]], Array]


@dataclass(frozen=True)
class Primitive:
    """One primitive: `axes` gives the leading axes of each operand; letters not named there follow
    as they come.

    `reads_first`: the old value of the first operand matters (accumulation), so it must be
    initialised.
    """

    name: str
    axes: tuple[str, ...]
    meaning: Meaning
    reads_first: bool = False
    collective: bool = False


def _gemm(_: Attributes, operands: tuple[Array, ...]) -> Array:
    c, a, b = operands
    rows, columns, m, k = a.shape
    n = b.shape[3]
    whole_a = a.transpose(0, 2, 1, 3).reshape(rows * m, columns * k)
    whole_b = b.transpose(0, 2, 1, 3).reshape(rows * b.shape[2], columns * n)
    product = whole_a @ whole_b if c.dtype.kind == "f" else exact_product(whole_a, whole_b)
    whole = product.reshape(rows, m, columns, n).transpose(0, 2, 1, 3)
    total: Array = c + whole.astype(c.dtype, copy=False)
    return total


def _fill(attributes: Attributes, operands: tuple[Array, ...]) -> Array:
    return np.full_like(operands[0], _number(attributes, "value", 0.0, operands[0]))


def _number(attributes: Attributes, name: str, default: float, array: Array) -> float | int:
    """An attribute as a number of the array's kind."""
    value = float(attributes.get(name, default))
    return value if array.dtype.kind == "f" else int(value)


def _scale_add(attributes: Attributes, operands: tuple[Array, ...]) -> Array:
    result: Array = _number(attributes, "alpha", 1.0, operands[0]) * operands[0]
    for other in operands[1:]:
        result = result + _number(attributes, "beta", 1.0, other) * other
    return result


def _requantise(attributes: Attributes, operands: tuple[Array, ...]) -> Array:
    """x over 2 ** `shift`, rounded once, then saturated or wrapped to the type of the result."""
    out, x = operands
    if out.dtype.kind == "f":
        return x.reshape(out.shape)
    rounding = rounding_called(str(attributes.get("rounding", "even")))
    divisor, saturate = 1 << int(attributes.get("shift", 0)), bool(attributes.get("saturate", 1))
    wide = x.astype(np.int64).reshape(out.shape)
    return requantised(wide, divisor, rounding, saturate=saturate, to=out.dtype)


def _copy(_: Attributes, operands: tuple[Array, ...]) -> Array:
    return operands[1].reshape(operands[0].shape)


def _windows(array: Array, axis: int, size: int, stride: int) -> Array:
    """Overlapping windows along `axis`: the axis becomes the window number, the last axis the place
    within.
    """
    view = np.lib.stride_tricks.sliding_window_view(array, size, axis=axis)
    index = [slice(None)] * view.ndim
    index[axis] = slice(None, None, stride)
    return view[tuple(index)]


def _winograd_input(attributes: Attributes, operands: tuple[Array, ...]) -> Array:
    out, x = operands  # x: (r, c, rest), out: (x, t, rest)
    tile = int(attributes["output_tile"])
    b = transforms_of(attributes).input
    window = _windows(x, 3, len(b), tile)  # (R, C, r, t, rest..., c)
    transformed: Array = np.einsum("ir,jc,RSrt...c->RSijt...", b, b, window)
    return transformed.reshape(out.shape).astype(out.dtype, copy=False)


def _winograd_filter(attributes: Attributes, operands: tuple[Array, ...]) -> Array:
    out, w = operands  # w: (r, c, rest), out: (x, rest)
    g = transforms_of(attributes).filter
    transformed: Array = np.einsum("ir,jc,RSrc...->RSij...", g, g, w)
    return transformed.reshape(out.shape).astype(out.dtype, copy=False)


def _winograd_output(attributes: Attributes, operands: tuple[Array, ...]) -> Array:
    out, product = operands  # product: (x, t, rest), out: (r, c, rest)
    found = transforms_of(attributes)
    a, points = found.output, found.points
    split = product.reshape(*product.shape[:2], points, points, *product.shape[3:])
    transformed: Array = np.einsum("ri,cj,RSijt...->RSrtc...", a, a, split)
    return (transformed / found.divisor).reshape(out.shape).astype(out.dtype)


PRIMITIVES: dict[str, Primitive] = {
    p.name: p
    for p in (
        Primitive("gemm", ("mn", "mk", "kn"), _gemm, reads_first=True, collective=True),
        Primitive("fill", ("",), _fill),
        Primitive("copy", ("", ""), _copy),
        Primitive("requantise", ("", ""), _requantise),
        Primitive("scale_add", ("", ""), _scale_add, reads_first=True),
        Primitive("winograd_input", ("xt", "rc"), _winograd_input),
        Primitive("winograd_filter", ("x", "rc"), _winograd_filter),
        Primitive("winograd_output", ("rc", "xt"), _winograd_output),
    )
}
"""`repack` is not here: it changes the shape of a tile in place and is part of the interpreter
itself.
"""
