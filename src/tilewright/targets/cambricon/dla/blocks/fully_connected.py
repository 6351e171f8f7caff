"""Products of matrices and vectors, segment by segment (Lan et al. 2019, Figs. 3, 7, 8).

For each segment of outputs, each segment of inputs is loaded with its part of the matrix while the
product of the segments before is computed: the order of the paper's Code #2. A part of the matrix
serves all images. The partial sums of segments are rounded to 16 bits each and added with
saturation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import Block, BlockCall, ResultTile
from tilewright.targets.cambricon.dla.blocks.steps import Load, TileStep, write_steps
from tilewright.targets.cambricon.dla.builder import ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError

_ROWS, _COLUMNS = 0, 3
"""The axes of a matrix: a synapse of rows, 1, 1, columns."""


@dataclass(frozen=True)
class _Layer:
    """Checked operands. The matrix has results along its axis `outputs`, terms along `inputs`."""

    call: BlockCall
    out: Data
    source: Data
    matrix: Data
    bias: Data | None = None
    outputs: int = _ROWS
    inputs: int = _COLUMNS

    @property
    def batch(self) -> int:
        return self.out.extents[0]

    @property
    def counts(self) -> tuple[int, int]:
        """Segments of outputs and of inputs."""
        return self.matrix.layout.counts[self.outputs], self.matrix.layout.counts[self.inputs]

    @property
    def sizes(self) -> tuple[int, int]:
        """Outputs and inputs of whole segments."""
        return self.matrix.segments[self.outputs], self.matrix.segments[self.inputs]

    def tile(self, o: int, i: int) -> tuple[int, ...]:
        """The segment of the matrix for segments of outputs and inputs."""
        return (o, 0, 0, i) if self.outputs == _ROWS else (i, 0, 0, o)


@dataclass(frozen=True)
class _Buffers:
    inputs: tuple[ScratchpadBuffer, ScratchpadBuffer]
    matrices: tuple[ScratchpadBuffer, ScratchpadBuffer]
    sums: tuple[ScratchpadBuffer, ScratchpadBuffer]
    partial: tuple[ScratchpadBuffer, ScratchpadBuffer]
    biases: ScratchpadBuffer | None


@dataclass(frozen=True)
class _Place:
    """A step: segment of outputs, segment of inputs, image, and its number."""

    o: int
    i: int
    b: int
    number: int


def _fully_connected(call: BlockCall) -> None:
    """Write `fc_fp out, in, w[, b]`. Raises Fault."""
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
    _write(_Layer(call, out, source, weight, bias))


def _vector_times_matrix(call: BlockCall) -> None:
    """Write `vmm out, in, m`. Raises Fault."""
    out, source, matrix = call.output(), call.data(1, "neuron"), call.data(2, "synapse")
    rows, _, _, columns = matrix.extents
    part, depth = matrix.segments[3], matrix.segments[0]
    call.require_shape(2, matrix, (rows, 1, 1, columns), (depth, 1, 1, part))
    call.require_shape(1, source, (1, 1, 1, rows), (1, 1, 1, depth))
    call.require_shape(0, out, (1, 1, 1, columns), (1, 1, 1, part))
    _write(_Layer(call, out, source, matrix, outputs=_COLUMNS, inputs=_ROWS))


def _write(layer: _Layer) -> None:
    call, (outputs, inputs) = layer.call, layer.counts
    buffers = _allocated(layer)
    call.builder.check(_fitting(layer))
    call.require_tiles(outputs * inputs * layer.batch)
    places = product(range(outputs), range(inputs), range(layer.batch))
    steps = [_step(layer, buffers, _Place(*p, number)) for number, p in enumerate(places)]
    write_steps(call.builder, steps, inputs * layer.batch)


def _allocated(layer: _Layer) -> _Buffers:
    (outputs, inputs), builder = layer.sizes, layer.call.builder

    def two(name: str, memory: str, size: int) -> tuple[ScratchpadBuffer, ScratchpadBuffer]:
        return builder.buffer(f"{name} 0", memory, size), builder.buffer(f"{name} 1", memory, size)

    return _Buffers(
        two(layer.source.name, "vector", inputs),
        two(layer.matrix.name, "matrix", outputs * inputs),
        two(layer.out.name, "vector", outputs * layer.batch),
        two("partial", "vector", outputs),
        builder.buffer(layer.bias.name, "vector", outputs) if layer.bias else None,
    )


def _fitting(layer: _Layer) -> str:
    """The largest segment sizes with which the layer fits, by halving the larger one."""
    (rows, columns), capacities = layer.sizes, layer.call.builder.capacities
    vector, matrix = (capacities[name] for name in ("vector", "matrix"))
    while 2 * rows * columns > matrix or 2 * columns + (2 * layer.batch + 3) * rows > vector:
        if max(rows, columns) == 1:
            break
        rows, columns = (rows, -(-columns // 2)) if columns >= rows else (-(-rows // 2), columns)
    return f"segments of {rows} outputs and {columns} inputs fit"


def _step(layer: _Layer, buffers: _Buffers, place: _Place) -> TileStep:
    o, i, number, target = place.o, place.i, place.number, layer.call.target
    loads = [_load(buffers.inputs[number % 2], layer.source, (place.b, 0, 0, i))]
    tile, turn = layer.tile(o, i), number // layer.batch % 2
    if place.b == 0:
        loads.append(_load(buffers.matrices[turn], layer.matrix, tile))
    is_last, shape = i == layer.counts[1] - 1, layer.matrix.layout.shape(tile)
    needs = []
    if layer.bias and buffers.biases and is_last and place.b == 0:
        needs.append(_load(buffers.biases, layer.bias, (0, 0, 0, o)))
    return TileStep(
        tuple(loads),
        partial(_finish, layer, buffers, place),
        (number % 2, turn, o % 2, place.b, shape, i == 0, is_last),
        (target.name, target.layout.offset((place.b, 0, 0, o))) if is_last else None,
        tuple(needs),
        first=partial(_multiply, layer, buffers, place),
        halves=_halves(layer, buffers, place),
    )


def _load(buffer: ScratchpadBuffer, data: Data, index: tuple[int, ...]) -> Load:
    layout = data.layout
    return Load(
        buffer.memory, buffer.address, prod(layout.shape(index)), data.name, layout.offset(index)
    )


def _halves(
    layer: _Layer, buffers: _Buffers, place: _Place
) -> tuple[Callable[[], None], Callable[[], ResultTile | None]] | None:
    """A product of the first half of a segment's rows, then one of the others; a matrix that lies
    by columns has no halves.
    """
    middle = _extents(layer, place)[0] // 2
    if layer.outputs != _ROWS or not middle:
        return None

    def second() -> ResultTile | None:
        _multiply(layer, buffers, place, middle, None)
        return _finish(layer, buffers, place)

    return partial(_multiply, layer, buffers, place, 0, middle), second


def _multiply(
    layer: _Layer, buffers: _Buffers, place: _Place, first: int = 0, end: int | None = None
) -> None:
    """The products of some rows of a segment, and their addition to those before."""
    builder, number = layer.call.builder, place.number
    size, terms = _extents(layer, place)
    matrix, source = buffers.matrices[number // layer.batch % 2], buffers.inputs[number % 2]
    sums = builder.constant(_sums(layer, buffers, place) + first)
    rest = _behind(buffers.partial[number % 2], first)
    own, count = _behind(matrix, first * terms), (size if end is None else end) - first
    multiply = builder.product if layer.outputs == _ROWS else builder.transposed_product
    multiply(rest if place.i else sums, count, own, source, terms)
    if place.i:
        builder.vector("vav", sums, count, sums, rest)


def _behind(buffer: ScratchpadBuffer, elements: int) -> ScratchpadBuffer:
    """The buffer without its first elements."""
    return replace(buffer, address=buffer.address + elements, size=buffer.size - elements)


def _finish(layer: _Layer, buffers: _Buffers, place: _Place) -> ResultTile | None:
    if place.i < layer.counts[1] - 1:
        return None
    size, _ = _extents(layer, place)
    sums = layer.call.builder.constant(_sums(layer, buffers, place))
    if buffers.biases is not None:
        layer.call.builder.vector("vav", sums, size, sums, buffers.biases)
    return layer.call.complete(sums, (1, 1, size))


def _extents(layer: _Layer, place: _Place) -> tuple[int, int]:
    """Outputs and inputs of a step."""
    shape = layer.matrix.layout.shape(layer.tile(place.o, place.i))
    return shape[layer.outputs], shape[layer.inputs]


def _sums(layer: _Layer, buffers: _Buffers, place: _Place) -> int:
    """The address of the outputs of one image."""
    return buffers.sums[place.o % 2].address + place.b * layer.sizes[0]


BLOCKS = {
    "fc_fp": Block((3, 4), "out, in, w[, b]", _fully_connected),
    "mmv": Block((3, 3), "out, in, m", _fully_connected),
    "vmm": Block((3, 3), "out, in, m", _vector_times_matrix),
}
