"""Layers: units of work that cores compute between two exchanges of data.

In: a `Network`. Out: its layers in order. A layer is one operator and the elementwise steps that
follow it, which each core applies to its own region (the layer fusion of the BWDSP paper, Fig. 5).
A matrix product of flattened images becomes the convolution whose kernel covers the image: its sums
can then also be divided over rows and columns, and the flattening is no layer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeVar, cast

from tilewright.graph import Network, Node
from tilewright.ops import Conv2d, Gemm, Reshape, conv2d
from tilewright.ops.box import Box
from tilewright.ops.definitions import pointwise
from tilewright.ops.op import Op, Shape

PREVIOUS = ""
"""Operand name that stands for the result of the step before."""
_MOST_REGIONS = 1 << 17
"""Entries of each cache of regions: plan, clock and programs query the same parts."""

Function = TypeVar("Function", bound=Callable[..., object])


def _remembered(function: Function) -> Function:
    """`lru_cache` for operators, which are hashable though their protocol does not say so."""
    return cast("Function", lru_cache(_MOST_REGIONS)(function))


@_remembered
def computable(op: Op, result: Box, terms: Box | None = None) -> Box:
    """`Op.computable`, cached."""
    return op.computable(result, terms)


@_remembered
def needed(op: Op, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
    """`Op.needed`, cached."""
    return op.needed(result, terms)


@dataclass(frozen=True)
class LayerStep:
    """One operator applied to named tensors, or to the result of the step before."""

    op: Op
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Layer:
    """A first step that computes, and further steps that are elementwise on its result.

    `reads` names the operands that other layers or the network's inputs provide; all other operands
    are weights.
    """

    name: str
    steps: tuple[LayerStep, ...]
    output: str
    reads: tuple[str, ...]

    @property
    def op(self) -> Op:
        """The operator of the first step."""
        return self.steps[0].op

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return self.steps[-1].op.out_shape

    @cached_property
    def shape_key(self) -> tuple[object, ...]:
        """Key that is equal for layers with the same divisions: the operators, and which operands
        of the first one are weights.
        """
        weights = tuple(name in self.reads for name in self.steps[0].operands)
        return (*(step.op for step in self.steps), weights)

    def regions(self, result: Box) -> list[Box]:
        """The region that each step computes, in order, for the layer's region `result`."""
        found = [result]
        for step in reversed(self.steps[1:]):
            found.append(needed(step.op, found[-1])[0])
        return found[::-1]

    def needed(self, summed: Box, terms: Box | None) -> list[tuple[str, Box]]:
        """The region of each tensor of `reads` that the first step reads for `summed`."""
        own = needed(self.op, computable(self.op, summed, terms), terms)
        pairs = zip(self.steps[0].operands, own, strict=True)
        return [(name, box) for name, box in pairs if name in self.reads]

    def weights(self, summed: Box, terms: Box | None, result: Box) -> Iterator[tuple[str, Box]]:
        """The region of each weight that a core reads: for the first step by the region `summed`
        and `terms`, for the others by the region `result` that the core finishes.
        """
        wanted = [computable(self.op, summed, terms), *self.regions(result)[1:]]
        for step, box in zip(self.steps, wanted, strict=True):
            if box.size:
                given = terms if step is self.steps[0] else None
                for name, own in zip(step.operands, needed(step.op, box, given), strict=True):
                    if name not in (*self.reads, PREVIOUS):
                        yield name, own


def layers_of(network: Network) -> tuple[Layer, ...]:
    """The layers of `network` in the order of its nodes."""
    return tuple(_Fusing(network).layers())


class _Fusing:
    """Layers under construction, by the name of their output."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._weights = {tensor.name for tensor in network.weights}
        self._found: dict[str, Layer] = {}

    def layers(self) -> Iterator[Layer]:
        for node in self._network.nodes:
            if self._is_step(node):
                self._append(node)
            else:
                steps = self._product(node)
                reads = tuple(dict.fromkeys(n for n in steps[0].operands if n not in self._weights))
                self._found[node.output] = Layer(node.name, steps, node.output, reads)
        used = {name for layer in self._found.values() for name in layer.reads}
        kept = used | set(self._network.outputs)
        yield from (layer for layer in self._found.values() if layer.output in kept)

    def _is_step(self, node: Node) -> bool:
        """True if each core can apply `node` to its own region of the layer before."""
        first, *others = node.inputs
        return (
            _treats_alike(node.op)
            and node.op.out_shape == node.op.input_shapes[0]
            and first in self._found
            and self._network.uses[first] == 1
            and all(name in self._weights for name in others)
        )

    def _append(self, node: Node) -> None:
        layer = self._found.pop(node.inputs[0])
        step = LayerStep(node.op, (PREVIOUS, *node.inputs[1:]))
        self._found[node.output] = replace(layer, steps=(*layer.steps, step), output=node.output)

    def _product(self, node: Node) -> tuple[LayerStep, ...]:
        """Steps of a node that starts a layer; a product of flattened images is a convolution."""
        flat = self._network.makers.get(node.inputs[0]) if node.inputs else None
        whole = (LayerStep(node.op, node.inputs),)
        product = node.op.matrix_product
        if product is None or flat is None or not flat.op.reshapes:
            return whole
        convolution = _as_convolution(product, flat.op.input_shapes[0])
        if convolution is None or self._network.uses[flat.output] > 1:
            return whole
        result = Reshape(convolution.out_shape, node.op.out_shape, node.op.out_dtype)
        first = LayerStep(convolution, (flat.inputs[0], node.inputs[1]))
        return first, LayerStep(result, (PREVIOUS,))


def _treats_alike(op: Op) -> bool:
    """True if each element of the result depends only on operands' elements at its own index."""
    if pointwise(op) is not None or not op.out_shape or op.terms:
        return pointwise(op) is not None
    first = Box((0,) * len(op.out_shape), (1,) * len(op.out_shape))
    alike = op.follows is not None and op.follows[0] == op.follows[1]
    return alike and op.computable(first) == op.needed(first)[0] == first


def _as_convolution(op: Gemm, flat: Shape) -> Conv2d | None:
    """The convolution equal to a product `op` with flattened images of shape `flat`, if any."""
    plain = op.transpose_b and not op.transpose_a and (op.alpha, op.beta) == (1.0, 0.0)
    if not plain or len(flat) != 4 or flat[0] != op.m:
        return None
    batch, channels, height, width = flat
    return conv2d(
        batch=batch,
        in_channels=channels,
        out_channels=op.n,
        height=height,
        width=width,
        kernel=(height, width),
        dtype=op.dtype,
    )
