"""Seed faults in the code, one after the other, and see whether the nearest tests notice.

A fault is one changed place: a comparison, a constant, a term that is dropped, `and` for `or`,
`any` for `all`, `min` for `max`, a `not` that is gone. Its tests are those that import the module,
then those of the folder that mirrors its own. They run on a copy of the tree, and one that fails
has to pass without the fault. Each fault is recorded when it is done, so that a run that was
stopped goes on where it was.

    make faults COUNT=100 SEED=0
    python tools/faults.py --only common/intervals.py
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import pytest
from rich.progress import track

ROOT = Path(__file__).resolve().parents[1]
SOURCES = Path("src/tilewright")
COPIED = ("src", "tests", "benchmarks", "docs", "examples", "tools", "pyproject.toml", "README.md")
BEFORE = ("numpy", "numba", "msgspec", "hypothesis", "onnx", "ortools.sat.python.cp_model")
"""Modules that most tests import, loaded once for all of them."""
COMPILED = Path(".pytest_cache/compiled")
NEAR = 8
"""Test files that import a module of which that many run ahead of its folder."""

_OPTIONS = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider")
_PROCESSES = multiprocessing.get_context("fork")
Outcome = Literal["killed", "alive", "out of time"]
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
"""Messages, what holds anyway, and patterns, whose constants are names of cases."""


@dataclass(frozen=True)
class Fault:
    """One place of one file, and the text that takes its place."""

    path: str
    line: int
    what: str
    start: int
    end: int
    text: str

    @property
    def package(self) -> str:
        """The stage of the pipeline that it is in."""
        return self.path.partition("/")[0]

    def seeded(self, source: bytes) -> bytes:
        """The file with the fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]


@dataclass(frozen=True)
class Record:
    """Outcome of one fault."""

    fault: Fault
    outcome: Outcome
    seconds: float


def main() -> None:
    """Run the faults that are not recorded yet; then sum all of them up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="faults of the files whose path begins so")
    parser.add_argument(
        "--limit", type=float, default=60, help="processor seconds of each group of tests"
    )
    parser.add_argument("--records", type=Path, default=ROOT / "out/faults.jsonl")
    given = parser.parse_args()
    wanted = sampled(given.count, given.seed, given.only)
    given.records.parent.mkdir(parents=True, exist_ok=True)
    known = {record.fault for record in recorded(given.records)}
    for name in BEFORE:
        import_module(name)
    with tempfile.TemporaryDirectory() as folder, given.records.open("a") as file:
        tree = copied(Path(folder))
        for fault in track([fault for fault in wanted if fault not in known], "faults"):
            record = judged(fault, tree, given.limit)
            file.write(json.dumps(asdict(record)) + "\n")
            file.flush()
    summed_up([record for record in recorded(given.records) if record.fault in set(wanted)])


def recorded(path: Path) -> list[Record]:
    """Records of earlier runs."""
    found = map(json.loads, path.read_text().splitlines() if path.exists() else ())
    return [Record(Fault(**one.pop("fault")), **one) for one in found]


def sampled(count: int, seed: int, only: str) -> list[Fault]:
    """So many faults, as many of each package as there are; the first ones of a longer list."""
    generator, packages = random.Random(seed), dict[str, list[Fault]]()
    for path in sorted((ROOT / SOURCES).rglob("*.py")):
        name = path.relative_to(ROOT / SOURCES).as_posix()
        if "/" in name and name.startswith(only):
            packages.setdefault(name.partition("/")[0], []).extend(faults_of(path, name))
    for faults in packages.values():
        generator.shuffle(faults)
    turns = range(max(map(len, packages.values()), default=0))
    by_turn = (faults[turn] for turn in turns for faults in packages.values() if turn < len(faults))
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
    """The expressions that decide what a file computes: no annotations, decorators, options of
    classes, messages.
    """
    left_out = ("annotation", "returns", "decorator_list", "type_params")
    for field, value in ast.iter_fields(node):
        if field in left_out or (isinstance(node, ast.ClassDef) and field == "keywords"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.match_case):
                for line in child.body:
                    yield from _code(line)
            elif isinstance(child, ast.AST) and not isinstance(child, _LEFT_OUT):
                if isinstance(child, ast.expr):
                    yield child
                yield from _code(child)


def _changed(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Kind and replacement for each change of an expression."""
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
    """A copy of the tree with what was compiled for it."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    if (ROOT / COMPILED).is_dir():
        shutil.copytree(ROOT / COMPILED, folder / COMPILED)
    return folder


def judged(fault: Fault, tree: Path, limit_seconds: float) -> Record:
    """Runs the tests of a fault with it in place."""
    path = tree / SOURCES / fault.path
    source, started = path.read_bytes(), time.monotonic()
    path.write_bytes(fault.seeded(source))
    outcome: Outcome = "alive"
    try:
        for tests in nearest_tests(fault.path, tree):
            outcome, failing = _outcome(tests, tree, limit_seconds)
            if outcome != "alive":
                break
    finally:
        path.write_bytes(source)
    if outcome == "killed" and _outcome([failing], tree, limit_seconds)[0] != "alive":
        raise SystemExit(f"{failing} does not pass without a fault")
    return Record(fault, outcome, round(time.monotonic() - started, 1))


def nearest_tests(path: str, tree: Path) -> list[list[str]]:
    """Test files in the order in which they run: one of the same name, those that import the
    module, all of the folder that mirrors its own, or the nearest one above it.
    """
    module = f"tilewright.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
    package, _, last = module.rpartition(".")
    every = sorted((tree / "tests").rglob("test_*.py"))
    own = [test for test in every if test.stem == f"test_{last}"]
    imports = (f"from {module} import", f"from {package} import {last}\n", f"{module} as")
    users = [test for test in every if any(line in test.read_text() for line in imports)]
    near = [test for test in users if test not in own][:NEAR]
    folders = (tree / "tests" / parent for parent in Path(path).parents)
    mirror = next(filter(None, (sorted(folder.glob("test_*.py")) for folder in folders)), [])
    beside = [test for test in mirror if test not in (*own, *near)]
    return [[str(test) for test in tests] for tests in (own, near, beside) if tests]


def _outcome(tests: Sequence[str], tree: Path, limit_seconds: float) -> tuple[Outcome, str]:
    """Outcome of a fault under some tests, and the function of theirs that fails. They run in a
    process of their own that begins with what all tests import, and end with its processor time.
    """
    said, says = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_run, args=(tests, tree, limit_seconds, says))
    process.start()
    says.close()
    process.join()
    if process.exitcode is not None and process.exitcode < 0:
        return "out of time", ""
    failing = said.recv()
    return ("killed", failing.partition("[")[0]) if failing else ("alive", "")


@dataclass(frozen=True)
class _Watch:
    """Tells the first test that fails, or the file that cannot be read."""

    says: Connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.says.send(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.says.send(report.nodeid)


def _run(tests: Sequence[str], tree: Path, limit_seconds: float, says: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (max(1, round(limit_seconds)),) * 2)
    os.chdir(tree)
    places = [str(tree / name) for name in ("src", "tests", "benchmarks")]
    os.environ |= {"PYTHONPATH": os.pathsep.join(places), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:0], sys.dont_write_bytecode = places, True
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        told = pytest.main([*_OPTIONS, *tests], plugins=[_Watch(says)])
    if told not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        says.send(tests[0])
    says.send("")
    os._exit(0)


def summed_up(records: Sequence[Record]) -> None:
    """The survivors, and how many faults of each package were killed."""
    for record in records:
        if record.outcome != "killed":
            fault = record.fault
            print(f"{record.outcome}: {fault.path}:{fault.line}: {fault.what}: {fault.text}")
    counts = Counter((record.fault.package, record.outcome) for record in records)
    for package in sorted({package for package, _ in counts}):
        killed, alive = counts[package, "killed"], counts[package, "alive"]
        late = counts[package, "out of time"]
        share = f"{100 * killed / (killed + alive):.0f} %" if killed + alive else ""
        print(f"{package:12} {killed:4} killed {alive:4} alive {late:4} out of time  {share}")


if __name__ == "__main__":
    main()
