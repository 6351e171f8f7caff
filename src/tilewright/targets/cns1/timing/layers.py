"""Networks of three layers and their parts on the nodes (ICSI TR-93-046, chapter 3)."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.common.errors import ShapeError
from tilewright.machine import Machine
from tilewright.targets.cns1.sections import Messages

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

    Raises ShapeError where a part is not whole: n_pi counts words of four activations, n_ph and
    n_po stripes of 64 columns.
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
