"""Operations of Cambricon: 16-bit fixed point, exact sums, one rounding each.

In: spans of 16-bit elements and values of scalar operands. Out: the spans changed and the number of
elements that saturated, or a scalar. Elements have the machine's fraction bits. Products and sums
are exact; a result is rounded once when written, to nearest with ties to even, and saturated.
Conditions are 1.0 or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from tilewright.common.fixed_point import Array, Integers, exact_product, requantised
from tilewright.machine import Machine
from tilewright.simulate.window.run import Meaning, Span
from tilewright.targets.cambricon.sections import Units

Values = Mapping[str, int]
_I64 = np.dtype(np.int64)
_LARGEST, _SMALLEST = 2**15 - 1, -(2**15)
_SEED = 20160618
"""Seed of the generator of RV, which restarts in each run to make runs repeatable."""


class _Operations:
    """The capability `simulate.window.run`."""

    def parameters(self, machine: Machine) -> Mapping[str, float]:
        """Values of the names in the expressions of `isa/cambricon.toml`."""
        units, engine = machine.section(Units), machine.engine("io")
        rates = {
            f"{name}_bytes_per_cycle": machine.bytes_per_cycle(engine, direction)
            for name, direction in engine.directions.items()
        }
        return rates | {
            "transfer_latency": engine.latency_cycles,
            "vector_lanes": machine.core.lanes("i16"),
            "vector_start": units.vector_start,
            "divide_cycles": units.divide_cycles,
            "transcendental_cycles": units.transcendental_cycles,
            "matrix_start": units.matrix_start,
            "matrix_rows": units.matrix_rows,
            "matrix_columns": units.matrix_columns,
            "matrix_elements": units.matrix_rows * units.matrix_columns,
        }

    def meanings(self, machine: Machine) -> Mapping[str, Meaning]:
        """A function for every operation of the table."""
        fraction_bits = machine.section(Units).fraction_bits
        generator = np.random.default_rng(_SEED)
        one = 1 << fraction_bits

        def random(spans: Sequence[Span], values: Values) -> None:
            spans[0][:] = generator.integers(0, one, len(spans[0]))

        elements = {
            name: (_binary if name in _OF_TWO else _unary)(function)
            for name, function in element_functions(fraction_bits).items()
        }
        return elements | {
            "copy": _copy,
            "multiply_scalar": _by_scalar(lambda a, s: _rounded(a * s, fraction_bits)),
            "add_scalar": _by_scalar(lambda a, s: a + s),
            "move": lambda spans, values: values["a"],
            "load_word": lambda spans, values: int(spans[0].view(np.int32)[0]),
            "store_word": _store_word,
            "matrix_times_vector": partial(_product, fraction_bits=fraction_bits, by_rows=True),
            "vector_times_matrix": partial(_product, fraction_bits=fraction_bits, by_rows=False),
            "outer_product": partial(_outer, fraction_bits=fraction_bits),
            "random": random,
            "dot": partial(_dot, fraction_bits=fraction_bits),
            "largest": lambda spans, values: int(spans[0].max(initial=_SMALLEST)),
            "smallest": lambda spans, values: int(spans[0].min(initial=_LARGEST)),
            "quotient": lambda spans, values: _word_quotient(values["a"], values["b"]),
            "scalar_exponential": _scalar(lambda a: fixed(np.exp(a / one), one)),
            "scalar_logarithm": _scalar(lambda a: fixed(_logarithm(a / one), one)),
            "scalar_not": lambda spans, values: int(values["a"] == 0),
        }


OPERATIONS = _Operations()
_OF_TWO = ("add", "subtract", "multiply", "divide", "maximum", "greater", "equal", "and", "or")


def element_functions(fraction_bits: int) -> dict[str, Callable[..., Array]]:
    """The element-wise operations of vectors, on 64-bit integers and before saturation."""
    one = 1 << fraction_bits

    def condition(test: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
        return lambda a, b: np.where(test(a, b), one, 0)

    return {
        "add": np.add,
        "subtract": np.subtract,
        "multiply": lambda a, b: _rounded(a * b, fraction_bits),
        "divide": lambda a, b: _quotient(a, b, one),
        "maximum": np.maximum,
        "greater": condition(np.greater),
        "equal": condition(np.equal),
        "and": condition(lambda a, b: (a != 0) & (b != 0)),
        "or": condition(lambda a, b: (a != 0) | (b != 0)),
        "not": lambda a: np.where(a == 0, one, 0),
        "exponential": lambda a: _nearest(np.exp(a / one), one),
        "logarithm": lambda a: _nearest(_logarithm(a / one), one),
    }


def saturated(values: Array) -> Array:
    """The nearest 16-bit numbers."""
    return np.clip(values, _SMALLEST, _LARGEST)


def fixed(values: Array, one: int) -> Integers:
    """Real numbers as fixed point: rounded to nearest, ties to even, and saturated."""
    found: Integers = saturated(np.rint(values * one)).astype(np.int64)
    return found


def _nearest(values: Array, one: int) -> Integers:
    """Real numbers as wide fixed point, not yet saturated."""
    wide = np.clip(np.rint(values * one), 2 * _SMALLEST, 2 * _LARGEST)
    found: Integers = wide.astype(np.int64)
    return found


def _rounded(products: Integers, fraction_bits: int) -> Integers:
    return requantised(products, 1 << fraction_bits, "even", saturate=False, to=_I64)


def _write_saturated(out: Span, values: Array) -> int:
    """Write the numbers, saturated; returns how many did not fit."""
    out[:] = kept = saturated(values)
    return int(np.count_nonzero(kept != values))


def _copy(spans: Sequence[Span], values: Values) -> None:
    spans[0][:] = spans[1].copy()


def _store_word(spans: Sequence[Span], values: Values) -> None:
    spans[0].view(np.int32)[0] = values["a"]


def _binary(function: Callable[[Array, Array], Array]) -> Meaning:
    def meaning(spans: Sequence[Span], values: Values) -> int:
        out, a, b = spans
        return _write_saturated(out, function(a.astype(np.int64), b.astype(np.int64)))

    return meaning


def _unary(function: Callable[[Array], Array]) -> Meaning:
    def meaning(spans: Sequence[Span], values: Values) -> int:
        out, a = spans
        return _write_saturated(out, function(a.astype(np.int64)))

    return meaning


def _by_scalar(function: Callable[[Array, int], Array]) -> Meaning:
    def meaning(spans: Sequence[Span], values: Values) -> int:
        out, a = spans
        return _write_saturated(out, function(a.astype(np.int64), values["scalar"]))

    return meaning


def _scalar(function: Callable[[Array], Integers]) -> Meaning:
    return lambda spans, values: int(function(np.array(float(values["a"]))))


def _product(spans: Sequence[Span], values: Values, *, fraction_bits: int, by_rows: bool) -> int:
    """A matrix, row by row, times a vector; or a vector times a matrix of its elements' rows."""
    out, matrix, vector = spans
    shape = (len(out), len(vector)) if by_rows else (len(vector), len(out))
    rows = matrix.reshape(shape) if by_rows else matrix.reshape(shape).T
    return _write_saturated(out, _rounded(exact_sums(rows, vector[:, None])[:, 0], fraction_bits))


def exact_sums(a: Array, b: Array) -> Integers:
    """The matrix product of 16-bit arrays; for one column it does not copy the matrix."""
    if b.shape[1] > 1 or not a.flags.c_contiguous:
        return exact_product(a, b)
    sums: Integers = np.einsum("ik,kj->ij", a, b, dtype=np.int64, casting="safe")
    return sums


def _outer(spans: Sequence[Span], values: Values, *, fraction_bits: int) -> int:
    out, a, b = spans
    products = np.multiply.outer(a.astype(np.int64), b.astype(np.int64))
    return _write_saturated(out, _rounded(products, fraction_bits).reshape(-1))


def _dot(spans: Sequence[Span], values: Values, *, fraction_bits: int) -> int:
    a, b = spans
    return int(saturated(_rounded(exact_product(a[None, :], b[:, None]), fraction_bits))[0, 0])


def _quotient(a: Array, b: Array, one: int) -> Integers:
    """a / b, rounded once. Over zero, the limit with the sign of a; 0 / 0 is 0."""
    divisor = np.where(b == 0, 1, b)
    sign = np.where(divisor < 0, -1, 1)
    limits = np.iinfo(np.int64)
    wide = requantised(
        a * one * sign, divisor * sign, "even", saturate=False, to=np.dtype(np.int64)
    )
    found: Integers = np.where(b == 0, np.sign(a) * (limits.max // 2), wide)
    return found


def _logarithm(values: Array) -> Array:
    """The natural logarithm; the smallest number where there is none."""
    found: Array = np.full(np.shape(values), float(_SMALLEST))
    return np.log(values, out=found, where=values > 0)


def _word_quotient(a: int, b: int) -> int:
    """a / b towards zero as a 32-bit integer; 0 if b is 0."""
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient
