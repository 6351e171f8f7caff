"""Tuning on a Dask cluster: a scheduler and two workers, processes of this computer."""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest
from distributed import Client, KilledWorker

from tilewright.common.errors import ToolError
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.seeds.gemm import gemm as gemm_seed
from tilewright.tune.executors import open_executor
from tilewright.tune.measure import EVERYTHING, SimulatedMeasure, measure_all, schedule_text
from tilewright.tune.records import Records
from tilewright.tune.search import rank

MACHINE = load_machine("sw26010_cg")
OP = gemm(128, 96, 64)
COUNT = 24
PATIENCE_SECONDS = 120


@contextmanager
def program(name, *arguments):
    """A program of Dask, which is ended with the block."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", f"distributed.cli.{name}", *arguments]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def cluster(tmp_path):
    """(address of the scheduler, the scheduler, its two workers), once both have come."""
    found = tmp_path / "scheduler.json"
    told = ["--scheduler-file", str(found), "--no-dashboard"]
    own = ["--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path)]
    with ExitStack() as stack:
        scheduler = stack.enter_context(
            program("dask_scheduler", "--host", "127.0.0.1", "--port", "0", *told)
        )
        workers = [stack.enter_context(program("dask_worker", *told, *own)) for _ in range(2)]
        where = address(found)
        with Client(f"tcp://{where}", timeout=PATIENCE_SECONDS) as client:
            client.wait_for_workers(2, timeout=PATIENCE_SECONDS)
        yield where, scheduler, workers


def address(file):
    """HOST:PORT, as soon as the scheduler has written it."""
    for _ in range(PATIENCE_SECONDS * 10):
        if file.exists() and (text := file.read_text(encoding="utf-8")).strip():
            return json.loads(text)["address"].removeprefix("tcp://")
        time.sleep(0.1)
    raise TimeoutError("the scheduler does not start")


@pytest.fixture(scope="module")
def candidates():
    (ranking,) = rank([(OP, gemm_seed(OP))], MACHINE, keep=EVERYTHING)
    return ranking.best[:COUNT]


def cycles(measured):
    return {schedule_text(m.candidate): m.cycles for m in measured}


def test_a_cluster_that_loses_a_worker_half_way_finds_the_same_as_local(
    cluster, candidates, tmp_path
):
    where, _, workers = cluster
    told = []

    def advance(done, total):
        told.append((done, total))
        if done == COUNT // 2:
            workers[0].kill()

    with Records(tmp_path / "records.db") as records, open_executor(f"dask://{where}") as executor:
        measured = measure_all(
            candidates,
            MACHINE,
            SimulatedMeasure(),
            records=records,
            executor=executor,
            advance=advance,
        )
        assert len(records) == COUNT
    assert workers[0].wait(PATIENCE_SECONDS) != 0
    assert workers[1].poll() is None
    assert told == [(done, COUNT) for done in range(1, COUNT + 1)]
    with open_executor("local:1") as executor:
        local = measure_all(candidates, MACHINE, SimulatedMeasure(), executor=executor)
    assert cycles(measured) == cycles(local)
    assert None not in cycles(measured).values()


def test_a_lost_scheduler_is_told(cluster, candidates):
    where, scheduler, _ = cluster
    with pytest.raises(ToolError) as caught, open_executor(f"dask://{where}") as executor:
        measure_all(
            candidates,
            MACHINE,
            SimulatedMeasure(),
            executor=executor,
            advance=lambda done, total: scheduler.kill(),
        )
    assert str(caught.value) == (
        "the cluster's scheduler is lost before all is done; "
        "look at the scheduler's messages; what was finished is recorded"
    )


def test_a_call_that_ends_its_workers_is_told(cluster):
    where, _, _ = cluster
    with pytest.raises(ToolError) as caught, open_executor(f"dask://{where}"):
        raise KilledWorker("call", None, 3)
    assert str(caught.value) == (
        "the cluster's workers end before all is done; "
        "look at the scheduler's messages; what was finished is recorded"
    )
