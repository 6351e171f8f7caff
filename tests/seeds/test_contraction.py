"""Contractions that nobody prepared for, each one line: any schedule of theirs is exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import SMALL_MESHES, WHOLE_MESHES, Case, candidate
from support.definitions import by_index, integers_for, random_definition
from support.examples import examples, one_in
from support.running import emulated, simulated
from tilewright.machine import load_machine
from tilewright.ops.matrix_roles import matrix_roles
from tilewright.ops.notation import operator_of
from tilewright.seeds.space import interface, seeds_for
from tilewright.tune.choose import choose

pytestmark = one_in(2)


CONTRACTIONS = {
    "convolution 1-D": operator_of(
        "y[n,o,r] += x[n,i,r+u-1] * w[o,i,u]", n=2, o=12, r=20, i=8, u=3, x=(2, 8, 20), fill=0,
    ),
    "convolution 3-D": operator_of(
        "y[n,o,d,r,c] += x[n,i,d+s-1,2*r+u-1,c+v-1] * w[o,i,s,u,v]",
        n=2, o=12, d=4, r=3, c=6, i=8, s=3, u=3, v=2, x=(2, 8, 4, 6, 6), fill=0,
    ),
    "depthwise 3-D": operator_of(
        "y[n,g,d,r,c] += x[n,g,d+s-1,r+u-1,c+v-1] * w[g,s,u,v]",
        n=2, g=4, d=4, r=5, c=8, s=3, u=3, v=3, x=(2, 4, 4, 5, 8), fill=0,
    ),
    "a phase of a transposed convolution": operator_of(
        "y[n,o,2*r+1] += x[n,i,r-u+1] * w[i,o,2*u]",
        n=2, o=9, r=7, i=8, u=2, x=(2, 8, 7), y=(2, 9, 14), w=(8, 9, 4), fill=0,
    ),
    "cost volume": operator_of(
        "y[b,p,q,r,c] += x[b,i,r,c] * w[b,i,r+p-1,c+q-1]",
        b=2, p=3, q=3, r=6, c=8, i=8, w=(2, 8, 6, 8), fill=0,
    ),
    "bhqd,bhkd->bhqk": operator_of(
        "y[b,h,q,k] += x[b,h,q,d] * w[b,h,k,d]", b=2, h=3, q=8, k=10, d=12
    ),
    "bhqk,bhkd->bhqd": operator_of(
        "y[b,h,q,d] += x[b,h,q,k] * w[b,h,k,d]", b=2, h=3, q=8, k=10, d=12
    ),
    "tensor x matrix": operator_of("y[i,j,k] += x[i,l,k] * u[j,l]", i=6, j=12, k=7, l=9),
    "Khatri-Rao": operator_of("y[i,r] += x[i,j,k] * z[j,k,r]", i=9, j=5, k=6, r=7),
}  # fmt: skip


def random_contraction(rng):
    op = random_definition(rng, ("x0 * x1",))
    return op if op.kind == "contraction" else random_contraction(rng)


@st.composite
def ways(draw, machines):
    """A contraction and a random way to compute it."""
    known = st.sampled_from(list(CONTRACTIONS.values()))
    drawn = st.integers(0, 1 << 30).map(lambda n: random_contraction(np.random.default_rng(n)))
    op = draw(known | drawn)
    machine = draw(st.sampled_from(machines))
    algorithm = draw(st.sampled_from([s.name for s in seeds_for(op)]))
    return Case(machine, candidate(draw, op, algorithm, machine))


@pytest.mark.parametrize("seed", range(60))
def test_operands_and_result_are_arranged_by_the_roles_of_axes(seed):
    """The sum over the cells of both operands, step by step, is the meaning."""
    rng = np.random.default_rng(seed)
    op = random_contraction(rng)
    roles, operands = matrix_roles(op), integers_for(rng, op)
    found = 1
    for cut, x in zip(roles.operands, operands, strict=True):
        places = []
        for cell in cut.cells:
            place = np.full([1] * len(op.extents), cell.offset)
            for axis, step in cell.terms:
                along = np.arange(op.extents[axis]).reshape(
                    [-1 if a == axis else 1 for a in range(len(op.extents))]
                )
                place = place + step * along
            assert place.min() >= 0
            places.append(place)
        found = found * cut.arranged(x)[tuple(places)]
    whole = np.broadcast_to(found, op.extents)
    values = whole.sum(axis=tuple(a for a in range(whole.ndim) if a not in roles.kept))
    assert np.array_equal(roles.restored(values), by_index(op, *operands))
    given = interface("contraction").arrange(op, operands)
    assert [x.shape for x in given] == [
        tuple(c.extent for c in cut.cells) for cut in roles.operands
    ]


@examples(40)
@given(ways(SMALL_MESHES), st.integers(0, 1000))
def test_any_way_computes_the_reference(case, seed):
    op = case.candidate.op
    operands = integers_for(np.random.default_rng(seed), op)
    assert np.array_equal(simulated(case, operands), op.reference(*operands))


@examples(1)
@given(st.lists(ways(WHOLE_MESHES), min_size=12, max_size=12))
def test_generated_code_computes_the_reference(cases):
    operands = [integers_for(np.random.default_rng(0), c.candidate.op) for c in cases]
    for case, x, found in zip(cases, operands, emulated(cases, operands), strict=True):
        assert np.array_equal(found, case.candidate.op.reference(*x)), case


@pytest.mark.parametrize("name", ["convolution 1-D", "tensor x matrix", "depthwise 3-D"])
def test_the_best_ways_are_ranked_by_estimates_that_simulations_confirm(name):
    group = load_machine("sw26010_cg")
    (choice,) = choose([CONTRACTIONS[name]], group)
    case = Case(group, choice.best.candidate)
    operands = integers_for(np.random.default_rng(0), case.candidate.op)
    assert np.array_equal(simulated(case, operands), case.candidate.op.reference(*operands))
