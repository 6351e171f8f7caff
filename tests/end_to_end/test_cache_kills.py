"""A killed compilation leaves nothing that the next process stumbles over (`make fuzz-cache`)."""

import time

import pytest

from support.cache_kills import UNITS, answers, compile_and_call, kill_round


@pytest.mark.parametrize("number", range(6))
def test_a_killed_process_and_a_damaged_cache_are_repaired_without_a_word(number, tmp_path):
    started = time.perf_counter()
    assert answers(1000 + number, tmp_path) == (0, f"{list(range(UNITS + 1))}\n", "")
    kill_round(number, tmp_path, span_seconds=time.perf_counter() - started)


def test_the_libraries_of_a_round_answer_their_number(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compile_and_call(7, 2) == compile_and_call(7, 2) == [0, 1]
