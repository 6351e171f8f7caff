"""Expressions over elements as straight-line arithmetic of an SW26010 core.

In: the expression of a `map` or `reduce`. Out: the core's operations on numbered values, the same
for one element and for a vector, or a refusal if the core has no instructions for a function. Each
operation rounds as in the expression; none are fused, except within a function. A comparison gives
a mask, and a selection tests a mask or the sign of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import copysign, isfinite

from tilewright.common.errors import ProgramError
from tilewright.ir.scalar import (
    COMPARISONS,
    FUNCTIONS,
    Apply,
    Element,
    Elementary,
    Number,
    Scalar,
    expanded,
)
from tilewright.targets.sw26010.elementwise.functions import (
    arc_tangent,
    cosine,
    error_function,
    exponential,
    exponential_less_one,
    has_power,
    hyperbolic_tangent,
    nearest,
    power,
    remainder,
    sine,
    whole_number,
)
from tilewright.targets.sw26010.elementwise.logarithms import (
    general_power,
    logarithm,
    logarithm_of_one_more,
)
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums

_BINARY = {"+": "vaddd", "-": "vsubd", "*": "vmuld", "/": "vdivd"}
_ROUTINES: Mapping[str, Callable[[Sums, int], int]] = {
    "atan": arc_tangent,
    "ceil": partial(whole_number, up=True),
    "cos": cosine,
    "erf": error_function,
    "exp": exponential,
    "expm1": exponential_less_one,
    "floor": partial(whole_number, up=False),
    "log": logarithm,
    "log1p": logarithm_of_one_more,
    "round": nearest,
    "sin": sine,
    "tanh": hyperbolic_tangent,
}
_TRUE = 2.0
"""The value of a true comparison."""
_TESTS = (*COMPARISONS, "and", "or", "not")


@dataclass
class ExpressionOperations:
    """The operations of an expression over `inputs`, which are values of `sums`; equal
    subexpressions are computed once. With `library`, a call of the C library is a chain of as many
    multiply-adds as `ir.scalar` counts operations.
    """

    sums: Sums
    inputs: Sequence[int]
    library: bool = False
    known: dict[str, int] = field(default_factory=dict)

    def value(self, scalar: Scalar) -> int:
        """The number of the value; raises ProgramError for functions without an instruction."""
        scalar = expanded(scalar)
        text = str(scalar)  # which tells 0.0 and -0.0 apart
        if text not in self.known:
            self.known[text] = self._computed(scalar)
        return self.known[text]

    def _computed(self, scalar: Scalar) -> int:
        match scalar:
            case Number(number):
                zero = number == 0 and copysign(1, number) > 0
                return ZERO_VALUE if zero else self.sums.constant(number)
            case Element(index):
                return self.inputs[index]
            case Apply(function, (a, b)) if function in _BINARY:
                return self.sums.add(_BINARY[function], self.value(a), self.value(b))
            case Apply("negative", (a,)):
                return self.sums.add("vmuld", self.value(a), self.sums.constant(-1.0))
            case Apply("abs", (a,)):
                return self.sums.magnitude(self.value(a))
            case Apply("sqrt", (a,)):
                return self.sums.add("vsqrtd", self.value(a))
            case Apply("if", (test, then, otherwise)):
                return self._selected(test, self.value(then), self.value(otherwise))
            case Apply() if self.library:
                return self._called(scalar)
            case Apply(function, (a,)) if function in _ROUTINES:
                return _ROUTINES[function](self.sums, self.value(a))
            case Apply("fmod", (a, b)):
                return remainder(self.sums, self.value(a), self.value(b))
            case Apply("pow", (a, Number(exponent))) if has_power(exponent):
                return power(self.sums, self.value(a), exponent)
            case Apply("pow", (_, Number(0.0))):
                return self.sums.constant(1.0)
            case Apply("pow", (a, Number(exponent))) if isfinite(exponent):
                y = self.sums.constant(exponent)
                return general_power(self.sums, self.value(a), y, exponent)
            case Apply("pow", (a, b)):
                return general_power(self.sums, self.value(a), self.value(b))
            case Apply(function) if function in _TESTS:
                one = self.sums.constant(1.0)
                return self.sums.add("vseleq", self._mask(scalar), ZERO_VALUE, one)
            case _:
                raise ProgramError(f"the core has no instruction for {str(scalar)[:60]!r}")

    def _selected(self, test: Scalar, then: int, otherwise: int) -> int:
        match test:
            case Apply("<", (a, Number(0.0))) | Apply(">", (Number(0.0), a)):
                return self.sums.add("vsellt", self.value(a), then, otherwise)
            case Apply("!=", (a, b)):
                same = self.sums.add("vfcmpeq", self.value(a), self.value(b))
                return self.sums.add("vseleq", same, then, otherwise)
            case _:
                return self.sums.add("vseleq", self._mask(test), otherwise, then)

    def _mask(self, test: Scalar) -> int:
        """A value that is zero if the test fails."""
        match test:
            case Apply("<", (a, b)) | Apply(">", (b, a)):
                return self.sums.add("vfcmplt", self.value(a), self.value(b))
            case Apply("<=", (a, b)) | Apply(">=", (b, a)):
                return self.sums.add("vfcmple", self.value(a), self.value(b))
            case Apply("==", (a, b)):
                return self.sums.add("vfcmpeq", self.value(a), self.value(b))
            case Apply("!=", (a, b)):
                same = self.sums.add("vfcmpeq", self.value(a), self.value(b))
                return self.sums.add("vseleq", same, self.sums.constant(_TRUE), ZERO_VALUE)
            case Apply("or", (a, b)):
                return self.sums.add("vaddd", self._truth(a), self._truth(b))
            case Apply("and", (a, b)):
                return self.sums.add("vmuld", self._truth(a), self._truth(b))
            case Apply("not", (a,)):
                true = self.sums.constant(_TRUE)
                return self.sums.add("vseleq", self._mask(a), true, ZERO_VALUE)
            case _:
                return self.value(test)

    def _truth(self, test: Scalar) -> int:
        """A mask of a value, true unless the value is zero."""
        return self._mask(test if _is_test(test) else Apply("!=", (test, Number(0.0))))

    def _called(self, call: Apply) -> int:
        """A stand-in for a library call: as many chained multiply-adds as the function counts."""
        value, *others = [self.value(argument) for argument in call.arguments]
        own = FUNCTIONS[call.function]
        assert isinstance(own, Elementary)
        for _ in range(own.operations):
            value = self.sums.add("vmad", value, *(others or [value])[:1], ZERO_VALUE)
        return value


def _is_test(scalar: Scalar) -> bool:
    return isinstance(scalar, Apply) and scalar.function in _TESTS
