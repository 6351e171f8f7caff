"""The capability of families whose machines divide networks over their cores.

A module of its own, so that a query for the capability does not load the planner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tilewright.common.progress import Progress, silent
from tilewright.graph import Network
from tilewright.machine import Capability, Machine

if TYPE_CHECKING:
    from tilewright.partition.divided import DividedNetwork
    from tilewright.partition.layers import Layer
    from tilewright.partition.objective import CoreModel, Weights
    from tilewright.partition.parts import Programs


class DividesNetworks(Protocol):
    """A family whose machines divide the layers of networks over their cores. `trains` is true
    where cores keep weights that a training step changes.
    """

    trains: bool

    def planned(self, network: Network, machine: Machine) -> tuple[tuple[Layer, ...], CoreModel]:
        """The planner's input: the network's layers, and the model of the machine.

        Raises PartitionError for an element type that the cores do not compute.
        """

    def divide(
        self,
        network: Network,
        machine: Machine,
        strategy: str | None,
        weights: Weights,
        most_work: float,
        *,
        place: bool = False,
        progress: Progress = silent,
    ) -> DividedNetwork:
        """The cheapest plan under `weights`, over all grids or over those of `strategy`: one name,
        or several separated by commas. `most_work` limits the busiest core's work in each layer, as
        a multiple of its work under the BWDSP paper's strategy or under the most even grid of
        `strategy`; above 1, cores may recompute halos. With `place`, the planner also assigns parts
        to cores.

        Raises PartitionError where no tile fits, for an unknown strategy, and for `place` together
        with costs in cycles, recomputed halos or a multicasting fabric.
        """

    def programs(self, machine: Machine, element: str) -> Programs:
        """Programs of the machine's cores, for values of type `element`."""


DIVIDES: Capability[DividesNetworks] = Capability(
    "division", ("trains", "planned", "divide", "programs"), "way to divide networks over its cores"
)
