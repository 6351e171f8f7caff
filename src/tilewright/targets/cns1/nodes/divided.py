"""A divided network as programs of all nodes and the I/O nodes below them, and its simulated run.

In: a network of some patterns, a plan of its layers. Out: `NodePrograms`; with numbers the outputs,
and the run with every message. Several copies of the plan's nodes take passes in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import PartitionError
from tilewright.graph import Network
from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.ops import Op, gemm
from tilewright.ops.box import Box
from tilewright.ops.definitions import definitions_in
from tilewright.ops.mapping import mapping
from tilewright.ops.op import Array
from tilewright.partition.layers import Step
from tilewright.partition.plan import PartitionPlan
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.node import TABLE
from tilewright.targets.cns1.nodes.hosts import Given, HostColumn, Outside, Wanted
from tilewright.targets.cns1.nodes.roles import (
    BLOCK,
    MemoryRows,
    NodeRole,
    WeightPlace,
    node_routine,
)
from tilewright.targets.cns1.nodes.run import IDLE, Node, fabric_of, run_nodes
from tilewright.targets.cns1.nodes.shares import (
    KINDS,
    NodeShare,
    Passed,
    node_shares,
    passed,
    product_of,
)
from tilewright.targets.cns1.sections import Hosts

_SUM_BYTES = 4


def product_part(share: NodeShare) -> Op:
    """The product of a chunk, its weights as the node has them, along the columns."""
    kinds = product_of(share.layer).operand_dtypes
    first, last = share.terms
    return gemm(share.rows, share.chunk, last - first, dtype=f"{kinds[0]},{kinds[1]}:i32")


def _is_table(op: Op, number: int) -> bool:
    """True if each element of the result needs an operand whole."""
    follows = op.follows
    return follows is not None and set(follows[1 + number]) == {(None, None)}


def step_part(op: Op, rows: int, columns: int) -> Op:
    """A look-up or a map of one node's part of a layer.

    Raises PartitionError for an operator that is neither.
    """
    if any(_is_table(op, number) for number in range(1, len(op.input_shapes))):
        return op.part(Box.whole((rows, columns)))
    found = definitions_in(op)
    if len(found) != 1 or found[0].gather is not None:
        raise PartitionError(
            f"{op.describe()} is no look-up and no map", fix="take one behind each product"
        )
    return mapping(rows * columns, found[0].body, dtype=str(op.numerics))


@dataclass(frozen=True)
class _Kinds:
    """Where the kinds of messages of each layer begin: of its inputs, and of its sums."""

    inputs: tuple[int, ...]
    sums: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NodePrograms:
    """Programs of `copies` of a plan's nodes; `network` has the patterns of one pass."""

    network: Network
    machine: Machine
    plan: PartitionPlan
    copies: int = 1

    @cached_property
    def shares(self) -> list[dict[int, NodeShare]]:
        """Who does what of each layer."""
        return node_shares(self.plan)

    @cached_property
    def passed(self) -> list[list[Passed]]:
        """The messages before each layer."""
        return [passed(self.plan, number) for number in range(len(self.plan.layers))]

    @cached_property
    def kinds(self) -> _Kinds:
        """The kinds of one exchange after the other; those of inputs from outside are 0."""
        inputs, sums, place = [], [], 1
        for own, messages in zip(self.shares, self.passed, strict=True):
            inputs.append(place)
            place += max((one.kind for one in messages), default=-1) + 1
            sums.append(place)
            place += len(next(iter(own.values())).group)
        return _Kinds(tuple(inputs), tuple(sums))

    @property
    def cells(self) -> int:
        """Nodes of a copy."""
        return max(len(one.cores) for one in self.plan.layers)

    @property
    def rows(self) -> int:
        """Patterns of a pass."""
        return self.plan.layers[0].layer.shape[0]

    def run(self, given: Mapping[str, Array]) -> tuple[dict[str, Array], int]:
        """The outputs for inputs of any number of patterns and weights, and the cycles of all runs:
        as many patterns at a time as the ports' memories hold. Errors: those of `run_nodes`.
        """
        names = [tensor.name for tensor in self.network.inputs]
        patterns, together = len(given[names[0]]), self._together
        parts: list[dict[str, Array]] = []
        cycles = 0
        for first in range(0, patterns, together):
            some = {name: given[name][first : first + together] for name in names}
            outputs, run = self.simulated({**given, **some})
            parts.append(outputs)
            cycles += run.cycles
        found = {n: np.concatenate([part[n] for part in parts]) for n in self.network.outputs}
        return found, cycles

    @property
    def _together(self) -> int:
        """Patterns whose inputs and outputs the memory of a port holds, at the least."""
        room = load_table(TABLE).memory("host").capacity_bytes
        tensors = list(self.network.inputs)
        tensors += [self.network.tensors[name] for name in self.network.outputs]
        rows = sum(-(-t.shape[1] * dtype(t.dtype).size_bytes // BLOCK) for t in tensors)
        fabric, ports = fabric_of(self.machine), self.machine.section(Hosts).ports
        served = fabric.rows * -(-fabric.columns // ports)
        return max(1, room // (self.rows * rows * served * BLOCK)) * self.rows * self.copies

    def simulated(self, given: Mapping[str, Array]) -> tuple[dict[str, Array], MeshRun]:
        """The outputs of one run of all nodes, and the run."""
        patterns = len(given[self.network.inputs[0].name])
        passes = -(-patterns // (self.rows * self.copies))
        inputs = {t.name: self._padded(given[t.name], passes) for t in self.network.inputs}
        numbers = {**self.network.values, **given, **inputs}
        fabric = fabric_of(self.machine, hosts=True)
        nodes = [IDLE] * (fabric.rows * fabric.columns)
        columns = [HostColumn() for _ in range(fabric.columns)]
        for copy in range(self.copies):
            for core in range(self.cells):
                number = copy * self.cells + core
                made = _Places(self, core, copy, passes)
                nodes[number + fabric.columns] = made.node(numbers)
                row, column = divmod(number, fabric.columns)
                columns[column].add(row + 1, made.given, made.wanted)
        outside = Outside(self.machine, fabric, columns, passes, self.copies)
        nodes[: fabric.columns] = outside.nodes(inputs)
        run = run_nodes(self.machine, nodes, fabric)
        return self._outputs(run, outside, patterns), run

    def _padded(self, values: Array, passes: int) -> Array:
        """Inputs of whole passes: [pass, pattern, ...], zeros behind the last."""
        total = passes * self.copies * self.rows
        found = np.zeros((total, *values.shape[1:]), values.dtype)
        found[: len(values)] = values
        return found.reshape(passes * self.copies, self.rows, *values.shape[1:])

    def _outputs(self, run: MeshRun, outside: Outside, patterns: int) -> dict[str, Array]:
        found = {}
        for name in self.network.outputs:
            tensor = self.network.tensors[name]
            shape = outside.passes * self.copies, *tensor.shape
            found[name] = np.zeros(shape, dtype(tensor.dtype).numpy)
        for core in run.cores[: len(outside.columns)]:
            outside.take(core, found)
        return {n: a.reshape(-1, *a.shape[2:])[:patterns] for n, a in found.items()}


class _Places:
    """One node's program as it is made: where its tensors lie, layer by layer."""

    def __init__(self, programs: NodePrograms, core: int, copy: int, passes: int) -> None:
        self.programs, self.core, self.copy = programs, core, copy
        self.fabric = fabric_of(programs.machine, hosts=True)
        self.role = NodeRole(programs.machine, self.fabric, self._node(core), passes)
        self.given: list[Given] = []
        self.wanted: list[Wanted] = []
        self._held: dict[str, tuple[MemoryRows, Box]] = {}
        self._waiting: dict[int, MemoryRows] = {}
        self._from_outside()
        for number in range(len(programs.plan.layers)):
            if core in programs.shares[number]:
                self._layer(number, programs.shares[number][core])
        self._to_outside()

    def _node(self, core: int) -> int:
        """A core's number with the I/O nodes below."""
        return self.copy * self.programs.cells + core + self.fabric.columns

    def node(self, numbers: Mapping[str, Array]) -> Node:
        """The node with its weights."""
        text = self.role.text()
        main: dict[int, Array] = {0: np.array(self.role.words, "<i4")}
        for constant in self.role.constants:
            values = numbers[constant.tensor]
            own = values.T if constant.turned else values
            if constant.shape is not None:
                own = np.broadcast_to(own, (*constant.shape,)[-max(own.ndim, 2) :])
            main[constant.address] = np.ascontiguousarray(own[constant.box.slices])
        main[self.role.end] = np.zeros(0, np.uint8)
        return Node(text, {"main": main})

    def _from_outside(self) -> None:
        """All inputs of the network that the node reads, in the order of the layers."""
        made = {one.layer.output for one in self.programs.plan.layers}
        for number, planned in enumerate(self.programs.plan.layers):
            share = self.programs.shares[number].get(self.core)
            if share is None or planned.layer.reads[0] in made:
                continue
            rows = self._factors(number, share)
            self.role.receive(rows, 0, adds=False)
            box = Box.of((0, share.rows), share.terms)
            self.given.append(Given(planned.layer.reads[0], box, self.copy))

    def _factors(self, number: int, share: NodeShare) -> MemoryRows:
        """The rows that a product reads."""
        size = dtype(product_of(share.layer).operand_dtypes[0]).size_bytes
        width = size * (share.terms[1] - share.terms[0])
        rows = MemoryRows(self.role.room(share.rows * width), share.rows, width, width)
        self._waiting[number] = rows
        return rows

    def _layer(self, number: int, share: NodeShare) -> None:
        if number not in self._waiting:
            self._gathered(number, share)
        result = self._product(number, share)
        for step in share.layer.steps[1:]:
            result = self._step(share, step, result)
        kept = Box.of((0, share.rows), self._finished(share))
        self._held[share.layer.output] = result, kept

    def _finished(self, share: NodeShare) -> tuple[int, int]:
        start = share.columns[0] + share.own * share.piece
        return start, start + share.piece

    def _gathered(self, number: int, share: NodeShare) -> None:
        """Collects the product's factors: other nodes' results, and the node's own."""
        (name,) = share.layer.reads
        factors = self._factors(number, share)
        wanted = Box.of((0, share.rows), share.terms)
        have = self._held.get(name)
        if have is not None and (common := have[1] & wanted).size:
            own = self._placed(_inside(factors, wanted, common))
            self.role.move(self._placed(_inside(*have, common)), own, adds=False)
        base = self.programs.kinds.inputs[number]
        for one in self.programs.passed[number]:
            if one.source == self.core and have is not None:
                moved = self._placed(_inside(*have, one.box))
                self.role.send(moved, self._node(one.target), (base + one.kind) % KINDS)
        for one in self.programs.passed[number]:
            if one.target == self.core:
                moved = self._placed(_inside(factors, wanted, one.box))
                self.role.receive(moved, (base + one.kind) % KINDS, adds=False)

    def _placed(self, rows: MemoryRows) -> MemoryRows:
        """Rows whose address is in the table: that of other nodes is another."""
        assert isinstance(rows.start, int)
        return replace(rows, start=self.role.word(rows.start))

    def _product(self, number: int, share: NodeShare) -> MemoryRows:
        """The sums that the node finishes: chunks for others first, then the own."""
        routine = node_routine(product_part(share), self.programs.machine)
        columns, width = share.chunk, share.piece * _SUM_BYTES
        factors, weights = self._waiting[number], self._weights(share)
        chunk = self.role.room(share.rows * columns * _SUM_BYTES)
        sums = MemoryRows(self.role.room(share.rows * width), share.rows, width, width)
        if len(share.group) == 1:
            self.role.call(routine, (factors.start, weights[0], sums.start))
            return sums
        arrived = False
        base = self.programs.kinds.sums[number]
        order = [*range(1, share.chunks), 0]
        for before, distance in pairwise((-1, *order)):
            self.role.call(routine, (factors.start, weights[distance], chunk))
            for other in share.others(distance):
                place = chunk + other % share.pieces * width
                rows = MemoryRows(self.role.word(place), share.rows, width, columns * _SUM_BYTES)
                kind = (base + share.kind(distance, share.own)) % KINDS
                self.role.send(rows, self._node(share.group[other]), kind)
            if before >= 0:
                arrived = self._arriving(share, base, before, sums, adds=arrived)
        arrived = self._arriving(share, base, 0, sums, adds=arrived)
        own = chunk + share.own % share.pieces * width
        mine = MemoryRows(self.role.word(own), share.rows, width, columns * _SUM_BYTES)
        self.role.move(mine, sums, adds=arrived)
        return sums

    def _arriving(
        self, share: NodeShare, base: int, distance: int, sums: MemoryRows, *, adds: bool
    ) -> bool:
        """Add the sums of those whose chunk at a distance has the own piece."""
        first = (share.own // share.pieces - distance) % share.chunks * share.pieces
        for sender in range(first, first + share.pieces):
            if sender != share.own:
                kind = (base + share.kind(distance, sender)) % KINDS
                self.role.receive(sums, kind, adds=adds)
                adds = True
        return adds

    def _weights(self, share: NodeShare) -> list[int | str]:
        """The chunks' weights, chunk by chunk as the columns go; where those of each distance
        begin.
        """
        product, (first, last) = product_of(share.layer), share.terms
        size = (last - first) * share.chunk * 2
        start = self.role.room(share.chunks * size, lines=True)
        for number in range(share.chunks):
            begin = share.columns[0] + number * share.chunk
            box = Box.of((first, last), (begin, begin + share.chunk))
            name = share.layer.steps[0].operands[1]
            place = start + number * size
            self.role.constants.append(WeightPlace(place, name, box, product.transpose_b))
        if share.chunks == 1:
            return [start]
        return [self.role.word(start + share.chunk_of(d) * size) for d in range(share.chunks)]

    def _step(self, share: NodeShare, step: Step, before: MemoryRows) -> MemoryRows:
        """A look-up or map of what the node finishes."""
        op = step_part(step.op, share.rows, share.piece)
        places: list[int | str] = [before.start]
        for number, name in enumerate(step.operands[1:], 1):
            places.append(self._operand(share, name, table=_is_table(step.op, number)))
        width = share.piece * dtype(step.op.out_dtype).size_bytes
        found = MemoryRows(self.role.room(share.rows * width), share.rows, width, width)
        self.role.call(node_routine(op, self.programs.machine), (*places, found.start))
        return found

    def _operand(self, share: NodeShare, name: str, *, table: bool) -> int:
        """A table, or the node's part of a matrix or of a row for each pattern."""
        tensor = self.programs.network.tensors[name]
        size = dtype(tensor.dtype).size_bytes
        if table:
            place = self.role.room(tensor.shape[0] * size, lines=True)
            self.role.constants.append(WeightPlace(place, name, Box.whole(tensor.shape)))
            return place
        place = self.role.room(share.rows * share.piece * size)
        box = Box.of((0, share.rows), self._finished(share))
        self.role.constants.append(WeightPlace(place, name, box, shape=share.layer.shape))
        return place

    def _to_outside(self) -> None:
        """Outputs go down to the I/O node of the column."""
        row, column = divmod(self.role.node, self.fabric.columns)
        for name in self.programs.network.outputs:
            if name in self._held:
                rows, box = self._held[name]
                self.role.send(rows, column, row)
                self.wanted.append(Wanted(name, box, rows.size_bytes, self.copy))


def _inside(rows: MemoryRows, have: Box, box: Box) -> MemoryRows:
    """The rows of a region inside those of another."""
    assert isinstance(rows.start, int)
    size = rows.size_bytes // have.shape[1]
    inner = box.within(have)
    start = rows.start + inner.start[0] * rows.step_bytes + inner.start[1] * size
    return MemoryRows(start, box.shape[0], box.shape[1] * size, rows.step_bytes)


def node_programs(
    network: Network, machine: Machine, plan: PartitionPlan, copies: int
) -> NodePrograms:
    """The programs of a plan. Raises PartitionError where a node's memory is too small for them."""
    found = NodePrograms(network, machine, plan, copies)
    role, room = _Places(found, 0, 0, 1).role, machine.main.capacity_bytes
    if role.end > room:
        raise PartitionError(
            f"node 0 needs {role.end} bytes of memory 'main', which has {room}",
            fix="take more nodes, or larger chips",
        )
    return found
