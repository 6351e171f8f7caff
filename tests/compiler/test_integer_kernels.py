"""Operators of integers from the search to their bits: on this computer, and refused elsewhere."""

import numpy as np
import pytest

import tilewright as tw
from support.compiled import kernel_of
from support.native import NATIVE_SETTINGS
from tilewright.common.errors import CapacityError
from tilewright.machine import load_machine

HOST = load_machine("host", dict(NATIVE_SETTINGS))


@pytest.mark.parametrize(
    "op",
    [
        tw.ops.gemm(65, 70, 129, dtype="i16:i32"),
        tw.ops.gemm(33, 40, 50, transpose_b=True, dtype="i32:i64"),
        tw.ops.conv2d(
            batch=1, in_channels=5, out_channels=16, height=9, width=11, kernel=3, padding=1,
            dtype="q8.8:q16.16:q8.8",
        ),
        tw.ops.conv2d(
            batch=2, in_channels=16, out_channels=24, height=6, width=6, kernel=1,
            dtype="u8,i8:i32:i8:half_up",
        ),
    ],
    ids=lambda op: op.dtype,
)  # fmt: skip
def test_kernels_of_this_computer_give_the_bits_of_the_reference(op: tw.ops.Op) -> None:
    kernel = kernel_of(op, HOST, measure=False, check="each layer")
    assert kernel.checked == "exact"
    assert "-fwrapv" in kernel.artifact.build.steps[0].command
    algorithms = {option.algorithm for option in kernel.choice.options}
    assert not any(name.startswith("winograd") for name in algorithms)


def test_a_machine_without_integers_refuses_them_by_name() -> None:
    with pytest.raises(CapacityError) as refusal:
        kernel_of(tw.ops.gemm(8, 8, 8, dtype="i32:i64"), "sw26010")
    assert str(refusal.value) == (
        "machine 'sw26010' computes f64 and f32; gemm m8 n8 k8 has sums of i64; "
        "--dtype f64, or a machine that computes i64"
    )


def test_sums_of_generated_code_wrap_as_the_reference_does() -> None:
    op = tw.ops.gemm(3, 4, 5, dtype="i16:i32")
    kernel = kernel_of(op, HOST, measure=False)
    a, b = (np.full(shape, -(2**15), np.int16) for shape in op.input_shapes)
    expected = np.full((3, 4), 5 * 2**30 - 2**32)
    assert np.array_equal(op.reference(a, b), expected)
    assert np.array_equal(kernel.run(a=a, b=b)["c"], expected)
