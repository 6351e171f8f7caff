"""Errors that are expected: they follow the algorithm, its points, the channels and the type."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.common.errors import ScheduleError
from tilewright.machine import load_machine
from tilewright.ops import conv2d, gemm
from tilewright.passes.lowering import lowering_of
from tilewright.seeds.space import seeds_for
from tilewright.tune.accuracy import expected_error
from tilewright.tune.ways import ways

HOST, MESH = load_machine("host"), load_machine("sw26010_cg")
LAYER = conv2d(
    batch=1, in_channels=512, out_channels=64, height=14, width=14, kernel=3, padding=1, dtype="f32"
)


def errors(op=LAYER, *, addressed=True):
    return {s.name: expected_error(op, s) for s in seeds_for(op, addressed=addressed)}


def algorithms(machine=HOST, op=LAYER, **restricted):
    return {seed.name for _, seed in ways([op], machine, **restricted)[0]}


def test_larger_tiles_err_more_and_better_points_less():
    good, textbook = errors(), errors(addressed=False)
    sizes = [good[f"winograd{size}"] for size in (2, 3, 4, 5, 6)]
    assert sizes == sorted(sizes)
    assert good["winograd4"] < textbook["winograd4"] / 3
    assert good["winograd2"] == textbook["winograd2"]


def test_errors_grow_with_the_square_root_of_the_channels():
    few, many = errors(replace(LAYER, in_channels=91)), errors(replace(LAYER, in_channels=391))
    assert many["winograd4"] / few["winograd4"] == pytest.approx(2)


def test_double_precision_errs_by_nothing_that_matters():
    assert max(errors(replace(LAYER, dtype="f64")).values()) < 1e-12


def test_on_this_computer_errors_are_limited_unless_an_algorithm_is_named():
    assert algorithms() >= {"winograd2", "winograd4", "direct"}
    assert "winograd6" not in algorithms()
    assert "winograd6" in algorithms(max_error=1e-4)
    assert algorithms(algorithm="winograd6") == {"winograd6"}
    assert "winograd4" not in algorithms(max_error=5e-6)


def test_the_default_limit_leaves_what_errs_least():
    """Sums of very many terms have no algorithm within it."""
    long = gemm(8, 8, 100_000, dtype="f32")
    assert min(errors(long).values()) > lowering_of(load_machine("host_avx2")).max_error
    assert algorithms(op=long) == {"gemm"}


def test_other_machines_have_no_limit_by_default():
    assert "winograd4" in algorithms(MESH, LAYER)
    assert "winograd4" not in algorithms(MESH, LAYER, max_error=1e-5)


@pytest.mark.parametrize("restricted", [{}, {"algorithm": "gemm"}])
def test_what_no_algorithm_can_is_refused(restricted):
    with pytest.raises(ScheduleError) as caught:
        ways([gemm(8, 8, 100, dtype="f32")], HOST, max_error=1e-9, **restricted)
    assert str(caught.value) == (
        "no algorithm computes gemm m8 n8 k100 with an error of at most 1.0e-09: "
        "that of gemm is 5.4e-07; --max-error 5.6e-07, or --dtype f64"
    )
