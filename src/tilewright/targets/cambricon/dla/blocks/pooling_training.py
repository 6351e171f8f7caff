"""Gradients of pooling, for segments that hold whole windows that do not overlap, or whole images.

The gradient of a maximum goes to every element of the window that equals it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import ONE, Block, BlockCall, ResultTile
from tilewright.targets.cambricon.dla.blocks.pooling import check_windows, require_whole_windows
from tilewright.targets.cambricon.dla.blocks.rows import Window
from tilewright.targets.cambricon.dla.blocks.steps import Load, TileStep, write_steps
from tilewright.targets.cambricon.dla.builder import Builder, ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data


@dataclass(frozen=True)
class _Tile:
    """The buffers of a segment and what they hold: input rows and results with their gradients."""

    din: ScratchpadBuffer
    dout: ScratchpadBuffer
    source: ScratchpadBuffer
    out: ScratchpadBuffer
    mask: ScratchpadBuffer
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]


def _lower(call: BlockCall, names: tuple[str, ...], is_mean: bool) -> None:
    """Write `maxpool_bp din, dout, in, out, #ky, #kx, #sy, #sx` or `avgpool_bp din, dout, ..`."""
    given = {name: call.data(k, "neuron") for k, name in enumerate(names)}
    din, dout = call.output(), given["dout"]
    window = check_windows(call, dout, din, len(names), 1)
    require_whole_windows(call, window, dout, din, 1)
    for name, like in (("in", din), ("out", dout)):
        if name in given:
            call.require_shape(names.index(name), given[name], like.extents, like.segments)
    buffers = [
        {
            name: call.builder.buffer(f"{data.name} {k}", "vector", prod(data.segments))
            for name, data in given.items()
        }
        for k in (0, 1)
    ]
    mask = call.builder.buffer("mask", "vector", dout.segments[3])
    steps = []
    for k, index in enumerate(dout.layout.indices()):
        own = buffers[k % 2]
        tile = _Tile(
            own["din"], own["dout"], own.get("in", own["din"]), own.get("out", own["dout"]), mask,
            din.layout.shape(index), dout.layout.shape(index),
        )  # fmt: skip
        loads = tuple(
            _load(own[name], data, index) for name, data in given.items() if name != "din"
        )
        work = partial(_compute, call, window, tile, is_mean)
        steps.append(TileStep(loads, work, (index, k), (din.name, din.layout.offset(index))))
    write_steps(call.builder, steps, 1)


def _load(buffer: ScratchpadBuffer, data: Data, index: tuple[int, ...]) -> Load:
    size, offset = prod(data.layout.shape(index)), data.layout.offset(index)
    return Load("vector", buffer.address, size, data.name, offset)


def _compute(call: BlockCall, window: Window, tile: _Tile, is_mean: bool) -> ResultTile:
    builder, size = call.builder, prod(tile.out_shape)
    builder.clear(tile.din, prod(tile.in_shape))
    if is_mean:
        divisor = builder.scratch("divisor of means", size)
        builder.fill(divisor, size, prod(window.extents) * ONE)
        builder.vector("vdv", tile.dout, size, tile.dout, divisor)
    _windows(builder, window, tile, is_mean)
    _, rows, columns, channels = tile.in_shape
    return ResultTile(tile.din, (rows, columns, channels), 0)


def _windows(builder: Builder, window: Window, tile: _Tile, is_mean: bool) -> None:
    """A loop over the windows; offsets are counted from the beginning of the segment."""
    _, rows, columns, channels = tile.out_shape
    line = tile.in_shape[2] * channels
    before = builder.mark()
    top, result, corner, place = (builder.variable(0) for _ in range(4))
    other = builder.variable(0)
    with builder.loop(rows):
        builder.copy(corner, top)
        with builder.loop(columns):
            for element in range(prod(window.extents)):
                row, column = divmod(element, window.extents[1])
                distance = row * line + column * channels
                _element(builder, tile, (corner, distance), (result, place, other), is_mean)
            builder.add(corner, window.steps[1] * channels)
            builder.add(result, channels)
        builder.add(top, window.steps[0] * line)
    builder.release(before)


def _element(
    builder: Builder,
    tile: _Tile,
    source: tuple[str, int],
    registers: tuple[str, str, str],
    is_mean: bool,
) -> None:
    """Add one window element's share of the gradient; `source`: the corner, and how far from it."""
    (corner, distance), (result, place, other), size = source, registers, tile.out_shape[3]
    share: ScratchpadBuffer | str = other
    if is_mean:
        builder.write(f"sadd {other}, {result}, #{tile.dout.address}")
    else:
        builder.write(f"sadd {place}, {corner}, #{tile.source.address + distance}")
        builder.write(f"sadd {other}, {result}, #{tile.out.address}")
        builder.vector("ve", tile.mask, size, place, other)
        builder.write(f"sadd {other}, {result}, #{tile.dout.address}")
        builder.vector("vmv", tile.mask, size, tile.mask, other)
        share = tile.mask
    builder.write(f"sadd {place}, {corner}, #{tile.din.address + distance}")
    builder.vector("vav", place, size, place, share)


BLOCKS = {
    "maxpool_bp": Block(
        (8, 8),
        "din, dout, in, out, #ky, #kx, #sy, #sx",
        partial(_lower, names=("din", "dout", "in", "out"), is_mean=False),
    ),
    "avgpool_bp": Block(
        (6, 6),
        "din, dout, #ky, #kx, #sy, #sx",
        partial(_lower, names=("din", "dout"), is_mean=True),
    ),
}
