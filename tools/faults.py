"""Seed faults in the code, one after the other, and see whether a test notices.

A fault is one changed expression: a comparison, a constant, a dropped term, `and` for `or`, `any`
for `all`, `min` for `max`, a dropped `not`. It is judged by the tests of the whole suite that reach
its statement (`warm_tests.py`), fast ones and those of the nearest files first, within a limit of
processor time; a test that fails has to pass without the fault. First all faults are tried on their
nearest files, then the survivors on the others. A fault that only an import shows, or in code that
Numba compiles, is tried in a fresh process. All of this happens in a copy of the tree. Each
finished fault is recorded, so that a stopped run resumes. What the tests of a file reach is
recorded once for each text of that file, before it judges its first fault.

    make faults COUNT=100 SEED=0
    python tools/faults.py --only common/intervals.py cost/

`faults_equivalent.csv` lists faults that change no result, and why.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.util import cache_from_source
from multiprocessing.connection import Connection
from operator import itemgetter
from pathlib import Path
from typing import TextIO

import pytest
from rich.progress import track
from warm_tests import (
    CACHE,
    LEFT_OUT,
    SOURCES,
    Outcome,
    Verdict,
    WarmTests,
    in_a_fork,
    is_compiled,
    keys_at,
    run_pytest,
)

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("src", "tests", "benchmarks", "docs", "examples", "tools", "pyproject.toml", "README.md")
BEFORE = ("numpy", "numba", "msgspec", "hypothesis", "onnx", "ortools.sat.python.cp_model")
"""Modules that most tests import, loaded once for all of them."""
EQUIVALENT = ROOT / "tools/faults_equivalent.csv"
NEAREST = 3
"""Nearest test files that judge a fault before all files do."""
FIRST_SECONDS = 2.0
"""Processor time for the tests of each of these."""
FRESH = 6
"""Most test files that a fresh process imports to judge a fault."""

Swapped = dict[type[ast.AST], type[ast.AST]]
_COMPARISONS: Swapped = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_TERMS = (ast.Add, ast.Sub, ast.BitOr, ast.BitAnd)
_NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
_LEFT_OUT = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.match_case)
"""Nodes without faults: messages, assertions, imports, and patterns, whose constants name cases."""


@dataclass(frozen=True)
class Fault:
    """One expression of a file, bytes `start` to `end`, and the text that replaces it."""

    path: str
    line: int
    what: str
    start: int
    end: int
    text: str

    @property
    def package(self) -> str:
        """The package that it is in."""
        return self.path.partition("/")[0]

    def seeded(self, source: bytes) -> bytes:
        """The file with the fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]


@dataclass(frozen=True)
class Record:
    """Outcome of one fault, the test that decided it, and its processor time."""

    fault: Fault
    outcome: Outcome
    seconds: float
    test: str = ""


def main() -> None:
    """Run the faults that are not recorded yet; then summarise all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[""], help="files whose path begins so")
    parser.add_argument("--limit", type=float, default=30, help="processor seconds of a fault")
    parser.add_argument(
        "--files",
        type=int,
        help="how many of the nearest test files judge a fault; 0 for the first few, which need no "
        "record of what they reach",
    )
    parser.add_argument("--alive", action="store_true", help="try those again that were alive")
    parser.add_argument("--records", type=Path, default=ROOT / "out/faults.jsonl")
    given = parser.parse_args()
    wanted = sampled(given.count, given.seed, tuple(given.only))
    given.records.parent.mkdir(parents=True, exist_ok=True)
    done = {r.fault: r.outcome for r in recorded(given.records)}
    again = "alive" if given.alive else ""
    left = [fault for fault in wanted if done.get(fault, again) == again]
    if left:
        run(left, given.records, given.limit, given.files)
    summed_up([record for record in recorded(given.records) if record.fault in set(wanted)])


def run(faults: Sequence[Fault], records: Path, limit_seconds: float, files: int | None) -> None:
    """Judge faults in a copy of the tree, each by its nearest `files`, and record the verdicts."""
    for name in BEFORE:
        import_module(name)
    with tempfile.TemporaryDirectory(dir=records.parent) as folder, records.open("a") as file:
        tree = copied(Path(folder).resolve())
        first = {test for fault in faults for test in nearest_tests(fault.path, tree)[:NEAREST]}
        known = list(_tests(tree)) if files != 0 else sorted(first)
        tests, left = WarmTests(tree, records.parent / "reached", known), list[Fault]()
        for fault in track(faults, "faults, nearest tests"):
            for near in _nearest_in_turn(fault, tree, tests):
                limit = min(limit_seconds, FIRST_SECONDS) if len(near) == 1 else limit_seconds
                verdict = judged(fault, tree, tests, near, limit)
                if verdict.outcome == "killed":
                    _write(file, fault, verdict)
                    break
            else:
                left.append(fault)
        for fault in track(left if files != 0 else (), "faults, other tests"):
            near = nearest_tests(fault.path, tree)[:files]
            for test in near:
                tests.learn(test)
            _write(file, fault, judged(fault, tree, tests, near, limit_seconds))
        tests.close()


def _nearest_in_turn(fault: Fault, tree: Path, tests: WarmTests) -> list[list[str]]:
    """Groups of nearest test files: one file each, or all in one if the fault must be imported."""
    source, near = (tree / SOURCES / fault.path).read_bytes(), nearest_tests(fault.path, tree)
    keys = keys_at(fault.path, source, fault.line)
    alone = len(keys) == 1 and keys[0] not in tests.imported and not is_compiled(source)
    return [[file] for file in near[:NEAREST]] if alone else [near[:NEAREST]]


def _write(file: TextIO, fault: Fault, verdict: Verdict) -> None:
    record = Record(fault, verdict.outcome, round(verdict.seconds, 2), verdict.test)
    file.write(json.dumps(asdict(record)) + "\n")
    file.flush()


def recorded(path: Path) -> list[Record]:
    """Records of earlier runs, the last one of each fault."""
    found = map(json.loads, path.read_text().splitlines() if path.exists() else ())
    every = [Record(Fault(**one.pop("fault")), **one) for one in found]
    return list({record.fault: record for record in every}.values())


def sampled(count: int, seed: int, only: tuple[str, ...]) -> list[Fault]:
    """A sample of `count` faults, spread evenly over packages. It is a prefix of any larger sample,
    and does not change when other lines of the sources do.
    """
    packages = dict[str, list[tuple[bytes, Fault]]]()
    for path in sorted((ROOT / SOURCES).rglob("*.py")):
        name, lines = path.relative_to(ROOT / SOURCES).as_posix(), path.read_text().splitlines()
        if "/" in name and name.startswith(only):
            for fault in faults_of(path, name):
                told = (seed, name, lines[fault.line - 1].strip(), fault.what, fault.text)
                drawn = blake2b(repr(told).encode(), digest_size=8).digest(), fault
                packages.setdefault(fault.package, []).append(drawn)
    every = [[fault for _, fault in sorted(own, key=itemgetter(0))] for own in packages.values()]
    turns = range(max(map(len, every), default=0))
    by_turn = (faults[turn] for turn in turns for faults in every if turn < len(faults))
    return [fault for fault, _ in zip(by_turn, range(count), strict=False)]


def faults_of(path: Path, name: str) -> list[Fault]:
    """Every fault of one file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in _code(ast.parse(source)):
        for what, other in _changed(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            text = f"({ast.unparse(ast.fix_missing_locations(other))})"
            found.append(Fault(name, node.lineno, what, start, end, text))
    return found


def _code(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that determine what a file computes, without types, decorators, keywords of
    classes and messages.
    """
    left_out = ("annotation", "returns", "decorator_list", "type_params")
    for field, value in ast.iter_fields(node):
        if field in left_out or (isinstance(node, ast.ClassDef) and field == "keywords"):
            continue
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.match_case):
                for line in child.body:
                    yield from _code(line)
            elif isinstance(child, ast.keyword) and ast.unparse(child) == "strict=True":
                pass  # an assertion of `zip`
            elif isinstance(child, ast.AST) and not isinstance(child, _LEFT_OUT):
                if isinstance(child, ast.expr):
                    yield child
                yield from _code(child)


def _changed(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """(kind, replacement) for each change of an expression."""
    match node:
        case ast.Compare(ops=[operator]):
            swapped = _COMPARISONS[type(operator)]
            other = copy.deepcopy(node)
            other.ops = [swapped()]  # type: ignore[list-item]
            yield "comparison", other
        case ast.BoolOp(op=operator, values=values):
            other_operator = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "and, or", ast.BoolOp(other_operator, values)
            yield "dropped condition", values[0]
        case ast.BinOp(left=left, op=operator) if isinstance(operator, _TERMS):
            yield "dropped term", left
        case ast.BinOp(left=left, op=ast.Mult() | ast.FloorDiv() | ast.Div()):
            yield "dropped factor", left
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "dropped not", operand
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            other_call = copy.deepcopy(node)
            other_call.func = ast.Name(_NAMES[name])
            yield f"{_NAMES[name]} for {name}", other_call
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield "off by one", ast.Constant(value + 1)
        case ast.Constant(value=bool() as value):
            yield "other truth", ast.Constant(not value)
        case _:
            pass


def copied(folder: Path) -> Path:
    """Copy the tree, and link its cache of compiled code."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy(source, folder / name)
    if (ROOT / CACHE).is_dir():
        shutil.copytree(ROOT / CACHE, folder / CACHE, copy_function=os.link)
    return folder


def judged(
    fault: Fault, tree: Path, tests: WarmTests, near: Sequence[str], limit_seconds: float
) -> Verdict:
    """Verdict of the tests in the files `near` that reach a fault, in the order of the files."""
    source = (tree / SOURCES / fault.path).read_bytes()
    keys = [] if is_compiled(source) else keys_at(fault.path, source, fault.line)
    chosen = tests.reaching(keys or _keys_of_users(fault.path, tree), near, limit_seconds)
    if not chosen and len(near) == 1:
        return Verdict("alive", "", 0.0)
    verdict = None
    if not is_compiled(source):
        verdict = tests.judged(fault.path, fault.seeded(source), chosen, limit_seconds)
    if verdict and (verdict.outcome != "alive" or not tests.imported & set(keys)):
        return verdict
    every = [test.name for test in chosen]
    files = list(dict.fromkeys(name.partition("::")[0] for name in every))[:FRESH]
    names = [name for name in every if name.partition("::")[0] in files]
    return _freshly(fault, tree, names or near[:FRESH], limit_seconds)


def _keys_of_users(path: str, tree: Path) -> list[int]:
    """Keys of all statements of files that import this one, directly or through compiled files."""
    found, users = set[int](), [path]
    for used in users:
        for user, (imports, keys) in _importing(tree).items():
            if module_of(used) in imports and user not in users:
                found.update(keys)
                if not keys:
                    users.append(user)
    return list(found)


@cache
def _importing(tree: Path) -> dict[str, tuple[set[str], list[int]]]:
    """For each source file, the modules that it imports from, and the keys of its statements: none
    if they are compiled or outside functions.
    """
    found = {}
    for place in sorted((tree / SOURCES).rglob("*.py")):
        path, source = place.relative_to(tree / SOURCES).as_posix(), place.read_bytes()
        imports = set[str]()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                imports |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        found[path] = imports, [] if is_compiled(source) else keys_at(path, source, 0)
    return found


def _freshly(fault: Fault, tree: Path, tests: Sequence[str], limit_seconds: float) -> Verdict:
    """Verdict of tests on a fault in a fresh process, which imports it."""
    path = tree / SOURCES / fault.path
    source = path.read_bytes()
    compiled = Path(cache_from_source(str(path)))
    try:
        compiled.unlink(missing_ok=True)  # it knows the source's date in whole seconds only
        path.write_bytes(fault.seeded(source))
        seconds, (outcome, test) = in_a_fork(_fresh, 8 + 3 * limit_seconds, tests, tree)
    finally:
        path.write_bytes(source)
        compiled.unlink(missing_ok=True)
    if outcome == "killed":
        more, (without, _) = in_a_fork(_fresh, 8 + 3 * limit_seconds, [test], tree)
        if without != "alive":
            left = [each for each in tests if each != test]
            return _freshly(fault, tree, left, limit_seconds) if left else Verdict("alive", "", 0)
        seconds += more
    return Verdict(outcome, test, seconds)


def module_of(path: str) -> str:
    """Name of the module of a file."""
    return f"tilewright.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


@cache
def nearest_tests(path: str, tree: Path) -> list[str]:
    """Test files, nearest to a source file first. The mirror of its folder is the test folder of
    that name, or of the nearest folder above. In order: the mirror's file of the same name, files
    that import the module, others of the mirror; within each, by how often they mention the name.
    Tests of other packages come last.
    """
    module = module_of(path)
    package, _, last = module.rpartition(".")
    texts = _tests(tree)
    imports = (f"from {module} import", f"from {package} import {last}\n", f"{module} as")
    folders = [f"tests/{parent.as_posix()}" for parent in Path(path).parents]
    inside = ({test for test in texts if test.rpartition("/")[0] == folder} for folder in folders)
    mirror = next(filter(None, inside), set())

    def distance(test: str) -> tuple[bool, bool, bool, bool, int]:
        text, foreign = texts[test], not test.startswith(f"tests/{path.partition('/')[0]}/")
        own = test in mirror and test.endswith(f"/test_{last}.py")
        imported = any(line in text for line in imports)
        return foreign, not own, not imported, test not in mirror, -text.count(last)

    return sorted(texts, key=distance)


@cache
def _tests(tree: Path) -> dict[str, str]:
    """Text of each test file, by name."""
    paths = sorted((tree / "tests").rglob("test_*.py"))
    found = {path.relative_to(tree).as_posix(): path.read_text() for path in paths}
    return {name: text for name, text in found.items() if not name.startswith(LEFT_OUT)}


@dataclass(frozen=True)
class _Watch:
    """Reports the first test that fails, or the file that cannot be collected."""

    says: Connection

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.says.send(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say(report.nodeid)

    def _say(self, name: str) -> None:
        self.says.send(("killed", name))
        os._exit(0)


def _fresh(says: Connection, tests: Sequence[str], tree: Path) -> None:
    told = run_pytest(tree, tests, _Watch(says))
    passed = told in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    says.send(("alive" if passed else "killed", "" if passed else tests[0]))


def equivalent() -> set[tuple[str, str, str, str]]:
    """(file, line, kind, text) of faults that change no result."""
    with EQUIVALENT.open(newline="") as file:
        return {
            (row["path"], row["line"], row["what"], row["text"]) for row in csv.DictReader(file)
        }


def summed_up(records: Sequence[Record]) -> None:
    """Print the survivors, and how many faults of each package were killed."""
    excused, counts = equivalent(), Counter[tuple[str, str]]()
    for record in records:
        fault, outcome = record.fault, str(record.outcome)
        line = (ROOT / SOURCES / fault.path).read_text().splitlines()[fault.line - 1].strip()
        if outcome == "alive" and (fault.path, line, fault.what, fault.text) in excused:
            outcome = "equivalent"
        elif outcome != "killed":
            print(f"{outcome}: {fault.path}:{fault.line}: {fault.what}: {fault.text}")
        counts[fault.package, outcome] += 1
        counts["all", outcome] += 1
    for package in sorted({package for package, _ in counts}):
        killed, alive = counts[package, "killed"], counts[package, "alive"]
        late, same = counts[package, "out of time"], counts[package, "equivalent"]
        share = f"{100 * killed / (killed + alive):.0f} %" if killed + alive else ""
        print(
            f"{package:12} {killed:4} killed {alive:4} alive {same:4} equivalent {late:4} out of "
            f"time  {share}"
        )


if __name__ == "__main__":
    main()
