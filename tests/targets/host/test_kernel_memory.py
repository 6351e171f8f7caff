"""Whole kernels under the address and undefined-behaviour sanitizers, every argument beside pages
that must not be touched: random candidates of random operators, and what the model chooses.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import HOST_ALGORITHMS, Case, cases
from support.examples import examples
from support.native import NATIVE_HOSTS, assert_exact
from support.sanitized import have_sanitizers, sanitized_results
from tilewright.compiler.checking import random_operands
from tilewright.ops import Op, conv2d, gemm
from tilewright.targets.host.emit.products import compiler_flags
from tilewright.targets.host.native import native_instruction_sets
from tilewright.tune.choose import choose

CHOSEN = (
    *("gemm", "prepacked", "direct", "pointwise"),
    *("winograd2", "winograd3", "winograd4", "winograd5", "winograd6"),
)

pytestmark = [
    pytest.mark.hypothesis,
    pytest.mark.skipif(not have_sanitizers(), reason="the compiler has no sanitizers"),
]


@pytest.mark.parametrize("algorithm", HOST_ALGORITHMS)
def test_random_candidates_touch_nothing_but_their_arguments(algorithm: str) -> None:
    @examples(1)
    @given(cases(algorithm, NATIVE_HOSTS))
    def check(case: Case) -> None:
        assert_well_behaved(case)

    check()


@pytest.mark.parametrize("algorithm", CHOSEN)
def test_what_the_model_chooses_touches_nothing_but_its_arguments(algorithm: str) -> None:
    @examples(1)
    @given(layers(algorithm))
    def check(op: Op) -> None:
        machine = NATIVE_HOSTS[0]
        (found,) = choose([op], machine, algorithm=algorithm, max_error=1.0)
        assert_well_behaved(Case(machine, found.best.candidate))

    check()


def assert_well_behaved(case: Case) -> None:
    """The sanitizers find nothing, and results are right at both ends of a page."""
    operands = random_operands(case.candidate.op, "integers", 0)
    for result in sanitized_results([case], [operands]):
        assert_exact(case, operands, result)


@st.composite
def layers(draw: st.DrawFn, algorithm: str) -> Op:
    """Layers with the channels of real networks on small maps, and products of such extents: rows
    that are powers of two apart are copied, and panels of weights are fetched ahead.
    """
    wide = st.sampled_from([3, 16, 64, 96, 256, 512, 1024])
    # Kernels transformed by points are many times as large as they were, and slow to check.
    narrow = st.sampled_from([3, 16, 64, 96]) if algorithm.startswith("winograd") else wide
    if algorithm in ("gemm", "prepacked"):
        rows = draw(st.integers(1, 80))
        return gemm(rows, draw(wide), draw(wide), transpose_b=draw(st.booleans()), dtype="f32")
    kernel = 1 if algorithm == "pointwise" else 3
    plain, fives = algorithm != "direct", algorithm == "winograd5"
    # Tiles of 5 x 5 are for images that they cover with far fewer products than those of 4 x 4.
    sizes = st.sampled_from([5, 9]) if fives else st.integers(3, 9)
    return conv2d(
        batch=draw(st.sampled_from([1, 1, 2, 5])),
        in_channels=draw(wide), out_channels=draw(narrow),
        height=draw(sizes), width=draw(sizes), kernel=kernel,
        padding=draw(st.sampled_from([1] if fives else [0, 1])) if kernel == 3 else 0,
        stride=1 if plain else draw(st.sampled_from([1, 2])), dtype="f32",
    )  # fmt: skip


def test_the_instruction_sets_of_this_processor_are_all_tried() -> None:
    tried = {len(compiler_flags(machine)) > 0 for machine in NATIVE_HOSTS}
    assert len(NATIVE_HOSTS) == 2 * len(native_instruction_sets())
    assert False in tried
