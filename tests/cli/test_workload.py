"""What options say of an operator: extents of one or several numbers, and element types."""

import pytest

from tilewright.cli.options import OperatorOptions
from tilewright.cli.output import UsageProblem
from tilewright.cli.workload import read_workload
from tilewright.ops import conv2d, gemm

IMAGES = {"in_channels": 4, "out_channels": 4, "height": 12, "width": 12}
PRODUCT = OperatorOptions(m=2, n=3, k=4)


def operator(kind, options, *known):
    ((_, op),) = read_workload(kind, options, *known).layers
    return op


@pytest.mark.parametrize("option", ["kernel", "stride", "dilation", "padding"])
@pytest.mark.parametrize("count", range(1, 6))
def test_an_extent_is_one_number_or_one_for_each_side(option, count):
    numbers = tuple(range(1, count + 1))
    options = OperatorOptions(**{**IMAGES, "kernel": "3", option: ",".join(map(str, numbers))})
    if count in (1, 2, 4 if option == "padding" else 2):
        extent = numbers if count > 1 else 1
        expected = conv2d(**{**IMAGES, "batch": 1, "kernel": 3, option: extent})
        assert operator("conv2d", options) == expected
    else:
        with pytest.raises(UsageProblem, match=f"^--{option} takes 1 or 2 "):
            operator("conv2d", options)


@pytest.mark.parametrize(
    ("known", "expected"), [("f32", "f64"), ("i16:i32", "i16:i32"), ("q8.8:q16.16", "q8.8:q16.16")]
)
def test_of_a_machine_s_types_an_operator_takes_those_that_are_several(known, expected):
    assert operator("gemm", PRODUCT, known) == gemm(2, 3, 4, dtype=expected)
    own = OperatorOptions(m=2, n=3, k=4, dtype="f32")
    assert operator("gemm", own, known) == gemm(2, 3, 4, dtype="f32")
