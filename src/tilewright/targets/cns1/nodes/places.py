"""One node's program under construction: its tensors' places, its messages and computations.

In: the shares of all nodes of a divided network and the messages between them. Out: a `NodeRole`
with the node's text, and the constants and states that its memory holds at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import PartitionError
from tilewright.ops import Op
from tilewright.ops.box import Box
from tilewright.ops.definitions import definitions_in
from tilewright.ops.mapping import mapping
from tilewright.ops.op import Array, Arrays
from tilewright.partition.layers import LayerStep
from tilewright.targets.cns1.emit.calls import (
    STRIPE_BYTES,
    SUM_BYTES,
    WEIGHT_BYTES,
    NodeProduct,
    Update,
)
from tilewright.targets.cns1.nodes.roles import (
    MemoryRows,
    NodeRole,
    StateBlock,
    WeightPlace,
    block_of_terms,
    node_routine,
    part_routine,
    product_routine,
    update_routine,
)
from tilewright.targets.cns1.nodes.run import NodeStart, fabric_of
from tilewright.targets.cns1.nodes.shares import NodeShare, Passed, update_shift
from tilewright.targets.cns1.timing.layers import ROWS_AT_ONCE, STRIPE

if TYPE_CHECKING:
    from tilewright.targets.cns1.nodes.divided import NodePrograms

_Pairs = Iterable[tuple[int | None, int | None]]
_Arriving = tuple[Passed, tuple[Passed, MemoryRows]]
"""A message to send, and one to receive with its destination."""


def _is_table(op: Op, number: int) -> bool:
    """True if each element of the result needs all of an operand."""
    follows = op.follows
    return follows is not None and set(follows[1 + number]) == {(None, None)}


def step_part(op: Op, rows: int, columns: int) -> Op:
    """A look-up or map of a node's part of a layer. Raises PartitionError for other operators."""
    if any(_is_table(op, number) for number in range(1, len(op.input_shapes))):
        return op.part(Box.whole((rows, columns)))
    found = definitions_in(op)
    if len(found) != 1 or found[0].gather is not None:
        raise PartitionError(
            f"{op.describe()} is no look-up and no map", fix="take one behind each product"
        )
    return mapping(rows * columns, found[0].body, dtype=str(op.numerics))


class NodePlaces:
    """One node's program under construction: the places of its tensors, layer by layer."""

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
        """A core's number among all nodes, which start with the I/O nodes."""
        return self.copy * self.programs.cells + core + self.fabric.columns

    def node(self, numbers: Arrays) -> NodeStart:
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
        return NodeStart(text, {"main": main})

    def _room_for(self, name: str, box: Box) -> MemoryRows:
        """Reserve room for a region of a tensor, which the node has from now on."""
        width = dtype(self.programs.network.tensors[name].dtype).size_bytes * box.shape[1]
        rows = MemoryRows(self.role.room(box.shape[0] * width), box.shape[0], width, width)
        self._held.setdefault(name, []).append((rows, box))
        return rows

    def _find(self, name: str, box: Box) -> MemoryRows | None:
        """The place of a region of a tensor, if the node has all of it."""
        for rows, have in self._held.get(name, ()):
            if have.covers(box):
                return _inside(rows, have, box)
        return None

    def _have(self, name: str, box: Box) -> MemoryRows:
        """The place of a region that the node has by whole rows."""
        found = self._find(name, box)
        assert found is not None, f"{name} comes before it is read"
        if found.count == 1 or found.step_bytes == found.size_bytes:
            return found
        rows = self._room_for(name, box)
        self.role.move(self._placed(found), rows, adds=False)
        self._held[name].insert(0, self._held[name].pop())
        return rows

    def _received(self, share: NodeShare) -> None:
        """Take from outside the inputs that a layer is the first to read."""
        for name, box in self.programs.activations(share).items():
            if name in self.programs.outside and self._find(name, box) is None:
                self.role.receive(self._room_for(name, box), 0, adds=False)

    def _layer(self, number: int, share: NodeShare) -> None:
        parts = self._gathered(number, share)
        if share.layer.output in self.programs.states:
            self._update(share)
            return
        result = self._product(share, parts)
        for step in share.layer.steps[1:]:
            result = self._step(share, step, result)
        self._held[share.layer.output] = [(result, share.finished)]

    def _gathered(self, number: int, share: NodeShare) -> list[_Arriving]:
        """Collect the operands of a layer: other nodes' results, and the node's own. Returns
        messages still to be sent and received between the parts of the product whose terms they
        carry.
        """
        places: dict[str, tuple[MemoryRows, Box]] = {}
        for name, box in self.programs.activations(share).items():
            if self._find(name, box) is not None:
                continue
            before = list(self._held.get(name, ()))
            places[name] = self._room_for(name, box), box
            for rows, have in before:
                if (common := have & box).size:
                    own = self._placed(_inside(*places[name], common))
                    self.role.move(self._placed(_inside(rows, have, common)), own, adds=False)
        sent = [one for one in self.programs.passed[number] if one.source == self.core]
        taken = [one for one in self.programs.passed[number] if one.target == self.core]
        arriving = [(one, _inside(*places[one.tensor], one.box)) for one in taken]
        if self._in_parts(share, taken):
            return list(zip(sent, arriving, strict=True))
        for one in sent:
            self._send(one)
        for one, rows in arriving:
            self._receive(one, rows)
        return []

    def _in_parts(self, share: NodeShare, taken: Sequence[Passed]) -> bool:
        """True if others send equal blocks of terms for rows of weights that fit the cache."""
        product, (first, last) = share.layer.op.matrix_product, share.terms
        assert product is not None
        if product.transpose_a or product.transpose_b or not taken or len(share.group) == 1:
            return False
        terms = last - first
        size = dtype(product.operand_dtypes[0]).size_bytes
        block = block_of_terms(self.programs.machine, share.rows, terms, size, along=False)
        width = terms // (len(taken) + 1)
        name, alone = share.layer.steps[0].operands[0], width % ROWS_AT_ONCE == 0
        return block == terms and all(
            alone and one.tensor == name and one.box.shape == (share.rows, width) for one in taken
        )

    def _send(self, one: Passed) -> None:
        found = self._find(one.tensor, one.box)
        assert found is not None, f"node {self.core} sends what it has not"
        self.role.send(self._placed(found), self._node(one.target), self.programs.kinds[one.away])

    def _receive(self, one: Passed, rows: MemoryRows) -> None:
        self.role.receive(self._placed(rows), self.programs.kinds[one.away], adds=False)

    def _placed(self, rows: MemoryRows) -> MemoryRows:
        """Rows whose address is in the table, since it differs from node to node."""
        assert isinstance(rows.start, int)
        return replace(rows, start=self.role.word(rows.start))

    def _product(self, share: NodeShare, parts: Sequence[_Arriving]) -> MemoryRows:
        """The sums that the node finishes: chunks for others first, then its own. The first chunk
        uses the terms of each of `parts` once they have arrived.
        """
        columns, width = share.chunk, share.piece * SUM_BYTES
        product, weights = self._weights(share)
        routine = product_routine(product, self.programs.machine)
        factors = self._have(share.layer.steps[0].operands[0], Box.of((0, share.rows), share.terms))
        chunk = self.role.room(share.rows * columns * SUM_BYTES)
        sums = MemoryRows(self.role.room(share.rows * width), share.rows, width, width)
        if len(share.group) == 1:
            self.role.call(routine, (factors.start, self.role.word(weights[0]), sums.start, 0))
            return sums
        order = [*range(1, share.chunks), 0]
        self.role.zero(sums)
        for before, distance in pairwise((-1, *order)):
            if before < 0 and parts:
                self._parts(share, product, parts, factors, weights[distance], chunk)
            else:
                start = self.role.word(weights[distance])
                self.role.call(routine, (factors.start, start, chunk, int(before >= 0)))
            senders = share.others(before) if before >= 0 else ()
            pairs = zip_longest(share.others(distance), senders)
            self._exchanged(share, chunk, pairs, sums)
        self._exchanged(share, chunk, zip_longest((), share.others(0)), sums)
        own = chunk + share.own % share.pieces * width
        mine = MemoryRows(self.role.word(own), share.rows, width, columns * SUM_BYTES)
        self.role.move(mine, sums, adds=True)
        return sums

    def _parts(
        self,
        share: NodeShare,
        product: NodeProduct,
        parts: Sequence[_Arriving],
        factors: MemoryRows,
        weights: int,
        chunk: int,
    ) -> None:
        """Compute a chunk by the terms of each node in turn, its own first: messages travel while
        the product works on the terms that have arrived.
        """
        first, terms, size = share.terms[0], product.k // (len(parts) + 1), product.factor_bytes
        routine = part_routine(replace(product, k=terms), self.programs.machine, product.k)
        (own,) = {*range(first, share.terms[1], terms)} - {
            one.box.sides[1][0] for _, (one, _) in parts
        }
        self.role.zero(MemoryRows(chunk, product.m, product.sum_row_bytes, product.sum_row_bytes))
        arrives, starts = [None, *(one for _, one in parts)], [own]
        for sent, come in zip_longest((one for one, _ in parts), arrives):
            self._swap(sent, come)
            starts += [] if come is None else [come[0].box.sides[1][0]]
            offset = starts[-1] - first
            of_terms = factors.start + offset * size, weights + offset * product.weight_row_bytes
            places = *of_terms, chunk, offset * size
            self.role.call(routine, [self.role.word(place) for place in places])

    def _swap(self, sent: Passed | None, come: tuple[Passed, MemoryRows] | None) -> None:
        """Send a region and receive another, alternating row by row, or only one of them."""
        if sent is None:
            assert come is not None, "one of both is there"
            self._receive(*come)
        elif come is None:
            self._send(sent)
        else:
            kinds, found = self.programs.kinds, self._find(sent.tensor, sent.box)
            assert found is not None, f"node {self.core} sends what it has not"
            to = self._placed(found), self._node(sent.target), kinds[sent.away]
            self.role.swap(*to, self._placed(come[1]), kinds[come[0].away], adds=False)

    def _exchanged(self, share: NodeShare, chunk: int, pairs: _Pairs, sums: MemoryRows) -> None:
        """Send pieces of a chunk to their targets, and add the pieces of senders, which have sent
        before, to the node's own. Messages for several targets go in turn, since each link has an
        interface.
        """
        every, step = list(pairs), share.chunk * SUM_BYTES
        for row in range(share.rows if len(every) > 1 else 1):
            own = sums if len(every) == 1 else _row(sums, row)
            for target, sender in every:
                if target is None:
                    assert sender is not None, "one of both is there"
                    self.role.receive(own, self._kind(share, sender), adds=True)
                    continue
                place = chunk + target % share.pieces * sums.size_bytes + row * step
                rows = replace(own, start=self.role.word(place), step_bytes=step)
                to = rows, self._node(share.group[target]), self._kind(share, target)
                if sender is None:
                    self.role.send(*to)
                else:
                    self.role.swap(*to, own, self._kind(share, sender), adds=True)

    def _kind(self, share: NodeShare, other: int) -> int:
        """The kind of messages between this node and another one of the group."""
        return self.programs.kinds[self.core ^ share.group[other]]

    def _weights(self, share: NodeShare) -> tuple[NodeProduct, list[int]]:
        """The product of a chunk, and the addresses of the weights of the chunk at each distance.
        Updated weights are stored by rows, others chunk by chunk in the order of distances, so that
        all nodes read the same addresses in the same order.
        """
        op, (first, last), name = share.layer.op, share.terms, share.layer.steps[0].operands[1]
        product = op.matrix_product
        assert product is not None
        size, along = dtype(product.operand_dtypes[0]).size_bytes, False
        stripe_bytes = STRIPE_BYTES
        starts: list[int] = []
        if name in self.programs.states.values():
            along = product.transpose_b
            sides = (share.columns, share.terms) if along else (share.terms, share.columns)
            block = self._block(name, Box.of(*sides))
            row_bytes = block.row_bytes
            stripe_bytes = block.stripe_bytes
            step = share.chunk * row_bytes if along else share.chunk // STRIPE * stripe_bytes
            starts += (block.address + share.chunk_of(d) * step for d in range(share.chunks))
        else:
            row_bytes = share.chunk * WEIGHT_BYTES
            for distance in range(share.chunks):
                begin = share.columns[0] + share.chunk_of(distance) * share.chunk
                box = Box.of((first, last), (begin, begin + share.chunk))
                start = self.role.room((last - first) * row_bytes, lines=not distance)
                self.role.constants.append(WeightPlace(start, name, box, product.transpose_b))
                starts.append(start)
        factor_bytes, sum_bytes = size * (last - first), SUM_BYTES * share.chunk
        found = NodeProduct(share.rows, share.chunk, last - first, size, factor_bytes, row_bytes,
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
        """Add the products of activations and errors to the node's weights in place."""
        block = self._block(self.programs.states[share.layer.output], share.part.kept)
        factors = (self._have(*one) for one in self.programs.activations(share).items())
        rows, columns = block.box.shape
        patterns = self.programs.rows
        shift = update_shift(share.layer)
        update = Update(rows, columns, block.row_bytes, shift, patterns, block.stripe_bytes)
        places = (*(one.start for one in factors), block.address)
        self.role.call(update_routine(update, self.programs.machine), places)

    def _step(self, share: NodeShare, step: LayerStep, before: MemoryRows) -> MemoryRows:
        """A look-up or map of the elements that the node finishes."""
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
        """Send outputs down to the I/O node of the column."""
        row, column = divmod(self.role.node, self.fabric.columns)
        for name in self.programs.network.outputs:
            if name in self._held:
                rows, _ = self._held[name][0]
                self.role.send(rows, column, row, to_host=True)


def _row(rows: MemoryRows, number: int) -> MemoryRows:
    assert isinstance(rows.start, int)
    return replace(rows, start=rows.start + number * rows.step_bytes, count=1)


def _inside(rows: MemoryRows, have: Box, box: Box) -> MemoryRows:
    """The rows of a region as part of another region's rows."""
    assert isinstance(rows.start, int)
    size = rows.size_bytes // have.shape[1]
    inner = box.within(have)
    start = rows.start + inner.start[0] * rows.step_bytes + inner.start[1] * size
    return MemoryRows(start, box.shape[0], box.shape[1] * size, rows.step_bytes)
