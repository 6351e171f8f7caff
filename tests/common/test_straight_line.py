"""Expressions evaluated together have the values that they have one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, Var, binary, evaluate, free_vars
from tilewright.common.straight_line import straight_line

LEAVES = st.one_of(st.integers(0, 9).map(Const), st.sampled_from("abc").map(Var))
OPERATIONS = st.sampled_from(["+", "-", "*", "min", "max", "<", "<=", "==", "and"])


def combined(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(binary, OPERATIONS, parts, parts)


EXPRESSIONS = st.recursive(LEAVES, combined, max_leaves=12)


@given(st.lists(EXPRESSIONS, min_size=1, max_size=4), st.integers(-5, 9), st.integers(-5, 9))
def test_values_together_and_one_by_one(expressions: list[Expr], a: int, b: int) -> None:
    env = {"a": a, "b": b, "c": np.arange(3)}
    code = straight_line(expressions)
    for together in (code(env), code.sharing(env, {})):
        for value, e in zip(together, expressions, strict=True):
            np.testing.assert_array_equal(value, evaluate(e, env))


def test_common_parts_are_computed_once() -> None:
    a, b = Var("a"), Var("b")
    code = straight_line([(a + b) * 2, (a + b) * (a + b)])
    assert len(code.steps) == 3
    assert set(code.symbols) == free_vars(a + b)


def test_what_other_code_has_made_is_not_made_again() -> None:
    a, b, made = Var("a"), Var("b"), {}
    env = {"a": np.arange(3), "b": np.arange(3)}
    one, other = straight_line([a * b, a * b + a]), straight_line([b, a * b + a, a * b - a])
    (product, total), (_, again, _) = one.sharing(env, made), other.sharing(env, made)
    assert again is total
    assert product.tolist() == [0, 1, 4]
    assert len(made) == 3


def test_what_has_no_value_is_refused_as_alone() -> None:
    a, b = Var("a"), Var("b")
    code = straight_line([a + 1, a // b])
    with pytest.raises(ProgramError, match=re.escape("division by zero in a // b")):
        code({"a": 1, "b": 0})
    with pytest.raises(ProgramError, match=re.escape("symbol 'b' has no value")):
        code.sharing({"a": 1}, {})
