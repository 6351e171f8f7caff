"""C text: expressions mean what they mean in Python, identifiers carry nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.codegen.c.elementwise_text import primitives_header
from tilewright.codegen.c.expression import Scope, bounds_of, c_expression
from tilewright.codegen.c.writer import CWriter, Names, comment_text, identifier
from tilewright.common.errors import ProgramError
from tilewright.common.expr import BinaryExpr, Const, Expr, Var, evaluate
from tilewright.common.expr_parser import parse_expr

BOUNDS = {"i": (0, 6), "j": (-3, 4)}
SCOPE = Scope({"i": "i", "j": "j"}, BOUNDS)
OPERATORS = ("+", "-", "*", "min", "max", "<", "<=", "==", "!=", "and")


def expressions() -> st.SearchStrategy[Expr]:
    """Expressions over i and j; divisors are positive."""
    leaves = st.sampled_from([Var("i"), Var("j")]) | st.integers(-5, 9).map(Const)

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        plain = st.builds(BinaryExpr, st.sampled_from(OPERATORS), inner, inner)
        divided = st.builds(
            BinaryExpr,
            st.sampled_from(("//", "%", "ceil_div")),
            inner,
            st.integers(1, 7).map(Const) | st.just(BinaryExpr("+", Var("i"), Const(1))),
        )
        return plain | divided

    return st.recursive(leaves, grow, max_leaves=8)


@given(expressions())
def test_bounds_hold_every_value(e):
    low, high = bounds_of(e, SCOPE)
    values = [evaluate(e, {"i": i, "j": j}) for i in range(7) for j in range(-3, 5)]
    assert low <= min(values) <= max(values) <= high


def examples() -> list[Expr]:
    """A fixed set that a C compiler can be asked about at once."""
    operands = [Var("i"), Var("j"), Const(3), Const(-2), Var("i") - Var("j"), Var("j") * 2 + 1]
    found = [BinaryExpr(op, a, b) for op in OPERATORS for a in operands for b in operands]
    divisors = [Const(3), Var("i") + 1]
    found += [
        BinaryExpr(op, a, b) for op in ("//", "%", "ceil_div") for a in operands for b in divisors
    ]
    nested = [BinaryExpr(op, a, b) for op in OPERATORS for a in found[::7] for b in found[3::29]]
    return found + nested[::5]


def test_c_computes_what_python_computes(tmp_path: Path):
    compiler = shutil.which("cc")
    assert compiler is not None
    tested = examples()
    lines = [f'printf("%ld\\n", (long)({c_expression(e, SCOPE)}));' for e in tested]
    loops = "for (long i = 0; i <= 6; i += 3) for (long j = -3; j <= 4; j += 7)"
    text = f"#include <stdio.h>\nint main(void) {{ {loops} {{\n" + "\n".join(lines) + "\n} }\n"
    (tmp_path / "t.c").write_text(primitives_header() + text)
    command = [compiler, "-O0", "-w", str(tmp_path / "t.c"), "-o", str(tmp_path / "t")]
    subprocess.run(command, check=True)
    printed = subprocess.run([str(tmp_path / "t")], capture_output=True, text=True, check=True)
    environments = [{"i": i, "j": j} for i in (0, 3, 6) for j in (-3, 4)]
    expected = [evaluate(e, env) for env in environments for e in tested]
    assert [int(word) for word in printed.stdout.split()] == expected


@pytest.mark.parametrize(
    ("text", "c"),
    [
        ("i // 2 * 16", "i / 2 * 16"),
        ("(i + 1) % 2", "(i + 1) % 2"),
        ("j // 2", "tw_floor_divide(j, 2)"),
        ("(i - 1) % 2", "tw_modulo(i - 1, 2)"),
        ("ceil_div(i, 4)", "(i + 3) / 4"),
        ("min(i, 3) - (i - j)", "tw_minimum(i, 3) - (i - j)"),
        ("i + (j + 1)", "i + j + 1"),
        ("i * (j * 2)", "i * (j * 2)"),
        ("i // ((i + 1) * 2)", "i / ((i + 1) * 2)"),
        ("j * (i // 2)", "j * (i / 2)"),
        ("j * (i % 2)", "j * (i % 2)"),
        ("i // 4 // 2", "i / 4 / 2"),
        ("i % 4 // 2", "i % 4 / 2"),
        ("i * 2 % 4", "i * 2 % 4"),
        ("i < 3 and j == 2", "i < 3 && j == 2"),
        ("(i < 3) == 1", "(i < 3) == 1"),
        ("0 - i", "0 - i"),
        ("i * -1", "i * (-1)"),
        ("-2 and i", "(-2) && i"),
    ],
)
def test_text(text, c):
    assert c_expression(parse_expr(text), SCOPE) == c


def test_a_symbol_without_value():
    with pytest.raises(ProgramError) as caught:
        c_expression(parse_expr("i + tile"), SCOPE)
    assert str(caught.value) == (
        "symbol 'tile' has no value where code is generated; "
        "instantiate the program's parameters first"
    )


@given(st.text(max_size=60) | st.from_regex(r"_*(tw|spm|block|int|3)_?[a-z0-9]*", fullmatch=True))
def test_identifiers_are_words_of_c(name):
    word = identifier(name)
    assert word.isascii()
    assert word.isidentifier()
    assert not word.startswith(("tw_", "spm_", "_"))


_WORDS = st.text("ax_2", min_size=1, max_size=4)


@given(st.lists(st.text(max_size=8) | _WORDS, unique=True, max_size=20), st.frozensets(_WORDS))
def test_names_never_share_an_identifier(names, reserved):
    table = Names(reserved)
    given_out = [table.of("tensor", n) for n in names] + [table.of("buffer", n) for n in names]
    assert len(set(given_out)) == len(given_out)
    assert reserved.isdisjoint(given_out)
    assert given_out[: len(names)] == [table.of("tensor", n) for n in names]


def test_words_that_are_taken_elsewhere_get_an_underscore():
    assert identifier("while") == identifier("while", frozenset({"x"})) == "while_"
    assert [identifier(word, frozenset({"x"})) for word in ("x", "y")] == ["x_", "y"]


def test_companions_of_a_name_are_kept_free():
    table = Names()
    assert table.of("buffer", "x", ("", "_reply")) == "x"
    assert table.of("tensor", "x_reply") == "x_reply_2"
    assert table.of("tensor", "x") == "x_2"


@given(st.text())
def test_a_comment_cannot_be_left(text):
    plain = comment_text(text)
    assert "*/" not in plain
    assert "/*" not in plain
    assert "\n" not in plain


def test_long_calls_and_comments_are_broken():
    writer = CWriter()
    with writer.block("void f(void)"):
        writer.comment("word " * 25)
        writer.call("g", ["argument_number_1"] * 7)
    assert all(len(line) <= 100 for line in writer.text().splitlines())
    assert writer.text().count("\n") == 6


def test_a_call_that_fills_a_line_is_not_broken():
    for size, lines in ((91, 1), (92, 2)):
        writer = CWriter()
        writer.call("g", ["abc", "x" * size])
        first, *others = writer.text().splitlines()
        assert (len(others) + 1, len(first)) == (lines, 100 if lines == 1 else 6)
