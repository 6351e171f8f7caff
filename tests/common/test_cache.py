"""The cache: what is kept is found again, and nothing is used that others could have written."""

import errno
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilewright.common.cache import (
    CacheError,
    CacheStore,
    aside,
    clear,
    damaged_entries,
    folders,
    store,
)
from tilewright.common.digest import digest

CACHE = CacheStore("things")
KEY = digest("inputs")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tilewright"


def made(key: str = KEY, text: str = "text") -> tuple[Path, ...]:
    """An entry of two files; `text` shows whether it was made now or before."""

    def make(folder: Path) -> None:
        (folder / "one").write_text(text)
        (folder / "two").write_bytes(bytes(range(256)))

    return CACHE.files(key, make)


def refuse(folder: Path) -> None:
    raise AssertionError("made again")


def full(folder: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / "one"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestEntries:
    def test_an_entry_is_made_once(self, root):
        paths = made()
        assert [path.relative_to(root) for path in paths] == [
            Path("things", KEY, "one"),
            Path("things", KEY, "two"),
        ]
        assert CACHE.files(KEY, refuse) == paths

    def test_an_installation_may_bring_one(self, root, tmp_path, monkeypatch):
        installed = tmp_path / "things" / KEY
        installed.parent.mkdir()
        made()[0].parent.rename(installed)
        monkeypatch.setattr(store, "INSTALLED", tmp_path)
        assert CACHE.files(KEY, refuse) == (installed / "one", installed / "two")

    def test_an_installed_value_is_recalled(self, tmp_path, monkeypatch):
        monkeypatch.setattr(store, "INSTALLED", tmp_path)
        (tmp_path / "things").mkdir()
        (tmp_path / "things" / KEY).write_bytes(b"installed")
        CACHE.remember(KEY, b"remembered")
        assert CACHE.recall(KEY) == b"installed"

    def test_folders_and_files_are_this_users_alone(self, root):
        old = os.umask(0o002)
        try:
            one, _ = made()
        finally:
            os.umask(old)
        assert [mode(path) for path in (root, root / "things", one.parent)] == [0o700] * 3
        assert mode(one) == 0o600

    def test_nothing_is_kept_of_what_failed(self, root):
        def fail(folder: Path) -> None:
            (folder / "one").write_text("half")
            raise ValueError("no")

        with pytest.raises(ValueError, match=r"^no$"):
            CACHE.files(KEY, fail)
        assert list((root / "things").iterdir()) == []

    def test_an_entry_of_nothing_is_refused(self, root):
        with pytest.raises(CacheError, match="nothing was made for this entry of the cache"):
            CACHE.files(KEY, lambda folder: None)
        assert list((root / "things").iterdir()) == []

    def test_values_are_computed_once(self):
        calls: list[int] = []

        def compute() -> dict[str, int]:
            calls.append(1)
            return {"cycles": 17}

        found = [CACHE.value(KEY, dict[str, int], compute) for _ in range(2)]
        assert (found, calls) == ([{"cycles": 17}] * 2, [1])

    def test_a_value_of_another_form_is_computed_again(self):
        CACHE.remember(KEY, b'"seventeen"')
        assert CACHE.value(KEY, int, lambda: 17) == 17
        assert CACHE.recall(KEY) == b"17"

    def test_a_forgotten_entry_is_made_again(self):
        made(text="before")
        CACHE.forget(KEY)
        assert made(text="after")[0].read_text() == "after"


def replace_by_file(entry: Path) -> None:
    clear()
    entry.write_text("stray")


def replace_by_link(entry: Path) -> None:
    entry.rename(entry.parents[2] / "elsewhere")
    entry.symlink_to(entry.parents[2] / "elsewhere")


def replace_manifest_by_fifo(entry: Path) -> None:
    (entry / "manifest.json").unlink()
    os.mkfifo(entry / "manifest.json")


def empty(entry: Path) -> None:
    for path in entry.iterdir():
        path.unlink()


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda e: os.truncate(e / "two", 100), "holds 100 bytes of two, not 256"),
    "emptied file": (lambda e: os.truncate(e / "one", 0), "holds 0 bytes of one, not 4"),
    "tampered": (lambda e: (e / "one").write_text("TEXT"), "holds another one than was made"),
    "lost": (lambda e: (e / "one").unlink(), "lacks one"),
    "stray": (
        lambda e: (e / "three").write_text(""),
        "holds three, which is not in its manifest",
    ),
    "stray folder": (
        lambda e: (e / "three").mkdir(),
        "holds three, not a file of this user alone",
    ),
    "link": (
        lambda e: (e / "one").rename(e / "x") and (e / "one").symlink_to("x"),
        "holds one, not a file of this user alone",
    ),
    "writable file": (
        lambda e: (e / "one").chmod(0o666),
        "holds one, not a file of this user alone",
    ),
    "writable entry": (lambda e: e.chmod(0o777), "is not a folder of this user alone"),
    "manifest cut": (
        lambda e: os.truncate(e / "manifest.json", 9),
        "cannot be read: Input data was truncated",
    ),
    "manifest not text": (
        lambda e: (e / "manifest.json").write_bytes(b'{"\xff": 1}'),
        "cannot be read: ",
    ),
    "fifo": (replace_manifest_by_fifo, "holds manifest.json, not a file of this user alone"),
    "empty": (empty, "cannot be read: [Errno 2] No such file or directory: "),
    "file": (replace_by_file, "is not a folder of this user alone"),
    "link to a folder": (replace_by_link, "is not a folder of this user alone"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_entry_is_told_and_made_again(name, caplog):
    change, reason = DAMAGES[name]
    before = made(text="text")
    change(before[0].parent)
    found = damaged_entries()
    assert list(found) == [before[0].parent]
    assert found[before[0].parent].startswith(reason)
    with caplog.at_level(logging.INFO):
        assert made(text="anew") == before
    assert caplog.messages[0].startswith(f"{before[0].parent} {reason}")
    assert before[0].read_text() == "anew"
    assert damaged_entries() == {}
    assert [path.name for path in before[0].parents[1].iterdir()] == [KEY]


class TestFoldersOfOthers:
    @pytest.fixture
    def other_user(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on this process runs as another user than the one who made the files."""
        user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: user)

    @pytest.mark.parametrize("use", [made, lambda: CACHE.recall(KEY)])
    def test_a_folder_of_another_user_is_refused(self, use, root, request):
        made()
        request.getfixturevalue("other_user")
        with pytest.raises(CacheError) as caught:
            use()
        mine, yours = os.geteuid() - 1, os.geteuid()
        assert str(caught.value) == (
            f"{root}: belongs to user {mine} and not to you, user {yours}: nothing is loaded from "
            "it; remove it, or set XDG_CACHE_HOME to a folder of your own"
        )

    def test_a_link_of_another_user_is_refused(self, root, monkeypatch):
        made()
        root.rename(root.with_name("own"))
        root.symlink_to("own")
        found, real = root.lstat(), Path.lstat
        link = os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))
        monkeypatch.setattr(Path, "lstat", lambda self: link if self == root else real(self))
        with pytest.raises(CacheError, match=f"^{root}: belongs to user {link.st_uid} and not"):
            made()

    def test_an_own_link_is_followed(self, root):
        made(text="before")
        root.rename(root.with_name("own"))
        root.symlink_to("own")
        assert made(text="after")[0].read_text() == "before"

    @pytest.mark.parametrize("folder", [".", "things"])
    @pytest.mark.parametrize("bits", [0o755, 0o701, 0o777])
    @pytest.mark.parametrize("use", [made, clear, damaged_entries])
    def test_a_link_does_not_change_the_folder_that_it_leads_to(
        self, use, folder, bits, root, caplog
    ):
        (entry, _) = made(text="before")
        place = root / folder
        other = root.with_name("a folder")
        place.rename(other)
        other.chmod(bits)
        place.symlink_to(other)
        with pytest.raises(CacheError) as caught:
            use()
        assert str(caught.value) == (
            f"{place}: is a link to {other}, which other users may enter (mode {bits:o}); a cache "
            f"is of one user alone; chmod 700 '{other}' if it is for this, or set XDG_CACHE_HOME "
            "to a folder of your own"
        )
        assert (mode(other), entry.read_text(), caplog.messages) == (bits, "before", [])

    @pytest.mark.parametrize("folder", [".", "things"])
    @pytest.mark.parametrize("bits", [0o770, 0o702])
    def test_what_others_could_write_is_not_used(self, folder, bits, root, caplog):
        planted = made(text="planted")
        (root / folder).chmod(bits)
        assert made(text="own")[0].read_text() == "own"
        assert mode(root / folder) == 0o700
        assert caplog.messages == [
            f"{root / folder} could be written by other users: its entries are removed"
        ]
        assert planted[0].read_text() == "own"

    def test_what_others_could_only_read_is_used(self, root, caplog):
        made(text="before")
        root.chmod(0o755)
        assert made(text="after")[0].read_text() == "before"
        assert (mode(root), caplog.messages) == (0o700, [])

    @pytest.mark.parametrize(
        ("chmod", "reason"),
        [
            (lambda opened, mode: None, "its mode does not change"),
            (lambda opened, mode: full(Path()), "No space left on device"),
        ],
    )
    def test_a_folder_that_stays_open_to_others_is_refused(self, chmod, reason, root, monkeypatch):
        root.mkdir()
        root.chmod(0o777)
        monkeypatch.setattr(os, "fchmod", chmod)
        with pytest.raises(CacheError) as caught:
            made()
        assert str(caught.value) == (
            f"{root}: can be written by other users, and cannot be closed to them: {reason}; "
            "nothing is loaded from it; set XDG_CACHE_HOME to a folder of your own"
        )
        assert caught.value.code == "cache"

    def test_a_folder_is_there_or_not(self, tmp_path):
        (tmp_path / "file").touch()
        assert folders.is_there(tmp_path)
        assert not folders.is_there(tmp_path / "missing")
        with pytest.raises(NotADirectoryError):
            folders.is_there(tmp_path / "file")

    def test_what_took_the_place_of_a_folder_is_not_touched(self, tmp_path):
        other = tmp_path / "other"
        other.write_text("the user's own")
        other.chmod(0o666)
        with pytest.raises(CacheError, match="cannot be closed to them: Not a directory; nothing"):
            folders._close_to_others(other, 0o777)
        assert mode(other) == 0o666

    def test_only_entries_are_removed_from_a_folder_that_was_open(self, root):
        (root / "things").mkdir(parents=True)
        (root / "things" / "notes.txt").write_text("the user's own")
        root.chmod(0o777)
        made()
        assert (root / "things" / "notes.txt").read_text() == "the user's own"


class TestWithoutRoom:
    @pytest.fixture(autouse=True)
    def other_temporary_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        (tmp_path / "tmp").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
        folders.temporary_folder.cache_clear()
        yield
        folders.temporary_folder.cache_clear()

    def test_a_full_disk_leaves_a_temporary_folder(self, root, caplog):
        def make(folder: Path) -> None:
            if root in folder.parents:
                full(folder)
            (folder / "one").write_text("text")

        (path,) = CACHE.files(KEY, make)
        assert path.read_text() == "text"
        assert root not in path.parents
        assert CACHE.files(KEY, make) == (path,)
        assert caplog.messages == [
            f"{root}: No space left on device; working without the cache, XDG_CACHE_HOME moves it"
        ]

    def test_no_room_anywhere(self, root, tmp_path):
        with pytest.raises(CacheError) as caught:
            CACHE.files(KEY, full)
        assert str(caught.value) == (
            f"{root}: cannot be written, and neither can {tmp_path / 'tmp'}: No space left on "
            "device; free space, or set XDG_CACHE_HOME to a folder that can be written"
        )

    def test_a_value_is_there_all_the_same(self, root, monkeypatch, caplog):
        monkeypatch.setattr(Path, "write_bytes", lambda self, content: full(self))
        assert CACHE.value(KEY, int, lambda: 17) == 17
        assert caplog.messages == [
            f"{root}: No space left on device; working without the cache, XDG_CACHE_HOME moves it"
        ]

    def test_a_cache_that_cannot_be_made(self, tmp_path, monkeypatch, caplog):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert made(text="uncached")[0].read_text() == "uncached"
        assert caplog.messages == [
            f"{tmp_path / 'file' / 'tilewright'}: Not a directory; working without the cache, "
            "XDG_CACHE_HOME moves it"
        ]

    def test_a_cache_that_cannot_be_written_is_read(self, monkeypatch, caplog):
        before = made()

        def refused(**options: object) -> str:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        monkeypatch.setattr("tempfile.mkdtemp", refused)
        assert (made(), caplog.messages) == (before, [])

    def test_no_home_folder(self, monkeypatch):
        def homeless(self: Path) -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "expanduser", homeless)
        with pytest.raises(CacheError) as caught:
            made()
        assert str(caught.value) == (
            "this user has no home folder for the cache; set XDG_CACHE_HOME to a folder of your own"
        )


class TestSeveralAtOnce:
    def test_all_agree_on_the_first_one_in_place(self):
        together = threading.Barrier(4)
        found: list[tuple[Path, ...]] = []

        def make(folder: Path) -> None:
            together.wait(timeout=30)
            (folder / "one").write_text(str(threading.get_ident()))

        def use() -> None:
            found.append(CACHE.files(KEY, make))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert found == [found[0]] * 4
        assert damaged_entries() == {}
        assert [path.name for path in found[0][0].parents[1].iterdir()] == [KEY]

    def test_what_a_killed_process_left_is_removed_and_what_a_live_one_makes_is_not(self, root):
        left = root / "things" / ".aside-left"
        left.mkdir(parents=True)
        (left / "one").write_text("half")

        def make(folder: Path) -> None:
            aside._sweep_once.cache_clear()  # as another process would
            made(digest("meanwhile"))
            (folder / "one").write_text("text")

        assert CACHE.files(KEY, make)[0].read_text() == "text"
        assert not left.exists()

    def test_a_file_in_use_survives_its_repair(self):
        one, _ = made(text="in use")
        with one.open() as file:
            os.truncate(one.with_name("two"), 1)
            assert made(text="repaired")[0].read_text() == "repaired"
            assert file.read() == "in use"
