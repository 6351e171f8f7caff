"""A network of three layers on all nodes: weights and patterns in, what the nodes hold after.

In: a machine, both matrices, patterns. Out: outputs, and after training the weights, with the run.
Node (row, column) has the part of the inputs and outputs that its group of neighbouring columns
shares, and the part of the hidden nodes of its place in that group (ICSI TR-93-046, section 3.2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import ShapeError
from tilewright.machine import Machine
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.kernels import arguments
from tilewright.targets.cns1.kernels.reference import Scaling
from tilewright.targets.cns1.nodes.backward import SUMS_BYTES, Backward, ErrorPlaces
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
PASS = 128
"""Columns of a pass of the error loop, and of two of an update."""


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
class Trained:
    """The weights after a pattern, and the run."""

    weights: Weights
    run: MeshRun


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
    require_cache(machine, places.hidden + patterns * local.hidden, "activations and results")
    forward = Forward(machine, local, patterns, places)
    own = parts(machine, local)
    text = _program((forward,))
    nodes = [
        Node(
            text,
            {"main": _weights(weights, part, table), "cache": {0: inputs[:, part.inputs]}},
            {**place_of(fabric_of(machine), n), **_registers(local, table, shift)},
        )
        for n, part in enumerate(own)
    ]
    run = run_nodes(machine, nodes, fabric_of(machine))
    found = np.zeros((patterns, weights.layers.outputs), np.int8)
    for core, part in zip(run.cores, own, strict=True):
        size = patterns * local.outputs
        found[:, part.outputs] = core.memory("cache")[:size].view("i1").reshape(patterns, -1)
    return Recalled(found, run)


def train(
    machine: Machine,
    weights: Weights,
    pattern: Array,
    wanted: Array,
    table: Array,
    shift: int,
    rate: int,
    scaling: Scaling | None = None,
) -> Trained:
    """One pattern [inputs] i8 with its results [outputs] i8 through the network on all nodes, and
    back: the report's literal arithmetic, in which weights and errors wrap, or the scaled one.
    Errors as `recall`.
    """
    local = on_each_node(machine, weights.layers)
    table = arguments.sigmoid(table, shift)
    pattern = arguments.vector("pattern", pattern, "i1")
    wanted = arguments.integers("wanted", wanted, "i1", weights.layers.outputs)
    arguments.word("rate", rate)
    _require_passes(machine, local)
    places = _error_places(machine, local)
    forward = Forward(machine, local, 1, CachePlaces(places.inputs, places.hidden, places.outputs))
    backward = Backward(machine, local, places, sum(len(s.kinds) for s in forward.sums), scaling)
    own, start = parts(machine, local), table_place(local, table) + len(table)
    text, errors = _program((forward, backward)), start + local.outputs
    registers = {**_registers(local, table, shift), "$vs24": start, "$vs25": errors, "$vs26": rate}
    nodes = [
        Node(
            text,
            {
                "main": {
                    **_weights(weights, part, table),
                    start: wanted[part.outputs],
                    errors: np.zeros(local.hidden, "<i2"),
                },
                "cache": {places.inputs: pattern[part.inputs]},
            },
            {**place_of(fabric_of(machine), n), **registers},
        )
        for n, part in enumerate(own)
    ]
    run = run_nodes(machine, nodes, fabric_of(machine))
    found = Weights(np.empty_like(weights.hidden), np.empty_like(weights.outputs))
    for core, part in zip(run.cores, own, strict=True):
        held = core.memory("main")[: 2 * local.connections].view("<i2")
        first, second = np.split(held, [local.inputs * local.hidden])
        found.hidden[part.inputs, part.hidden] = first.reshape(local.inputs, local.hidden)
        found.outputs[part.hidden, part.outputs] = second.reshape(local.hidden, local.outputs)
    return Trained(found, run)


def _program(steps: Sequence[Forward | Backward]) -> str:
    """The program of every node: the steps, then what they call, then the handlers."""
    sums = tuple(one for step in steps for one in step.sums)
    lines = [*prologue(), *installed(sums, SCRATCH)]
    lines += [line for step in steps for line in step.lines()]
    lines += [*finish(), *(line for step in steps for line in step.routines())]
    return text_of([*lines, *(line for one in sums for line in handlers(steps[0].machine, one))])


def _require_passes(machine: Machine, local: Layers) -> None:
    """Raise ShapeError where a loop over columns would run less often than it can."""
    for what, columns in (("hidden nodes", local.hidden), ("outputs", local.outputs)):
        if columns % PASS:
            raise ShapeError(
                f"training takes multiples of {PASS} {what} on a node of {machine.name!r}, found "
                f"{columns}",
                fix="pad the layer",
            )


def _error_places(machine: Machine, local: Layers) -> ErrorPlaces:
    """Vectors of one pattern; the errors of the hidden nodes take the place of all but the inputs
    when those are done with.
    """
    outputs = local.inputs + local.hidden
    errors = outputs + local.outputs
    sums = errors + 2 * local.outputs
    hidden_errors = local.inputs
    end = max(sums + SUMS_BYTES, hidden_errors + 2 * local.hidden)
    require_cache(machine, end, "activations, results and errors")
    return ErrorPlaces(0, local.inputs, outputs, errors, sums, hidden_errors)


def table_place(local: Layers, table: Array) -> int:
    """Address of the sigmoid table: behind the weights, where its own size divides."""
    used = 2 * local.connections
    return -(-used // len(table)) * len(table)


def _weights(weights: Weights, part: Part, table: Array) -> dict[int, Array]:
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
