"""Gradients of normalisation.

`lrn_bp`: dx = dy / s^beta - 2 alpha beta x (sum of dy y / s over n channels), s as in `lrn_fp`.
`bn_bp`: dgamma = sum of dy z, dbeta = sum of dy, dx = (dy - dbeta / m - z dgamma / m) gamma / d,
with the deviation d, z = (x - mean) / d, and m elements of each channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import ONE, Block, BlockCall, ResultTile
from tilewright.targets.cambricon.dla.blocks.elementwise import check_alike
from tilewright.targets.cambricon.dla.blocks.normalisation import (
    Neighbours,
    Statistics,
    invert_deviations,
    neighbours_of,
    power_in_place,
    response_divisors,
    rows_with_all_channels,
    statistics,
    sum_neighbours,
)
from tilewright.targets.cambricon.dla.blocks.steps import Load, TileStep, write_steps
from tilewright.targets.cambricon.dla.builder import ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError

_LARGEST_FACTOR = 127
"""The largest number that is an element."""


def _lrn(call: BlockCall) -> None:
    """Write `lrn_bp din, dout, in, out, #n, #alpha, #beta, #k`. Raises Fault."""
    din = call.output()
    given = [call.data(k, "neuron") for k in (1, 2, 3)]
    check_alike(call, din, given, DlaError.SEGMENTS)
    size = prod((*din.segments[:3], din.extents[3]))
    buffers = _buffers(call, given, size)
    steps = []
    for k, index in enumerate(rows_with_all_channels(din)):
        shape = (*din.layout.shape(index)[:3], din.extents[3])
        constants = neighbours_of(call, din, shape[0] * shape[1], 4)
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
    call: BlockCall, n: Neighbours, buffers: tuple[ScratchpadBuffer, ...], shape: tuple[int, ...]
) -> ResultTile:
    builder, (gradient, x, out) = call.builder, buffers
    scale = response_divisors(builder, x, n)
    builder.vector("vmv", out, n.size, gradient, out)
    builder.vector("vdv", out, n.size, out, scale)
    sum_neighbours(builder, out, n)
    builder.vector("vmv", out, n.size, out, x)
    factor = builder.scratch("exponent", n.size)
    builder.fill(factor, n.size, (2 * n.alpha * n.beta + ONE // 2) // ONE)
    builder.vector("vmv", out, n.size, out, factor)
    power_in_place(builder, scale, n.size, n.beta)
    builder.vector("vdv", gradient, n.size, gradient, scale)
    builder.vector("vsv", gradient, n.size, gradient, out)
    return ResultTile(gradient, (shape[0] * shape[1], shape[2], shape[3]), 0)


@dataclass(frozen=True)
class _Batch:
    """Checked operands of `bn_bp`, and what is known of each channel."""

    call: BlockCall
    din: Data
    given: list[Data]
    found: Statistics
    sums: tuple[ScratchpadBuffer, ScratchpadBuffer]

    def on_channels(self, mnemonic: str, out: ScratchpadBuffer, *sources: ScratchpadBuffer) -> None:
        """A vector operation on all channels."""
        self.call.builder.vector(mnemonic, out, self.din.extents[3], *sources)


def _batch(call: BlockCall) -> None:
    """Write `bn_bp din, dgamma, dbeta, dout, in, gamma, mean, var, #eps`. Raises Fault."""
    din, builder, channels = call.output(0), call.builder, call.output(0).extents[3]
    written = call.output(1), call.output(2)
    for index, data in enumerate(written, 1):
        call.require_shape(index, data, (1, 1, 1, channels), data.segments)
    given = [call.data(3, "neuron"), call.data(4, "neuron")]
    check_alike(call, din, given, DlaError.SEGMENTS)
    factors = _factors(call, prod(din.extents[:3]))
    found = statistics(call, din, {"gamma": 5, "mean": 6, "variance": 7})
    invert_deviations(call, found, channels, call.number(8, 0, 0))
    sums = builder.buffer("dgamma", "vector", channels), builder.buffer("dbeta", "vector", channels)
    batch = _Batch(call, din, given, found, sums)
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
    """Numbers up to the largest element whose product is the number of pixels. Raises Fault."""
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


def _divide(batch: _Batch, sums: ScratchpadBuffer, factors: list[int]) -> None:
    channels, builder = batch.din.extents[3], batch.call.builder
    divisor = builder.scratch("divisor", channels)
    for factor in factors:
        builder.fill(divisor, channels, factor * ONE)
        batch.on_channels("vdv", sums, sums, divisor)


def _pass(batch: _Batch, buffers: list[tuple[ScratchpadBuffer, ...]], *, stores: bool) -> None:
    """Once over all segments: to add up gradients of a channel, or to store those of the input."""
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
    batch: _Batch,
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
    batch: _Batch, registers: tuple[str, str], first: int, channels: int, stores: bool
) -> None:
    """One pixel: the gradient and the normalised input, both in place."""
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
    "lrn_bp": Block((8, 8), "din, dout, in, out, #n, #alpha, #beta, #k", _lrn),
    "bn_bp": Block((9, 9), "din, dgamma, dbeta, dout, in, gamma, mean, var, #eps", _batch),
}
