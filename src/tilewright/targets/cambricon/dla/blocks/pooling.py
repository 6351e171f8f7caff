"""Pooling: for each group of output rows its input rows, and a loop over the windows.

Gradients require segments that hold whole, disjoint windows, or whole images. The gradient of a
maximum goes to every element of the window that equals it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import ONE, Block, BlockCall, ResultTile, Stage
from tilewright.targets.cambricon.dla.blocks.rows import Window, row_loads
from tilewright.targets.cambricon.dla.blocks.steps import Load, TileStep, write_steps
from tilewright.targets.cambricon.dla.builder import Builder, Place, ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError

_LARGEST_MEAN = 127
"""Largest window size that an element can represent as an integer."""


@dataclass(frozen=True)
class _Kind:
    """Reduction of a window: a vector operation on two elements, and a final operation."""

    mnemonic: str
    finish: Callable[[Builder, ResultTile, Window], None]
    largest: int | None = None


@dataclass(frozen=True)
class _Layer:
    """Checked operands of a call."""

    kind: _Kind
    call: BlockCall
    out: Data
    source: Data
    window: Window


def _lower(call: BlockCall, kind: _Kind) -> None:
    """Write the statements of `maxpool_fp out, in, #ky, #kx, #sy, #sx`. Raises Fault."""
    layer = _checked(call, kind)
    out, source, builder = layer.out, layer.source, call.builder
    part, group = source.segments[3], out.segments[1]
    rows_size = layer.window.rows_of(group) * layer.window.line(source, part)
    rows = builder.two(source.name, "vector", rows_size)
    results = builder.two(out.name, "vector", group * out.extents[2] * part)
    builder.check(_fitting(layer))
    steps = []
    for k, index in enumerate(out.layout.indices()):
        image, h, _, c = index
        shape = out.layout.shape(index)
        first, count = layer.window.first_row(h, group), layer.window.rows_of(shape[1])
        steps.append(
            TileStep(
                row_loads(source, rows[k % 2], layer.window, (image, c), first, count),
                partial(_compute, layer, (rows[k % 2], results[k % 2]), index, k),
                (k % 2, shape),
                (call.target.name, call.target.layout.offset(index)),
            )
        )
    write_steps(builder, steps, out.layout.counts[3])


def _checked(call: BlockCall, kind: _Kind) -> _Layer:
    out, source = call.output(), call.data(1, "neuron")
    window = check_windows(call, out, source, 2, 0)
    if kind.largest is not None:
        call.require(
            prod(window.extents) <= kind.largest,
            DlaError.EXTENTS,
            f"a mean of {prod(window.extents)} elements, the limit is {kind.largest}",
            2,
            "pool in two blocks",
        )
    return _Layer(kind, call, out, source, window)


def check_windows(call: BlockCall, out: Data, source: Data, first: int, index: int) -> Window:
    """The window, given by the arguments from `first` on. `out`, argument `index`, is the result
    over `source`, argument 1 - `index`. Raises Fault.
    """
    rows, columns, step_y, step_x = (call.number(first + k, 1, 1) for k in range(4))
    window = Window((rows, columns), (step_y, step_x))
    batch, height, width, channels = source.extents
    expected = (batch, *window.results(height, width), channels)
    call.require(
        rows <= height and columns <= width,
        DlaError.EXTENTS,
        f"windows of {rows}x{columns} are larger than the images of the {source.places}",
        1 - index,
    )
    call.require(
        out.extents == expected,
        DlaError.EXTENTS,
        f"windows of {rows}x{columns} in steps of {step_y}x{step_x} over the {source.places} give "
        f"{'x'.join(map(str, expected))}, the output has {'x'.join(map(str, out.extents))}",
        index,
    )
    part = source.segments[3]
    for place, data in ((index, out), (1 - index, source)):
        call.require(
            data.segments == (1, data.segments[1], data.extents[2], part),
            DlaError.SEGMENTS,
            f"the {data.places} is not in segments of whole rows of {part} channels",
            place,
            f"give {data.name} the segment sizes 1, {data.segments[1]}, {data.extents[2]}, {part}",
        )
    return window


def require_whole_windows(
    call: BlockCall, window: Window, out: Data, source: Data, index: int
) -> None:
    """Refuse segments of `out`, argument `index`, that need rows of two segments. Raises Fault."""
    (rows, _), (step, _) = window.extents, window.steps
    groups = range(out.layout.counts[1])
    heights = [
        (source.layout.shape((0, h, 0, 0))[1], out.layout.shape((0, h, 0, 0))[1]) for h in groups
    ]
    call.require(
        out.layout.counts[1] == source.layout.counts[1]
        and all(window.results(given, source.extents[2])[0] == own for given, own in heights)
        and (len(groups) == 1 or (rows <= step and source.segments[1] % step == 0)),
        DlaError.FUSION if index == 0 else DlaError.SEGMENTS,
        f"windows of {rows} rows in steps of {step} over segments of {source.segments[1]} rows "
        f"do not give segments of {out.segments[1]} rows",
        index,
        "give segments of whole images, or of whole windows that do not overlap",
    )


def _fitting(layer: _Layer) -> str:
    """Segment sizes that fit: fewer output rows, then fewer channels."""
    capacity = layer.call.builder.capacities["vector"]
    group, part = layer.out.segments[1], layer.source.segments[3]

    def size() -> int:
        rows = layer.window.rows_of(group) * layer.window.line(layer.source, part)
        return 2 * (rows + group * layer.out.extents[2] * part)

    while size() > capacity and (group > 1 or part > 1):
        group, part = (group - 1, part) if group > 1 else (group, -(-part // 2))
    if size() > capacity:
        return "no segment sizes fit: divide the layer"
    return f"segments of {group} output rows and {part} channels fit"


def _compute(
    layer: _Layer,
    places: tuple[ScratchpadBuffer, ScratchpadBuffer],
    index: tuple[int, ...],
    turn: int,
) -> ResultTile:
    shape = layer.out.layout.shape(index)
    result = ResultTile(places[1], (shape[1], shape[2], shape[3]), turn)
    line = layer.window.line(layer.source, shape[3])
    _pooled(layer.call.builder, layer.kind, layer.window, (places[0], line), result)
    return layer.call.complete(result.place, result.shape, turn)


def _pooled(
    builder: Builder, kind: _Kind, window: Window, rows: tuple[Place, int], out: ResultTile
) -> None:
    """A loop over the rows and columns of the result, all channels of a window at once.

    `rows` is the address of the input and the elements per row of it.
    """
    (source, line), channels = rows, out.shape[2]
    before = builder.mark()
    top, result = builder.start(source), builder.start(out.place)
    corner, place = builder.variable(0), builder.variable(0)
    with builder.loop(out.shape[0]):
        builder.copy(corner, top)
        with builder.loop(out.shape[1]):
            builder.vector("vmove", result, channels, corner)
            for element in range(1, prod(window.extents)):
                row, column = divmod(element, window.extents[1])
                builder.write(f"sadd {place}, {corner}, #{row * line + column * channels}")
                builder.vector(kind.mnemonic, result, channels, result, place)
            builder.add(corner, window.steps[1] * channels)
            builder.add(result, channels)
        builder.add(top, window.steps[0] * line)
    builder.release(before)
    kind.finish(builder, out, window)


def _divide(builder: Builder, tile: ResultTile, window: Window) -> None:
    """Turn sums into means: divide by the window size."""
    divisor = builder.scratch("divisor of means", tile.size)
    builder.fill(divisor, tile.size, prod(window.extents) * ONE)
    builder.vector("vdv", tile.place, tile.size, tile.place, divisor)


def _stage(call: BlockCall, kind: _Kind) -> Stage:
    """The pooling as a stage fused after a block. Raises Fault if its tiles lack window rows."""
    layer = _checked(call, kind)
    out = layer.out
    require_whole_windows(call, layer.window, out, layer.source, 0)

    def stage(builder: Builder, tile: ResultTile) -> ResultTile:
        shape = (*layer.window.results(*tile.shape[:2]), tile.shape[2])
        place = builder.scratch(f"{out.name} {tile.turn % 2}", prod(shape))
        pooled = ResultTile(place, shape, tile.turn)
        line = tile.shape[1] * tile.shape[2]
        _pooled(builder, kind, layer.window, (tile.place, line), pooled)
        return pooled

    return stage


def _block(kind: _Kind) -> Block:
    form = "out, in, #ky, #kx, #sy, #sx"
    return Block((6, 6), form, partial(_lower, kind=kind), partial(_stage, kind=kind))


@dataclass(frozen=True)
class _Gradients:
    """The buffers of a segment: input rows, results, and their gradients."""

    din: ScratchpadBuffer
    dout: ScratchpadBuffer
    source: ScratchpadBuffer
    out: ScratchpadBuffer
    mask: ScratchpadBuffer
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]


def _lower_gradient(call: BlockCall, names: tuple[str, ...], is_mean: bool) -> None:
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
        tile = _Gradients(
            own["din"], own["dout"], own.get("in", own["din"]), own.get("out", own["dout"]), mask,
            din.layout.shape(index), dout.layout.shape(index),
        )  # fmt: skip
        loads = tuple(
            Load.segment(own[name], data, index) for name, data in given.items() if name != "din"
        )
        work = partial(_gradients, call, window, tile, is_mean)
        steps.append(TileStep(loads, work, (index, k), (din.name, din.layout.offset(index))))
    write_steps(call.builder, steps, 1)


def _gradients(call: BlockCall, window: Window, tile: _Gradients, is_mean: bool) -> ResultTile:
    builder, size = call.builder, prod(tile.out_shape)
    builder.clear(tile.din, prod(tile.in_shape))
    if is_mean:
        divisor = builder.scratch("divisor of means", size)
        builder.fill(divisor, size, prod(window.extents) * ONE)
        builder.vector("vdv", tile.dout, size, tile.dout, divisor)
    _windows(builder, window, tile, is_mean)
    _, rows, columns, channels = tile.in_shape
    return ResultTile(tile.din, (rows, columns, channels), 0)


def _windows(builder: Builder, window: Window, tile: _Gradients, is_mean: bool) -> None:
    """A loop over the windows; offsets count from the start of the segment."""
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
    tile: _Gradients,
    source: tuple[str, int],
    registers: tuple[str, str, str],
    is_mean: bool,
) -> None:
    """Add one window element's share of the gradient; `source` is the corner and an offset."""
    (corner, distance), (result, place, other), size = source, registers, tile.out_shape[3]
    share: Place = other
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
    "maxpool_fp": _block(_Kind("vgtm", lambda builder, tile, window: None)),
    "avgpool_fp": _block(_Kind("vav", _divide, _LARGEST_MEAN)),
    "maxpool_bp": Block(
        (8, 8),
        "din, dout, in, out, #ky, #kx, #sy, #sx",
        partial(_lower_gradient, names=("din", "dout", "in", "out"), is_mean=False),
    ),
    "avgpool_bp": Block(
        (6, 6),
        "din, dout, #ky, #kx, #sy, #sx",
        partial(_lower_gradient, names=("din", "dout"), is_mean=True),
    ),
}
