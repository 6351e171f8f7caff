"""Expressions over elements: text, value, C and count say the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.scalars import OF_FLOATS, scalars
from tilewright.common.dtypes import F32
from tilewright.common.errors import ProgramError
from tilewright.ir.scalar import (
    FUNCTIONS,
    Scalar,
    c_text,
    expanded,
    operand_count,
    operations,
    parse_scalar,
)

numbers = st.floats(-8, 8).filter(lambda x: str(x) != "-0.0")


@given(scalars(FUNCTIONS, numbers))
def test_the_text_parses_back_equal(scalar: Scalar) -> None:
    assert parse_scalar(str(scalar)) == scalar


@given(scalars(OF_FLOATS, numbers))
def test_an_expanded_expression_has_the_same_value(scalar: Scalar) -> None:
    x = [np.array([-2.0, -0.0, 0.5, 3.0, np.nan, np.inf]) + i for i in range(3)]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(expanded(scalar).value(x), scalar.value(x))


def test_text_value_c_and_count() -> None:
    leaky = parse_scalar("0.1 * x0 if x0 < 0 else x0")
    assert leaky.value((np.array([-10.0, 10.0]),)).tolist() == [-1.0, 10.0]
    assert c_text(leaky, ("a",)) == "((a < 0.0) ? (0.1 * a) : a)"
    assert c_text(leaky, ("a",), F32) == "((a < 0.0f) ? (0.1f * a) : a)"
    assert operations(leaky) == 3  # a multiplication, a comparison, a choice
    assert operand_count(parse_scalar("x0 - x2")) == 3


def test_a_composite_function_is_counted_and_written_as_its_expression() -> None:
    leaky = parse_scalar("leaky_relu(x0 + x1, 0.1)")
    assert str(expanded(leaky)) == "0.1 * (x0 + x1) if x0 + x1 < 0.0 else x0 + x1"
    assert operations(leaky) == operations(expanded(leaky)) == 6
    assert c_text(leaky, ("a", "b")) == c_text(expanded(leaky), ("a", "b"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clip(x0, -inf, inf)", "x0"),
        ("clip(x0, 0.0, inf)", "0.0 if x0 < 0.0 else x0"),
        ("clip(x0, 0.0, 6.0)", "6.0 if x0 > 6.0 else (0.0 if x0 < 0.0 else x0)"),
        ("clip(x0, 6.0, 0.0)", "x0 if x0 != x0 else 0.0"),
    ],
)
def test_what_numbers_decide_is_not_computed(text: str, expected: str) -> None:
    assert str(expanded(parse_scalar(text))) == expected


def test_truths_are_numbers() -> None:
    x = (np.array([0.0, 1.0, 2.0]),)
    assert parse_scalar("(x0 < 2) + (x0 < 1)").value(x).tolist() == [2, 1, 0]
    assert parse_scalar("-(x0 < 1)").value(x).tolist() == [-1, 0, 0]
    assert parse_scalar("x0 and not x0 == 2").value(x).tolist() == [False, True, False]


def test_infinity_has_a_name() -> None:
    least = parse_scalar("x0 if x0 > -inf else inf")
    assert parse_scalar(str(least)) == least
    assert c_text(least, ("a",)) == "((a > (-INFINITY)) ? a : INFINITY)"


def test_several_truths_are_read_from_the_left() -> None:
    assert parse_scalar("x0 or x1 or x2") == parse_scalar("(x0 or x1) or x2")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "y",
        "x0 @ x1",
        "exp(x0, x1)",
        "x0.real",
        "1j",
        "1e309",
        "x",
        "0 < x0 < 1",
        "if(x0)",
        "+x0",
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ProgramError) as error:
        parse_scalar(text)
    called = ", ".join(sorted(name for name, f in FUNCTIONS.items() if f.is_called))
    assert str(error.value) == (
        f"{text!r} is no expression over elements; it is made of x0, x1, ..., numbers, "
        "+ - * / // % & | ^ << >> < <= > >= == != and or not ~ if-else and " + called
    )
