"""Networks divided over the cores of a BWDSP."""

from __future__ import annotations

from functools import partial

from tilewright.common.errors import PartitionError
from tilewright.common.progress import Progress, silent
from tilewright.graph import Network
from tilewright.machine import Machine
from tilewright.partition.core_model import CoreModel, core_model
from tilewright.partition.divided import DividedNetwork
from tilewright.partition.layers import layers_of
from tilewright.partition.objective import Weights
from tilewright.partition.parts import Programs
from tilewright.partition.plan import best_plan, fixed_plan
from tilewright.targets.bwdsp.core import core_machine
from tilewright.targets.bwdsp.programs import programs_of


class Division:
    """All cores of the grid; activations stay in their buffers, weights stream from main memory."""

    def divide(
        self,
        network: Network,
        machine: Machine,
        strategy: str | None,
        weights: Weights,
        most_work: float,
        *,
        progress: Progress = silent,
    ) -> DividedNetwork:
        """The plan that costs least as `weights` count, or every layer by one `strategy`."""
        elements = {tensor.dtype for tensor in network.inputs}
        if len(elements) != 1 or not elements <= set(machine.core.types):
            raise PartitionError(
                f"inputs of {', '.join(sorted(elements))}: the cores of {machine.name!r} compute "
                f"in {', '.join(machine.core.types)}",
                fix=f"give --dtype {machine.core.types[0]}",
            )
        (element,) = elements
        layers, model = layers_of(network), core_model(machine, element)
        _require_links(machine, model)
        if strategy is None:
            plan = best_plan(
                layers,
                machine.cores,
                weights,
                most_work=most_work,
                model=model,
                recompute=most_work > 1,
                steps=partial(progress, "divide"),
            )
        else:
            plan = fixed_plan(layers, machine.cores, strategy, model, weights)
        programs = self.programs(machine, element)
        return DividedNetwork(network, machine, element, plan, model, weights, programs)

    def programs(self, machine: Machine, element: str) -> Programs:
        """Programs of one core."""
        return programs_of(core_machine(machine), element)


def _require_links(machine: Machine, model: CoreModel) -> None:
    rows, columns = model.fabric.rows, model.fabric.columns
    if rows * columns < machine.cores:
        raise PartitionError(
            f"the fabric of {machine.name!r} joins {rows}x{columns} cores, the machine has "
            f"{machine.mesh.rows}x{machine.mesh.columns}",
            fix="set its rows and columns as those of the mesh",
        )


DIVISION = Division()
