"""Expressions over elements: trees of functions, and their text, which parses back equal."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.common.errors import ProgramError
from tilewright.common.syntax import expression_tree
from tilewright.ir.scalar.functions import FUNCTIONS, SIGN, Composite, Elementary

Array = npt.NDArray[Any]

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.And: "and", ast.Or: "or", ast.Not: "not", ast.USub: "negative", ast.Invert: "~",
}  # fmt: skip
_OF_TRUTHS = ("if", "and", "or", "not")


@dataclass(frozen=True, eq=False)
class Number:
    """A constant; 0.0 and -0.0 are distinct, and so are 1 and 1.0."""

    number: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self.number)

    def __str__(self) -> str:
        return repr(self.number)

    def value(self, operands: Sequence[Array]) -> Any:
        """The constant itself."""
        del operands
        return self.number


@dataclass(frozen=True)
class Element:
    """The element of operand number `index`."""

    index: int

    def __str__(self) -> str:
        return f"x{self.index}"

    def value(self, operands: Sequence[Array]) -> Any:
        """The operand's array."""
        return operands[self.index]


@dataclass(frozen=True)
class Apply:
    """A function applied to other expressions."""

    function: str
    arguments: tuple[Scalar, ...]

    def __str__(self) -> str:
        own = FUNCTIONS[self.function]
        inner = [
            f"({a})" if not own.is_called and _level(a) <= own.level else str(a)
            for a in self.arguments
        ]
        return own.text.format(*inner)

    def value(self, operands: Sequence[Array]) -> Any:
        """The function evaluated on arrays that broadcast to each other."""
        arguments = [argument.value(operands) for argument in self.arguments]
        match FUNCTIONS[self.function]:
            case Composite(expression=expression):
                return parse_scalar(expression).value(arguments)
            case Elementary(value=value):
                of_truths = self.function in _OF_TRUTHS
                return value(*(arguments if of_truths else map(_truths_as_integers, arguments)))


Scalar: TypeAlias = Number | Element | Apply


def _truths_as_integers(value: Any) -> Any:
    """Truth values as integers, as in C."""
    return value.astype(np.int64) if getattr(value, "dtype", None) == np.bool_ else value


def _level(scalar: Scalar) -> int:
    match scalar:
        case Apply(function):
            return FUNCTIONS[function].level
        case Number(number) if number < 0:
            return SIGN
        case _:
            return SIGN + 1


@cache
def parse_scalar(text: str) -> Scalar:
    """Parse the text form; raises ProgramError for any other text."""
    try:
        return _from_ast(expression_tree(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused(text) from None


def _refused(text: str) -> ProgramError:
    called = sorted(name for name, function in FUNCTIONS.items() if function.is_called)
    infix = [name for name in _OPERATORS.values() if name != "negative"]
    return ProgramError(
        f"{text[:60]!r} is no expression over elements",
        fix=f"it is made of x0, x1, ..., numbers, {' '.join(infix)} if-else and "
        f"{', '.join(called)}",
    )


def _from_ast(node: ast.expr) -> Scalar:
    match node:
        case ast.Constant(int() | float() as number) if not isinstance(number, bool):
            if isfinite(number):
                return Number(float(number))
        case ast.Name("inf"):
            return Number(inf)
        case ast.UnaryOp(ast.USub(), ast.Name("inf")):
            return Number(-inf)
        case ast.Name(id=name) if name[:1] == "x" and name[1:].isdecimal() and name.isascii():
            return Element(int(name[1:]))
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
            return Number(-float(number))
        case ast.UnaryOp(operator, operand) if type(operator) in _OPERATORS:
            return _applied(operator, operand)
        case ast.BinOp(left, operator, right) | ast.Compare(left, [operator], [right]) if (
            type(operator) in _OPERATORS
        ):
            return _applied(operator, left, right)
        case ast.BoolOp(operator, [first, *others]):
            found = _from_ast(first)
            for other in others:
                found = Apply(_OPERATORS[type(operator)], (found, _from_ast(other)))
            return found
        case ast.IfExp(test, body, orelse):
            return Apply("if", tuple(map(_from_ast, (test, body, orelse))))
        case ast.Call(ast.Name(name), arguments, []) if name in FUNCTIONS:
            own = FUNCTIONS[name]
            if own.is_called and len(arguments) == own.arity:
                return Apply(name, tuple(map(_from_ast, arguments)))
        case _:
            pass
    raise _refused(ast.unparse(node))


def _applied(operator: ast.AST, *operands: ast.expr) -> Scalar:
    return Apply(_OPERATORS[type(operator)], tuple(map(_from_ast, operands)))


def operand_count(scalar: Scalar) -> int:
    """The number of operands: one more than the largest index."""
    return max(operand_numbers(scalar), default=-1) + 1


def operand_numbers(scalar: Scalar) -> set[int]:
    match scalar:
        case Element(index):
            return {index}
        case Apply(_, arguments):
            return set().union(*map(operand_numbers, arguments))
        case _:
            return set()


def numbers_of(scalar: Scalar) -> tuple[float, ...]:
    """The constants, from left to right."""
    match scalar:
        case Number(number):
            return (number,)
        case Apply(_, arguments):
            return tuple(number for a in arguments for number in numbers_of(a))
        case _:
            return ()


@cache
def operations(scalar: Scalar) -> int:
    """Vector operations per vector of elements; elementary functions count each time they occur."""
    match expanded(scalar):
        case Apply(function, arguments):
            own = FUNCTIONS[function]
            assert isinstance(own, Elementary)
            return own.operations + sum(map(operations, arguments))
        case _:
            return 0


def renumbered(scalar: Scalar, numbers: Sequence[Scalar]) -> Scalar:
    """The expression with expressions substituted for its operands."""
    match scalar:
        case Element(index):
            return numbers[index]
        case Apply(function, arguments):
            return Apply(function, tuple(renumbered(a, numbers) for a in arguments))
        case _:
            return scalar


@cache
def expanded(scalar: Scalar, kept: tuple[str, ...] = ()) -> Scalar:
    """The expression in elementary functions and those `kept`. Branches of composite functions that
    constants rule out are dropped.

    >>> str(expanded(parse_scalar("clip(x0, -inf, 6.0)")))
    '6.0 if x0 > 6.0 else x0'
    """
    match scalar:
        case Apply(function, arguments):
            inner = tuple(expanded(argument, kept) for argument in arguments)
            own = None if function in kept else FUNCTIONS[function]
            if own is None or isinstance(own, Elementary):
                return Apply(function, inner)
            return _decided(renumbered(expanded(parse_scalar(own.expression)), inner))
        case _:
            return scalar


def _decided(scalar: Scalar) -> Scalar:
    match scalar:
        case Apply("if", (test, then, otherwise)) if (holds := _constant_truth(test)) is not None:
            return _decided(then if holds else otherwise)
        case Apply(function, arguments):
            return Apply(function, tuple(map(_decided, arguments)))
        case _:
            return scalar


def _constant_truth(test: Scalar) -> bool | None:
    """The truth value of a test; None if its constants do not determine it."""
    match test:
        case Apply(">", (_, Number(number))) if number == inf:
            return False
        case Apply("<", (_, Number(number))) if number == -inf:
            return False
        case Apply("<" | ">" as function, (Number(a), Number(b))):
            return a < b if function == "<" else a > b
        case _:
            return None
