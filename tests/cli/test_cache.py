"""`tilewright cache`: lists, verifies and clears; every line and every key."""

import json
from pathlib import Path

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.common.cache import CacheStore
from tilewright.common.digest import digest

KEYS = sorted(map(digest, "ab"))


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["cache", *arguments])
    assert (result.exit_code, result.stderr) == (code, "")
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of three entries: two of one kind, one of another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for kind, key in (("cycles", KEYS[0]), ("cycles", KEYS[1]), ("network", KEYS[0])):
        CacheStore(kind).remember(key, b"12345")
    return tmp_path / "tilewright"


def size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_list_counts_entries_and_bytes_by_kind(folder):
    cycles, network = size_bytes(folder / "cycles"), size_bytes(folder / "network")
    lines = [line.split() for line in run("list").splitlines() if line.strip(" ─")]
    assert lines == [
        ["kind", "entries", "bytes"],
        ["cycles", "2", f"{cycles}"],
        ["network", "1", f"{network}"],
        [str(folder), "holds", "3", "entries,", f"{cycles + network}", "bytes"],
    ]
    assert json.loads(run("list", "--json")) == {
        "folder": str(folder),
        "kinds": [
            {"kind": "cycles", "entries": 2, "size_bytes": cycles},
            {"kind": "network", "entries": 1, "size_bytes": network},
        ],
        "entries": 3,
        "size_bytes": cycles + network,
    }


def test_verify_names_what_is_damaged(folder):
    assert run("verify") == f"{folder} holds 3 entries, 0 damaged\n"
    damaged = folder / "cycles" / KEYS[1]
    (damaged / "value").write_bytes(b"123")
    assert run("verify", code=3) == (
        f"damaged  {damaged} holds 3 bytes of value, not 5\n"
        f"{folder} holds 3 entries, 1 damaged, which are made again when they are needed\n"
    )
    assert json.loads(run("verify", "--json", code=3)) == {
        "folder": str(folder),
        "entries": 3,
        "damaged": [{"entry": str(damaged), "reason": "holds 3 bytes of value, not 5"}],
    }


def test_clear_removes_every_entry(folder):
    before = size_bytes(folder)
    found = json.loads(run("clear", "--json"))
    assert (found["entries"], found["size_bytes"]) == (3, before)
    assert run("clear") == f"{folder} is cleared of 0 entries, 0 bytes\n"
    assert size_bytes(folder) == 0


def test_verify_shows_a_bar(folder, monkeypatch):
    shown = []
    monkeypatch.setattr(Progress, "add_task", lambda self, stage, total: stage)
    monkeypatch.setattr(Progress, "update", lambda self, stage, **how: shown.append((stage, how)))
    result = CliRunner().invoke(app, ["cache", "verify"], env={"FORCE_COLOR": "1"})
    assert result.exit_code == 0
    assert shown == [("verify", {"completed": done, "total": 3}) for done in (1, 2, 3)]
