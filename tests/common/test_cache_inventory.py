"""All entries of the cache at once: whatever was kept is listed, verified and removed."""

import re
from pathlib import Path

import pytest

from tilewright.common.cache import Cache, clear, contents, damaged_entries
from tilewright.common.digest import digest

CACHE = Cache("things")
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
    Cache("values").remember(KEY, b"17")
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
    Cache("values").remember(KEY, b"17")
    assert [kind.kind for kind in clear()] == ["values"]
    assert sorted(path.name for path in root.rglob("*")) == ["things", "values"]


@pytest.mark.parametrize("digits", [16, 32, 63, 64])
def test_the_first_digits_of_a_digest_are_a_key_like_others(digits, root):
    """Listed, verified, removed by hand, and removed where others could have written it."""
    cache, key = Cache("values"), KEY[:digits]
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
    assert list((root / "things").iterdir()) == []
