"""The result of compiling anything: a plan, the toolchain that made it, and what is done with it.

Operators and layers alone, whole networks and networks divided over cores are used alike. Each of
these ways has its own kind of plan, in a module (`alone`, `whole`, `divided`) that is imported when
it is first used, so that a network that only runs waits for no cost model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from tilewright.codegen.artifact import Array, Arrays
from tilewright.common.errors import GraphError
from tilewright.common.progress import Progress, silent
from tilewright.compiler.settings import Argument, Settings, Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.machine import Machine
from tilewright.network.plans import Other, Session
from tilewright.report.figures import figures_text
from tilewright.report.view import CheckResult, checked_by

Plan = TypeVar("Plan")
Outputs: TypeAlias = dict[str, Array]
Figures: TypeAlias = Any
"""The `--json` form of a result: a struct of `report.view`, `network.results`, `report.division`,
which `report.figures` shows as text."""


@dataclass(frozen=True)
class Simulating:
    """Requests to a simulation: a network also `unfused`, an operator's `operands` and trace."""

    unfused: bool
    trace_limit: int
    operands: Arrays


@dataclass(frozen=True)
class Explaining:
    """Requests to an explanation, as `Compiled.explanation` has them."""

    part: str | None
    changes: bool
    levels: bool
    routines: bool


@dataclass(frozen=True, eq=False, repr=False)
class Compiled(ABC, Generic[Plan]):
    """A workload on one machine: the plan that was chosen, and what can be done with it.

    `seconds` is how long compiling took. Methods raise GraphError for names that are not there,
    ShapeError for arrays of the wrong shape, SimulationError and ToolError where the machine cannot
    do what is asked, CheckFailed where generated code computes something else than the reference.
    """

    workload: Workload
    toolchain: Toolchain
    plan: Plan
    settings: Settings
    seconds: float = 0.0

    @staticmethod
    @abstractmethod
    def planned(workload: Workload, chain: Toolchain, settings: Settings) -> Any:
        """Choose and generate: a plan of this kind."""

    def __repr__(self) -> str:
        return f"<Compiled {self.title}>"

    @property
    @abstractmethod
    def title(self) -> str:
        """The result in a few words."""

    @property
    def name(self) -> str:
        """The name of the operator or network."""
        return self.workload.name

    @property
    def machine(self) -> Machine:
        """The machine it was compiled for."""
        return self.toolchain.machine

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Arrays that `run` takes, in order: the inputs of a network."""
        return self.workload.arguments

    @abstractmethod
    def run(self, *inputs: Array, weights: Arrays | None = None, **named: Array) -> Outputs:
        """The outputs by name. Inputs are given in order or by name; not for several threads.

        `weights` are needed once where a network came without numbers, as those of the zoo do.
        """

    def session(self, states: Arrays) -> Session:
        """A network compiled as a whole with its states, which begin like this.

        Raises GraphError where it is compiled in another way.
        """
        raise GraphError(f"{self.name} is not compiled as a whole: it keeps no states")

    def draw_weights(self) -> None:
        """Take random numbers for weights that have none and that no run draws."""

    @abstractmethod
    def figures(self, progress: Progress = silent) -> Figures:
        """Figures that need no run of generated code; simulated times included."""

    def check(self, progress: Progress = silent) -> CheckResult:
        """Run the generated code on this computer, emulated where it is for another machine, and
        compare with the reference: "exact", or "within bound" of what rounding may make.
        """
        return checked_by(self.judged(check=True, measure=False, progress=progress).comparison)

    @abstractmethod
    def judged(self, *, check: bool, measure: bool, progress: Progress = silent) -> Figures:
        """The figures; compared and timed as far as that is wanted and the machine allows."""

    @abstractmethod
    def measure(
        self,
        inputs: Arrays | None = None,
        *,
        compare: Other | None = None,
        progress: Progress = silent,
    ) -> tuple[Figures, Outputs]:
        """(figures of a run, outputs by name), of random inputs where none are given; a network's
        outputs are compared with another computation's where `compare` names it.
        """

    def simulate(
        self,
        *,
        unfused: bool = False,
        trace_limit: int = 0,
        progress: Progress = silent,
        **operands: Array,
    ) -> Any:
        """The simulated run: of an operator with every operand given also its result, and up to
        `trace_limit` events; of a network, `unfused` with a stage for every operator beside it.
        """
        return self._simulated(Simulating(unfused, trace_limit, operands), progress)

    @abstractmethod
    def _simulated(self, asked: Simulating, progress: Progress) -> Any: ...

    def explanation(
        self,
        part: str | None = None,
        *,
        changes: bool = True,
        levels: bool = False,
        routines: bool = True,
        progress: Progress = silent,
    ) -> Figures:
        """Where the time goes: of one layer or stage, or of the whole. Of an operator also which
        `changes` of the machine would help, and the roofline of all `levels` of memory; with
        `routines`, which are simulated for seconds, the calls of generated code.
        """
        return self._explained(Explaining(part, changes, levels, routines), progress)

    @abstractmethod
    def _explained(self, asked: Explaining, progress: Progress) -> Figures: ...

    def explain(self, part: str | None = None) -> str:
        """Where the time goes, as text; without the routines of generated code."""
        return figures_text(self.explanation(part, routines=False), self.machine)

    def write(
        self,
        directory: str | Path,
        weights: Arrays | None = None,
        *,
        result: Figures = None,
        progress: Progress = silent,
    ) -> Path:
        """Write code and the `result`, by default the figures; the folder appears when it is
        complete. `weights` are as for `run`.
        """
        found = self.figures(progress) if result is None else result
        self._write(Path(directory), weights, found, progress)
        return Path(directory)

    def written(self, directory: Path, result: Figures, progress: Progress = silent) -> Figures:
        """Write, and return the figures with the folder."""
        return self._write(directory, None, result, progress)

    @abstractmethod
    def _write(
        self, directory: Path, weights: Arrays | None, found: Any, progress: Progress
    ) -> Figures: ...

    def _repr_html_(self) -> str:
        """The figures as a notebook shows them."""
        return f"<pre>{escape(figures_text(self.figures(), self.machine))}</pre>"
