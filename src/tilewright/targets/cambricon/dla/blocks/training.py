"""Gradients of fully-connected layers.

A block of training writes the gradient of what its forward block takes (`din`, and for weights `dw`
and `db`) from that of what it writes (`dout`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tilewright.targets.cambricon.dla.blocks.call import Block, BlockCall
from tilewright.targets.cambricon.dla.blocks.steps import Load, TileStep, write_steps
from tilewright.targets.cambricon.dla.builder import ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data


@dataclass(frozen=True)
class _Layer:
    """Checked operands of a fully-connected layer, and its buffers."""

    call: BlockCall
    din: Data
    dw: Data
    db: Data
    dout: Data
    source: Data
    weight: Data
    gradients: tuple[ScratchpadBuffer, ScratchpadBuffer]
    inputs: tuple[ScratchpadBuffer, ScratchpadBuffer]
    weights: tuple[ScratchpadBuffer, ScratchpadBuffer]
    sums: ScratchpadBuffer
    partial: ScratchpadBuffer
    biases: ScratchpadBuffer
    products: ScratchpadBuffer
    product: ScratchpadBuffer


def _fully_connected(call: BlockCall) -> None:
    """Write `fc_bp din, dw, db, dout, in, w`. Raises Fault."""
    layer = _checked(call)
    count_out, _, _, count_in = layer.weight.layout.counts
    batch = layer.dout.extents[0]
    call.require_tiles(count_in * count_out * batch)
    places = [(i, o, b) for i in range(count_in) for o in range(count_out) for b in range(batch)]
    steps = [_step(layer, place, number) for number, place in enumerate(places)]
    write_steps(call.builder, steps, 1)


def _checked(call: BlockCall) -> _Layer:
    din, db = call.output(0), call.output(2)
    dw, weight = call.written(1, "synapse"), call.data(5, "synapse")
    dout, source = call.data(3, "neuron"), call.data(4, "neuron")
    rows, _, _, columns = weight.extents
    part, depth, batch = weight.segments[0], weight.segments[3], source.extents[0]
    outputs = ((batch, 1, 1, rows), (1, 1, 1, part))
    inputs = ((batch, 1, 1, columns), (1, 1, 1, depth))
    wanted = [
        (0, din, inputs),
        (1, dw, (weight.extents, weight.segments)),
        (2, db, ((1, 1, 1, rows), (1, 1, 1, part))),
        (3, dout, outputs),
        (4, source, inputs),
        (5, weight, ((rows, 1, 1, columns), (part, 1, 1, depth))),
    ]
    for index, data, (extents, sizes) in wanted:
        call.require_shape(index, data, extents, sizes)
    return _with_buffers(call, (din, dw, db, dout, source, weight), part, depth)


def _with_buffers(
    call: BlockCall, data: tuple[Data, Data, Data, Data, Data, Data], part: int, depth: int
) -> _Layer:
    builder, (_, dw, _, dout, source, weight) = call.builder, data

    def two(name: str, memory: str, size: int) -> tuple[ScratchpadBuffer, ScratchpadBuffer]:
        return builder.buffer(f"{name} 0", memory, size), builder.buffer(f"{name} 1", memory, size)

    return _Layer(
        call, *data,
        two(dout.name, "vector", part),
        two(source.name, "vector", depth),
        two(weight.name, "matrix", part * depth),
        builder.buffer("sums", "vector", source.extents[0] * depth),
        builder.buffer("partial", "vector", depth),
        builder.buffer("biases", "vector", part),
        builder.buffer(dw.name, "matrix", part * depth),
        builder.buffer("product", "matrix", part * depth),
    )  # fmt: skip


def _step(layer: _Layer, place: tuple[int, int, int], number: int) -> TileStep:
    i, o, b = place
    rows, _, _, columns = layer.weight.layout.shape((o, 0, 0, i))
    loads = [
        _load(layer.gradients[number % 2], rows, layer.dout, (b, 0, 0, o)),
        _load(layer.inputs[number % 2], columns, layer.source, (b, 0, 0, i)),
    ]
    if b == 0:
        matrix = layer.weights[number // layer.dout.extents[0] % 2]
        loads.append(_load(matrix, rows * columns, layer.weight, (o, 0, 0, i)))
    return TileStep(tuple(loads), partial(_compute, layer, place, number), place)


def _load(buffer: ScratchpadBuffer, size: int, data: Data, index: tuple[int, ...]) -> Load:
    return Load(buffer.memory, buffer.address, size, data.name, data.layout.offset(index))


def _compute(layer: _Layer, place: tuple[int, int, int], number: int) -> None:
    """The products of one tile and one image, and what is complete with it stored."""
    (i, o, b), builder = place, layer.call.builder
    rows, _, _, columns = layer.weight.layout.shape((o, 0, 0, i))
    gradient, source = layer.gradients[number % 2], layer.inputs[number % 2]
    matrix = layer.weights[number // layer.dout.extents[0] % 2]
    sums = builder.constant(layer.sums.address + b * layer.weight.segments[3])
    builder.transposed_product(sums if o == 0 else layer.partial, columns, matrix, gradient, rows)
    if o:
        builder.vector("vav", sums, columns, sums, layer.partial)
    builder.outer_product(layer.product if b else layer.products, gradient, rows, source, columns)
    if b:
        size = rows * columns
        builder.vector("mam", layer.products, size, layer.products, layer.product)
    if i == 0:
        builder.vector("vav" if b else "vmove", layer.biases, rows,
                       *((layer.biases, gradient) if b else (gradient,)))  # fmt: skip
    _store(layer, place, (rows, columns))


def _store(layer: _Layer, place: tuple[int, int, int], sizes: tuple[int, int]) -> None:
    (i, o, b), (rows, columns), builder = place, sizes, layer.call.builder
    last = layer.dout.extents[0] - 1
    if b == last:
        offset = layer.dw.layout.offset((o, 0, 0, i))
        builder.store(layer.products, rows * columns, layer.dw.name, offset)
        if i == 0:
            offset = layer.db.layout.offset((0, 0, 0, o))
            builder.store(layer.biases, rows, layer.db.name, offset)
    if o == layer.weight.layout.counts[0] - 1:
        sums = builder.constant(layer.sums.address + b * layer.weight.segments[3])
        offset = layer.din.layout.offset((b, 0, 0, i))
        builder.store(sums, columns, layer.din.name, offset)


BLOCKS = {"fc_bp": Block((6, 6), "din, dw, db, dout, in, w", _fully_connected)}
