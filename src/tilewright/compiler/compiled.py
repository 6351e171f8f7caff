"""The result of any compilation: a plan, the toolchain that made it, and the operations on it.

Operators and layers alone, whole networks, and networks divided over cores share one interface.
Each of these ways has its own kind of plan in a module (`alone`, `whole`, `divided`), imported at
first use, so that running a network does not load the cost model.
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
    """A simulation request: `unfused` for a network, `operands` and trace limit for an operator."""

    unfused: bool
    trace_limit: int
    operands: Arrays


@dataclass(frozen=True)
class Explaining:
    """An explanation request, with the parameters of `Compiled.explanation`."""

    part: str | None
    changes: bool
    levels: bool
    routines: bool


@dataclass(frozen=True, eq=False, repr=False)
class Compiled(ABC, Generic[Plan]):
    """A workload on one machine: the chosen plan, and the operations on it.

    `seconds` is the compilation time. Methods raise GraphError for unknown names, ShapeError for
    arrays of the wrong shape, SimulationError and ToolError for requests the machine does not
    support, CheckFailed where generated code deviates from the reference.
    """

    workload: Workload
    toolchain: Toolchain
    plan: Plan
    settings: Settings
    seconds: float = 0.0

    @staticmethod
    @abstractmethod
    def planned(workload: Workload, chain: Toolchain, settings: Settings) -> Any:
        """Choose and generate a plan of this kind."""

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
        """The arrays that `run` accepts, in order: the inputs of a network."""
        return self.workload.arguments

    @abstractmethod
    def run(self, *inputs: Array, weights: Arrays | None = None, **named: Array) -> Outputs:
        """The outputs by name. Inputs are passed in order or by name. Not thread-safe.

        `weights` are needed once if the network came without numbers, as those of the zoo do.
        """

    def session(self, states: Arrays) -> Session:
        """A network compiled as a whole with its states, starting from these.

        Raises GraphError where it was compiled in another way.
        """
        raise GraphError(f"{self.name} is not compiled as a whole: it keeps no states")

    def draw_weights(self) -> None:
        """Draw random numbers for weights that have none and that no run would draw."""

    @abstractmethod
    def figures(self, progress: Progress = silent) -> Figures:
        """Figures that need no run of generated code; simulated times included."""

    def check(self, progress: Progress = silent) -> CheckResult:
        """Run the generated code on this computer, emulated if it is for another machine, and
        compare with the reference: "exact", or "within bound" of rounding.
        """
        return checked_by(self.judged(check=True, measure=False, progress=progress).comparison)

    @abstractmethod
    def judged(self, *, check: bool, measure: bool, progress: Progress = silent) -> Figures:
        """The figures, compared and timed as requested and as far as the machine allows."""

    @abstractmethod
    def measure(
        self,
        inputs: Arrays | None = None,
        *,
        compare: Other | None = None,
        progress: Progress = silent,
    ) -> tuple[Figures, Outputs]:
        """(figures of a run, outputs by name), on random inputs if none are given; a network's
        outputs are compared with the computation that `compare` names.
        """

    def simulate(
        self,
        *,
        unfused: bool = False,
        trace_limit: int = 0,
        progress: Progress = silent,
        **operands: Array,
    ) -> Any:
        """The simulated run. An operator called with every operand also returns its result, and up
        to `trace_limit` events; a network with `unfused` is also simulated with a stage for every
        operator.
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
        """Breakdown of the time of one layer or stage, or of the whole. For an operator, also the
        `changes` of the machine that would help, and the roofline of all memory `levels`; with
        `routines`, which takes seconds of simulation, the calls of generated code.
        """
        return self._explained(Explaining(part, changes, levels, routines), progress)

    @abstractmethod
    def _explained(self, asked: Explaining, progress: Progress) -> Figures: ...

    def explain(self, part: str | None = None) -> str:
        """Breakdown of the time as text, without the routines of generated code."""
        return figures_text(self.explanation(part, routines=False), self.machine)

    def write(
        self,
        directory: str | Path,
        weights: Arrays | None = None,
        *,
        result: Figures = None,
        progress: Progress = silent,
    ) -> Path:
        """Write code and the `result`, by default the figures. The folder appears only when
        complete. `weights` are as for `run`.
        """
        found = self.figures(progress) if result is None else result
        self._write(Path(directory), weights, found, progress)
        return Path(directory)

    def written(self, directory: Path, result: Figures, progress: Progress = silent) -> Figures:
        """Write, and return the figures with the folder's name."""
        return self._write(directory, None, result, progress)

    @abstractmethod
    def _write(
        self, directory: Path, weights: Arrays | None, found: Any, progress: Progress
    ) -> Figures: ...

    def _repr_html_(self) -> str:
        """The figures as a notebook shows them."""
        return f"<pre>{escape(figures_text(self.figures(), self.machine))}</pre>"
