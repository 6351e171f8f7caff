"""A network of three layers on all nodes: weights and patterns in, what the nodes hold after.

In: a machine, both matrices, patterns. Out: outputs, and after training the weights, with the run.
Node (row, column) has the part of the inputs and outputs that its group of neighbouring columns
shares, and the part of the hidden nodes of its place in that group (ICSI TR-93-046, section 3.2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.machine import Machine
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.kernels import arguments
from tilewright.targets.cns1.nodes.forward import (
    PENDING,
    SCRATCH,
    CachePlaces,
    Forward,
    finish,
    prologue,
    require_cache,
)
from tilewright.targets.cns1.nodes.run import Node, fabric_of, run_nodes
from tilewright.targets.cns1.nodes.sums import handlers, installed
from tilewright.targets.cns1.nodes.transfers import place_of, text_of
from tilewright.targets.cns1.sections import Messages
from tilewright.targets.cns1.timing.layers import Layers, on_each_node

Array = NDArray[Any]


@dataclass(frozen=True)
class Weights:
    """Both matrices: [inputs, hidden] and [hidden, outputs], i16."""

    hidden: Array
    outputs: Array

    @property
    def layers(self) -> Layers:
        """The network's sizes."""
        return Layers(len(self.hidden), len(self.outputs), self.outputs.shape[1])


@dataclass(frozen=True)
class Part:
    """The slices of inputs, hidden nodes and outputs that one node has."""

    inputs: slice
    hidden: slice
    outputs: slice


@dataclass(frozen=True)
class Recalled:
    """Outputs [patterns, outputs] i8, and the run."""

    outputs: Array
    run: MeshRun


def parts(machine: Machine, local: Layers) -> list[Part]:
    """Each node's part, node by node: `blocks` over the columns' groups and the places in them."""
    columns = machine.mesh.columns
    width = columns // machine.section(Messages).hidden_sharers
    found = []
    for node in range(machine.cores):
        row, column = divmod(node, columns)
        group, place = column // width, row * width + column % width
        found.append(
            Part(
                _span(group, local.inputs), _span(place, local.hidden), _span(group, local.outputs)
            )
        )
    return found


def _span(index: int, size: int) -> slice:
    return slice(index * size, (index + 1) * size)


def recall(machine: Machine, weights: Weights, inputs: Array, table: Array, shift: int) -> Recalled:
    """Two patterns [2, inputs] i8 through the network on all nodes. Raises ShapeError for a network
    that cannot be divided, CapacityError where a node's memories are too small.
    """
    local = on_each_node(machine, weights.layers)
    table = arguments.sigmoid(table, shift)
    inputs = arguments.patterns(inputs, weights.layers.inputs)
    patterns = len(inputs)
    places = CachePlaces(0, patterns * max(local.inputs, local.outputs), 0)
    vectors = places.hidden + patterns * local.hidden
    require_cache(machine, vectors, "activations and results")
    forward = Forward(machine, local, patterns, places)
    lines = [
        *prologue(),
        *installed(forward.sums, SCRATCH),
        *forward.lines(),
        *finish(),
        *forward.routines(),
        *(line for one in forward.sums for line in handlers(machine, one)),
    ]
    fabric, text = fabric_of(machine), text_of(lines)
    nodes = [
        Node(
            text,
            {"main": _main(weights, part, table), "cache": {0: inputs[:, part.inputs]}},
            {**place_of(fabric, n), **_registers(local, table, shift)},
        )
        for n, part in enumerate(parts(machine, local))
    ]
    run = run_nodes(machine, nodes, fabric)
    found = np.zeros((patterns, weights.layers.outputs), np.int8)
    for core, part in zip(run.cores, parts(machine, local), strict=True):
        size = patterns * local.outputs
        found[:, part.outputs] = core.memory("cache")[:size].view("i1").reshape(patterns, -1)
    return Recalled(found, run)


def table_place(local: Layers, table: Array) -> int:
    """Address of the sigmoid table: behind the weights, where its own size divides."""
    used = 2 * local.connections
    return -(-used // len(table)) * len(table)


def _main(weights: Weights, part: Part, table: Array) -> dict[int, Array]:
    own = weights.hidden[part.inputs, part.hidden], weights.outputs[part.hidden, part.outputs]
    place = -(-(own[0].nbytes + own[1].nbytes) // len(table)) * len(table)
    return {0: own[0], own[0].nbytes: own[1], place: table}


def _registers(local: Layers, table: Array, shift: int) -> dict[str, int]:
    start = table_place(local, table)
    return {
        PENDING: shift,
        "$vs21": 2 * local.inputs * local.hidden,
        "$vs22": start,
        "$vs23": start + len(table) // 2,
    }
