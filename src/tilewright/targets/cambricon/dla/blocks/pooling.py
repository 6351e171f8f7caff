"""Maximum pooling: whole images of some channels in the scratchpad, a loop over the windows."""

from __future__ import annotations

from tilewright.targets.cambricon.dla.blocks.call import Block, Call
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError


def lower(call: Call) -> None:
    """Write the statements of `maxpool_fp out, in, #ky, #kx, #sy, #sx`. Raises Fault."""
    out, source = call.output(), call.data(1, "neuron")
    rows, columns, step_y, step_x = (call.number(k, 1, 1) for k in range(2, 6))
    batch, height, width, channels = source.extents
    expected = (
        batch,
        (height - rows) // step_y + 1,
        (width - columns) // step_x + 1,
        channels,
    )
    call.require(
        rows <= height and columns <= width and out.extents == expected,
        DlaError.EXTENTS,
        f"windows of {rows}x{columns} in steps of {step_y}x{step_x} over the {source.places} give "
        f"{'x'.join(map(str, expected))}, the output has {'x'.join(map(str, out.extents))}",
        0,
    )
    for index, data in enumerate((out, source)):
        part = source.segments[3]
        call.require(
            data.segments == (1, *data.extents[1:3], part),
            DlaError.SEGMENTS,
            f"the {data.places} is not in segments of whole images of {part} channels",
            index,
            f"give {data.name} the segment sizes 1, {data.extents[1]}, {data.extents[2]}, {part}",
        )
    _images(call, out, source, (rows, columns, step_y, step_x))


def _images(call: Call, out: Data, source: Data, window: tuple[int, int, int, int]) -> None:
    """One segment after the other, the next one loaded first."""
    builder, (_, height, width, part) = call.builder, source.segments
    _, out_height, out_width, _ = out.extents
    inputs = [builder.buffer(f"{source.name} {k}", "vector", height * width * part) for k in (0, 1)]
    results = [
        builder.buffer(f"{out.name} {k}", "vector", out_height * out_width * part) for k in (0, 1)
    ]
    pixels = 2 * (height * width + out_height * out_width)
    builder.check(f"segments of {builder.capacities['vector'] // pixels} channels fit")
    segments = list(source.layout.indices())

    def load(k: int) -> None:
        size = height * width * source.layout.shape(segments[k])[3]
        offset = source.layout.offset(segments[k])
        builder.load(inputs[k % 2], size, source.name, offset, "vector")

    load(0)
    for k, index in enumerate(segments):
        if k + 1 < len(segments):
            load(k + 1)
        channels = source.layout.shape(index)[3]
        places = inputs[k % 2].address, results[k % 2].address
        _windows(call, places, (width, out_height, out_width, channels), window)
        size = out_height * out_width * channels
        call.complete(results[k % 2], size)
        builder.store(results[k % 2], size, out.name, out.layout.offset(index))


def _windows(
    call: Call,
    places: tuple[int, int],
    sizes: tuple[int, int, int, int],
    window: tuple[int, int, int, int],
) -> None:
    """A loop over the rows and columns of the result; all channels of a window at once."""
    builder, (width, out_height, out_width, channels) = call.builder, sizes
    rows, columns, step_y, step_x = window
    before = builder.mark()
    line, result = builder.variable(places[0]), builder.variable(places[1])
    corner, place = builder.variable(0), builder.variable(0)
    with builder.loop(out_height):
        builder.copy(corner, line)
        with builder.loop(out_width):
            builder.vector("vmove", result, channels, corner)
            for element in range(1, rows * columns):
                row, column = divmod(element, columns)
                distance = (row * width + column) * channels
                builder.write(f"sadd {place}, {corner}, #{distance}")
                builder.vector("vgtm", result, channels, result, place)
            builder.add(corner, step_x * channels)
            builder.add(result, channels)
        builder.add(line, step_y * width * channels)
    builder.release(before)


BLOCKS = {"maxpool_fp": Block((6, 6), "out, in, #ky, #kx, #sy, #sx", lower)}
