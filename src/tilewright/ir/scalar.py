"""Expressions over elements: what `map` computes for each element of its operands.

In: a text in Python's own arithmetic over `x0`, `x1`, ..., numbers and a few functions.
Out: a tree that is evaluated on arrays, counted in vector operations, and written as C. The text
form parses back equal, and nothing of it is executed.

>>> relu = parse_scalar("0 if x0 < 0 else x0")
>>> relu.value((np.array([-1.0, 2.0]),)).tolist()
[0.0, 2.0]
>>> c_text(relu, ("a",))
'((a < 0.0) ? 0.0 : a)'
>>> str(composed(relu, 0, parse_scalar("x0 + x1")))
'0.0 if x0 + x1 < 0.0 else x0 + x1'
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.common.errors import ProgramError
from tilewright.common.syntax import expression_tree

Array = npt.NDArray[Any]

_DIVISION, _SERIES = 8, 20
"""Vector operations of a quotient or a root, and of a function that is a polynomial between a split
and a scaling: assumptions, no measurement of either is published for these cores."""


@dataclass(frozen=True)
class Function:
    """What a name stands for: on arrays, as text and as C with its arguments filled in, and in
    vector operations. `level` is how tightly the text binds its arguments.
    """

    arity: int
    value: Callable[..., Any]
    text: str
    c: str
    operations: int = 1
    level: int = 9


_INFIX = {
    ast.Add: ("+", np.add, 5, 1),
    ast.Sub: ("-", np.subtract, 5, 1),
    ast.Mult: ("*", np.multiply, 6, 1),
    ast.Div: ("/", np.divide, 6, _DIVISION),
    ast.Lt: ("<", np.less, 4, 1),
    ast.Gt: (">", np.greater, 4, 1),
    ast.NotEq: ("!=", np.not_equal, 4, 1),
}
_CALLS: dict[str, tuple[Callable[..., Any], str, int]] = {
    "abs": (np.abs, "fabs", 1),
    "ceil": (np.ceil, "ceil", 2),
    "exp": (np.exp, "exp", _SERIES),
    "expm1": (np.expm1, "expm1", _SERIES),
    "floor": (np.floor, "floor", 2),
    "log": (np.log, "log", _SERIES),
    "log1p": (np.log1p, "log1p", _SERIES),
    "sqrt": (np.sqrt, "sqrt", _DIVISION),
    "tanh": (np.tanh, "tanh", _SERIES + _DIVISION),
}
FUNCTIONS: dict[str, Function] = {
    **{
        name: Function(2, f, f"{{}} {name} {{}}", f"({{}} {name} {{}})", n, level)
        for name, f, level, n in _INFIX.values()
    },
    **{
        name: Function(1, f, f"{name}({{}})", f"{c}({{}})", n) for name, (f, c, n) in _CALLS.items()
    },
    "pow": Function(2, np.power, "pow({}, {})", "pow({}, {})", 2 * _SERIES),
    "negative": Function(1, np.negative, "-{}", "(-{})", 1, 7),
    "or": Function(2, np.logical_or, "{} or {}", "({} || {})", 1, 3),
    "if": Function(3, np.where, "{1} if {0} else {2}", "({} ? {} : {})", 1, 2),
}


@dataclass(frozen=True)
class Number:
    """A constant."""

    number: float

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
        """The operand."""
        return operands[self.index]


@dataclass(frozen=True)
class Apply:
    """A function of other expressions."""

    function: str
    arguments: tuple[Scalar, ...]

    def __str__(self) -> str:
        own = FUNCTIONS[self.function]
        inner = [
            f"({a})" if own.level < 9 and _level(a) <= own.level else str(a) for a in self.arguments
        ]
        return own.text.format(*inner)

    def value(self, operands: Sequence[Array]) -> Any:
        """The function on arrays that broadcast to each other."""
        return FUNCTIONS[self.function].value(*(a.value(operands) for a in self.arguments))


Scalar: TypeAlias = Number | Element | Apply


def _level(scalar: Scalar) -> int:
    match scalar:
        case Apply(function):
            return FUNCTIONS[function].level
        case Number(number) if number < 0:
            return FUNCTIONS["negative"].level
        case _:
            return 10


@cache
def parse_scalar(text: str) -> Scalar:
    """Read the text form; ProgramError for anything that is not of it."""
    try:
        return _from_ast(expression_tree(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused(text) from None


def _refused(text: str) -> ProgramError:
    return ProgramError(
        f"{text[:60]!r} is no expression over elements",
        fix=f"it is made of x0, x1, ..., numbers, + - * / < > != or if-else and {_known()}",
    )


def _known() -> str:
    return ", ".join(sorted((*_CALLS, "pow")))


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
        case ast.UnaryOp(ast.USub(), operand):
            return Apply("negative", (_from_ast(operand),))
        case ast.BinOp(left, operator, right) if type(operator) in _INFIX:
            return Apply(_INFIX[type(operator)][0], (_from_ast(left), _from_ast(right)))
        case ast.Compare(left, [operator], [right]) if type(operator) in _INFIX:
            return Apply(_INFIX[type(operator)][0], (_from_ast(left), _from_ast(right)))
        case ast.BoolOp(ast.Or(), [left, right]):
            return Apply("or", (_from_ast(left), _from_ast(right)))
        case ast.IfExp(test, body, orelse):
            return Apply("if", tuple(map(_from_ast, (test, body, orelse))))
        case ast.Call(ast.Name(name), arguments, []) if name in (*_CALLS, "pow"):
            if len(arguments) == FUNCTIONS[name].arity:
                return Apply(name, tuple(map(_from_ast, arguments)))
        case _:
            pass
    raise _refused(ast.unparse(node))


def operand_count(scalar: Scalar) -> int:
    """One more than the largest number of an operand."""
    match scalar:
        case Element(index):
            return index + 1
        case Apply(_, arguments):
            return max(map(operand_count, arguments), default=0)
        case _:
            return 0


def operations(scalar: Scalar) -> int:
    """Vector operations for one vector of elements, each function counted as it stands."""
    match scalar:
        case Apply(function, arguments):
            return FUNCTIONS[function].operations + sum(map(operations, arguments))
        case _:
            return 0


_EXACT = ("+", "-", "*", "negative")
"""The functions whose results are the same modulo 2 ** bits whenever they wrap."""


def integral(scalar: Scalar) -> Scalar:
    """The expression with integers for its numbers, to be evaluated on integers.

    Raises ProgramError for functions that integers that wrap do not have, and for fractions.
    """
    match scalar:
        case Number(number) if isfinite(number) and number == int(number):
            return Number(int(number))
        case Element():
            return scalar
        case Apply(function, arguments) if function in _EXACT:
            return Apply(function, tuple(map(integral, arguments)))
        case _:
            raise ProgramError(
                f"integers have no {str(scalar)[:60]!r}", fix="take +, -, * and whole numbers"
            )


def numbers_of(scalar: Scalar) -> tuple[float, ...]:
    """The constants, from left to right."""
    match scalar:
        case Number(number):
            return (number,)
        case Apply(_, arguments):
            return tuple(number for a in arguments for number in numbers_of(a))
        case _:
            return ()


def c_text(scalar: Scalar, operands: Sequence[str]) -> str:
    """The expression in C over doubles that are called `operands`."""
    match scalar:
        case Number(number):
            return c_number(number)
        case Element(index):
            return operands[index]
        case Apply(function, arguments):
            return FUNCTIONS[function].c.format(*(c_text(a, operands) for a in arguments))


def c_number(number: float) -> str:
    """The literal of a double in C, in which infinity is a macro of `<math.h>`."""
    text = repr(number).replace("inf", "INFINITY")
    return text if number >= 0 else f"({text})"


def renumbered(scalar: Scalar, numbers: Sequence[Scalar]) -> Scalar:
    """The expression with other expressions in the places of its operands."""
    match scalar:
        case Element(index):
            return numbers[index]
        case Apply(function, arguments):
            return Apply(function, tuple(renumbered(a, numbers) for a in arguments))
        case _:
            return scalar


def composed(outer: Scalar, place: int, inner: Scalar) -> Scalar:
    """`outer` of `inner` at operand number `place`; the operands of `inner` come first, then the
    others of `outer` in their order.
    """
    first, count = operand_count(inner), operand_count(outer)
    others = iter(range(first, first + count))
    return renumbered(outer, [inner if i == place else Element(next(others)) for i in range(count)])
