"""Expressions over elements on a node: their numbers, their price, bounds of loops, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cns1_loops import HIDDEN_ERRORS, OUTPUT_ERRORS
from support.compiled import kernel_of
from tilewright.common.errors import CapacityError, ProgramError, ScheduleError, ShapeError
from tilewright.ir.printer import print_program
from tilewright.machine import load_machine
from tilewright.ops.mapping import mapping
from tilewright.targets.cns1.code import run_artifact
from tilewright.targets.cns1.emit import calls as emitted
from tilewright.targets.cns1.emit.calls import write_elements
from tilewright.targets.cns1.emit.writer import Writer
from tilewright.targets.cns1.kernels.elements import Elements, elements_body
from tilewright.targets.cns1.kernels.pipelining import port_cycles, scheduled_loop
from tilewright.targets.cns1.node import assembled, node_table, run_node

MACHINE = load_machine("cns1-128")
WITHOUT = load_machine("cns1-128", {"core.vectors.scalar_registers": 0})
OUTPUTS = ("3 * (x0 - x1)", "i8:i32:i16:even:wrap")
HIDDEN = ("x0 * x1 * (x1 - 1)", "i32,i8:i32:i16:even:wrap")


def test_elements_are_used_where_they_lie():
    kernel = kernel_of(mapping(1024, OUTPUTS[0], dtype=OUTPUTS[1]), MACHINE)
    assert print_program(kernel.program) == (
        "def map():\n"
        '    y: tensor("i16", "output", d0=1024)\n'
        '    x0: tensor("i8", "input", d0=1024)\n'
        '    x1: tensor("i8", "input", d0=1024)\n'
        "    map(\n"
        '        y[at(0, 1024)]("p"),\n'
        '        x0[at(0, 1024)]("p"),\n'
        '        x1[at(0, 1024)]("p"),\n'
        '        expression="3 * (x0 - x1)",\n'
        '        dtype="i32",\n'
        "    )\n"
    )


@pytest.mark.parametrize(
    ("n", "form"),
    [
        (1024, OUTPUTS),
        (1024, HIDDEN),
        (1, OUTPUTS),  # a vector of one element
        (77, OUTPUTS),  # no whole pass
        (5001, HIDDEN),
        (40000, OUTPUTS),  # tensors in other lines of the same chips
    ],
)
def test_numbers_are_exact_and_the_price_is_that_of_the_text(n, form):
    expression, dtype = form
    kernel = kernel_of(mapping(n, expression, dtype=dtype), MACHINE)
    assert kernel.check() == "exact"
    priced, text = kernel.simulate().cycles, run_artifact(kernel.artifact, kernel.machine).cycles
    assert abs(priced - text) < max(20, 0.02 * text)


@pytest.mark.parametrize(
    ("elements", "cycles", "recurrence"), [(OUTPUT_ERRORS, 58, 56), (HIDDEN_ERRORS, 102, 90)]
)
def test_loops_have_the_least_interval(elements, cycles, recurrence):
    """A recurrence leads through the ports, which serve the accesses of a pass in their order."""
    schedule = scheduled_loop(elements_body(elements), port_cycles(MACHINE))
    assert schedule.proven_minimum
    assert schedule.interval_cycles == cycles
    assert f"recurrence {recurrence}*" in schedule.statement()


numbers = st.integers(-(1 << 31), (1 << 31) - 1).map(str)
expressions = st.recursive(
    st.sampled_from(["x0", "x1"]) | numbers,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner)
        | inner.map("(-{})".format)
    ),
    max_leaves=6,
).filter(lambda text: "x" in text)


@settings(max_examples=40)
@given(
    expressions,
    st.tuples(*[st.sampled_from([1, 2, 4])] * 3),
    st.integers(1, 127),
    st.sampled_from([MACHINE, WITHOUT]),
    st.integers(0, 1 << 30),
)
def test_any_expression_gives_the_reference_to_the_bit(expression, sizes, n, machine, seed):
    names = {1: "i8", 2: "i16", 4: "i32"}
    count = 2 if "x1" in expression else 1
    dtype = f"{','.join(names[s] for s in sizes[:count])}:i32:{names[sizes[2]]}:even:wrap"
    op = mapping(n, expression, dtype=dtype)
    random = np.random.default_rng(seed)
    operands = [
        random.integers(*kind.limits, n, kind.numpy, endpoint=True) for kind in op.numerics.operands
    ]
    elements = Elements(expression, sizes[:count], sizes[2])
    writer, room = Writer(), 1024
    writer.add("$28 = 32", "vlr = $28", "$30 = 128")
    main = np.zeros(3 * room, np.uint8)
    for tensor in range(count + 1):
        writer.constant(elements.pointers(tensor)[0], tensor * room)
    for tensor, operand in enumerate(operands):
        main[tensor * room :][: operand.nbytes] = operand.view(np.uint8)
    write_elements(writer, machine, elements, n)
    writer.add("goto $31", "nop")
    found = run_node(assembled(writer.text(), node_table(machine)), main=main)
    expected = op.reference(*operands)
    raw = found.memory("main")[count * room :][: expected.nbytes]
    assert (raw.view(expected.dtype) == expected).all()


def test_long_loops_are_not_scheduled_and_stay_exact():
    kernel = kernel_of(mapping(500, " + x0 * ".join(["x0"] * 9), dtype="i32"), MACHINE)
    assert kernel.check() == "exact"


def test_without_scalar_registers_constants_stay_in_the_scalar_unit():
    kernel = kernel_of(mapping(300, HIDDEN[0], dtype=HIDDEN[1]), WITHOUT)
    (text,) = kernel.artifact.files.values()
    assert "$vs" not in text
    assert kernel.check() == "exact"


def _tree(depth):
    """A difference of differences: each level keeps one more value waiting."""
    return "x0 * 2" if depth == 0 else f"({_tree(depth - 1)} - {_tree(depth - 1)})"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "x0 * 1 + x0 * 2 + x0 * 3 + x0 * 4 + x0 * 5 + x0 * 6 + x0 * 7 + x0 * 8",
            "an expression has more than the 7 constants that a Torrent keeps in registers; "
            "map its parts one after the other",
        ),
        (
            _tree(7),
            "an expression takes more than the 7 registers that a Torrent has for each of four "
            "vectors; map its parts one after the other",
        ),
    ],
)
def test_expressions_that_do_not_fit_the_registers_are_refused(expression, message):
    with pytest.raises(ProgramError) as caught:
        kernel_of(mapping(64, expression, dtype="i32"), MACHINE)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("expression", "dtype", "error", "message"),
    [
        (
            "x0 / 2", "i32", ShapeError,
            "map: integers have no 'x0 / 2.0'; "
            "take +, -, *, comparisons, bits, abs, min, max and whole numbers",
        ),
        (
            "2 * x0", "i8:i32:i16", ShapeError,
            "map wraps integers to their type, i8:i32:i16 saturates; --dtype i8:i32:i16:even:wrap",
        ),
        (
            "2 * x0", "i32:i16", ShapeError,
            "map computes integers in the widest of their types, found i32:i16; "
            "name the widest in the middle, as i8:i32:i16:even:wrap",
        ),
        (
            "x0 + 3000000000", "i32", ShapeError,
            "map: 3000000000 is no i32, which has -2147483648 to 2147483647",
        ),
        (
            "x0 + x1 + x2", "i32", ScheduleError,
            "none of the 1 schedules of nest 'map' is legal; the first: a Torrent maps up to 2 "
            "tensors, found 3; map its parts one after the other",
        ),
        ("1 + 2", "i32", ShapeError, "map: '1 + 2' reads no element; name x0 in it"),
        (
            "x0", "u8:i32", ScheduleError,
            "none of the 1 schedules of nest 'map' is legal; the first: a Torrent maps elements of "
            "i16, i32, i8, found i32, u8; --dtype i8:i32:i16:even:wrap, or other such types",
        ),
        (
            "x0", "f32", CapacityError,
            "machine 'cns1-128' computes i16 and i32; copy 64 has sums of f32; "
            "--dtype i16, or a machine that computes f32",
        ),
    ],
)  # fmt: skip
def test_what_no_code_does_is_refused(expression, dtype, error, message):
    with pytest.raises(error) as caught:
        kernel_of(mapping(64, expression, dtype=dtype), MACHINE)
    assert str(caught.value) == message


def test_less_than_a_pass_is_priced_without_a_loop(monkeypatch):
    """No schedule is asked for: the solver would take longer than everything else."""

    def refused(*_):
        raise AssertionError("a loop was scheduled")

    monkeypatch.setattr(emitted, "pipelined_lines", refused)
    op = mapping(7, "x0*x1*x0-x1*x0*x1", dtype="i8:i32:i16:even:wrap")
    kernel = kernel_of(op, MACHINE)
    assert kernel.check() == "exact"
    text = run_artifact(kernel.artifact, kernel.machine).cycles
    assert abs(kernel.simulate().cycles - text) < 20


@pytest.mark.parametrize(
    ("expression", "units"),
    [("3 * (x0 - x1)", 14.0), ("x0 * x1 * (x1 - 1) + x0", 3.0), ("x0*x1*x0-x1*x0*x1", 1.0)],
)
def test_the_solver_gives_up_sooner_where_it_proves_nothing(expression, units):
    assert elements_body(Elements(expression, (1, 1), 2)).effort_units == units
