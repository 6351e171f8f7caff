"""Expressions over elements: text, value, C and count say the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ProgramError
from tilewright.ir.scalar import (
    Apply,
    Element,
    Number,
    Scalar,
    c_text,
    composed,
    operand_count,
    operations,
    parse_scalar,
)

leaves = st.one_of(
    st.builds(Number, st.floats(-8, 8).filter(lambda x: str(x) != "-0.0")),
    st.builds(Element, st.integers(0, 2)),
)


def applied(inner: st.SearchStrategy[Scalar]) -> st.SearchStrategy[Scalar]:
    two, one = st.tuples(inner, inner), st.tuples(inner)
    arithmetic = st.builds(Apply, st.sampled_from(["+", "-", "*", "/", "pow"]), two)
    unary = st.builds(Apply, st.sampled_from(["abs", "exp", "tanh"]), one)
    signs = st.builds(Apply, st.just("negative"), one).filter(
        lambda a: not isinstance(a.arguments[0], Number)
    )
    tests = st.builds(Apply, st.sampled_from(["<", ">", "!="]), two)
    either = st.one_of(tests, st.builds(Apply, st.just("or"), st.tuples(tests, tests)))
    chosen = st.builds(Apply, st.just("if"), st.tuples(either, inner, inner))
    return st.one_of(arithmetic, unary, signs, chosen)


scalars = st.recursive(leaves, applied, max_leaves=12)


@given(scalars)
def test_the_text_parses_back_equal(scalar: Scalar) -> None:
    assert parse_scalar(str(scalar)) == scalar


@given(scalars, scalars)
def test_a_composed_expression_is_the_one_of_the_other(outer: Scalar, inner: Scalar) -> None:
    """Here every further operand of the outer one is read after those of the inner one."""
    x = [np.array([-2.0, 0.5, 3.0]) + i for i in range(6)]
    count = operand_count(inner)
    with np.errstate(all="ignore"):
        expected = outer.value((inner.value(x), *x[count:]))
        found = composed(outer, 0, inner).value(x)
    np.testing.assert_array_equal(found, expected)


def test_text_value_c_and_count():
    leaky = parse_scalar("0.1 * x0 if x0 < 0 else x0")
    assert leaky.value((np.array([-10.0, 10.0]),)).tolist() == [-1.0, 10.0]
    assert c_text(leaky, ("a",)) == "((a < 0.0) ? (0.1 * a) : a)"
    assert operations(leaky) == 3  # a multiplication, a comparison, a choice
    assert operand_count(parse_scalar("x0 - x2")) == 3


def test_infinity_has_a_name():
    least = parse_scalar("x0 if x0 > -inf else inf")
    assert parse_scalar(str(least)) == least
    assert c_text(least, ("a",)) == "((a > (-INFINITY)) ? a : INFINITY)"


@pytest.mark.parametrize("text", ["", "y", "x0 @ x1", "exp(x0, x1)", "x0.real", "1j", "1e309", "x"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ProgramError) as error:
        parse_scalar(text)
    assert str(error.value) == (
        f"{text!r} is no expression over elements; it is made of x0, x1, ..., numbers, "
        "+ - * / < > != or if-else and abs, ceil, exp, expm1, floor, log, log1p, pow, sqrt, tanh"
    )
