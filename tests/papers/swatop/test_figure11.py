"""swATOP Fig. 11: what boundaries cost in both ways."""

import pytest

from tilewright.ops import gemm
from tilewright.papers.lab import Lab
from tilewright.papers.swatop import figure11
from tilewright.papers.swatop.figure11 import (
    BoundaryCost,
    Costs,
    ProductCase,
    _counts,
    _limits,
    boundary_costs,
)
from tilewright.papers.swatop.schedules import Setting

ON = Setting("sw26010_cg")


def test_copying_is_part_of_the_overhead():
    costs = boundary_costs(ProductCase(gemm(200, 200, 200), ON))
    for cost in (costs.lightweight, costs.classic):
        assert 0 < cost.copying <= cost.overhead < 1
    assert costs.lightweight.copying < costs.classic.copying
    assert costs.lightweight.cycles < costs.classic.cycles


def test_a_product_without_boundaries_re_packs_nothing():
    light = boundary_costs(ProductCase(gemm(256, 256, 64), ON)).lightweight
    assert light.copying == 0
    assert light.overhead == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(("overhead", "above"), [(0.05, 0), (0.06, 1)])
def test_only_cases_above_the_limit_of_the_classic_way_are_shown(overhead, above):
    costs = Costs(BoundaryCost(100, 0.02, overhead), BoundaryCost(150, 0.3, 0.4))
    rows = list(_limits({gemm(200, 200, 200): costs}, {"classic": 0.1, "lightweight": 0.05}, ""))
    assert (rows[0].name, rows[0].ours) == (
        "cases with classic copying above 10 %, the ones shown", 1,
    )  # fmt: skip
    assert (rows[1].published, rows[1].ours) == (0.05, 0.02)
    assert rows[3].note == f"{above} cases above 5 %, for their zeros"
    assert (rows[0].note, rows[1].note.partition(";")[0]) == ("", "printed as an upper bound")


def test_shares_are_counted_between_edges():
    assert list(_counts([0.0, 0.009, 0.05, 0.99])) == [
        "0 to 1 %: 2",
        "5 to 10 %: 1",
        "50 to 100 %: 1",
    ]


def test_the_quick_form(monkeypatch):
    monkeypatch.setattr(figure11, "QUICK", 1)
    result = figure11.run(Lab(quick=True))
    assert result.rows[0].note == "of 1 of 216 cases"
    assert result.notes[1] == (
        "both ways with this project's matrix product, 16.6 cycles per k on sw26010_measured, "
        "one core group"
    )
    cases = [row for row in result.rows if " x " in row.name]
    assert [row.name.rsplit(", ", 1)[1] for row in cases] == ["lightweight", "classic"]
    assert result.summary["cases"] == 1
    (axes,) = figure11.draw(result).axes
    assert len(axes.patches) == 2
