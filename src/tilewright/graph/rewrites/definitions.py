"""Splits definitions into steps that machines can compute (`ops.normal_form`).

For machines whose loops read any number of operands, a body is fused back into its gather: for
instance, distances then need no tensor of all differences. For machines that read tensors in any
layout, convolutions of lines need no transposes, and channel shuffles no C arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from tilewright.graph.graph import Network, Node
from tilewright.graph.names import fresh
from tilewright.graph.rewriting import simplified
from tilewright.ir.scalar import operations
from tilewright.ops.access import straight
from tilewright.ops.conv2d import Conv2d
from tilewright.ops.definition import Addend, Definition
from tilewright.ops.definitions import definitions_in, is_view, moves, put_together
from tilewright.ops.moves import Reshape, Shuffle
from tilewright.ops.normal_form import normal_form
from tilewright.ops.op import Op, Shape

_MOST_OPERATIONS = 8
"""Most operations of a body that is fused; longer ones are faster in vectorised loops of their own.
"""

_INTO: dict[tuple[int, ...], bool] = {(0, 3, 1, 2): True, (0, 2, 1, 3): False}
"""Permutations of images ahead of a split into lines; True if the lines are columns."""
_BACK = {True: (0, 2, 3, 1), False: (0, 2, 1, 3)}


def by_definitions(network: Network) -> Network:
    """The network with definitions in normal form: a node becomes one node per step, and a
    definition that equals a named operator becomes that operator.
    """
    taken = {*network.tensors, *(node.name for node in network.nodes)}
    nodes: list[Node] = []
    for node in network.nodes:
        parts = _addends(node.op)
        if len(parts) == 1:
            nodes += _steps(node, parts[0].definition, taken)
        else:
            nodes += _parts(node, parts, taken) if parts else [node]
    return replace(network, nodes=tuple(nodes))


def _addends(op: Op) -> tuple[Addend, ...]:
    """The parts of an operator without a name or on integers; others stay whole and have none."""
    integers = op.numerics.sums.kind == "integer" and definitions_in(op) != [] and not moves(op)
    if op.is_named and (not integers or len(op.definitions) > 1):
        return ()
    return op.definitions[0].addends


def _parts(node: Node, addends: Sequence[Addend], taken: set[str]) -> list[Node]:
    """The nodes of an operator's parts: all steps but the last of each part on their own, then one
    node in which the last steps write into the result.
    """
    nodes: list[Node] = []
    parts: list[tuple[Definition, tuple[str, ...]]] = []
    for addend in addends:
        part, read = addend.definition, tuple(node.inputs[i] for i in addend.reads)
        *before, last = _steps(Node(node.name, part, read, node.output), part, taken)
        if last.op.is_named:
            last = replace(last, name=fresh(node.name, taken), output=fresh(node.output, taken))
            before.append(last)
            whole = straight(part.out_shape)
            placed = Definition(part.out_shape, whole, (whole,), dtype=node.op.dtype)
            last = Node(node.name, placed, (last.output,), node.output)
        nodes += before
        parts.append((last.op.definitions[0].addends[0].definition, last.inputs))
    whole_op, names = put_together(parts, node.op.dtype)
    return [*nodes, Node(node.name, whole_op, names, node.output)]


def _steps(node: Node, op: Definition, taken: set[str]) -> list[Node]:
    steps = normal_form(op)
    tensors, nodes = list(node.inputs), []
    for number, step in enumerate(steps, 1):
        inputs = tuple(tensors[i] for i in step.operands)
        if number == len(steps):
            nodes.append(Node(node.name, step.op, inputs, node.output))
        else:
            name = fresh(f"{node.name}_{number}", taken)
            nodes.append(Node(name, step.op, inputs, name))
            tensors.append(name)
    return nodes


def gathered_bodies(network: Network) -> Network:
    """The network with bodies fused into the gathers that are their only readers."""
    gone, nodes = set[str](), list[Node]()
    for node in network.nodes:
        body = network.makers.get(node.inputs[0]) if len(node.inputs) == 1 else None
        if body is not None and network.uses[body.output] == 1:
            joined = _gathered_body(body, node)
            if joined is not None:
                gone.add(body.name)
                node = replace(node, op=joined, inputs=body.inputs)
        nodes.append(node)
    kept = tuple(node for node in nodes if node.name not in gone)
    return replace(network, nodes=kept) if gone else network


def _gathered_body(body: Node, gathering: Node) -> Definition | None:
    """The gather with its body fused, reading the body's operands. None if the nodes are more than
    a body and its gather, or if the result is a sum of products, which has kernels.
    """
    inner, outer = _alone(body), _alone(gathering)
    if inner is None or outer is None or inner.gather is not None or outer.gather is None:
        return None
    axes = tuple(place[0][0] for place in outer.operands[0].terms if place)
    whole = (
        outer.operands[0] == straight(inner.out_shape, axes)
        and inner.result == straight(inner.extents)
        and (outer.body, inner.finish) == ("x0", "x0")
        and prod(outer.extents) == prod(inner.extents)  # no element is read twice
        and operations(inner.scalar) <= _MOST_OPERATIONS
    )
    if not whole or inner.has_look_ups or inner.numerics.is_mixed or not inner.numerics.is_float:
        return None
    operands = tuple(access.renamed(dict(enumerate(axes))) for access in inner.operands)
    joined = replace(outer, operands=operands, body=inner.body, tensors=())
    return None if joined.kind == "contraction" else joined


def _alone(node: Node) -> Definition | None:
    """The only definition of a node whose operator has no name; None for any other node."""
    every = [] if node.op.is_named else definitions_in(node.op)
    return every[0] if len(every) == 1 else None


def lines_of_images(network: Network) -> Network:
    """The network with convolutions of rows or columns between transposes replaced by convolutions
    of the images. Phases of transposed convolutions with a single window have this form; loops that
    read images in any layout need no transposes.
    """
    taken = {*network.tensors, *(node.name for node in network.nodes)}
    nodes = list[Node]()
    for node in network.nodes:
        nodes += _of_images(node, network.makers, taken) or [node]
    found = replace(network, nodes=tuple(nodes))
    return network if found.nodes == network.nodes else simplified(found)


def _of_images(last: Node, made: Mapping[str, Node], taken: set[str]) -> list[Node] | None:
    """The nodes that replace a chain of moves and a convolution of lines, given its last transpose;
    None if the chain has another form.
    """
    chain = [last]
    while len(chain) < 5 and chain[-1].inputs and chain[-1].inputs[0] in made:
        chain.append(made[chain[-1].inputs[0]])
    if len(chain) < 5:
        return None
    back, split, _, join, turn = (node.op for node in chain)
    lines, columns = chain[2].op.convolution, _INTO.get(turn.permutation or ())
    moved = columns is not None and back.permutation == _BACK[columns]
    if lines is None or columns is None or not (moved and join.reshapes and split.reshapes):
        return None
    images = turn.input_shapes[0]
    op = _on_images(lines, images, columns=columns)
    whole = (images[0] * turn.out_shape[1], *turn.out_shape[2:3], 1, *turn.out_shape[3:])
    if op is None or join.out_shape != whole or op.out_shape != back.out_shape:
        return None
    x, (_, weights) = chain[4].inputs[0], chain[2].inputs
    if not columns:
        return [replace(last, inputs=(x, weights), op=op)]
    turned = Reshape(lines.input_shapes[1], op.input_shapes[1], op.dtype)
    name = fresh(f"{last.name}_w", taken)
    return [Node(name, turned, (weights,), name), replace(last, inputs=(x, name), op=op)]


def _on_images(lines: Conv2d, images: Shape, *, columns: bool) -> Conv2d | None:
    """The convolution of images that equals a convolution of their rows or columns."""
    top, left, bottom, right = lines.padding
    if (lines.height, lines.kernel[0], lines.stride[0], top, bottom) != (1, 1, 1, 0, 0):
        return None
    batch, _, height, width = images
    own = lines.kernel, lines.stride, lines.dilation
    kernel, stride, dilation = (pair[::-1] if columns else pair for pair in own)
    padding = (left, top, right, bottom) if columns else lines.padding
    return replace(
        lines, batch=batch, height=height, width=width, kernel=kernel, stride=stride,
        dilation=dilation, padding=padding,
    )  # fmt: skip


def with_shuffles(network: Network) -> Network:
    """The network with one operator for each reshape, transpose and reshape that shuffle channels,
    and for each slice behind them.
    """
    made, shuffles = dict[str, Node](), dict[str, tuple[Shuffle, str]]()
    for node in network.nodes:
        before = node.inputs[0] if node.inputs else ""
        found = _shuffle(node.op, made.get(before), made) or _slice(node.op, shuffles.get(before))
        if found is not None:
            op, read = shuffles[node.output] = found
            node = replace(node, op=op, inputs=(read,))
        made[node.output] = node
    return simplified(replace(network, nodes=tuple(made.values()))) if shuffles else network


def _shuffle(op: Op, turn: Node | None, made: Mapping[str, Node]) -> tuple[Shuffle, str] | None:
    """The shuffle that a reshape behind a transpose ends, and what it reads."""
    order = turn.op.permutation if turn and op.reshapes else None
    cut = made.get(turn.inputs[0]) if turn and order else None
    if order is None or cut is None or not cut.op.reshapes:
        return None
    (shape,), split = cut.op.input_shapes, cut.op.out_shape
    if op.out_shape != shape or len(split) != len(shape) + 1:
        return None
    for axis in range(len(shape)):
        parts, each = split[axis : axis + 2]
        turned = (*range(axis), axis + 1, axis, *range(axis + 2, len(split)))
        if split == (*shape[:axis], parts, each, *shape[axis + 1 :]) and order == turned:
            return Shuffle(shape, axis, parts, 0, each, op.out_dtype), cut.inputs[0]
    return None


def _slice(op: Op, before: tuple[Shuffle, str] | None) -> tuple[Shuffle, str] | None:
    """The shuffle of what an operator takes of one, if it is a slice with as much of each part."""
    if before is None or is_view(op) or not moves(op) or len(definitions_in(op)) > 1:
        return None
    (shuffle, read), (own,) = before, definitions_in(op)
    whole, (x,) = straight(op.out_shape), own.operands
    if own.result != whole or x != replace(whole, shape=x.shape, offsets=x.offsets):
        return None
    axis, parts = shuffle.axis, shuffle.parts
    (start, count), others = (x.offsets[axis], op.out_shape[axis]), list(x.shape)
    others[axis] = count
    if tuple(others) != op.out_shape or start % parts or count % parts:
        return None
    first = shuffle.start + start // parts
    return replace(shuffle, start=first, count=count // parts), read


REWRITE = by_definitions
