"""`tilewright models`: which model files can be read, and what the others lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from tilewright.cli.arguments import Models
from tilewright.cli.options import shapes_of
from tilewright.cli.output import UsageProblem
from tilewright.cli.workload import values_of
from tilewright.common.errors import TilewrightError
from tilewright.compiler.entry import load
from tilewright.graph.graph import Network
from tilewright.report.table import plain_table

_MOST_CHARACTERS = 160


class ModelLine(Struct, frozen=True):
    """One file: counts of what was read, or the reason it was refused."""

    file: str
    nodes: int = 0
    weights: int = 0
    flops: int = 0
    refused: str = ""
    lacks: tuple[str, ...] = ()


class ModelsResult(Struct, frozen=True):
    """The `--json` form of `models`; `lacking` counts the files for each reason."""

    models: tuple[ModelLine, ...]
    lacking: dict[str, int]


def run(asked: Models) -> None:
    """Show a line for each file, then the reasons with the number of files for each."""
    read = partial(
        load, batch=asked.batch, shapes=shapes_of(asked.shape), values=values_of(asked.bind)
    )
    lines = tuple(_line(shown, path, read) for shown, path in _files(asked.files).items())
    reasons = Counter(reason for line in lines for reason in set(line.lacks))
    asked.output.value(ModelsResult(lines, dict(reasons.most_common())))
    table = plain_table()
    for column in ("file", "nodes", "weights", "Gflop", "lacks"):
        table.add_column(column, overflow="fold")
    for line in lines:
        numbers = ("", "", "") if line.refused else (
            str(line.nodes), f"{line.weights:,}", f"{line.flops / 1e9:.3f}")  # fmt: skip
        table.add_row(line.file, *numbers, line.refused)
    asked.output.show(table)
    count = sum(not line.refused for line in lines)
    asked.output.show(f"{count} of {len(lines)} files are read")
    if reasons:
        table = plain_table(heads=("files", "lacking"))
        for reason, count in reasons.most_common():
            table.add_row(str(count), reason)
        asked.output.show(table)
    if count < len(lines):
        raise SystemExit(1)


def _files(given: Sequence[Path]) -> dict[str, Path]:
    """The files by the name to show: as given, or relative to a given folder.

    Raises UsageProblem where there are none.
    """
    found: dict[str, Path] = {}
    for path in given:
        below = sorted(path.rglob("*.onnx")) if path.is_dir() else ()
        found |= {str(file.relative_to(path)): file for file in below}
        found |= {} if path.is_dir() else {str(path): path}
    if not found:
        raise UsageProblem(f"no .onnx file lies below {', '.join(map(str, given))}")
    return found


def _line(shown: str, path: Path, read: Callable[[Path], Network]) -> ModelLine:
    try:
        network = read(path)
    except TilewrightError as error:
        first, *others = error.message.splitlines()
        lacks = tuple(map(_reason, others or [first]))
        text = "; ".join(dict.fromkeys(lacks))
        return ModelLine(shown, refused=text[:_MOST_CHARACTERS], lacks=lacks)
    weights = sum(array.size for array in network.values.values())
    return ModelLine(shown, len(network.nodes), weights, network.flops)


def _reason(line: str) -> str:
    """A reason without the names of nodes."""
    text = line.strip().rpartition(" (node")[0] or line.strip()
    start, colon, reason = text.partition("): ")
    return f"{start.rpartition('(')[2]}: {reason}" if colon and start.startswith("node") else text
