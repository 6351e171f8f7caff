"""Expressions: what they print as, how they fold, and that no rewriting changes their value."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ir_strategies import SYMBOLS, expressions
from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    BinaryExpr,
    Const,
    Expr,
    Values,
    Var,
    binary,
    ceil_div,
    evaluate,
    free_vars,
    maximum,
    minimum,
    period,
    round_up,
    substitute,
    total,
)
from tilewright.common.expr_parser import parse_expr

A, B, C = Var("a"), Var("b"), Var("c")
_OPERATORS = ("+", "-", "*", "//", "%", "ceil_div", "min", "max", "<", "<=", "==", "!=", "and")

environments = st.fixed_dictionaries({name: st.integers(-50, 50) for name in SYMBOLS})


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (A + B + C, "a + b + c"),
        (A + (B + C), "a + (b + c)"),
        (A - (B - C), "a - (b - c)"),
        (A * (B + 1), "a * (b + 1)"),
        (A * B + 1, "a * b + 1"),
        (A // (B * C), "a // (b * c)"),
        (A % B * C, "a % b * c"),
        (A * -3, "a * (-3)"),
        (A - Const(-3), "a + 3"),
        (A + B * -2, "a - b * 2"),
        (A + 3 - 1, "a + 2"),
        (ceil_div(A, B) * B, "ceil_div(a, b) * b"),
        (minimum(A + 1, maximum(B, -1)), "min(a + 1, max(b, -1))"),
        (binary("<", A + 1, -2), "a + 1 < -2"),
        (binary("==", binary("<", A, B), 1), "(a < b) == 1"),
        (binary("and", binary("and", A, B), C), "a and b and c"),
        (binary("and", A, binary("and", B, C)), "a and (b and c)"),
        (binary("<", A, B) * C, "(a < b) * c"),
    ],
)
def test_brackets_where_the_tree_needs_them(e: Expr, text: str) -> None:
    assert str(e) == repr(e) == text
    assert parse_expr(text) == e


@pytest.mark.parametrize(
    ("e", "folded"),
    [
        (A + 0, A),
        (0 + A, A),
        (A - A, Const(0)),
        (A * 0, Const(0)),
        (1 * A, A),
        (A // 1, A),
        (A % 1, Const(0)),
        (ceil_div(A, A), Const(1)),
        (minimum(A, A), A),
        (round_up(Const(13), 8), Const(16)),
        (binary("and", 1, binary("<", A, B)), binary("<", A, B)),
        (binary("and", binary("<", A, B), 0), Const(0)),
        (binary("and", 1, A), BinaryExpr("and", Const(1), A)),
        (binary("and", 5, 3), Const(1)),
    ],
)
def test_folding(e: Expr, folded: Expr) -> None:
    assert e == folded


@given(expressions())
def test_text_reads_back_equal(e: Expr) -> None:
    assert parse_expr(str(e)) == e


@given(expressions(), st.lists(environments, min_size=1, max_size=4))
def test_arrays_give_the_values_of_their_elements(e: Expr, envs: list[dict[str, int]]) -> None:
    arrays = {name: np.array([env[name] for env in envs]) for name in SYMBOLS}
    together = np.broadcast_to(evaluate(e, arrays), len(envs))
    assert together.tolist() == [evaluate(e, env) for env in envs]


@given(expressions(), expressions(), environments)
def test_remembered_values_are_those_of_the_symbols(e: Expr, f: Expr, env: dict[str, int]) -> None:
    values = Values(env)
    assert [evaluate(x, values) for x in (e, f, e)] == [evaluate(x, env) for x in (e, f, e)]


def test_values_are_computed_once_for_all_who_ask() -> None:
    values = Values({"n": np.arange(3)})
    inner = Var("n") * 2
    assert evaluate(inner + 1, values).tolist() == [1, 3, 5]
    assert evaluate(inner, values) is evaluate(Var("n") * 2, values)


@given(expressions(), environments, st.sets(st.sampled_from(SYMBOLS)))
def test_substituting_values_keeps_the_value(e: Expr, env: dict[str, int], bound: set[str]) -> None:
    partly = substitute(e, {name: env[name] for name in bound})
    assert free_vars(partly) <= free_vars(e) - bound
    assert evaluate(partly, env) == evaluate(e, env)


@given(expressions(max_operations=4), expressions(max_operations=4), environments)
def test_substituting_an_expression_keeps_the_value(
    e: Expr, inner: Expr, env: dict[str, int]
) -> None:
    inlined = substitute(e, {"n": inner})
    assert evaluate(inlined, env) == evaluate(e, {**env, "n": evaluate(inner, env)})


@given(
    st.sampled_from(_OPERATORS),
    expressions(max_operations=3),
    expressions(max_operations=3),
    environments,
)
def test_folding_keeps_the_value(op: str, a: Expr, b: Expr, env: dict[str, int]) -> None:
    """Bound step by step by `binary`, or left as one unfolded node: the same value."""
    if op in ("//", "%", "ceil_div") and evaluate(b, env) == 0:
        return
    assert evaluate(binary(op, a, b), env) == evaluate(BinaryExpr(op, a, b), env)


@given(expressions(), environments)
def test_python_computes_the_same_value(e: Expr, env: dict[str, int]) -> None:
    """The text means what it means in Python, `and` and comparisons being 0 or 1."""
    assert evaluate(e, env) == _by_hand(e, env)


def _by_hand(e: Expr, env: dict[str, int]) -> int:
    if not isinstance(e, BinaryExpr):
        return env[e.name] if isinstance(e, Var) else e.value
    a, b = _by_hand(e.a, env), _by_hand(e.b, env)
    if e.op == "and":
        return int(a != 0 and b != 0)
    if e.op == "ceil_div":
        return (a + b - 1) // b
    if e.op in ("min", "max"):
        return sorted((a, b))[e.op == "max"]
    plain = {
        "+": a + b,
        "-": a - b,
        "*": a * b,
        "<": int(a < b),
        "<=": int(a <= b),
        "==": int(a == b),
        "!=": int(a != b),
    }
    return plain[e.op] if e.op in plain else {"//": a // b, "%": a % b}[e.op]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not an integer expression"),
        ("a +", "'a +' is not an integer expression"),
        ("a / b", "'a / b' is not an integer expression"),
        ("a.b", "'a.b' is not an integer expression"),
        ("f(a, b)", "'f(a, b)' is not an integer expression"),
        ("min(a)", "'min(a)' is not an integer expression"),
        ("a < b < c", "'a < b < c' is not an integer expression"),
        ("a or b", "'a or b' is not an integer expression"),
        ("1.5", "'1.5' is not an integer expression"),
        ("True", "'True' is not an integer expression"),
        ("__import__('os')", "\"__import__('os')\" is not an integer expression"),
        ("1 // 0", "division by zero in 1 // 0"),
    ],
)
def test_what_is_no_expression(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_expr(text)
    assert str(caught.value) == message


def test_a_symbol_without_value() -> None:
    with pytest.raises(ProgramError) as caught:
        evaluate(A + B, {"a": 1})
    assert str(caught.value) == "symbol 'b' has no value"


def test_a_division_by_zero() -> None:
    with pytest.raises(ProgramError) as caught:
        evaluate(A + binary("//", 1, B - 2), {"a": 1, "b": 2})
    assert str(caught.value) == "division by zero in 1 // (b - 2)"


def test_a_number_that_is_no_integer() -> None:
    with pytest.raises(ProgramError) as caught:
        binary("+", A, 1.5)
    assert str(caught.value) == "1.5 is neither an integer nor an integer expression"


def test_leaves_are_shared_and_survive_pickling():
    tile, three = Var("tile"), Const(3)
    assert Var("tile") is tile
    assert Const(np.int64(3)) is three
    assert type(three.value) is int
    assert pickle.loads(pickle.dumps(tile)) is tile
    expression = ceil_div(tile, 3) * tile
    again = pickle.loads(pickle.dumps(expression))
    assert again == expression
    assert {again: 1}[expression] == 1


def test_every_kind_of_expression_is_one():
    assert all(isinstance(e, Expr) for e in (Const(1), Var("a"), Var("a") + 1))
    assert not isinstance(1, Expr)


@pytest.mark.parametrize("c", range(-3, 4))
@pytest.mark.parametrize("d", range(-3, 4))
@pytest.mark.parametrize("sign", [1, -1])
def test_constants_at_the_ends_of_two_sums_become_one(c: int, d: int, sign: int) -> None:
    """One that ends the second sum alone stays there, unless it is negative."""

    def beside(text: str, value: int) -> str:
        return f"{text} {'-' if value < 0 else '+'} {abs(value)}" if value else text

    op, left, right = (
        "+" if sign > 0 else "-",
        parse_expr(beside("a", c)),
        parse_expr(beside("b", d)),
    )
    if d == 0:
        expected = f"{beside('a', c)} {op} b"
    elif c == 0 and d > 0:
        expected = f"a {op} (b + {d})"
    else:
        expected = beside(f"a {op} b", c + sign * d)
    assert str(binary(op, left, right)) == expected


@given(st.lists(st.integers(1, 12), max_size=3), st.integers(0, 200))
def test_remainders_repeat_after_their_period(moduli: list[int], place: int) -> None:
    """The period is the least number of steps after which all of them come back together."""
    digits = [A % n for n in moduli]
    e = total(digit * 13**i for i, digit in enumerate(digits))
    steps = period(e, "a")
    values = [evaluate(e, {"a": place + step}) for step in range(steps + 1)]
    assert values[0] == values[-1]
    assert len({*values}) == steps
    assert period(e, "b") == 1
