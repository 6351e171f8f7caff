"""A network with its plan: run by its programs' semantics, timed by the simulator.

In: a network and a machine whose groups run plans. Out: a compiled network with the interface of
`network.plans`; a family that generates code for plans passes a `PlanCode`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeAlias

import numpy as np
from msgspec import structs

from tilewright.codegen.artifact import Array, Arrays, Artifact
from tilewright.codegen.folder import new_folder
from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError, ShapeError, ToolError
from tilewright.graph.graph import Network
from tilewright.graph.weights import FirstOf
from tilewright.machine import Machine
from tilewright.network.interpret import interpret_groups, interpret_plan
from tilewright.network.plan import Plan
from tilewright.network.plans import Other
from tilewright.network.results import NetworkRun, compared
from tilewright.network.rival import compare_outputs
from tilewright.network.simulate import PlanRun, described, simulate_plan
from tilewright.network.stored import write_native
from tilewright.ops.op import show_shape
from tilewright.ops.piece import intervals


class Outputs(dict[str, Array]):
    """Outputs by name. `saturated` counts by stage the elements that overflowed fixed point, where
    the code counts them.
    """

    saturated: Mapping[str, int] = MappingProxyType({})


Compute: TypeAlias = Callable[[Arrays], Outputs]
"""A function from inputs to outputs."""


class PlanCode(Protocol):
    """Code that a family generates for plans."""

    def assembled(
        self, plan: Plan, images: tuple[slice, ...], weights: Arrays
    ) -> tuple[Artifact, Iterable[Array]]:
        """The code of all groups and its block of constants, part by part.

        Raises GraphError where the numbers of a weight are unknown.
        """

    def computed(self, plan: Plan, images: tuple[slice, ...], weights: Arrays) -> Compute:
        """A function that runs the code, emulated.

        Raises SimulationError for what the code does wrong, ToolError where it cannot be built.
        """


@dataclass(eq=False)
class PlannedNetwork:
    """A `NativeNetwork` by a plan that each group of the machine runs on its own images. It runs
    the family's `code`, or interprets the plan where the family generates none.
    """

    network: Network
    plan: Plan
    weights: Arrays = field(default_factory=dict)
    code: PlanCode | None = None
    arranged: Callable[[Arrays], Arrays] | None = None
    """Lays the inputs out as the plan reads them; None where they are C arrays."""

    @property
    def machine(self) -> Machine:
        """The machine it was planned for."""
        return self.plan.machine

    def run(self, *inputs: Array, weights: Arrays | None = None, **named: Array) -> Outputs:
        compute = self.computed(self._known(weights))
        found, tensors = compute(self._inputs_by_name(inputs, named)), self.network.tensors
        outputs = Outputs(
            (name, np.asarray(y, dtype(tensors[name].dtype).numpy)) for name, y in found.items()
        )
        outputs.saturated = found.saturated
        return outputs

    def know(self, weights: Arrays) -> None:
        self.weights = FirstOf(self.weights, weights)

    def _known(self, weights: Arrays | None) -> Arrays:
        return FirstOf(weights or {}, self.weights)

    def session(self, states: Arrays) -> PlannedSession:
        return PlannedSession(self, dict(states))

    @property
    def images(self) -> tuple[slice, ...]:
        """The slice of images of each group; empty if one group computes them all."""
        if self.plan.groups == 1:
            return ()
        batch = self.network.inputs[0].shape[0]
        return tuple(slice(*part) for part in intervals(batch, self.plan.groups))

    def computed(self, weights: Arrays) -> Compute:
        """A function that runs the code, or interprets the plan."""
        if self.code is not None:
            return self._on_arranged(self.code.computed(self.plan, self.images, weights))
        return self._on_arranged(self._meaning(weights))

    def _on_arranged(self, compute: Compute) -> Compute:
        arranged = self.arranged
        return compute if arranged is None else lambda inputs: compute(arranged(inputs))

    def _meaning(self, weights: Arrays) -> Compute:
        """A function that interprets the plan."""

        def compute(inputs: Arrays) -> Outputs:
            if not self.images:
                return Outputs(interpret_plan(self.plan, inputs, weights))
            found, values = Outputs(), self.plan.values
            own = {name for name, v in self.plan.inputs if not values[v].shared}
            parts = [
                {name: x[images] if name in own else x for name, x in inputs.items()}
                for images in self.images
            ]
            outputs = interpret_groups(self.plan, parts, weights)
            for name, value, _ in self.plan.outputs:
                if values[value].shared:
                    found[name] = outputs[0][name]
                else:
                    found[name] = self._join_images([y[name] for y in outputs])
            return found

        return compute

    def _join_images(self, parts: Sequence[Array]) -> Array:
        """An output over all images, joined from the groups' parts."""
        whole = np.empty((self.images[-1].stop, *parts[0].shape[1:]), parts[0].dtype)
        for images, part in zip(self.images, parts, strict=True):
            whole[images] = part
        return whole

    def _inputs_by_name(self, inputs: tuple[Array, ...], named: Arrays) -> dict[str, Array]:
        names = [t.name for t in self.network.inputs]
        given = {**dict(zip(names, inputs, strict=False)), **named}
        if set(given) != set(names) or len(inputs) > len(names):
            raise GraphError(
                f"{self.network.name} takes the inputs {', '.join(names)}, found {len(inputs)} in "
                f"order and {', '.join(named) or 'none'} by name"
            )
        for t in self.network.inputs:
            if given[t.name].shape != t.shape:
                raise ShapeError(
                    f"input {t.name!r} has shape {show_shape(given[t.name].shape)}, expected "
                    f"{show_shape(t.shape)}"
                )
        return given

    def write(
        self,
        directory: str | Path,
        weights: Arrays | None = None,
        *,
        result: NetworkRun | None = None,
    ) -> Path:
        """Raises GraphError where the numbers of a weight are unknown, ToolError where the family
        generates no code.
        """
        if self.code is None:
            raise ToolError(f"machine {self.machine.name!r} has no code for plans of networks")
        artifact, parts = self.code.assembled(self.plan, self.images, self._known(weights))
        tensors = self.network.tensors
        inputs = tuple((name, tensors[name].shape) for name, _ in self.plan.inputs)
        outputs = tuple((name, tensors[name].shape) for name, _, _ in self.plan.outputs)
        found = result or self.described()
        with new_folder(Path(directory)) as folder:
            write_native(folder, self.machine, artifact, parts, inputs, outputs, found)
        return Path(directory)

    @cached_property
    def simulated(self) -> PlanRun:
        return simulate_plan(self.plan)

    def described(self, compile_seconds: float = 0.0) -> NetworkRun:
        return described(self.simulated, self.network.flops, plan_seconds=compile_seconds)

    def measured(
        self,
        network: Network,
        weights: Arrays,
        inputs: Arrays,
        *,
        compare: Other | None = None,
        compile_seconds: float = 0.0,
        bound: float | None = None,
    ) -> tuple[NetworkRun, dict[str, Array]]:
        """Simulated figures; they are never compared with times on this computer."""
        outputs = self.run(*(inputs[t.name] for t in self.network.inputs))
        found = structs.replace(self.described(compile_seconds), saturated=dict(outputs.saturated))
        if compare is None:
            return found, outputs
        if compare == "reference" and dtype(self.plan.dtype).kind == "fixed":
            # the plan states how often it rounds; each operator would round once
            meant = self._on_arranged(self._meaning(self._known(weights)))(inputs)
            exact = compared("meaning", outputs, meant, 0.0)
            return structs.replace(found, comparison=exact), outputs
        other = compare_outputs(compare, network, weights, inputs, outputs, bound)
        return structs.replace(found, comparison=other), outputs


@dataclass(eq=False)
class PlannedSession:
    """A `Session` in which each run starts from the states of the previous one."""

    network: PlannedNetwork
    held: dict[str, Array]

    def step(self, inputs: Arrays) -> dict[str, Array]:
        found = self._run(inputs)
        self.held = {state.tensor: found.pop(state.next) for state in self.network.network.states}
        return found

    def until(self, output: str, inputs: Arrays) -> Array:
        """An output of a run whose new states are dropped."""
        return self._run(inputs)[output]

    def states(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self.held.items()}

    def give(self, states: Arrays) -> None:
        self.held = dict(states)

    def _run(self, inputs: Arrays) -> dict[str, Array]:
        given = {**inputs, **self.held}
        return self.network.run(*(given[t.name] for t in self.network.network.inputs))
