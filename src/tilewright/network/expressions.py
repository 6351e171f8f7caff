"""Elementwise operators as expressions: what a stage computes for each element.

In: a node's operator. Out: an `Elementwise`: the expression over the elements of operands, and
along which axes of the result each operand beside the first lies. Parameters of a normalisation
become two numbers per channel, made once, ahead of all runs (`Constant`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from tilewright.ops import BatchNorm, Bias, Binary, Op, Unary
from tilewright.ops.op import Shape

_SOFTPLUS = "log1p(exp(-abs({x}))) + (0 if {x} < 0 else {x})"
UNARY: dict[str, Callable[[float, float], str]] = {
    "abs": lambda a, b: "abs(x0)",
    "ceil": lambda a, b: "ceil(x0)",
    "clip": lambda a, b: _clipped(a, b),
    "elu": lambda a, b: f"{a!r} * expm1(x0) if x0 < 0 else x0",
    "exp": lambda a, b: "exp(x0)",
    "floor": lambda a, b: "floor(x0)",
    "hard_sigmoid": lambda a, b: (
        f"1 if {a!r} * x0 + {b!r} > 1 else 0 if {a!r} * x0 + {b!r} < 0 else {a!r} * x0 + {b!r}"
    ),
    "identity": lambda a, b: "x0",
    "leaky_relu": lambda a, b: f"{a!r} * x0 if x0 < 0 else x0",
    "log": lambda a, b: "log(x0)",
    "neg": lambda a, b: "-x0",
    "reciprocal": lambda a, b: "1 / x0",
    "relu": lambda a, b: "0 if x0 < 0 else x0",
    "sigmoid": lambda a, b: "1 / (1 + exp(-x0))",
    "sign": lambda a, b: "-1 if x0 < 0 else 1 if x0 > 0 else x0",
    "softplus": lambda a, b: _SOFTPLUS.format(x="x0"),
    "sqrt": lambda a, b: "sqrt(x0)",
    "tanh": lambda a, b: "tanh(x0)",
}
BINARY: dict[str, str] = {
    "add": "x0 + x1",
    "div": "x0 / x1",
    "max": "x0 if x0 > x1 or x0 != x0 else x1",
    "min": "x0 if x1 > x0 or x0 != x0 else x1",
    "mul": "x0 * x1",
    "sub": "x0 - x1",
}


def _clipped(low: float, high: float) -> str:
    """Bounds that are infinite are none; of two that exclude each other the upper one counts."""
    if low > high:
        return f"x0 if x0 != x0 else {high!r}"
    above = f"{low!r} if x0 < {low!r} else x0" if isfinite(low) else "x0"
    return f"{high!r} if x0 > {high!r} else {above}" if isfinite(high) else above


@dataclass(frozen=True)
class Constant:
    """A tensor that is made of weights ahead of all runs: an expression over some of a node's
    operands, by their numbers, element by element in double precision.
    """

    operands: tuple[int, ...]
    expression: str = "x0"


@dataclass(frozen=True)
class Operand:
    """What an expression reads: an operand of the node by its number, or a constant made of some;
    `axes` are those of the result along which its own dimensions lie.
    """

    source: int | Constant
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Elementwise:
    """An expression over the elements of operands."""

    expression: str
    operands: tuple[Operand, ...]


def elementwise(op: Op) -> Elementwise | None:
    """The operator as an expression, None for one that is none."""
    every = tuple(range(len(op.out_shape)))
    match op:
        case Unary(function, _, alpha, beta):
            return Elementwise(UNARY[function](alpha, beta), (Operand(0, every),))
        case Binary(function, a, b):
            sources = (Operand(0, _aligned(a, every)), Operand(1, _aligned(b, every)))
            return Elementwise(BINARY[function], sources)
        case Bias(_, axis, scale):
            added = "x1" if scale == 1 else f"{scale!r} * x1"
            return Elementwise(f"x0 + {added}", (Operand(0, every), Operand(1, (axis,))))
        case BatchNorm(_, epsilon):
            factor = f"x0 / sqrt(x1 + {epsilon!r})"
            factors = Constant((1, 4), factor)
            shift = Constant((1, 4, 2, 3), f"x2 - x3 * ({factor})")
            operands = (Operand(0, every), Operand(factors, (1,)), Operand(shift, (1,)))
            return Elementwise("x0 * x1 + x2", operands)
        case _:
            return None


def _aligned(shape: Shape, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of a tensor that is broadcast by NumPy's rule."""
    return axes[len(axes) - len(shape) :]
