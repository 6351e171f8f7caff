"""Changes of products' extents, counted call by call."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import SW26010, WHOLE_MESHES, cases
from support.examples import examples
from tilewright.common.expr import evaluate
from tilewright.cost.chain import take_apart
from tilewright.cost.steps import BranchStep, CallStep, LoopStep, Step, first_core, steps_of
from tilewright.ir.primitives import MatrixProduct
from tilewright.passes.lowering import lowering_of

CHAINS = lowering_of(SW26010).chains


def products(
    steps: tuple[Step, ...], env: Mapping[str, int]
) -> Iterator[tuple[CallStep, tuple[int, ...]]]:
    """Every product of a run with its extents."""
    for step in steps:
        match step:
            case LoopStep(stmt, body):
                for i in range(int(evaluate(stmt.extent, env))):
                    yield from products(body, {**env, stmt.var: i})
            case BranchStep(condition, then, orelse):
                yield from products(then if evaluate(condition, env) else orelse, env)
            case CallStep() if isinstance(step.stmt.primitive, MatrixProduct):
                yield step, tuple(int(evaluate(e, env)) for e in step.dims.values())
            case _:
                pass


@pytest.mark.parametrize("algorithm", ["gemm", "implicit", "winograd2"])
@examples(40)
@given(st.data())
def test_no_statement_changes_its_extents_more_often(algorithm: str, data: st.DataObject):
    case = data.draw(cases(algorithm, WHOLE_MESHES, ("f64",)))
    for nest in case.candidate.nests:
        env = {**case.candidate.values, **nest.factors, **first_core(SW26010)}
        found: dict[CallStep, list[tuple[int, ...]]] = {}
        steps = steps_of(nest.structure.staged, chains=CHAINS)
        for step, extents in products(steps, env):
            found.setdefault(step, []).append(extents)
        counted = sum(a != b for own in found.values() for a, b in pairwise([*own, own[0]]))
        moments = take_apart(nest.structure.staged, chains=CHAINS).moments
        most = int(np.max(moments.product_changes(env)))
        assert counted <= most
        assert bool(counted) == bool(most)
        none = {name: np.zeros(0, np.int64) for name in nest.factors}
        assert np.size(moments.product_changes({**env, **none})) in (0, 1)
