"""Operators that treat each element alike: unary functions, binary functions, channel bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops.box import Box
from tilewright.ops.numerics import Numerics, require_alike, require_products
from tilewright.ops.op import (
    Array,
    Divisible,
    Follows,
    Shape,
    Shaped,
    in_double,
    in_integers,
    require_axis,
    require_shape,
    rounded,
    same_dimensions,
    show_shape,
)

UnaryFunction = Callable[[Array, float, float], Array]
BinaryFunction = Callable[[Array, Array], Array]


def _not_negative(x: Array) -> Array:
    return np.where(x < 0, 0, x)


def _below(x: Array, most: float) -> Array:
    return np.where(x > most, most, x)


UNARY_FUNCTIONS: dict[str, UnaryFunction] = {
    "abs": lambda x, a, b: np.abs(x),
    "ceil": lambda x, a, b: np.ceil(x),
    "clip": lambda x, a, b: _below(np.where(x < a, a, x), b),
    "elu": lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "exp": lambda x, a, b: np.exp(x),
    "floor": lambda x, a, b: np.floor(x),
    "hard_sigmoid": lambda x, a, b: _below(_not_negative(a * x + b), 1),
    "identity": lambda x, a, b: x.copy(),
    "leaky_relu": lambda x, a, b: np.where(x < 0, a * x, x),
    "log": lambda x, a, b: np.log(x),
    "neg": lambda x, a, b: -x,
    "reciprocal": lambda x, a, b: 1 / x,
    "relu": lambda x, a, b: _not_negative(x),
    "sigmoid": lambda x, a, b: np.exp(-np.logaddexp(0, -x)),
    "sign": lambda x, a, b: np.where(x < 0, -1, np.where(x > 0, 1, x)),
    "softplus": lambda x, a, b: np.logaddexp(x, 0),
    "sqrt": lambda x, a, b: np.sqrt(x),
    "tanh": lambda x, a, b: np.tanh(x),
}
"""Name -> function of x, alpha and beta; those that have no parameters ignore them.

What is no number stays so. Comparisons decide which operand is the result, and so the sign of zero:
where two are equal, `clip` and `relu` give x, `max` and `min` the second one.
"""

BINARY_FUNCTIONS: dict[str, BinaryFunction] = {
    "add": np.add,
    "div": np.divide,
    "max": lambda a, b: np.where((a > b) | (a != a), a, b),
    "min": lambda a, b: np.where((a < b) | (a != a), a, b),
    "mul": np.multiply,
    "sub": np.subtract,
}

EXACT_FUNCTIONS = frozenset(
    ("abs", "add", "clip", "identity", "max", "min", "mul", "neg", "relu", "sub")
)
"""Those that make integers of integers, so that integer and fixed-point types have them, too."""


@dataclass(frozen=True)
class Unary(Shaped):
    """One function applied to each element of a tensor of `shape`."""

    function: str
    shape: Shape
    alpha: float = 0.0
    beta: float = 0.0
    dtype: str = "f64"

    def __post_init__(self) -> None:
        _require_function(self.function, UNARY_FUNCTIONS)
        require_shape(self.function, "shape", self.shape)
        _require_exact(self.function, self.numerics)
        require_alike(self.function, self.numerics)

    @property
    def kind(self) -> str:
        """The name of the function."""
        return self.function

    @property
    def flops(self) -> int:
        """One per element; none for the identity."""
        return 0 if self.function == "identity" else math.prod(self.shape)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """Itself."""
        return (same_dimensions(len(self.shape)),) * 2

    def describe(self) -> str:
        """Function and shape."""
        return f"{self.function} {show_shape(self.shape)}"

    def reference(self, *operands: Array) -> Array:
        """The function of each element in double precision; of integers, exact."""
        if not self.numerics.is_float:
            (own,) = in_integers(self, operands)
            low, high = self._steps(self.alpha), self._steps(self.beta)
            return self.numerics.write_back(UNARY_FUNCTIONS[self.function](own, low, high))
        (x,) = in_double(self, operands)
        return rounded(self, UNARY_FUNCTIONS[self.function](x, self.alpha, self.beta))

    def _steps(self, parameter: float) -> int:
        """A parameter in steps of the operand's type."""
        return int(np.floor(parameter * 2.0**self.numerics.sums.fraction_bits))


@dataclass(frozen=True)
class Binary(Divisible):
    """One function of two tensors, broadcast against each other by NumPy's rule."""

    function: str
    a_shape: Shape
    b_shape: Shape
    dtype: str = "f64"

    def __post_init__(self) -> None:
        _require_function(self.function, BINARY_FUNCTIONS)
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
    def kind(self) -> str:
        """The name of the function."""
        return self.function

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Both tensors."""
        return (self.a_shape, self.b_shape)

    @property
    def out_shape(self) -> Shape:
        """The common shape."""
        return np.broadcast_shapes(self.a_shape, self.b_shape)

    @property
    def flops(self) -> int:
        """One per element of the result."""
        return math.prod(self.out_shape)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """What meets it."""
        every = same_dimensions(len(self.out_shape))
        return every, *(every[len(every) - len(shape) :] for shape in self.input_shapes)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The same region; of a broadcast tensor, the part that it uses."""
        return _broadcast(result, self.a_shape), _broadcast(result, self.b_shape)

    def part(self, result: Box, terms: Box | None = None) -> Binary:
        """The function of smaller tensors."""
        a, b = self.needed(result)
        return replace(self, a_shape=a.shape, b_shape=b.shape)

    def describe(self) -> str:
        """Function and shapes."""
        return f"{self.function} {show_shape(self.a_shape)}, {show_shape(self.b_shape)}"

    def reference(self, *operands: Array) -> Array:
        """The function of each pair of elements in double precision; of integers, exact."""
        if not self.numerics.is_float:
            left, right = in_integers(self, operands)
            return self.numerics.write_back(BINARY_FUNCTIONS[self.function](left, right))
        a, b = in_double(self, operands)
        return rounded(self, BINARY_FUNCTIONS[self.function](a, b))


@dataclass(frozen=True)
class Bias(Shaped):
    """x plus `scale` times one number for each index along `axis`, as after a convolution."""

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
        """The tensor, then the biases."""
        return (self.shape, (self.shape[self.axis],))

    @property
    def flops(self) -> int:
        """One addition per element."""
        return math.prod(self.shape)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """Itself, and its axis."""
        return *(same_dimensions(len(self.shape)),) * 2, ((self.axis, None),)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The same region, and its biases."""
        return result, Box.of(result.sides[self.axis])

    def describe(self) -> str:
        """Shape and axis."""
        return f"bias {show_shape(self.shape)} along axis {self.axis}"

    def reference(self, *operands: Array) -> Array:
        """The sum in double precision; of integers, exact."""
        along = [1] * len(self.shape)
        along[self.axis] = -1
        if not self.numerics.is_float:
            own, added = in_integers(self, operands)
            return self.numerics.write_back(own + int(self.scale) * added.reshape(along))
        x, bias = in_double(self, operands)
        return rounded(self, x + self.scale * bias.reshape(along))


def relu(shape: Shape, *, dtype: str = "f64") -> Unary:
    """max(x, 0) of each element."""
    return Unary("relu", shape, dtype=dtype)


def add(a_shape: Shape, b_shape: Shape | None = None, *, dtype: str = "f64") -> Binary:
    """The sum of two tensors, of the same shape unless `b_shape` is given."""
    return Binary("add", a_shape, a_shape if b_shape is None else b_shape, dtype)


def _broadcast(result: Box, shape: Shape) -> Box:
    """The region of a tensor of `shape` that meets the region `result` of the common shape."""
    own = result.sides[len(result.start) - len(shape) :]
    sides = (side if extent > 1 else (0, 1) for side, extent in zip(own, shape, strict=True))
    return Box.of(*sides)


def _require_function(
    name: str, known: dict[str, UnaryFunction] | dict[str, BinaryFunction]
) -> None:
    if name not in known:
        raise ShapeError(
            f"unknown elementwise function {name!r}", fix=f"known: {', '.join(sorted(known))}"
        )


def _require_exact(function: str, numerics: Numerics) -> None:
    if not numerics.is_float and function not in EXACT_FUNCTIONS:
        raise ShapeError(
            f"{function} computes in floating point, found the element type {numerics}",
            fix=f"integers have {', '.join(sorted(EXACT_FUNCTIONS))}",
        )
