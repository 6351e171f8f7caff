"""Time models of the GEMM primitive: exact where the form is right, and how far Eq. 2 is off."""

import pytest

from support.gemm_fit import (
    GemmSample,
    fit_gemm_model,
    model_error,
    term_names,
    terms,
)
from support.gemm_mesh import run_gemm
from tilewright.common.errors import ScheduleError
from tilewright.targets.sw26010.gemm.shape import VARIANTS, GemmShape, GemmVariant

GRID = [(16, 4, 2), (16, 12, 5), (32, 4, 9), (32, 8, 4), (48, 4, 3), (16, 8, 16), (32, 12, 12)]
HELD_OUT = [(32, 16, 6), (16, 24, 11), (48, 8, 8), (16, 16, 20)]


def samples(variant, grid):
    by_m = variant.vectorised == "m"
    shapes = [GemmShape(*(e if by_m else (e[1], e[0], e[2]))) for e in grid]
    return [GemmSample(shape, run_gemm(variant, shape).cycles) for shape in shapes]


@pytest.mark.parametrize("variant", [VARIANTS[1], VARIANTS[4]], ids=lambda v: v.name)
def test_the_faithful_form_predicts_shapes_that_it_has_not_seen(variant):
    training, held_out = samples(variant, GRID), samples(variant, HELD_OUT)
    faithful = model_error(fit_gemm_model("blocks", variant, training), held_out)
    printed = model_error(fit_gemm_model("equation 2", variant, training), held_out)
    assert faithful.mean < 0.01
    assert faithful.worst < 0.03
    assert printed.mean > faithful.mean


def test_equation_2_is_finite_for_both_vectorised_dimensions():
    shape = GemmShape(32, 16, 8)
    by_m = terms("equation 2", GemmVariant("m"), shape)
    by_n = terms("equation 2", GemmVariant("n"), shape)
    assert by_m.tolist() == [8, 64, 1024, 1]
    assert by_n.tolist() == [8, 256, 1024, 1]


def test_the_fit_recovers_a_model():
    variant = GemmVariant("m", "row", "row")
    truth = [100.0, 14.0, 194.0, 128.0, 8.0, 40.0]
    shapes = [GemmShape(16 * v, 4 * s, k) for v in (1, 2, 3) for s in (1, 4) for k in (2, 5, 8)]
    exact = [GemmSample(s, round(float(terms("blocks", variant, s) @ truth))) for s in shapes]
    model = fit_gemm_model("blocks", variant, exact)
    assert model.coefficients == pytest.approx(truth, rel=1e-2)
    assert len(term_names("blocks", variant)) == 6


def test_too_few_samples_are_refused():
    variant = GemmVariant()
    with pytest.raises(ScheduleError) as error:
        fit_gemm_model("blocks", variant, [GemmSample(GemmShape(16, 4, 4), 700)] * 5)
    assert str(error.value) == (
        "5 samples fix 1 of the 4 terms of 'blocks'; vary m, n and k independently"
    )
