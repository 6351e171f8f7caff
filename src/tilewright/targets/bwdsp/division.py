"""Networks divided over the cores of a BWDSP."""

from __future__ import annotations

import logging
from functools import partial

from tilewright.common.errors import PartitionError
from tilewright.common.progress import Progress, silent
from tilewright.graph import Network
from tilewright.machine import Machine
from tilewright.partition.choices import EQUAL
from tilewright.partition.core_model import CoreModel, core_model
from tilewright.partition.divided import DividedNetwork
from tilewright.partition.layers import Layer, layers_of
from tilewright.partition.objective import Weights
from tilewright.partition.parts import Programs
from tilewright.partition.placement import placed_plan
from tilewright.partition.plan import space
from tilewright.targets.bwdsp.core import core_machine
from tilewright.targets.bwdsp.programs import programs_of

_LOG = logging.getLogger(__name__)


class Divider:
    """All cores of the grid; activations stay in their buffers, weights stream from main memory."""

    trains = False

    def planned(self, network: Network, machine: Machine) -> tuple[tuple[Layer, ...], CoreModel]:
        """The layers, and the cores in the type of the network's inputs."""
        return layers_of(network), core_model(machine, _element(network, machine))

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
        """The plan that costs least as `weights` count, of the grids of `strategy` if given."""
        layers, model = self.planned(network, machine)
        if most_work > 1 and model.multicasts:
            _LOG.warning(
                "the fabric of %r multicasts: halos are exchanged there, never computed again",
                machine.name,
            )
        if place:
            _require_placeable(machine, model, weights, most_work)
        found = space(
            layers,
            machine.cores,
            weights,
            most_work=most_work,
            strategies=strategy.split(",") if strategy else EQUAL if place else None,
            model=model,
            recompute=most_work > 1,
            steps=partial(progress, "divide"),
        )
        plan = placed_plan(found) if place else found.best()
        element = _element(network, machine)
        programs = self.programs(machine, element)
        return DividedNetwork(network, machine, element, plan, model, weights, programs)

    def programs(self, machine: Machine, element: str) -> Programs:
        """Programs of one core."""
        return programs_of(core_machine(machine), element)


def _require_placeable(
    machine: Machine, model: CoreModel, weights: Weights, most_work: float
) -> None:
    """Raise unless placement can count the values of messages: it assumes one receiver each, and
    that everything is computed once.
    """
    problems = {
        "an objective with cycles": weights.cycles > 0,
        "--most-work above 1": most_work > 1,
        f"the multicasts of {machine.name!r}": model.multicasts,
    }
    for problem, is_there in problems.items():
        if is_there:
            raise PartitionError(
                f"--place does not go with {problem}: it counts values that move to one core each",
                fix=f"leave --place, or {problem}",
            )


def _element(network: Network, machine: Machine) -> str:
    """The type of all inputs, which the cores compute in."""
    elements = {tensor.dtype for tensor in network.inputs}
    if len(elements) != 1 or not elements <= set(machine.core.types):
        raise PartitionError(
            f"inputs of {', '.join(sorted(elements))}: the cores of {machine.name!r} compute "
            f"in {', '.join(machine.core.types)}",
            fix=f"give --dtype {machine.core.types[0]}",
        )
    (element,) = elements
    return element


DIVISION = Divider()
