"""When a slot may be touched while a transfer on it is outstanding, by interpreter and simulator.

A get writes its slot until the wait: nothing else may touch it. A put reads its slot until the
wait: others may read it too, and none may write it.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.meshes import small_mesh
from tilewright.common.errors import ProgramError, SimulationError
from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse
from tilewright.simulate.kernel.level import simulate

MACHINE = small_mesh("sw26010_cg", 1, 2)
HEAD = """\
def p():
    x: tensor("f64", "input", n=8)
    y: tensor("f64", "output", n=8)
    a: buffer("f64", 8, copies=2, offset_bytes=0)
    b: buffer("f64", 8, offset_bytes=1024)
"""
SLOTS = ("a[0]", "a[1]", "b[0]")
STATEMENTS = {
    "get": "get(x[at(cid * 4, 4)], {0})",
    "put": "put({0}, y[at(cid * 4, 4)])",
    "wait": "wait({0})",
    "fill": 'fill({0}(shape=(4,), roles="e"), value=1.0)',
    "copy": 'copy({0}(shape=(4,), roles="e"), {1}(shape=(4,), roles="e"))',
}


def program(statements: list[str]) -> str:
    return HEAD + "".join(f"    {line}\n" for line in statements)


def refusals(statements: list[str]) -> tuple[str, str]:
    """Messages of interpreter and simulator, empty where they run the program."""
    text = program(statements)
    said = []
    for run in (
        lambda: interpret(parse(text), {"x": np.ones(8)}, (1, 2)),
        lambda: simulate(parse(text), MACHINE),
    ):
        try:
            run()
            said.append("")
        except (ProgramError, SimulationError) as error:
            said.append(error.message)
    return said[0], said[1]


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["fill a[0]", "put a[0]", "copy b[0] a[0]", "wait a[0]"], ""),
        (["fill a[0]", "put a[0]", "put a[0]", "wait a[0]"], ""),
        (["get a[0]", "copy b[0] a[1]", "wait a[0]"], ""),
        (
            ["fill a[0]", "put a[0]", "fill a[0]", "wait a[0]"],
            "fill writes a[0] while a put on it is outstanding",
        ),
        (
            ["get a[0]", "copy b[0] a[0]", "wait a[0]"],
            "copy reads a[0] while a get on it is outstanding",
        ),
        (
            ["get a[0]", "get a[0]", "wait a[0]"],
            "a get writes a[0] while a get on it is outstanding",
        ),
        (
            ["get a[0]", "put a[0]", "wait a[0]"],
            "a put reads a[0] while a get on it is outstanding",
        ),
        (["get a[0]"], "a transfer on a[0] is never waited for"),
    ],
)
def test_what_a_slot_allows(statements: list[str], message: str) -> None:
    lines = [STATEMENTS[w[0]].format(*w[1:]) for w in map(str.split, statements)]
    interpreted, simulated = refusals(lines)
    assert interpreted == message
    assert bool(simulated) == bool(message)


lines = st.one_of(
    *(
        st.builds(text.format, st.sampled_from(SLOTS), st.sampled_from(SLOTS))
        for text in STATEMENTS.values()
    )
)


@examples(300)
@given(st.lists(lines, max_size=7))
def test_interpreter_and_simulator_refuse_the_same_programs(statements: list[str]) -> None:
    statements = [*statements, *(f"wait({slot})" for slot in SLOTS)]
    interpreted, simulated = refusals(statements)
    assert bool(interpreted) == bool(simulated), (interpreted, simulated)


@examples(300)
@given(st.lists(lines, max_size=7))
def test_what_runs_gives_the_same_numbers(statements: list[str]) -> None:
    statements = [*statements, *(f"wait({slot})" for slot in SLOTS)]
    if any(refusals(statements)):
        return
    text, inputs = program(statements), {"x": np.arange(8.0)}
    run = simulate(parse(text), MACHINE, inputs)
    assert run.outputs is not None
    expected = interpret(parse(text), inputs, (1, 2))["y"]
    np.testing.assert_array_equal(run.outputs["y"], expected)
