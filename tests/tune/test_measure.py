"""Measuring candidates: the order is that of the measure, and finished work is never repeated."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import pytest

from tilewright.common.errors import CapacityError, ToolError
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.seeds.gemm import gemm as gemm_seed
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.measure import EVERYTHING, SimulatedMeasure, measure_all, schedule_text
from tilewright.tune.records import Records, subject
from tilewright.tune.search import rank

MACHINE = load_machine("sw26010_cg")
OP = gemm(256, 192, 128)

TUNER = """
import sys
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.seeds.gemm import gemm as gemm_seed
from tilewright.tune.measure import SimulatedMeasure, measure_all
from tilewright.tune.records import Records
from tilewright.tune.search import rank
op, machine = gemm(256, 192, 128), load_machine("sw26010_cg")
(ranking,) = rank([(op, gemm_seed(op))], machine, keep=40)
with Records(sys.argv[1]) as records:
    measure_all(ranking.best, machine, SimulatedMeasure(), records=records,
                advance=lambda done, total: print(done, flush=True))
"""


@dataclass
class Counting:
    """A measure that counts its calls and ranks programs by the length of their text."""

    kind: str = "length"
    calls: int = 0

    def cycles(self, program_text, machine):
        self.calls += 1
        return len(program_text)


@dataclass
class Together(Counting):
    """For programs that may be compared within one run only."""

    def cycles_of(self, program_texts, machine):
        self.calls += 1
        return [len(text) if "32" in text else CapacityError(text[:3]) for text in program_texts]


@dataclass
class Failing:
    kind: str = "failing"

    def cycles(self, program_text, machine):
        raise CapacityError("out of luck", fix="try another")


@pytest.fixture(scope="module")
def candidates():
    (ranking,) = rank([(OP, gemm_seed(OP))], MACHINE, keep=EVERYTHING)
    return ranking.best


def test_the_whole_space_is_listed_once_best_by_the_model_first(candidates):
    (ranking,) = rank([(OP, gemm_seed(OP))], MACHINE, keep=1)
    texts = [schedule_text(c) for c in candidates]
    cycles = [round(c.cycles, 6) for c in candidates]  # estimates equal but for rounding are equal
    assert len(set(texts)) == len(texts) == ranking.counts.priced
    assert cycles == sorted(cycles)
    assert cycles[0] == round(ranking.best[0].cycles, 6)


def test_what_is_comparable_in_one_run_only_is_measured_in_one(candidates, tmp_path):
    measure, some = Together(), [*candidates[:20], *candidates[:5]]
    with Records(tmp_path / "r.db") as records:
        measured = measure_all(some, MACHINE, measure, records=records)
        measure_all(some, MACHINE, measure, records=records)
    assert measure.calls == 2
    assert [id(m.candidate) for m in measured] != []
    known = [m.cycles for m in measured if m.cycles is not None]
    assert known == sorted(known)
    assert len(measured) == 25
    assert all(m.failure for m in measured if m.cycles is None)


def test_a_schedule_text_names_algorithm_nests_and_factors(candidates):
    lines = schedule_text(candidates[0]).splitlines()
    assert lines[:2] == ["algorithm gemm", "nest gemm"]
    assert lines[-1].startswith("factors(a_copies=")


def test_measuring_puts_candidates_in_the_order_of_the_measure(candidates):
    measured = measure_all(candidates[:9], MACHINE, Counting())
    assert [m.cycles for m in measured] == sorted(m.cycles for m in measured)
    assert {id(m.candidate) for m in measured} == {id(c) for c in candidates[:9]}


def test_simulating_gives_the_cycles_of_the_candidates_program(candidates):
    (only,) = measure_all(candidates[:1], MACHINE, SimulatedMeasure())
    assert only.cycles == simulate(candidates[0].program(MACHINE), MACHINE).cycles


def test_a_schedule_that_occurs_twice_is_measured_once(candidates):
    measure, twice = Counting(), [candidates[0], candidates[1], candidates[0]]
    measured = measure_all(twice, MACHINE, measure)
    assert (len(measured), measure.calls) == (3, 2)


def test_candidates_that_cannot_run_come_last_with_the_reason(candidates):
    (only,) = measure_all(candidates[:1], MACHINE, Failing())
    assert (only.cycles, only.failure) == (None, "out of luck; try another")


def test_what_is_recorded_is_not_measured_again(candidates, tmp_path):
    with Records(tmp_path / "r.db") as records:
        first, again = Counting(), Counting()
        before = measure_all(candidates[:5], MACHINE, first, records=records)
        after = measure_all(candidates[:7], MACHINE, again, records=records)
    assert (first.calls, again.calls) == (5, 2)
    known = {id(m.candidate): m.cycles for m in after}
    assert all(known[id(m.candidate)] == m.cycles for m in before)


def test_threads_and_processes_give_what_one_process_gives(candidates):
    alone = [m.cycles for m in measure_all(candidates[:6], MACHINE, SimulatedMeasure())]
    with ThreadPoolExecutor(2) as threads:
        assert alone == [
            m.cycles
            for m in measure_all(candidates[:6], MACHINE, SimulatedMeasure(), executor=threads)
        ]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        assert alone == [
            m.cycles
            for m in measure_all(candidates[:6], MACHINE, SimulatedMeasure(), executor=processes)
        ]


@dataclass
class Deadly:
    """A measure whose worker does not survive."""

    kind: str = "deadly"

    def cycles(self, program_text, machine):
        os._exit(9)


def test_workers_that_die_are_told(candidates):
    with (
        ProcessPoolExecutor(1, mp_context=get_context("fork")) as processes,
        pytest.raises(ToolError, match=r"^the executor's workers ended: .*; leave the executor, "),
    ):
        measure_all(candidates[:3], MACHINE, Deadly(), executor=processes)


def test_progress_is_told_after_each_measurement(candidates):
    told = []
    measure_all(candidates[:3], MACHINE, Counting(), advance=lambda *count: told.append(count))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_killed_tuner_resumes_where_it_was(candidates, tmp_path):
    path = tmp_path / "r.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", TUNER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        finished = [int(process.stdout.readline()) for _ in range(5)][-1]
        process.send_signal(signal.SIGKILL)
    with Records(path) as records:
        kept = len(records)
        resumed = measure_all(candidates[:40], MACHINE, SimulatedMeasure(), records=records)
        assert finished <= kept < 40
        assert len(records) == 40
    undisturbed = measure_all(candidates[:40], MACHINE, SimulatedMeasure())
    assert [m.cycles for m in resumed] == [m.cycles for m in undisturbed]


def test_records_are_those_of_the_text_that_is_measured(candidates, tmp_path):
    """A worker gets the printed program, which parses back to an equal one."""

    class Parsing(Counting):
        def cycles(self, program_text, machine):
            return simulate(parse(program_text), machine).cycles

    with Records(tmp_path / "r.db") as records:
        measure_all(candidates[:1], MACHINE, Parsing(), records=records)
        what = subject(OP, MACHINE, schedule_text(candidates[0]), "length")
        assert records.get(what) == simulate(candidates[0].program(MACHINE), MACHINE).cycles
