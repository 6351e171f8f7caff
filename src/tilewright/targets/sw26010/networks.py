"""Whole networks on machines like the Sunway SW26010: a plan for every core group, and its code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.codegen.artifact import Array
from tilewright.codegen.folder import new_folder
from tilewright.common.progress import Progress
from tilewright.graph.graph import Network
from tilewright.machine import Machine
from tilewright.network.build import build_plan
from tilewright.network.planned import Outputs, PlannedNetwork
from tilewright.network.requirements import require_lowered, without_look_ups
from tilewright.network.results import NetworkRun
from tilewright.network.search import Search
from tilewright.network.stored import write_native
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.network.code import constant_block, constant_parts, emit_network

_LONGEST_SECONDS = 1800
"""After this time the code is taken to hang."""


@dataclass(eq=False)
class Sw26010Network(PlannedNetwork):
    """A planned network that can be written as athread C, which runs emulated."""

    def computed(self, weights: Mapping[str, Array]) -> Callable[[Mapping[str, Array]], Outputs]:
        """A function from inputs to outputs that runs the generated code on emulated cores.

        Raises SimulationError for what the code does wrong, ToolError where it cannot be built.
        """
        artifact = emit_network(self.plan, self.machine, self.images)
        constants = {artifact.block: constant_block(self.plan, weights)}
        names = [name for name, _, _ in self.plan.outputs]
        mesh = (self.machine.mesh.rows, self.machine.mesh.columns)

        def compute(inputs: Mapping[str, Array]) -> Outputs:
            states = {after: inputs[before] for before, after in self.plan.states}
            given = {**inputs, **states, **constants}
            found = run_emulated(artifact, given, seconds=_LONGEST_SECONDS, mesh=mesh)
            return dict(zip(names, found.values(), strict=True))

        return compute

    def write(
        self,
        directory: str | Path,
        weights: Mapping[str, Array] | None = None,
        *,
        result: NetworkRun | None = None,
    ) -> Path:
        """Write the code of all groups, its constants and the result, simulating the time if none
        is given; the folder appears once it is complete.

        Raises GraphError where the numbers of a weight are not known.
        """
        artifact = emit_network(self.plan, self.machine, self.images)
        parts = constant_parts(self.plan, {**self.weights, **(weights or {})})
        tensors = self.network.tensors
        inputs = tuple((name, tensors[name].shape) for name, _ in self.plan.inputs)
        outputs = tuple((name, tensors[name].shape) for name, _, _ in self.plan.outputs)
        found = result or self.described()
        with new_folder(Path(directory)) as folder:
            write_native(folder, self.machine, artifact, parts, inputs, outputs, found)
        return Path(directory)


@dataclass(frozen=True)
class Sw26010Networks:
    """Plans networks for the groups of a machine."""

    def compile(
        self, network: Network, machine: Machine, search: Search, *, progress: Progress
    ) -> Sw26010Network:
        """Choose the schedules and layouts of a network.

        Raises GraphError for operators without a lowering, CapacityError where nothing fits.
        """
        own = without_look_ups(network)
        plan = build_plan(own, machine, search, progress=progress)
        return Sw26010Network(own, plan, dict(own.values))

    def require(self, network: Network, machine: Machine) -> None:
        """Raise GraphError for operators without a lowering."""
        require_lowered(network, machine)


NETWORKS = Sw26010Networks()
