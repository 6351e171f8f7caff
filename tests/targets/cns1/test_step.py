"""A step of training on one node: its kernels come from operators, and every bit agrees."""

import numpy as np
import pytest

from support.compiled import kernel_of
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.ops.lookup import lookup
from tilewright.ops.mapping import mapping
from tilewright.targets.cns1.code import CODE
from tilewright.targets.cns1.kernels import reference


def _errors_of_a_step(rising, factor, subtracted):
    """By how much the entropy error changes when B alone and when A alone takes a small step, with
    real numbers and `h * (h - 1)` of the report's step 7.
    """
    random = np.random.default_rng(7)
    first, second = random.normal(size=(5, 6)), random.normal(size=(6, 4))
    given, wanted = random.random(5), random.random(4)

    def sigmoid(sums):
        return 1 / (1 + np.exp(-sums if rising else sums))

    def error(one, two):
        found = sigmoid(sigmoid(given @ one) @ two)
        return -(wanted * np.log(found) + (1 - wanted) * np.log(1 - found)).sum()

    hidden = sigmoid(given @ first)
    outputs = factor * (wanted - sigmoid(hidden @ second))
    back = hidden * (hidden - 1) * (second @ outputs)
    sign = -1 if subtracted else 1
    usual = error(first, second)
    changed = (
        error(first, second + sign * np.outer(hidden, outputs)),
        error(first + sign * np.outer(given, back), second),
    )
    return ["down" if new < usual else "up" for new in changed]


@pytest.mark.parametrize(
    ("rising", "factor", "subtracted", "matrices"),
    [
        (False, -0.01, False, ["down", "down"]),  # listings, sigmoid as printed
        (False, 0.01, True, ["down", "down"]),  # pseudocode, sigmoid as printed
        (True, 0.01, False, ["down", "up"]),
        (True, -0.01, False, ["up", "down"]),
    ],
)
def test_the_signs_of_training_fit_the_falling_sigmoid_alone(rising, factor, subtracted, matrices):
    assert _errors_of_a_step(rising, factor, subtracted) == matrices


MACHINE = load_machine("cns1-128")
INPUTS, HIDDEN, OUTPUTS, SHIFT, FACTOR = 64, 128, 64, 12, 3


def _computed(op, **operands):
    """The result of an operator's code on the simulated node."""
    kernel = kernel_of(op, MACHINE)
    (result,) = CODE.run(kernel.artifact, MACHINE, operands).values()
    return result


def _forward(weights, vector, table):
    """The product, then the sigmoid function of its sums."""
    rows, columns = weights.shape
    op = gemm(1, columns, rows, dtype="i8,i16:i32")
    sums = _computed(op, a=vector[None], b=weights)[0]
    return _computed(lookup(columns, shift=SHIFT), x=sums, table=table)


def _updated(weights, error, data):
    rows, columns = weights.shape
    op = gemm(rows, columns, 1, beta=1, dtype="i8,i16:i16")
    return _computed(op, a=data[:, None], b=error[None], c=weights)


def test_a_step_of_training_from_operators_is_the_fixed_point_reference():
    random = np.random.default_rng(16)
    first, second = (
        random.integers(-(1 << 15), 1 << 15, shape).astype("<i2")
        for shape in ((INPUTS, HIDDEN), (HIDDEN, OUTPUTS))
    )
    pattern, target = (random.integers(-128, 128, n).astype("i1") for n in (INPUTS, OUTPUTS))
    table = random.integers(-128, 128, 1 << 15).astype("i1")

    hidden = _forward(first, pattern, table)
    found = _forward(second, hidden, table)
    assert (hidden == reference.forward(first, pattern[None], table, SHIFT)[0]).all()
    assert (found == reference.forward(second, hidden[None], table, SHIFT)[0]).all()

    scaled = mapping(OUTPUTS, f"{FACTOR} * (x0 - x1)", dtype="i8:i32:i16:even:wrap")
    error = _computed(scaled, x0=target, x1=found)
    assert (error == reference.errors(target, found, FACTOR)).all()

    op = gemm(1, HIDDEN, OUTPUTS, transpose_b=True, dtype="i16:i32")
    sums = _computed(op, a=error[None], b=second)[0]
    scaled = mapping(HIDDEN, "x0 * x1 * (x1 - 1)", dtype="i32,i8:i32:i16:even:wrap")
    back = _computed(scaled, x0=sums, x1=hidden)
    assert (back == reference.backward(second, error, hidden)).all()

    assert (_updated(second, error, hidden) == reference.update(second, error, hidden)).all()
    assert (_updated(first, back, pattern) == reference.update(first, back, pattern)).all()
