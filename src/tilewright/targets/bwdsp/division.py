"""Networks divided over the cores of a BWDSP."""

from __future__ import annotations

from tilewright.common.errors import PartitionError
from tilewright.graph import Network
from tilewright.machine import Machine
from tilewright.partition.capacity import buffer_values, check_fits
from tilewright.partition.divided import DividedNetwork
from tilewright.partition.layers import layers_of
from tilewright.partition.plan import best_plan, fixed_plan
from tilewright.partition.timing import layer_times


class Division:
    """All cores of the grid; activations stay in their buffers, weights stream from main memory."""

    def divide(self, network: Network, machine: Machine, strategy: str | None) -> DividedNetwork:
        """The plan that moves the fewest values, or every layer by one `strategy`."""
        elements = {tensor.dtype for tensor in network.inputs}
        if len(elements) != 1 or not elements <= set(machine.core.types):
            raise PartitionError(
                f"inputs of {', '.join(sorted(elements))}: the cores of {machine.name!r} compute "
                f"in {', '.join(machine.core.types)}",
                fix=f"give --dtype {machine.core.types[0]}",
            )
        (element,) = elements
        layers = layers_of(network)
        if strategy is None:
            plan = best_plan(layers, machine.cores)
        else:
            plan = fixed_plan(layers, machine.cores, strategy)
        check_fits(plan, buffer_values(machine, element), element)
        return DividedNetwork(network, machine, element, plan, layer_times(plan, machine, element))


DIVISION = Division()
