"""A network of three layers on all nodes: weights and patterns in, what the nodes hold after.

In: a machine, both matrices, patterns. Out: outputs, and after training the weights, with the run.
Node (row, column) has the part of the inputs and outputs that its group of neighbouring columns
shares, and the part of the hidden nodes of its place in that group (ICSI TR-93-046, section 3.2.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import ShapeError
from tilewright.machine import Machine
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.kernels import arguments
from tilewright.targets.cns1.kernels.bodies import backward_body, errors_body
from tilewright.targets.cns1.kernels.code import SUMS, reduction, updated_rows
from tilewright.targets.cns1.kernels.reference import Scaling
from tilewright.targets.cns1.nodes.forward import (
    PENDING,
    SCRATCH,
    CachePlaces,
    Forward,
    called,
    finish,
    looped,
    named,
    prologue,
    require_cache,
    routine,
)
from tilewright.targets.cns1.nodes.run import Node, fabric_of, run_nodes
from tilewright.targets.cns1.nodes.sums import SUMMED, Sum, begun, handlers, installed
from tilewright.targets.cns1.nodes.transfers import place_of, text_of
from tilewright.targets.cns1.sections import Messages
from tilewright.targets.cns1.timing.layers import Layers, on_each_node
from tilewright.targets.cns1.timing.messages import hidden_sum

# Errors and updates of weights on a node: steps 5 to 9 of training (ICSI TR-93-046, section 6.2).
#
# In: a machine, local layers. Out: lines of a program that goes on where `forward` ends. The
# global sum of a group of 32 hidden nodes runs beside the product of the next one, its scaling
# follows both. The weights are updated where they lie.
#
# Registers: `$vs24` the wanted results, `$vs25` room for the errors of the hidden nodes, both in
# main memory; `$vs26` the learning rate.

ERRORS_PENDING, ERRORS_SCRATCH = "$23", "$29"
GROUP = 32
SUMS_BYTES = 4 * GROUP
ROUNDING = "$v29"
"""Half a unit of an update, in every lane."""
_LENGTHS = ("$2", "$3", "$11", "$12", "$15")
_MANY = 1 << 20


@dataclass(frozen=True)
class ErrorPlaces:
    """Where a node keeps vectors in its data cache: errors of the outputs, sums of a group, and for
    the last step the errors of the hidden nodes.
    """

    inputs: int
    hidden: int
    outputs: int
    errors: int
    sums: int
    hidden_errors: int


@dataclass(frozen=True)
class Backward:
    """Steps 5 to 9 of one pattern; messages of its sums have kinds from `first_kind` on."""

    machine: Machine
    local: Layers
    places: ErrorPlaces
    first_kind: int
    scaling: Scaling | None = None

    @property
    def sums(self) -> tuple[Sum, ...]:
        """The global sum of the errors of 32 hidden nodes."""
        return (Sum(hidden_sum(self.machine), 1, self.first_kind, ERRORS_PENDING),)

    def lines(self) -> Iterator[str]:
        """All steps, from the outputs in the data cache to the new weights."""
        local, places = self.local, self.places
        yield "$8 = 64"
        yield from self._errors()
        yield from self._backpropagation()
        yield from self._updated("$vs21", local.outputs, places.hidden, local.hidden, places.errors)
        yield from self._preloaded()
        yield from self._updated(
            "$0", local.hidden, places.inputs, local.inputs, places.hidden_errors
        )

    def _roundings(self) -> Iterator[str]:
        """Halves of a unit of what is shifted: `$v27` and `$v28` in step 7, `$v29` in 8, 9."""
        if self.scaling is not None:
            own = self.scaling
            shifts = (own.weight_bits, 2 * own.activation_bits, own.update_shift)
            for vector, shift in enumerate(shifts, 27):
                yield from (f"$1 = -{(1 << shift) >> 1}", "$vs9 = $1", f"$v{vector} = $v0 - $vs9")

    def routines(self) -> Iterator[str]:
        """The product of a group and the update of a matrix, which the lines call."""
        yield from routine("group", self._group())
        yield from routine("scale", self._scaled())
        yield from routine("update", self._update())

    def _errors(self) -> Iterator[str]:
        """Step 5: results less outputs, scaled."""
        places = self.places
        yield from ("$4 = $vs24", f"$13 = {places.outputs}", f"$16 = {places.errors}")
        yield from ("$2 = $vs26", "$vs1 = $2", f"$10 = {places.outputs + self.local.outputs}")
        yield from looped(errors_body(), self.machine, "errors")

    def _backpropagation(self) -> Iterator[str]:
        """Steps 6 and 7."""
        local, places, (one,) = self.local, self.places, self.sums
        unit = 1 if self.scaling is None else 1 << self.scaling.activation_bits
        yield from self._roundings()
        yield from ("$4 = $vs21", *self._rows(local.outputs), "$30 = 4")
        yield from (f"$1 = {unit}", "$vs9 = $1")
        yield from (f"{register} = {16 >> i}" for i, register in enumerate(_LENGTHS))
        yield from (f"$7 = {places.errors}", f"$10 = {places.errors + 2 * local.outputs}")
        yield from (f"$5 = {places.hidden}", f"$19 = {places.sums}", "$18 = $vs25")
        yield from (f"$24 = {local.hidden // GROUP - 1}", *called("group"))
        yield from self._summed(one)
        first, *others = called("group")
        awaited = f"await ({ERRORS_PENDING} == $0)"
        yield from (f"groups: {first}", *others, awaited, *called("scale"))
        yield from (*self._summed(one), "$24 = $24 - 1", "if ($24 != $0) groups", "nop")
        yield from (awaited, *called("scale"))

    def _summed(self, one: Sum) -> Iterator[str]:
        yield f"$v{SUMMED} = d[$19].w"
        yield from begun(self.machine, one, ERRORS_SCRATCH)

    def _group(self) -> Iterator[str]:
        """Sums of 32 rows times the errors, four rows at a time (Table 6.2)."""
        yield from ("$22 = $19", f"$21 = $19 + {SUMS_BYTES}")
        yield from ("rows: $14 = $4", "$20 = $4 + 64", "$13 = $7")
        yield from (f"$v{s} = $v0" for s in SUMS)
        yield from looped(backward_body(), self.machine, "group")
        yield from ("$4 = $4 + $26", *reduction(_LENGTHS))
        yield from (f"d[$22+=$30].w = $v{s}" for s in SUMS)
        yield from ("if ($22 != $21) rows", "vlr = $28")

    def _scaled(self) -> Iterator[str]:
        """Step 7 of 32 sums."""
        (one,) = self.sums
        own, scaling = one.result(0), self.scaling
        yield "$v26 = d[$5+=$28].b"
        if scaling is not None:
            yield from (*_shift(scaling.weight_bits), f"$v25 = $v27 addap0 {own}")
            yield from _shift(2 * scaling.activation_bits)
            own = "$v25"
        yield from (f"$v25 = {own} * $v26", "$v26 = $v26 - $vs9", "$v25 = $v25 * $v26")
        if scaling is not None:
            yield from ("$v25 = $v0 - $v25", "$v25 = $v28 addap0 $v25")
        yield "m[$18+=$8].h = $v25"

    def _updated(
        self, weights: str, columns: int, data: int, rows: int, errors: int
    ) -> Iterator[str]:
        """Steps 8 and 9: a matrix plus data x errors."""
        yield from (f"$4 = {weights}", *self._rows(columns), f"$7 = {data}", f"$12 = {data + rows}")
        yield from () if self.scaling is None else _shift(self.scaling.update_shift)
        yield from (f"$17 = {errors}", f"$10 = {errors + 2 * columns}", *called("update"))

    def _update(self) -> Iterator[str]:
        yield from ("update_rows: $14 = $4", "$20 = $4 + 64")
        rounding = "" if self.scaling is None else ROUNDING
        yield from named(updated_rows(self.machine, _MANY, rounding=rounding), "update")
        yield from ("if ($7 != $12) update_rows", "$4 = $4 + $26")

    def _preloaded(self) -> Iterator[str]:
        """Errors of the hidden nodes go from main memory to the data cache (section 6.2.3)."""
        places, size = self.places, 2 * self.local.hidden
        yield from ("$30 = 128", "$14 = $vs25", f"$13 = {places.hidden_errors}")
        yield from (f"$10 = {places.hidden_errors + size}", "preload: $v1 = m[$14+=$30].w")
        yield from ("d[$13+=$30].w = $v1", "if ($13 != $10) preload", "nop")

    def _rows(self, columns: int) -> tuple[str, ...]:
        """`$9` bytes of a row, `$26` those of four, `$27` the way back and on by 64 columns."""
        start = (f"$9 = {columns}", "$9 = $9 << 1", "$26 = $9 << 2")
        return (*start, "$27 = $9 - $26", "$27 = $27 + 128")


def _shift(bits: int) -> tuple[str, str]:
    return (f"$1 = {bits}", "vshift = $1")


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
