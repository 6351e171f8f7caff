"""The blocks of mathematics: products of matrices and vectors, matrices element by element, powers.

A matrix is a synapse of rows, 1, 1, columns.
"""

from __future__ import annotations

from functools import partial

from tilewright.targets.cambricon.dla.blocks import fully_connected
from tilewright.targets.cambricon.dla.blocks.call import Block, Call, Tile
from tilewright.targets.cambricon.dla.blocks.elementwise import combination, segments
from tilewright.targets.cambricon.dla.blocks.normalisation import power
from tilewright.targets.cambricon.dla.blocks.steps import Load, Step, write_steps
from tilewright.targets.cambricon.dla.builder import Buffer, Builder
from tilewright.targets.cambricon.dla.declarations import Data


def _vector_times_matrix(call: Call) -> None:
    """Write `vmm out, in, m`: for each segment of columns the rows one after the other. Raises
    Fault.
    """
    out, source, matrix = call.output(), call.data(1, "neuron"), call.data(2, "synapse")
    rows, _, _, columns = matrix.extents
    part, depth = matrix.segments[3], matrix.segments[0]
    call.require_shape(2, matrix, (rows, 1, 1, columns), (depth, 1, 1, part))
    call.require_shape(1, source, (1, 1, 1, rows), (1, 1, 1, depth))
    call.require_shape(0, out, (1, 1, 1, columns), (1, 1, 1, part))
    builder = call.builder
    inputs = [builder.buffer(f"{source.name} {k}", "vector", depth) for k in (0, 1)]
    tiles = [builder.buffer(f"{matrix.name} {k}", "matrix", part * depth) for k in (0, 1)]
    sums = [builder.buffer(f"{out.name} {k}", "vector", part) for k in (0, 1)]
    rest = builder.buffer("partial", "vector", part)
    steps = []
    count = matrix.layout.counts[0]
    places = [(c, r) for c in range(matrix.layout.counts[3]) for r in range(count)]
    for k, (c, r) in enumerate(places):
        place = (call.target.name, call.target.layout.offset((0, 0, 0, c)))
        buffers = (sums[c % 2], rest, inputs[k % 2], tiles[k % 2])
        shape = matrix.layout.shape((r, 0, 0, c))
        loads = (
            _load(inputs[k % 2], source, (0, 0, 0, r)),
            _load(tiles[k % 2], matrix, (r, 0, 0, c)),
        )
        steps.append(
            Step(
                loads,
                partial(_product, call, buffers, shape, r == 0, r == count - 1),
                (k % 2, c % 2, shape, r == 0),
                place if r == count - 1 else None,
            )
        )
    write_steps(builder, steps, count)


def _load(buffer: Buffer, data: Data, index: tuple[int, ...]) -> Load:
    shape, offset = data.layout.shape(index), data.layout.offset(index)
    return Load(buffer.memory, buffer.address, shape[0] * shape[3], data.name, offset)


def _product(
    call: Call,
    buffers: tuple[Buffer, ...],
    shape: tuple[int, ...],
    is_first: bool,
    is_last: bool,
) -> Tile | None:
    (sums, rest, source, matrix), (rows, _, _, columns) = buffers, shape
    builder = call.builder
    builder.transposed_product(sums if is_first else rest, columns, matrix, source, rows)
    if not is_first:
        builder.vector("vav", sums, columns, sums, rest)
    return call.complete(sums, (1, 1, columns)) if is_last else None


def _power(call: Call) -> None:
    """Write `vpow out, in, #exponent`, for positive elements. Raises Fault."""
    exponent = call.number(2, 0, -(2**15))

    def compute(builder: Builder, buffers: tuple[Buffer, ...], size: int) -> None:
        power(builder, buffers[0], size, exponent)

    segments(call, (1,), compute)


BLOCKS = {
    "mmv": Block((3, 3), "out, in, m", fully_connected.lower),
    "vmm": Block((3, 3), "out, in, m", _vector_times_matrix),
    "madd": combination("vav", "synapse"),
    "msub": combination("vsv", "synapse"),
    "mmul": combination("vmv", "synapse"),
    "mdiv": combination("vdv", "synapse"),
    "vpow": Block((3, 3), "out, in, #exponent", _power),
}
