"""The lab that experiments run in: worker processes, persistent results, progress.

In: a function of one case, and its cases. Out: the results in the order of the cases. Each result
is recorded as soon as it is finished, so a killed run resumes, and experiments that need the same
number share it. The key is the function, the case and the digest of every source that can change
the result, so results of other code are never used.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cache, partial
from math import gcd
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct

from tilewright.common.digest import PACKAGE, digest, digest_of_code, names_below
from tilewright.common.errors import TilewrightError
from tilewright.papers.model import ExperimentError
from tilewright.papers.published import Published, read_published, read_user_table
from tilewright.tune.executors import as_done
from tilewright.tune.store import Store, StoreKind

_VIEWS = ("cli", "report")
"""Packages that show results and cannot change them."""
_TOGETHER = 16
"""Cases per call of a function that takes several: few enough that a killed run loses little."""

_KIND = StoreKind(
    title="experiment records",
    application_id=0x74776531,
    format=1,
    table="results",
    schema="""
CREATE TABLE results (
    key TEXT PRIMARY KEY,
    function TEXT NOT NULL,
    parameters TEXT NOT NULL,
    result TEXT NOT NULL
) WITHOUT ROWID
""",
)

Case = TypeVar("Case")
Found = TypeVar("Found")
RowT = TypeVar("RowT", bound=Struct)
Advance = Callable[[str, int, int], None]
"""Called with (experiment, cases done, cases in all)."""


class ResultRecords(Store):
    """An open store of results, as JSON texts by key."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, _KIND)

    def get(self, key: str) -> str | None:
        """The recorded result; None if there is none."""
        row = self._row("SELECT result FROM results WHERE key = ?", (key,))
        return None if row is None else str(row[0])

    def put(self, key: str, function: str, case: str, result: str) -> None:
        """Commit one result."""
        self._insert((key, function, case, result))


def _silent(experiment: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Lab:
    """Conditions of an experiment: `quick` runs a small subset of the cases by the same code;
    `options` are the user's; `rows` is a file that replaces the published table.
    """

    quick: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    rows: Path | None = None
    records: ResultRecords | None = None
    executor: Executor | None = None
    advance: Advance = _silent
    experiment: str = ""

    def map(self, function: Callable[[Case], Found], cases: Sequence[Case]) -> list[Found]:
        """`function` of each case, where the function is module-level and its return type
        annotated.

        A case and a result are plain values, frozen structs included (as msgspec encodes them in
        JSON). A case contains everything that the function needs from user files. Raises
        ExperimentError, with the case, where the function raises.
        """
        kind = get_type_hints(function)["return"]
        return self._results(
            _qualified_name(function), partial(_one_by_one, function), cases, 1, kind
        )

    def map_together(
        self, function: Callable[[Sequence[Case]], list[Found]], cases: Sequence[Case]
    ) -> list[Found]:
        """The results of a function that processes several cases at once, faster than one by one.

        Each result is recorded for its own case, whichever others it was computed with.
        """
        (kind,) = get_args(get_type_hints(function)["return"])
        return self._results(_qualified_name(function), function, cases, _TOGETHER, kind)

    def _results(
        self,
        name: str,
        function: Callable[[Sequence[Any]], list[Any]],
        cases: Sequence[Any],
        together: int,
        kind: Any,
    ) -> list[Any]:
        texts = [msgspec.json.encode(case, order="deterministic").decode() for case in cases]
        found = dict(self._recorded(name, texts))
        new = {text: case for text, case in zip(texts, cases, strict=True) if text not in found}
        total = len(found) + len(new)
        self.advance(self.experiment, len(found), total)
        calls = (
            (tuple(part), partial(_call, function, [new[text] for text in part]))
            for part in _parts(list(new), together)
        )
        for part, result in as_done(self.executor, calls):
            for text, value in zip(part, _values(result, name, part), strict=True):
                found[text] = value
                if self.records is not None:
                    self.records.put(_key(name, text), name, text, value)
                self.advance(self.experiment, len(found), total)
        return [msgspec.json.decode(found[text], type=kind) for text in texts]

    def published(self, paper: str, name: str, row: type[RowT]) -> Published[RowT]:
        """The published table, or the user's rows in its place."""
        if self.rows is not None:
            return read_user_table(self.rows, row)
        return read_published(paper, name, row)

    def some(self, cases: Sequence[Case], count: int) -> list[Case]:
        """All cases, or, in a quick run, `count` of them spread over the list."""
        return spread_sample(cases, count if self.quick else None)

    def _recorded(self, name: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
        if self.records is not None:
            for text in dict.fromkeys(texts):
                if (result := self.records.get(_key(name, text))) is not None:
                    yield text, result


def spread_sample(cases: Sequence[Case], count: int | None) -> list[Case]:
    """`count` cases spread over the list, in its order; a larger sample contains a smaller one.

    Steps are about a golden section of the length and coprime to it, so they match no period of it.
    """
    total = len(cases)
    if count is None or count >= total:
        return list(cases)
    step = next(s for s in range(round(0.618 * total), 2 * total) if gcd(s, total) == 1)
    taken = sorted(i * step % total for i in range(count))
    return [cases[i] for i in taken]


def _qualified_name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _parts(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for first in range(0, len(texts), size):
        yield texts[first : first + size]


def _one_by_one(function: Callable[[Any], Any], cases: Sequence[Any]) -> list[Any]:
    return [function(case) for case in cases]


def _call(function: Callable[[Sequence[Any]], list[Any]], cases: Sequence[Any]) -> list[str]:
    return [msgspec.json.encode(found).decode() for found in function(cases)]


def _values(result: Callable[[], list[str]], name: str, cases: Sequence[str]) -> list[str]:
    try:
        return result()
    except TilewrightError as error:
        what = f"{error.where}: {error.message}" if error.where else error.message
        case = ", ".join(cases)
        raise ExperimentError(f"{name} of {case}: {what}", fix=error.fix) from error


def _key(name: str, case: str) -> str:
    return digest(name, case, sources_digest(name.rsplit(".", 1)[0]))


@cache
def sources_digest(module: str) -> str:
    """Digest of every file that can change the result of a function of `module`.

    Covers all packages except those that only show results, and of `papers` only the modules that
    `module` imports, so that changing one experiment keeps the results of the others.
    """
    apart = (*_VIEWS, "papers")
    below = (name for name in names_below(PACKAGE) if name.partition(os.sep)[0] not in apart)
    reached = (str(path.relative_to(PACKAGE)) for path in _reached(module))
    return digest_of_code(PACKAGE, (*below, *reached))


def _reached(module: str) -> set[Path]:
    """The files of the modules of `papers` that `module` imports, directly or indirectly."""
    found: set[Path] = set()
    names = [module]
    while names:
        path = _module_file(names.pop())
        if path is None or path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
    return found


def _module_file(name: str) -> Path | None:
    if not name.startswith("tilewright.papers."):
        return None
    path = PACKAGE.parent.joinpath(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((candidate for candidate in candidates if candidate.is_file()), None)
