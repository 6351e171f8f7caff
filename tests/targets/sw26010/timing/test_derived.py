"""Timings of every kind of routine: shipped under today's question, else derived and kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.examples import one_in
from support.routines import assembled
from tilewright.targets.sw26010.calls import prices
from tilewright.targets.sw26010.calls.nest_rows import OUTER_LOOPS, NestRows
from tilewright.targets.sw26010.elementwise.lie import Lie
from tilewright.targets.sw26010.elementwise.maps import MapRoutine, map_routine
from tilewright.targets.sw26010.elementwise.reduce import reduce_routine
from tilewright.targets.sw26010.gemm.shape import F32, F64
from tilewright.targets.sw26010.timing.derived import SHIPPED_TABLES, Derived
from tilewright.targets.sw26010.timing.maps import MAPS
from tilewright.targets.sw26010.timing.nests import NESTS, encoded
from tilewright.targets.sw26010.timing.products import PRODUCTS, MatrixPrimitive
from tilewright.targets.sw26010.timing.reductions import REDUCTIONS

KINDS = {kind.path.stem: kind for kind in (NESTS, MAPS, REDUCTIONS, PRODUCTS)}
ELEMENTWISE = ("nests", "maps", "reductions")


@pytest.fixture(scope="module", autouse=True)
def _written(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden", default=False):
        for kind in KINDS.values():
            kind.write()


@one_in(2)
@pytest.mark.parametrize("table", SHIPPED_TABLES)
@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_the_shipped_timings_are_what_the_code_takes_today(kind: str, table: str) -> None:
    assert KINDS[kind].derive_frequent(table) == KINDS[kind].shipped[table]


@pytest.mark.parametrize(
    ("table", "precision"), [*zip(SHIPPED_TABLES, (F64, F32), strict=True)], ids=SHIPPED_TABLES
)
def test_the_shipped_timings_of_products_are_what_the_code_takes_today(
    table: str, precision: Any
) -> None:
    """Each core and each element type once: what changes the code is in the question of all."""
    shipped = PRODUCTS.shipped[table]
    assert shipped.question == PRODUCTS.question(table)
    for primitive in (MatrixPrimitive(precision), MatrixPrimitive(precision, chained=True)):
        assert PRODUCTS.derive(table, primitive) == shipped.routines[primitive.timed_as]


def underivable(kind: Derived[Any, Any]) -> Derived[Any, Any]:
    """A copy of the kind that fails to derive anything."""
    return replace(kind, samples=lambda routine, mode: pytest.fail(routine.timed_as))


@pytest.mark.parametrize("table", SHIPPED_TABLES)
@pytest.mark.parametrize("kind", KINDS)
def test_frequent_routines_are_timed_without_a_derivation(kind: str, table: str) -> None:
    shipped = KINDS[kind].shipped[table].routines
    frequent = KINDS[kind].frequent()
    found = {r.timed_as: underivable(KINDS[kind]).timing(table, r) for r in frequent}
    assert found == shipped


@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_samples_that_are_simulated_together_take_what_each_takes_alone(kind: str) -> None:
    own, table = KINDS[kind], SHIPPED_TABLES[0]
    routine = next(iter(own.frequent()))
    for mode in routine.modes:
        samples = list(own.samples(routine, mode))[::9]
        alone = [own.simulate(table, routine, mode, [sample])[0] for sample in samples]
        assert own.simulate(table, routine, mode, samples) == alone


def test_a_mode_that_no_candidate_takes_is_not_derived(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    table, asked = SHIPPED_TABLES[0], list[str]()
    routine = map_routine("x0 * 0.125 + 3.0", (False,), "f64")
    assert routine is not None

    def samples(own: MapRoutine, mode: str) -> Any:
        asked.append(mode)
        return MAPS.samples(own, mode)

    monkeypatch.setattr(prices, "MAPS", replace(MAPS, samples=samples))
    rows = NestRows(
        np.array([16, 33]), np.array([1, 1]), (0,) * OUTER_LOOPS, np.array([True, False])
    )
    whole = prices.routine_cycles(table, routine, rows, np.array([True, False]))
    assert asked == ["vectors"]
    each = prices.routine_cycles(table, routine, rows)
    assert asked == ["vectors", "elements"]
    assert whole[0] == each[0]


@pytest.mark.parametrize("table", SHIPPED_TABLES)
@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_what_is_timed_is_what_the_text_assembles_to(kind: str, table: str) -> None:
    for routine in [*KINDS[kind].frequent()][::4]:
        timed, text = encoded(routine, table), assembled(routine.text(), table)
        assert np.array_equal(timed.code, text.code)
        assert timed.entry(routine.name) == text.entry(routine.name)


@pytest.mark.parametrize("table", SHIPPED_TABLES)
@pytest.mark.parametrize(
    ("own", "other"),
    [("x0 * 0.0001220703125", "x0 * 0.25"), ("x0 * 0.1 + 0.3", "x0 * 0.7 + 0.6")],
)
def test_values_of_constants_do_not_change_cycles(own: str, other: str, table: str) -> None:
    lie = Lie(1, loops=True)
    for kind, found in (
        (MAPS, [map_routine(text, (False,), "f64") for text in (own, other)]),
        (REDUCTIONS, [reduce_routine("sum", text, lie, "f64") for text in (own, other)]),
    ):
        one, two = found
        assert one is not None
        assert two is not None
        assert one.name != two.name
        assert one.timed_as == two.timed_as
        assert kind.derive(table, one) == kind.derive(table, two)


def test_constants_that_take_more_instructions_have_other_cycles() -> None:
    few, many = (map_routine(f"x0 * {number}", (False,), "f64") for number in (0.25, 0.1))
    assert few is not None
    assert many is not None
    assert few.timed_as != many.timed_as


def test_another_table_or_kind_is_another_question() -> None:
    asked = {kind.question(table) for kind in KINDS.values() for table in SHIPPED_TABLES}
    assert len(asked) == 8


def test_other_makers_are_another_question() -> None:
    fewer = replace(MAPS, makers=MAPS.makers[1:])
    assert fewer.question(SHIPPED_TABLES[0]) != MAPS.question(SHIPPED_TABLES[0])


def test_what_is_not_shipped_is_derived_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    small = MatrixPrimitive(F64, mesh=2)
    found = replace(PRODUCTS).timing("sw26010_cpe", small)
    shipped = PRODUCTS.timing("sw26010_cpe", MatrixPrimitive(F64))
    assert found["product"].coefficients[3] == 16
    assert found["product"].coefficients[0] < shipped["product"].coefficients[0]
    assert underivable(PRODUCTS).timing("sw26010_cpe", small) == found
