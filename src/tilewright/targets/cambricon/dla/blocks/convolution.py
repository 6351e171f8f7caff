"""Convolutions: for each pixel the window is gathered and multiplied with all weights of a segment.

For each segment of output channels the weights stay in the matrix scratchpad; for each group of
output rows (a segment of the output) the input rows that it needs are loaded, the next ones while
the product of these is computed. Sums are exact over the whole window.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.cambricon.dla.blocks.call import Block, Call
from tilewright.targets.cambricon.dla.builder import Buffer
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError


@dataclass(frozen=True)
class _Layer:
    """Checked operands, steps and padding."""

    call: Call
    out: Data
    source: Data
    weight: Data
    bias: Data | None
    steps: tuple[int, int]
    padding: tuple[int, int]

    @property
    def padded_width(self) -> int:
        return self.source.extents[2] + 2 * self.padding[1]

    @property
    def line(self) -> int:
        """Elements of a padded row of the input."""
        return self.padded_width * self.source.extents[3]

    def rows_of(self, out_rows: int) -> int:
        """Input rows that some rows of the output need."""
        return (out_rows - 1) * self.steps[0] + self.weight.extents[1]


@dataclass(frozen=True)
class _Buffers:
    rows: tuple[Buffer, Buffer]
    patch: Buffer
    results: tuple[Buffer, Buffer]
    weights: Buffer
    biases: Buffer | None


def lower(call: Call) -> None:
    """Write `conv_fp out, in, w[, b], #sy, #sx[, #ph, #pw]`. Raises Fault."""
    layer = _checked(call)
    buffers = _allocated(layer)
    weights, source, out = layer.weight, layer.source, layer.out
    groups = [
        (o, b, h)
        for o in range(weights.layout.counts[0])
        for b in range(source.extents[0])
        for h in range(out.layout.counts[1])
    ]
    _load_rows(layer, buffers.rows[0], groups[0])
    for k, (o, b, h) in enumerate(groups):
        if b == h == 0:
            _load_weights(layer, buffers, o)
        if k + 1 < len(groups):
            _load_rows(layer, buffers.rows[(k + 1) % 2], groups[k + 1])
        index = (b, h, 0, o)
        _, rows, columns, channels = out.layout.shape(index)
        result = buffers.results[k % 2]
        _pixels(layer, buffers, k % 2, (rows, columns, channels))
        size = rows * columns * channels
        call.complete(result, size)
        call.builder.store(result, size, out.name, out.layout.offset(index))


def _checked(call: Call) -> _Layer:
    out, source, weight = call.output(), call.data(1, "neuron"), call.data(2, "synapse")
    has_bias = len(call.arguments) > 3 and isinstance(call.arguments[3].value, Data)
    bias = call.data(3, "neuron") if has_bias else None
    first = 4 if has_bias else 3
    step_y, step_x = call.number(first, 1, 1), call.number(first + 1, 1, 1)
    pad_y, pad_x = call.number(first + 2, 0, 0), call.number(first + 3, 0, 0)
    batch, height, width, channels = source.extents
    out_channels, rows, columns, depth = weight.extents
    expected = (
        batch,
        (height + 2 * pad_y - rows) // step_y + 1,
        (width + 2 * pad_x - columns) // step_x + 1,
        out_channels,
    )
    call.require(
        depth == channels, DlaError.EXTENTS, f"the {weight.places} does not take {source.places}", 2
    )
    call.require(
        out.extents == expected,
        DlaError.EXTENTS,
        f"steps of {step_y}x{step_x} and padding of {pad_y}x{pad_x} give "
        f"{'x'.join(map(str, expected))}, the output has {'x'.join(map(str, out.extents))}",
        0,
    )
    _check_segments(call, out, source, weight, bias)
    return _Layer(call, out, source, weight, bias, (step_y, step_x), (pad_y, pad_x))


def _check_segments(call: Call, out: Data, source: Data, weight: Data, bias: Data | None) -> None:
    part = weight.segments[0]
    wanted = [
        (0, out, (1, out.segments[1], out.extents[2], part)),
        (1, source, (1, source.segments[1], *source.extents[2:])),
        (2, weight, (part, *weight.extents[1:])),
    ]
    if bias is not None:
        call.require(
            bias.extents == (1, 1, 1, weight.extents[0]),
            DlaError.EXTENTS,
            f"the bias has to have {weight.extents[0]} channels",
            3,
        )
        wanted.append((3, bias, (1, 1, 1, part)))
    for index, data, segments in wanted:
        sizes = ", ".join(map(str, segments))
        call.require(
            data.segments == segments,
            DlaError.SEGMENTS,
            f"the {data.places} cannot be taken in these segments",
            index,
            f"give {data.name} the segment sizes {sizes}",
        )


def _allocated(layer: _Layer) -> _Buffers:
    builder, part = layer.call.builder, layer.weight.segments[0]
    _, rows, columns, depth = layer.weight.extents
    group = layer.out.segments[1]
    row_size = layer.rows_of(group) * layer.line
    result_size = group * layer.out.extents[2] * part
    found = _Buffers(
        (
            builder.buffer(f"{layer.source.name} 0", "vector", row_size),
            builder.buffer(f"{layer.source.name} 1", "vector", row_size),
        ),
        builder.buffer("window", "vector", rows * columns * depth),
        (
            builder.buffer(f"{layer.out.name} 0", "vector", result_size),
            builder.buffer(f"{layer.out.name} 1", "vector", result_size),
        ),
        builder.buffer(layer.weight.name, "matrix", part * rows * columns * depth),
        builder.buffer(layer.bias.name, "vector", part) if layer.bias else None,
    )
    builder.check(_fitting(layer))
    return found


def _fitting(layer: _Layer) -> str:
    """Segment sizes with which the layer fits: fewer output rows, then fewer output channels."""
    _, rows, columns, depth = layer.weight.extents
    capacity, taps = layer.call.builder.capacities, rows * columns * depth
    group, part = layer.out.segments[1], min(layer.weight.segments[0], capacity["matrix"] // taps)

    def size() -> int:
        results = group * layer.out.extents[2] * part
        return 2 * layer.rows_of(group) * layer.line + 2 * results + taps + part

    while size() > capacity["vector"] and (group > 1 or part > 1):
        group, part = (group - 1, part) if group > 1 else (group, -(-part // 2))
    if size() > capacity["vector"] or not part:
        return "no segment sizes fit: divide the layer"
    return f"segments of {group} output rows and {part} output channels fit"


def _load_weights(layer: _Layer, buffers: _Buffers, o: int) -> None:
    builder, layout = layer.call.builder, layer.weight.layout
    channels, rows, columns, depth = layout.shape((o, 0, 0, 0))
    size = channels * rows * columns * depth
    offset = layout.offset((o, 0, 0, 0))
    builder.load(buffers.weights, size, layer.weight.name, offset, "matrix")
    if layer.bias is not None and buffers.biases is not None:
        offset = layer.bias.layout.offset((0, 0, 0, o))
        builder.load(buffers.biases, channels, layer.bias.name, offset, "vector")


def _load_rows(layer: _Layer, buffer: Buffer, group: tuple[int, int, int]) -> None:
    """The input rows of a group of output rows; rows and columns of the padding are zero."""
    builder, source = layer.call.builder, layer.source
    o, b, h = group
    out_rows = layer.out.layout.shape((b, h, 0, o))[1]
    first = h * layer.out.segments[1] * layer.steps[0] - layer.padding[0]
    last = first + layer.rows_of(out_rows)
    inside = range(max(first, 0), min(last, source.extents[1]))
    _, _, width, channels = source.extents
    if layer.padding[1] or len(inside) < last - first:
        builder.clear(buffer, layer.rows_of(out_rows) * layer.line)
    if not layer.padding[1]:
        rows = [(inside.start, len(inside))] if inside else []
    else:
        rows = [(row, 1) for row in inside]
    for row, count in rows:
        place = buffer.address + (row - first) * layer.line + layer.padding[1] * channels
        offset = source.layout.element((b, row, 0, 0))
        builder.load(
            builder.constant(place), count * width * channels, source.name, offset, "vector"
        )


def _pixels(layer: _Layer, buffers: _Buffers, k: int, sizes: tuple[int, int, int]) -> None:
    """A loop over the pixels of a segment of the output."""
    builder, (out_rows, out_columns, channels) = layer.call.builder, sizes
    _, rows, columns, depth = layer.weight.extents
    before = builder.mark()
    line = builder.variable(buffers.rows[k].address)
    result = builder.variable(buffers.results[k].address)
    corner, place = builder.variable(0), builder.variable(0)
    with builder.loop(out_rows):
        builder.copy(corner, line)
        with builder.loop(out_columns):
            source: Buffer | str = corner
            if rows > 1:
                source = buffers.patch
                builder.copy(place, corner)
                for row in range(rows):
                    target = builder.constant(buffers.patch.address + row * columns * depth)
                    builder.vector("vmove", target, columns * depth, place)
                    builder.add(place, layer.line if row + 1 < rows else 0)
            builder.product(result, channels, buffers.weights, source, rows * columns * depth)
            if buffers.biases is not None:
                builder.vector("vav", result, channels, result, buffers.biases)
            builder.add(corner, layer.steps[1] * depth)
            builder.add(result, channels)
        builder.add(line, layer.steps[0] * layer.line)
    builder.release(before)


BLOCKS = {"conv_fp": Block((5, 8), "out, in, w[, b], #sy, #sx[, #ph, #pw]", lower)}
