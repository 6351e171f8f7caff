"""Shares of nodes in a divided network: chunks of products, their targets, messages.

In: a plan of matrix products, look-ups and maps. Out: for each node and layer a `NodeShare`, in
numbers of its own memory. Sums that are divided are computed in chunks of whole stripes of columns,
each for the nodes that finish them: what goes to others is computed first, and is on its way while
the next chunk is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright.common.errors import PartitionError
from tilewright.graph.tables import rounded_expression
from tilewright.ir.scalar import numbers_of, parse_scalar
from tilewright.ops import Gemm
from tilewright.ops.box import Box
from tilewright.ops.definitions import definitions_in
from tilewright.partition.grids import CHANNELS, Grid
from tilewright.partition.layers import Layer
from tilewright.partition.moves import Move
from tilewright.partition.parts import Part
from tilewright.partition.plan import PartitionPlan, Planned
from tilewright.targets.cns1.timing.layers import ROWS_AT_ONCE, STRIPE

VECTOR, SUM_BITS = 32, 32
KINDS = 256
"""Kinds of messages that a node can distinguish; kind 0 is that of inputs."""


def product_of(layer: Layer) -> Gemm:
    """The product that a layer begins with. Raises PartitionError for layers without one, and for
    products that nodes do not compute.
    """
    product = layer.op.matrix_product
    if product is None or len(layer.shape) != 2 or len(layer.reads) != 1:
        raise PartitionError(
            f"layer {layer.name}: {layer.op.describe()} is no product of activations and weights",
            fix="take a network of matrix products, and of look-ups and maps of their results",
        )
    kinds = product.operand_dtypes
    plain = product.beta == 0 and not product.transpose_a
    if not plain or kinds[0] not in ("i8", "i16") or kinds[1:] != ("i16",):
        raise PartitionError(
            f"layer {layer.name}: {product.describe()} of {', '.join(kinds)}, a Torrent multiplies "
            "rows of i8 or i16 by weights of i16",
            fix="--dtype i8,i16:i32",
        )
    return product


def update_shift(layer: Layer) -> int | None:
    """The shift of products before they are added to weights; None if they are not added. Raises
    PartitionError for updates other than those of `graph.tables`.
    """
    step = layer.steps[-1].op
    body = parse_scalar(definitions_in(step)[0].body)
    shifts = (int(number) for number in numbers_of(body) if 0 < number < SUM_BITS)
    for shift in (None, *shifts):
        added = "x0" if shift is None else rounded_expression("x0", shift)
        if body == parse_scalar(f"{added} + x1"):
            return shift
    raise PartitionError(
        f"layer {layer.name}: nodes do not update weights by {step.describe()}",
        fix="take the step of a network of tables",
    )


def chunk_columns(columns: int, parts: int) -> int:
    """A chunk's columns: whole stripes and whole pieces; 0 if chunks cannot divide `columns` so."""
    piece, left = divmod(columns, parts)
    if left or not piece or piece % ROWS_AT_ONCE or (piece % VECTOR and VECTOR % piece):
        return 0
    chunk = math.lcm(piece, STRIPE)
    return 0 if columns % chunk else chunk


def suits(layer: Layer, grid: Grid) -> bool:
    """True if each node gets the same whole stripes, words of factors and pieces of sums."""
    (rows, columns), terms = layer.shape, layer.op.terms[0]
    outputs, parts = grid.counts[CHANNELS], grid.parts
    own, left = divmod(columns, outputs)
    return (
        grid.counts[0] == 1
        and rows > 0
        and not left
        and terms % (parts * ROWS_AT_ONCE) == 0
        and parts < KINDS
        and parts & (parts - 1) == 0
        and chunk_columns(own, parts) > 0
    )


@dataclass(frozen=True)
class NodeShare:
    """One node's share of a layer. `group` are the nodes that have terms of the same sums, in the
    order of the pieces they finish; this one is number `own`.
    """

    layer: Layer
    part: Part
    group: tuple[int, ...]
    own: int

    @property
    def rows(self) -> int:
        """Patterns."""
        return self.part.summed.shape[0]

    @property
    def terms(self) -> tuple[int, int]:
        """First and last of the terms."""
        (whole,) = self.layer.op.terms
        return (0, whole) if self.part.terms is None else self.part.terms.sides[0]

    @property
    def columns(self) -> tuple[int, int]:
        """First and last of the columns that are summed up."""
        return self.part.summed.sides[CHANNELS]

    @property
    def finished(self) -> Box:
        """The region of the result that the node finishes."""
        start = self.columns[0] + self.own * self.piece
        return Box.of((0, self.rows), (start, start + self.piece))

    @property
    def piece(self) -> int:
        """Columns that the node finishes."""
        return (self.columns[1] - self.columns[0]) // len(self.group)

    @cached_property
    def chunk(self) -> int:
        """Columns of a chunk."""
        return chunk_columns(self.columns[1] - self.columns[0], len(self.group))

    @property
    def pieces(self) -> int:
        """Pieces of a chunk."""
        return self.chunk // self.piece

    @property
    def chunks(self) -> int:
        """Chunks of the columns."""
        return len(self.group) // self.pieces

    def chunk_of(self, distance: int) -> int:
        """The chunk at a distance, by differing bits, from the one with the node's own piece."""
        return (self.own // self.pieces) ^ distance

    def others(self, distance: int) -> Iterator[int]:
        """Members of the group that finish the chunk at a distance, except this node. They compute
        the chunk of this node at the same distance.
        """
        steps = range(distance * self.pieces, (distance + 1) * self.pieces)
        return (self.own ^ step for step in steps if step)


def node_shares(plan: PartitionPlan) -> list[dict[int, NodeShare]]:
    """For each layer the share of each node that has one."""
    return [_shares(planned) for planned in plan.layers]


def _shares(planned: Planned) -> dict[int, NodeShare]:
    groups: dict[Box, list[tuple[Box, int]]] = {}
    placed = list(zip(planned.cores, planned.division.parts, strict=True))
    for core, part in placed:
        groups.setdefault(part.summed, []).append((part.kept, core))
    members = {
        box: tuple(core for _, core in sorted(own, key=lambda one: one[0].start))
        for box, own in groups.items()
    }
    return {
        core: NodeShare(planned.layer, part, members[part.summed], members[part.summed].index(core))
        for core, part in placed
    }


@dataclass(frozen=True)
class Passed:
    """A region of a `tensor` that one node passes to another."""

    source: int
    target: int
    tensor: str
    box: Box

    @property
    def away(self) -> int:
        """The bits in which the nodes' numbers differ."""
        return self.source ^ self.target


def passed(found: Iterable[tuple[str, Sequence[Move]]]) -> list[Passed]:
    """The moves of tensors as messages, in the order in which nodes send and receive them."""
    every = (
        Passed(move.source, target, name, move.box)
        for name, own in found
        for move in own
        for target in move.targets
    )
    return sorted(every, key=lambda one: (one.away, one.source))
