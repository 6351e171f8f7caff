"""Networks rewritten for units that take long vectors and whole matrices.

In: a network in fixed point. Out: an equivalent network of other nodes. A sum of squares over
neighbouring channels becomes a product with a matrix of ones and zeros, exact inside it; the
gradient of the largest of a few elements is computed by planes. Gradients of strided convolutions
go by phases, the rows and columns that are whole strides apart. The gradient of the weights is a
convolution with gaps between its taps, which meets each phase of the image without gaps. The
gradient of the image is one convolution for each of its phases, and they are merged into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate, product
from math import prod
from typing import ClassVar

import numpy as np

from tilewright.codegen.artifact import Array
from tilewright.common.dtypes import dtype
from tilewright.graph.gradient import first_of_equals
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.machine import Machine
from tilewright.ops import Conv2d, Gemm, LocalResponseNorm, Op, Reshape, Transpose, conv2d, gemm
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Computed, Definition, one
from tilewright.ops.definitions import Assembly, Named, definitions_in, moves
from tilewright.ops.op import Shape
from tilewright.targets.cambricon.instructions import instruction_cycles

_IMAGE = 4
"""Dimensions of images: batch, channels, rows, columns."""


def with_band_products(network: Network, elements: str) -> Network:
    """The network with sums over neighbouring channels as products, of the types `elements`."""
    nodes: list[Node] = []
    weights, values = list(network.weights), dict(network.values)
    for node in network.nodes:
        found = _banded(node, elements)
        nodes += found[0] if found else (node,)
        if found:
            _, product, near = found
            kind = product.op.out_dtype
            weights.append(Tensor(product.inputs[1], product.op.input_shapes[1], kind))
            ones = (near << dtype(kind).fraction_bits).astype(np.int16)
            values[product.inputs[1]] = ones[:, :, None, None]
    return replace(network, nodes=tuple(nodes), weights=tuple(weights), values=values)


def _banded(node: Node, elements: str) -> tuple[tuple[Node, ...], Node, Array] | None:
    """The nodes of a sum over neighbouring channels, the product among them, and its matrix: 1
    where the column's channel is a neighbour of the row's. None for another node.
    """
    match node.op:
        case LocalResponseNorm() if len(node.op.shape) == 4:
            squares, sums, quotient = _normed(node, node.op, elements)
            return (squares, sums, quotient), sums, _near(node.op)
        case _:
            return _window_sum(node, elements)


def _window_sum(node: Node, elements: str) -> tuple[tuple[Node, ...], Node, Array] | None:
    """`_banded` for the definition of a sum over a window of channels."""
    found = definitions_in(node.op)
    if len(found) != 1 or len(found[0].out_shape) != 4 or {*found[0].operands} == set():
        return None
    op, whole = found[0], straight(found[0].out_shape)
    around = [a for a in op.gathered if op.extents[a] > 1]
    if (op.gather, op.finish) != ("sum", "x0") or len(around) != 1 or op.has_look_ups:
        return None
    (access, *others), places = op.operands, dict(zip(op.kept, range(4), strict=True))
    (window,), channel = around, op.kept[1]
    steps = dict(access.terms[1]) if len(access.terms) == 4 else {}
    moved = tuple(tuple((places.get(a, -1), n) for a, n in t if a != window) for t in access.terms)
    plain = moved == whole.terms and op.result.terms == tuple(((a, 1),) for a in op.kept)
    alike = access.shape == op.out_shape and all(x == access for x in others)
    if not (plain and alike and abs(steps.get(window, 0)) == 1 and access.fill in (None, 0.0)):
        return None
    terms, made = _terms(node, op, whole)
    sums = _band_product(node.name, op.out_shape, (terms, node.output), elements)
    number, near = np.arange(op.out_shape[1]), np.zeros((op.out_shape[1],) * 2, np.int64)
    for k in range(op.extents[window]):
        beside = number * steps[channel] + k * steps[window] + access.offsets[1]
        inside = (beside >= 0) & (beside < len(number))
        near[number[inside], beside[inside]] = 1
    return (*made, sums), sums, near


def _terms(node: Node, op: Definition, whole: Access) -> tuple[str, tuple[Node, ...]]:
    """The tensor of a sum's terms, and the map that computes it unless it is given."""
    if op.body == "x0":
        return node.inputs[0], ()
    name = f"{node.output}.terms"
    body = Definition(op.out_shape, whole, (whole,) * len(op.operands), op.body, dtype=op.dtype)
    return name, (Node(f"{node.name}_terms", body, node.inputs, name),)


def _band_product(name: str, shape: Shape, tensors: tuple[str, str], elements: str) -> Node:
    """The product of channels with a band of ones; `tensors` are its input and output."""
    (batch, channels, height, width), (x, y) = shape, tensors
    op = conv2d(batch=batch, in_channels=channels, out_channels=channels, height=height,
                width=width, kernel=1, dtype=elements)  # fmt: skip
    return Node(name, op, (x, f"{y}.band"), y)


def _normed(node: Node, op: LocalResponseNorm, elements: str) -> tuple[Node, Node, Node]:
    """The squares, their sums, and the quotient as the operator defines it."""
    x, made, name = node.inputs[0], f"{node.output}.squares", node.name
    whole = straight(op.shape)
    square = Definition(op.shape, whole, (whole,), "x0 * x0", dtype=op.dtype)
    squares = Node(f"{name}_squares", square, (x,), made)
    sums = _band_product(f"{name}_sums", op.shape, (made, f"{node.output}.sums"), elements)
    return squares, sums, Node(name, Response(op), (x, f"{node.output}.sums"), node.output)


@dataclass(frozen=True)
class Response(Named):
    """The last step of a local response norm: an element over the power of its sum."""

    kind: ClassVar[str] = "response"
    norm: LocalResponseNorm

    @property
    def dtype(self) -> str:
        """The norm's element types."""
        return self.norm.dtype

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The elements and the sums."""
        return self.norm.shape, self.norm.shape

    @property
    def out_shape(self) -> Shape:
        """The shape of the elements."""
        return self.norm.shape

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """The norm's last definition."""
        return one(self.norm.definitions[1].addends[0].definition)

    def describe(self) -> str:
        """The norm that it completes."""
        return f"quotient of {self.norm.describe()}"

    def in_words(self) -> str:
        """The power and the quotient."""
        norm = self.norm
        return f"y = x / ({norm.bias:g} + {norm.alpha / norm.size:g} sums) ** {norm.beta:g}"


def _near(op: LocalResponseNorm) -> Array:
    """A matrix of 1 where the column's channel is a neighbour of the row's, and 0."""
    number = np.arange(op.shape[1])
    first = number[:, None] - (op.size - 1) // 2
    near = (number[None, :] >= first) & (number[None, :] < first + op.size)
    return near.astype(np.int64)


def with_whole_images(network: Network, elements: str) -> Network:
    """The network with each product of flattened images as a convolution whose window is the whole
    image; its weights take the order in which images are stored.
    """
    flat = {n.output: n for n in network.nodes if n.op.reshapes and len(n.op.input_shapes[0]) == 4}
    weights = {t.name for t in network.weights}
    nodes: list[Node] = []
    dropped: set[str] = set()
    for node in network.nodes:
        before = flat.get(node.inputs[0]) if node.inputs else None
        own = node.op.matrix_product
        rows = own is not None and own.transpose_b and not own.transpose_a
        known = rows and before and node.inputs[1] in weights and network.uses[before.output] == 1
        if known and before and before.op.out_shape[0] == before.op.input_shapes[0][0]:
            nodes += _on_images(node, before, elements)
            dropped.add(before.name)
        else:
            nodes.append(node)
    return replace(network, nodes=tuple(n for n in nodes if n.name not in dropped))


def _on_images(node: Node, flatten: Node, elements: str) -> tuple[Node, Node, Node]:
    """The weights as windows, the convolution, and its result as a matrix."""
    (batch, channels, height, width), (x,) = flatten.op.input_shapes[0], flatten.inputs
    features, kind = node.op.out_shape[1], node.op.out_dtype
    shape = (features, channels, height, width)
    conv = conv2d(batch=batch, in_channels=channels, out_channels=features, height=height,
                  width=width, kernel=(height, width), dtype=elements)  # fmt: skip
    w, windows, made = node.inputs[1], f"{node.output}.windows", f"{node.output}.pixels"
    as_windows = Reshape(node.op.input_shapes[1], shape, kind)
    as_matrix = Reshape(conv.out_shape, node.op.out_shape, kind)
    return (
        Node(f"{node.name}_windows", as_windows, (w,), windows),
        Node(node.name, conv, (x, windows), made),
        Node(f"{node.name}_matrix", as_matrix, (made,), node.output),
    )


def with_separate_pools(network: Network) -> Network:
    """The network with maxima of overlapping windows taken along rows of the image after columns:
    whole rows are one run, and each column's maximum is found once.
    """
    nodes: list[Node] = []
    for node in network.nodes:
        op = node.op.pooling
        if op is None or op.reduction != "max" or 1 in op.kernel or op.kernel == op.stride:
            nodes.append(node)
            continue
        (kernel_rows, kernel_cols), (by_rows, by_cols) = op.kernel, op.stride
        top, left, bottom, right = op.padding
        columns = replace(op, kernel=(kernel_rows, 1), stride=(by_rows, 1),
                          padding=(top, 0, bottom, 0))  # fmt: skip
        rows = replace(op, height=columns.out_shape[2], kernel=(1, kernel_cols),
                       stride=(1, by_cols), padding=(0, left, 0, right))  # fmt: skip
        between = f"{node.output}.columns"
        nodes.append(Node(f"{node.name}_columns", columns, node.inputs, between))
        nodes.append(replace(node, op=rows, inputs=(between,)))
    return replace(network, nodes=tuple(nodes))


def with_planes(network: Network) -> Network:
    """The network with gradients of the largest of a few elements computed by planes; a plane holds
    one place of every window. The number of the first plane with the largest element is found, and
    each plane takes the gradient where that number is its own. A few instructions on long vectors
    suffice, and transfers move long runs.
    """
    nodes: list[Node] = []
    weights, values = list(network.weights), dict(network.values)
    for node in network.nodes:
        parts = _compared(node)
        nodes += _by_planes(node, parts, network) if parts else (node,)
        if parts:
            name, kind = f"{node.output}.numbers", node.op.out_dtype
            axes = _lying(parts[0].extents)
            shape = (len(parts), *(parts[0].extents[a] for a in axes))
            weights.append(Tensor(name, shape, kind))
            own = np.arange(len(parts), dtype=np.int16)[::-1] << dtype(kind).fraction_bits
            values[name] = np.broadcast_to(own.reshape(-1, *[1] * len(axes)), shape)
    return replace(network, nodes=tuple(nodes), weights=tuple(weights), values=values)


def _compared(node: Node) -> tuple[Definition, ...]:
    """The parts of the gradient of the largest of some elements; none for other nodes."""
    parts = tuple(definitions_in(node.op))
    plain = len(parts) > 1 and all(
        part.body == first_of_equals(number, len(parts))
        and part.operands[0] == straight(part.extents)
        and part.operands[1:] == parts[0].operands[1:]
        and part.result == part.operands[1 + number]
        for number, part in enumerate(parts)
    )
    return parts if plain and len(node.inputs) == 2 else ()  # dy and x


def _by_planes(node: Node, parts: Sequence[Definition], network: Network) -> Iterator[Node]:
    """The planes of the elements read, the number of the first plane with the largest, the
    gradient's planes, and their assembly.
    """
    (dy, x), first, name, made = node.inputs, parts[0], node.name, node.output
    kind = node.op.out_dtype
    plain, sources = straight(first.extents), first.operands[1:]
    planes = [f"{made}.given_{number}" for number in range(len(parts))]
    largest = _pooled(network, x, sources)
    for plane, source in zip(planes, sources if largest is None else sources[:-1], strict=False):
        copy = Definition(first.extents, plain, (source,), dtype=kind)
        yield Node(f"{name}_{plane.removeprefix(f'{made}.')}", copy, (x,), plane)
    read = (*planes[:-1], largest or planes[-1])
    body = _first_number(len(planes), given=largest is not None)
    number_op = replace(first, result=plain, operands=(plain,) * len(read), body=body)
    yield Node(f"{name}_chosen", number_op, read, f"{made}.chosen")
    axes = _lying(first.extents)
    shape = (len(planes), *(first.extents[a] for a in axes))
    back = tuple(axes.index(d) for d in range(len(axes)))
    own = Access(first.extents, tuple(((1 + d, 1),) for d in back), plain.offsets)
    places = (own, own, straight(shape))
    spread = replace(
        first, extents=shape, result=straight(shape), operands=places, body="x0 * (x1 == x2)"
    )
    tensors = dy, f"{made}.chosen", f"{made}.numbers"
    yield Node(f"{name}_planes", spread, tensors, f"{made}.planes")
    found, inner = list[Definition](), tuple(((a, 1),) for a in axes)
    for number, source in enumerate(sources):
        plane_of = Access(shape, ((), *inner), (number, *plain.offsets))
        whole, terms, offsets = (
            tuple(of[d] for d in axes) for of in (source.shape, source.terms, source.offsets)
        )
        result = Access(whole, terms, offsets)  # type: ignore[arg-type]  # of each its own
        found.append(Definition(first.extents, result, (plane_of,), dtype=kind))
    assembly = Assembly(tuple(found), ((0,),) * len(found), kind)
    yield Node(f"{name}_lying", assembly, (f"{made}.planes",), f"{made}.lying")
    yield Node(name, Transpose(assembly.out_shape, back, kind), (f"{made}.lying",), made)


def _lying(extents: Shape) -> list[int]:
    """The axes of a plane in storage order: channels last for an image."""
    return [0, 2, 3, 1] if len(extents) == _IMAGE else [*range(len(extents))]


def _first_number(count: int, *, given: bool) -> str:
    """An expression for the number of the first plane that has the largest element, x{count - 1} if
    `given`. The first of `count` planes has the highest number, the last one 0.
    """
    names = [f"x{n}" for n in range(count)]
    largest = names[-1] if given else _largest(names)
    return _largest([f"({x} == {largest}) * {count - 1 - n}.0" for n, x in enumerate(names[:-1])])


def _largest(terms: Sequence[str]) -> str:
    return reduce(lambda found, term: f"max({found}, {term})", terms)


def _pooled(network: Network, x: str, sources: Sequence[Access]) -> str | None:
    """The tensor of the largest elements in windows of `sources`, if the network computes it."""
    for node in network.nodes:
        pool = node.op.pooling
        if pool is None or pool.reduction != "max" or node.inputs[0] != x:
            continue
        steps = tuple(((d, step),) for d, step in enumerate((1, 1, *pool.stride)))
        taps = product(*map(range, pool.kernel))
        own = [(0, 0, u - pool.padding[0], v - pool.padding[1]) for u, v in taps]
        if [(s.terms, s.offsets) for s in sources] == [(steps, place) for place in own]:
            return node.output
    return None


def with_outer_products(network: Network, elements: str) -> Network:
    """The network with outer products as products of one term, such as the gradient of a matrix by
    one image: the matrix unit computes a row at once.
    """
    nodes: list[Node] = []
    for node in network.nodes:
        sides = _outer_sides(node.op)
        if sides is None:
            nodes.append(node)
            continue
        op = gemm(*sides, 1, transpose_b=True, dtype=elements)
        made, read = f"{node.output}.matrix", list[str]()
        for number, shape in enumerate(op.input_shapes):
            name = f"{node.output}.vector_{number}"
            column = Reshape(node.op.input_shapes[number], shape, op.out_dtype)
            nodes.append(Node(f"{node.name}_vector_{number}", column, (node.inputs[number],), name))
            read.append(name)
        nodes.append(Node(node.name, op, tuple(read), made))
        whole = Reshape(op.out_shape, node.op.out_shape, op.out_dtype)
        nodes.append(Node(f"{node.name}_matrix", whole, (made,), node.output))
    return replace(network, nodes=tuple(nodes))


def _outer_sides(op: Op) -> tuple[int, int] | None:
    """Rows and columns of an outer product, the lengths of its operands; None for others."""
    found = definitions_in(op)
    if len(found) != 1 or (found[0].body, found[0].finish) != ("x0 * x1", "x0"):
        return None
    own = found[0]
    axes = [a for a, extent in enumerate(own.extents) if extent > 1]
    read = [[a for place in x.terms for a, _ in place if a in axes] for x in own.operands]
    is_outer = len(axes) == 2 and read == [axes[:1], axes[1:]] and not {*axes} & {*own.gathered}
    sides = tuple(own.extents[a] for a in axes)
    plain = is_outer and prod(own.out_shape) == prod(sides)
    dense = plain and [prod(x.shape) for x in own.operands] == [*sides]
    kept = [a for place in own.result.terms for a, _ in place if a in axes]
    return (sides[0], sides[1]) if dense and kept == axes else None


def with_vectors_first(network: Network) -> Network:
    """The network with products of a matrix and one column as products of a row and the matrix,
    which the matrix unit takes whole.
    """
    nodes: list[Node] = []
    for node in network.nodes:
        op = node.op.matrix_product
        if op is None or op.n > 1 or op.m == 1 or (op.alpha, op.beta) != (1.0, 0.0):
            nodes.append(node)
            continue
        own = replace(op, m=1, n=op.m, transpose_a=False, transpose_b=not op.transpose_a)
        (a, b), kind = node.inputs, op.out_dtype
        row, made = f"{node.output}.row", f"{node.output}.as_row"
        as_row = Reshape(op.input_shapes[1], own.input_shapes[0], kind)
        nodes.append(Node(f"{node.name}_row", as_row, (b,), row))
        nodes.append(Node(node.name, own, (row, a), made))
        as_column = Reshape(own.out_shape, op.out_shape, kind)
        nodes.append(Node(f"{node.name}_column", as_column, (made,), node.output))
    return replace(network, nodes=tuple(nodes))


def with_rows_first(network: Network) -> Network:
    """The network with a transpose before each product of a transposed first operand, and of
    constant weights that are not transposed. Vectors of terms are then runs, and the part of a
    matrix that a product reads is one run.
    """
    nodes: list[Node] = []
    fixed = {t.name for t in network.weights} - {state.tensor for state in network.states}
    for node in network.nodes:
        op = node.op.matrix_product
        if op is not None and op.transpose_a:
            move, node = _turned(node, op, 0)
            nodes.append(move)
            op = node.op.matrix_product
        if op is not None and not op.transpose_b and node.inputs[1] in fixed:
            move, node = _turned(node, op, 1)
            nodes.append(move)
        nodes.append(node)
    return replace(network, nodes=tuple(nodes))


def _turned(node: Node, op: Gemm, operand: int) -> tuple[Node, Node]:
    """The transpose of an operand of a matrix product, and the product that reads it."""
    read, turned = list(node.inputs), f"{node.output}.turned_{operand}"
    move = Transpose(op.input_shapes[operand], (1, 0), op.out_dtype)
    name, read[operand] = f"{node.name}_turned_{operand}", turned
    own = (
        replace(op, transpose_a=not op.transpose_a)
        if operand == 0
        else replace(op, transpose_b=not op.transpose_b)
    )
    before = Node(name, move, (node.inputs[operand],), turned)
    return before, replace(node, op=own, inputs=tuple(read))


def with_phases(network: Network, machine: Machine) -> Network:
    """The network with gradients of strided convolutions computed by phases."""
    nodes: list[Node] = []
    for node in network.nodes:
        if (conv := node.op.convolution) and _has_gaps(conv):
            nodes += _without_gaps(node, conv)
        elif parts := _phases(node, network.makers):
            nodes += _side_by_side(node, parts, machine)
        else:
            nodes.append(node)
    return replace(network, nodes=tuple(nodes))


def _has_gaps(conv: Conv2d) -> bool:
    """True if taps have gaps between them and are gathered one by one, and outnumber the elements
    of the result per place, which are moved one by one if there are phases.
    """
    plain = conv.stride == (1, 1) != conv.dilation and conv.groups == 1
    return plain and prod(conv.kernel) > prod(conv.out_shape[:2])


def _without_gaps(node: Node, conv: Conv2d) -> Iterator[Node]:
    """The phases of the images that a convolution reads, their convolution, its results in turn."""
    kind, (x, w), made = conv.out_dtype, node.inputs, node.output
    batch, channels, *_ = conv.input_shapes[0]
    _, features, *out = conv.out_shape
    steps = [min(d, n) for d, n in zip(conv.dilation, out, strict=True)]
    kept = [-(-n // d) for n, d in zip(out, conv.dilation, strict=True)]
    sides = [n + k - 1 for n, k in zip(kept, conv.kernel, strict=True)]
    (top, left, *_), (down, right) = conv.padding, conv.dilation
    extents = (*steps, batch, channels, *sides)
    terms = (((2, 1),), ((3, 1),), ((0, 1), (4, down)), ((1, 1), (5, right)))
    source = Access(conv.input_shapes[0], terms, (0, 0, -top, -left), 0.0)
    apart = Definition(extents, straight(extents), (source,), dtype=kind)
    own = replace(conv, batch=batch * prod(steps), height=sides[0], width=sides[1],
                  dilation=(1, 1), padding=(0, 0, 0, 0))  # fmt: skip
    yield Node(f"{node.name}_apart", apart, (x,), f"{made}.apart")
    images = Reshape(extents, own.input_shapes[0], kind)
    yield Node(f"{node.name}_phases", images, (f"{made}.apart",), f"{made}.phases")
    yield Node(node.name, own, (f"{made}.phases", w), f"{made}.sums")
    whole = (*steps, batch, *own.out_shape[1:])
    yield Node(f"{node.name}_by_phase", Reshape(own.out_shape, whole, kind), (f"{made}.sums",),
               f"{made}.by_phase")  # fmt: skip
    found = list[Definition]()
    for first in product(*map(range, steps)):
        count = [-(-(n - f) // d) for n, f, d in zip(out, first, conv.dilation, strict=True)]
        places = (((0, 1),), ((1, 1),), ((2, down),), ((3, right),))
        result = Access(conv.out_shape, places, (0, 0, *first))
        inner = ((), (), ((0, 1),), ((1, 1),), ((2, 1),), ((3, 1),))
        read = Access(whole, inner, (*first, 0, 0, 0, 0))
        found.append(Definition((batch, features, *count), result, (read,), dtype=kind))
    assembly = Assembly(tuple(found), ((0,),) * len(found), kind)
    yield Node(f"{node.name}_in_turn", assembly, (f"{made}.by_phase",), made)


def _phases(node: Node, made: Mapping[str, Node]) -> list[tuple[Node, Conv2d]]:
    """The convolutions of one tensor that a node assembles, one per operand; else none."""
    if len(definitions_in(node.op)) < 2 or len(node.op.definitions) > 1 or not moves(node.op):
        return []
    found = list[tuple[Node, Conv2d]]()
    for name in node.inputs:
        own = shaped = made.get(name)
        if shaped and shaped.op.reshapes:
            own = made.get(shaped.inputs[0])
        conv = own.op.convolution if own else None
        if own is None or shaped is None or conv is None or conv.groups > 1:
            return []
        known = shaped.op.out_shape in (conv.out_shape, conv.out_shape[1:])
        plain = conv.stride == conv.dilation == (1, 1)
        if not (known and plain) or (found and own.inputs[0] != found[0][0].inputs[0]):
            return []
        found.append((own, conv))
    return found if len(found) > 1 else []


def _in_one(convs: Sequence[Conv2d]) -> tuple[Conv2d, list[tuple[int, ...]]]:
    """The convolution that computes the channels of several, and the position of each one's taps
    within its own: first channel, row and column.
    """
    channels = [*accumulate((c.out_channels for c in convs), initial=0)]
    sides, ends, frames = list[int](), list[int](), list[list[int]]()
    before = [max(c.padding[d] for c in convs) for d in (0, 1)]
    for d, (most, extent) in enumerate(zip(before, convs[0].input_shapes[0][2:], strict=True)):
        frames.append([most - c.padding[d] for c in convs])
        sides.append(max(f + c.kernel[d] for f, c in zip(frames[d], convs, strict=True)))
        ends.append(max(c.out_shape[2 + d] for c in convs) + sides[d] - 1 - most - extent)
    padding, kernel = (before[0], before[1], ends[0], ends[1]), (sides[0], sides[1])
    one = replace(convs[0], out_channels=channels[-1], kernel=kernel, padding=padding)
    return one, [*zip(channels, *frames, strict=False)]


def _side_by_side(
    node: Node, parts: Sequence[tuple[Node, Conv2d]], machine: Machine
) -> Iterator[Node]:
    """The assembly from the channels of one convolution, if that takes fewer cycles. Each part has
    zeros where others have taps.
    """
    one, places = _in_one([conv for _, conv in parts])
    if _cycles(one, machine) >= sum(_cycles(conv, machine) for _, conv in parts):
        yield node
        return
    kind, made, (image, *_) = one.out_dtype, node.output, parts[0][0].inputs
    taps, found = list[Definition](), list[Definition]()
    for (_, conv), (channel, *at) in zip(parts, places, strict=True):
        own = straight(conv.input_shapes[1])
        result = replace(own, shape=one.input_shapes[1], offsets=(channel, 0, *at))
        taps.append(Definition(own.shape, result, (own,), dtype=kind))
    read = tuple(own.inputs[1] for own, _ in parts)
    numbers = tuple((number,) for number in range(len(parts)))
    yield Node(f"{node.name}_taps", Assembly(tuple(taps), numbers, kind), read, f"{made}.taps")
    yield Node(f"{node.name}_phases", one, (image, f"{made}.taps"), f"{made}.phases")
    for addend in node.op.definitions[0].addends:
        part, (number,) = addend.definition, addend.reads
        (own,) = part.operands
        batch = 4 - len(own.shape)  # 1 if the only image has no dimension
        _, channels, *rest = (*((0,) * batch), *own.offsets)
        offsets = (0, channels + places[number][0], *rest)
        found.append(
            replace(part, operands=(Access(one.out_shape, ((),) * batch + own.terms, offsets),))
        )
    assembly = Assembly(tuple(found), ((0,),) * len(found), kind)
    yield replace(node, op=assembly, inputs=(f"{made}.phases",))


def _cycles(conv: Conv2d, machine: Machine) -> int:
    """Cycles of the products of a convolution."""
    size = {"out_size": conv.out_channels, "in_size": conv.in_channels * prod(conv.kernel)}
    pixels = conv.batch * prod(conv.out_shape[2:])
    return pixels * int(instruction_cycles(machine, "mmv", **size))
