"""Generated kernels compute the operators exactly, whatever the algorithm, structure and tiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import HOST_ALGORITHMS, INTEGERS, Case, cases
from support.examples import examples
from support.native import (
    NATIVE_HOSTS,
    NATIVE_SETTINGS,
    assert_exact,
    assert_within_bound,
    native_results,
)
from tilewright.compiler.checking import operator_result, program_inputs, random_operands
from tilewright.machine import Machine, load_machine
from tilewright.ops import gemm
from tilewright.ops.notation import operator_of
from tilewright.passes.allocate_buffers import bytes_on_a_core
from tilewright.seeds.space import seeds_for
from tilewright.targets.host.code import CODE
from tilewright.targets.host.emit.products import plan_products
from tilewright.targets.host.native import native_instruction_sets
from tilewright.targets.host.vectors.instruction_sets import AVX2
from tilewright.targets.host.vectors.microkernel import VARYING
from tilewright.tune.candidate import Candidate
from tilewright.tune.measure import EVERYTHING
from tilewright.tune.search import rank

BATCH = 6
"""Candidates that are compiled together."""

# the properties are inside, where the algorithm is known
pytestmark = pytest.mark.hypothesis
every_algorithm = pytest.mark.parametrize("algorithm", HOST_ALGORITHMS)


@every_algorithm
def test_integers_are_computed_exactly(algorithm: str) -> None:
    @examples(1)
    @given(st.lists(cases(algorithm, NATIVE_HOSTS), min_size=BATCH, max_size=BATCH))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, native_results(batch, operands), strict=True):
            assert_exact(c, o, y)

    check()


@every_algorithm
def test_floats_round_within_the_bound(algorithm: str) -> None:
    @examples(1)
    @given(st.lists(cases(algorithm, NATIVE_HOSTS, ("f32",)), min_size=4, max_size=4))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "floats", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, native_results(batch, operands), strict=True):
            assert_within_bound(c, o, y)

    check()


@pytest.mark.parametrize(
    "algorithm", [a for a in HOST_ALGORITHMS if a != "depthwise" and not a.startswith("winograd")]
)
def test_integer_types_give_the_bits_of_the_reference(algorithm: str) -> None:
    """Operands of all that their types hold: sums wrap, results saturate."""

    @examples(1)
    @given(st.lists(cases(algorithm, NATIVE_HOSTS, INTEGERS), min_size=BATCH, max_size=BATCH))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, native_results(batch, operands), strict=True):
            assert y.dtype == c.candidate.op.numerics.result.numpy
            assert_exact(c, o, y)

    check()


@pytest.mark.skipif(AVX2 not in native_instruction_sets(), reason="the processor lacks AVX2")
@pytest.mark.parametrize("threads", [1, 2])
def test_panels_of_b_may_be_larger_than_the_second_cache(threads: int) -> None:
    op = gemm(199, 1003, 301, dtype="f32")
    machine = load_machine("host_avx2", {"threads.count": threads})
    (seed,) = seeds_for(op, "gemm")
    (ranking,) = rank([(op, seed)], machine, keep=EVERYTHING)
    chosen = next(c for c in ranking.best if is_packed_far(c, machine))
    program = chosen.program(machine)
    operands = random_operands(op, "integers", 0)
    inputs = program_inputs(op, seed, program, operands)
    artifact = CODE.emit(program, machine)
    found = operator_result(op, seed, program, CODE.run(artifact, machine, inputs))
    assert "tw_pack_f32_6(" in artifact.files[f"{artifact.name}.c"]
    np.testing.assert_array_equal(found, operands[0] @ operands[1])


def is_packed_far(candidate: Candidate, machine: Machine) -> bool:
    """True where both factors are in buffers, with more panels than the second cache holds."""
    buffers = candidate.program(machine).buffers
    return {b.name for b in buffers} == {"a_tile", "b_tile"} and (
        sum(map(bytes_on_a_core, buffers)) > machine.spm_available_bytes
    )


def test_runs_of_a_result_may_end_early() -> None:
    """Five images by blocks of three, and pixels by eight: the last runs of C are two images."""
    text = "y[n,o,r] += x[n,i,r+u-1] * w[o,i,u]"
    op = operator_of(text, fill={"x": 0}, dtype="f64", n=5, o=32, r=16, i=8, u=3, x=(5, 8, 16))
    machine = load_machine("host", NATIVE_SETTINGS)
    (seed,) = seeds_for(op, "loops", addressed=True)
    (ranking,) = rank([(op, seed)], machine, keep=EVERYTHING)
    (choice,) = next(c for c in ranking.best if c.nests[0].factors.get("i2_tile") == 8).nests
    candidate = Candidate(op, seed, (replace(choice, factors=choice.factors | {"col_tile": 3}),))
    program = candidate.program(machine)
    assert any(one.kernel.c_run == VARYING for _, one in plan_products(program, machine).calls)
    operands = random_operands(op, "integers", 0)
    case = Case(machine, candidate)
    (found,) = native_results([case], [operands])
    assert_exact(case, operands, found)
