"""Gradients of convolutions with strides by phases: rows and columns that are whole strides apart.

In: a network in fixed point. Out: the same function by other nodes. The gradient of the weights is
a convolution with gaps between its taps, and each phase of the image meets them without: phases are
images of their own. That of the image is a convolution for each of its phases by the same result,
and together they are one of as many channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, product
from math import prod

from tilewright.graph.graph import Network, Node
from tilewright.machine import Machine
from tilewright.ops import Conv2d, Reshape
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly
from tilewright.targets.cambricon.instructions import instruction_cycles


def with_phases(network: Network, machine: Machine) -> Network:
    """The network with gradients of convolutions with strides by phases."""
    made = {node.output: node for node in network.nodes}
    nodes: list[Node] = []
    for node in network.nodes:
        if (conv := node.op.convolution) and _has_gaps(conv):
            nodes += _without_gaps(node, conv)
        elif isinstance(node.op, Assembly) and (parts := _parts(node, node.op, made)):
            nodes += _side_by_side(node, node.op, parts, machine)
        else:
            nodes.append(node)
    return replace(network, nodes=tuple(nodes))


def _has_gaps(conv: Conv2d) -> bool:
    """True for taps with gaps between them that are gathered one by one, and more of them for a
    place of the result than that has elements, which move one by one to where no phases are.
    """
    plain = conv.stride == (1, 1) != conv.dilation and conv.groups == 1
    return plain and prod(conv.kernel) > prod(conv.out_shape[:2])


def _without_gaps(node: Node, conv: Conv2d) -> Iterator[Node]:
    """The phases of what a convolution reads as images, their convolution, and its results in
    turn.
    """
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


def _parts(node: Node, whole: Assembly, made: Mapping[str, Node]) -> list[tuple[Node, Conv2d]]:
    """The convolutions of one tensor whose results an assembly takes, one each; none for others."""
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
    return found if len(found) > 1 and all(len(reads) == 1 for reads in whole.reads) else []


def _in_one(convs: Sequence[Conv2d]) -> tuple[Conv2d, list[tuple[int, ...]]]:
    """The convolution that makes the channels of several, and the place of each one's taps among
    its own: the first channel, row and column.
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
    node: Node, whole: Assembly, parts: Sequence[tuple[Node, Conv2d]], machine: Machine
) -> Iterator[Node]:
    """The assembly of the channels of one convolution, where that takes fewer cycles; a part has
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
    for part, (number,) in zip(whole.parts, whole.reads, strict=True):
        (own,) = part.operands
        batch = 4 - len(own.shape)  # 1 where the only image has no dimension
        _, channels, *rest = (*((0,) * batch), *own.offsets)
        offsets = (0, channels + places[number][0], *rest)
        found.append(
            replace(part, operands=(Access(one.out_shape, ((),) * batch + own.terms, offsets),))
        )
    assembly = Assembly(tuple(found), ((0,),) * len(found), kind)
    yield replace(node, op=assembly, inputs=(f"{made}.phases",))


def _cycles(conv: Conv2d, machine: Machine) -> int:
    """Of the products of a convolution."""
    size = {"out_size": conv.out_channels, "in_size": conv.in_channels * prod(conv.kernel)}
    pixels = conv.batch * prod(conv.out_shape[2:])
    return pixels * int(instruction_cycles(machine, "mmv", **size))
