"""Instruction-level cycles of matrix products against the calibrated form of the machine data."""

from itertools import product

import msgspec
import numpy as np
import pytest

from tilewright import ops
from tilewright.common.cache import contents
from tilewright.common.errors import ProgramError
from tilewright.cost.calls import PricedCall
from tilewright.cost.prices import call_costs
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import GemmPrimitive, load_machine
from tilewright.seeds.space import seeds_for
from tilewright.simulate.kernel.level import simulate
from tilewright.targets.sw26010.gemm import exact
from tilewright.targets.sw26010.gemm.exact import GEMM_CYCLES, exact_gemm_cost
from tilewright.tune.search import rank

MACHINE = load_machine("sw26010_cg")
MEASURED = load_machine("sw26010_measured")
HELD_OUT = ((16, 16, 9), (32, 12, 13), (48, 20, 7), (16, 40, 22))
"""Vectorised extent, other extent and k; none is in the grids of benchmarks/gemm_primitive.py."""


def call(vector, shape, dtype="f64", *, packs=False):
    v, s, k = shape
    dims = {"m": v, "n": s, "k": k} if vector == "m" else {"m": s, "n": v, "k": k}
    return PricedCall(MatrixProduct(vector, workspace="space" if packs else None), dims, dtype)


@pytest.mark.parametrize(
    ("machine", "dtype"), [(MACHINE, "f32"), (MEASURED, "f64")], ids=["ideal", "measured"]
)
def test_the_derived_form_agrees_with_the_emitted_text(machine, dtype):
    errors = []
    for (vector, packs), shape in product((("n", False), ("m", True)), HELD_OUT):
        case = machine, call(vector, shape, dtype, packs=packs)
        errors.append(abs(call_costs(machine)[MatrixProduct](*case) / exact_gemm_cost()(*case) - 1))
    assert np.mean(errors) <= 0.02
    assert max(errors) <= 0.05


def test_a_program_is_simulated_with_exact_products():
    op = ops.Gemm(m=128, n=128, k=64, transpose_b=True)
    (ranking,) = rank([(op, seeds_for(op, "gemm")[0])], MACHINE, keep=1)
    program = ranking.best[0].program(MACHINE)
    calibrated = simulate(program, MACHINE)
    exact = simulate(
        program, MACHINE, costs={**call_costs(MACHINE), MatrixProduct: exact_gemm_cost()}
    )
    assert exact.cycles == pytest.approx(calibrated.cycles, rel=0.03)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return GEMM_CYCLES


def test_a_shape_is_simulated_once(cache, monkeypatch):
    case = MACHINE, call("n", (16, 4, 2))
    first = exact_gemm_cost(cache)(*case)
    monkeypatch.setattr(exact, "routine_cycles", None)
    assert exact_gemm_cost(cache)(*case) == first


def test_a_machine_is_timed_by_its_own_table(cache):
    one = call("n", (16, 8, 9))
    cost = exact_gemm_cost(cache)
    default, measured = cost(MACHINE, one), cost(MEASURED, one)
    assert [(kept.kind, kept.entries) for kept in contents()] == [("gemm-cycles", 2)]
    switches = 2 * 8 * MEASURED.section(GemmPrimitive).switch_cycles
    steps = 2 * 8
    assert measured - switches >= default + 6 * steps


def test_many_shapes_at_once_are_refused():
    with pytest.raises(ProgramError) as error:
        exact_gemm_cost()(MACHINE, call("m", (np.array([16, 32]), 16, 4)))
    assert str(error.value) == (
        "exact cycles of a gemm are simulated one shape at a time; price many shapes with the "
        "calibrated form, call_costs(machine)"
    )


def test_another_mesh_has_other_cycles():
    small = load_machine("sw26010", {"mesh.rows": "4", "mesh.columns": "4"})
    case, cost = call("n", (16, 16, 4)), exact_gemm_cost()
    assert 4 * 4 * 64 < cost(small, case) < cost(MACHINE, case)


def test_other_cores_are_refused():
    other = msgspec.structs.replace(
        MACHINE, core=msgspec.structs.replace(MACHINE.core, instruction_table="torrent")
    )
    with pytest.raises(ProgramError) as error:
        exact_gemm_cost()(other, call("m", (16, 16, 4)))
    assert str(error.value) == (
        "machine 'sw26010_cg' has cores of 'torrent', the routines are for 'sw26010_cpe'; "
        "use the calibrated form, call_costs(machine)"
    )
