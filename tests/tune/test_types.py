"""A machine refuses element types that it does not compute with, before it searches."""

import pytest

from tilewright.common.errors import CapacityError
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.tune.ways import ways


def test_refused_before_the_search():
    with pytest.raises(CapacityError) as refusal:
        ways([gemm(8, 8, 8, dtype="i16:i32")], load_machine("sw26010"))
    assert str(refusal.value) == (
        "machine 'sw26010' computes f64 and f32; gemm m8 n8 k8 has sums of i32; "
        "--dtype f64, or a machine that computes i32"
    )
