"""Objectives of plans, volumes of moved values, and the planner's model of a machine whose cores
divide networks: peak, links, main memory and buffers in values and cycles. All numbers come from
the machine's description, none from measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.common.dtypes import dtype
from tilewright.machine import Machine
from tilewright.machine.parts import Fabric

Cycles = NDArray[np.float64]
Count = TypeVar("Count", int, NDArray[np.int64])


@dataclass(frozen=True)
class CoreModel:
    """Model of a machine's cores. One buffer of a core holds `buffer_values`. Main memory delivers
    `load_values_per_cycle` to all cores together, `load_latency_cycles` after a request.

    If cores have memories of their `own`, weights stay there: while a network runs, only its inputs
    come from outside. A partial sum is sent as `sum_values` values.
    """

    fabric: Fabric
    value_bytes: int
    buffer_values: int
    flops_per_cycle: float
    load_values_per_cycle: float
    load_latency_cycles: float
    own: bool = False
    sum_values: int = 1

    @property
    def fabric_sizes(self) -> tuple[int, int, int]:
        """Rows and columns of the fabric, and which are rings (0: none, 1: rows, 3: both)."""
        rings = {"ring_mesh": 1, "torus": 3}.get(self.fabric.topology, 0)
        return self.fabric.rows, self.fabric.columns, rings

    @property
    def multicasts(self) -> bool:
        """True if a value that several cores receive is sent once."""
        return self.fabric.multicast != "none"

    @property
    def link_values_per_cycle(self) -> float:
        """Values per cycle over a link or a core's port."""
        return self.fabric.bytes_per_cycle / self.value_bytes

    def outside(self, weights: Count, inputs: Count) -> Count:
        """Of the values loaded, how many come from outside the cores while a network runs."""
        return inputs if self.own else weights + inputs

    def load_cycles(self, values: int | NDArray[np.int64]) -> Cycles:
        """Cycles until main memory has delivered `values`; 0 for none, which needs no request."""
        taken = self.load_latency_cycles + np.asarray(values) / self.load_values_per_cycle
        return np.where(np.asarray(values) > 0, taken, 0.0)

    def exchange_cycles(
        self, busiest: int | NDArray[np.int64], farthest: int | NDArray[np.int64]
    ) -> Cycles:
        """Cycles of an exchange: the transfer of `busiest` values over its busiest link, plus the
        latency of its longest route, of `farthest` links.
        """
        way = self.fabric.send_cycles + np.asarray(farthest) * self.fabric.hop_cycles
        sent = np.asarray(busiest) / self.link_values_per_cycle
        return np.where(np.asarray(busiest) > 0, way + sent, 0.0)


def core_model(machine: Machine, element: str) -> CoreModel:
    """The planner's model of `machine`, for values of type `element`."""
    size = dtype(element).size_bytes
    (fabric,) = machine.fabrics.values()
    space = machine.space("buffers")
    return CoreModel(
        fabric,
        size,
        space.available_bytes // space.banks // size,
        machine.core.peak_flops_per_cycle(element),
        machine.dma.get.peak_bytes_per_second / machine.clock_hz / size,
        machine.dma.latency_cycles,
    )


class GridLoads(Protocol):
    """Loads of a layer's grids: weights loaded and partial sums exchanged, in values, and the
    busiest core's fraction of the layer's operations.
    """

    @property
    def weights(self) -> NDArray[np.int64]: ...
    @property
    def sums(self) -> NDArray[np.int64]: ...
    @property
    def work(self) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class Weights:
    """Weights of an objective: per value moved, by kind, and per cycle of the bulk-synchronous
    plan. Cycles count only where a machine is given.
    """

    activations: float = 1.0
    weights: float = 1.0
    sums: float = 1.0
    cycles: float = 0.0
    inputs: float = 0.0

    def alone(
        self, flops: int, loads: GridLoads, inputs: NDArray[np.int64], model: CoreModel | None
    ) -> Cycles:
        """Cost of each grid of a layer by itself: values of weights, partial sums and inputs, and
        the cycles of computing and loading, but none of exchanges.
        """
        values = self.weights * loads.weights + self.sums * loads.sums
        found: Cycles = values + self.inputs * inputs
        if model is None or not self.cycles:
            return found
        computing = loads.work * flops / model.flops_per_cycle
        return found + self.cycles * (
            computing + model.load_cycles(model.outside(loads.weights, inputs))
        )

    def describe(self) -> str:
        """`traffic`, `time`, or both.

        >>> Weights(cycles=40.0, inputs=1.0).describe()
        'traffic and 40 for each cycle'
        >>> Weights(1, 0, 1).describe()
        'activations and sums'
        """
        kinds = ("activations", "weights", "sums", "inputs")
        factors = {kind: getattr(self, kind) for kind in kinds if getattr(self, kind)}
        if not factors:
            return "time"
        if set(factors.values()) != {1.0}:
            values = " + ".join(f"{factor:g} x {kind}" for kind, factor in factors.items())
        else:
            values = "traffic" if len(factors) == len(kinds) else " and ".join(factors)
        return f"{values} and {self.cycles:g} for each cycle" if self.cycles else values


TRAFFIC = Weights(inputs=1.0)
WITHOUT_INPUTS = Weights()
"""Values as the BWDSP paper's tables count them."""
ACTIVATIONS = Weights(weights=0.0)
"""Values as the BWDSP paper's figures count them: activations and sums that cores send."""
TIME = Weights(0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Volume:
    """Values that move in a layer, each counted once per core that receives it, or once in all
    where the fabric multicasts.

    `activations` come from other cores, as results of other layers; `inputs` are the network's own;
    `weights` are loaded from main memory; `sums` are the partial sums exchanged.
    """

    activations: int = 0
    inputs: int = 0
    weights: int = 0
    sums: int = 0

    def __add__(self, other: Volume) -> Volume:
        """Sum of both, kind by kind."""
        return Volume(
            self.activations + other.activations,
            self.inputs + other.inputs,
            self.weights + other.weights,
            self.sums + other.sums,
        )

    @property
    def total(self) -> int:
        """Number of values of all kinds together."""
        return self.activations + self.inputs + self.weights + self.sums
