"""Whole networks compiled for a machine: a family's interface, and what other families offer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from tilewright.codegen.artifact import EMITS, LOADS, Array, Arrays
from tilewright.common.deferred import Deferred
from tilewright.common.dtypes import dtype
from tilewright.common.progress import Progress
from tilewright.graph.graph import Network
from tilewright.machine import Capability, Machine
from tilewright.network.results import NetworkRun
from tilewright.partition.capability import DIVIDES

if TYPE_CHECKING:
    from tilewright.network.simulate import PlanRun
    from tilewright.simulate.window import hosted
else:  # heavy: lark
    hosted = Deferred("tilewright.simulate.window.hosted")

Other: TypeAlias = Literal["reference", "onnxruntime"]
"""Computations that a network can be compared with."""


@dataclass(frozen=True)
class Search:
    """Options of the search. Candidates use `algorithm` where it applies and have at most
    `max_error` and `max_roundings` per sum; `keep` are kept per product, and the best `top` are
    measured.
    """

    algorithm: str | None = None
    max_error: float | None = None
    keep: int = 4
    top: int = 0
    max_roundings: int | None = None


BY_THE_MODEL = Search()
"""Any algorithm, ranked by the model."""


class Session(Protocol):
    """A network whose states stay in memory from run to run, for a training step."""

    def step(self, inputs: Arrays) -> dict[str, Array]:
        """Run once: `inputs` other than states in, outputs other than states out."""

    def until(self, output: str, inputs: Arrays) -> Array:
        """An output that depends on no state's next value, computed without changing any state."""

    def states(self) -> dict[str, Array]:
        """Copies of the current states."""

    def give(self, states: Arrays) -> None:
        """Replace the states."""


class NativeNetwork(Protocol):
    """A whole network as one function on this computer.

    `weights` holds the known numbers, until the constants have been computed from them; others are
    passed to `run`.
    """

    @property
    def machine(self) -> Machine:
        """The machine it was compiled for."""

    @property
    def weights(self) -> Arrays:
        """The known numbers of weights whose constants are not computed yet."""

    def know(self, weights: Arrays) -> None:
        """Take numbers for weights without any; they may be looked up more than once."""

    def run(
        self, *inputs: Array, weights: Arrays | None = None, **named: Array
    ) -> dict[str, Array]:
        """The outputs by name. Inputs are passed in order or by name. Not thread-safe.

        `weights` are needed once if the network came without numbers, as those of the zoo do.
        Raises GraphError for a missing tensor, ShapeError for a wrong shape.
        """

    def session(self, states: Arrays) -> Session:
        """The network with its states, starting from these. Raises as `run` does."""

    def write(
        self,
        directory: str | Path,
        weights: Arrays | None = None,
        *,
        result: NetworkRun | None = None,
    ) -> Path:
        """Write code, constants and the `result` (by default the one known without running the
        network). The folder appears only when complete.
        """

    @property
    def simulated(self) -> PlanRun:
        """The simulated run. Raises SimulationError where the machine is measured."""

    def described(self, compile_seconds: float = 0.0) -> NetworkRun:
        """The result, as far as it is known without running the network."""

    def measured(
        self,
        network: Network,
        weights: Arrays,
        inputs: Arrays,
        *,
        compare: Other | None = None,
        compile_seconds: float = 0.0,
        bound: float | None = None,
    ) -> tuple[NetworkRun, dict[str, Array]]:
        """(figures, outputs by name) for these inputs by name, compared with another computation
        from `network` and `weights`. `bound` is the largest difference that counts as rounding;
        None: that of the element type.

        Raises ToolError where onnxruntime is asked for and not installed.
        """


class CompilesNetworks(Protocol):
    """A family whose machines run whole networks as one function."""

    def compile(
        self, network: Network, machine: Machine, search: Search, *, progress: Progress
    ) -> NativeNetwork:
        """Choose kernels and layouts, then generate and load the code of a network.

        Raises GraphError for operators that cannot be run, CapacityError where nothing fits.
        """

    def require(self, network: Network, machine: Machine) -> None:
        """Raise GraphError for operators that cannot be run, before any search."""


NETWORKS: Capability[CompilesNetworks] = Capability(
    "networks", ("compile", "require"), "code for whole networks"
)


def require_networks(
    machine: Machine, layers: str = "", *, simulated: bool = False
) -> CompilesNetworks:
    """The compiler of networks for `machine`.

    Raises ToolError where there is none. The error says what the machine does instead (`layers`
    says how to compile products alone) and which machines run networks: not this computer if the
    network is to be `simulated`.
    """
    beside = (LOADS,) if simulated else ()
    found = NETWORKS.of(machine)
    return found or NETWORKS.required(machine, _instead(machine, layers), (DIVIDES,), beside)


def _instead(machine: Machine, layers: str) -> str:
    types = machine.core.types
    if EMITS.of(machine) is None:
        assembly = hosted.RUNTIMES.of(machine) is not None
        return "simulate a program in its assembly language" if assembly else ""
    if any(dtype(name).is_float for name in types):
        return layers
    # integers cannot compute a network's activations, so no option compiles its products together
    return f"compile its matrix products one by one, in {machine.core.elements or ':'.join(types)}"
