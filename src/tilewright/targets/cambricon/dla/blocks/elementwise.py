"""Blocks that compute element by element: activations, and sums, products and quotients of neurons.

Each segment is loaded while the one before is computed. An activation may follow another block in
place, which is what fusion does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.targets.cambricon.dla.blocks.call import UNROLLED_TILES, Block, Call
from tilewright.targets.cambricon.dla.builder import Buffer, Builder
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError

InPlace = Callable[[Builder, Buffer | str, int], None]
ONE = 256
"""1.0 with the eight fraction bits of the family's machines."""


def relu(builder: Builder, x: Buffer | str, size: int) -> None:
    """x = max(x, 0)."""
    zero = builder.scratch("zero", size)
    builder.clear(zero, size)
    builder.vector("vgtm", x, size, x, zero)


def sigmoid(builder: Builder, x: Buffer | str, size: int) -> None:
    """x = e / (1 + e) with e = exp(x)."""
    exponential, divisor = builder.scratch("exponential", size), builder.scratch("divisor", size)
    builder.vector("vexp", exponential, size, x)
    builder.vector("vas", divisor, size, exponential, f"#{ONE}")
    builder.vector("vdv", x, size, exponential, divisor)


def tanh(builder: Builder, x: Buffer | str, size: int) -> None:
    """x = 2 sigmoid(2 x) - 1."""
    builder.vector("vav", x, size, x, x)
    sigmoid(builder, x, size)
    builder.vector("vav", x, size, x, x)
    builder.vector("vas", x, size, x, f"#{-ONE}")


def _activation(function: InPlace) -> Block:
    def lower(call: Call) -> None:
        _segments(call, 1, lambda builder, buffers, size: function(builder, buffers[0], size))

    return Block((2, 2), "out, in", lower, function)


def _binary(mnemonic: str) -> Block:
    def compute(builder: Builder, buffers: tuple[Buffer, ...], size: int) -> None:
        builder.vector(mnemonic, buffers[0], size, *buffers)

    return Block((3, 3), "out, in0, in1", partial(_segments, sources=2, compute=compute))


def _segments(
    call: Call,
    sources: int,
    compute: Callable[[Builder, tuple[Buffer, ...], int], None],
) -> None:
    """Load, compute and store segment after segment. Raises Fault."""
    out = call.output()
    given = [call.data(1 + k, "neuron") for k in range(sources)]
    for k, data in enumerate(given):
        call.require(
            (data.extents, data.segments) == (out.extents, out.segments),
            DlaError.SEGMENTS,
            f"the {data.places} is not divided as the {out.places}",
            1 + k,
            "declare both with the same extents and segment sizes",
        )
    layout = out.layout
    size = layout.size if layout.counts == (1, 1, 1, 1) else _largest(out)
    buffers = [
        tuple(call.builder.buffer(f"{data.name} {k}", "vector", size) for data in given)
        for k in (0, 1)
    ]
    if layout.is_even and layout.size // size > UNROLLED_TILES:
        _looped(call, out, given, buffers, size, compute)
    else:
        _unrolled(call, out, given, buffers, compute)
    call.builder.check(f"segments of {_fitting(call, len(call.builder.buffers))} elements fit")


def _largest(out: Data) -> int:
    a, b, c, d = out.segments
    return a * b * c * d


def _fitting(call: Call, buffers: int) -> int:
    return call.builder.capacities["vector"] // buffers


def _unrolled(
    call: Call,
    out: Data,
    given: list[Data],
    buffers: list[tuple[Buffer, ...]],
    compute: Callable[[Builder, tuple[Buffer, ...], int], None],
) -> None:
    builder, layout = call.builder, out.layout
    tiles = []
    for index in layout.indices():
        a, b, c, d = layout.shape(index)
        tiles.append((layout.offset(index), a * b * c * d))

    def load(k: int) -> None:
        offset, size = tiles[k]
        for buffer, data in zip(buffers[k % 2], given, strict=True):
            builder.load(buffer, size, data.name, offset, "vector")

    load(0)
    for k, (offset, size) in enumerate(tiles):
        if k + 1 < len(tiles):
            load(k + 1)
        compute(builder, buffers[k % 2], size)
        call.complete(buffers[k % 2][0], size)
        builder.store(buffers[k % 2][0], size, out.name, offset)


def _looped(
    call: Call,
    out: Data,
    given: list[Data],
    buffers: list[tuple[Buffer, ...]],
    size: int,
    compute: Callable[[Builder, tuple[Buffer, ...], int], None],
) -> None:
    """The same as a loop over segments of one size, the next one loaded first."""
    builder, count = call.builder, out.layout.size // size
    sources = [builder.variable(data.name) for data in given]
    target = builder.variable(out.name)

    def load(k: int) -> None:
        for buffer, register in zip(buffers[k], sources, strict=True):
            builder.load_at(buffer, size, register, "vector")
            builder.add(register, size)

    def finish(k: int) -> None:
        compute(builder, buffers[k], size)
        call.complete(buffers[k][0], size)
        builder.store_at(buffers[k][0], size, target)
        builder.add(target, size)

    load(0)
    with builder.loop((count - 1) // 2):
        for k in (0, 1):
            load(1 - k)
            finish(k)
    if count % 2 == 0:
        load(1)
        finish(0)
    finish(1 - count % 2)


BLOCKS = {
    "relu_fp": _activation(relu),
    "sigmoid_fp": _activation(sigmoid),
    "tanh_fp": _activation(tanh),
    "vadd": _binary("vav"),
    "vsub": _binary("vsv"),
    "vmul": _binary("vmv"),
    "vdiv": _binary("vdv"),
}
