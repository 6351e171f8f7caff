"""VGG-16 on 56 cores as the paper divides it: the basis of its tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

from tilewright.graph import network
from tilewright.ops import Conv2d
from tilewright.ops.box import Box
from tilewright.ops.window import seen
from tilewright.partition.layers import Layer, layers_of
from tilewright.partition.objective import ACTIVATIONS
from tilewright.partition.plan import PartitionPlan, fixed_plan, space

CORES = 56
NETWORK = "vgg16"
BASELINE, OPTIMISED, BEST = "input_rows", "output_tiles", "best"
"""The paper's two strategies, and the plan that moves the fewest activations."""
TILES = ("equal_products", OPTIMISED)
"""Grids of the best plans: equal products, and the paper's tiles in the paper's order."""


Region = tuple[int, int, int, int]
"""Rows and columns of the input, rows and columns of the output."""


class PrintedLayer(Struct, frozen=True):
    """One layer's line of Table 4 under one strategy, as extents."""

    layer: str
    strategy: str
    in_rows: int
    in_columns: int
    out_rows: int
    out_columns: int

    @property
    def region(self) -> Region:
        """The four extents."""
        return self.in_rows, self.in_columns, self.out_rows, self.out_columns


@cache
def vgg16() -> tuple[Layer, ...]:
    """All layers of VGG-16."""
    return layers_of(network(NETWORK, 1))


def image_layers(layers: Sequence[Layer]) -> list[Layer]:
    """Convolutions and pools, the layers that the paper divides."""
    return [layer for layer in layers if len(layer.shape) == 4]


def vgg16_convolution(name: str) -> Conv2d:
    (op,) = (layer.op.convolution for layer in vgg16() if layer.name == name)
    assert op is not None
    return op


@cache
def plan(strategy: str) -> PartitionPlan:
    """Convolutions and pools of VGG-16, divided by one of the three strategies."""
    layers = image_layers(vgg16())
    if strategy == BEST:
        return space(layers, CORES, ACTIVATIONS, strategies=TILES).best()
    return fixed_plan(layers, CORES, strategy)


def padded_reads(strategy: str) -> Iterator[tuple[str, int, int]]:
    """(layer, values read, values read without padding) of all cores together."""
    for planned in plan(strategy).layers:
        op = planned.layer.op.convolution or planned.layer.op.pooling
        assert op is not None
        padded = real = 0
        for part in planned.division.parts:
            terms = part.terms or Box.whole(op.terms)
            taps = terms.sides[1:] if op.convolution else [(0, k) for k in op.kernel]
            sides = [
                seen(side, taps[axis], op.stride[axis], op.padding[axis])
                for axis, side in enumerate(part.summed.sides[2:])
            ]
            box = op.needed(part.summed, part.terms)[0]
            padded += box.shape[1] * (sides[0][1] - sides[0][0]) * (sides[1][1] - sides[1][0])
            real += box.size
        yield planned.layer.name, padded, real
