"""The passes together: what an observer sees, and how two nests become one program."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from support.meshes import small_mesh
from tilewright.common.expr import Const
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Call, For, Program, Transfer
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.passes.base import run
from tilewright.passes.double_buffer import _fetches_behind
from tilewright.passes.lowering import staging
from tilewright.passes.pipeline import join, make_explicit

MACHINE = small_mesh("sw26010", 2, 2)

COPY = """\
def {name}(rows, row_tile):
    {target}: tensor("f64", "{target_kind}", rows=rows, cols=4)
    {source}: tensor("f64", "{source_kind}", rows=rows, cols=4)
    for row in range(ceil_div(rows, row_tile)):
        copy(
            {target}[at(row * row_tile + rid * (row_tile // 2), row_tile // 2), {cols}]({roles}),
            {source}[at(row * row_tile + rid * (row_tile // 2), row_tile // 2), {cols}]({roles}),
        )
"""

TO_SCRATCH = COPY.format(
    name="load",
    target="t",
    target_kind="scratch",
    source="x",
    source_kind="input",
    roles='"pq"',
    cols="at(cid * 2, 2)",
)
TO_RESULT = COPY.format(
    name="save",
    target="y",
    target_kind="output",
    source="t",
    source_kind="scratch",
    roles='"pq"',
    cols="at(cid * 2, 2)",
)

FINISHED = """\
def twice():
    t: tensor("f64", "scratch", rows=8, cols=4)
    x: tensor("f64", "input", rows=8, cols=4)
    y: tensor("f64", "output", rows=8, cols=4)
    load_t_tile: buffer("f64", 8, offset_bytes=0)
    load_x_tile: buffer("f64", 8, copies=2, offset_bytes=64)
    save_y_tile: buffer("f64", 8, offset_bytes=0)
    save_t_tile: buffer("f64", 8, offset_bytes=64)
    get(x[at(rid * 2, 2), at(cid * 2, 2)], load_x_tile[0])
    for row in range(2):
        wait(load_t_tile[0])
        wait(load_x_tile[row % 2])
        if row + 1 < 2:
            get(x[at((row + 1) * 4 + rid * 2, 2), at(cid * 2, 2)], load_x_tile[(row + 1) % 2])
        copy(
            load_t_tile[0](shape=(2, 2), roles="pq"),
            load_x_tile[row % 2](shape=(2, 2), roles="pq"),
        )
        put(load_t_tile[0], t[at(row * 4 + rid * 2, 2), at(cid * 2, 2)])
    wait(load_t_tile[0])
    barrier()
    get(t[at(rid * 4, 4), at(cid * 2, 2)], save_t_tile[0])
    wait(save_t_tile[0])
    copy(save_y_tile[0](shape=(4, 2), roles="pq"), save_t_tile[0](shape=(4, 2), roles="pq"))
    put(save_y_tile[0], y[at(rid * 4, 4), at(cid * 2, 2)])
    wait(save_y_tile[0])
"""


def finished(seen: list[tuple[str, Program]]) -> Program:
    def observe(name: str, program: Program) -> None:
        seen.append((name, program))

    parts = [run(staging({}), parse(text), observe) for text in (TO_SCRATCH, TO_RESULT)]
    bindings = [
        {"rows": 8, "row_tile": 4, "t_copies": 1, "x_copies": 2},
        {"rows": 8, "row_tile": 8, "t_copies": 1, "y_copies": 1},
    ]
    return make_explicit("twice", parts, bindings, MACHINE, (), observe)


def test_two_nests_become_one_program() -> None:
    """Buffers carry their nest's name, a barrier parts the nests, the parts share addresses."""
    assert print_program(finished([])) == FINISHED


def test_the_program_runs_both_nests() -> None:
    x = np.arange(32.0).reshape(8, 4)
    np.testing.assert_array_equal(interpret(parse(FINISHED), {"x": x}, (2, 2))["y"], x)


def test_the_observer_sees_every_pass_in_order() -> None:
    seen: list[tuple[str, Program]] = []
    program = finished(seen)
    staged, per_nest = ["infer_dma", "handle_boundary"], ["simplify", "double_buffer", "simplify"]
    assert [name for name, _ in seen] == [
        *staged * 2,
        *per_nest * 2,
        "divide_threads",
        "allocate_buffers",
    ]
    assert seen[-1][1] == program
    assert seen[0][1].parameters == ("row_tile", "rows", "t_copies", "x_copies")
    assert seen[4][1].parameters == ()


def test_tensors_of_other_shapes_are_declared_too() -> None:
    """The operator's own tensors, which nests know under other shapes, come with their extents."""
    whole = parse('def p(rows):\n    w: tensor("f64", "input", rows=rows)\n')
    part = run(staging({}), parse(TO_SCRATCH))
    values = {"rows": 8, "row_tile": 4, "t_copies": 1, "x_copies": 1}
    program = make_explicit("p", [part], [values], MACHINE, whole.tensors)
    assert [(t.name, str(t.shape[0])) for t in program.tensors] == [
        ("w", "8"),
        ("t", "8"),
        ("x", "8"),
    ]


TURNS = """\
def {name}():
    x: tensor("f64", "{x_kind}", blocks=3, cols=4)
    t: tensor("f64", "scratch", cols=4)
    y: tensor("f64", "{y_kind}", blocks=3, cols=4)
    for block in range(3):
        {call}
"""
MAKE = 'copy(t[at(0, 4)]("p"), x[block, at(0, 4)](".p"))'
USE = 'copy(y[block, at(0, 4)](".p"), t[at(0, 4)]("p"))'


def in_turn(together: tuple[str, ...], number: int = 3) -> Program:
    texts = (("make", MAKE), ("use", USE), ("again", USE))
    parts = [
        parse(TURNS.format(name=name, call=call, x_kind="input", y_kind="output"))
        for name, call in texts[:number]
    ]
    return join("turns", parts, (), together)


@pytest.mark.parametrize("number", [2, 3])
def test_neighbours_share_the_loops_that_run_together(number: int) -> None:
    """The next nest uses each turn's result within that turn: `t` holds one turn."""
    program = in_turn(("block",), number)
    inside = "        barrier()\n".join(f"        {call}\n" for call in (MAKE, USE, USE)[:number])
    _, loop, body = print_program(program).partition("    for block in range(3):\n")
    assert (loop, body) == ("    for block in range(3):\n", inside)
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(interpret(program, {"x": x}, (1, 1))["y"], x)


def test_other_loops_stay_apart() -> None:
    assert print_program(in_turn(())).count("for block in range(3):") == 3


def test_fetches_of_the_next_tile_are_spread_evenly_over_calls_that_let_them_come_between():
    """Of two fetches behind five calls the first is behind the first call, the other the third."""
    spread = SimpleNamespace(spreads=True)
    calls = [Call(spread, ()) for _ in range(5)]
    gets = [Transfer("get", "x", (), "x_tile", Const(0)) for _ in range(2)]
    assert _fetches_behind([*gets, *calls]) == {0: 2, 1: 4}
    assert _fetches_behind([*gets, calls[0]]) == {}
    assert _fetches_behind([*gets, *calls, For("i", Const(2), ())]) == {}
