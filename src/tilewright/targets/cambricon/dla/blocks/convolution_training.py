"""Gradients of convolutions, image by image: whole padded images of some channels stay on chip.

For each segment of input channels and of output channels, each pixel of the gradient is multiplied
with the weights, which is added to the gradient of its window, and with its window, which is added
to the gradient of the weights. Both are rounded once for each pixel and added with saturation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import Block, BlockCall
from tilewright.targets.cambricon.dla.blocks.convolution import (
    ConvolutionOperands,
    check_operands,
    window_of,
)
from tilewright.targets.cambricon.dla.blocks.rows import row_loads
from tilewright.targets.cambricon.dla.blocks.steps import Load, TileStep, write_steps
from tilewright.targets.cambricon.dla.builder import ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data


@dataclass(frozen=True)
class _Buffers:
    """In the vector scratchpad, except for weights, their gradient and the products of a pixel."""

    source: ScratchpadBuffer
    din: ScratchpadBuffer
    gradient: ScratchpadBuffer
    window: ScratchpadBuffer
    back: ScratchpadBuffer
    biases: ScratchpadBuffer
    weights: ScratchpadBuffer
    dw: ScratchpadBuffer
    product: ScratchpadBuffer


@dataclass(frozen=True)
class _Training:
    """Checked operands: the layer, whose output is `dout`, and the gradients that are written."""

    layer: ConvolutionOperands
    din: Data
    dw: Data
    db: Data
    buffers: _Buffers

    def offset(self, o: int, c: int) -> int:
        """Where a segment of the weights lies, and of their gradient."""
        return self.layer.weight.layout.offset((o, 0, 0, c))

    @property
    def places(self) -> Iterator[tuple[int, int, int]]:
        """Images, segments of input and of output channels, one after the other."""
        counts = self.layer.weight.layout.counts
        for b in range(self.layer.source.extents[0]):
            for c in range(counts[3]):
                for o in range(counts[0]):
                    yield b, c, o


def _lower(call: BlockCall) -> None:
    """Write `conv_bp din, dw, db, dout, in, w, #sy, #sx[, #ph, #pw]`. Raises Fault."""
    training = _checked(call)
    counts = training.layer.weight.layout.counts
    call.require_tiles(training.layer.source.extents[0] * counts[0] * counts[3])
    write_steps(call.builder, [_step(training, place) for place in training.places], 1)


def _checked(call: BlockCall) -> _Training:
    din, dw, db = call.output(0), call.written(1, "synapse"), call.output(2)
    dout, source, weight = call.data(3, "neuron"), call.data(4, "neuron"), call.data(5, "synapse")
    layer = ConvolutionOperands(call, dout, source, weight, None, window_of(call, weight, 6))
    check_operands(layer, (3, 4, 5, 5))
    call.require_shape(0, din, source.extents, source.segments)
    call.require_shape(1, dw, weight.extents, weight.segments)
    part = weight.segments[0]
    call.require_shape(2, db, (1, 1, 1, weight.extents[0]), (1, 1, 1, part))
    return _Training(layer, din, dw, db, _allocated(layer))


def _allocated(layer: ConvolutionOperands) -> _Buffers:
    builder, depth, part = layer.call.builder, layer.weight.segments[3], layer.weight.segments[0]
    image = _rows(layer) * layer.window.line(layer.source, depth)
    taps, names = layer.taps * depth, (layer.source.name, layer.out.name, layer.weight.name)
    found = _Buffers(
        builder.buffer(names[0], "vector", image),
        builder.buffer(f"gradient of {names[0]}", "vector", image),
        builder.buffer(names[1], "vector", prod(layer.out.extents[1:3]) * part),
        builder.buffer("window", "vector", taps),
        builder.buffer("gradient of window", "vector", taps),
        builder.buffer("biases", "vector", part),
        builder.buffer(names[2], "matrix", part * taps),
        builder.buffer(f"gradient of {names[2]}", "matrix", part * taps),
        builder.buffer("product", "matrix", part * taps),
    )
    builder.check(_fitting(layer))
    return found


def _rows(layer: ConvolutionOperands) -> int:
    return layer.source.extents[1] + 2 * layer.window.padding[0]


def _fitting(layer: ConvolutionOperands) -> str:
    """Segments of channels with which whole images fit, by halving the larger share."""
    part, depth = layer.weight.segments[::3]
    capacity, pixels = layer.call.builder.capacities, prod(layer.out.extents[1:3])
    image = _rows(layer) * layer.window.line(layer.source, 1)

    def fits() -> bool:
        vector = 2 * (image + layer.taps) * depth + (pixels + 1) * part
        return vector <= capacity["vector"] and 3 * part * depth * layer.taps <= capacity["matrix"]

    while not fits():
        if part == depth == 1:
            return "no segment sizes fit: divide the layer"
        if part == 1 or (2 * image * depth >= pixels * part and depth > 1):
            depth = -(-depth // 2)
        else:
            part = -(-part // 2)
    return f"segments of {part} output and {depth} input channels fit"


def _step(training: _Training, place: tuple[int, int, int]) -> TileStep:
    """One pair of segments. Its data is used at once: there is one buffer of each."""
    (b, c, o), layer, buffers = place, training.layer, training.buffers
    shape, offset = layer.weight.layout.shape((o, 0, 0, c)), training.offset(o, c)
    is_last = o == layer.weight.layout.counts[0] - 1
    loads = _gradient_loads(training, b, o)
    if o == 0:
        height, first = _rows(layer), -layer.window.padding[0]
        loads += row_loads(layer.source, buffers.source, layer.window, (b, c), first, height)
    size, name = prod(shape), layer.weight.name
    loads.append(Load("matrix", buffers.weights.address, size, name, offset))
    dw = Load("matrix", buffers.dw.address, size, training.dw.name, offset)
    bias_offset = training.db.layout.offset((0, 0, 0, o))
    db = Load("vector", buffers.biases.address, shape[0], training.db.name, bias_offset)
    sums = (dw, db) if c == 0 else (dw,)
    return TileStep(
        (),
        partial(_compute, training, place),
        (b > 0, c == 0, o == 0, is_last, shape),
        needs=(*loads, *(sums if b else ())),
        stores=(*sums, *(_image_stores(training, b, c) if is_last else ())),
        first=partial(_clear_images, training, o),
    )


def _clear_images(training: _Training, o: int) -> None:
    """Zeros in the padded image and in its gradient, ahead of its first output channels."""
    for image in (training.buffers.source, training.buffers.din) if o == 0 else ():
        training.layer.call.builder.clear(image, image.size)


def _gradient_loads(training: _Training, b: int, o: int) -> list[Load]:
    """The gradient of an image of some output channels, row segment after row segment."""
    out, local, found = training.layer.out, training.buffers.gradient.address, []
    for h in range(out.layout.counts[1]):
        index = (b, h, 0, o)
        size = prod(out.layout.shape(index))
        found.append(Load("vector", local, size, out.name, out.layout.offset(index)))
        local += size
    return found


def _compute(training: _Training, place: tuple[int, int, int]) -> None:
    (b, c, o), layer, buffers = place, training.layer, training.buffers
    builder, shape = layer.call.builder, layer.weight.layout.shape((o, 0, 0, c))
    if not b:
        builder.vector("msm", buffers.dw, prod(shape), buffers.weights, buffers.weights)
        if c == 0:
            builder.clear(buffers.biases, shape[0])
    _pixels(training, shape, with_biases=c == 0)


def _pixels(training: _Training, shape: tuple[int, ...], *, with_biases: bool) -> None:
    """A loop over the pixels of the gradient."""
    layer, buffers, builder = training.layer, training.buffers, training.layer.call.builder
    line, (rows, columns) = layer.window.line(layer.source, shape[3]), layer.out.extents[1:3]
    before = builder.mark()
    gradient, top = builder.variable(buffers.gradient.address), builder.variable(0)
    corner, place = builder.variable(0), builder.variable(0)
    with builder.loop(rows):
        builder.copy(corner, top)
        with builder.loop(columns):
            if with_biases:
                biases = buffers.biases
                builder.vector("vav", biases, shape[0], biases, gradient)
            _pixel(training, shape, (gradient, corner, place), line)
            builder.add(gradient, shape[0])
            builder.add(corner, layer.window.steps[1] * shape[3])
        builder.add(top, layer.window.steps[0] * line)
    builder.release(before)


def _pixel(
    training: _Training, shape: tuple[int, ...], registers: tuple[str, str, str], line: int
) -> None:
    """One pixel: its window is gathered, both products are added, the window's is scattered."""
    buffers, builder = training.buffers, training.layer.call.builder
    (gradient, corner, place), (part, rows, columns, depth) = registers, shape
    row_size, taps = columns * depth, rows * columns * depth
    for k in range(rows):
        target = builder.constant(buffers.window.address + k * row_size)
        builder.write(f"sadd {place}, {corner}, #{buffers.source.address + k * line}")
        builder.vector("vmove", target, row_size, place)
    builder.outer_product(buffers.product, gradient, part, buffers.window, taps)
    builder.vector("mam", buffers.dw, part * taps, buffers.dw, buffers.product)
    builder.transposed_product(buffers.back, taps, buffers.weights, gradient, part)
    for k in range(rows):
        source = builder.constant(buffers.back.address + k * row_size)
        builder.write(f"sadd {place}, {corner}, #{buffers.din.address + k * line}")
        builder.vector("vav", place, row_size, place, source)


def _image_stores(training: _Training, b: int, c: int) -> tuple[Load, ...]:
    """The gradient of an image without its padding."""
    layer = training.layer
    height, first = _rows(layer), -layer.window.padding[0]
    return row_loads(training.din, training.buffers.din, layer.window, (b, c), first, height)


BLOCKS = {
    "conv_bp": Block((8, 10), "din, dw, db, dout, in, w, #sy, #sx[, #ph, #pw]", _lower),
}
