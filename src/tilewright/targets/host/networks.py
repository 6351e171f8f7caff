"""Whole networks on this computer, as one function each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from tilewright.common.progress import Progress
from tilewright.graph.graph import Network
from tilewright.machine import Machine
from tilewright.network.plans import Search
from tilewright.targets.host.network.native import HostNetwork, compile_network


@dataclass(frozen=True)
class HostNetworks:
    """Compiles networks for the computer that tilewright runs on."""

    def compile(
        self, network: Network, machine: Machine, search: Search, *, progress: Progress
    ) -> HostNetwork:
        return compile_network(network, machine, search, progress=progress)

    def require(self, network: Network, machine: Machine) -> None:
        import_module("tilewright.network.requirements").require_lowered(network, machine)


NETWORKS = HostNetworks()
