"""Subject of a report: the content of one folder of `compile -o`, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tilewright.common.modules import titles_below
from tilewright.report.view import Explanation, LayerResult


@dataclass(frozen=True)
class Subject:
    """An operator, or the layers of a network in its order; `explanations` has each distinct
    kernel under the name of its folder, empty for an operator.
    """

    name: str
    machine: str
    batch: int | None
    dtype: str | None
    layers: tuple[LayerResult, ...]
    total_milliseconds: float
    explanations: Mapping[str, Explanation]

    def explained(self, layer: LayerResult) -> Explanation | None:
        """The explanation of the kernel that a layer calls."""
        return self.explanations.get(layer.artifact or "")


# Reports by name: a module `report/reports/NAME.py` with TITLE, SUFFIX and a function `text`.

_FOLDER = Path(__file__).parent / "reports"


@dataclass(frozen=True)
class _Report:
    """One way to write down what was compiled; `suffix` is that of its files."""

    name: str
    suffix: str
    text: Callable[[Subject], str]


def report_titles() -> dict[str, str]:
    """Name -> title of every report, sorted, read without importing one."""
    return titles_below(_FOLDER)


def load_report(name: str) -> _Report:
    """Import one report of `report_titles()`."""
    module = import_module(f"tilewright.report.reports.{name}")
    return _Report(name, module.SUFFIX, module.text)
