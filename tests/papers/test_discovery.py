"""Experiments are found by name, and each runs quickly by the code of the full run."""

import pytest

from tilewright.papers import discovery
from tilewright.papers.discovery import load_experiment, select, titles
from tilewright.papers.model import ExperimentError


def test_a_module_that_says_its_title_is_an_experiment(tmp_path, monkeypatch):
    (tmp_path / "paper").mkdir()
    for name in ("figure10", "figure9", "table1"):
        (tmp_path / "paper" / f"{name}.py").write_text(f"TITLE = 'about {name}'\n")
    (tmp_path / "paper" / "helper.py").write_text("title = 'none'\n")
    (tmp_path / "paper" / "tables.py").write_text("TITLES = {'table2': 'about table2'}\n")
    (tmp_path / "model.py").write_text("TITLE = 'of no paper'\n")
    monkeypatch.setattr(discovery, "_ROOT", tmp_path)
    assert list(titles().items()) == [
        ("paper/figure9", "about figure9"),
        ("paper/figure10", "about figure10"),
        ("paper/table1", "about table1"),
        ("paper/table2", "about table2"),
    ]
    assert select("paper") == list(titles())
    assert select("paper/table1") == ["paper/table1"]
    with pytest.raises(ExperimentError) as caught:
        select("paper/table3")
    assert str(caught.value) == (
        "there is no experiment 'paper/table3'; "
        "the experiments are paper/figure9, paper/figure10, paper/table1, paper/table2"
    )


@pytest.mark.parametrize("name", titles())
def test_every_experiment_can_be_loaded(name):
    experiment = load_experiment(name)
    assert experiment.title == titles()[name]
    own = name.rpartition("/")[2]
    assert callable(getattr(experiment.module, own, None) or experiment.module.run)
    assert experiment.module.__doc__
