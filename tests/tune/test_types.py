"""A machine refuses element types that it does not compute with, before it searches."""

import pytest

from tilewright.common.errors import CapacityError
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.ops.lookup import lookup
from tilewright.tune.ways import ways

REFUSED = [
    (
        gemm(8, 8, 8, dtype="i16:i32"),
        "sw26010",
        "machine 'sw26010' computes f64 and f32; gemm m8 n8 k8 has sums of i32; "
        "--dtype f64, or a machine that computes i32",
    ),
    (
        gemm(8, 8, 8),
        "cns1-128",
        "machine 'cns1-128' computes i16 and i32; gemm m8 n8 k8 has sums of f64; "
        "--dtype i16:i32, or a machine that computes f64",
    ),
    (
        lookup(256, entries=256),
        "sw26010",
        "machine 'sw26010' computes f64 and f32; lookup 256 of 256, shift 0 has sums of i32; "
        "a machine that computes i32",
    ),
]


@pytest.mark.parametrize(("op", "machine", "message"), REFUSED)
def test_refused_before_the_search_with_types_that_the_operator_takes(op, machine, message):
    with pytest.raises(CapacityError) as refusal:
        ways([op], load_machine(machine))
    assert str(refusal.value) == message
