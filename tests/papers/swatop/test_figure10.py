"""swATOP Fig. 10: the eight best of the baseline for each size, and what is gained there."""

import pytest

from tilewright.papers.lab import Lab
from tilewright.papers.swatop import figure10
from tilewright.papers.swatop.figure10 import SHOWN, best_of_baseline, gain
from tilewright.papers.swatop.listings import SIZES, listing1
from tilewright.papers.swatop.schedules import Outcome


def versions(late, tuned, ahead=1000):
    cycles = {"late": late, "late, tuned": tuned, "ahead": ahead}
    return {name: Outcome(cycles=n, efficiency=1 / n) for name, n in cycles.items()}


def test_the_eight_most_efficient_of_each_baseline_are_shown():
    ops = listing1()
    found = {op: versions(late=2000 - i, tuned=1000 + i) for i, op in enumerate(ops)}
    for size in SIZES:
        of_size = [op for op in ops if op.out_height == size]
        assert best_of_baseline(found, size, "late, tuned") == of_size[:SHOWN]
        assert best_of_baseline(found, size, "late") == of_size[: -SHOWN - 1 : -1]


def test_the_gain_is_in_speed():
    assert gain(versions(1800, 1654), "late, tuned") == pytest.approx(0.654)


def test_the_quick_form(monkeypatch):
    monkeypatch.setattr(figure10, "QUICK", 1)
    result = figure10.run(Lab(quick=True))
    means = {row.name: row for row in result.rows if "mean" in row.name}
    tuned, same = (
        means[f"mean gain over the baseline, {kind}, those shown"]
        for kind in ("tuned", "same schedule")
    )
    assert 0 < tuned.ours <= same.ours
    assert (tuned.published, same.published) == (0.654, 0.654)
    cases = [row for row in result.rows if "->" in row.name]
    assert len(cases) == 2 * 2 * 1
    for baseline, ahead in zip(cases[::2], cases[1::2], strict=True):
        assert baseline.ours < ahead.ours
    (axes,) = figure10.draw(result).axes
    legend = {text.get_text() for text in axes.get_legend().get_texts()}
    assert legend == {"baseline, tuned", "ahead", "peak"}
