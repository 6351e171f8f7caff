"""Workloads, and settings of compiling: limits of the search, checks and measurements, progress."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypedDict

from tilewright.common.dtypes import DType, dtype
from tilewright.common.errors import GraphError
from tilewright.common.progress import Progress, silent
from tilewright.graph.graph import Network
from tilewright.ops import Op
from tilewright.partition.objective import TRAFFIC, Weights
from tilewright.tune.records import Records

Layer = tuple[str, Op]
Argument: TypeAlias = tuple[str, tuple[int, ...], DType]
"""Name, shape and element type of an input array."""
Check = Literal["none", "each layer", "each algorithm"]


@dataclass(frozen=True)
class Workload:
    """Named operators: the products of a `network`, or a single operator."""

    name: str
    layers: tuple[Layer, ...]
    network: Network | None = None

    @property
    def is_operator(self) -> bool:
        """True for a single operator."""
        return self.network is None

    @property
    def whole(self) -> Network:
        """The network. Raises GraphError for an operator."""
        if self.network is None:
            raise GraphError(f"{self.name} is an operator, not a network")
        return self.network

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The inputs of the network. Raises GraphError for an operator."""
        return tuple((t.name, t.shape, dtype(t.dtype)) for t in self.whole.inputs)

    @staticmethod
    def of(network: Network) -> Workload:
        """A network with its products."""
        return Workload(network.name, tuple(network.layers()), network)


@dataclass(frozen=True)
class Settings:
    """Options of a compilation.

    `algorithm`, `partition`, `max_error` (of results) and `max_roundings` (of fixed-point sums)
    restrict the search. `keep` candidates of each kind are kept; the `top` best are simulated and
    re-ranked (by `executor`, cached in `records`). `check` runs generated code on the host; with
    `writes`, the contents of the output folder are prepared meanwhile. Where the machine is this
    computer, the best are measured instead of simulated, and so are the chosen kernels unless
    `measure` is false. `schedule` is the text of one operator's schedule and replaces its search
    (`tune.replay`).

    Where cores divide a network, `partition` names strategies, `objective` is minimised by the
    plan, no core computes more than `most_work` times its even part, and `place` also chooses the
    core of each part.
    """

    algorithm: str | None = None
    partition: str | None = None
    max_error: float | None = None
    max_roundings: int | None = None
    keep: int = 4
    top: int = 0
    records: Records | None = None
    executor: Executor | None = None
    progress: Progress = field(default=silent)
    check: Check = "none"
    writes: bool = False
    measure: bool = True
    schedule: str | None = None
    objective: Weights = TRAFFIC
    most_work: float = 1.0
    place: bool = False


class Options(TypedDict, total=False):
    """The fields of `Settings` as keyword arguments."""

    algorithm: str | None
    partition: str | None
    max_error: float | None
    max_roundings: int | None
    keep: int
    top: int
    records: Records | None
    executor: Executor | None
    progress: Progress
    check: Check
    writes: bool
    measure: bool
    schedule: str | None
    objective: Weights
    most_work: float
    place: bool
