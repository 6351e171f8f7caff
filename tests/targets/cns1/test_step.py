"""A step of training on one node: its kernels come from operators, and every bit agrees."""

import numpy as np

from tilewright import compile
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.ops.lookup import lookup
from tilewright.ops.mapping import mapping
from tilewright.targets.cns1.code import CODE
from tilewright.targets.cns1.kernels import reference

MACHINE = load_machine("cns1-128")
INPUTS, HIDDEN, OUTPUTS, SHIFT, FACTOR = 64, 128, 64, 12, 3


def _computed(op, **operands):
    """The result of an operator's code on the simulated node."""
    kernel = compile(op, MACHINE)
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
