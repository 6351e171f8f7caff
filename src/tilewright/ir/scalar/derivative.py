"""Derivatives of expressions over elements, by the chain rule over the table of functions."""

from __future__ import annotations

from functools import cache

from tilewright.common.errors import ProgramError
from tilewright.ir.scalar.expression import Apply, Element, Number, Scalar, parse_scalar, renumbered
from tilewright.ir.scalar.functions import FUNCTIONS, Composite

_ZERO, _ONE = Number(0.0), Number(1.0)


@cache
def derivative(scalar: Scalar, operand: int) -> Scalar:
    """The derivative with respect to operand number `operand`, without terms that are always 0.
    Raises ProgramError for bitwise functions, which have none.

    >>> str(derivative(parse_scalar("x0 * x0 + 3 * x1"), 0))
    'x0 + x0'
    >>> str(derivative(parse_scalar("max(x0, x1)"), 1))
    '0.0 if x0 > x1 or x0 != x0 else 1.0'
    """
    match scalar:
        case Element(index):
            return _ONE if index == operand else _ZERO
        case Number():
            return _ZERO
        case Apply("if", (test, then, otherwise)):
            return _chosen(test, derivative(then, operand), derivative(otherwise, operand))
        case Apply(function, arguments):
            inner = [derivative(argument, operand) for argument in arguments]
            total: Scalar = _ZERO
            for number, factor in enumerate(inner):
                if factor != _ZERO:
                    outer = renumbered(_own(function, number), arguments)
                    total = _sum(total, _product(without_zeros(outer), factor))
            return total


def _own(function: str, number: int) -> Scalar:
    """The derivative of a function with respect to its operand of that number."""
    own = FUNCTIONS[function]
    if own.derivatives:
        return parse_scalar(own.derivatives[number])
    if isinstance(own, Composite):
        return derivative(parse_scalar(own.expression), number)
    raise ProgramError(f"{function!r} works on bits and has no derivative")


def without_zeros(scalar: Scalar) -> Scalar:
    """The expression without additions of 0, multiplications by 0 or 1, and powers of 0 or 1.

    >>> str(without_zeros(parse_scalar("1 * x0 + 0 * x1 - 2 * 3")))
    'x0 - 6.0'
    """
    match scalar:
        case Apply(function, arguments):
            inner = tuple(map(without_zeros, arguments))
            match function, inner:
                case "+", (a, b):
                    return _sum(a, b)
                case "-", (a, b):
                    return _difference(a, b)
                case "*", (a, b):
                    return _product(a, b)
                case "/", (a, b):
                    return _quotient(a, b)
                case "negative", (a,):
                    return _negated(a)
                case "if", (test, then, otherwise):
                    return _chosen(test, then, otherwise)
                case "pow", (a, Number(exponent)) if exponent in (0.0, 1.0):
                    return a if exponent else _ONE
                case _:
                    return Apply(function, inner)
        case _:
            return scalar


def _sum(a: Scalar, b: Scalar) -> Scalar:
    match a, b:
        case Number(x), Number(y):
            return Number(x + y)
        case Number(0.0), other:
            return other
        case other, Number(0.0):
            return other
        case other, Apply("negative", (taken,)):
            return _difference(other, taken)
        case _:
            return Apply("+", (a, b))


def _difference(a: Scalar, b: Scalar) -> Scalar:
    match a, b:
        case Number(x), Number(y):
            return Number(x - y)
        case Number(0.0), other:
            return _negated(other)
        case other, Number(0.0):
            return other
        case _:
            return Apply("-", (a, b))


def _product(a: Scalar, b: Scalar) -> Scalar:
    """A product with its constant factor first."""
    match a, b:
        case Number(x), Number(y):
            return Number(x * y)
        case (Number(0.0), _) | (_, Number(0.0)):
            return _ZERO
        case Number(x), other if abs(x) == 1:
            return other if x > 0 else _negated(other)
        case Number(x), Apply("*", (Number(y), other)):
            return _product(Number(x * y), other)
        case other, Number():
            return _product(b, other)
        case _:
            return Apply("*", (a, b))


def _quotient(a: Scalar, b: Scalar) -> Scalar:
    match a, b:
        case Number(0.0), _:
            return _ZERO
        case other, Number(1.0):
            return other
        case _:
            return Apply("/", (a, b))


def _negated(a: Scalar) -> Scalar:
    match a:
        case Number(x):
            return Number(-x if x else 0.0)
        case Apply("negative", (inner,)):
            return inner
        case _:
            return Apply("negative", (a,))


def _chosen(test: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    match test:
        case Number(number):
            return then if number else otherwise
        case _:
            return then if then == otherwise else Apply("if", (test, then, otherwise))
