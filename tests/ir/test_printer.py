"""The text form: what each statement looks like, and that every program reads back equal."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from support.ir_strategies import EXPLICIT, programs
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Var, binary, ceil_div
from tilewright.ir.nodes import (
    Barrier,
    Buffer,
    Call,
    For,
    If,
    Program,
    Stmt,
    Tensor,
    Tile,
    Transfer,
    View,
    Wait,
    at,
)
from tilewright.ir.parser import parse
from tilewright.ir.primitives import Copy, Fill, MatrixProduct, ScaleAdd
from tilewright.ir.printer import print_head, print_operand, print_program, print_statement
from tilewright.ir.verify import verify

RO, N, SLOT = Var("ro"), Var("n"), Var("ro") % 2
DECISION = Path(__file__).parents[2] / "docs/decisions/0001-ir-text-is-python-syntax.md"


def test_a_whole_program() -> None:
    program = parse(EXPLICIT)
    assert print_program(program) == EXPLICIT.replace("            pass\n", "")
    assert parse(print_program(program)) == program


def test_a_program_of_nothing_passes_however_long_its_head() -> None:
    assert print_program(Program("p", (), (), (), ())) == "def p():\n    pass\n"
    names = tuple(f"a_long_parameter_{number}" for number in range(9))
    long = Program("p", names, (), (), ())
    assert print_program(long).endswith(",\n):\n    pass\n")
    assert parse(print_program(long)) == long


@given(programs())
def test_every_program_reads_back_equal(program: Program) -> None:
    text = print_program(program)
    assert parse(text) == program
    assert print_program(parse(text)) == text


@pytest.mark.parametrize(
    ("stmt", "text"),
    [
        (Barrier(), "barrier()"),
        (Wait("b", SLOT), "wait(b[ro % 2])"),
        (Transfer("get", "x", (), "b", Const(0)), "get(x[()], b[0])"),
        (Transfer("get", "x", (), "b", Const(0), Const(8)), "get(x[()], b[0], first=8)"),
        (Transfer("get", "x", (at(RO, 1),), "b", Const(0)), "get(x[ro], b[0])"),
        (Transfer("put", "x", (at(0, N, 2),), "b", Const(1)), "put(b[1], x[at(0, n, 2)])"),
        (Transfer("put", "x", (at(3, 1, 2),), "b", Const(1)), "put(b[1], x[at(3, 1, 2)])"),
        (Call(Copy(), ()), "copy()"),
        (Call(ScaleAdd(1e-30, -3.0), ()), "scale_add(alpha=1e-30, beta=-3.0)"),
        (Call(Fill(-math.inf), ()), 'fill(value=float("-inf"))'),
        (Call(MatrixProduct(dtype='a"\\\n\u00e9'), ()), 'gemm(dtype="a\\"\\\\\\n\\xe9")'),
        (For("i", N, ()), "for i in range(n):\n    pass"),
        (If(RO, (), (Barrier(),)), "if ro:\n    pass\nelse:\n    barrier()"),
        (
            If(RO, (), (If(N, (), ()),)),
            "if ro:\n    pass\nelif n:\n    pass",
        ),
        (
            If(RO, (), (If(N, (), ()), Barrier())),
            "if ro:\n    pass\nelse:\n    if n:\n        pass\n    barrier()",
        ),
    ],
)
def test_statements(stmt: Stmt, text: str) -> None:
    assert print_statement(stmt) == text
    indented = text.replace("\n", "\n    ")
    assert parse(f"def p():\n    {indented}").body == (stmt,)


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        (Tile("x", (at(RO, 1), at(0, 8)), ".n"), 'x[ro, at(0, 8)](".n")'),
        (Tile("x", (), ""), 'x[()]("")'),
        (View("b", SLOT, (), (), ""), 'b[ro % 2](shape=(), roles="")'),
        (View("b", SLOT, (N,), (at(0, N),), "k"), 'b[ro % 2](shape=(n,), roles="k")'),
        (View("b", RO, (N,), (at(1, N),), "k"), 'b[ro](at(1, n), shape=(n,), roles="k")'),
        (View("b", RO, (Const(1),), (at(0, 1),), "."), 'b[ro](shape=(1,), roles=".")'),
        (View("b", RO, (N,), (at(0, 1),), "."), 'b[ro](0, shape=(n,), roles=".")'),
    ],
)
def test_operands(operand: Tile | View, text: str) -> None:
    assert print_operand(operand) == text
    assert parse(f"def p():\n    copy({text})").body == (Call(Copy(), (operand,)),)


def test_heads_leave_the_body_out() -> None:
    body = (Barrier(),)
    assert print_head(For("ro", N, body)) == "for ro in range(n)"
    assert print_head(If(binary("<", RO, N), body)) == "if ro < n"


def test_long_lines_are_broken_at_every_level() -> None:
    start = ceil_div(Var("extent_of_the_first_dimension"), Var("tile_of_the_first_dimension"))
    region = (at(start, 8), at(0, 8))
    stmt = Transfer("get", "weights_of_the_first_layer", region, "weights_tile", Const(0))
    text = """\
get(
    weights_of_the_first_layer[
        at(ceil_div(extent_of_the_first_dimension, tile_of_the_first_dimension), 8),
        at(0, 8),
    ],
    weights_tile[0],
)"""
    assert print_statement(stmt) == text
    assert parse(f"def p():\n    {text}").body == (stmt,)


def test_a_long_shape_of_one_dimension_stays_a_tuple() -> None:
    extent = Var("extent_of_the_first_dimension") * Var("tile_of_the_first_dimension")
    view = View("weights_tile", Const(0), (extent + 1,), (at(1, extent),), "k")
    stmt = Call(Copy(), (view, view))
    assert parse(f"def p():\n    {print_statement(stmt)}").body == (stmt,)


def test_the_example_of_the_decision_is_a_program() -> None:
    found = re.search(r"```\n(def .*?)```", DECISION.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    assert print_program(parse(found[1])) == found[1]
    verify(parse(found[1]), "staged")


EMPTY = Program("p", (), (), (), ())
X = Tensor("x", "f64", "input", ("n",), (N,))
ADVICE = "use ASCII letters, digits and underscores, no leading digit and no Python keyword"


@pytest.mark.parametrize(
    ("program", "what", "name"),
    [
        (replace(EMPTY, name="a b"), "program", "a b"),
        (replace(EMPTY, parameters=("for",)), "parameter", "for"),
        (replace(EMPTY, tensors=(replace(X, name="x;"),)), "tensor", "x;"),
        (replace(EMPTY, tensors=(replace(X, storage="../x"),)), "tensor", "../x"),
        (replace(EMPTY, tensors=(replace(X, dims=("é",)),)), "dimension", "é"),
        (replace(EMPTY, tensors=(replace(X, shape=(Var("n)"),)),)), "symbol", "n)"),
        (replace(EMPTY, buffers=(Buffer("1b", "f64", N),)), "buffer", "1b"),
        (replace(EMPTY, body=(For("", N, ()),)), "loop variable", ""),
        (replace(EMPTY, body=(Wait("b\n", N),)), "buffer", "b\n"),
    ],
)
def test_names_that_are_none(program: Program, what: str, name: str) -> None:
    with pytest.raises(ProgramError) as caught:
        print_program(program)
    assert str(caught.value) == f"{what} {name!r} is not an identifier; {ADVICE}"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            replace(EMPTY, tensors=(replace(X, dims=()),)),
            "tensor 'x' has 0 dimension names and 1 extents; "
            "give each dimension one name and one extent",
        ),
    ],
)
def test_what_has_no_text(program: Program, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        print_program(program)
    assert str(caught.value) == message
