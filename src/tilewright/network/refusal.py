"""Refusals of machines that take no whole networks, with what they do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.artifact import EMITS, LOADS
from tilewright.common.deferred import Deferred
from tilewright.common.dtypes import dtype
from tilewright.machine import Machine
from tilewright.network.plans import NETWORKS, CompilesNetworks
from tilewright.partition.capability import DIVIDES

if TYPE_CHECKING:
    from tilewright.simulate.window import hosted
else:  # heavy: lark
    hosted = Deferred("tilewright.simulate.window.hosted")


def require_networks(
    machine: Machine, layers: str = "", *, simulated: bool = False
) -> CompilesNetworks:
    """The compiler of networks for `machine`.

    Raises ToolError where it runs none, with what it does instead (`layers` is how products are
    taken alone) and the machines that do: not this computer where a network is `simulated`.
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
    # networks have activations that integers cannot compute, so that no option takes their products
    return f"compile its matrix products one by one, in {machine.core.elements or ':'.join(types)}"
