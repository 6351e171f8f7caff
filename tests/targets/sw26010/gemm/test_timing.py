"""What the matrix primitives take is derived from their own code, for every shipped core."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from tilewright.cost.calls import PricedCall
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import list_machines, load_machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.targets.sw26010.gemm.exact import exact_gemm_cost
from tilewright.targets.sw26010.gemm.shape import F32, F64, Precision
from tilewright.targets.sw26010.prices import product_cycles
from tilewright.targets.sw26010.timing import gemm as module
from tilewright.targets.sw26010.timing.gemm import (
    SHIPPED_TABLES,
    TIMINGS,
    chain_timing,
    derive_chain_timing,
    derive_timing,
    question,
    shipped_timings,
    timings_of,
    write_shipped,
)
from tilewright.targets.sw26010.timing.product import product_timing as timing_of_machine


@pytest.mark.parametrize(
    ("table", "precision"), [*zip(SHIPPED_TABLES, (F64, F32), strict=True)], ids=SHIPPED_TABLES
)
def test_the_shipped_timings_are_what_the_code_takes_today(
    table: str, precision: Precision, request: pytest.FixtureRequest
) -> None:
    """Each core and each element type once: what changes the code is in the question of all."""
    if request.config.getoption("--update-golden", default=False):
        write_shipped(Path(str(resources.files(module.__package__) / TIMINGS)))
    shipped = shipped_timings()[table]
    assert derive_timing(table, 8, precision) == getattr(shipped, precision.name)
    assert derive_chain_timing(table, 8, precision) == getattr(shipped, f"{precision.name}_chain")
    assert shipped.question == question(table, 8)


def test_every_shipped_machine_is_timed_without_a_derivation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "derive_timings", None)
    for name in list_machines():
        machine = load_machine(name)
        if machine.target == "sw26010":
            for dtype in ("f64", "f32"):
                assert machine.section(GemmPrimitive).timing(dtype) is None
                assert timing_of_machine(machine, dtype).cycles_per_k >= 16


@pytest.mark.parametrize("table", SHIPPED_TABLES)
def test_the_form_is_within_a_percent_of_its_samples(table: str) -> None:
    for derived in (timings_of(table).f64, timings_of(table).f32):
        assert derived.mean_error <= derived.worst_error <= 0.01


def test_a_taken_branch_costs_the_measured_core_less_than_a_cycle_per_k() -> None:
    ideal, measured = (timings_of(table).f64.timing for table in SHIPPED_TABLES)
    assert ideal.cycles_per_k == 16
    assert 16 < measured.cycles_per_k < 17


@pytest.mark.parametrize("table", SHIPPED_TABLES)
def test_the_form_of_chains_is_within_a_thousandth_of_its_samples(table: str) -> None:
    for dtype in ("f64", "f32"):
        derived = chain_timing(table, 8, dtype)
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
    machine, exact, product = load_machine(name), exact_gemm_cost(), MatrixProduct("n")
    for m, n, k, links in ((4, 32, 1, 9), (8, 32, 5, 3), (12, 16, 18, 4), (4, 16, 70, 2)):
        dims = {"m": m, "n": n, "k": k * links, "links": links}
        call = PricedCall(product, dims, dtype)
        assert product_cycles(machine, call) == pytest.approx(exact(machine, call), rel=0.01)


def test_another_mesh_or_table_is_another_question() -> None:
    asked = {question(table, mesh) for table in SHIPPED_TABLES for mesh in (4, 8)}
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("frame", lambda kernel, **_: ["    nop", f"    bsr $26, {kernel}"]),
        ("BLOCKS_AND_K", ((1, 1, 2), (1, 3, 8))),
        ("PACKED_BLOCKS_AND_K", ((1, 1, 4),)),
        ("CHAIN_SAMPLES", ((1, 1, 4, 2),)),
    ],
)
def test_another_frame_or_other_samples_are_another_question(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    before = question(SHIPPED_TABLES[0], 8)
    monkeypatch.setattr(module, name, value)
    assert question.__wrapped__(SHIPPED_TABLES[0], 8) != before


def test_a_mesh_that_is_not_shipped_is_derived_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    timings_of.cache_clear()
    found = timings_of("sw26010_cpe", 2)
    assert found.f64.timing.cycles_per_k == 16
    assert found.f64.timing.call_cycles < timings_of("sw26010_cpe").f64.timing.call_cycles
    monkeypatch.setattr(module, "derive_timings", None)
    timings_of.cache_clear()
    assert timings_of("sw26010_cpe", 2) == found
