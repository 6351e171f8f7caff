"""A file is written whole or not at all, and what is no regular file is never replaced.

Reading never waits for what has no end.
"""

import errno
import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from tilewright.common.files import new_file, read_file, read_file_text


def write(path: Path, content: bytes = b"new") -> None:
    with new_file(path) as file:
        file.write(content)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with new_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"new", ["a"])


@pytest.mark.parametrize("before", [None, b"old"])
def test_nothing_changes_where_it_fails(before, tmp_path):
    path = tmp_path / "a"
    if before is not None:
        path.write_bytes(before)

    def fail() -> None:
        with new_file(path) as file:
            file.write(b"half")
            raise ValueError("no")

    with pytest.raises(ValueError, match=r"^no$"):
        fail()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == (
        {} if before is None else {"a": before}
    )


def test_a_new_file_has_the_usual_mode_and_an_old_one_keeps_its_own(tmp_path):
    old = os.umask(0o027)
    try:
        write(tmp_path / "new")
        (tmp_path / "old").write_bytes(b"old")
        (tmp_path / "old").chmod(0o604)
        write(tmp_path / "old")
    finally:
        os.umask(old)
    assert (mode(tmp_path / "new"), mode(tmp_path / "old")) == (0o640, 0o604)


@pytest.mark.parametrize("closed", ["a", ""])
def test_a_file_that_cannot_be_replaced_is_written_where_it_is(closed, tmp_path, monkeypatch):
    """It is closed to writers, who may be let in all the same, or its folder is."""
    path, access = tmp_path / "a", os.access
    path.write_bytes(b"old")
    before = path.stat().st_ino
    write(path)
    assert path.stat().st_ino != before
    before = path.stat().st_ino
    refused = Path(os.path.realpath(tmp_path)) / closed
    monkeypatch.setattr(os, "access", lambda name, how: name != refused and access(name, how))
    write(path, b"newer")
    assert (path.read_bytes(), path.stat().st_ino) == (b"newer", before)


def test_a_link_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/a")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "a").read_bytes() == b"new"


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(tmp_path / "pipe")
    reader.join(timeout=30)
    assert (found, os.listdir(tmp_path)) == ([b"new"], ["pipe"])


def test_an_error_without_a_number_is_one_of_reading_or_writing(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(OSError, match=f"the disk is gone: '{path}'$") as caught, new_file(path):
        raise OSError("the disk is gone")
    assert (caught.value.errno, os.listdir(tmp_path)) == (errno.EIO, [])


def test_an_error_names_the_file(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'$"):
        write(Path("/dev/full"))
    with pytest.raises(IsADirectoryError, match=f"Is a directory: '{tmp_path}'$"):
        write(tmp_path)
    missing = tmp_path / "missing" / "a"
    with pytest.raises(FileNotFoundError, match=f"No such file or directory: '{missing}'$"):
        write(missing)


@pytest.mark.parametrize("read", [read_file, read_file_text])
@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_what_may_have_no_end_is_not_opened(kind, read, tmp_path):
    path = tmp_path / "a"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
    with pytest.raises(OSError, match=f"it is not a regular file: '{path}'$"):
        read(path)


def test_a_pipe_of_the_shell_is_read():
    end, start = os.pipe()
    os.write(start, b"text\r\n")
    os.close(start)
    try:
        assert read_file_text(Path(f"/dev/fd/{end}")) == "text\n"
    finally:
        os.close(end)


def test_other_errors_are_those_of_opening(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)
