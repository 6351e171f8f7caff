"""Parsed lines and integer expressions of assembly text: nodes, values, and evaluation.

A line consists of labels, a word and operands, each with its columns. A value is an integer, or an
offset from a symbol that only the linker places. Operators follow C: precedence, division that
truncates towards zero, comparisons that yield 0 or 1. Numbers have 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, assert_never

from msgspec import Struct

from tilewright.asm.diagnostics import Fault, SourceError, Span

_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1
_SPLIT_BITS = 16


class Integer(Struct, frozen=True, gc=False):
    """A number or a character."""

    value: int
    span: Span


class Name(Struct, frozen=True, gc=False):
    """A symbol."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class LocalReference:
    """`1b` or `1f`: the nearest numeric label before or after."""

    digits: int
    forward: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Here:
    """`.`: the current address."""

    span: Span


class UnaryOperation(Struct, frozen=True, gc=False):
    """`-a`, `+a`, `~a`, `!a`."""

    operator: str
    operand: Expression
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class BinaryOperation:
    """`a operator b`; the span is the operator's."""

    operator: str
    left: Expression
    right: Expression
    span: Span
    depth: int


@dataclass(frozen=True, slots=True)
class Half:
    """`hi(a)` or `lo(a)`: halves of a 32-bit value, lo signed: hi * 65536 + lo is the value."""

    part: str
    operand: Expression
    span: Span
    depth: int


Expression = Integer | Name | LocalReference | Here | UnaryOperation | BinaryOperation | Half


def depth_of(expression: Expression) -> int:
    """Depth of the tree."""
    match expression:
        case UnaryOperation() | BinaryOperation() | Half():
            return expression.depth
        case _:
            return 1


@dataclass(frozen=True, slots=True)
class ExpressionValue:
    """An integer (`symbol` empty), or a symbol's address plus `offset`, or a `part` of that."""

    offset: int
    symbol: str = ""
    part: str = ""


class NameContext(Protocol):
    """The names that are visible to an expression."""

    def symbol(self, name: str, span: Span) -> ExpressionValue:
        """The value of a name. Raises Fault."""

    def local(self, reference: LocalReference) -> ExpressionValue:
        """The value of a numeric label. Raises Fault."""

    def here(self, span: Span) -> ExpressionValue:
        """The current address."""

    def place(self, symbol: str) -> tuple[str, int] | None:
        """(section, offset) of a symbol defined in this source, None for others."""


def expression_value(expression: Expression, context: NameContext) -> ExpressionValue:
    """The value of an expression. Raises Fault with the span of the wrong part."""
    match expression:
        case Integer(number, _):
            return ExpressionValue(number)
        case Name(name, span):
            return context.symbol(name, span)
        case LocalReference():
            return context.local(expression)
        case Here(span):
            return context.here(span)
        case UnaryOperation(operator, operand, span, _):
            given = _absolute(expression_value(operand, context), operator, span)
            return ExpressionValue(_bounded(_UNARY[operator](given), span))
        case BinaryOperation(operator, left, right, span, _):
            return _combine(
                operator,
                expression_value(left, context),
                expression_value(right, context),
                span,
                context,
            )
        case Half(part, operand, span, _):
            value = expression_value(operand, context)
            if value.part:
                raise Fault(
                    SourceError.ADDRESS, f"{part}() of a {value.part}() is not a number", span
                )
            return (
                ExpressionValue(value.offset, value.symbol, part)
                if value.symbol
                else half_of(value, part)
            )
        case _:
            assert_never(expression)


def half_of(value: ExpressionValue, part: str) -> ExpressionValue:
    """The high or low half of an integer, the low half signed."""
    low = ((value.offset + (1 << _SPLIT_BITS - 1)) & ((1 << _SPLIT_BITS) - 1)) - (
        1 << _SPLIT_BITS - 1
    )
    return ExpressionValue(low if part == "lo" else (value.offset - low) >> _SPLIT_BITS)


def signed64(value: int) -> int:
    """The value as a signed 64-bit number, modulo 2**64."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _combine(
    operator: str, left: ExpressionValue, right: ExpressionValue, span: Span, context: NameContext
) -> ExpressionValue:
    if operator == "+" and not (left.symbol and right.symbol):
        return _shifted(left if left.symbol else right, left.offset + right.offset, span)
    if operator == "-" and not right.symbol:
        return _shifted(left, left.offset - right.offset, span)
    if operator == "-":
        return ExpressionValue(_bounded(_difference(left, right, span, context), span))
    a, b = _absolute(left, operator, span), _absolute(right, operator, span)
    if operator in ("/", "%") and b == 0:
        raise Fault(SourceError.ARITHMETIC, "division by zero", span)
    if operator in ("<<", ">>") and not 0 <= b <= 63:
        raise Fault(SourceError.ARITHMETIC, f"shift by {b} is outside 0 .. 63", span)
    return ExpressionValue(_bounded(_BINARY[operator](a, b), span))


def _shifted(value: ExpressionValue, offset: int, span: Span) -> ExpressionValue:
    if value.part:
        raise Fault(
            SourceError.ADDRESS, f"{value.part}() of a symbol cannot be calculated with", span
        )
    return ExpressionValue(_bounded(offset, span), value.symbol)


def _difference(
    left: ExpressionValue, right: ExpressionValue, span: Span, context: NameContext
) -> int:
    if left.symbol == right.symbol and not left.part and not right.part:
        return left.offset - right.offset
    a, b = context.place(left.symbol), context.place(right.symbol)
    if a is None or b is None or a[0] != b[0] or left.part or right.part:
        raise Fault(
            SourceError.ADDRESS,
            f"the difference of {left.symbol or 'a number'} and {right.symbol} is not known here",
            span,
            fix="subtract only labels of one section of this source",
        )
    return a[1] + left.offset - b[1] - right.offset


def _absolute(value: ExpressionValue, operator: str, span: Span) -> int:
    if value.symbol:
        raise Fault(
            SourceError.ADDRESS,
            f"operator {operator} needs numbers, but {value.symbol} is an address",
            span,
            fix="addresses can be added to numbers and subtracted from each other",
        )
    return value.offset


def _bounded(value: int, span: Span) -> int:
    if not _SMALLEST <= value <= _LARGEST:
        raise Fault(SourceError.ARITHMETIC, "the result does not fit 64 bits", span)
    return value


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
    "!": lambda a: int(a == 0),
}
_BINARY: dict[str, Callable[[int, int], int]] = {
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
    "+": lambda a, b: a + b,
}


class ParsedRegister(Struct, frozen=True, gc=False):
    """A register as written."""

    name: str
    span: Span


class ParsedMemory(Struct, frozen=True, gc=False):
    """A memory operand; without displacement None."""

    displacement: Expression | None
    base: ParsedRegister


class ParsedImmediate(Struct, frozen=True, gc=False):
    """A number with the dialect's mark of immediates."""

    value: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedString:
    """A string's bytes."""

    value: bytes
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedReal:
    """A number with a fraction or an exponent."""

    value: float
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedType:
    """`@nobits`, `@progbits`, `@function`, `@object`, without the mark."""

    name: str
    span: Span


ParsedOperand = (
    Integer | Name | LocalReference | Here | UnaryOperation | BinaryOperation | Half
    | ParsedRegister | ParsedMemory | ParsedImmediate | ParsedString | ParsedReal | ParsedType
)  # fmt: skip


class ParsedLabel(Struct, frozen=True, gc=False):
    """`name:`, or `1:` with the digits as name."""

    name: str
    span: Span


class ParsedLine(Struct, frozen=True, gc=False):
    """A line: labels, and a statement unless `word` is empty; an assignment has the word "="."""

    labels: tuple[ParsedLabel, ...] = ()
    word: str = ""
    span: Span = Span(1)
    operands: tuple[ParsedOperand, ...] = ()


EMPTY_LINE = ParsedLine()


def span_of(operand: ParsedOperand) -> Span:
    """The columns of an operand; for an expression, of its most informative part."""
    return operand.base.span if isinstance(operand, ParsedMemory) else operand.span
