"""The C compiler from outside: what it makes is kept, what it fails to make is told whole."""

import ctypes
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.codegen.c.compiler import (
    compile_into,
    compile_key,
    compiled_files,
    compiler,
    is_gcc,
    loaded_library,
)
from tilewright.common.cache import CacheError, CacheStore, contents, damaged_entries, folders
from tilewright.common.errors import ToolError

USER = "the test"
SOURCES = {"answer.c": "int answer(void) { return 42; }\n"}
FLAGS = ("-shared", "-fPIC", "-o", "library.so")
WORKING = "name a working C compiler in the environment variable CC"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tilewright"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Make a shell script the compiler; its name is the answer."""

    def use(text: str) -> str:
        path = tmp_path / "cc-script"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        return str(path)

    return use


def library() -> ctypes.CDLL:
    def make(folder: Path) -> None:
        compile_into(folder, USER, SOURCES, FLAGS)

    return loaded_library(USER, "tests", compile_key(USER, SOURCES, FLAGS), make)


def refusal() -> str:
    with pytest.raises(ToolError) as caught:
        compiled_files(USER, "tests", SOURCES, FLAGS)
    assert sum(kind.entries for kind in contents()) == 0
    return str(caught.value)


def test_what_is_compiled_is_kept_and_loaded(monkeypatch):
    assert library().answer() == 42
    (path,) = compiled_files(USER, "tests", SOURCES, FLAGS)
    monkeypatch.setenv("CC", os.environ.get("CC", "cc"))
    monkeypatch.setattr("tilewright.codegen.c.compiler.run_compiler", None)
    assert compiled_files(USER, "tests", SOURCES, FLAGS) == (path,)


@pytest.mark.parametrize(("command", "path"), [("./bin/mycc", None), ("mycc", "bin")])
def test_a_compiler_may_be_named_from_where_the_user_is(command, path, tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "mycc").write_text('#!/bin/sh\nexec cc "$@"\n')
    (folder / "mycc").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CC", f"{command} -O1")
    if path is not None:
        monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    assert compiler(USER) == (str(folder / "mycc"), "-O1")
    assert library().answer() == 42


@pytest.mark.parametrize("change", ["sources", "flags", "processor", "compiler"])
def test_whatever_decides_the_code_decides_the_key(change, script, monkeypatch):
    before = compile_key(USER, SOURCES, FLAGS)
    match change:
        case "sources":
            after = compile_key(USER, {"answer.c": ""}, FLAGS)
        case "flags":
            after = compile_key(USER, SOURCES, (*FLAGS, "-O3"))
        case "processor":
            monkeypatch.setattr(
                "tilewright.codegen.c.compiler.processor_flags", lambda: frozenset({"avx9"})
            )
            after = compile_key(USER, SOURCES, FLAGS)
        case _:
            script('exec cc "$@"')
            after = compile_key(USER, SOURCES, FLAGS)
    assert before != after


@pytest.mark.parametrize("size_bytes", [0, 1, 1000])
def test_a_library_cut_short_is_made_again_and_not_loaded(size_bytes, caplog):
    (path,) = compiled_files(USER, "tests", SOURCES, FLAGS)
    whole = path.stat().st_size
    os.truncate(path, size_bytes)
    with caplog.at_level(logging.INFO):
        assert library().answer() == 42
    assert caplog.messages[0] == (
        f"{path.parent} holds {size_bytes} bytes of library.so, not {whole}: it is made again"
    )
    assert damaged_entries() == {}


def test_a_planted_library_is_not_loaded():
    (path,) = compiled_files(USER, "tests", SOURCES, FLAGS)
    foreign = {"answer.c": "int answer(void) { return 666; }\n"}
    (planted,) = compiled_files(USER, "foreign", foreign, FLAGS)
    path.write_bytes(planted.read_bytes())
    assert library().answer() == 42


def test_an_entry_planted_while_others_could_write_is_not_loaded(root):
    foreign = {"answer.c": "int answer(void) { return 666; }\n"}
    (planted,) = compiled_files(USER, "tests", foreign, FLAGS)
    planted.parent.rename(root / "tests" / compile_key(USER, SOURCES, FLAGS))
    assert damaged_entries() == {}
    root.chmod(0o777)
    assert library().answer() == 42


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("'gcc", 'the environment variable CC is no command, "\'gcc": no closing quotation'),
        ("gcc \\", "the environment variable CC is no command, 'gcc \\\\': no escaped character"),
        ("false", "false failed on generated code with exit status 1 and no message"),
        ("true", "true reports success and has written nothing"),
    ],
)
def test_a_command_that_is_no_compiler(given, message, monkeypatch):
    monkeypatch.setenv("CC", given)
    assert refusal() == f"{message}; {WORKING}"


def test_a_compiler_that_is_not_installed(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert refusal() == (
        "the test needs a C compiler, 'no-such-compiler' is not installed; "
        "install gcc or clang, or name one in the environment variable CC"
    )


def test_a_compiler_that_is_no_program(tmp_path, monkeypatch):
    path = tmp_path / "cc-of-another-machine"
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    assert refusal() == f"{path} cannot be run: Exec format error; {WORKING}"


@pytest.mark.parametrize(
    ("says", "gcc"),
    [
        ("cc (Debian) 12.2.0\nCopyright (C) 2022 Free Software Foundation, Inc.", True),
        ("Debian clang version 17.0.6\nTarget: x86_64-pc-linux-gnu", False),
    ],
)
def test_gcc_says_that_it_is_one(says, gcc, script):
    script(f"cat <<END\n{says}\nEND")
    assert is_gcc(USER) is gcc


def test_a_compiler_that_writes_an_empty_file(script):
    name = script("[ $1 = --version ] || : > library.so")
    assert refusal() == f"{name} reports success and has written nothing; {WORKING}"


def test_a_compiler_that_is_killed(script):
    name = script("[ $1 = --version ] || kill -9 $$")
    expected = f"{name} failed on generated code with signal 9 and no message; {WORKING}"
    assert refusal() == expected


def test_the_words_of_a_compiler_that_fails(script):
    name = script("[ $1 = --version ] || { echo 'answer.c:1: no' >&2; exit 1; }")
    assert refusal() == f"{name} failed on generated code:\nanswer.c:1: no"


def test_of_many_words_of_a_compiler_2000_characters_are_told(script):
    words = "[ $1 = --version ] || { head -c 3000 /dev/zero | tr '\\0' x >&2; exit 1; }"
    name = script(words)
    assert refusal() == f"{name} failed on generated code:\n{'x' * 2000}"


def test_a_library_that_cannot_be_loaded_is_not_kept(script):
    name = script("[ $1 = --version ] || echo text > library.so")
    with pytest.raises(ToolError) as caught:
        library()
    message, _, fix = str(caught.value).rpartition("; ")
    assert message.startswith(f"the test cannot load what {name} made: ")
    assert message.endswith("library.so: file too short")
    assert fix == WORKING
    assert contents() == []


class TestFullDisks:
    FULL = "[ $1 = --version ] || case $PWD in {folder}*) echo 'ld: {words}' >&2; exit 1;; esac"

    @pytest.fixture(autouse=True)
    def places(self, tmp_path, monkeypatch):
        (tmp_path / "tmp").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
        folders.temporary_folder.cache_clear()
        yield
        folders.temporary_folder.cache_clear()

    @pytest.mark.parametrize("words", ["No space left on device", "Disk quota exceeded"])
    def test_of_the_cache(self, words, root, script, caplog):
        script(self.FULL.format(folder=root, words=words) + '\nexec cc "$@"')
        assert library().answer() == 42
        assert caplog.messages == [
            f"{root}: No space left on device; working without the cache, XDG_CACHE_HOME moves it"
        ]
        assert contents() == []

    def test_of_the_temporary_folder_too(self, root, tmp_path, script):
        script(self.FULL.format(folder=tmp_path, words="No space left on device"))
        with pytest.raises(CacheError) as caught:
            library()
        assert str(caught.value) == (
            f"{root}: cannot be written, and neither can {tmp_path / 'tmp'}: No space left on "
            "device; free space, or set XDG_CACHE_HOME to a folder that can be written"
        )


def test_all_kinds_are_of_one_cache(root):
    compiled_files(USER, "tests", SOURCES, FLAGS)
    CacheStore("values").remember(compile_key(USER, SOURCES, FLAGS), b"42")
    assert [kind.kind for kind in contents()] == ["tests", "values"]
