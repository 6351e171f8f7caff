"""A parsed line as a value: labels, a word and operands, each with the columns where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from tilewright.asm.diagnostics import Span
from tilewright.asm.text.expression import (
    BinaryOperation,
    Expression,
    Half,
    Here,
    Integer,
    LocalReference,
    Name,
    UnaryOperation,
)


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
    """The columns of an operand; of an expression those of its most telling part."""
    return operand.base.span if isinstance(operand, ParsedMemory) else operand.span
