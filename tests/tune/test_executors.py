"""Executors by name: this process, processes of this computer, a cluster."""

import signal
import threading
import time

import pytest

from tilewright.common.errors import ToolError
from tilewright.tune import executors
from tilewright.tune.executors import open_executor


def refusal(name):
    with pytest.raises(ToolError) as caught, open_executor(name):
        pass
    return str(caught.value)


def test_inline_is_no_executor():
    with open_executor("inline") as executor:
        assert executor is None


def test_local_processes_compute():
    with open_executor("local:1") as executor:
        assert executor.submit(pow, 3, 4).result() == 81


def test_local_processes_leave_an_interrupt_to_this_one():
    with open_executor("local:1") as executor:
        blocked = executor.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
    assert blocked == {signal.SIGINT}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def interrupted_at_work():
    with open_executor("local:1") as executor:
        assert executor.submit(pow, 3, 4).result() == 81
        executor.submit(time.sleep, 3600)
        raise KeyboardInterrupt


def test_an_interrupt_does_not_wait_for_what_processes_compute():
    with pytest.raises(KeyboardInterrupt):
        interrupted_at_work()


@pytest.mark.parametrize("name", ["", "local:0", "local:x", "dask://", "ssh://host:1"])
def test_unknown_words_are_refused(name):
    assert refusal(name) == (
        f"unknown executor {name!r}; use inline, local, local:N or dask://HOST:PORT"
    )


def test_a_cluster_without_its_client_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(executors, "import_module", missing)
    assert refusal("dask://host:8786") == (
        "the Dask client is not installed; pip install tilewright[cluster]"
    )


def test_a_cluster_that_does_not_answer(monkeypatch):
    class Distributed:
        @staticmethod
        def Client(address, timeout):
            raise OSError(f"timed out after {timeout} s")

    monkeypatch.setattr(executors, "import_module", lambda name: Distributed)
    assert refusal("dask://host:8786") == (
        "no Dask scheduler answers at host:8786: timed out after 10 s"
    )


def test_a_port_that_takes_connections_and_says_nothing(monkeypatch):
    answer = threading.Event()

    class Distributed:
        @staticmethod
        def Client(address, timeout):
            answer.wait()

    monkeypatch.setattr(executors, "import_module", lambda name: Distributed)
    monkeypatch.setattr(executors, "_CONNECT_SECONDS", 0.1)
    found = refusal("dask://host:8786")
    answer.set()
    assert found == (
        "no Dask scheduler answers at host:8786 within 0.1 s; see whether one runs there and what "
        "listens at this port"
    )


@pytest.mark.parametrize(("count", "expected"), [(6, 6), (None, 1)])
def test_local_takes_all_processors_or_one_if_nobody_knows_how_many(monkeypatch, count, expected):
    monkeypatch.setattr(executors.os, "cpu_count", lambda: count)
    for name, workers in (("local", expected), ("local:3", 3)):
        with open_executor(name) as executor:
            assert executor._max_workers == workers
