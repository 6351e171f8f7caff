"""Convolutions: each pixel's window is gathered and multiplied with all weights of a segment.

For each segment of output channels, the weights stay in the matrix scratchpad if they fit. For each
group of output rows (a segment of the output) and each segment of input channels, the input rows
are loaded during the previous product. Sums are exact over a window of one segment of input
channels; those of several segments are added with saturation.

Gradients proceed image by image: whole padded images of some channels stay on chip. For each
segment of input channels and of output channels, each pixel of the gradient is multiplied with the
weights, which adds to its window's gradient, and with its window, which adds to the weights'
gradient. Both are rounded once per pixel and added with saturation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import Block, BlockCall, ResultTile
from tilewright.targets.cambricon.dla.blocks.rows import Window, is_padded, row_loads
from tilewright.targets.cambricon.dla.blocks.steps import Load, TileStep, write_steps
from tilewright.targets.cambricon.dla.builder import Place, ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError


@dataclass(frozen=True)
class _Operands:
    """Checked operands of a convolution."""

    call: BlockCall
    out: Data
    source: Data
    weight: Data
    bias: Data | None
    window: Window

    @property
    def taps(self) -> int:
        """Pixels of a window."""
        return self.weight.extents[1] * self.weight.extents[2]

    @property
    def is_resident(self) -> bool:
        """True if all weights of a segment of output channels fit the matrix scratchpad."""
        part, depth = self.weight.segments[0], self.weight.extents[3]
        return part * self.taps * depth <= self.call.builder.capacities["matrix"]


@dataclass(frozen=True)
class _Buffers:
    rows: tuple[ScratchpadBuffer, ScratchpadBuffer]
    window: ScratchpadBuffer
    results: tuple[ScratchpadBuffer, ScratchpadBuffer]
    weights: tuple[ScratchpadBuffer, ScratchpadBuffer]
    partial: ScratchpadBuffer | None
    biases: ScratchpadBuffer | None


@dataclass(frozen=True)
class _Place:
    """A step: segment of output channels, image, group of output rows, segment of input channels;
    its number and its group's.
    """

    o: int
    b: int
    h: int
    c: int
    number: int
    group: int


def _lower(call: BlockCall) -> None:
    """Write `conv_fp out, in, w[, b], #sy, #sx[, #ph, #pw]`. Raises Fault."""
    layer = _checked(call)
    call.require_tiles(prod(layer.out.layout.counts) * layer.source.layout.counts[3])
    buffers = _allocated(layer)
    steps = [_step(layer, buffers, place) for place in _places(layer)]
    write_steps(call.builder, steps, layer.source.layout.counts[3])


def _checked(call: BlockCall) -> _Operands:
    """The operands of a call. Raises Fault."""
    out, source, weight = call.output(), call.data(1, "neuron"), call.data(2, "synapse")
    has_bias = len(call.arguments) > 3 and isinstance(call.arguments[3].value, Data)
    bias = call.data(3, "neuron") if has_bias else None
    window = _window_of(call, weight, 4 if has_bias else 3)
    layer = _Operands(call, out, source, weight, bias, window)
    _check_operands(layer, (0, 1, 2, 3))
    return layer


def _window_of(call: BlockCall, weight: Data, first: int) -> Window:
    """The window of a convolution; its steps and padding are the numbers from argument `first`."""
    steps = call.number(first, 1, 1), call.number(first + 1, 1, 1)
    padding = call.number(first + 2, 0, 0), call.number(first + 3, 0, 0)
    return Window((weight.extents[1], weight.extents[2]), steps, padding)


def _check_operands(layer: _Operands, indices: tuple[int, int, int, int]) -> None:
    """Refuse operands that do not match; `indices` are the arguments of output, input, weights and
    bias. Raises Fault.
    """
    call, out, source, weight = layer.call, layer.out, layer.source, layer.weight
    batch, height, width, channels = source.extents
    expected = (batch, *layer.window.results(height, width), weight.extents[0])
    call.require(
        weight.extents[3] == channels,
        DlaError.EXTENTS,
        f"the {weight.places} does not take {source.places}",
        indices[2],
    )
    (step_y, step_x), (pad_y, pad_x) = layer.window.steps, layer.window.padding
    call.require(
        out.extents == expected,
        DlaError.EXTENTS,
        f"steps of {step_y}x{step_x} and padding of {pad_y}x{pad_x} give "
        f"{'x'.join(map(str, expected))}, the output has {'x'.join(map(str, out.extents))}",
        indices[0],
    )
    _check_segments(layer, indices)


def _check_segments(layer: _Operands, indices: tuple[int, int, int, int]) -> None:
    call, out, source, weight = layer.call, layer.out, layer.source, layer.weight
    part, depth = weight.segments[0], weight.segments[3]
    wanted = [
        (indices[0], out, (1, out.segments[1], out.extents[2], part)),
        (indices[1], source, (1, source.segments[1], source.extents[2], depth)),
        (indices[2], weight, (part, *weight.extents[1:3], depth)),
    ]
    if layer.bias is not None:
        call.require(
            layer.bias.extents == (1, 1, 1, weight.extents[0]),
            DlaError.EXTENTS,
            f"the bias has to have {weight.extents[0]} channels",
            indices[3],
        )
        wanted.append((indices[3], layer.bias, (1, 1, 1, part)))
    for index, data, segments in wanted:
        sizes = ", ".join(map(str, segments))
        call.require(
            data.segments == segments,
            DlaError.SEGMENTS,
            f"the {data.places} cannot be taken in these segments",
            index,
            f"give {data.name} the segment sizes {sizes}",
        )


def _allocated(layer: _Operands) -> _Buffers:
    builder, depth = layer.call.builder, layer.weight.segments[3]
    part = layer.weight.segments[0]
    group = layer.out.segments[1]
    rows = layer.window.rows_of(group) * layer.window.line(layer.source, depth)
    result = group * layer.out.extents[2] * part
    divided = layer.weight.layout.counts[3] > 1

    def weights() -> tuple[ScratchpadBuffer, ScratchpadBuffer]:
        if not layer.is_resident:
            return builder.two(layer.weight.name, "matrix", part * layer.taps * depth)
        size = part * layer.taps * layer.weight.extents[3]
        one = builder.buffer(layer.weight.name, "matrix", size)
        return one, one

    found = _Buffers(
        builder.two(layer.source.name, "vector", rows),
        builder.buffer("window", "vector", layer.taps * depth),
        builder.two(layer.out.name, "vector", result),
        weights(),
        builder.buffer("partial", "vector", part) if divided else None,
        builder.buffer(layer.bias.name, "vector", part) if layer.bias else None,
    )
    builder.check(_fitting(layer))
    return found


def _fitting(layer: _Operands) -> str:
    """Segment sizes that fit: fewer output rows, output channels and input channels."""
    capacity = layer.call.builder.capacities
    group, (part, depth) = layer.out.segments[1], layer.weight.segments[::3]

    def size() -> int:
        results = group * layer.out.extents[2] * part
        rows = layer.window.rows_of(group) * layer.window.line(layer.source, depth)
        return 2 * rows + 2 * results + layer.taps * depth + 2 * part

    while size() > capacity["vector"] or 2 * part * layer.taps * depth > capacity["matrix"]:
        if group > 1:
            group -= 1
        elif depth > 1 and depth >= part:
            depth = -(-depth // 2)
        elif part > 1:
            part = -(-part // 2)
        else:
            return "no segment sizes fit: divide the layer"
    return f"segments of {group} output rows, {part} output and {depth} input channels fit"


def _places(layer: _Operands) -> Iterator[_Place]:
    depth = layer.weight.layout.counts[3]
    number = 0
    for o in range(layer.weight.layout.counts[0]):
        for b in range(layer.source.extents[0]):
            for h in range(layer.out.layout.counts[1]):
                for c in range(depth):
                    yield _Place(o, b, h, c, number, number // depth)
                    number += 1


def _step(layer: _Operands, buffers: _Buffers, place: _Place) -> TileStep:
    out, shape = layer.out, layer.out.layout.shape((place.b, place.h, 0, place.o))[1:]
    first = layer.window.first_row(place.h, out.segments[1])
    count = layer.window.rows_of(shape[0])
    rows = buffers.rows[place.number % 2]
    loads = row_loads(layer.source, rows, layer.window, (place.b, place.c), first, count)
    weights = _weights(layer, buffers, place)
    begins = place.b == place.h == 0
    ahead = weights if not layer.is_resident or (begins and place.c) else ()
    needed = weights if layer.is_resident and begins and not place.c else ()
    index, target = (place.b, place.h, 0, place.o), layer.call.target
    is_last = place.c == layer.weight.layout.counts[3] - 1
    padded = is_padded(layer.source, layer.window, first, count)
    return TileStep(
        (*loads, *ahead),
        partial(_compute, layer, buffers, place),
        (place.number % 2, place.group % 2, place.c, shape, begins),
        (target.name, target.layout.offset(index)) if is_last else None,
        (*needed, *(_biases(layer, buffers, place) if begins and not place.c else ())),
        clears=(_cleared(layer, rows, place),) if padded else (),
        halves=_halves(layer, buffers, place),
    )


def _cleared(layer: _Operands, rows: ScratchpadBuffer, place: _Place) -> ScratchpadBuffer:
    """The part of the row buffer that a step uses."""
    out_rows = layer.out.layout.shape((place.b, place.h, 0, place.o))[1]
    depth = layer.weight.layout.shape((place.o, 0, 0, place.c))[3]
    size = layer.window.rows_of(out_rows) * layer.window.line(layer.source, depth)
    return replace(rows, size=size)


def _weights(layer: _Operands, buffers: _Buffers, place: _Place) -> tuple[Load, ...]:
    layout, name = layer.weight.layout, layer.weight.name
    channels, _, _, depth = layout.shape((place.o, 0, 0, place.c))
    local, offset = _weight_address(layer, buffers, place), layout.offset((place.o, 0, 0, place.c))
    return (Load("matrix", local, channels * layer.taps * depth, name, offset),)


def _weight_address(layer: _Operands, buffers: _Buffers, place: _Place) -> int:
    if not layer.is_resident:
        return buffers.weights[place.number % 2].address
    layout = layer.weight.layout
    distance = layout.offset((place.o, 0, 0, place.c)) - layout.offset((place.o, 0, 0, 0))
    return buffers.weights[0].address + distance


def _biases(layer: _Operands, buffers: _Buffers, place: _Place) -> tuple[Load, ...]:
    if layer.bias is None or buffers.biases is None:
        return ()
    layout, index = layer.bias.layout, (0, 0, 0, place.o)
    size, offset = layout.shape(index)[3], layout.offset(index)
    return (Load("vector", buffers.biases.address, size, layer.bias.name, offset),)


Rows = tuple[int, int]
"""First row in a segment, and number of rows."""


def _halves(
    layer: _Operands, buffers: _Buffers, place: _Place
) -> tuple[Callable[[], None], Callable[[], ResultTile | None]] | None:
    """The computation of a step split by rows into two, or None."""
    count = layer.out.layout.shape((place.b, place.h, 0, place.o))[1]
    middle = count // 2
    if not middle:
        return None
    first = partial(_pixels, layer, buffers, place, (0, middle))
    return first, partial(_compute, layer, buffers, place, (middle, count - middle))


def _compute(
    layer: _Operands, buffers: _Buffers, place: _Place, rows: Rows | None = None
) -> ResultTile | None:
    """The products of a step, or of its remaining `rows`, and, on the last step of a group, the
    fused computations.
    """
    index = (place.b, place.h, 0, place.o)
    shape = layer.out.layout.shape(index)[1:]
    _pixels(layer, buffers, place, rows or (0, shape[0]))
    if place.c < layer.weight.layout.counts[3] - 1:
        return None
    return layer.call.complete(buffers.results[place.group % 2], shape, place.group)


def _pixels(layer: _Operands, buffers: _Buffers, place: _Place, rows: Rows) -> None:
    """A loop over the pixels of some rows of a segment of the output."""
    shape = layer.out.layout.shape((place.b, place.h, 0, place.o))[1:]
    begun, count = rows
    builder, depth = layer.call.builder, layer.weight.layout.shape((place.o, 0, 0, place.c))[3]
    line, steps = layer.window.line(layer.source, depth), layer.window.steps
    before = builder.mark()
    first = begun * steps[0] * line
    top = builder.variable(buffers.rows[place.number % 2].address + first)
    made = begun * shape[1] * shape[2]
    result = builder.variable(buffers.results[place.group % 2].address + made)
    corner, row = builder.variable(0), builder.variable(0)
    with builder.loop(count):
        builder.copy(corner, top)
        with builder.loop(shape[1]):
            source = _gathered(layer, buffers, (corner, row), (depth, line))
            _product(layer, buffers, place, (result, source, shape[2], layer.taps * depth))
            builder.add(corner, steps[1] * depth)
            builder.add(result, shape[2])
        builder.add(top, steps[0] * line)
    builder.release(before)


def _gathered(
    layer: _Operands, buffers: _Buffers, registers: tuple[str, str], sizes: tuple[int, int]
) -> Place:
    """The elements of the window at `corner`, gathered contiguously."""
    builder, (corner, row), (depth, line) = layer.call.builder, registers, sizes
    rows, columns = layer.window.extents
    if rows == 1:
        return corner
    builder.copy(row, corner)
    for k in range(rows):
        target = builder.constant(buffers.window.address + k * columns * depth)
        builder.vector("vmove", target, columns * depth, row)
        builder.add(row, line if k + 1 < rows else 0)
    return buffers.window


def _product(
    layer: _Operands, buffers: _Buffers, place: _Place, operands: tuple[str, Place, int, int]
) -> None:
    """The outputs of a pixel: set by the first input channels, accumulated by later ones."""
    builder, (result, source, channels, columns) = layer.call.builder, operands
    weights = builder.constant(_weight_address(layer, buffers, place))
    if place.c == 0 or buffers.partial is None:
        builder.product(result, channels, weights, source, columns)
    else:
        builder.product(buffers.partial, channels, weights, source, columns)
        builder.vector("vav", result, channels, result, buffers.partial)
    is_last = place.c == layer.weight.layout.counts[3] - 1
    if buffers.biases is not None and is_last:
        builder.vector("vav", result, channels, result, buffers.biases)


# Gradients.


@dataclass(frozen=True)
class _TrainingBuffers:
    """All in the vector scratchpad, except weights, their gradient and a pixel's products."""

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

    layer: _Operands
    din: Data
    dw: Data
    db: Data
    buffers: _TrainingBuffers

    def offset(self, o: int, c: int) -> int:
        """Offset of a segment of the weights, and of their gradient."""
        return self.layer.weight.layout.offset((o, 0, 0, c))

    @property
    def places(self) -> Iterator[tuple[int, int, int]]:
        """Image, segment of input channels and segment of output channels, in order."""
        counts = self.layer.weight.layout.counts
        for b in range(self.layer.source.extents[0]):
            for c in range(counts[3]):
                for o in range(counts[0]):
                    yield b, c, o


def _lower_gradient(call: BlockCall) -> None:
    """Write `conv_bp din, dw, db, dout, in, w, #sy, #sx[, #ph, #pw]`. Raises Fault."""
    training = _checked_gradient(call)
    counts = training.layer.weight.layout.counts
    call.require_tiles(training.layer.source.extents[0] * counts[0] * counts[3])
    write_steps(call.builder, [_gradient_step(training, place) for place in training.places], 1)


def _checked_gradient(call: BlockCall) -> _Training:
    din, dw, db = call.output(0), call.written(1, "synapse"), call.output(2)
    dout, source, weight = call.data(3, "neuron"), call.data(4, "neuron"), call.data(5, "synapse")
    layer = _Operands(call, dout, source, weight, None, _window_of(call, weight, 6))
    _check_operands(layer, (3, 4, 5, 5))
    call.require_shape(0, din, source.extents, source.segments)
    call.require_shape(1, dw, weight.extents, weight.segments)
    part = weight.segments[0]
    call.require_shape(2, db, (1, 1, 1, weight.extents[0]), (1, 1, 1, part))
    return _Training(layer, din, dw, db, _allocated_images(layer))


def _allocated_images(layer: _Operands) -> _TrainingBuffers:
    builder, depth, part = layer.call.builder, layer.weight.segments[3], layer.weight.segments[0]
    image = _rows(layer) * layer.window.line(layer.source, depth)
    taps, names = layer.taps * depth, (layer.source.name, layer.out.name, layer.weight.name)
    found = _TrainingBuffers(
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
    builder.check(_fitting_images(layer))
    return found


def _rows(layer: _Operands) -> int:
    return layer.source.extents[1] + 2 * layer.window.padding[0]


def _fitting_images(layer: _Operands) -> str:
    """Segments of channels with which whole images fit, found by halving the larger share."""
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


def _gradient_step(training: _Training, place: tuple[int, int, int]) -> TileStep:
    """One pair of segments. Its data is used immediately, so each has one buffer."""
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
        partial(_gradients, training, place),
        (b > 0, c == 0, o == 0, is_last, shape),
        needs=(*loads, *(sums if b else ())),
        stores=(*sums, *(_image_stores(training, b, c) if is_last else ())),
        first=partial(_clear_images, training, o),
    )


def _clear_images(training: _Training, o: int) -> None:
    """Zero the padded image and its gradient before its first output channels."""
    for image in (training.buffers.source, training.buffers.din) if o == 0 else ():
        training.layer.call.builder.clear(image, image.size)


def _gradient_loads(training: _Training, b: int, o: int) -> list[Load]:
    """Loads of an image's gradient for some output channels, row segment by row segment."""
    out, local, found = training.layer.out, training.buffers.gradient.address, []
    for h in range(out.layout.counts[1]):
        index = (b, h, 0, o)
        size = prod(out.layout.shape(index))
        found.append(Load("vector", local, size, out.name, out.layout.offset(index)))
        local += size
    return found


def _gradients(training: _Training, place: tuple[int, int, int]) -> None:
    (b, c, o), layer, buffers = place, training.layer, training.buffers
    builder, shape = layer.call.builder, layer.weight.layout.shape((o, 0, 0, c))
    if not b:
        builder.vector("msm", buffers.dw, prod(shape), buffers.weights, buffers.weights)
        if c == 0:
            builder.clear(buffers.biases, shape[0])
    _gradient_pixels(training, shape, with_biases=c == 0)


def _gradient_pixels(training: _Training, shape: tuple[int, ...], *, with_biases: bool) -> None:
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
            _gradient_pixel(training, shape, (gradient, corner, place), line)
            builder.add(gradient, shape[0])
            builder.add(corner, layer.window.steps[1] * shape[3])
        builder.add(top, layer.window.steps[0] * line)
    builder.release(before)


def _gradient_pixel(
    training: _Training, shape: tuple[int, ...], registers: tuple[str, str, str], line: int
) -> None:
    """One pixel: gather its window, add both products, scatter the window's gradient."""
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
    """Stores of an image's gradient without its padding."""
    layer = training.layer
    height, first = _rows(layer), -layer.window.padding[0]
    return row_loads(training.din, training.buffers.din, layer.window, (b, c), first, height)


BLOCKS = {
    "conv_fp": Block((5, 8), "out, in, w[, b], #sy, #sx[, #ph, #pw]", _lower),
    "conv_bp": Block((8, 10), "din, dw, db, dout, in, w, #sy, #sx[, #ph, #pw]", _lower_gradient),
}
