"""Kernels of a Torrent: proven intervals, the reference's bits, and times near the closed form."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cns1_shapes import KINDS, Shape, agrees
from tilewright.common.errors import CapacityError, ShapeError
from tilewright.isa import load_table
from tilewright.isa.dependence import build_dependences
from tilewright.isa.modulo_solver import place_operations
from tilewright.isa.placement import Effort, Verdict
from tilewright.machine import load_machine
from tilewright.targets.cns1.emit.calls import ROUNDING
from tilewright.targets.cns1.kernels import reference, run
from tilewright.targets.cns1.kernels.bodies import (
    ERRORS,
    Body,
    backward_body,
    errors_body,
    forward_body,
    set_update_body,
    update_body,
)
from tilewright.targets.cns1.kernels.pipelining import asked_of, port_cycles, scheduled_loop
from tilewright.targets.cns1.node import TABLE
from tilewright.targets.cns1.timing.forward import Conditions, product_cycles, sigmoid_cycles

MACHINE = load_machine("cns1-128")


@pytest.mark.parametrize(
    ("body", "cycles", "report", "bound"),
    [
        (forward_body(2), 64, 64, "unit VP0 64*"),
        (forward_body(1), 56, 56, "recurrence 56*"),
        (errors_body(), 48, 53, "unit MEM 48*"),
        (backward_body(), 56, 56, "recurrence 56*"),
        (update_body(), 96, 98, "recurrence 96*"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_inner_loops_are_at_a_proven_bound(body, cycles, report, bound):
    """Four rows of 64 columns; `report` is what chapters 4 and 6 count. The recurrence is that of
    the memory ports: 4 r_h for loads, 4 (r_h + w_h) with stores.
    """
    schedule = scheduled_loop(body, port_cycles(MACHINE))
    assert schedule.proven_minimum
    assert schedule.interval_cycles == cycles <= report
    assert bound in schedule.statement()


@pytest.mark.parametrize(
    ("body", "cycles", "proof"),
    [
        (forward_body(3), 96, "unit VP0 96*"),
        (backward_body(2), 64, "unit VP0 64*"),
        (backward_body(3), 96, "unit VP0 96*"),
        (set_update_body(2, ROUNDING), 96, "recurrence 96*"),
        (set_update_body(3, ROUNDING), 96, "unit VP0 96*"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_loops_of_sets_are_at_a_proven_bound(body, cycles, proof):
    """32 cycles of the multiplier for each pattern, ports for all of them together."""
    schedule = scheduled_loop(body, port_cycles(MACHINE))
    assert schedule.proven_minimum
    assert schedule.interval_cycles == cycles
    assert proof in schedule.statement()


def errors_from_the_cache() -> Body:
    """The update of four rows of weights by three patterns whose errors are read in each pass."""
    loads = [f"$v{1 + i} = d[{ERRORS[i // 2]}+=$8].h" for i in range(6)]
    lines, stores = [], []
    for r, half in itertools.product(range(4), range(2)):
        load, save = (("$14", "$16"), ("$20", "$24"))[half]
        weight, change = f"$v{7 + 2 * r + half}", f"$v{15 + 2 * r + half}"
        loads.append(f"{weight} = m[{load}+={'$27' if r == 3 else '$9'}].h")
        for p in range(3):
            factor = f"$vs{1 + r + 4 * p}"
            lines.append(f"{change} {'+' * (p > 0)}= $v{1 + 2 * p + half} * {factor}")
        lines += [f"{change} = {change} addap0 {ROUNDING}", f"{weight} = {weight} + {change}"]
        stores.append(f"m[{save}+={'$27' if r == 3 else '$9'}].h = {weight}")
    text = "\n".join(("loop:", *loads, *lines, *stores, "if ($13 != $10) loop", ""))
    usual = set_update_body(3, ROUNDING)
    return Body("errors_from_the_cache", text, usual.ports, usual.objects, usual.effort_units)


def test_an_interval_is_refuted_by_the_operations_of_one_unit():
    asked = asked_of(errors_from_the_cache(), port_cycles(MACHINE))
    rules = load_table(TABLE).issue
    graph = build_dependences(asked.operations, rules=rules, aliases=asked.aliases)
    verdicts = [
        place_operations(graph, rules, interval, Effort(6)).verdict for interval in (96, 97)
    ]
    assert verdicts == [Verdict.INFEASIBLE] * 2


@settings(max_examples=25)
@given(
    st.builds(
        Shape,
        kind=st.sampled_from(KINDS),
        rows=st.integers(1, 150),
        columns=st.integers(1, 200),
        seed=st.integers(0, 1 << 30),
    )
)
def test_every_kernel_gives_the_reference_to_the_bit(shape):
    assert agrees(MACHINE, shape)


def test_what_does_not_divide_is_padded_and_the_shape_is_said():
    weights = np.ones((5, 65), "<i2")
    found = run.update(MACHINE, weights, np.ones(65, "<i2"), np.ones(5, np.int8))
    assert found.values.shape == (5, 65)
    assert found.padded == (8, 128)


def test_what_does_not_fit_is_refused():
    with pytest.raises(CapacityError) as caught:
        run.forward(
            MACHINE,
            np.zeros((2048, 64), "<i2"),
            np.zeros((2, 2048), np.int8),
            np.zeros(1 << 15, np.int8),
            0,
        )
    assert str(caught.value) == (
        "the arrays take 4224 bytes of memory 'cache', which has 4096; "
        "divide the matrix over more nodes"
    )


ONES = {
    "weights": np.ones((8, 64), "<i2"),
    "inputs": np.ones((1, 8), "i1"),
    "table": np.zeros(1 << 15, "i1"),
    "shift": 0,
}


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        (
            "table",
            np.zeros(1 << 14, "i1"),
            "table: expected 32768 elements, to which a Torrent clips sums, found 16384; "
            "repeat the elements at the ends",
        ),
        ("shift", -1, "shift: expected 0 to 31, found -1"),
        ("shift", 40, "shift: expected 0 to 31, found 40"),
        (
            "weights",
            np.full((8, 64), 70000),
            "weights: 70000 does not fit 16 bits, -32768 to 32767; scale or clip them first",
        ),
        (
            "weights",
            np.full((8, 64), 0.5),
            "weights: expected integers, found float64; round them first",
        ),
        ("weights", np.ones(64, "<i2"), "weights: expected rows and columns, found 64 elements"),
        (
            "inputs",
            np.ones((1, 7), "i1"),
            "inputs: expected 1 x 8 elements, found 1 x 7; give arrays whose extents go together",
        ),
        (
            "inputs",
            np.ones((3, 8), "i1"),
            "inputs: expected one or two patterns of 8, found 3 x 8 elements; "
            "pass the patterns in pairs",
        ),
    ],
)
def test_what_a_node_cannot_take_is_refused_in_words(argument, value, message):
    with pytest.raises(ShapeError) as caught:
        run.forward(MACHINE, **ONES | {argument: value})
    assert str(caught.value) == message


def test_vectors_go_together_and_factors_fit_a_register():
    few, many, weights = np.ones(63, "i1"), np.ones(64, "i1"), ONES["weights"]
    apart = "expected 64 elements, found 63; give arrays whose extents go together"
    for name, kernel, arrays in (
        ("outputs", run.errors, (many, few, 1)),
        ("error", run.backward, (weights, few, np.ones(8, "i1"))),
        ("error", run.update, (weights, few, np.ones(8, "i1"))),
    ):
        with pytest.raises(ShapeError) as caught:
            kernel(MACHINE, *arrays)
        assert str(caught.value) == f"{name}: {apart}"
    with pytest.raises(ShapeError) as caught:
        run.errors(MACHINE, many, many, 1 << 31)
    assert str(caught.value) == "factor: 2147483648 does not fit a register of 32 bits"


def test_the_reference_refuses_a_short_table_too():
    with pytest.raises(ShapeError, match="table: expected 32768 elements"):
        reference.forward(**ONES | {"table": np.zeros(1 << 14, "i1")})


@pytest.mark.parametrize("patterns", [1, 2])
def test_a_step_takes_what_the_formulas_say(patterns):
    random = np.random.default_rng(0)
    weights = random.integers(-400, 400, (1024, 256)).astype("<i2")
    inputs = random.integers(-128, 128, (patterns, 1024)).astype(np.int8)
    table = random.integers(-128, 128, 1 << 15).astype(np.int8)
    found = run.forward(MACHINE, weights, inputs, table, 6)
    product = product_cycles(MACHINE, 1024, 256, patterns)
    best, worst = (
        product + sigmoid_cycles(MACHINE, 2 * patterns, Conditions(1 << 15, worst))
        for worst in (False, True)
    )
    assert 0.98 * best < found.cycles / 4 < 1.02 * worst
    assert found.run.issue_cycles + sum(found.run.stalls.values()) == found.cycles
