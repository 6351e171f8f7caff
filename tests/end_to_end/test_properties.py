"""What holds for every operator, algorithm, layout, structure, tile size and number of copies.

Numbers are small integers, so that every order of summation gives the same result and comparisons
are exact; `ULPS` bounds what rounding does to random floats.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import (
    ALGORITHMS,
    MACHINES,
    SMALL_MESHES,
    SQUARE_MESHES,
    WHOLE_MESHES,
    Case,
    cases,
    examples,
)
from support.running import emulated, error_in_ulps, interpreted
from tilewright.compiler.checking import program_inputs, random_operands
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.ir.verify import verify
from tilewright.ir.visit import instantiate
from tilewright.passes.pipeline import stage
from tilewright.schedule.lower import declare, lower
from tilewright.schedule.structures import build
from tilewright.seeds.space import parameters
from tilewright.seeds.steps import parse_schedule
from tilewright.simulate.kernel_level import simulate
from tilewright.tune.search import Candidate, NestChoice

BATCH = 25
"""Candidates whose generated code is built and run together."""

ULPS = {"winograd2": 6.0, "winograd4": 48.0}
DIRECT_ULPS = 10.0
"""How far single precision may be off (`support.running.error_in_ulps`). About 100 random
candidates each reached 2.0 with F(2x2, 3x3), 19 with F(4x4, 3x3) and 4.0 with the direct forms.
"""

INTERPRETED = {
    "gemm": 200,
    "padded": 120,
    "implicit": 200,
    "explicit": 120,
    "winograd2": 80,
    "winograd4": 80,
}
"""Examples on small meshes, about as many as run in 15 seconds."""

every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


def error(case: Case, operands: tuple[Any, ...], found: Any) -> tuple[float, float]:
    """(error, bound) of a result, in ulps."""
    name = case.candidate.seed.name
    per_element = not name.startswith("winograd")
    ulps = error_in_ulps(case.candidate.op, operands, found, per_element=per_element)
    return ulps, ULPS.get(name, DIRECT_ULPS)


def assert_exact(case: Case, operands: tuple[Any, ...], found: Any) -> None:
    """`found` is the operator's result on integers.

    F(4x4, 3x3) in single precision is the exception: its intermediate values leave the 24 bits.
    """
    op = case.candidate.op
    if (case.candidate.seed.name, op.dtype) == ("winograd4", "f32"):
        ulps, bound = error(case, operands, found)
        assert ulps <= bound
    else:
        np.testing.assert_array_equal(found, op.reference(*operands), err_msg=str(case))


@every_algorithm
def test_programs_compute_the_operator(algorithm: str) -> None:
    @examples(INTERPRETED[algorithm])
    @given(cases(algorithm, SMALL_MESHES))
    def check(case: Case) -> None:
        operands = random_operands(case.candidate.op, "integers", 0)
        assert_exact(case, operands, interpreted(case, operands))

    check()


@every_algorithm
def test_programs_of_the_whole_mesh_compute_the_operator(algorithm: str) -> None:
    @examples(4)
    @given(cases(algorithm, WHOLE_MESHES))
    def check(case: Case) -> None:
        operands = random_operands(case.candidate.op, "integers", 0)
        assert_exact(case, operands, interpreted(case, operands))

    check()


@every_algorithm
def test_generated_code_computes_the_operator(algorithm: str) -> None:
    @examples(4)
    @given(st.lists(cases(algorithm, WHOLE_MESHES), min_size=BATCH, max_size=BATCH))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, emulated(batch, operands), strict=True):
            assert_exact(c, o, y)

    check()


@every_algorithm
def test_generated_code_rounds_single_precision_within_the_bound(algorithm: str) -> None:
    single = cases(algorithm, WHOLE_MESHES, ("f32",))

    @examples(1)
    @given(st.lists(single, min_size=BATCH, max_size=BATCH))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "floats", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, emulated(batch, operands), strict=True):
            ulps, bound = error(c, o, y)
            assert ulps <= bound, str(c)

    check()


@every_algorithm
def test_the_simulator_computes_what_the_interpreter_computes(algorithm: str) -> None:
    @examples(10)
    @given(cases(algorithm, SMALL_MESHES))
    def check(case: Case) -> None:
        candidate, mesh = case.candidate, case.machine.mesh
        program = candidate.program(case.machine)
        operands = random_operands(candidate.op, "integers", 0)
        inputs = program_inputs(candidate.op, candidate.seed, program, operands)
        expected = interpret(program, inputs, (mesh.rows, mesh.columns))
        run = simulate(program, case.machine, inputs)
        assert run.outputs is not None
        assert run.outputs.keys() == expected.keys()
        for name in expected:
            np.testing.assert_array_equal(run.outputs[name], expected[name])
        assert sum(cause.cycles for cause in run.causes) == run.cycles
        assert run.peak_bytes <= run.allocated_bytes <= case.machine.spm_available_bytes

    check()


@every_algorithm
def test_every_stage_verifies(algorithm: str) -> None:
    """Seed stage, then the program after every pass, each by the rules of its stage.

    Square meshes only: a primitive's axis has one extent per core in the verifier's eyes.
    """
    stages = {
        "infer_dma": "staged",
        "handle_boundary": "staged",
        "simplify": "staged",
        "double_buffer": "explicit",
        "allocate_buffers": "explicit",
    }
    seen: set[str] = set()

    @examples(40)
    @given(cases(algorithm, SQUARE_MESHES))
    def check(case: Case) -> None:
        def observe(name: str, program: Program) -> None:
            verify(with_owners(program, case.candidate), stages[name])
            seen.add(name)

        for n in case.candidate.nests:
            seed = lower(n.structure.space.nest, n.structure.steps, case.candidate.op.dtype)
            verify(with_owners(seed, case.candidate), "seed")
            assert stage(seed, n.structure.plan.stages, observe) == n.structure.staged
        case.candidate.program(case.machine, observe)

    check()
    assert seen == set(stages)


def with_owners(program: Program, candidate: Candidate) -> Program:
    """A nest's program with the tensors whose storage its own ones share."""
    owners = {t.storage for t in program.tensors} - {t.name for t in program.tensors} - {""}
    layouts = candidate.joint_layouts()
    declared = tuple(
        declare(t, layouts, candidate.op.dtype) for t in candidate.seed.tensors if t.name in owners
    )
    bare = instantiate(Program("", (), declared, (), ()), parameters(candidate.op))
    return replace(program, tensors=(*program.tensors, *bare.tensors))


@every_algorithm
def test_programs_and_schedules_survive_as_texts(algorithm: str) -> None:
    """A program parses back equal; the text of a schedule builds the same program again."""

    @examples(40)
    @given(cases(algorithm, MACHINES))
    def check(case: Case) -> None:
        program = case.candidate.program(case.machine)
        assert parse(print_program(program)) == program
        for n in case.candidate.nests:
            assert parse(print_program(n.structure.staged)) == n.structure.staged
        texts = [str(n.schedule) for n in case.candidate.nests]
        assert replayed(case.candidate, texts).program(case.machine) == program

    check()


def replayed(candidate: Candidate, texts: list[str]) -> Candidate:
    """The candidate, built from the texts of its nests' schedules."""
    nests = []
    for space, text in zip(candidate.seed.spaces, texts, strict=True):
        schedule = parse_schedule(text)
        structure = build(space, schedule.steps, candidate.op.dtype, stage)
        assert structure is not None
        nests.append(NestChoice(structure, dict(schedule.factors), 0.0))
    return Candidate(candidate.op, candidate.seed, tuple(nests))
