"""Fully-connected layers: out = w in + b, segment by segment (Lan et al. 2019, Figs. 3, 7, 8).

For each segment of outputs, each segment of inputs is loaded with its weights while the product of
the segments before is computed: the order of the paper's Code #2. The partial sums of segments are
rounded to 16 bits each and added with saturation.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.cambricon.dla.blocks.call import UNROLLED_TILES, Block, Call
from tilewright.targets.cambricon.dla.builder import Buffer, Builder
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError


@dataclass(frozen=True)
class _Layer:
    """Checked operands and the buffers of a layer."""

    call: Call
    out: Data
    source: Data
    weight: Data
    bias: Data | None
    inputs: tuple[Buffer, Buffer]
    weights: tuple[Buffer, Buffer]
    sums: tuple[Buffer, Buffer]
    partial: tuple[Buffer, Buffer]
    biases: Buffer | None

    @property
    def builder(self) -> Builder:
        return self.call.builder

    @property
    def batch(self) -> int:
        return self.out.extents[0]

    @property
    def rows(self) -> int:
        """Outputs of a whole segment."""
        return self.weight.segments[0]

    @property
    def columns(self) -> int:
        """Inputs of a whole segment."""
        return self.weight.segments[3]


def lower(call: Call) -> None:
    """Write the statements of `fc_fp out, in, w[, b]`. Raises Fault."""
    layer = _checked(call)
    fix = _fitting(layer)
    call.builder.check(fix)
    tiles = layer.weight.layout.counts[0] * layer.weight.layout.counts[3] * layer.batch
    call.require_tiles(tiles)
    if tiles > UNROLLED_TILES and layer.weight.layout.is_even and layer.batch == 1:
        _looped(layer)
    else:
        _unrolled(layer)


def _checked(call: Call) -> _Layer:
    out, source, weight = call.output(), call.data(1, "neuron"), call.data(2, "synapse")
    bias = call.data(3, "neuron") if len(call.arguments) > 3 else None
    rows, height, width, columns = weight.extents
    call.require(
        (height, width) == (1, 1) and source.extents[1:] == (1, 1, columns),
        DlaError.EXTENTS,
        f"the {weight.places} does not take the {source.places}",
        2,
        f"declare {weight.name}, {rows}, 1, 1, {source.extents[3]}",
    )
    call.require(
        out.extents == (source.extents[0], 1, 1, rows),
        DlaError.EXTENTS,
        f"the output has {'x'.join(map(str, out.extents))} elements, the layer gives "
        f"{source.extents[0]}x1x1x{rows}",
        0,
        f"declare {out.name}, {source.extents[0]}, 1, 1, {rows}",
    )
    for data, index, segment in ((source, 1, weight.segments[3]), (out, 0, weight.segments[0])):
        call.require(
            data.segments == (1, 1, 1, segment),
            DlaError.SEGMENTS,
            f"the segments of the {data.places} are not those of the {weight.places}",
            index,
            f"give {data.name} the segment sizes 1, 1, 1, {segment}",
        )
    if bias is not None:
        call.require(
            bias.extents == (1, 1, 1, rows) and bias.segments == (1, 1, 1, weight.segments[0]),
            DlaError.EXTENTS,
            f"the bias has to be 1x1x1x{rows} in segments of {weight.segments[0]}",
            3,
        )
    return _with_buffers(call, out, source, weight, bias)


def _with_buffers(call: Call, out: Data, source: Data, weight: Data, bias: Data | None) -> _Layer:
    rows, columns = weight.segments[0], weight.segments[3]

    def two(name: str, memory: str, size: int) -> tuple[Buffer, Buffer]:
        return (
            call.builder.buffer(f"{name} 0", memory, size),
            call.builder.buffer(f"{name} 1", memory, size),
        )

    return _Layer(
        call, out, source, weight, bias,
        two(source.name, "vector", columns),
        two(weight.name, "matrix", rows * columns),
        two(out.name, "vector", rows * out.extents[0]),
        two("partial", "vector", rows),
        call.builder.buffer(bias.name, "vector", rows) if bias else None,
    )  # fmt: skip


def _fitting(layer: _Layer) -> str:
    """The largest segment sizes with which the layer fits, by halving the larger one."""
    rows, columns = layer.rows, layer.columns
    vector, matrix = (layer.builder.capacities[name] for name in ("vector", "matrix"))
    while 2 * rows * columns > matrix or 2 * columns + (2 * layer.batch + 3) * rows > vector:
        if max(rows, columns) == 1:
            break
        rows, columns = (rows, -(-columns // 2)) if columns >= rows else (-(-rows // 2), columns)
    return f"segments of {rows} outputs and {columns} inputs fit"


def _unrolled(layer: _Layer) -> None:
    """Tile by tile, each loaded before the one before is computed."""
    count_out, _, _, count_in = layer.weight.layout.counts
    tiles = [
        (o, i, b) for o in range(count_out) for i in range(count_in) for b in range(layer.batch)
    ]
    _load_tile(layer, tiles, 0)
    for number, (o, i, b) in enumerate(tiles):
        if number + 1 < len(tiles):
            _load_tile(layer, tiles, number + 1)
        _compute_tile(layer, number, o, i, b)
        if i == count_in - 1:
            _finish_tile(layer, o, b)


def _load_tile(layer: _Layer, tiles: list[tuple[int, int, int]], number: int) -> None:
    o, i, b = tiles[number]
    rows, _, _, columns = layer.weight.layout.shape((o, 0, 0, i))
    source, weight = layer.source.layout, layer.weight.layout
    buffer = layer.inputs[number % 2]
    layer.builder.load(buffer, columns, layer.source.name, source.offset((b, 0, 0, i)), "vector")
    if b == 0:
        matrix = layer.weights[number // layer.batch % 2]
        offset = weight.offset((o, 0, 0, i))
        layer.builder.load(matrix, rows * columns, layer.weight.name, offset, "matrix")


def _sums(layer: _Layer, o: int, b: int) -> str:
    """Where the outputs of one image are summed up."""
    return layer.builder.constant(layer.sums[o % 2].address + b * layer.rows)


def _compute_tile(layer: _Layer, number: int, o: int, i: int, b: int) -> None:
    rows, _, _, columns = layer.weight.layout.shape((o, 0, 0, i))
    matrix, source = layer.weights[number // layer.batch % 2], layer.inputs[number % 2]
    sums = _sums(layer, o, b)
    if i == 0:
        layer.builder.product(sums, rows, matrix, source, columns)
        return
    partial = layer.partial[number % 2]
    layer.builder.product(partial, rows, matrix, source, columns)
    layer.builder.vector("vav", sums, rows, sums, partial)


def _finish_tile(layer: _Layer, o: int, b: int) -> None:
    rows = layer.weight.layout.shape((o, 0, 0, 0))[0]
    sums, builder = _sums(layer, o, b), layer.builder
    if layer.bias is not None and layer.biases is not None:
        if b == 0:
            offset = layer.bias.layout.offset((0, 0, 0, o))
            builder.load(layer.biases, rows, layer.bias.name, offset, "vector")
        builder.vector("vav", sums, rows, sums, layer.biases)
    tile, target = layer.call.complete(sums, (1, 1, rows)), layer.call.target
    builder.store(tile.place, rows, target.name, target.layout.offset((b, 0, 0, o)))


def _looped(layer: _Layer) -> None:
    """Write the layer as two loops, for even segments of one image: addresses in registers, and two
    buffers used in turn.
    """
    builder, (count_out, _, _, count_in) = layer.builder, layer.weight.layout.counts
    rows, columns = layer.rows, layer.columns
    weight = builder.variable(layer.weight.name)
    out = builder.variable(layer.call.target.name)
    bias = builder.variable(layer.bias.name) if layer.bias else ""
    sums = builder.constant(layer.sums[0].address)

    def load_tile(k: int) -> None:
        builder.load_at(layer.inputs[k], columns, source, "vector")
        builder.load_at(layer.weights[k], rows * columns, weight, "matrix")
        builder.add(source, columns)
        builder.add(weight, rows * columns)

    def compute(k: int) -> None:
        builder.product(layer.partial[k], rows, layer.weights[k], layer.inputs[k], columns)
        builder.vector("vav", sums, rows, sums, layer.partial[k])

    with builder.loop(count_out):
        source = builder.variable(layer.source.name)
        builder.clear(sums, rows)
        load_tile(0)
        if count_in > 2:
            with builder.loop((count_in - 1) // 2):
                for k in (0, 1):
                    load_tile(1 - k)
                    compute(k)
        if count_in % 2 == 0:
            load_tile(1)
            compute(0)
        compute(1 - count_in % 2)
        if layer.biases is not None:
            builder.load_at(layer.biases, rows, bias, "vector")
            builder.add(bias, rows)
            builder.vector("vav", sums, rows, sums, layer.biases)
        tile = layer.call.complete(sums, (1, 1, rows))
        builder.store_at(tile.place, rows, out)
        builder.add(out, rows)


BLOCKS = {"fc_fp": Block((3, 4), "out, in, w[, b]", lower)}
