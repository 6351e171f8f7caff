"""Experiments by name: a module `papers/PAPER/EXPERIMENT.py` with a TITLE is one; a module with
TITLES has several, each a function by its name.

In: the tree of this package. Out: names and titles, read without importing anything, and an
experiment, imported on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import cast

from matplotlib.figure import Figure

from tilewright.common.modules import titled_below
from tilewright.papers.figures import save_figure
from tilewright.papers.lab import Lab
from tilewright.papers.model import ExperimentError, Findings, Result
from tilewright.report.reproduction import verdict_counts

_ROOT = Path(__file__).parent


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper. A module with TITLE provides `run` and `draw`. One with
    TITLES provides functions `NAME` and `draw_NAME`, and `run` for experiments without a function.
    """

    name: str
    title: str
    module: ModuleType

    @property
    def takes_options(self) -> bool:
        """True if the experiment, or its whole paper, reads `--option`."""
        paper = import_module(self.module.__name__.rpartition(".")[0])
        return any(hasattr(one, "TAKES_OPTIONS") for one in (self.module, paper))

    def run(self, lab: Lab) -> Result:
        """Run the experiment: published numbers beside ours. Raises whatever its stages raise."""
        paper, _, own = self.name.partition("/")
        run = (self._is_one_of_several and getattr(self.module, own, None)) or self.module.run
        found = run(replace(lab, experiment=self.name))
        assert isinstance(found, Findings), self.name
        summary = {**found.summary, **verdict_counts(found.rows)}
        return Result(paper, own, self.title, found.rows, summary, found.notes)

    def save_figure(self, result: Result, stem: Path) -> list[Path]:
        """Write the picture as `stem`.svg and `stem`.png; no files if there is none."""
        return [] if self.draw is None else save_figure(self.draw(result), stem)

    @property
    def draw(self) -> Callable[[Result], Figure] | None:
        """The function that draws its result, or None."""
        own = f"draw_{self.name.rpartition('/')[2]}" if self._is_one_of_several else "draw"
        return cast("Callable[[Result], Figure] | None", getattr(self.module, own, None))

    @property
    def _is_one_of_several(self) -> bool:
        return hasattr(self.module, "TITLES")


def titles() -> dict[str, str]:
    """`PAPER/EXPERIMENT` -> title, of every experiment, sorted by name."""
    found = {name: one.title for name, one in titled_below(_ROOT).items() if "/" in name}
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def select(wanted: str) -> list[str]:
    """The experiments that `PAPER` or `PAPER/EXPERIMENT` names. Raises ExperimentError."""
    known = titles()
    names = [name for name in known if wanted in (name, name.split("/")[0])]
    if not names:
        raise ExperimentError(
            f"there is no experiment {wanted!r}", fix=f"the experiments are {', '.join(known)}"
        )
    return names


def load_experiment(name: str) -> Experiment:
    """Import one experiment of `titles()`."""
    found = titled_below(_ROOT)[name]
    module = import_module(f"tilewright.papers.{found.module.replace('/', '.')}")
    return Experiment(name, found.title, module)


def _order(name: str) -> tuple[str, str, int]:
    """Sort key that puts figure 9 before figure 10."""
    word = name.rstrip("0123456789")
    return name.split("/")[0], word, int(name[len(word) :] or 0)
