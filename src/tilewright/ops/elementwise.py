"""Elementwise operators: unary functions, binary functions, channel bias."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from tilewright.common.errors import ProgramError, ShapeError
from tilewright.ir.scalar import (
    COMPARISONS,
    FUNCTIONS,
    Apply,
    Element,
    Number,
    Scalar,
    check_floats,
    expanded,
    wrapped,
)
from tilewright.ops.access import broadcast, straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Computed, Definition, one
from tilewright.ops.definitions import Named, Shaped, evaluated_in_order
from tilewright.ops.numerics import Numerics, require_alike, require_products
from tilewright.ops.op import (
    Array,
    Shape,
    in_integers,
    require_axis,
    require_operands,
    require_shape,
    show_shape,
)

_KEEPING_STEPS = ("+", "-", "negative", "abs", "if", "and", "or", "not", *COMPARISONS)


def unary_functions() -> tuple[str, ...]:
    """The names of the functions of one tensor and up to two parameters."""
    return tuple(sorted(name for name in FUNCTIONS if _is_unary(name)))


def binary_functions() -> tuple[str, ...]:
    """The names of the functions of two tensors."""
    return tuple(sorted(name for name in FUNCTIONS if _is_binary(name)))


def _is_unary(name: str) -> bool:
    own = FUNCTIONS[name]
    return own.is_called and own.arity - own.parameters == 1 and own.parameters <= 2


def _is_binary(name: str) -> bool:
    own = FUNCTIONS[name]
    return own.is_called and own.arity == 2 and own.parameters == 0 and _is_of_floats(name)


def _is_of_floats(name: str) -> bool:
    try:
        check_floats(Apply(name, (Element(0), Element(1))))
    except ProgramError:
        return False
    return True


class _Elementwise(Named):
    """An elementwise function of tensors that are broadcast by NumPy's rule."""

    function: str

    @property
    @abstractmethod
    def scalar(self) -> Scalar:
        """The function as an expression over the elements x0, x1, ..."""

    @property
    def kind(self) -> str:
        return self.function

    @property
    def flops(self) -> int:
        """One operation per element of the result; none for the identity."""
        return 0 if self.function == "identity" else math.prod(self.out_shape)

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        shape = self.out_shape
        places = tuple(broadcast(own, shape) for own in self.input_shapes)
        body = str(expanded(self.scalar))
        return one(Definition(shape, straight(shape), places, body, None, "x0", self.dtype))

    def reference(self, *operands: Array) -> Array:
        """The function of each element: floats in double precision, rounded once; integers by
        operations that wrap, then rounded once.
        """
        require_operands(self, operands)
        if self.numerics.is_float:
            return evaluated_in_order(self, operands)
        numerics = self.numerics
        return numerics.write_back(wrapped(self.scalar, in_integers(self, operands), numerics.sums))


@dataclass(frozen=True)
class Unary(_Elementwise, Shaped):
    """One function applied to each element of a tensor of `shape`."""

    function: str
    shape: Shape
    alpha: float = 0.0
    beta: float = 0.0
    dtype: str = "f64"

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS or not _is_unary(self.function):
            raise _unknown(self.function, unary_functions())
        require_shape(self.function, "shape", self.shape)
        _require_exact(self.function, self.numerics)
        require_alike(self.function, self.numerics)

    def describe(self) -> str:
        return f"{self.function} {show_shape(self.shape)}"

    @property
    def scalar(self) -> Scalar:
        """The function of x0; in fixed point, its parameters count steps of the type."""
        parameters = (self._steps(parameter) for parameter in (self.alpha, self.beta))
        operands: tuple[Scalar, ...] = (Element(0), *map(Number, parameters))
        return Apply(self.function, operands[: FUNCTIONS[self.function].arity])

    def _steps(self, parameter: float) -> float:
        """A parameter in steps of the type of the sums; unchanged for floats."""
        if self.numerics.is_float:
            return float(parameter)
        return float(np.floor(parameter * 2.0**self.numerics.sums.fraction_bits))


@dataclass(frozen=True)
class Binary(_Elementwise):
    """One function of two tensors, broadcast against each other by NumPy's rule."""

    function: str
    a_shape: Shape
    b_shape: Shape
    dtype: str = "f64"

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS or not _is_binary(self.function):
            raise _unknown(self.function, binary_functions())
        require_shape(self.function, "a", self.a_shape)
        require_shape(self.function, "b", self.b_shape)
        _require_exact(self.function, self.numerics)
        if self.function == "mul":
            require_products(self.function, self.numerics)
        else:
            require_alike(self.function, self.numerics)
        try:
            np.broadcast_shapes(self.a_shape, self.b_shape)
        except ValueError:
            raise ShapeError(
                f"{self.function}: shapes {show_shape(self.a_shape)} and "
                f"{show_shape(self.b_shape)} cannot be broadcast together"
            ) from None

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Both tensors."""
        return (self.a_shape, self.b_shape)

    @property
    def out_shape(self) -> Shape:
        """The common shape."""
        return np.broadcast_shapes(self.a_shape, self.b_shape)

    def part(self, result: Box, terms: Box | None = None) -> Binary:
        a, b = self.needed(result)
        return replace(self, a_shape=a.shape, b_shape=b.shape)

    def describe(self) -> str:
        return f"{self.function} {show_shape(self.a_shape)}, {show_shape(self.b_shape)}"

    @property
    def scalar(self) -> Scalar:
        return Apply(self.function, (Element(0), Element(1)))


@dataclass(frozen=True)
class Bias(Shaped):
    """x plus `scale` times one number per index along `axis`, as after a convolution."""

    kind: ClassVar[str] = "bias"
    shape: Shape
    axis: int = 1
    scale: float = 1.0
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_axis(self.kind, self.shape, self.axis)
        require_alike(self.kind, self.numerics)
        if not self.numerics.is_float and self.scale != int(self.scale):
            raise ShapeError(
                f"bias: a bias of {self.dtype} takes a whole scale, found {self.scale:g}"
            )

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        return (self.shape, (self.shape[self.axis],))

    @property
    def flops(self) -> int:
        return math.prod(self.shape)

    @property
    def bias_addition(self) -> Bias:
        return self

    def describe(self) -> str:
        return f"bias {show_shape(self.shape)} along axis {self.axis}"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        x, b = straight(self.shape), straight(self.input_shapes[1], (self.axis,))
        body = "x0 + x1" if self.scale == 1 else f"x0 + {self.scale!r} * x1"
        return one(Definition(self.shape, x, (x, b), body, None, "x0", self.dtype))

    def reference(self, *operands: Array) -> Array:
        """The result by the definition; integers are rounded once, to the result's type."""
        if self.numerics.is_float:
            return super().reference(*operands)
        own, added = in_integers(self, operands)
        along = [1] * len(self.shape)
        along[self.axis] = -1
        return self.numerics.write_back(own + int(self.scale) * added.reshape(along))


def relu(shape: Shape, *, dtype: str = "f64") -> Unary:
    """max(x, 0) of each element."""
    return Unary("relu", shape, dtype=dtype)


def add(a_shape: Shape, b_shape: Shape | None = None, *, dtype: str = "f64") -> Binary:
    """The sum of two tensors, of the same shape unless `b_shape` is given."""
    return Binary("add", a_shape, a_shape if b_shape is None else b_shape, dtype)


def _unknown(name: str, known: Sequence[str]) -> ShapeError:
    return ShapeError(f"unknown elementwise function {name!r}", fix=f"known: {', '.join(known)}")


def _require_exact(function: str, numerics: Numerics) -> None:
    if not numerics.is_float and not _is_exact(function):
        exact = [f for f in (*unary_functions(), *binary_functions()) if _is_exact(f)]
        raise ShapeError(
            f"{function} computes in floating point, found the element type {numerics}",
            fix=f"integers have {', '.join(sorted(exact))}",
        )


def _is_exact(function: str) -> bool:
    """True if the function is exact on integers, and on fixed point of any fraction bits."""
    operands = tuple(map(Element, range(FUNCTIONS[function].arity)))
    return function == "mul" or _keeps_steps(expanded(Apply(function, operands)))


def _keeps_steps(scalar: Scalar) -> bool:
    match scalar:
        case Number(number):
            return number == 0
        case Element():
            return True
        case Apply(function, arguments):
            return function in _KEEPING_STEPS and all(map(_keeps_steps, arguments))
