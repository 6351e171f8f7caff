"""swATOP Fig. 9: the pick against the best, found with and without leaving out."""

import pytest

from tilewright.ops import conv2d
from tilewright.papers.lab import Lab
from tilewright.papers.swatop import figure9
from tilewright.papers.swatop.figure9 import Found, SearchCase, _shares, search
from tilewright.papers.swatop.listings import listing1
from tilewright.papers.swatop.schedules import Setting

SMALL = conv2d(batch=1, in_channels=8, out_channels=32, height=8, width=8, kernel=3, padding=1)


def test_leaving_out_what_cannot_win_finds_the_same_best():
    few, every = (
        search(SearchCase(SMALL, "winograd2", Setting(), everything=e)) for e in (False, True)
    )
    assert few.best_cycles == every.best_cycles <= few.picked_cycles
    assert few.simulated < every.simulated == every.priced
    assert every.lowest_bound_ratio >= 1


def test_what_exceeds_main_memory_is_said():
    tiny = Setting("sw26010", (("memory.main.capacity_bytes", "1000"),))
    found = search(SearchCase(SMALL, "implicit", tiny))
    assert found == Found(refusal="its tensors exceed the main memory of a core group")


def test_shares_are_of_the_best_performance():
    ops = listing1()[:3]
    found = dict(zip(ops, [Found(picked_cycles=100, best_cycles=100)] * 2, strict=False))
    found[ops[2]] = Found(picked_cycles=100, best_cycles=97)
    mean, worst = _shares("implicit", found, {"mean": 0.98, "worst": 0.92})
    assert (mean.ours, mean.published) == (pytest.approx(0.99), 0.98)
    assert (worst.ours, worst.published) == (0.97, 0.92)


def test_the_quick_form(monkeypatch):
    monkeypatch.setattr(figure9, "QUICK", 1)
    monkeypatch.setattr(figure9, "CASES", {"implicit": None, "explicit": 1})
    result = figure9.run(Lab(quick=True))
    names = [row.name for row in result.rows]
    assert names[:4] == [
        "implicit, mean share", "implicit, worst share",
        "explicit, mean share", "explicit, worst share",
    ]  # fmt: skip
    assert [row.name for row in result.rows[4:]] == [listing1()[0].describe()]
    assert result.summary["simulated / bound, lowest"] >= 1
    (axes,) = figure9.draw(result).axes
    assert len(axes.lines[0].get_xdata()) == 1
