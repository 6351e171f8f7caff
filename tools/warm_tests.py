"""Tests collected once and run in forks: which statements each reaches, and what a fault does.

One process imports tilewright and all test files. Every function of tilewright is compiled with a
mark before each of its statements, so a fork that runs a test file records what each test reaches.
For a fault, a fork replaces the functions that it changes and runs the tests that reach it, nearest
and fastest first, until one fails. Code that Numba compiles, and values that imports compute,
cannot be replaced in this way.

A fork begins like a fresh process: no cached values, and no shared fixtures made. While statements
are recorded, each test begins so, and counts as reaching what its fixtures reach.
"""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import importlib.machinery
import multiprocessing
import os
import resource
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from multiprocessing.connection import Connection
from operator import itemgetter
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase

SOURCES = Path("src/tilewright")
FIRST_FAILURE = {"phases": (Phase.explicit, Phase.generate), "report_multiple_bugs": False}
"""Settings under which a failing property is not shrunk."""
LONGEST_SECONDS, FILE_SECONDS = 60.0, 180.0
"""Limits on the processor time of a test, and of all of a file, while they are recorded; tests
beyond them judge no fault. One case of every test function runs before the second one of any.
"""
NEAR = 6
"""Number of nearest files, whose tests have half of the time."""
UNKNOWN_SECONDS = 0.01
"""Assumed time of tests that are not recorded."""
LEFT_OUT = ("tests/architecture/",)
"""Tests that check the text of the sources, not what it computes."""

CACHE = Path(".pytest_cache/compiled")
"""Folder of the tests' cache."""
_STAY = ("functions", "pipelines", "primitives", "host", "sanitized", "loops")
"""Caches in it whose keys omit most sources: they are kept while tests are recorded."""

PROCESSES = multiprocessing.get_context("fork")
Outcome = Literal["killed", "alive", "out of time"]
_COMPILED = b"tilewright.common.compiled import"
_OPTIONS = ("-q", "-s", "--assert=plain", "-p", "no:cacheprovider")
_MARKS = "__reached__"


class Test(NamedTuple):
    """Processor seconds of a test, the part spent in shared fixtures, and its name."""

    seconds: float
    shared: float
    name: str


class Verdict(NamedTuple):
    """Outcome of a fault, the deciding test, and the processor time of all tests run."""

    outcome: Outcome
    test: str
    seconds: float


@dataclass(frozen=True)
class Reached:
    """The passing tests of one file, their times, and the statements that each reaches."""

    tests: list[str]
    seconds: np.ndarray
    """Seconds (2, tests): as in `Test`, in total and in shared fixtures."""
    statements: np.ndarray
    """Keys, ascending."""
    bits: np.ndarray
    """Statements reached: a row for each test, packed eight to a byte."""

    def by(self, keys: Sequence[int]) -> Iterator[Test]:
        """The tests that reach any of these statements."""
        places = np.flatnonzero(np.isin(self.statements, np.array(keys, np.int64)))
        hits = (self.bits[:, places // 8] >> (7 - places % 8)) & 1
        for row in np.flatnonzero(hits.any(axis=1)):
            seconds, shared = self.seconds[:, row].tolist()
            yield Test(seconds, shared, self.tests[row])

    def saved(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        names = np.array(self.tests, dtype=np.str_)
        np.savez_compressed(path, names, self.seconds, self.statements, self.bits)

    @classmethod
    def loaded(cls, path: Path) -> Reached:
        with np.load(path) as found:
            names, *rest = (found[name] for name in found.files)
            return cls(names.tolist(), *rest)


def blocks(node: ast.AST, name: str = "", inside: bool = False) -> Iterator[tuple[str, list[Any]]]:
    """The lists of statements within functions, each with the name of its function."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        name, inside = f"{name}.{node.name}", not isinstance(node, ast.ClassDef)
    for _, value in ast.iter_fields(node):
        if inside and isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield name, value
    for child in ast.iter_child_nodes(node):
        yield from blocks(child, name, inside)


def statement_key(path: str, function: str, text: str) -> int:
    """Identify a statement by file, function and first line, whatever happens to other lines."""
    found = blake2b("\n".join((path, function, text.strip())).encode(), digest_size=8)
    return int.from_bytes(found.digest(), signed=True)


def keys_at(path: str, source: bytes, line: int) -> list[int]:
    """Key of the innermost statement around a line; outside functions, keys of the whole file."""
    lines = source.decode().splitlines()
    every = [
        (node, statement_key(path, name, lines[node.lineno - 1]))
        for name, block in blocks(ast.parse(source))
        for node in block
    ]
    around = [(n.end_lineno - n.lineno, k) for n, k in every if n.lineno <= line <= n.end_lineno]
    return [min(around)[1]] if around else [key for _, key in every]


def is_compiled(source: bytes) -> bool:
    """True if Numba compiles functions of the file."""
    return _COMPILED in source


class _Marking(importlib.machinery.SourceFileLoader):
    """Compiles functions with marks before their statements."""

    keys: ClassVar[list[int]] = []  # of all files, which have a loader each

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        tree = ast.parse(source)
        if not is_compiled(source):
            path, lines = self.path.rpartition(f"{SOURCES}/")[2], source.decode().splitlines()
            for name, block in list(blocks(tree)):
                block[:] = self._marked(path, name, block, lines)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def _marked(self, path: str, name: str, block: list[Any], lines: list[str]) -> list[ast.stmt]:
        found = []
        for place, node in enumerate(block):
            if place or not _is_text(node):
                (mark,) = ast.parse(f"{_MARKS}[{len(self.keys)}] = 1").body
                for part in ast.walk(mark):
                    ast.copy_location(part, node)
                self.keys.append(statement_key(path, name, lines[node.lineno - 1]))
                found.append(mark)
            found.append(node)
        return found


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


class _Finder(importlib.machinery.PathFinder):
    """Finds modules of tilewright for `_Marking`."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] != "tilewright":
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Marking(spec.loader.name, spec.loader.path)
        return spec


def changed_functions(before: CodeType, after: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """(old, new) code of a module's changed functions; None if code outside functions changed."""
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (before, after)]
    if not before.co_flags & 1 and (_own(before) != _own(after) or len(inner[0]) != len(inner[1])):
        return None  # flag 1: a function's
    found = [(before, after)] if before.co_flags & 1 and before != after else []
    for one, other in zip(*inner, strict=False):
        if one != other:
            within = changed_functions(one, other)
            if within is None:
                return None
            found += within
    return found


def _own(code: CodeType) -> tuple[object, ...]:
    consts = [repr(value) for value in code.co_consts if not isinstance(value, CodeType)]
    return code.co_code, consts, code.co_names, code.co_varnames


@dataclass(eq=False)
class _Fixtures:
    """By fixture: statements reached when it was last made, and seconds of shared ones."""

    reached: dict[str, np.ndarray] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Record what making a fixture reaches, for every test that uses it."""
        marks, name = getattr(builtins, _MARKS), fixturedef.argname
        before, started = _as_array(marks), _processor_seconds()
        marks[:] = bytes(len(marks))
        shared = fixturedef.scope != "function"
        left, _ = signal.setitimer(signal.ITIMER_PROF, 0) if shared else (0, 0)
        try:
            return (yield)
        finally:
            if shared:
                self.seconds[name] = _processor_seconds() - started
                signal.setitimer(signal.ITIMER_PROF, left)
            self.reached[name] = made = _as_array(marks)
            marks[:] = (before | made).tobytes()


@dataclass(eq=False)
class _Server:
    """Serves requests from within pytest, once it has collected all tests."""

    tree: Path
    asks: Connection
    items: dict[str, pytest.Item] = field(default_factory=dict)
    functions: dict[tuple[str, str, int], list[FunctionType]] = field(default_factory=dict)
    caches: list[functools._lru_cache_wrapper[Any]] = field(default_factory=list)
    failed: bool = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        gc.unfreeze()  # tests/conftest.py freezes what is looked for
        for each in gc.get_objects():
            if isinstance(each, functools._lru_cache_wrapper) and self._is_own(each):
                self.caches.append(each)
            elif isinstance(each, FunctionType) and str(SOURCES) in each.__code__.co_filename:
                self.functions.setdefault(_place(each.__code__), []).append(each)
        imported = getattr(builtins, _MARKS)
        self._forget()
        files: dict[str, list[str]] = {}
        for item in _functions_first(session.items):
            files.setdefault(item.nodeid.partition("::")[0], []).append(item.nodeid)
        keys = {_Marking.keys[place] for place in np.flatnonzero(_as_array(imported))}
        self.asks.send((keys, files))
        gc.collect()
        gc.freeze()
        while (asked := self.asks.recv()) is not None:
            self.asks.send(in_a_fork(getattr(self, asked[0]), asked[1], *asked[2:]))
        return True

    def _is_own(self, cached: functools._lru_cache_wrapper[Any]) -> bool:
        code = getattr(cached.__wrapped__, "__code__", None)
        return code is not None and code.co_filename.startswith(str(self.tree))

    def _forget(self) -> None:
        for each in self.caches:
            each.cache_clear()

    def record(self, says: Connection, tests: str) -> None:
        """Send what each test of a file reaches."""
        marks, names, rows = getattr(builtins, _MARKS), [], []
        seconds, begun, fixtures = list[tuple[float, float]](), _processor_seconds(), _Fixtures()
        own = [item for name, item in self.items.items() if name.partition("::")[0] == tests]
        chosen: list[Any] = _functions_first(own)  # `fixturenames` are those of functions
        if own:
            own[0].config.pluginmanager.register(fixtures)
        signal.signal(signal.SIGPROF, _too_long)
        for kind in (self.tree / CACHE / "tilewright").glob("*"):
            if kind.name not in _STAY:
                shutil.rmtree(kind)
        for item, following in zip(chosen, [*chosen[1:], None], strict=False):
            self._forget()
            marks[:] = bytes(len(marks))
            self.failed, started = False, _processor_seconds()
            before = sum(fixtures.seconds.values())
            if started - begun > FILE_SECONDS:
                break
            signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if not self.failed:
                names.append(item.nodeid)
                shared = sum(fixtures.seconds.get(name, 0.0) for name in item.fixturenames)
                alone = _processor_seconds() - started + before - sum(fixtures.seconds.values())
                seconds.append((alone + shared, shared))
                made = (fixtures.reached.get(name) for name in item.fixturenames)
                given = (each for each in made if each is not None)
                rows.append(functools.reduce(np.bitwise_or, given, _as_array(marks)))
        signal.setitimer(signal.ITIMER_PROF, 0)
        keys = np.array(_Marking.keys, np.int64)
        table = np.array(rows, np.uint8).reshape(len(rows), -1)[:, : len(keys)]
        used = np.flatnonzero(table.any(axis=0)) if rows else np.zeros(0, np.int64)
        used = used[np.argsort(keys[used], kind="stable")]
        bits = np.packbits(table[:, used], axis=1) if rows else np.zeros((0, 0), np.uint8)
        says.send(Reached(names, np.array(seconds).reshape(-1, 2).T, keys[used], bits))

    def judge(self, says: Connection, path: str, seeded: bytes | None, tests: list[Test]) -> None:
        """Send outcome and test of a fault; None if running code cannot be replaced by it."""
        if seeded is not None and not self._put(path, seeded):
            says.send(None)
            return
        signal.signal(signal.SIGPROF, lambda *_: _end(says, ("out of time", items[at].nodeid)))
        items = [self.items[test.name] for test in tests]
        for at, item in enumerate(items):
            following = items[at + 1] if at + 1 < len(items) else None
            says.send(item.nodeid)
            signal.setitimer(signal.ITIMER_PROF, 4 + 6 * tests[at].seconds)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                _end(says, ("killed", item.nodeid))
        says.send(("alive", ""))

    def _put(self, path: str, seeded: bytes) -> bool:
        place = str(self.tree / SOURCES / path)
        with open(place, "rb") as file:
            before = compile(file.read(), place, "exec", dont_inherit=True)
        pairs = changed_functions(before, compile(seeded, place, "exec", dont_inherit=True))
        known = [
            (function, new)
            for old, new in pairs or ()
            for function in self.functions.get(_place(old), ())
        ]
        for function, new in known:
            if len(function.__code__.co_freevars) != len(new.co_freevars):
                return False
            function.__code__ = new
        with open(place, "wb") as file:  # for processes that a test starts, and keys of caches
            file.write(seeded)
        return bool(known)


def _within(seconds: float, tests: Iterable[Test]) -> list[Test]:
    """The first tests that fit into `seconds`, but at least one; shared fixtures count once."""
    found, taken, made = list[Test](), 0.0, dict[str, float]()
    for test in tests:
        file = test.name.partition("::")[0]
        taken += test.seconds - min(test.shared, made.get(file, 0.0))
        if found and taken > seconds:
            break
        found.append(test)
        made[file] = max(test.shared, made.get(file, 0.0))
    return found


def _functions_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Order tests so that the first case of every function precedes the second of any."""
    seen, turns = Counter[str](), dict[str, int]()
    for item in items:
        function = item.nodeid.partition("[")[0]
        turns[item.nodeid], seen[function] = seen[function], seen[function] + 1
    return sorted(items, key=lambda item: turns[item.nodeid])


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _as_array(marks: bytearray) -> np.ndarray:
    return np.frombuffer(bytes(marks), np.uint8)


def _processor_seconds() -> float:
    return sum(os.times()[:4])


class _TooLong(BaseException):
    """Ends a test: not an `Exception`, after which a property would try further examples."""


def _too_long(*_: object) -> None:
    raise _TooLong


def _end(says: Connection, said: object) -> None:
    says.send(said)
    os._exit(0)


def in_a_fork(function: Callable[..., None], limit_seconds: float, *given: object) -> Any:
    """Run a function in a fork with limited processor time; returns its seconds and its answer.

    Texts that it sends name the running test. If the fork ends without an answer, that test is "out
    of time" if time ran out, else "killed".
    """
    said, says = PROCESSES.Pipe(duplex=False)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = PROCESSES.Process(target=_forked, args=(function, limit_seconds, says, given))
    process.start()
    says.close()
    found: Any = ""
    try:
        while isinstance(found, str) and said.poll(60 + 10 * limit_seconds):
            found = said.recv()
    except EOFError:
        pass
    process.join(2)
    process.kill()
    process.join()
    if isinstance(found, str):
        late = process.exitcode in (-signal.SIGKILL, -signal.SIGXCPU)
        found = "out of time" if late else "killed", found
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, found


def _forked(
    function: Callable[..., None], limit: float, says: Connection, given: Sequence[object]
) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (max(1, round(limit)),) * 2)
    function(says, *given)
    os._exit(0)


def run_pytest(tree: Path, options: Sequence[str], plugin: object) -> int:
    """Run pytest in a copy of the tree, without output."""
    os.chdir(tree)
    places = [str(tree / name) for name in ("src", "tests", "benchmarks")]
    os.environ |= {"PYTHONPATH": os.pathsep.join(places), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:0], sys.dont_write_bytecode = places, True
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    vars(import_module("support.examples"))["FIRST_FAILURE"] = FIRST_FAILURE
    return pytest.main([*_OPTIONS, *options], plugins=[plugin])


def _serve(tree: Path, asks: Connection, files: Sequence[str]) -> None:
    setattr(builtins, _MARKS, bytearray(1 << 18))
    sys.meta_path.insert(0, _Finder)
    run_pytest(tree, [*files, f"--basetemp={tree / 'made'}"], _Server(tree, asks))
    os._exit(0)


class WarmTests:
    """Tests of some files in a copy of the tree. What they reach is kept in a folder, under a
    digest of each file's text.
    """

    imported: set[int]
    """Keys of the statements that importing and collecting reach."""
    _names: dict[str, list[str]]
    """The tests of each file."""

    def __init__(self, tree: Path, kept: Path, files: Sequence[str]) -> None:
        self._asked, asks = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=_serve, args=(tree, asks, files))
        self._process.start()
        asks.close()
        self._tree, self._kept, self._sound = tree, kept, set[str]()
        self.imported, self._names = self._asked.recv()
        self._reached: dict[str, Reached] = {}

    def close(self) -> None:
        self._asked.send(None)
        self._process.join()

    def learn(self, file: str) -> Reached:
        """Statements that the tests of one file reach: known, read, or recorded now."""
        if file in self._reached:
            return self._reached[file]
        path = self._place(file)
        if not path.exists():
            _, found = self._ask("record", FILE_SECONDS + 3 * LONGEST_SECONDS, file)
            if not isinstance(found, Reached):
                found = Reached(
                    [], np.zeros((2, 0)), np.zeros(0, np.int64), np.zeros((0, 0), np.uint8)
                )
            found.saved(path)
        self._reached[file] = Reached.loaded(path)
        return self._reached[file]

    def _place(self, file: str) -> Path:
        text = (self._tree / file).read_bytes()
        return self._kept / f"{blake2b(file.encode() + text, digest_size=12).hexdigest()}.npz"

    def _able(self, file: str, keys: Sequence[int]) -> list[Test]:
        """Tests of a file that reach any of these statements; all if that is not recorded."""
        if file in self._reached or self._place(file).exists():
            return sorted(self.learn(file).by(keys))
        return [Test(UNKNOWN_SECONDS, 0.0, name) for name in self._names.get(file, ())]

    def reaching(self, keys: Sequence[int], files: Sequence[str], seconds: float) -> list[Test]:
        """Tests that reach any of these statements, in the order of their files: half of the time
        is for the fastest ones of the nearest files, half for the other files in turn.
        """
        found = [each for file in files if (each := self._able(file, keys))]
        near = sorted((test for tests in found[:NEAR] for test in tests), key=itemgetter(0))
        turns = [(turn, test) for tests in found[NEAR:] for turn, test in enumerate(tests)]
        far = [test for _, test in sorted(turns)]
        places = {file: place for place, file in enumerate(files)}
        chosen = _within(seconds / 2, near) + _within(seconds / 2, far)
        return sorted(chosen, key=lambda test: places[test.name.partition("::")[0]])

    def judged(
        self, path: str, seeded: bytes, tests: list[Test], limit_seconds: float
    ) -> Verdict | None:
        """Verdict on a fault; None if only a process that imports it can show it.

        A test that fails for the first time has to pass without the fault. A test out of time
        decides if no later one fails.
        """
        place = self._tree / SOURCES / path
        source, total, late, left = place.read_bytes(), 0.0, list[str](), tests
        while True:
            seconds, found = self._ask("judge", 3 * limit_seconds, path, seeded, left)
            place.write_bytes(source)
            total += seconds
            if found is None:
                return None
            outcome, test = found
            if outcome == "alive":
                return Verdict("out of time" if late else "alive", next(iter(late), ""), total)
            at = [each.name for each in left].index(test) if test else len(left)
            if outcome == "out of time":
                late.append(test)
            elif test not in self._sound:
                seconds, (alone, _) = self._ask("judge", 3 * limit_seconds, path, None, [left[at]])
                total += seconds
                if alone == "alive":
                    self._sound.add(test)
            if outcome == "killed" and test in self._sound:
                return Verdict("killed", test, total)
            left = left[at + 1 :]

    def _ask(self, *asked: object) -> Any:
        self._asked.send(asked)
        return self._asked.recv()
