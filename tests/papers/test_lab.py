"""The lab: results in order, each computed once, whoever is killed in between."""

import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from support import paper_cases
from support.paper_cases import Square, square, squares
from tilewright.common.errors import RecordError
from tilewright.papers import lab as lab_module
from tilewright.papers.lab import Lab, ResultRecords, sources_digest, spread_sample
from tilewright.papers.model import ExperimentError
from tilewright.tune.executors import open_executor
from tilewright.tune.records import Records


@pytest.fixture(autouse=True)
def no_calls():
    paper_cases.calls.clear()


def test_results_come_in_the_order_of_the_cases_and_typed():
    assert Lab().map(square, [3, 1, 2]) == [Square(3, 9), Square(1, 1), Square(2, 4)]


def test_cases_that_are_computed_together_are_recorded_one_by_one(tmp_path):
    with ResultRecords(tmp_path / "r.db") as records:
        Lab(records=records).map_together(squares, [1, 2, 3])
        assert len(records) == 3
        assert Lab(records=records).map_together(squares, [3, 5]) == [Square(3, 9), Square(5, 25)]
    assert paper_cases.calls == [1, 2, 3, 5]


def test_what_fails_together_names_all_cases():
    with pytest.raises(ExperimentError) as caught:
        Lab().map_together(squares, [1, -4])
    assert str(caught.value) == (
        "support.paper_cases.squares of 1, -4: side is -4; give a side of at least 0"
    )


def test_a_case_that_occurs_twice_is_computed_once():
    assert [s.area for s in Lab().map(square, [2, 5, 2])] == [4, 25, 4]
    assert paper_cases.calls == [2, 5]


def test_recorded_results_are_not_computed_again(tmp_path):
    with ResultRecords(tmp_path / "r.db") as records:
        Lab(records=records).map(square, [1, 2])
    with ResultRecords(tmp_path / "r.db") as records:
        found = Lab(records=records).map(square, [1, 2, 3])
        assert len(records) == 3
    assert found == [Square(1, 1), Square(2, 4), Square(3, 9)]
    assert paper_cases.calls == [1, 2, 3]


def test_results_of_other_code_are_not_used(tmp_path, monkeypatch):
    with ResultRecords(tmp_path / "r.db") as records:
        Lab(records=records).map(square, [1])
        monkeypatch.setattr(lab_module, "sources_digest", lambda module: "other")
        Lab(records=records).map(square, [1])
    assert paper_cases.calls == [1, 1]


def test_workers_compute_and_progress_is_told():
    told = []
    with open_executor("local:2") as executor:
        lab = Lab(executor=executor, advance=lambda *x: told.append(x), experiment="a/b")
        assert [s.area for s in lab.map(square, range(40))] == [i * i for i in range(40)]
    assert paper_cases.calls == []
    assert told == [("a/b", done, 40) for done in range(41)]


def test_what_fails_names_the_function_and_the_case():
    with pytest.raises(ExperimentError) as caught:
        Lab().map(square, [1, -4])
    assert str(caught.value) == (
        "support.paper_cases.square of -4: side is -4; give a side of at least 0"
    )


KILLED = """
import sys
from support.paper_cases import square
from tilewright.papers.lab import Lab, ResultRecords
with ResultRecords(sys.argv[1]) as records:
    Lab(records=records, advance=lambda *x: print(x[1], flush=True)).map(square, range(5000))
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    path = tmp_path / "r.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        done = [int(process.stdout.readline()) for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        done += [int(line) for line in process.stdout.read().split()]
    with ResultRecords(path) as records:
        Lab(records=records).map(square, range(done[-1] + 2))
    assert set(paper_cases.calls) <= {done[-1], done[-1] + 1}


def test_records_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "r.db"
    Records(path).close()
    with pytest.raises(RecordError) as caught:
        ResultRecords(path)
    assert str(caught.value) == (
        f"{path}: is a database of another program; give another file, or move this one away"
    )


def test_the_digest_follows_imports_within_papers(tmp_path, monkeypatch):
    package = tmp_path / "tilewright"
    files = {
        "cost/model.py": "x = 1",
        "report/view.py": "x = 1",
        "papers/one.py": "from tilewright.papers.shared import x",
        "papers/two.py": "",
        "papers/shared.py": "x = 1",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.setattr(lab_module, "PACKAGE", package)

    def changed_by(name):
        sources_digest.cache_clear()
        before = {m: sources_digest(f"tilewright.papers.{m}") for m in ("one", "two")}
        (package / name).write_text(files[name] + "\ny = 2")
        sources_digest.cache_clear()
        after = {m: sources_digest(f"tilewright.papers.{m}") for m in before}
        return {m for m in before if before[m] != after[m]}

    found = {name: changed_by(name) for name in files}
    sources_digest.cache_clear()
    assert found == {
        "cost/model.py": {"one", "two"},
        "report/view.py": set(),
        "papers/one.py": {"one"},
        "papers/two.py": {"two"},
        "papers/shared.py": {"one"},
    }


@pytest.mark.parametrize("total", [1, 2, 7, 30, 225])
def test_a_larger_sample_contains_a_smaller_one(total):
    take = partial(spread_sample, range(total))
    assert take(None) == take(total) == take(total + 1) == list(range(total))
    for count in range(1, total):
        assert len(take(count)) == count
        assert set(take(count)) <= set(take(count + 1))


def test_a_quick_run_takes_some_of_the_cases():
    assert Lab().some(range(5), 2) == [0, 1, 2, 3, 4]
    assert len(Lab(quick=True).some(range(5), 2)) == 2
