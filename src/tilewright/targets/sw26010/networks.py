"""Whole networks on machines like the Sunway SW26010: a plan for every core group, and its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.codegen.artifact import Array
from tilewright.common.progress import Progress
from tilewright.graph.graph import Network
from tilewright.machine import Machine
from tilewright.network.build import build_plan
from tilewright.network.plan import Plan
from tilewright.network.planned import Compute, Outputs, PlannedNetwork
from tilewright.network.requirements import require_lowered
from tilewright.network.search import Search
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.network.code import NetworkArtifact, constant_block, emit_network

_LONGEST_SECONDS = 1800
"""After this time the code is taken to hang."""


@dataclass(frozen=True)
class Sw26010Networks:
    """Plans networks for the groups of a machine, and their athread C."""

    def compile(
        self, network: Network, machine: Machine, search: Search, *, progress: Progress
    ) -> PlannedNetwork:
        """Choose the schedules and layouts of a network.

        Raises GraphError for operators without a lowering, CapacityError where nothing fits.
        """
        plan = build_plan(network, machine, search, progress=progress)
        return PlannedNetwork(network, plan, dict(network.values), self)

    def require(self, network: Network, machine: Machine) -> None:
        """Raise GraphError for operators without a lowering."""
        require_lowered(network, machine)

    def assembled(
        self, plan: Plan, images: tuple[slice, ...], weights: Mapping[str, Array]
    ) -> tuple[NetworkArtifact, Array]:
        """The code of all groups and its block of constants."""
        return emit_network(plan, plan.machine, images), constant_block(plan, weights)

    def computed(
        self, plan: Plan, images: tuple[slice, ...], weights: Mapping[str, Array]
    ) -> Compute:
        """A function that runs the code on emulated cores."""
        artifact, block = self.assembled(plan, images, weights)
        names = [name for name, _, _ in plan.outputs]
        mesh = (plan.machine.mesh.rows, plan.machine.mesh.columns)

        def compute(inputs: Mapping[str, Array]) -> Outputs:
            given = {**inputs, artifact.block: block}
            found = run_emulated(artifact, given, seconds=_LONGEST_SECONDS, mesh=mesh)
            return dict(zip(names, found.values(), strict=True))

        return compute


NETWORKS = Sw26010Networks()
