"""Chains of products of the GEMM primitive: exact results, refusals, speed."""

from dataclasses import replace

import numpy as np
import pytest

from support.examples import one_in
from support.gemm_chain import run_chain
from tilewright.common.errors import ScheduleError
from tilewright.isa import load_table
from tilewright.targets.sw26010.gemm.shape import (
    F32,
    F64,
    SINGLE_VARIANTS,
    VARIANTS,
    GemmShape,
    GemmVariant,
    plan_gemm,
)
from tilewright.targets.sw26010.gemm.steps import Unrolling, chain_branches, unrolling

pytestmark = one_in(3)


CHAINED = [
    variant
    for variant in (*VARIANTS, *SINGLE_VARIANTS)
    if (variant.a_layout == "column" if variant.vectorised == "m" else variant.b_layout == "row")
]


def oriented(variant, vector, scalar, k, links):
    """A shape with the given extent of the vectorised dimension."""
    extents = (vector, scalar) if variant.vectorised == "m" else (scalar, vector)
    return GemmShape(*extents, k, links=links)


@pytest.mark.parametrize("variant", CHAINED, ids=lambda variant: variant.name)
def test_the_sum_of_all_links_is_exact(variant):
    grid = [(16, 4, 1, 2), (16, 4, 2, 3), (32, 8, 3, 3), (16, 12, 5, 4), (32, 8, 16, 2)]
    wrong = [e for e in grid if not run_chain(variant, oriented(variant, *e)).exact]
    assert wrong == []


@pytest.mark.parametrize("mesh", [1, 2, 3, 5, 16])
def test_the_sum_is_exact_on_square_meshes(mesh):
    for variant, k in ((CHAINED[0], 3), (CHAINED[2], 9), (CHAINED[4], 1)):
        shape = replace(oriented(variant, 32, 8, k, 3), mesh=mesh)
        assert run_chain(variant, shape).exact, variant.name


@pytest.mark.parametrize("k", [1, 2, 3, 8, 27, 28, 31, 60])
def test_every_k_is_exact_however_it_is_unrolled(k):
    for variant in (CHAINED[0], CHAINED[6]):
        assert run_chain(variant, oriented(variant, 16, 8, k, 2)).exact, variant.name


@pytest.mark.parametrize("links", [2, 9, 49])
def test_every_number_of_links_is_exact(links):
    assert run_chain(CHAINED[1], oriented(CHAINED[1], 16, 8, 2, links)).exact


def test_leading_dimensions_may_exceed_the_extents():
    for variant in CHAINED:
        shape = replace(oriented(variant, 16, 8, 6, 3), lda=28, ldb=36, ldc=40)
        assert run_chain(variant, shape).exact, variant.name


def test_a_link_has_an_iteration_behind_its_loop_in_which_the_distances_are_read():
    shapes = {k: GemmShape(16, 48, k, links=9) for k in (1, 2, 16, 27, 28, 48)}
    found = {k: unrolling(plan_gemm(CHAINED[0], shape)) for k, shape in shapes.items()}
    assert found == {
        1: Unrolling(body=0, trips=0, rest=0),
        2: Unrolling(body=0, trips=0, rest=1),
        16: Unrolling(body=0, trips=0, rest=15),
        27: Unrolling(body=0, trips=0, rest=26),
        28: Unrolling(body=13, trips=2, rest=1),
        48: Unrolling(body=23, trips=2, rest=1),
    }


@pytest.mark.parametrize("precision", [F64, F32], ids=["f64", "f32"])
def test_the_branches_of_a_link_are_those_of_its_loop(precision):
    variant, depths = GemmVariant(precision=precision), np.arange(1, 150)
    loops = [
        unrolling(plan_gemm(variant, GemmShape(16, 4, k, links=2, local_memory_bytes=1 << 30)))
        for k in depths.tolist()
    ]
    found = chain_branches(precision, 8, depths).tolist()
    assert found == [loop.taken_branches for loop in loops]
    assert chain_branches(precision, 8, 149) == found[-1]


@pytest.mark.parametrize(
    ("precision", "k", "table", "link"),
    [
        (F64, 4, "sw26010_cpe", 64),
        (F64, 16, "sw26010_cpe", 256),
        (F64, 16, "sw26010_cpe_measured", 262),
        (F32, 16, "sw26010_cpe", 304),
        (F32, 16, "sw26010_cpe_measured", 310),
    ],
)
def test_a_link_costs_its_iterations_and_one_branch(precision, k, table, link):
    variant = GemmVariant("m", "column", "row", precision)
    cycles = {
        (n, links): run_chain(
            variant, GemmShape(16, n, k, links=links), table=load_table(table)
        ).cycles
        for n in (4, 8)
        for links in (2, 4)
    }
    steps = [(cycles[8, links] - cycles[4, links]) / 8 for links in (2, 4)]
    assert steps[1] - steps[0] == 2 * link


def test_the_code_fits_the_instruction_cache():
    for precision in (CHAINED[0].precision, F32):
        variant = replace(CHAINED[0], precision=precision)
        codes = [run_chain(variant, GemmShape(16, 4, k, links=2)).code_bytes for k in (27, 64)]
        assert max(codes) <= 16384


def test_a_chain_of_operands_that_are_packed_is_refused():
    with pytest.raises(ScheduleError) as refused:
        plan_gemm(GemmVariant("m", "row", "row"), GemmShape(16, 4, 4, links=3))
    assert str(refused.value) == (
        "dgemm_m_arow_brow packs the operand that it loads by vectors, and takes one product a "
        "call, not a chain of 3; store that operand along the vectors"
    )
    with pytest.raises(ScheduleError) as refused:
        plan_gemm(GemmVariant(), GemmShape(16, 4, 4, links=50))
    assert str(refused.value) == "dgemm_m_acolumn_brow: a chain of 50 products; use 1 to 49"
