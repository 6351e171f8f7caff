"""Normalisation: across neighbouring channels (LRN), and by statistics of each channel (BN).

`lrn_fp`: s = k + alpha (sum of x^2 over n channels), y = x / s^beta.
`bn_fp`: y = (x - mean) gamma / sqrt(var + eps) + beta.
Constants are elements, 256 for 1.0. Powers and roots are exponentials of multiples of logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import ONE, Block, BlockCall, ResultTile
from tilewright.targets.cambricon.dla.blocks.elementwise import check_alike
from tilewright.targets.cambricon.dla.blocks.steps import Load, TileStep, write_steps
from tilewright.targets.cambricon.dla.builder import Builder, ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError


def power_in_place(builder: Builder, x: ScratchpadBuffer, size: int, exponent: int) -> None:
    """x = x^exponent for positive x, in place: tiles of all channels leave no room for temporaries.
    The exponent is an element.
    """
    factor = builder.scratch("exponent", size)
    builder.fill(factor, size, exponent)
    builder.vector("vlog", x, size, x)
    builder.vector("vmv", x, size, x, factor)
    builder.vector("vexp", x, size, x)


# ---------------------------------------------------------------- across channels


@dataclass(frozen=True)
class Neighbours:
    """The constants of LRN as elements, and the channels and pixels of a tile, which has all
    channels in segments of `part`.
    """

    count: int
    alpha: int
    beta: int
    k: int
    channels: int
    part: int
    pixels: int

    @property
    def size(self) -> int:
        """Elements of a tile."""
        return self.pixels * self.channels


def neighbours_of(call: BlockCall, data: Data, rows: int, first: int) -> Neighbours:
    """The constants from an argument on, for tiles of some rows. Raises Fault."""
    count = call.number(first, 1, 1)
    alpha, beta, k = (call.number(first + place, 0, 0) for place in (1, 2, 3))
    channels, part = data.extents[3], data.segments[3]
    call.require(
        count <= channels,
        DlaError.EXTENTS,
        f"the sum of {count} neighbouring channels, there are {channels}",
        first,
    )
    call.require(
        channels % part == 0 and data.segments[2] == data.extents[2],
        DlaError.SEGMENTS,
        f"the {data.places} is not in segments of whole rows and even parts of the channels",
        0,
    )
    return Neighbours(count, alpha, beta, k, channels, part, rows * data.extents[2])


def sum_neighbours(builder: Builder, x: ScratchpadBuffer, n: Neighbours) -> None:
    """x = the sums of x over neighbouring channels, pixel by pixel."""
    padded = builder.scratch("channels", n.channels + n.count - 1)
    total = builder.scratch("sum of channels", n.channels)
    builder.clear(padded, padded.size)
    before = builder.mark()
    pixel, place = builder.variable(x.address), builder.variable(0)
    segments = range(n.channels // n.part)
    with builder.loop(n.pixels):
        for s in segments:
            local = builder.constant(padded.address + n.count // 2 + s * n.part)
            builder.write(f"sadd {place}, {pixel}, #{s * n.pixels * n.part}")
            builder.vector("vmove", local, n.part, place)
        builder.vector("vmove", total, n.channels, padded)
        for shift in range(1, n.count):
            shifted = builder.constant(padded.address + shift)
            builder.vector("vav", total, n.channels, total, shifted)
        for s in segments:
            builder.write(f"sadd {place}, {pixel}, #{s * n.pixels * n.part}")
            source = builder.constant(total.address + s * n.part)
            builder.vector("vmove", place, n.part, source)
        builder.add(pixel, n.part)
    builder.release(before)


def response_divisors(builder: Builder, x: ScratchpadBuffer, n: Neighbours) -> ScratchpadBuffer:
    """s = k + alpha (sum of squares of neighbouring channels)."""
    found, factor = builder.scratch("squares", n.size), builder.scratch("exponent", n.size)
    builder.vector("vmv", found, n.size, x, x)
    sum_neighbours(builder, found, n)
    builder.fill(factor, n.size, n.alpha)
    builder.vector("vmv", found, n.size, found, factor)
    builder.vector("vas", found, n.size, found, f"#{n.k}")
    return found


def _lrn(call: BlockCall) -> None:
    """Write `lrn_fp out, in, #n, #alpha, #beta, #k`. Raises Fault."""
    out, source, builder = call.output(), call.data(1, "neuron"), call.builder
    check_alike(call, out, [source], DlaError.SEGMENTS)
    size = prod((*out.segments[:3], out.extents[3]))
    buffers = [builder.buffer(f"{source.name} {k}", "vector", size) for k in (0, 1)]
    steps = []
    for k, index in enumerate(rows_with_all_channels(out)):
        shape = (*out.layout.shape(index)[:3], out.extents[3])
        constants = neighbours_of(call, out, shape[0] * shape[1], 2)
        offset, buffer = out.layout.offset(index), buffers[k % 2]
        steps.append(
            TileStep(
                (Load("vector", buffer.address, prod(shape), source.name, offset),),
                partial(_normalised, call, constants, buffer, shape),
                (k % 2, shape),
                (call.target.name, call.target.layout.offset(index)),
            )
        )
    write_steps(builder, steps, 1)


def rows_with_all_channels(data: Data) -> list[tuple[int, ...]]:
    """The first segments of each group of rows: those of all channels lie behind it."""
    return [index for index in data.layout.indices() if index[3] == 0]


def _normalised(
    call: BlockCall, n: Neighbours, x: ScratchpadBuffer, shape: tuple[int, ...]
) -> ResultTile:
    builder = call.builder
    scale = response_divisors(builder, x, n)
    power_in_place(builder, scale, n.size, n.beta)
    builder.vector("vdv", x, n.size, x, scale)
    return call.complete(x, (shape[0] * shape[1], shape[2], shape[3]))


# ---------------------------------------------------------------- by statistics of a channel


@dataclass(frozen=True)
class Statistics:
    """Data of each channel in the vector scratchpad, by name, loaded once."""

    vectors: dict[str, ScratchpadBuffer]

    def part(self, builder: Builder, name: str, first: int) -> str:
        """The register with the place of a vector from a channel on."""
        return builder.constant(self.vectors[name].address + first)


def statistics(call: BlockCall, data: Data, indices: dict[str, int]) -> Statistics:
    """Load neurons of one element for each channel; `indices` are their arguments. Raises Fault."""
    channels, found = data.extents[3], {}
    for name, index in indices.items():
        given = call.data(index, "neuron")
        call.require(
            given.extents == (1, 1, 1, channels),
            DlaError.EXTENTS,
            f"the {given.places} does not have an element for each of {channels} channels",
            index,
            f"declare {given.name}, 1, 1, 1, {channels}",
        )
        found[name] = call.builder.buffer(name, "vector", channels)
        call.builder.load(found[name], channels, given.name, 0, "vector")
    return Statistics(found)


def invert_deviations(call: BlockCall, found: Statistics, channels: int, epsilon: int) -> None:
    """var = 1 / sqrt(var + epsilon)."""
    variance = found.vectors["variance"]
    call.builder.vector("vas", variance, channels, variance, f"#{epsilon}")
    power_in_place(call.builder, variance, channels, -ONE // 2)


def _batch(call: BlockCall) -> None:
    """Write `bn_fp out, in, gamma, beta, mean, var, #eps`. Raises Fault."""
    out, source, builder = call.output(), call.data(1, "neuron"), call.builder
    check_alike(call, out, [source], DlaError.SEGMENTS)
    channels = out.extents[3]
    names = {"gamma": 2, "beta": 3, "mean": 4, "variance": 5}
    found = statistics(call, out, names)
    invert_deviations(call, found, channels, call.number(6, 0, 0))
    gamma = found.vectors["gamma"]
    builder.vector("vmv", gamma, channels, gamma, found.vectors["variance"])
    size = prod(out.segments)
    buffers = [builder.buffer(f"{source.name} {k}", "vector", size) for k in (0, 1)]
    steps = []
    for k, index in enumerate(out.layout.indices()):
        shape, offset, buffer = out.layout.shape(index), out.layout.offset(index), buffers[k % 2]
        first = index[3] * out.segments[3]
        steps.append(
            TileStep(
                (Load("vector", buffer.address, prod(shape), source.name, offset),),
                partial(_scaled, call, found, (buffer, first), shape),
                (k % 2, shape, first),
                (call.target.name, offset),
            )
        )
    write_steps(builder, steps, out.layout.counts[3])


def _scaled(
    call: BlockCall, found: Statistics, place: tuple[ScratchpadBuffer, int], shape: tuple[int, ...]
) -> ResultTile:
    builder, (x, first), channels = call.builder, place, shape[3]
    before = builder.mark()
    pixel = builder.variable(x.address)
    with builder.loop(prod(shape[:3])):
        for mnemonic, name in (("vsv", "mean"), ("vmv", "gamma"), ("vav", "beta")):
            vector = found.part(builder, name, first)
            builder.vector(mnemonic, pixel, channels, pixel, vector)
        builder.add(pixel, channels)
    builder.release(before)
    return call.complete(x, (shape[0] * shape[1], shape[2], channels))


BLOCKS = {
    "lrn_fp": Block((6, 6), "out, in, #n, #alpha, #beta, #k", _lrn),
    "bn_fp": Block((7, 7), "out, in, gamma, beta, mean, var, #eps", _batch),
}
