"""Tuning records: what is finished stays, whoever is killed, whoever else writes."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import msgspec
import pytest

from tilewright.common.errors import RecordError
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.tune.records import Records, subject

OP = gemm(64, 64, 64)
MACHINE = load_machine("sw26010_cg")

WRITER = """
import sys
from tilewright.machine import load_machine
from tilewright.ops import gemm
from tilewright.tune.records import Records, subject
path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
machine = load_machine("sw26010_cg")
with Records(path) as records:
    for number in range(first, first + count):
        records.put(subject(gemm(64, 64, 64), machine, f"schedule {number}", "simulated"), number)
        print(number, flush=True)
"""


def what(schedule, *, op=OP, machine=MACHINE, kind="simulated"):
    return subject(op, machine, schedule, kind)


def writer(path, first, count):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_record_is_found_again_by_another_opening(tmp_path):
    with Records(tmp_path / "r.db") as records:
        assert records.get(what("a")) is None
        records.put(what("a"), 123)
    with Records(tmp_path / "r.db") as records:
        assert (records.get(what("a")), len(records)) == (123, 1)


def test_whatever_can_change_the_result_is_part_of_the_key():
    faster = msgspec.structs.replace(MACHINE, clock_hz=2 * MACHINE.clock_hz)
    renamed = msgspec.structs.replace(MACHINE, name="other", description="prose")
    keys = {
        what("a").key,
        what("b").key,
        what("a", op=gemm(64, 64, 65)).key,
        what("a", machine=faster).key,
        what("a", kind="measured").key,
    }
    assert len(keys) == 5
    assert what("a", machine=renamed).key == what("a").key


def test_a_second_measurement_of_one_subject_changes_nothing(tmp_path):
    with Records(tmp_path / "r.db") as records:
        records.put(what("a"), 1)
        records.put(what("a"), 2)
        assert (records.get(what("a")), len(records)) == (1, 1)


def test_a_killed_writer_loses_no_finished_record(tmp_path):
    path = tmp_path / "r.db"
    with writer(path, 0, 1_000_000) as process:
        reported = [int(process.stdout.readline()) for _ in range(200)]
        process.send_signal(signal.SIGKILL)
        reported += [int(line) for line in process.stdout.read().split()]
    with Records(path) as records:
        assert [records.get(what(f"schedule {n}")) for n in reported] == reported
        records.put(what("after"), 7)
        assert records.get(what("after")) == 7


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "r.db"
    processes = [writer(path, first, 100) for first in (0, 1000, 2000)]
    assert [p.communicate()[0].count("\n") for p in processes] == [100] * 3
    assert [p.returncode for p in processes] == [0, 0, 0]
    with Records(path) as records:
        assert len(records) == 300
        assert records.get(what("schedule 2099")) == 2099


def test_a_file_is_judged_by_one_moment_while_another_process_creates_it(tmp_path, monkeypatch):
    path = tmp_path / "r.db"
    creators = []
    read = Records._number

    def read_then_another_creates(records, pragma):
        value = read(records, pragma)
        if not creators:
            creators.append(threading.Thread(target=lambda: Records(path).close()))
            creators[0].start()
            creators[0].join(0.3)
        return value

    monkeypatch.setattr(Records, "_number", read_then_another_creates)
    with Records(path) as records:
        creators[0].join()
        records.put(what("a"), 1)
        assert len(records) == 1


def refusal(path):
    with pytest.raises(RecordError) as caught:
        Records(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("before", "meanwhile", "kept"),
    [("", "", False), ("", "-wal", True), ("", "-journal", True), ("r.db", "", True)],
)
def test_a_store_that_cannot_be_made_leaves_no_file_of_its_own(
    tmp_path, monkeypatch, before, meanwhile, kept
):
    """One that another process writes has a journal beside it before it has a size."""
    path = tmp_path / "r.db"

    def refused(records):
        path.with_name(f"r.db{meanwhile}").touch()
        raise RecordError("no room")

    if before:
        path.touch()
    monkeypatch.setattr(Records, "_prepare", refused)
    with pytest.raises(RecordError, match=r"\Ano room\Z"):
        Records(path)
    assert path.exists() is kept


@pytest.mark.parametrize(
    "text", ["not a database, however long it is\n" * 20, "not a database", "n"]
)
def test_a_file_that_is_no_database(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    assert refusal(path) == (
        f"{path}: cannot be used for tuning records: file is not a database; "
        "give another file, or move this one away"
    )
    assert path.read_text() == text


def test_a_database_of_another_program(tmp_path):
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (a)")
    other.commit()
    other.close()
    before = path.read_bytes()
    assert refusal(path) == (
        f"{path}: is a database of another program; give another file, or move this one away"
    )
    assert path.read_bytes() == before


def test_a_store_of_another_format(tmp_path):
    path = tmp_path / "r.db"
    Records(path).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 9")
    newer.close()
    assert refusal(path) == (
        f"{path}: has format 9 of tuning records, this version reads 1; "
        "give another file, or move this one away"
    )


def test_a_damaged_store(tmp_path):
    path = tmp_path / "r.db"
    with Records(path) as records:
        for number in range(500):
            records.put(what(f"schedule {number}"), number)
    damaged = bytearray(path.read_bytes())
    damaged[4096:] = b"\xff" * (len(damaged) - 4096)
    path.write_bytes(damaged)
    with Records(path) as records, pytest.raises(RecordError) as caught:
        records.get(what("schedule 3"))
    assert str(caught.value) == (
        f"{path}: cannot be used for tuning records: database disk image is malformed; "
        "give another file, or move this one away"
    )


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "none" / "r.db"
    assert refusal(path) == (
        f"{path}: cannot be used for tuning records: unable to open database file; "
        "give another file, or move this one away"
    )
