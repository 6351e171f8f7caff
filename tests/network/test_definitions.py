"""Operators that nobody prepared for, as networks: plans and generated code mean the definition."""

from dataclasses import replace

import numpy as np
import pytest

from support.definitions import integers_for, network_of
from support.examples import one_in
from support.plans import GROUP, quick_search
from tilewright.graph.rewriting import simplified
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.simulate import simulate_plan
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly
from tilewright.ops.notation import operator_of
from tilewright.partition.capability import DIVIDES
from tilewright.partition.objective import TRAFFIC
from tilewright.targets.sw26010.emulation.run import run_emulated_many
from tilewright.targets.sw26010.network.code import constant_block, emit_network

pytestmark = one_in(2)


GRID = load_machine("bwdsp-56")
OPERATORS = {
    "MTTKRP": operator_of("y[i,r] += x[i,j,k] * v[j,r] * w[k,r]", i=20, j=6, k=5, r=8),
    "bilinear layer": operator_of("y[n,o] += a[n,i] * b[o,i,j] * c[n,j]", n=4, o=8, i=6, j=5),
    "distances": operator_of("y[n,o] += abs(x[n,i] - w[o,i])", n=6, o=8, i=12),
    "dilated maximum": operator_of(
        "y[n,i,r,c] max= x[n,i,r+2*u-2,c+2*v-2]",
        n=2, i=4, r=7, c=9, u=3, v=3, x=(2, 4, 7, 9), fill=-np.inf,
    ),
    "convolution 1-D": operator_of(
        "y[n,o,r] += x[n,i,r+u-1] * w[o,i,u]", n=2, o=12, r=20, i=8, u=3, x=(2, 8, 20), fill=0,
    ),
    "convolution 3-D": operator_of(
        "y[n,o,d,r,c] += x[n,i,d+s-1,r+u-1,c+v-1] * w[o,i,s,u,v]",
        n=2, o=8, d=4, r=5, c=6, i=8, s=3, u=3, v=3, x=(2, 8, 4, 5, 6), fill=0,
    ),
    "depthwise 3-D": operator_of(
        "y[n,g,d,r,c] += x[n,g,d+s-1,r+u-1,c+v-1] * w[g,s,u,v]",
        n=2, g=4, d=4, r=5, c=8, s=3, u=3, v=3, x=(2, 4, 4, 5, 8), fill=0,
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
    "a border of twos, backwards": operator_of(
        "y[o,r] += x[i,r+u-1] * w[o,i,2-u]", o=4, r=6, i=3, u=3, x=(3, 6), fill={"x": 2}
    ),
    "transposed convolution": operator_of(
        "y[n,o,2*r+u] += x[n,i,r] * w[i,o,u]", n=2, o=9, r=7, i=8, u=3
    ),
    "product of scalars": Definition((3,), straight((3,)), (Access((), (), ()),) * 2, "x0 * x1"),
}  # fmt: skip


EMULATED = (
    "distances",
    "dilated maximum",
    "tensor x matrix",
    "transposed convolution",
    "product of scalars",
)


DIVIDED = [name for name in OPERATORS if name not in ("distances", "dilated maximum")]


def of_type(op, kind):
    parts = (
        {"parts": tuple(replace(part, dtype=kind) for part in op.parts)}
        if isinstance(op, Assembly)
        else {}
    )
    return replace(op, dtype=kind, **parts)


def planned(network):
    network = simplified(network)
    return PlannedNetwork(network, build_plan(network, GROUP, quick_search(network)))


@pytest.mark.parametrize("name", OPERATORS)
def test_the_plan_computes_what_the_definition_means(name):
    op = OPERATORS[name]
    plan = planned(network_of(op)).plan
    operands = integers_for(np.random.default_rng(0), op)
    given = {f"x{i}": x for i, x in enumerate(operands)}
    found = interpret_plan(plan, given, {})["y"]
    np.testing.assert_array_equal(found, op.reference(*operands))
    run = simulate_plan(plan)
    assert sum(run.by_cause().values()) == run.cycles


def test_operands_that_count_blocks_along_all_axes_are_copied_apart_first():
    """No tile lies within a block of both."""
    op = operator_of("y[i,j] = a[3*i+2*j] * b[i+2*j]", i=3, j=2)
    plan = planned(network_of(op)).plan
    stages = [stage.op.describe() for stage in plan.stages]
    assert stages == ["copy 3x2"] * 2 + ["map 6: x0 * x1"]
    a, b = integers_for(np.random.default_rng(0), op)
    found = interpret_plan(plan, {"x0": a, "x1": b}, {})["y"]
    i, j = np.ogrid[:3, :2]
    np.testing.assert_array_equal(found, a[3 * i + 2 * j] * b[i + 2 * j])


def test_generated_code_computes_what_the_definition_means():
    """Maps, reductions, loops around products, and what is copied first or last."""
    cases, expected = [], []
    for number, name in enumerate(EMULATED):
        op = OPERATORS[name]
        network = planned(network_of(op, f"network {number}"))
        operands = integers_for(np.random.default_rng(1), op)
        artifact = emit_network(network.plan, GROUP, network.images)
        given = {f"x{i}": x for i, x in enumerate(operands)}
        cases.append((artifact, {**given, artifact.block: constant_block(network.plan, {})}))
        expected.append(op.reference(*operands))
    for found, y in zip(run_emulated_many(cases), expected, strict=True):
        assert not isinstance(found, Exception), found
        np.testing.assert_array_equal(found["y"], y)


@pytest.mark.parametrize("name", DIVIDED)
def test_cores_that_divide_it_compute_what_the_definition_means(name):
    (kind,) = GRID.core.types
    op = of_type(OPERATORS[name], kind)
    divided = DIVIDES.required(GRID).divide(network_of(op), GRID, None, TRAFFIC, 1.0)
    operands = integers_for(np.random.default_rng(0), op)
    found = divided.run({f"x{i}": x for i, x in enumerate(operands)})["y"]
    np.testing.assert_array_equal(found, op.reference(*operands))
