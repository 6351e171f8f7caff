"""Lowering keeps the meaning: a seed as laid out is the operator, and no schedule changes it.

Programs stand at the seed stage here, before transfers: what later passes do wrong cannot show.
Numbers are small integers, so that every order of summation gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import ALGORITHMS, INTEGERS, SMALL_MESHES, Case, Op, cases, operators
from support.examples import examples
from tilewright.compiler.checking import operator_result, program_inputs, random_operands
from tilewright.ir.interpret import interpret
from tilewright.ir.nodes import Program
from tilewright.ir.visit import instantiate
from tilewright.passes.pipeline import join
from tilewright.schedule.lower import declare, lower
from tilewright.seeds.space import Seed, Space, parameters, seeds_for
from tilewright.seeds.steps import Layout, Step

every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
of_integers = pytest.mark.parametrize(
    "algorithm", [name for name in ALGORITHMS if not name.startswith("winograd")]
)
"""Winograd's transforms divide."""


def result(
    op: Op,
    seed: Seed,
    steps: Sequence[tuple[Step, ...]],
    factors: Sequence[Mapping[str, int]],
    layouts: Mapping[str, tuple[str, ...]],
    mesh: tuple[int, int],
) -> tuple[Any, Any]:
    """(the seed-stage programs of the nests run one after the other, the operator's reference)."""
    values = {**parameters(op), "mesh_rows": mesh[0], "mesh_columns": mesh[1]}
    parts = [
        instantiate(lower(space.nest, chosen, op.dtype), {**values, **bound})
        for space, chosen, bound in zip(seed.spaces, steps, factors, strict=True)
    ]
    owners = tuple(declare(t, layouts, op.dtype) for t in seed.tensors if not t.storage)
    tensors = instantiate(Program("", (), owners, (), ()), values).tensors
    program = join(seed.name, parts, tensors)
    operands = random_operands(op, "integers", 0)
    inputs = program_inputs(op, seed, program, operands)
    found = operator_result(op, seed, program, interpret(program, inputs, mesh))
    return found, op.reference(*operands)


@every_algorithm
def test_a_seed_in_any_layout_is_the_operator(algorithm: str) -> None:
    check_seeds(algorithm, ("f64",))


def check_seeds(algorithm: str, dtypes: Sequence[str]) -> None:
    @examples(6)
    @given(operators(algorithm, dtypes), st.data())
    def check(op: Op, data: st.DataObject) -> None:
        (seed,) = seeds_for(op, algorithm)
        joint = data.draw(st.sampled_from(list(seed.layout_combinations())))
        steps = [own(joint, space) for space in seed.spaces]
        found, expected = result(op, seed, steps, [{}] * len(steps), dims(joint), (1, 1))
        np.testing.assert_array_equal(found, expected)

    check()


def own(joint: Sequence[Layout], space: Space) -> tuple[Layout, ...]:
    """The layouts of the nest's own tensors."""
    used = {use.tensor.name for use in space.nest.every_use}
    return tuple(x for x in joint if x.tensor in used)


def dims(joint: Sequence[Layout]) -> dict[str, tuple[str, ...]]:
    return {x.tensor: x.dims for x in joint}


@every_algorithm
def test_schedules_do_not_change_what_is_computed(algorithm: str) -> None:
    check_schedules(algorithm, ("f64",))


@of_integers
def test_seeds_and_schedules_of_integers(algorithm: str) -> None:
    """Operands of all that their types hold: sums wrap, results saturate."""
    check_seeds(algorithm, INTEGERS)
    check_schedules(algorithm, INTEGERS)


def check_schedules(algorithm: str, dtypes: Sequence[str]) -> None:
    @examples(5)
    @given(cases(algorithm, SMALL_MESHES, dtypes))
    def check(case: Case) -> None:
        candidate, mesh = case.candidate, case.machine.mesh
        steps = [n.structure.steps for n in candidate.nests]
        factors = [n.factors for n in candidate.nests]
        found, expected = result(
            candidate.op,
            candidate.seed,
            steps,
            factors,
            candidate.joint_layouts(),
            (mesh.rows, mesh.columns),
        )
        np.testing.assert_array_equal(found, expected)

    check()
