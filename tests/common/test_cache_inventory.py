"""All entries of the cache at once: whatever was kept is listed, verified and removed."""

import errno
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from tilewright.common.cache import CacheError, CacheStore, clear, contents, damaged_entries
from tilewright.common.digest import digest

CACHE = CacheStore("things")
KEY = digest("inputs")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tilewright"


def made(key: str = KEY) -> tuple[Path, ...]:
    """An entry of one file."""

    def make(folder: Path) -> None:
        (folder / "one").write_text("text")

    return CACHE.files(key, make)


def test_it_is_empty_at_first():
    assert (contents(), damaged_entries(), clear()) == ([], {}, [])


def test_entries_are_counted_and_removed(root):
    made()
    made(digest("other"))
    CacheStore("values").remember(KEY, b"17")
    (root / "notes.txt").write_text("the user's own")
    found = contents()
    assert [(kind.kind, kind.entries) for kind in found] == [("things", 2), ("values", 1)]
    manifest = (root / "values" / KEY / "manifest.json").stat().st_size
    assert found[1].size_bytes == manifest + 2
    assert clear() == found
    assert contents() == []
    assert sorted(path.name for path in root.rglob("*")) == ["notes.txt", "things", "values"]


def test_what_killed_processes_left_is_removed_without_entries_too(root):
    for kind in ("things", "values"):
        left = root / kind / ".aside-left"
        left.mkdir(parents=True)
        (left / "one").write_text("half")
    CacheStore("values").remember(KEY, b"17")
    assert [kind.kind for kind in clear()] == ["values"]
    assert sorted(path.name for path in root.rglob("*")) == ["things", "values"]


def test_verifying_says_how_far_it_is():
    made()
    CacheStore("values").remember(KEY, b"17")
    told = []
    damaged_entries(lambda *step: told.append(step))
    assert told == [(1, 2), (2, 2)]


@pytest.mark.parametrize("digits", [16, 32, 63, 64])
def test_the_first_digits_of_a_digest_are_a_key_like_others(digits, root):
    """Listed, verified, removed by hand, and removed where others could have written it."""
    cache, key = CacheStore("values"), KEY[:digits]
    cache.remember(key, b"17")
    assert [(kind.kind, kind.entries) for kind in contents()] == [("values", 1)]
    (root / "values" / key / "value").write_bytes(b"1")
    assert damaged_entries() == {root / "values" / key: "holds 1 bytes of value, not 2"}
    assert clear()[0].entries == 1
    assert contents() == []
    cache.remember(key, b"planted")
    root.chmod(0o777)
    assert cache.recall(key) is None
    assert list((root / "values").iterdir()) == []


@pytest.mark.parametrize("key", ["", KEY[:15], f"{KEY}0", KEY.upper(), "../../else", "notes.txt"])
@pytest.mark.parametrize(
    "use", [made, CACHE.recall, CACHE.forget, lambda key: CACHE.remember(key, b"17")]
)
def test_other_keys_are_refused(key, use, root):
    message = f"a key of the cache is 16 to 64 digits of a digest, found {key!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        use(key)
    assert list(root.glob("things/*")) == []


ALL = pytest.mark.parametrize("use", [contents, damaged_entries, clear])


@ALL
def test_a_folder_of_another_user_is_refused(use, root, monkeypatch):
    made()
    mine, yours = os.geteuid(), os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: yours)
    with pytest.raises(CacheError) as caught:
        use()
    assert str(caught.value) == (
        f"{root}: belongs to user {mine} and not to you, user {yours}: nothing is loaded from it; "
        "remove it, or set XDG_CACHE_HOME to a folder of your own"
    )
    monkeypatch.undo()
    assert (root / "things" / KEY / "one").read_text() == "text"


@ALL
def test_a_file_in_its_place_is_refused(use, root):
    root.write_text("the user's own")
    with pytest.raises(NotADirectoryError) as caught:
        use()
    assert str(caught.value) == f"[Errno 20] Not a directory: '{root}'"


@ALL
def test_a_folder_that_cannot_be_read_is_an_error(use, root, monkeypatch):
    made()
    unreadable(root / "things", monkeypatch)
    with pytest.raises(PermissionError, match=f"'{root / 'things'}'$"):
        use()


def test_an_entry_that_cannot_be_read_is_damaged(root, monkeypatch):
    entry = made()[0].parent
    unreadable(entry, monkeypatch)
    assert [(kind.entries, kind.size_bytes) for kind in contents()] == [(1, 0)]
    assert damaged_entries() == {
        entry: f"cannot be read: [Errno 13] Permission denied: '{entry}'",
    }
    clear()
    assert list((root / "things").iterdir()) == []


@pytest.mark.parametrize("folder", [".", "things"])
def test_entries_that_others_could_write_are_damaged_and_stay_until_they_are_needed(folder, root):
    entry = made()[0].parent
    (root / folder).chmod(0o777)
    assert damaged_entries() == {entry: "lies in a folder that other users can write"}
    assert contents()[0].entries == 1
    assert stat.S_IMODE((root / folder).stat().st_mode) == 0o777


def test_a_folder_that_nobody_may_read_is_removed(root):
    entry = made()[0].parent
    entry.chmod(0)
    clear()
    assert list((root / "things").iterdir()) == []


def unreadable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user without the rights of root."""
    for name in ("listdir", "scandir"):
        real = getattr(os, name)

        def refusing(path: object, real: Any = real) -> Any:
            if str(path) == str(folder):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path)

        monkeypatch.setattr(os, name, refusing)
