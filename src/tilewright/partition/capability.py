"""The capability of families whose machines divide networks over their cores.

A module of its own: asking for the capability loads nothing of the planner.
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
    """A family whose machines divide the layers of networks over their cores; `trains` where cores
    keep weights that a training step changes.
    """

    trains: bool

    def planned(self, network: Network, machine: Machine) -> tuple[tuple[Layer, ...], CoreModel]:
        """The planner's input: the network's layers, and the model of the machine.

        Raises PartitionError for elements that the cores do not compute.
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
        """The plan that costs least as `weights` count, of all grids or of those of one `strategy`
        (or several, with commas between). No core computes more of a layer than `most_work` times
        what it has by the BWDSP paper's, or by the most even grid of `strategy`; above 1 halos may
        be computed again. With `place` the core of each part is chosen, too.

        Raises PartitionError where no tile fits, there is no such strategy, or parts are to be
        placed where cycles count, halos are computed again or the fabric multicasts.
        """

    def programs(self, machine: Machine, element: str) -> Programs:
        """Programs of the machine's cores, for values of the type `element`."""


DIVIDES: Capability[DividesNetworks] = Capability(
    "division", ("trains", "planned", "divide", "programs"), "way to divide networks over its cores"
)
