"""A divided network as programs of all nodes and the I/O nodes below them, and its simulated run.

In: a network of some patterns, a plan of its layers. Out: `NodePrograms`; with numbers the outputs,
and the run with every message. Several copies of the plan's nodes take passes in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, zip_longest

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import PartitionError
from tilewright.graph import Network
from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.machine.messages import hops_to
from tilewright.ops import Op
from tilewright.ops.box import Box
from tilewright.ops.definitions import definitions_in
from tilewright.ops.mapping import mapping
from tilewright.ops.op import Array
from tilewright.partition.layers import Step
from tilewright.partition.moves import Held, held, moves
from tilewright.partition.parts import Owner
from tilewright.partition.plan import PartitionPlan
from tilewright.simulate.runs import MeshRun
from tilewright.targets.cns1.emit.calls import (
    STRIPE_BYTES,
    SUM_BYTES,
    WEIGHT_BYTES,
    Product,
    Update,
)
from tilewright.targets.cns1.node import TABLE, assembled, node_table
from tilewright.targets.cns1.nodes.hosts import Given, HostColumn, Outside, Wanted
from tilewright.targets.cns1.nodes.roles import (
    BLOCK,
    MemoryRows,
    NodeRole,
    StateBlock,
    WeightPlace,
    node_routine,
    product_routine,
    update_routine,
)
from tilewright.targets.cns1.nodes.run import IDLE, Node, fabric_of, run_nodes
from tilewright.targets.cns1.nodes.shares import (
    KINDS,
    NodeShare,
    Passed,
    node_shares,
    passed,
    update_shift,
)
from tilewright.targets.cns1.nodes.symmetric import Alike, Int64, NodeTiming, trimmed
from tilewright.targets.cns1.sections import Hosts, Kernels
from tilewright.targets.cns1.timing.layers import STRIPE

_Pairs = Iterable[tuple[int | None, int | None]]


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
    def states(self) -> dict[str, str]:
        """The weights that are updated where they lie, by the name of their next value."""
        return {state.next: state.tensor for state in self.network.states}

    @cached_property
    def striped(self) -> frozenset[str]:
        """The states of two patterns that lie stripe by stripe, as products and updates go through
        them: those that no errors go back through.
        """
        together = self.rows == 2 and self.machine.section(Kernels).stripe_columns == STRIPE
        products = [layer.op.matrix_product for layer in (one.layer for one in self.plan.layers)]
        back = {
            one.layer.steps[0].operands[1]
            for one, product in zip(self.plan.layers, products, strict=True)
            if product is not None and product.transpose_b
        }
        return frozenset(self.states.values()) - back if together else frozenset()

    @cached_property
    def outside(self) -> frozenset[str]:
        """The inputs that come from outside in each pass."""
        return frozenset(t.name for t in self.network.inputs) - {*self.states.values()}

    def activations(self, share: NodeShare) -> dict[str, Box]:
        """Regions of inputs and layers that a node reads: by products, then by steps behind."""
        made = self.outside | {one.layer.output for one in self.plan.layers}
        layer, part = share.layer, share.part
        needed = layer.op.needed(layer.op.computable(part.summed, part.terms), part.terms)
        found = dict(zip(layer.steps[0].operands, needed, strict=True))
        behind = (name for step in layer.steps[1:] for name in step.operands[1:])
        found |= dict.fromkeys(behind, share.finished)
        return {name: box for name, box in found.items() if name in made}

    @cached_property
    def passed(self) -> list[list[Passed]]:
        """The messages before each layer: what a node has had once is not sent again."""
        have: dict[str, Held] = {}
        found = []
        for planned, shares in zip(self.plan.layers, self.shares, strict=True):
            wanted: dict[str, dict[int, Box]] = {}
            for core, share in shares.items():
                for name, box in self.activations(share).items():
                    wanted.setdefault(name, {})[core] = box
            made = {name: own for name, own in wanted.items() if name in have}
            moved = [(name, moves(have[name], [Owner(*one) for one in own.items()]))
                     for name, own in made.items()]  # fmt: skip
            found.append(passed(moved))
            for name, own in made.items():
                have[name] = replace(have[name], kept={**own, **have[name].kept})
            have[planned.layer.output] = held(planned.division, planned.cores)
        return found

    @cached_property
    def kinds(self) -> dict[int, int]:
        """The kind of a message by the bits in which the numbers of its nodes differ: so a node
        takes none for another, as those of one sender come in order. Inputs have kind 0.

        Raises PartitionError for more kinds than nodes tell apart.
        """
        found = {one.away for own in self.passed for one in own}
        for shares in self.shares:
            found |= {core ^ other for core, share in shares.items() for other in share.group}
        if len(found - {0}) >= KINDS:
            raise PartitionError(
                f"nodes get messages of {len(found - {0})} others, they tell {KINDS - 1} apart "
                "beside inputs",
                fix="divide the network over fewer nodes, or take --partition for fewer parts",
            )
        return {away: kind for kind, away in enumerate(sorted(found - {0}), 1)}

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
        names, together = sorted(self.outside), self._together
        patterns = len(given[names[0]])
        parts: list[dict[str, Array]] = []
        cycles = 0
        for first in range(0, patterns, together):
            some = {name: given[name][first : first + together] for name in names}
            outputs, run = self.simulated({**given, **some})
            parts.append(outputs)
            cycles += run.cycles
        found = {n: np.concatenate([part[n] for part in parts]) for n in self._returned}
        return found | {n: parts[0][n] for n in self.states}, cycles

    @property
    def _returned(self) -> list[str]:
        """The outputs that go back to the I/O nodes."""
        return [name for name in self.network.outputs if name not in self.states]

    @property
    def _together(self) -> int:
        """Patterns whose inputs and outputs the memory of a port holds, at the least."""
        room = load_table(TABLE).memory("host").capacity_bytes
        tensors = [self.network.tensors[name] for name in (*self.outside, *self._returned)]
        rows = sum(-(-t.shape[1] * dtype(t.dtype).size_bytes // BLOCK) for t in tensors)
        fabric, ports = fabric_of(self.machine), self.machine.section(Hosts).ports
        served = fabric.rows * -(-fabric.columns // ports)
        return max(1, room // (self.rows * rows * served * BLOCK)) * self.rows * self.copies

    def simulated(self, given: Mapping[str, Array]) -> tuple[dict[str, Array], MeshRun]:
        """The outputs of one run of all nodes, and the run."""
        patterns = len(given[self.network.inputs[0].name])
        passes = -(-patterns // (self.rows * self.copies))
        inputs = {name: self._padded(given[name], passes) for name in self.outside}
        numbers = {**self.network.values, **given, **inputs}
        made, outside = self._made(passes)
        fabric = outside.fabric
        nodes = [*outside.nodes(inputs), *[IDLE] * (fabric.rows - 1) * fabric.columns]
        for number, places in made.items():
            nodes[number] = places.node(numbers)
        run = run_nodes(self.machine, nodes, fabric)
        blocks = {number: places.blocks for number, places in made.items()}
        return self._outputs(run, outside, patterns) | self._updated(run, blocks), run

    def _made(self, passes: int) -> tuple[dict[int, _Places], Outside]:
        """The programs of the nodes by number, and the I/O nodes below."""
        fabric, made = fabric_of(self.machine, hosts=True), {}
        columns = [HostColumn() for _ in range(fabric.columns)]
        for number in range(self.copies * self.cells):
            copy, core = divmod(number, self.cells)
            made[number + fabric.columns] = own = _Places(self, core, copy, passes)
            row, column = divmod(number, fabric.columns)
            columns[column].add(row + 1, own.given, own.wanted)
        return made, Outside(self.machine, fabric, columns, passes, self.copies)

    def timed(self, passes: int = 1) -> NodeTiming:
        """The time of so many passes, from the last node and the messages of all."""
        fabric, last = fabric_of(self.machine, hosts=True), self.copies * self.cells - 1
        columns = [HostColumn() for _ in range(fabric.columns)]
        for number in range(last + 1):
            row, column = divmod(number, fabric.columns)
            columns[column].add(row + 1, *self.exchanged(*divmod(number, self.cells)[::-1]))
        outside = Outside(self.machine, fabric, columns, passes, self.copies)
        tensors = (self.network.tensors[name] for name in self.outside)
        count = passes * self.copies
        inputs = {t.name: np.zeros((count, *t.shape), dtype(t.dtype).numpy) for t in tensors}
        full = _Places(self, last % self.cells, self.copies - 1, passes)
        role = full.role
        table = trimmed(node_table(self.machine), role.end)
        own = outside.nodes(inputs)
        own += [IDLE] * (fabric.rows * fabric.columns - len(own) - last - 1)
        texts = {text: assembled(text, table) for text in {node.text for node in own}}
        hosts, idle = range(fabric.columns), range(fabric.columns + last + 1, len(own) + last + 1)
        others = dict(zip([*hosts, *idle], (texts[node.text] for node in own), strict=True))
        alike = {
            number + fabric.columns: self._hops(full, number, passes) for number in range(last)
        }
        return Alike(
            table, fabric, role.node, role.text(), role.words, role.exchanges * passes, alike,
            others,
        ).timing()  # fmt: skip

    def _hops(self, full: _Places, number: int, passes: int) -> tuple[Int64, Int64]:
        """How far the messages of a node go, and their kinds. Nodes of one text send to the nodes
        whose numbers differ in the same bits, and to the I/O node of their column.
        """
        fabric, core = full.fabric, number % self.cells
        aways = {kind: away for away, kind in self.kinds.items()}
        node = number + fabric.columns
        row, column = divmod(node, fabric.columns)
        hops, kinds = [], []
        for one in full.role.exchanges:
            if one.hops is None:
                continue
            target = column if one.to_host else node - core + (core ^ aways[one.kind])
            hops.append(hops_to(fabric, node, target))
            kinds.append(row if one.to_host else one.kind)
        return np.array(hops * passes).reshape(-1, 2), np.array(kinds * passes, np.int64)

    def exchanged(self, core: int, copy: int) -> tuple[list[Given], list[Wanted]]:
        """Tensors that a node takes from outside in a pass, and those that it gives."""
        given: list[Given] = []
        wanted = []
        for shares in self.shares:
            if core not in shares:
                continue
            share = shares[core]
            for name, box in self.activations(share).items():
                had = any(one.tensor == name and one.box.covers(box) for one in given)
                if name in self.outside and not had:
                    given.append(Given(name, box, copy))
            name, box = share.layer.output, share.finished
            if name in self._returned:
                size = dtype(self.network.tensors[name].dtype).size_bytes
                wanted.append(Wanted(name, box, size * box.shape[1], copy))
        return given, wanted

    def _updated(
        self, run: MeshRun, blocks: Mapping[int, Mapping[str, StateBlock]]
    ) -> dict[str, Array]:
        """The weights that the nodes hold after the run."""
        found = {}
        for following, state in self.states.items():
            found[following] = np.zeros(self.network.tensors[state].shape, np.int16)
            for node, own in blocks.items():
                memory = run.cores[node].memory("main")
                for one in own[state].places(state):
                    raw = memory[one.address :][: WEIGHT_BYTES * one.box.size]
                    found[following][one.box.slices] = raw.view(np.int16).reshape(one.box.shape)
        return found

    def _padded(self, values: Array, passes: int) -> Array:
        """Inputs of whole passes: [pass, pattern, ...], zeros behind the last."""
        total = passes * self.copies * self.rows
        found = np.zeros((total, *values.shape[1:]), values.dtype)
        found[: len(values)] = values
        return found.reshape(passes * self.copies, self.rows, *values.shape[1:])

    def _outputs(self, run: MeshRun, outside: Outside, patterns: int) -> dict[str, Array]:
        found = {}
        for name in self._returned:
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
        self.given, self.wanted = programs.exchanged(core, copy)
        self.blocks: dict[str, StateBlock] = {}
        self._held: dict[str, list[tuple[MemoryRows, Box]]] = {}
        own = [(i, shares[core]) for i, shares in enumerate(programs.shares) if core in shares]
        for number, share in own:
            self._received(share)
            self.role.writer.place(f"layer_{number}")
            self._layer(number, share)
        self.role.writer.place("outputs")
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
            main[constant.address] = own[constant.box.slices]
        main[self.role.end] = np.zeros(0, np.uint8)
        return Node(text, {"main": main})

    def _kept(self, name: str, box: Box) -> MemoryRows:
        """Room for a region of a tensor, which the node has from now on."""
        width = dtype(self.programs.network.tensors[name].dtype).size_bytes * box.shape[1]
        rows = MemoryRows(self.role.room(box.shape[0] * width), box.shape[0], width, width)
        self._held.setdefault(name, []).append((rows, box))
        return rows

    def _find(self, name: str, box: Box) -> MemoryRows | None:
        """Where a region of a tensor lies, if the node has all of it."""
        for rows, have in self._held.get(name, ()):
            if have.covers(box):
                return _inside(rows, have, box)
        return None

    def _have(self, name: str, box: Box) -> MemoryRows:
        """Where a region that the node has lies by whole rows."""
        found = self._find(name, box)
        assert found is not None, f"{name} comes before it is read"
        if found.count == 1 or found.step_bytes == found.size_bytes:
            return found
        rows = self._kept(name, box)
        self.role.move(self._placed(found), rows, adds=False)
        self._held[name].insert(0, self._held[name].pop())
        return rows

    def _received(self, share: NodeShare) -> None:
        """Takes from outside what a layer is the first to read."""
        for name, box in self.programs.activations(share).items():
            if name in self.programs.outside and self._find(name, box) is None:
                self.role.receive(self._kept(name, box), 0, adds=False)

    def _layer(self, number: int, share: NodeShare) -> None:
        self._gathered(number, share)
        if share.layer.output in self.programs.states:
            self._update(share)
            return
        result = self._product(share)
        for step in share.layer.steps[1:]:
            result = self._step(share, step, result)
        self._held[share.layer.output] = [(result, share.finished)]

    def _gathered(self, number: int, share: NodeShare) -> None:
        """Collects what a layer reads: other nodes' results, and the node's own."""
        places: dict[str, tuple[MemoryRows, Box]] = {}
        for name, box in self.programs.activations(share).items():
            if self._find(name, box) is not None:
                continue
            before = list(self._held.get(name, ()))
            places[name] = self._kept(name, box), box
            for rows, have in before:
                if (common := have & box).size:
                    own = self._placed(_inside(*places[name], common))
                    self.role.move(self._placed(_inside(rows, have, common)), own, adds=False)
        for one in self.programs.passed[number]:
            if one.source == self.core:
                found = self._find(one.tensor, one.box)
                assert found is not None, f"node {self.core} sends what it has not"
                kind = self.programs.kinds[one.away]
                self.role.send(self._placed(found), self._node(one.target), kind)
        for one in self.programs.passed[number]:
            if one.target == self.core:
                moved = self._placed(_inside(*places[one.tensor], one.box))
                self.role.receive(moved, self.programs.kinds[one.away], adds=False)

    def _placed(self, rows: MemoryRows) -> MemoryRows:
        """Rows whose address is in the table: that of other nodes is another."""
        assert isinstance(rows.start, int)
        return replace(rows, start=self.role.word(rows.start))

    def _product(self, share: NodeShare) -> MemoryRows:
        """The sums that the node finishes: chunks for others first, then the own."""
        columns, width = share.chunk, share.piece * SUM_BYTES
        product, weights = self._weights(share)
        routine = product_routine(product, self.programs.machine)
        factors = self._have(share.layer.steps[0].operands[0], Box.of((0, share.rows), share.terms))
        chunk = self.role.room(share.rows * columns * SUM_BYTES)
        sums = MemoryRows(self.role.room(share.rows * width), share.rows, width, width)
        if len(share.group) == 1:
            self.role.call(routine, (factors.start, weights[0], sums.start, 0))
            return sums
        arrived, order = False, [*range(1, share.chunks), 0]
        for before, distance in pairwise((-1, *order)):
            self.role.call(routine, (factors.start, weights[distance], chunk, int(before >= 0)))
            senders = share.others(before) if before >= 0 else ()
            pairs = zip_longest(share.others(distance), senders)
            arrived |= self._exchanged(share, chunk, pairs, sums, arrived)
        pairs = zip_longest((), share.others(0))
        arrived |= self._exchanged(share, chunk, pairs, sums, arrived)
        own = chunk + share.own % share.pieces * width
        mine = MemoryRows(self.role.word(own), share.rows, width, columns * SUM_BYTES)
        self.role.move(mine, sums, adds=arrived)
        return sums

    def _exchanged(
        self, share: NodeShare, chunk: int, pairs: _Pairs, sums: MemoryRows, adds: bool
    ) -> bool:
        """Send pieces of a chunk to their targets, and to the own piece add those of senders, which
        have sent before; True if there were any.
        """
        for target, sender in pairs:
            if target is None:
                assert sender is not None, "one of both is there"
                self.role.receive(sums, self._kind(share, sender), adds=adds)
            else:
                place = chunk + target % share.pieces * sums.size_bytes
                rows = replace(
                    sums, start=self.role.word(place), step_bytes=share.chunk * SUM_BYTES
                )
                to = rows, self._node(share.group[target]), self._kind(share, target)
                if sender is None:
                    self.role.send(*to)
                else:
                    self.role.swap(*to, sums, self._kind(share, sender), adds=adds)
            adds |= sender is not None
        return adds

    def _kind(self, share: NodeShare, other: int) -> int:
        """The kind of messages from and to another of the group."""
        return self.programs.kinds[self.core ^ share.group[other]]

    def _weights(self, share: NodeShare) -> tuple[Product, list[int | str]]:
        """The product of a chunk, and where the weights of the chunk at each distance begin. Those
        that are updated lie by rows, others chunk by chunk as distances go: so all nodes read the
        same addresses in the same order.
        """
        op, (first, last), name = share.layer.op, share.terms, share.layer.steps[0].operands[1]
        product = op.matrix_product
        assert product is not None
        size, along = dtype(product.operand_dtypes[0]).size_bytes, False
        stripe_bytes = STRIPE_BYTES
        starts: list[int | str] = []
        if name in self.programs.states.values():
            along = product.transpose_b
            sides = (share.columns, share.terms) if along else (share.terms, share.columns)
            block = self._block(name, Box.of(*sides))
            row_bytes = block.row_bytes
            stripe_bytes = block.stripe_bytes
            step = share.chunk * row_bytes if along else share.chunk // STRIPE * stripe_bytes
            places = (block.address + share.chunk_of(d) * step for d in range(share.chunks))
            starts += map(self.role.word, places) if share.chunks > 1 else places
        else:
            row_bytes = share.chunk * WEIGHT_BYTES
            for distance in range(share.chunks):
                begin = share.columns[0] + share.chunk_of(distance) * share.chunk
                box = Box.of((first, last), (begin, begin + share.chunk))
                start = self.role.room((last - first) * row_bytes, lines=not distance)
                self.role.constants.append(WeightPlace(start, name, box, product.transpose_b))
                starts.append(start)
        factor_bytes, sum_bytes = size * (last - first), SUM_BYTES * share.chunk
        found = Product(share.rows, share.chunk, last - first, size, factor_bytes, row_bytes,
                        sum_bytes, along, stripe_bytes)  # fmt: skip
        return found, starts

    def _block(self, name: str, box: Box) -> StateBlock:
        """The node's region of a state, by rows."""
        if name not in self.blocks:
            start = self.role.room(WEIGHT_BYTES * box.size, lines=True)
            self.blocks[name] = StateBlock(start, box, name in self.programs.striped)
            self.role.constants += self.blocks[name].places(name)
        assert self.blocks[name].box == box, f"{name}: {self.blocks[name].box} {box}"
        return self.blocks[name]

    def _update(self, share: NodeShare) -> None:
        """The node's weights plus the products of activations and errors, where they lie."""
        block = self._block(self.programs.states[share.layer.output], share.part.kept)
        factors = (self._have(*one) for one in self.programs.activations(share).items())
        rows, columns = block.box.shape
        patterns = self.programs.rows
        shift = update_shift(share.layer)
        update = Update(rows, columns, block.row_bytes, shift, patterns, block.stripe_bytes)
        places = (*(one.start for one in factors), block.address)
        self.role.call(update_routine(update, self.programs.machine), places)

    def _step(self, share: NodeShare, step: Step, before: MemoryRows) -> MemoryRows:
        """A look-up or map of what the node finishes."""
        op = step_part(step.op, share.rows, share.piece)
        places: list[int | str] = [before.start]
        for number, name in enumerate(step.operands[1:], 1):
            if name in self._held:
                places.append(self._have(name, share.finished).start)
            else:
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
        box = share.finished
        self.role.constants.append(WeightPlace(place, name, box, shape=share.layer.shape))
        return place

    def _to_outside(self) -> None:
        """Outputs go down to the I/O node of the column."""
        row, column = divmod(self.role.node, self.fabric.columns)
        for name in self.programs.network.outputs:
            if name in self._held:
                rows, _ = self._held[name][0]
                self.role.send(rows, column, row, to_host=True)


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
