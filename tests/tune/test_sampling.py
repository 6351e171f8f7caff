"""Disturbed samples are thrown away, contenders are compared round by round."""

import math
import os
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import BusyError
from tilewright.tune import sampling
from tilewright.tune.sampling import (
    Contender,
    Protocol,
    Sample,
    Timing,
    calls_for,
    interleaved,
    ratio_of_speeds,
)

SECONDS = {"fast": 1e-6, "slow": 3e-6}


def scripted(monkeypatch, disturbed):
    """Samples by the script: number i of a contender takes twice as long if `disturbed(i)`."""
    taken = dict.fromkeys(SECONDS, 0)

    class Scripted(Contender):
        def sample(self, calls):
            taken[self.name] += 1
            cpu = SECONDS[self.name] * calls
            return Sample(cpu * (2 if disturbed(taken[self.name]) else 1), cpu, calls)

    monkeypatch.setattr(sampling, "calls_for", lambda contender, seconds: 10)
    return [Scripted(name, print) for name in SECONDS]


def test_only_undisturbed_samples_count(monkeypatch):
    contenders = scripted(monkeypatch, lambda number: number % 3)
    timings = interleaved(contenders, Protocol(rounds=5))
    assert timings["fast"].seconds == pytest.approx(1e-6)
    assert timings["slow"].seconds == pytest.approx(3e-6)
    assert [len(t.by_round) for t in timings.values()] == [5, 5]
    assert timings["fast"].disturbed == 10
    ratio = ratio_of_speeds(timings["fast"], timings["slow"])
    assert (ratio.median, ratio.rounds) == (pytest.approx(3.0), 5)
    assert ratio.spread == pytest.approx(0.0)


def test_a_busy_machine_is_timed_by_processor_time(monkeypatch):
    contenders = scripted(monkeypatch, lambda number: True)
    timings = interleaved(contenders, Protocol(rounds=3, patience=20))
    assert {t.clock for t in timings.values()} == {"processor"}
    assert [len(t.by_round) for t in timings.values()] == [6, 6]
    assert timings["slow"].seconds == pytest.approx(3e-6)
    assert timings["slow"].disturbed == 6


@pytest.mark.parametrize(("good", "clock"), [(2, "wall"), (1, "processor")])
def test_a_third_of_the_wanted_rounds_is_enough_for_wall_time(monkeypatch, good, clock):
    contenders = scripted(monkeypatch, lambda number: number <= 12 - good)
    timings = interleaved(contenders, Protocol(rounds=6, patience=2))
    assert {t.clock for t in timings.values()} == {clock}
    assert {len(t.by_round) for t in timings.values()} == {good if clock == "wall" else 12}


def test_who_hurries_takes_fewer_rounds_of_samples_as_long_or_shorter():
    protocol = Protocol(rounds=15, sample_seconds=0.5)
    assert protocol.hurried(3) == Protocol(rounds=3, sample_seconds=0.5)
    assert protocol.hurried(3, 0.25) == Protocol(rounds=3, sample_seconds=0.25)


def test_waiting_threads_cannot_be_timed_so(monkeypatch):
    one, other = scripted(monkeypatch, lambda number: True)
    monkeypatch.setattr(os, "getloadavg", lambda: (7.25, 0, 0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with pytest.raises(BusyError) as caught:
        interleaved([one, replace(other, threads=2)], Protocol(rounds=3))
    assert str(caught.value) == (
        "0 undisturbed samples of 'slow' on 2 threads: the load is 7.2 on 2 processors; "
        "measure while the computer is less busy"
    )


def test_a_sample_runs_the_contender_so_often_as_it_says():
    calls = []
    taken = Contender("it", calls.append).sample(7)
    assert calls == [7]
    assert taken.calls == 7
    assert taken.wall_seconds >= 0


def test_short_work_is_repeated():
    assert calls_for(Contender("nothing", lambda calls: sum(range(calls))), 1e-3) > 100


def test_samples_of_work_that_waits_take_sixteen_times_as_long():
    class Waits(Contender):
        def sample(self, calls):
            return Sample(1e-2 * calls, 1e-5 * calls, calls)

    assert calls_for(Waits("waits", print), 0.5) == 16 * 50


@pytest.mark.parametrize("threads", [1, 2])
def test_a_slow_first_run_does_not_shorten_the_samples(threads):
    """Threads that sleep and cold caches: the first runs say nothing of the later ones."""
    runs = []

    class WakesUp(Contender):
        def sample(self, calls):
            runs.append(calls)
            seconds = 1e-3 * calls + (0.5 if len(runs) == 1 else 0.0)
            return Sample(seconds, self.threads * seconds, calls)

    assert calls_for(WakesUp("wakes up", print, threads), 0.9) == 900
    assert runs == [1, 1, 8, 64, 512]


@pytest.mark.parametrize(
    ("wanted", "longest"),
    [(1, 1), (2, 1), (3, 3), (16, 8), (17, 17), (128, 64), (129, 129), (2**40, 2**30)],
)
def test_a_run_at_least_half_as_long_as_a_sample_is_believed_and_so_is_the_longest(wanted, longest):
    runs = []

    class Steady(Contender):
        def sample(self, calls):
            runs.append(calls)
            return Sample(calls * 2.0**-12, calls * 2.0**-12, calls)

    assert calls_for(Steady("steady", print), wanted * 2.0**-12) == wanted
    assert (runs[:2], runs[-1], len(runs)) == ([1, 1], longest, len({*runs}) + 1)


@pytest.mark.parametrize(
    ("cpu", "threads", "good"),
    [(0.97, 1, True), (0.96, 1, False), (1.93, 2, False), (1.94, 2, True)],
)
def test_every_thread_needs_a_processor(cpu, threads, good):
    for wall in (0.25, 1.0, 4.0):
        assert Sample(wall, cpu * wall, 1).is_undisturbed(0.97, threads) is good


@given(st.dictionaries(st.integers(0, 40), st.floats(1e-9, 1.0), min_size=2))
def test_a_timing_is_the_median_of_its_rounds(by_round):
    timing = Timing(by_round)
    assert timing.seconds == statistics.median(by_round.values())
    assert timing.best_seconds <= timing.seconds
    assert ratio_of_speeds(timing, timing).median == 1.0


def test_nothing_measured_is_no_number():
    assert math.isnan(Timing().seconds)
    assert math.isnan(ratio_of_speeds(Timing({1: 1.0}), Timing({2: 1.0})).median)
