"""Comparing with the reference: exact, within what rounding allows, or wrong, and where."""

import re
from dataclasses import replace

import numpy as np
import pytest

from support.compiled import kernel_of
from tilewright.common.errors import CheckFailed, ToolError
from tilewright.compiler import checking
from tilewright.compiler.checking import judge, random_operands, relative_error
from tilewright.compiler.kernel import Kernel
from tilewright.machine import load_machine
from tilewright.ops import conv2d, gemm
from tilewright.targets.sw26010.code import Sw26010Code

OP = gemm(4, 3, 5)


@pytest.fixture
def operands():
    return random_operands(OP, "floats", 1)


def test_equal_results_are_exact(operands):
    assert judge(OP, operands, OP.reference(*operands), "gemm") == "exact"


def test_rounding_is_within_the_bound(operands):
    found = OP.reference(*operands)
    found[1, 2] = np.nextafter(found[1, 2], np.inf)
    assert judge(OP, operands, found, "gemm") == "within bound"


def test_the_worst_element_is_named():
    ones = tuple(np.ones(shape) for shape in OP.input_shapes)
    found = OP.reference(*ones)
    found[1, 2], found[3, 0] = 5.5, 5.25
    with pytest.raises(CheckFailed) as caught:
        judge(OP, ones, found, "gemm")
    assert str(caught.value) == (
        "gemm of gemm m4 n3 k5: element [1, 2] is 5.5, the reference is 5, more than 4.44e-14 "
        "apart; 2 of 12 elements are wrong"
    )
    assert caught.value.exit_code == 3


def test_what_was_never_written_is_wrong(operands):
    found = OP.reference(*operands)
    found[0, 0] = np.nan
    with pytest.raises(CheckFailed, match=r"^gemm of gemm m4 n3 k5: element \[0, 0\] is nan, "):
        judge(OP, operands, found, "gemm")


@pytest.mark.parametrize(
    ("odd", "wrong"), [(np.nan, np.inf), (np.inf, -np.inf), (np.inf, 1.0), (np.nan, 1.0)]
)
def test_what_is_no_finite_number_equals_itself_alone(operands, odd, wrong):
    """An element of the first row is odd, so that all results of this row are."""
    a, b = operands[0].copy(), np.abs(operands[1])
    a[0, 0] = odd
    found = OP.reference(a, b)
    assert not np.isfinite(found[0]).any()
    assert judge(OP, (a, b), found, "gemm") == "exact"
    found[1, 2] = np.nextafter(found[1, 2], np.inf)
    assert judge(OP, (a, b), found, "gemm") == "within bound"
    assert 0 < relative_error(OP, (a, b), found) < 1e-14
    found[0, 1] = wrong
    with pytest.raises(CheckFailed, match=r"element \[0, 1\] is .*; 1 of 12 elements are wrong$"):
        judge(OP, (a, b), found, "gemm")
    assert relative_error(OP, (a, b), found) == np.inf


def test_negative_factors_do_not_shrink_the_bound():
    op = gemm(2, 2, 8, alpha=-1.0, beta=1.0)
    operands = random_operands(op, "floats", 2)
    found = op.reference(*operands)
    found[0, 0] = np.nextafter(found[0, 0], -np.inf)
    assert judge(op, operands, found, "gemm") == "within bound"


def test_data_are_reproducible_and_of_the_operators_element_type():
    first, again = (random_operands(gemm(3, 3, 3, dtype="f32"), "integers", 7) for _ in range(2))
    assert all(np.array_equal(x, y) for x, y in zip(first, again, strict=True))
    assert {x.dtype for x in first} == {np.dtype(np.float32)}
    assert all(np.array_equal(x, np.round(x)) and np.abs(x).max() <= 2 for x in first)


def test_operands_of_integers_take_every_value_of_their_type():
    for x in random_operands(gemm(60, 60, 60, dtype="i8:i32"), "integers", 1):
        assert (x.dtype, np.unique(x).tolist()) == (np.int8, [*range(-128, 128)])


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return kernel_of(gemm(64, 64, 64), "sw26010_cg")


def test_wrong_code_is_found_out(kernel):
    """Code that is emitted for a product of other factors computes another result."""
    other = kernel_of(gemm(64, 64, 64, alpha=2.0), "sw26010_cg")
    forged = replace(kernel, artifact=other.artifact, program=other.program)
    with pytest.raises(CheckFailed, match=r"^gemm of gemm m64 n64 k64: element \[.*\] is "):
        forged.check()


def test_a_family_whose_code_cannot_run_here_says_so(kernel, monkeypatch):
    monkeypatch.setattr(Sw26010Code, "run", property())
    with pytest.raises(ToolError) as caught:
        kernel.check()
    assert str(caught.value) == (
        "machine 'sw26010_cg' has no way to run its code on this computer; take another machine: "
        "cambricon-acc, cns1-1024, cns1-1024-18mb, cns1-128, cns1-128-18mb, dla-al, host, "
        "host_avx2, host_portable, host_zen5"
    )


def test_the_code_of_another_mesh_is_complete_and_checked():
    other = load_machine("sw26010_cg", {"mesh.rows": "3", "mesh.columns": "3"})
    kernel = kernel_of(gemm(60, 40, 20), other)
    assert "gemm_gemm.S" in kernel.artifact.files
    assert kernel.check() == "exact"


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 1, 3, 0), (1, 2, 3, 0), (2, 3, 0, 1)])
def test_a_wrong_element_is_found_in_any_order_of_storage(order, monkeypatch):
    monkeypatch.setattr("tilewright.compiler.checking._ELEMENTS_AT_A_TIME", 40)
    op = conv2d(batch=3, in_channels=4, out_channels=5, height=6, width=7, kernel=3, stride=2)
    operands = random_operands(op, "integers", 1)
    back = np.argsort(order)
    result = np.ascontiguousarray(op.reference(*operands).transpose(order)).transpose(back)
    assert judge(op, operands, result, "direct") == "exact"
    for place in np.ndindex(result.shape):
        result[place] += 1
        with pytest.raises(CheckFailed, match=f"element {re.escape(str(list(place)))} is"):
            judge(op, operands, result, "direct")
        result[place] -= 1


LARGE = (
    conv2d(batch=2, in_channels=3, out_channels=5, height=6, width=6, kernel=3, padding=1),
    conv2d(batch=4, in_channels=2, out_channels=3, height=5, width=4, kernel=2, stride=2),
    conv2d(batch=3, in_channels=4, out_channels=4, height=4, width=4, kernel=1, groups=2),
    gemm(4, 6, 5, transpose_b=True),
    gemm(7, 3, 5),
)


@pytest.mark.parametrize("op", LARGE, ids=lambda op: op.describe())
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sums_find_every_wrong_element_of_an_exact_result(op, dtype, monkeypatch):
    """One element off, and two of one sum off by as much in opposite directions."""
    monkeypatch.setattr(checking, "_MOST_COMPARED", 0)
    op = replace(op, dtype=dtype)
    operands = random_operands(op, "integers", 2)
    found = op.reference(*operands)
    assert checking._sums_agree(op, operands, found)
    axis = checking._moving(op)[0]
    for place in np.ndindex(found.shape):
        other = (*place[:axis], (place[axis] + 1) % found.shape[axis], *place[axis + 1 :])
        found[place] += 1
        assert not checking._sums_agree(op, operands, found)
        found[other] -= 1
        assert not checking._sums_agree(op, operands, found)
        found[place] -= 1
        found[other] += 1


@pytest.mark.parametrize("wrong", [0.5, np.nan, np.inf, 1e300])
def test_sums_say_nothing_of_what_is_not_exact(wrong, monkeypatch):
    monkeypatch.setattr(checking, "_MOST_COMPARED", 0)
    op = LARGE[0]
    operands = random_operands(op, "integers", 2)
    found = op.reference(*operands)
    found[1, 2, 3, 4] += wrong
    assert not checking._sums_agree(op, operands, found)
    floats = random_operands(op, "floats", 2)
    assert not checking._sums_agree(op, floats, op.reference(*floats))


def test_a_large_result_that_is_wrong_is_refused_by_its_worst_element(monkeypatch):
    monkeypatch.setattr(checking, "_MOST_COMPARED", 0)
    ones = tuple(np.ones(shape) for shape in OP.input_shapes)
    found = OP.reference(*ones)
    assert checking._sums_agree(OP, ones, found)  # each as large as its terms allow
    assert judge(OP, ones, found, "gemm") == "exact"
    found[1, 2] = 6
    with pytest.raises(CheckFailed, match=r"^gemm of gemm m4 n3 k5: element \[1, 2\] is 6, the"):
        judge(OP, ones, found, "gemm")


def test_sums_of_integers_are_compared_element_by_element(monkeypatch):
    """They wrap, so that sums of sums say nothing of them."""
    monkeypatch.setattr(checking, "_MOST_COMPARED", 0)
    op = gemm(4, 3, 5, dtype="i16:i32")
    operands = random_operands(op, "integers", 2)
    assert not checking._sums_agree(op, operands, op.reference(*operands))
    assert judge(op, operands, op.reference(*operands), "gemm") == "exact"


@pytest.mark.parametrize("op", [gemm(1, 1, 1), gemm(2, 1, 1), gemm(1, 1, 3)])
def test_each_term_may_be_rounded_eight_times(op):
    ones = tuple(np.ones(shape) for shape in op.input_shapes)
    terms = op.input_shapes[0][1]
    bound = 8 * terms * np.finfo("f8").eps * terms
    found = op.reference(*ones)
    found[0, 0] = terms + bound
    assert judge(op, ones, found, "gemm") == "within bound"
    found[0, 0] = terms + 1.5 * bound
    with pytest.raises(CheckFailed, match=r"element \[0, 0\] is "):
        judge(op, ones, found, "gemm")


def test_integers_leave_no_room_however_long_their_sums_are():
    op = gemm(2, 2, 3000, dtype="i8:i32")
    ones = (np.ones((2, 3000), "i1"), np.ones((3000, 2), "i1"))
    found = op.reference(*ones)
    assert judge(op, ones, found, "gemm") == "exact"
    found[1, 0] += 1
    with pytest.raises(CheckFailed, match=r"element \[1, 0\] is 3001, the reference is 3000"):
        judge(op, ones, found, "gemm")
