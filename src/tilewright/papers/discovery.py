"""Experiments by name: a module `papers/PAPER/EXPERIMENT.py` that says its TITLE is one.

In: the tree of this package. Out: names and titles, read without importing anything, and the
experiment itself when it is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tilewright.common.modules import titles_below
from tilewright.papers.figures import save_figure
from tilewright.papers.lab import Lab
from tilewright.papers.model import ExperimentError, Result

_ROOT = Path(__file__).parent


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper."""

    name: str
    module: ModuleType

    @property
    def title(self) -> str:
        """The experiment's subject, in one line."""
        return str(self.module.TITLE)

    @property
    def takes_options(self) -> bool:
        """True if the experiment, or its whole paper, reads what `--option` says."""
        paper = import_module(self.module.__name__.rpartition(".")[0])
        return any(hasattr(one, "TAKES_OPTIONS") for one in (self.module, paper))

    def run(self, lab: Lab) -> Result:
        """The published numbers beside ours. Errors: whatever the stages raise."""
        found = self.module.run(lab)
        assert isinstance(found, Result), self.name
        return found

    def save_figure(self, result: Result, stem: Path) -> list[Path]:
        """Write the picture as `stem`.svg and `stem`.png; no files where there is none."""
        if not hasattr(self.module, "draw"):
            return []
        return save_figure(self.module.draw(result), stem)


def titles() -> dict[str, str]:
    """`PAPER/EXPERIMENT` -> title, of every experiment, sorted by name."""
    found = {name: title for name, title in titles_below(_ROOT).items() if "/" in name}
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def select(wanted: str) -> list[str]:
    """The experiments that `PAPER` or `PAPER/EXPERIMENT` names. Errors: ExperimentError."""
    known = titles()
    names = [name for name in known if wanted in (name, name.split("/")[0])]
    if not names:
        raise ExperimentError(
            f"there is no experiment {wanted!r}", fix=f"the experiments are {', '.join(known)}"
        )
    return names


def load_experiment(name: str) -> Experiment:
    """Import one experiment of `titles()`."""
    return Experiment(name, import_module(f"tilewright.papers.{name.replace('/', '.')}"))


def _order(name: str) -> tuple[str, str, int]:
    """Figure 9 before figure 10."""
    word = name.rstrip("0123456789")
    return name.split("/")[0], word, int(name[len(word) :] or 0)
