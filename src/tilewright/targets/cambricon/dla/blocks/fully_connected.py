"""Products of matrices and vectors, segment by segment (Lan et al. 2019, Figs. 3, 7, 8).

For each segment of outputs, each segment of inputs is loaded with its part of the matrix during the
previous product, the order of the paper's Code #2. A part of the matrix serves all images. Partial
sums of segments are each rounded to 16 bits and added with saturation.

`fc_bp` writes the gradients of the layer's input (`din`), weights (`dw`) and bias (`db`) from that
of its output (`dout`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

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
        """Numbers of segments of outputs and of inputs."""
        return self.matrix.layout.counts[self.outputs], self.matrix.layout.counts[self.inputs]

    @property
    def sizes(self) -> tuple[int, int]:
        """Outputs and inputs per whole segment."""
        return self.matrix.segments[self.outputs], self.matrix.segments[self.inputs]

    def tile(self, o: int, i: int) -> tuple[int, ...]:
        """The matrix segment for given segments of outputs and inputs."""
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


def _lower(call: BlockCall) -> None:
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

    return _Buffers(
        builder.two(layer.source.name, "vector", inputs),
        builder.two(layer.matrix.name, "matrix", outputs * inputs),
        builder.two(layer.out.name, "vector", outputs * layer.batch),
        builder.two("partial", "vector", outputs),
        builder.buffer(layer.bias.name, "vector", outputs) if layer.bias else None,
    )


def _fitting(layer: _Layer) -> str:
    """Largest segment sizes that fit, found by halving the larger one."""
    (rows, columns), capacities = layer.sizes, layer.call.builder.capacities
    vector, matrix = (capacities[name] for name in ("vector", "matrix"))
    while 2 * rows * columns > matrix or 2 * columns + (2 * layer.batch + 3) * rows > vector:
        if max(rows, columns) == 1:
            break
        rows, columns = (rows, -(-columns // 2)) if columns >= rows else (-(-rows // 2), columns)
    return f"segments of {rows} outputs and {columns} inputs fit"


def _step(layer: _Layer, buffers: _Buffers, place: _Place) -> TileStep:
    o, i, number, target = place.o, place.i, place.number, layer.call.target
    loads = [Load.segment(buffers.inputs[number % 2], layer.source, (place.b, 0, 0, i))]
    tile, turn = layer.tile(o, i), number // layer.batch % 2
    if place.b == 0:
        loads.append(Load.segment(buffers.matrices[turn], layer.matrix, tile))
    is_last, shape = i == layer.counts[1] - 1, layer.matrix.layout.shape(tile)
    needs = []
    if layer.bias and buffers.biases and is_last and place.b == 0:
        needs.append(Load.segment(buffers.biases, layer.bias, (0, 0, 0, o)))
    return TileStep(
        tuple(loads),
        partial(_finish, layer, buffers, place),
        (number % 2, turn, o % 2, place.b, shape, i == 0, is_last),
        (target.name, target.layout.offset((place.b, 0, 0, o))) if is_last else None,
        tuple(needs),
        first=partial(_multiply, layer, buffers, place),
        halves=_halves(layer, buffers, place),
    )


def _halves(
    layer: _Layer, buffers: _Buffers, place: _Place
) -> tuple[Callable[[], None], Callable[[], ResultTile | None]] | None:
    """Products of the first half of a segment's rows and of the rest; None for columns."""
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
    """Compute the products of some rows of a segment, and add them to earlier ones."""
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
    """The buffer from element `first` on."""
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
    """The address of one image's outputs."""
    return buffers.sums[place.o % 2].address + place.b * layer.sizes[0]


# Gradients of a fully-connected layer.


@dataclass(frozen=True)
class _Training:
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


def _lower_gradient(call: BlockCall) -> None:
    """Write `fc_bp din, dw, db, dout, in, w`. Raises Fault."""
    layer = _checked(call)
    count_out, _, _, count_in = layer.weight.layout.counts
    batch = layer.dout.extents[0]
    call.require_tiles(count_in * count_out * batch)
    places = [(i, o, b) for i in range(count_in) for o in range(count_out) for b in range(batch)]
    steps = [_gradient_step(layer, place, number) for number, place in enumerate(places)]
    write_steps(call.builder, steps, 1)


def _checked(call: BlockCall) -> _Training:
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
) -> _Training:
    builder, (_, dw, _, dout, source, weight) = call.builder, data

    return _Training(
        call, *data,
        builder.two(dout.name, "vector", part),
        builder.two(source.name, "vector", depth),
        builder.two(weight.name, "matrix", part * depth),
        builder.buffer("sums", "vector", source.extents[0] * depth),
        builder.buffer("partial", "vector", depth),
        builder.buffer("biases", "vector", part),
        builder.buffer(dw.name, "matrix", part * depth),
        builder.buffer("product", "matrix", part * depth),
    )  # fmt: skip


def _gradient_step(layer: _Training, place: tuple[int, int, int], number: int) -> TileStep:
    i, o, b = place
    loads = [
        Load.segment(layer.gradients[number % 2], layer.dout, (b, 0, 0, o)),
        Load.segment(layer.inputs[number % 2], layer.source, (b, 0, 0, i)),
    ]
    if b == 0:
        matrix = layer.weights[number // layer.dout.extents[0] % 2]
        loads.append(Load.segment(matrix, layer.weight, (o, 0, 0, i)))
    return TileStep(tuple(loads), partial(_gradients, layer, place, number), place)


def _gradients(layer: _Training, place: tuple[int, int, int], number: int) -> None:
    """Compute the products of one tile and one image, and store what they complete."""
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


def _store(layer: _Training, place: tuple[int, int, int], sizes: tuple[int, int]) -> None:
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


BLOCKS = {
    "fc_fp": Block((3, 4), "out, in, w[, b]", _lower),
    "mmv": Block((3, 3), "out, in, m", _lower),
    "vmm": Block((3, 3), "out, in, m", _vector_times_matrix),
    "fc_bp": Block((6, 6), "din, dw, db, dout, in, w", _lower_gradient),
}
