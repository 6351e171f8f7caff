"""Kernels of a Torrent: proven intervals, the reference's bits, and times near the closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cns1_shapes import KINDS, Shape, agrees
from tilewright.common.errors import CapacityError
from tilewright.machine import load_machine
from tilewright.targets.cns1.kernels import run
from tilewright.targets.cns1.kernels.bodies import (
    backward_body,
    errors_body,
    forward_body,
    update_body,
)
from tilewright.targets.cns1.kernels.pipelining import port_cycles, scheduled
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
    schedule = scheduled(body, port_cycles(MACHINE))
    assert schedule.proven_minimum
    assert schedule.interval_cycles == cycles <= report
    assert bound in schedule.statement()


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
