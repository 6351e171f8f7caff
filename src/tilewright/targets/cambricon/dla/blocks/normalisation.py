"""Normalisation: across neighbouring channels (LRN), and by statistics of each channel (BN).

`lrn_fp`: s = k + alpha (sum of x^2 over n channels), y = x / s^beta.
`bn_fp`: y = (x - mean) gamma / sqrt(var + eps) + beta.
`lrn_bp`: dx = dy / s^beta - 2 alpha beta x (sum of dy y / s over n channels).
`bn_bp`: dgamma = sum of dy z, dbeta = sum of dy, dx = (dy - dbeta / m - z dgamma / m) gamma / d,
with the deviation d, z = (x - mean) / d, and m elements of each channel.
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

_LARGEST_FACTOR = 127
"""The largest integer that an element represents."""


def _power_in_place(builder: Builder, x: ScratchpadBuffer, size: int, exponent: int) -> None:
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
class _Neighbours:
    """LRN's constants as elements, and the size of a tile, which has all channels in segments of
    `part`.
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


def _neighbours_of(call: BlockCall, data: Data, rows: int, first: int) -> _Neighbours:
    """The constants from argument `first` on, for tiles of some rows. Raises Fault."""
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
    return _Neighbours(count, alpha, beta, k, channels, part, rows * data.extents[2])


def _sum_neighbours(builder: Builder, x: ScratchpadBuffer, n: _Neighbours) -> None:
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


def _response_divisors(builder: Builder, x: ScratchpadBuffer, n: _Neighbours) -> ScratchpadBuffer:
    """s = k + alpha (sum of squares of neighbouring channels)."""
    found, factor = builder.scratch("squares", n.size), builder.scratch("exponent", n.size)
    builder.vector("vmv", found, n.size, x, x)
    _sum_neighbours(builder, found, n)
    builder.fill(factor, n.size, n.alpha)
    builder.vector("vmv", found, n.size, found, factor)
    builder.vector("vas", found, n.size, found, f"#{n.k}")
    return found


def _lrn(call: BlockCall) -> None:
    """Write `lrn_fp out, in, #n, #alpha, #beta, #k`. Raises Fault."""
    out, source, builder = call.output(), call.data(1, "neuron"), call.builder
    check_alike(call, out, [source], DlaError.SEGMENTS)
    size = prod((*out.segments[:3], out.extents[3]))
    buffers = builder.two(source.name, "vector", size)
    steps = []
    for k, index in enumerate(_rows_with_all_channels(out)):
        shape = (*out.layout.shape(index)[:3], out.extents[3])
        constants = _neighbours_of(call, out, shape[0] * shape[1], 2)
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


def _rows_with_all_channels(data: Data) -> list[tuple[int, ...]]:
    """The first segment of each group of rows; segments of all channels follow it."""
    return [index for index in data.layout.indices() if index[3] == 0]


def _normalised(
    call: BlockCall, n: _Neighbours, x: ScratchpadBuffer, shape: tuple[int, ...]
) -> ResultTile:
    builder = call.builder
    scale = _response_divisors(builder, x, n)
    _power_in_place(builder, scale, n.size, n.beta)
    builder.vector("vdv", x, n.size, x, scale)
    return call.complete(x, (shape[0] * shape[1], shape[2], shape[3]))


# ---------------------------------------------------------------- by statistics of a channel


@dataclass(frozen=True)
class _Statistics:
    """Per-channel data in the vector scratchpad, by name, loaded once."""

    vectors: dict[str, ScratchpadBuffer]

    def part(self, builder: Builder, name: str, first: int) -> str:
        """The register with the address of a vector from a channel on."""
        return builder.constant(self.vectors[name].address + first)


def _statistics(call: BlockCall, data: Data, indices: dict[str, int]) -> _Statistics:
    """Load neurons with one element per channel; `indices` are their arguments. Raises Fault."""
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
    return _Statistics(found)


def _invert_deviations(call: BlockCall, found: _Statistics, channels: int, epsilon: int) -> None:
    """var = 1 / sqrt(var + epsilon)."""
    variance = found.vectors["variance"]
    call.builder.vector("vas", variance, channels, variance, f"#{epsilon}")
    _power_in_place(call.builder, variance, channels, -ONE // 2)


def _batch(call: BlockCall) -> None:
    """Write `bn_fp out, in, gamma, beta, mean, var, #eps`. Raises Fault."""
    out, source, builder = call.output(), call.data(1, "neuron"), call.builder
    check_alike(call, out, [source], DlaError.SEGMENTS)
    channels = out.extents[3]
    names = {"gamma": 2, "beta": 3, "mean": 4, "variance": 5}
    found = _statistics(call, out, names)
    _invert_deviations(call, found, channels, call.number(6, 0, 0))
    gamma = found.vectors["gamma"]
    builder.vector("vmv", gamma, channels, gamma, found.vectors["variance"])
    size = prod(out.segments)
    buffers = builder.two(source.name, "vector", size)
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
    call: BlockCall, found: _Statistics, place: tuple[ScratchpadBuffer, int], shape: tuple[int, ...]
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


# ---------------------------------------------------------------- gradients


def _lrn_gradient(call: BlockCall) -> None:
    """Write `lrn_bp din, dout, in, out, #n, #alpha, #beta, #k`. Raises Fault."""
    din = call.output()
    given = [call.data(k, "neuron") for k in (1, 2, 3)]
    check_alike(call, din, given, DlaError.SEGMENTS)
    size = prod((*din.segments[:3], din.extents[3]))
    buffers = _buffers(call, given, size)
    steps = []
    for k, index in enumerate(_rows_with_all_channels(din)):
        shape = (*din.layout.shape(index)[:3], din.extents[3])
        constants = _neighbours_of(call, din, shape[0] * shape[1], 4)
        offset = din.layout.offset(index)
        steps.append(
            TileStep(
                _loads(buffers[k % 2], given, prod(shape), offset),
                partial(_lrn_tile, call, constants, buffers[k % 2], shape),
                (k % 2, shape),
                (din.name, offset),
            )
        )
    write_steps(call.builder, steps, 1)


def _buffers(call: BlockCall, given: list[Data], size: int) -> list[tuple[ScratchpadBuffer, ...]]:
    return [
        tuple(call.builder.buffer(f"{data.name} {k}", "vector", size) for data in given)
        for k in (0, 1)
    ]


def _loads(
    buffers: tuple[ScratchpadBuffer, ...], given: list[Data], size: int, offset: int
) -> tuple[Load, ...]:
    pairs = zip(buffers, given, strict=True)
    return tuple(Load("vector", b.address, size, data.name, offset) for b, data in pairs)


def _lrn_tile(
    call: BlockCall, n: _Neighbours, buffers: tuple[ScratchpadBuffer, ...], shape: tuple[int, ...]
) -> ResultTile:
    builder, (gradient, x, out) = call.builder, buffers
    scale = _response_divisors(builder, x, n)
    builder.vector("vmv", out, n.size, gradient, out)
    builder.vector("vdv", out, n.size, out, scale)
    _sum_neighbours(builder, out, n)
    builder.vector("vmv", out, n.size, out, x)
    factor = builder.scratch("exponent", n.size)
    builder.fill(factor, n.size, (2 * n.alpha * n.beta + ONE // 2) // ONE)
    builder.vector("vmv", out, n.size, out, factor)
    _power_in_place(builder, scale, n.size, n.beta)
    builder.vector("vdv", gradient, n.size, gradient, scale)
    builder.vector("vsv", gradient, n.size, gradient, out)
    return ResultTile(gradient, (shape[0] * shape[1], shape[2], shape[3]), 0)


@dataclass(frozen=True)
class _Training:
    """Checked operands of `bn_bp`, and per-channel statistics."""

    call: BlockCall
    din: Data
    given: list[Data]
    found: _Statistics
    sums: tuple[ScratchpadBuffer, ScratchpadBuffer]

    def on_channels(self, mnemonic: str, out: ScratchpadBuffer, *sources: ScratchpadBuffer) -> None:
        """A vector operation on all channels."""
        self.call.builder.vector(mnemonic, out, self.din.extents[3], *sources)


def _batch_gradient(call: BlockCall) -> None:
    """Write `bn_bp din, dgamma, dbeta, dout, in, gamma, mean, var, #eps`. Raises Fault."""
    din, builder, channels = call.output(0), call.builder, call.output(0).extents[3]
    written = call.output(1), call.output(2)
    for index, data in enumerate(written, 1):
        call.require_shape(index, data, (1, 1, 1, channels), data.segments)
    given = [call.data(3, "neuron"), call.data(4, "neuron")]
    check_alike(call, din, given, DlaError.SEGMENTS)
    factors = _factors(call, prod(din.extents[:3]))
    found = _statistics(call, din, {"gamma": 5, "mean": 6, "variance": 7})
    _invert_deviations(call, found, channels, call.number(8, 0, 0))
    sums = builder.buffer("dgamma", "vector", channels), builder.buffer("dbeta", "vector", channels)
    batch = _Training(call, din, given, found, sums)
    buffers = _buffers(call, given, prod(din.segments))
    for one in sums:
        builder.clear(one, channels)
    _pass(batch, buffers, stores=False)
    for one, data in zip(sums, written, strict=True):
        builder.store(one, channels, data.name, 0)
        _divide(batch, one, factors)
    gamma = found.vectors["gamma"]
    batch.on_channels("vmv", gamma, gamma, found.vectors["variance"])
    _pass(batch, buffers, stores=True)


def _factors(call: BlockCall, count: int) -> list[int]:
    """Factors with the number of pixels as product, none too large for an element. Raises Fault."""
    found, left = [], count
    while left > 1:
        factor = next(f for f in range(_LARGEST_FACTOR, 0, -1) if left % f == 0)
        call.require(
            factor > 1,
            DlaError.EXTENTS,
            f"{count} elements in each channel: their number has a prime factor above "
            f"{_LARGEST_FACTOR}",
            0,
        )
        found.append(factor)
        left //= factor
    return found


def _divide(batch: _Training, sums: ScratchpadBuffer, factors: list[int]) -> None:
    channels, builder = batch.din.extents[3], batch.call.builder
    divisor = builder.scratch("divisor", channels)
    for factor in factors:
        builder.fill(divisor, channels, factor * ONE)
        batch.on_channels("vdv", sums, sums, divisor)


def _pass(batch: _Training, buffers: list[tuple[ScratchpadBuffer, ...]], *, stores: bool) -> None:
    """One pass over all segments, to accumulate a channel's gradients or to store the input's."""
    din, steps = batch.din, []
    for k, index in enumerate(din.layout.indices()):
        shape, offset = din.layout.shape(index), din.layout.offset(index)
        first = index[3] * din.segments[3]
        steps.append(
            TileStep(
                _loads(buffers[k % 2], batch.given, prod(shape), offset),
                partial(_batch_tile, batch, buffers[k % 2], first, shape, stores),
                (k % 2, shape, first),
                (din.name, offset) if stores else None,
            )
        )
    write_steps(batch.call.builder, steps, din.layout.counts[3])


def _batch_tile(
    batch: _Training,
    buffers: tuple[ScratchpadBuffer, ...],
    first: int,
    shape: tuple[int, ...],
    stores: bool,
) -> ResultTile:
    builder, channels = batch.call.builder, shape[3]
    before = builder.mark()
    gradient, x = (builder.variable(buffer.address) for buffer in buffers)
    with builder.loop(prod(shape[:3])):
        mean, inverse = (batch.found.part(builder, name, first) for name in ("mean", "variance"))
        builder.vector("vsv", x, channels, x, mean)
        builder.vector("vmv", x, channels, x, inverse)
        _pixel(batch, (gradient, x), first, channels, stores)
        builder.add(gradient, channels)
        builder.add(x, channels)
    builder.release(before)
    return ResultTile(buffers[0], (shape[0] * shape[1], shape[2], channels), 0)


def _pixel(
    batch: _Training, registers: tuple[str, str], first: int, channels: int, stores: bool
) -> None:
    """One pixel: its gradient and normalised input, both in place."""
    builder, (gradient, x) = batch.call.builder, registers
    dgamma, dbeta = (builder.constant(one.address + first) for one in batch.sums)
    if not stores:
        builder.vector("vmv", x, channels, gradient, x)
        builder.vector("vav", dgamma, channels, dgamma, x)
        builder.vector("vav", dbeta, channels, dbeta, gradient)
        return
    builder.vector("vmv", x, channels, x, dgamma)
    builder.vector("vsv", gradient, channels, gradient, dbeta)
    builder.vector("vsv", gradient, channels, gradient, x)
    scale = batch.found.part(builder, "gamma", first)
    builder.vector("vmv", gradient, channels, gradient, scale)


BLOCKS = {
    "lrn_fp": Block((6, 6), "out, in, #n, #alpha, #beta, #k", _lrn),
    "bn_fp": Block((7, 7), "out, in, gamma, beta, mean, var, #eps", _batch),
    "lrn_bp": Block((8, 8), "din, dout, in, out, #n, #alpha, #beta, #k", _lrn_gradient),
    "bn_bp": Block((9, 9), "din, dgamma, dbeta, dout, in, gamma, mean, var, #eps", _batch_gradient),
}
