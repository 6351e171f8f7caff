"""Text of the Torrent in, its cycles on the node simulator out: where prices come from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright.machine import Machine
from tilewright.targets.cns1.emit.writer import Writer
from tilewright.targets.cns1.node import assembled, node_table, run_node


def started() -> Writer:
    """A text with the vector length and its bytes set."""
    writer = Writer()
    writer.add("$28 = 32", "vlr = $28", "$30 = 128")
    return writer


def finished(
    machine: Machine, writer: Writer, main_bytes: int, registers: Mapping[str, int] | None = None
) -> int:
    """Cycles of a text on so many zeros."""
    writer.add("goto $31", "nop")
    program, main = assembled(writer.text(), node_table(machine)), np.zeros(main_bytes, np.uint8)
    return run_node(program, main=main, registers=registers).cycles
