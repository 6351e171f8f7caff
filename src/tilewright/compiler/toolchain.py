"""Capabilities of a machine's family for workloads, looked up once and passed down.

In: a machine. Out: a `Toolchain`, which callers query in place of the family.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tilewright.codegen.artifact import EMITS, LOADS, Emits
from tilewright.common.errors import SimulationError
from tilewright.machine import Machine
from tilewright.network.plans import NETWORKS, CompilesNetworks
from tilewright.partition.capability import DIVIDES, DividesNetworks


@dataclass(frozen=True)
class Toolchain:
    """A machine with its family's capabilities, each imported at first use."""

    machine: Machine

    @cached_property
    def executes_here(self) -> bool:
        """True if the machine is this computer: code is loaded and measured, not simulated."""
        return LOADS.of(self.machine) is not None

    @cached_property
    def emits(self) -> Emits | None:
        """The code generator for one operator; None if the family has none."""
        return EMITS.of(self.machine)

    @cached_property
    def networks(self) -> CompilesNetworks | None:
        """The compiler of whole networks; None if the family has none."""
        return NETWORKS.of(self.machine)

    @cached_property
    def divides(self) -> DividesNetworks | None:
        """The planner of networks divided over cores; None if the family has none."""
        return DIVIDES.of(self.machine)

    def way(self, *, alone: bool) -> str:
        """The way to compile a workload: kernels `alone`, or a network as this machine runs one."""
        if alone:
            return "alone"
        return "whole" if self.divides is None else "divided"

    @property
    def usual_type(self) -> str:
        """The element type of known networks: the one in the machine's file, else the cores' first
        type where they divide networks, else single precision where networks are measured and
        double elsewhere.
        """
        if self.machine.core.elements is not None:
            return self.machine.core.elements
        if self.divides is not None:
            return self.machine.core.types[0]
        return "f32" if self.executes_here else "f64"

    def require_simulated(self) -> None:
        """Raise SimulationError where the machine is this computer."""
        if self.executes_here:
            raise SimulationError(
                f"machine {self.machine.name!r} is this computer: it is measured, not simulated",
                fix="tilewright run, or another --machine",
            )
