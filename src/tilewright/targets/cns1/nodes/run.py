"""Programs on all nodes of a CNS-1: texts and images of their memories in, a `MeshRun` out.

A node is row * columns + column of its fabric. With `hosts` a row of I/O nodes lies below the
Torrents, as row 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import MachineError
from tilewright.isa import Effect
from tilewright.machine import Machine
from tilewright.machine.parts import Fabric
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.node import assembled, node_table
from tilewright.targets.cns1.sections import NodeCaches

Array = NDArray[np.generic]
Images = Mapping[str, Mapping[int, Array]]
"""The initial contents of each memory, by address."""


@dataclass(frozen=True)
class NodeStart:
    """A node's program, as text, and the initial contents of its memories and registers."""

    text: str
    images: Images = field(default_factory=dict)
    registers: Mapping[str, int | Sequence[float]] = field(default_factory=dict)


IDLE = NodeStart("goto $31\nnop\n")
"""A node that takes no part."""
_MOST_TRACED = 1 << 21
"""Most instructions of traced nodes that are kept."""


def fabric_of(machine: Machine, *, hosts: bool = False) -> Fabric:
    """The fabric that nodes exchange messages over."""
    fabric = machine.fabrics["torrents"]
    return msgspec.structs.replace(fabric, rows=fabric.rows + hosts)


def run_nodes(
    machine: Machine, nodes: Sequence[NodeStart], fabric: Fabric, *, traced: Sequence[int] = ()
) -> MeshRun:
    """Run all nodes until each has returned. Raises the errors of `simulate_mesh`, and
    SourceErrors.
    """
    table = node_table(machine)
    texts = {text: assembled(text, table) for text in {node.text for node in nodes}}
    for program in texts.values():
        _require_handlers(program, machine.section(NodeCaches))
    origins = table.memory_origins
    return simulate_mesh(
        [texts[node.text] for node in nodes],
        SimulatedMesh(fabric.rows, fabric.columns, fabric=fabric),
        registers=[node.registers for node in nodes],
        local_memory=[
            {
                origins[memory] + at: array
                for memory, parts in node.images.items()
                for at, array in parts.items()
            }
            for node in nodes
        ],
        traced_cores=traced,
        trace_limit=_MOST_TRACED,
    )


def cycles_of_labels(
    times: NDArray[np.int64], numbers: NDArray[np.int64], labels: Mapping[str, int]
) -> dict[str, int]:
    """Cycles by label from a program's issued instructions: each counts those since the one before,
    for the label that it follows.
    """
    ordered = sorted(labels.items(), key=lambda one: one[1])
    places = np.array([place for _, place in ordered])
    which = np.searchsorted(places, numbers, side="right")
    totals = np.bincount(which, np.diff(times, prepend=-1), minlength=len(ordered) + 1)
    names = ["", *(name for name, _ in ordered)]
    return {name: int(cycles) for name, cycles in zip(names, totals, strict=True) if cycles}


def _require_handlers(program: AssembledProgram, caches: NodeCaches) -> None:
    """Raise MachineError for a handler, to its last return, beyond the instruction cache."""
    effects = [one.spec.effect for one in program.instructions]
    places = [i for i, effect in enumerate(effects) if effect is Effect.MESSAGE_HANDLER]
    starts = sorted({i + 1 + int(program.code["value"][i]) for i in places})
    for start, following in pairwise([*starts, len(effects)]):
        ends = [i for i in range(start, following) if effects[i] is Effect.MESSAGE_RESUME]
        size = (max(ends, default=start) + 2 - start) * program.table.word_bits // 8
        if size > caches.instruction_bytes:
            name = next(label for label, at in program.labels.items() if at == start)
            lines = -(-size // caches.instruction_line_bytes)
            raise MachineError(
                f"handler '{name}' takes {size} bytes, {lines} lines of "
                f"{caches.instruction_line_bytes}; the instruction cache has "
                f"{caches.instruction_bytes} (memory.caches.instruction_bytes)",
                fix="take a shorter handler, or a larger cache",
            )
