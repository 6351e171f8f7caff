"""Expressions over elements as vector instructions, each rounded where it is written.

In: an expression over x0, x1, ... (`ir.scalar`) and the fraction bits of elements. Out: `Steps`,
instructions in order on the result, the operands and temporaries. What occurs twice is computed
once; a constant is a temporary that is subtracted from itself and added to. Truths are 1 and 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf

from tilewright.common.errors import ProgramError
from tilewright.ir.scalar import (
    FUNCTIONS,
    Apply,
    Composite,
    Element,
    Number,
    Scalar,
    operand_count,
    parse_scalar,
    renumbered,
)

RESULT = 0
"""The place of the result; operand i has place 1 + i, temporaries follow."""
_LARGEST, _SMALLEST = 2**15 - 1, -(2**15)
_BINARY = {"+": "vav", "-": "vsv", "*": "vmv", "/": "vdv", ">": "vgt", "==": "ve",
           "and": "vand", "or": "vor"}  # fmt: skip
_UNARY = {"exp": "vexp", "log": "vlog", "not": "vnot"}
_STATED: Mapping[str, str] = {
    "<": "x1 > x0",
    "<=": "not x0 > x1",
    ">=": "not x1 > x0",
    "!=": "not x0 == x1",
    "negative": "0.0 - x0",
    "max": "max(x0, x1)",
    "min": "-max(-x0, -x1)",
    "abs": "max(x0, -x0)",
    "sqrt": "exp(0.5 * log(x0))",
    "pow": "exp(x1 * log(x0))",
    "expm1": "exp(x0) - 1.0",
    "log1p": "log(1.0 + x0)",
    "sigmoid": "1.0 / (1.0 + exp(-x0))",
    "tanh": "(1.0 - exp(-(abs(x0) + abs(x0)))) / (1.0 + exp(-(abs(x0) + abs(x0)))) "
    "* ((x0 > 0.0) + (x0 > 0.0) - 1.0)",
    "if": "x0 * x1 + (not x0) * x2",
}
"""Functions by those that are instructions."""


@dataclass(frozen=True)
class Step:
    """One instruction: the place that it writes, those that it reads, and its immediate."""

    mnemonic: str
    out: int
    sources: tuple[int, ...]
    immediate: int | None = None


@dataclass(frozen=True)
class Steps:
    """The instructions of an expression over `operands` operands, and how many temporaries they
    use.
    """

    operands: int
    steps: tuple[Step, ...]
    temporaries: int


@cache
def steps_of(expression: str, operands: int, fraction_bits: int) -> Steps:
    """The instructions that compute an expression. Raises ProgramError for a function that none
    computes.
    """
    builder = _Builder(fraction_bits, operands)
    scalar = _plain(parse_scalar(expression))
    place = builder.place(scalar)
    if place <= operands:
        builder.append("vmove", (place,))
    return _with_few_temporaries(operands, builder.made)


def require_steps(expression: str) -> None:
    """Raise ProgramError for an expression with a function that no instructions compute."""
    steps_of(expression, operand_count(parse_scalar(expression)), 0)


def _plain(scalar: Scalar) -> Scalar:
    """The expression by functions that are instructions, `max` among them."""
    match scalar:
        case Apply("if", (Apply("<" | "<=" | ">" | ">=" as test, (a, b)), then, orelse)) if {
            then,
            orelse,
        } == {a, b} and a != b:
            takes_larger = (then == a) == (test in {">", ">="})
            return _plain(Apply("max" if takes_larger else "min", (a, b)))
        case Apply("max", (a, b)):
            return Apply("max", (_plain(a), _plain(b)))
        case Apply("/", (a, Apply("pow", (b, Number(by))))):
            return _plain(Apply("*", (a, Apply("pow", (b, Number(-by))))))
        case Apply("/", (a, Number(by))) if by and (1 / by * 2**8).is_integer():
            return _plain(Apply("*", (a, Number(1 / by))))
        case Apply(function, arguments):
            return _folded(function, tuple(map(_plain, arguments)))
        case _:
            return scalar


def _folded(function: str, arguments: tuple[Scalar, ...]) -> Scalar:
    """A function of plain arguments."""
    if all(isinstance(a, Number) for a in arguments):
        return Number(float(Apply(function, arguments).value([])))
    match function, arguments:
        case "+", (a, Number(0.0)) | (Number(0.0), a):
            return a
        case "*", (a, Number(1.0)) | (Number(1.0), a):
            return a
        case "*", (a, Number(2.0)) | (Number(2.0), a):
            return Apply("+", (a, a))
        case "-", (a, Number(number)):
            return _folded("+", (a, Number(-number)))
        case _:
            pass
    if function in _BINARY or function in _UNARY:
        return Apply(function, arguments)
    own = FUNCTIONS[function]
    stated = _STATED.get(function) or (own.expression if isinstance(own, Composite) else None)
    if stated is None:
        known = sorted((*_BINARY, *_UNARY, *_STATED))
        raise ProgramError(
            f"no vector instructions compute {function}", fix=f"they compute {', '.join(known)}"
        )
    return _plain(renumbered(parse_scalar(stated), arguments))


@dataclass
class _Builder:
    """Instructions in order, each on a new place."""

    fraction_bits: int
    operands: int
    made: list[Step] = field(default_factory=list)
    places: dict[Scalar, int] = field(default_factory=dict)

    def place(self, scalar: Scalar) -> int:
        """The place that holds an expression's value."""
        if scalar not in self.places:
            self.places[scalar] = self._computed(scalar)
        return self.places[scalar]

    def _computed(self, scalar: Scalar) -> int:
        match scalar:
            case Element(number):
                return 1 + number
            case Number(value):
                return self._number(value)
            case Apply("+", (a, Number(value))) | Apply("+", (Number(value), a)):
                return self.append("vas", (self.place(a),), self._raw(value))
            case Apply("max", (a, b)):
                return self.append("vgtm", (self.place(a), self.place(b)))
            case Apply(function, arguments):
                mnemonic = _BINARY.get(function) or _UNARY[function]
                return self.append(mnemonic, tuple(map(self.place, arguments)))
            case _:
                raise ProgramError(f"{scalar} has no value")

    def _number(self, value: float) -> int:
        """The place of a constant; zero is an element less itself."""
        any_place = 1 if self.operands else RESULT
        if value == 0.0:
            return self.append("vsv", (any_place, any_place))
        return self.append("vas", (self.place(Number(0.0)),), self._raw(value))

    def _raw(self, value: float) -> int:
        return raw_number(value, self.fraction_bits)

    def append(self, mnemonic: str, sources: tuple[int, ...], immediate: int | None = None) -> int:
        """Append an instruction; returns the place that it writes."""
        place = 1 + self.operands + len(self.made)
        self.made.append(Step(mnemonic, place, sources, immediate))
        return place


def raw_number(value: float, fraction_bits: int) -> int:
    """The element next to a number: rounded to nearest and even, and saturated.

    >>> raw_number(1.5, 8), raw_number(float("-inf"), 8)
    (384, -32768)
    """
    if value in (inf, -inf):
        return _LARGEST if value > 0 else _SMALLEST
    return min(_LARGEST, max(_SMALLEST, round(value * 2.0**fraction_bits)))


def _with_few_temporaries(operands: int, made: Sequence[Step]) -> Steps:
    """The steps with each temporary's place free again after its last reader; the last step writes
    the result.
    """
    last = {s: number for number, step in enumerate(made) for s in step.sources}
    taken: dict[int, int] = {}
    free: list[int] = []
    found: list[Step] = []
    count = 0
    for number, step in enumerate(made):
        sources = tuple(taken.get(s, s) for s in step.sources)
        for s in {*step.sources} & taken.keys():
            if last[s] == number:
                free.append(taken.pop(s))
        if number == len(made) - 1:
            found.append(Step(step.mnemonic, RESULT, sources, step.immediate))
            continue
        place = free.pop() if free else 1 + operands + count
        count = max(count, place - operands)
        taken[step.out] = place
        found.append(Step(step.mnemonic, place, sources, step.immediate))
    return Steps(operands, tuple(found), count)
