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
from tilewright.targets.sw26010.gemm.exact import (
    GEMM_CYCLES,
    exact_gemm_cost,
    simulated_gemm_cycles,
)
from tilewright.tune.search import rank

MACHINE = load_machine("sw26010_cg")
MEASURED = load_machine("sw26010_measured")
MEASURED_BRANCHES = load_machine("sw26010_measured", {"primitives.gemm.switch_cycles": 0})
HELD_OUT = ((16, 16, 9), (32, 12, 13), (48, 20, 7), (16, 40, 22))
"""Vectorised extent, other extent and k; none is in the grids of benchmarks/gemm_primitive.py."""


def call(vector, shape, dtype="f64", *, packs=False):
    v, s, k = shape
    dims = {"m": v, "n": s, "k": k} if vector == "m" else {"m": s, "n": v, "k": k}
    return PricedCall(MatrixProduct(vector, workspace="space" if packs else None), dims, dtype)


@pytest.mark.parametrize(
    ("machine", "dtype"), [(MACHINE, "f32"), (MEASURED_BRANCHES, "f64")], ids=["ideal", "measured"]
)
def test_the_derived_form_agrees_with_the_emitted_text(machine, dtype):
    errors = []
    for (vector, packs), shape in product((("n", False), ("m", True)), HELD_OUT):
        case = machine, call(vector, shape, dtype, packs=packs)
        price = call_costs(machine)[MatrixProduct](*case)
        errors.append(abs(price / simulated_gemm_cycles(*case) - 1))
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
    first = simulated_gemm_cycles(*case, cache)
    monkeypatch.setattr(exact, "_routine_cycles", None)
    assert simulated_gemm_cycles(*case, cache) == first


def test_a_machine_is_timed_by_its_own_table(cache):
    one = call("n", (16, 8, 9))
    default, measured = (simulated_gemm_cycles(m, one, cache) for m in (MACHINE, MEASURED))
    assert [(kept.kind, kept.entries) for kept in contents()] == [("gemm-cycles", 2)]
    assert measured >= default + 6 * 2 * 8  # a taken branch in each step of two blocks


def test_fitted_changes_of_roles_are_in_the_price_alone():
    """36.5 cycles for each block of four pixels and channels and each of eight mesh steps."""
    one = call("n", (32, 8, 9))
    price = call_costs(MEASURED)[MatrixProduct]
    switches = 2 * 2 * 8 * MEASURED.section(GemmPrimitive).switch_cycles
    assert price(MEASURED, one) - price(MEASURED_BRANCHES, one) == pytest.approx(switches)
    cycles = [simulated_gemm_cycles(machine, one) for machine in (MEASURED, MEASURED_BRANCHES)]
    assert cycles[0] == cycles[1]
    assert exact_gemm_cost()(MEASURED, one) == pytest.approx(cycles[0] + switches)


def test_many_shapes_at_once_are_refused():
    with pytest.raises(ProgramError) as error:
        simulated_gemm_cycles(MACHINE, call("m", (np.array([16, 32]), 16, 4)))
    assert str(error.value) == (
        "exact cycles of a gemm are simulated one shape at a time; price many shapes with the "
        "calibrated form, call_costs(machine)"
    )


def test_another_mesh_has_other_cycles():
    small = load_machine("sw26010", {"mesh.rows": "4", "mesh.columns": "4"})
    case = call("n", (16, 16, 4))
    few, many = (simulated_gemm_cycles(machine, case) for machine in (small, MACHINE))
    assert 4 * 4 * 64 < few < many


def test_other_cores_are_refused():
    other = msgspec.structs.replace(
        MACHINE, core=msgspec.structs.replace(MACHINE.core, instruction_table="torrent")
    )
    with pytest.raises(ProgramError) as error:
        simulated_gemm_cycles(other, call("m", (16, 16, 4)))
    assert str(error.value) == (
        "machine 'sw26010_cg' has cores of 'torrent', the routines are for 'sw26010_cpe'; "
        "use the calibrated form, call_costs(machine)"
    )
