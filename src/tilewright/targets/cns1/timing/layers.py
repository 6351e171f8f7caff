"""Networks of three layers and their parts on the nodes (ICSI TR-93-046, chapter 3), and access
times of the RDRAM in cycles (sections 2.1.3, 2.1.4 and Table 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tilewright.common.errors import ShapeError
from tilewright.machine import Machine
from tilewright.targets.cns1.sections import Messages, Rdram

VECTOR_BYTES = 32
"""Bytes that one port delivers of a vector of 32 weights, which two ports share."""
WORD_BYTES = 4
ELEMENT_BYTES = 1


@dataclass(frozen=True)
class AccessCycles:
    """Cycles of one access through one port: r_h, r_m,/d, r_m,d of the report, or those of w."""

    hit: int
    clean_miss: int
    dirty_miss: int


def read_cycles(machine: Machine, size_bytes: int) -> AccessCycles:
    """Reading `size_bytes`: r_h, r_m,/d and r_m,d."""
    rdram = machine.section(Rdram)
    times = (rdram.read_hit_ns, rdram.read_clean_miss_ns, rdram.read_dirty_miss_ns)
    return AccessCycles(*(_cycles(machine, time, size_bytes) for time in times))


def write_cycles(machine: Machine, size_bytes: int) -> AccessCycles:
    """Writing `size_bytes`: w_h, w_m,/d and w_m,d."""
    rdram = machine.section(Rdram)
    times = (rdram.write_hit_ns, rdram.write_clean_miss_ns, rdram.write_dirty_miss_ns)
    return AccessCycles(*(_cycles(machine, time, size_bytes) for time in times))


def refresh_factor(machine: Machine) -> float:
    """tau_ref: the largest factor by which refreshes prolong a run (section 2.1.4)."""
    rdram = machine.section(Rdram)
    return rdram.refresh_interval_ns / (rdram.refresh_interval_ns - rdram.refresh_ns)


def _cycles(machine: Machine, access_ns: float, size_bytes: int) -> int:
    nanoseconds = access_ns + machine.section(Rdram).byte_ns * size_bytes
    return ceil(nanoseconds * machine.clock_hz / 1e9)


STRIPE = 64
"""Columns of a matrix that are consumed together, so that all four ports deliver (5.2.1)."""
ROWS_AT_ONCE = 4
"""Rows whose activations one word holds."""


@dataclass(frozen=True)
class Layers:
    """n_i inputs, n_h hidden nodes, n_o outputs: of the whole network, or of one node."""

    inputs: int
    hidden: int
    outputs: int

    @property
    def connections(self) -> int:
        """Weights of both matrices."""
        return (self.inputs + self.outputs) * self.hidden


def on_each_node(machine: Machine, network: Layers) -> Layers:
    """n_pi, n_ph and n_po: a matrix is divided over p_i x p_h nodes (section 3.2.1).

    Raises ShapeError unless parts are whole: n_pi counts words of four activations, n_ph and n_po
    stripes of 64 columns.
    """
    input_parts = machine.section(Messages).hidden_sharers
    hidden_parts = machine.cores // input_parts
    for what, size, multiple in (
        ("inputs", network.inputs, ROWS_AT_ONCE * input_parts),
        ("hidden nodes", network.hidden, STRIPE * hidden_parts),
        ("outputs", network.outputs, STRIPE * input_parts),
    ):
        if size < 1 or size % multiple:
            raise ShapeError(
                f"{size} {what} cannot be divided over the nodes of {machine.name!r}",
                fix=f"take a multiple of {multiple}",
            )
    return Layers(
        network.inputs // input_parts,
        network.hidden // hidden_parts,
        network.outputs // input_parts,
    )
