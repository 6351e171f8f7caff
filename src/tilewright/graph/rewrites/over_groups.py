"""The part of a training step that one of several core groups computes on its own images.

In: a network in which some inputs have images as their first dimension, while its states have none.
Out: the network on one group's images, in which sums over images are partial sums of the groups,
added up; the given network if that is impossible. The dimension of images is traced from tensor to
tensor by the regions that operators need, without knowledge of any operator. Images may be the
outer part of a dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace

from tilewright.common.errors import ShapeError, TilewrightError
from tilewright.graph.graph import Network, Node
from tilewright.graph.rewrites.images import batch_of
from tilewright.ops import Binary, Op
from tilewright.ops.access import Access
from tilewright.ops.box import Box
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly
from tilewright.ops.moves import FromGroup
from tilewright.ops.op import Shape


def over_groups(network: Network, groups: int) -> Network:
    """The network on one group's images; the given one if images cannot be divided."""
    images = batch_of(network)
    if images is None or images % groups or groups == 1:
        return network
    try:
        return _Part(network, images, groups).network()
    except TilewrightError:
        return network


def alike_in_groups(network: Network) -> set[str]:
    """Tensors equal in all groups: states, copies of one group's, and results of such alone."""
    found = {state.tensor for state in network.states}
    for node in network.nodes:
        if node.op.of_group is not None or found.issuperset(node.inputs):
            found.add(node.output)
    return found


class _NeededPerGroup(Exception):  # no error: the walk backtracks to the tensor's node
    """A tensor that does not depend on images is needed for one group's images only."""

    def __init__(self, tensor: str, axis: int) -> None:
        self.tensor, self.axis = tensor, axis


@dataclass
class _Part:
    """The walk over the nodes. `places` maps each tensor with images to their dimension; `wanted`
    does so for tensors that do not depend on images but must be cut. `partial` tensors are sums
    over a group's images; they are added up (`totals`) where more than a view of them is read.
    """

    whole: Network
    images: int
    groups: int
    wanted: dict[str, int] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    partial: dict[str, None] = field(default_factory=dict)
    totals: dict[str, None] = field(default_factory=dict)

    def network(self) -> Network:
        """The network of one group."""
        whole, held = self.whole, {state.tensor for state in self.whole.states}
        self.places = {t.name: 0 for t in whole.inputs if t.name not in held}
        numbers = {node.output: number for number, node in enumerate(whole.nodes)}
        before: list[tuple[list[int], int]] = []
        while len(before) < len(whole.nodes):
            before.append(([len(table) for table in self._tables()], len(self.nodes)))
            try:
                self._add(whole.nodes[len(before) - 1])
            except _NeededPerGroup as more:
                if more.tensor in self.wanted or more.tensor not in numbers:
                    raise ShapeError(f"{more.tensor} is alike for all images") from None
                self.wanted[more.tensor] = more.axis
                self._forget(*before[numbers[more.tensor]])
                del before[numbers[more.tensor] :]
        inputs = tuple(replace(t, shape=self._shape(t.name, t.shape)) for t in whole.inputs)
        for state in whole.states:
            if state.next in self.places:
                raise ShapeError(f"{state.next} has images")
        return replace(whole, inputs=inputs, nodes=tuple(self.nodes))

    def _tables(self) -> tuple[dict[str, int] | dict[str, None], ...]:
        return self.places, self.partial, self.totals

    def _forget(self, lengths: Sequence[int], nodes: int) -> None:
        """Backtrack to the state with these numbers of table entries and nodes."""
        for table, length in zip(self._tables(), lengths, strict=True):
            for name in [*table][length:]:
                del table[name]
        del self.nodes[nodes:]

    def _shape(self, name: str, shape: Shape) -> Shape:
        """The shape of a tensor for one group's images."""
        place = self.places.get(name)
        return shape if place is None else self._with(shape, place)

    def _with(self, shape: Shape, place: int) -> Shape:
        return (*shape[:place], shape[place] // self.groups, *shape[place + 1 :])

    def _add(self, node: Node) -> None:
        if not self.partial.keys().isdisjoint(node.inputs):
            if node.op.reshapes or node.op.permutation is not None:
                self._add_own(node, node.op)
                return
            node = replace(node, inputs=tuple(map(self._total, node.inputs)))
        depends = any(name in self.places for name in node.inputs)
        if not depends and node.output not in self.wanted:
            self.nodes.append(node)
            return
        for axis in self._image_dimensions(node):
            self.places[node.output] = axis
            self.nodes.append(replace(node, op=self._smaller(node)))
            return
        if not self._is_sum(node):
            raise ShapeError(f"{node.name} is computed across images")
        self._add_own(node, self._smaller(node))

    def _add_own(self, node: Node, op: Op) -> None:
        """Append a group's partial sum; if it is an output of the network, add it up at once."""
        if node.output not in self.whole.outputs:
            self.partial[node.output] = None
            self.nodes.append(replace(node, op=op))
            return
        own = f"{node.output}_own"
        self.nodes.append(Node(own, op, node.inputs, own))
        self._add_up(own, node.output, op)

    def _total(self, name: str) -> str:
        """The tensor itself, or its total over all groups if it is a partial sum."""
        if name not in self.partial:
            return name
        total = f"{name}_in_all"
        if total not in self.totals:
            self.totals[total] = None
            made = next(node for node in self.nodes if node.output == name)
            self._add_up(name, total, made.op)
        return total

    def _image_dimensions(self, node: Node) -> Iterator[int]:
        """Result dimensions along which a group's images need only its images of operands."""
        own, shape = self.wanted.get(node.output), node.op.out_shape
        for axis in range(len(shape)) if own is None else (own,):
            region = Box.whole(shape).along(axis, (0, shape[axis] // self.groups))
            if shape[axis] % self.images or not _computes(node.op, region):
                continue
            needed = node.op.needed(region)
            wants = [
                (name, place)
                for name, box, whole in zip(node.inputs, needed, node.op.input_shapes, strict=True)
                for place in self._divided_dimensions(box, whole)
            ]
            if not {(n, p) for n, p in self.places.items() if n in node.inputs} <= {*wants}:
                continue
            for name, place in wants:
                if name not in self.places:
                    raise _NeededPerGroup(name, place)
            yield axis

    def _divided_dimensions(self, box: Box, whole: Shape) -> Iterator[int]:
        """The dimensions of a box that cover exactly the first group's images."""
        for axis, (side, extent) in enumerate(zip(box.sides, whole, strict=True)):
            if side == (0, extent // self.groups) and extent % self.images == 0:
                yield axis

    def _is_sum(self, node: Node) -> bool:
        """True if the result is a sum over the images of its operands."""
        for terms, definition in self._sums(node):
            needed = definition.needed(Box.whole(definition.out_shape), terms)
            read = zip(node.inputs, needed, node.op.input_shapes, strict=True)
            if all(
                self.places[name] in self._divided_dimensions(box, shape)
                for name, box, shape in read
                if name in self.places
            ):
                return True
        return False

    def _sums(self, node: Node) -> Iterator[tuple[Box, Definition]]:
        tensors = node.op.definitions
        if len(tensors) == 1 and len(tensors[0].addends) == 1:
            own = tensors[0].addends[0].definition
            for place, extent in enumerate(own.terms):
                if extent % self.images == 0:
                    yield Box.whole(own.terms).along(place, (0, extent // self.groups)), own

    def _smaller(self, node: Node) -> Op:
        """The operator on one group's images. Raises ShapeError if there is none."""
        pairs = zip(node.inputs, node.op.input_shapes, strict=True)
        shapes = tuple(self._shape(name, shape) for name, shape in pairs)
        result, op = self._shape(node.output, node.op.out_shape), node.op
        region = Box((0,) * len(result), result)
        for other in (*self._resized(op), op.part(region), *self._by_definition(node)):
            if other.input_shapes == shapes and other.out_shape == result:
                return other
        raise ShapeError(f"{node.name} has no part for fewer images")

    def _resized(self, op: Op) -> Iterator[Op]:
        """Variants of the operator with one extent reduced to a group's images."""
        for own in fields(op):  # type: ignore[arg-type]  # operators are dataclasses
            if own.type == "int" and (extent := getattr(op, own.name)) % self.images == 0:
                with suppress(ShapeError):
                    yield replace(op, **{own.name: extent // self.groups})  # type: ignore[type-var]

    def _by_definition(self, node: Node) -> Iterator[Op]:
        """The operator's definitions with the loop over images shortened, if it is one tensor."""
        if len(node.op.definitions) != 1:
            return
        addends = node.op.definitions[0].addends
        reads = tuple(addend.reads for addend in addends)
        parts = tuple(
            self._shortened(a.definition, tuple(node.inputs[i] for i in a.reads), node.output)
            for a in addends
        )
        yield parts[0] if len(parts) == 1 else Assembly(parts, reads, node.op.dtype)

    def _shortened(self, own: Definition, read: Sequence[str], output: str) -> Definition:
        """The definition with every axis over images shortened to a group's images."""
        pairs = [*zip(read, own.operands, strict=True), (output, own.result)]
        places = [a.terms[self.places[name]] for name, a in pairs if name in self.places]
        axes = {axis for place in places for axis, _ in place}

        def access(a: Access) -> Access:
            extents = zip(a.terms, a.shape, strict=True)
            shape = (n // self.groups if {a for a, _ in p} & axes else n for p, n in extents)
            return replace(a, shape=tuple(shape))

        extents = tuple(n // self.groups if a in axes else n for a, n in enumerate(own.extents))
        given = tuple(map(access, own.operands))
        return replace(own, extents=extents, result=access(own.result), operands=given)

    def _add_up(self, part: str, result: str, op: Op) -> None:
        """Append the sum of all groups' tensors `part`, as the tensor `result`."""
        shape, kind = op.out_shape, op.out_dtype
        names = [f"{part}_of_{group}" for group in range(self.groups)]
        for group, name in enumerate(names):
            self.nodes.append(Node(name, FromGroup(shape, group, kind), (part,), name))
        total, add = names[0], Binary("add", shape, shape, kind)
        for group, name in enumerate(names[1:], 1):
            output = result if group == self.groups - 1 else f"{part}_to_{group}"
            self.nodes.append(Node(output, add, (total, name), output))
            total = output


def _computes(op: Op, region: Box) -> bool:
    """True if the operator can compute a region by itself."""
    parts: Sequence[Op] = (op,)
    if not op.is_named and len(op.definitions) == 1:
        parts = [addend.definition for addend in op.definitions[0].addends]
    return all(part.computable(region) == region for part in parts)
