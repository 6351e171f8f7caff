"""Expressions over elements as vector instructions, each of which rounds its result.

In: an expression over x0, x1, ... (`ir.scalar`) and the fraction bits of elements. Out:
`VectorSteps`, instructions in order on the result, the operands and temporaries. Common
subexpressions are computed once. A constant is a temporary: an element minus itself, plus the
number. Truth values are 1 and 0.
"""

from __future__ import annotations

from collections.abc import Mapping
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
_TRUTHS = frozenset((">", "==", "and", "or", "not"))
_UNARY = {"exp": "vexp", "log": "vlog", "not": "vnot"}
_FUNCTIONS_OF = {m: f for f, m in (_BINARY | _UNARY).items()} | {"vas": "+", "vgtm": "max"}
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
"""Functions in terms of those with an instruction."""


@dataclass(frozen=True)
class Step:
    """One instruction: the place it writes, those it reads, and its immediate."""

    mnemonic: str
    out: int
    sources: tuple[int, ...]
    immediate: int | None = None


@dataclass(frozen=True)
class VectorSteps:
    """The instructions of an expression over `operands` operands, and the number of temporaries;
    `constants` are made once for all elements of a call.
    """

    operands: int
    constants: tuple[Step, ...]
    steps: tuple[Step, ...]
    temporaries: int


@cache
def vector_steps_of(expression: str, operands: int, fraction_bits: int) -> VectorSteps:
    """An expression's instructions. Raises ProgramError for a function that none computes."""
    builder = _Builder(fraction_bits, operands)
    scalar = _plain(parse_scalar(expression))
    place = builder.place(scalar)
    if place <= operands:
        builder.append("vmove", (place,))
    if not builder.made:
        last = builder.constants.pop()
        builder.made.append(last)
    return _with_few_temporaries(operands, builder)


def step_expression(step: Step, fraction_bits: int) -> tuple[str, tuple[int, ...]]:
    """The expression that one instruction computes, and the places of its operands.

    >>> step_expression(Step("vas", 4, (3,), -128), 8)
    ('x0 + -0.5', (3,))
    """
    places = tuple(dict.fromkeys(step.sources))
    own: tuple[Scalar, ...] = tuple(Element(places.index(s)) for s in step.sources)
    if step.immediate is not None:
        own = (*own, Number(step.immediate / 2.0**fraction_bits))
    function = _FUNCTIONS_OF.get(step.mnemonic)
    return str(Apply(function, own) if function else own[0]), places


def with_constants(expression: str, operands: int) -> tuple[str, tuple[float, ...]]:
    """The expression with further operands in place of constants, and the constants. Constants that
    an instruction adds stay. Raises ProgramError as `vector_steps_of` does.

    >>> with_constants("max(x0 + 1.0, 0.0)", 1)
    ('max(x0 + 1.0, x1)', (0.0,))
    """
    found: dict[float, Element] = {}

    def placed(scalar: Scalar) -> Scalar:
        match scalar:
            case Number(value):
                return found.setdefault(value, Element(operands + len(found)))
            case Apply("+", (a, Number() as n)) | Apply("+", (Number() as n, a)):
                return Apply("+", (placed(a), n))
            case Apply(function, arguments):
                return Apply(function, tuple(map(placed, arguments)))
            case _:
                return scalar

    return str(placed(_plain(parse_scalar(expression)))), tuple(found)


def require_steps(expression: str) -> None:
    """Raise ProgramError for an expression with a function that no instructions compute."""
    vector_steps_of(expression, operand_count(parse_scalar(expression)), 0)


def _plain(scalar: Scalar) -> Scalar:
    """The expression in functions that have instructions, including `max`."""
    match scalar:
        case Apply("if", (Apply("<" | "<=" | ">" | ">=" as test, (a, b)), then, orelse)) if {
            then,
            orelse,
        } == {a, b} and a != b:
            takes_larger = (then == a) == (test in {">", ">="})
            return _plain(Apply("max" if takes_larger else "min", (a, b)))
        case Apply("max", (a, Number(value)) | (Number(value), a)) if value == -inf:
            return _plain(a)
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
    """Simplify a function of plain arguments."""
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
        case "==", (a, b) if a == b:  # each number of fixed point equals itself
            return Number(1.0)
        case "not", (Apply("not", (a,)),) if isinstance(a, Apply) and a.function in _TRUTHS:
            return a
        case "if", (Number(number), then, orelse):
            return then if number else orelse
        case "if", (test, then, Number(0.0)):
            return _folded("*", (test, then))
        case "if", (test, Number(0.0), orelse):
            return _folded("*", (_folded("not", (test,)), orelse))
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
    """Instructions in order, each writing a new place except those that make a constant."""

    fraction_bits: int
    operands: int
    constants: list[Step] = field(default_factory=list)
    made: list[Step] = field(default_factory=list)
    count: int = 0
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
        """The place of a constant: an element minus itself, plus the number."""
        any_place, place = 1 if self.operands else RESULT, self._place()
        self.constants.append(Step("vsv", place, (any_place, any_place)))
        if value:
            self.constants.append(Step("vas", place, (place,), self._raw(value)))
        return place

    def _raw(self, value: float) -> int:
        return raw_number(value, self.fraction_bits)

    def _place(self) -> int:
        self.count += 1
        return self.operands + self.count

    def append(self, mnemonic: str, sources: tuple[int, ...], immediate: int | None = None) -> int:
        """Append an instruction; returns the place it writes."""
        place = self._place()
        self.made.append(Step(mnemonic, place, sources, immediate))
        return place


def raw_number(value: float, fraction_bits: int) -> int:
    """The element nearest to a number: rounded to nearest and even, and saturated.

    >>> raw_number(1.5, 8), raw_number(float("-inf"), 8)
    (384, -32768)
    """
    if value in (inf, -inf):
        return _LARGEST if value > 0 else _SMALLEST
    return min(_LARGEST, max(_SMALLEST, round(value * 2.0**fraction_bits)))


def _with_few_temporaries(operands: int, builder: _Builder) -> VectorSteps:
    """The steps with temporaries' places reused after their last reader; constants keep theirs. The
    last step writes the result.
    """
    made, kept = builder.made, [step.out for step in builder.constants]
    last = {s: number for number, step in enumerate(made) for s in step.sources}
    taken = {out: 1 + operands + i for i, out in enumerate(dict.fromkeys(kept))}
    constants = tuple(_moved(step, taken, taken[step.out]) for step in builder.constants)
    count, pinned = len(taken), {*taken}
    free: list[int] = []
    found: list[Step] = []
    for number, step in enumerate(made):
        ending = [s for s in {*step.sources} & taken.keys() - pinned if last[s] == number]
        if number == len(made) - 1:
            place = RESULT
        elif ending or free:
            place = taken[ending.pop()] if ending else free.pop()
        else:
            count += 1
            place = operands + count
        found.append(_moved(step, taken, place))
        free += [taken.pop(s) for s in ending]
        taken[step.out] = place
    return VectorSteps(operands, constants, tuple(found), count)


def _moved(step: Step, taken: Mapping[int, int], out: int) -> Step:
    sources = tuple(taken.get(s, s) for s in step.sources)
    return Step(step.mnemonic, out, sources, step.immediate)
