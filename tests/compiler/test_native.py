"""Compiling for this computer: measured where others are simulated, and run."""

import numpy as np
import pytest

from support.compiled import kernel_of
from tilewright.common.errors import ProgramError, ShapeError, SimulationError, ToolError
from tilewright.machine import find_machine, load_machine
from tilewright.ops import conv2d, gemm

HOST = find_machine("host")
PRODUCT = gemm(100, 70, 33, transpose_b=True, alpha=2.0, beta=3.0, dtype="f32")
CONVOLUTION = conv2d(
    batch=2, in_channels=12, out_channels=20, height=9, width=10, kernel=3, padding=1, dtype="f32"
)


def operands(op):
    generator = np.random.default_rng(3)
    return [generator.integers(-3, 4, shape).astype(np.float32) for shape in op.input_shapes]


@pytest.fixture(scope="module")
def product():
    return kernel_of(PRODUCT, HOST)


def test_code_is_measured_and_never_simulated(product):
    result = product.result
    assert (result.timed_by, result.simulated_cycles) == ("measured", None)
    assert result.measured_seconds == product.measured > 0
    assert result.milliseconds == pytest.approx(1e3 * product.measured)
    assert result.peak_fraction == pytest.approx(
        PRODUCT.flops / product.measured / HOST.peak_flops_of("f32")
    )
    assert " ms measured>" in repr(product)
    with pytest.raises(SimulationError) as caught:
        product.simulate()
    assert str(caught.value) == (
        f"machine '{HOST.name}' is this computer: it is measured, not simulated; "
        "kernel.run computes the result"
    )


def test_running_computes_the_operator(product):
    a, b, c = operands(PRODUCT)
    found = product.run(a=a, b=b, addend=c)
    np.testing.assert_array_equal(found["c"], PRODUCT.reference(a, b, c))
    assert product.check() == "exact"
    assert product.check(data="floats") in ("exact", "within bound")


@pytest.mark.parametrize("algorithm", ["implicit", "explicit", "winograd2", "winograd4"])
def test_each_algorithm_computes_the_convolution(algorithm):
    kernel = kernel_of(CONVOLUTION, HOST, algorithm=algorithm, measure=False)
    x, w = operands(CONVOLUTION)
    found = kernel.run(x=x, w=w)["y"]
    np.testing.assert_allclose(found, CONVOLUTION.reference(x, w), rtol=0, atol=1e-3)


def test_tiles_of_one_whole_column_of_several_images_are_multiplied_in_runs():
    op = conv2d(
        batch=2, in_channels=3, out_channels=3, height=5, width=5, kernel=3, padding=1, dtype="f32"
    )
    kernel = kernel_of(op, HOST, algorithm="winograd4", measure=False, check="each layer")
    assert kernel.checked == "within bound"


def test_operands_are_checked(product):
    a, b, c = operands(PRODUCT)
    with pytest.raises(ShapeError) as caught:
        product.run(a=a, b=b.T, addend=c)
    assert str(caught.value) == "operand 'b' has shape (33, 70), expected (70, 33)"


def test_without_measuring_the_time_is_the_models(product):
    kernel = kernel_of(PRODUCT, HOST, measure=False)
    assert (kernel.result.timed_by, kernel.result.measured_seconds) == ("model", None)
    assert kernel.cycles == kernel.estimate_cycles
    assert "by the model" in kernel.explain()


def test_causes_are_the_models_and_sum_to_its_estimate(product):
    found = product.explanation()
    assert sum(cause.cycles for cause in found.causes) == pytest.approx(
        product.estimate_cycles, rel=1e-3
    )
    assert {cause.kind for cause in found.causes} <= {
        "compute useful", "compute overhead", "primitive", "copy", "caches",
    }  # fmt: skip
    assert found.changes == ()
    text = product.explain()
    assert " us measured, " in text or " ms measured, " in text
    assert "time by cause (model)" in text
    assert "simulated" not in text


def test_measuring_puts_the_fastest_first():
    kernel = kernel_of(gemm(64, 48, 40, dtype="f32"), HOST, top=3)
    measured = [o.measured_cycles for o in kernel.choice.options[:3]]
    assert measured == sorted(measured)


def test_a_written_kernel_is_read_back(product, tmp_path):
    product.write(tmp_path / "k")
    names = {p.name for p in (tmp_path / "k").iterdir()}
    assert {"gemm.c", "gemm.h", "Makefile", "kernel.json", "program.ir"} <= names


def test_a_machine_that_is_not_this_computer_does_not_run():
    kernel = kernel_of(gemm(64, 64, 64), "sw26010_cg")
    a, b = np.ones((64, 64)), np.ones((64, 64))
    with pytest.raises(ToolError) as caught:
        kernel.run(a=a, b=b)
    assert str(caught.value) == (
        "machine 'sw26010_cg' has no code for this computer; "
        "kernel.simulate computes the result, kernel.check runs the code emulated, "
        "or take another machine: host, host_avx2, host_portable, host_zen5"
    )


def test_without_a_compiler_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolError) as caught:
        kernel_of(gemm(8, 8, 8), HOST)
    assert str(caught.value) == (
        "the host target needs a C compiler, 'no-such-compiler' is not installed; "
        "install gcc or clang, or name one in the environment variable CC"
    )


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (
            {"groups.count": "2"},
            "machine 'host' has 2 groups, this computer is one: its threads share a memory; "
            "--set groups.count=1 --threads N",
        ),
        (
            {"core.vector_lanes": "16", "primitives.gemm.lanes": "16"},
            "machine 'host' has vectors of 16 doubles; "
            "the host's instruction sets have 8, 4, 2: --set core.vector_lanes",
        ),
    ],
)
def test_machines_that_no_code_is_generated_for(numbers, message):
    with pytest.raises(ProgramError) as caught:
        kernel_of(gemm(8, 8, 8), load_machine("host", numbers))
    assert str(caught.value) == message
