"""The shipped templates of the matrix primitive are as good as what the search finds."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import msgspec
import pytest

from tilewright.targets.sw26010.gemm import template as module
from tilewright.targets.sw26010.gemm.shape import F32, F64
from tilewright.targets.sw26010.gemm.template import (
    TEMPLATES,
    gemm_template,
    search_template,
    shipped_templates,
    shipped_text,
)


def test_the_shipped_templates_are_as_good_as_what_the_search_finds(
    request: pytest.FixtureRequest,
) -> None:
    found = {precision.name: search_template(precision) for precision in (F64, F32)}
    if request.config.getoption("--update-golden", default=False):
        path = Path(str(resources.files(module.__package__) / TEMPLATES))
        path.write_text(shipped_text(found), encoding="utf-8")
    for precision in (F64, F32):
        shipped, searched = gemm_template(precision), found[precision.name]
        question = f'question = "{shipped_templates()[precision.name].question}"'
        assert question in shipped_text(found), "what is shipped is not used, but searched again"
        assert shipped.schedule.times == shipped_templates()[precision.name].times
        assert shipped.schedule.graph == searched.schedule.graph
        assert shipped.slack_cycles == searched.slack_cycles
        assert shipped.schedule.statement() == searched.schedule.statement()


OTHER = {
    "another question": lambda found: {"question": "0" * 16},
    "another interval": lambda found: {"interval_cycles": found.interval_cycles + 1},
    "an impossible time": lambda found: {"times": (found.times[0] + 1, *found.times[1:])},
    "a missing time": lambda found: {"times": found.times[:-1]},
}


@pytest.mark.parametrize("change", OTHER)
def test_others_are_searched_again(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shipped_templates()["f64"]
    other = msgspec.structs.replace(found, **OTHER[change](found))
    monkeypatch.setattr(module, "shipped_templates", lambda: {"f64": other})
    monkeypatch.setattr(module, "search_template", lambda precision: "searched")
    gemm_template.cache_clear()
    try:
        assert gemm_template(F64) == "searched"
    finally:
        gemm_template.cache_clear()


def test_a_verdict_that_is_kept_loads_no_solver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gemm_template.cache_clear()
    first = gemm_template(F64)
    gemm_template.cache_clear()
    monkeypatch.setattr(module, "modulo_solver", None)
    assert gemm_template(F64) == first
