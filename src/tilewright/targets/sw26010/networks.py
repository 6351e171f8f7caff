"""Whole networks on machines like the Sunway SW26010: a plan for every core group, and its code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.artifact import Array, Arrays
from tilewright.common.deferred import Deferred
from tilewright.common.progress import Progress
from tilewright.graph.graph import Network
from tilewright.machine import Machine
from tilewright.network.build import build_plan
from tilewright.network.plan import Plan
from tilewright.network.planned import Compute, Outputs, PlannedNetwork
from tilewright.network.plans import Search
from tilewright.network.requirements import require_lowered, without_look_ups

if TYPE_CHECKING:
    from tilewright.targets.sw26010.emulation import run as emulation
    from tilewright.targets.sw26010.network import code
else:  # heavy: the assembler, and what builds and runs code
    emulation = Deferred("tilewright.targets.sw26010.emulation.run")
    code = Deferred("tilewright.targets.sw26010.network.code")

_LONGEST_SECONDS = 1800
"""Seconds after which the code is considered to hang."""


@dataclass(frozen=True)
class Sw26010Networks:
    """Plans networks for the groups of a machine, and their athread C."""

    def compile(
        self, network: Network, machine: Machine, search: Search, *, progress: Progress
    ) -> PlannedNetwork:
        own = without_look_ups(network)
        plan = build_plan(own, machine, search, progress=progress)
        return PlannedNetwork(own, plan, dict(own.values), self)

    def require(self, network: Network, machine: Machine) -> None:
        require_lowered(network, machine)

    def assembled(
        self, plan: Plan, images: tuple[slice, ...], weights: Arrays
    ) -> tuple[code.NetworkArtifact, Iterator[Array]]:
        return code.emit_network(plan, plan.machine, images), code.constant_parts(plan, weights)

    def computed(self, plan: Plan, images: tuple[slice, ...], weights: Arrays) -> Compute:
        artifact = code.emit_network(plan, plan.machine, images)
        block = code.constant_block(plan, weights)
        # The code has an output as its last stage sees it, with the images of all groups.
        shapes = {n: (-1, *form.shape[1:]) if form.shape else () for n, _, form in plan.outputs}
        mesh = (plan.machine.mesh.rows, plan.machine.mesh.columns)

        def compute(inputs: Arrays) -> Outputs:
            states = {after: inputs[before] for before, after in plan.states}
            given = {**inputs, **states, artifact.block: block}
            found = emulation.run_emulated(artifact, given, seconds=_LONGEST_SECONDS, mesh=mesh)
            arrays = zip(shapes.items(), found.values(), strict=True)
            return Outputs({name: y.reshape(shape) for (name, shape), y in arrays})

        return compute


NETWORKS = Sw26010Networks()
