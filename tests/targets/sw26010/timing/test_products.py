"""Cycles of the matrix primitives, derived from their own code for every shipped core."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.cost.calls import PricedCall
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import list_machines, load_machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.targets.sw26010.gemm.exact import simulated_gemm_cycles
from tilewright.targets.sw26010.gemm.shape import F32, F64
from tilewright.targets.sw26010.prices import product_cycles
from tilewright.targets.sw26010.timing.derived import SHIPPED_TABLES
from tilewright.targets.sw26010.timing.products import PRODUCTS, MatrixPrimitive, product_timing


def test_every_shipped_machine_takes_the_cycles_of_the_code() -> None:
    for name in list_machines():
        machine = load_machine(name)
        if machine.target == "sw26010":
            for dtype in ("f64", "f32"):
                assert machine.section(GemmPrimitive).timing(dtype) is None
                assert product_timing(machine, dtype).cycles_per_k >= 16


@pytest.mark.parametrize("table", SHIPPED_TABLES)
def test_the_form_is_within_a_percent_of_its_samples(table: str) -> None:
    for precision in (F64, F32):
        derived = PRODUCTS.timing(table, MatrixPrimitive(precision))["product"]
        assert derived.mean_error <= derived.worst_error <= 0.01


def test_a_taken_branch_costs_the_measured_core_less_than_a_cycle_per_k() -> None:
    ideal, measured = (
        product_timing(load_machine(name), "f64") for name in ("sw26010", "sw26010_measured")
    )
    assert ideal.cycles_per_k == 16
    assert 16 < measured.cycles_per_k < 17


@pytest.mark.parametrize("table", SHIPPED_TABLES)
def test_the_form_of_chains_is_within_a_thousandth_of_its_samples(table: str) -> None:
    for precision in (F64, F32):
        derived = PRODUCTS.timing(table, MatrixPrimitive(precision, chained=True))["chain"]
        assert derived.mean_error <= derived.worst_error <= 0.001


@pytest.mark.parametrize("name", ["sw26010", "sw26010_measured"])
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_a_chain_takes_no_longer_than_its_products(name: str, dtype: str) -> None:
    machine = load_machine(name)
    rows, columns, k, links = np.ix_(
        16 * np.arange(1, 9), 4 * np.arange(1, 30), np.arange(1, 70), np.arange(2, 50)
    )
    product = MatrixProduct("m")
    dims = {"m": rows, "n": columns, "k": k}
    single = product_cycles(machine, PricedCall(product, dims, dtype))
    chain = PricedCall(product, {**dims, "k": k * links, "links": links}, dtype)
    assert np.all(product_cycles(machine, chain) < single * links)


@pytest.mark.parametrize("name", ["sw26010", "sw26010_measured"])
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_the_price_of_a_chain_is_that_of_its_emitted_routine(name: str, dtype: str) -> None:
    machine = load_machine(name, {"primitives.gemm.switch_cycles": 0})  # none is simulated
    product = MatrixProduct("n")
    for m, n, k, links in ((4, 32, 1, 9), (8, 32, 5, 3), (12, 16, 18, 4), (4, 16, 70, 2)):
        dims = {"m": m, "n": n, "k": k * links, "links": links}
        call = PricedCall(product, dims, dtype)
        assert product_cycles(machine, call) == pytest.approx(
            simulated_gemm_cycles(machine, call), rel=0.01
        )
