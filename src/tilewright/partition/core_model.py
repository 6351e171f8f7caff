"""The planner's model of a machine whose cores divide networks.

In: a machine, and the type of the values. Out: a `CoreModel`: peak, links, main memory and buffers
in the units of plans, values and cycles. Nothing here was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from tilewright.common.dtypes import dtype
from tilewright.machine import Machine
from tilewright.machine.parts import Fabric

Cycles = NDArray[np.float64]


@dataclass(frozen=True)
class CoreModel:
    """Cores of one machine. A core's buffer has `buffer_values`; `load_values_per_cycle` is what
    main memory delivers to all of them together, `load_latency_cycles` after a request.

    Cores with memories of their `own` keep their weights there: none move when a network runs, and
    only its inputs come from outside. A partial sum is sent as `sum_values` values.
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
        """Rows and columns of the fabric, and which of them are rings: 1 rows, 2 columns."""
        rings = {"ring_mesh": 1, "torus": 3}.get(self.fabric.topology, 0)
        return self.fabric.rows, self.fabric.columns, rings

    @property
    def multicasts(self) -> bool:
        """True if a value that several cores take is sent once."""
        return self.fabric.multicast != "none"

    @property
    def link_values_per_cycle(self) -> float:
        """Values per cycle over a link, or over a core's port to it."""
        return self.fabric.bytes_per_cycle / self.value_bytes

    @overload
    def outside(self, weights: int, inputs: int) -> int: ...
    @overload
    def outside(
        self, weights: NDArray[np.int64], inputs: NDArray[np.int64]
    ) -> NDArray[np.int64]: ...
    def outside(
        self, weights: int | NDArray[np.int64], inputs: int | NDArray[np.int64]
    ) -> int | NDArray[np.int64]:
        """Values that come from outside the cores while a network runs."""
        return inputs if self.own else weights + inputs

    @overload
    def load_cycles(self, values: int) -> float: ...
    @overload
    def load_cycles(self, values: NDArray[np.int64]) -> Cycles: ...
    def load_cycles(self, values: int | NDArray[np.int64]) -> float | Cycles:
        """Until main memory has delivered so many values; nothing is no request."""
        taken = self.load_latency_cycles + np.asarray(values) / self.load_values_per_cycle
        found = np.where(np.asarray(values) > 0, taken, 0.0)
        return float(found) if isinstance(values, int) else found

    @overload
    def exchange_cycles(self, busiest: int, farthest: int) -> float: ...
    @overload
    def exchange_cycles(
        self, busiest: NDArray[np.int64], farthest: NDArray[np.int64]
    ) -> Cycles: ...
    def exchange_cycles(
        self, busiest: int | NDArray[np.int64], farthest: int | NDArray[np.int64]
    ) -> float | Cycles:
        """An exchange whose busiest link carries so many values, the farthest message so many
        links: as long as that link, and the way.
        """
        way = self.fabric.send_cycles + np.asarray(farthest) * self.fabric.hop_cycles
        sent = np.asarray(busiest) / self.link_values_per_cycle
        found = np.where(np.asarray(busiest) > 0, way + sent, 0.0)
        return float(found) if isinstance(busiest, int) else found


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
