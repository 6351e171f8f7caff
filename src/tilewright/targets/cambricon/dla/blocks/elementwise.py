"""Blocks that compute element by element: activations, and sums, products and quotients of neurons.

Each segment is loaded while the one before is computed. An activation may follow another block in
place, which is what fusion does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import ONE, Block, Call, Stage, Tile
from tilewright.targets.cambricon.dla.blocks.steps import Load, Step, write_steps
from tilewright.targets.cambricon.dla.builder import Buffer, Builder
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError

InPlace = Callable[[Builder, Buffer | str, int], None]


def relu(builder: Builder, x: Buffer | str, size: int) -> None:
    """x = max(x, 0)."""
    zero = builder.scratch("zero", size)
    builder.clear(zero, size)
    builder.vector("vgtm", x, size, x, zero)


def sigmoid(builder: Builder, x: Buffer | str, size: int) -> None:
    """x = e / (1 + e) with e = exp(x)."""
    exponential, divisor = builder.scratch("exponential", size), builder.scratch("divisor", size)
    builder.vector("vexp", exponential, size, x)
    builder.vector("vas", divisor, size, exponential, f"#{ONE}")
    builder.vector("vdv", x, size, exponential, divisor)


def tanh(builder: Builder, x: Buffer | str, size: int) -> None:
    """x = 2 sigmoid(2 x) - 1."""
    builder.vector("vav", x, size, x, x)
    sigmoid(builder, x, size)
    builder.vector("vav", x, size, x, x)
    builder.vector("vas", x, size, x, f"#{-ONE}")


def _activation(function: InPlace) -> Block:
    def lower(call: Call) -> None:
        segments(call, (1,), lambda builder, buffers, size: function(builder, buffers[0], size))

    def stage(call: Call) -> Stage:
        check_alike(call, call.output(), [call.data(1, "neuron")], DlaError.FUSION)

        def on_tile(builder: Builder, tile: Tile) -> Tile:
            function(builder, tile.place, tile.size)
            return tile

        return on_tile

    return Block((2, 2), "out, in", lower, stage)


def combination(mnemonic: str, kind: str = "neuron") -> Block:
    """A block that combines two neurons, or two synapses, element by element."""

    def compute(builder: Builder, buffers: tuple[Buffer, ...], size: int) -> None:
        builder.vector(mnemonic, buffers[0], size, *buffers)

    lower = partial(segments, sources=(1, 2), compute=compute, kind=kind)
    return Block((3, 3), "out, in0, in1", lower)


def segments(
    call: Call,
    sources: Sequence[int],
    compute: Callable[[Builder, tuple[Buffer, ...], int], None],
    kind: str = "neuron",
) -> None:
    """Load the data at some arguments, compute in the first one's place and store, segment after
    segment. Raises Fault.
    """
    out = call.written(0, kind)
    given = [call.data(index, kind) for index in sources]
    check_alike(call, out, given, DlaError.SEGMENTS)
    size = prod(out.segments)
    buffers = [
        tuple(call.builder.buffer(f"{data.name} {k}", "vector", size) for data in given)
        for k in (0, 1)
    ]
    steps = []
    for k, index in enumerate(out.layout.indices()):
        offset, shape = out.layout.offset(index), out.layout.shape(index)
        loads = tuple(
            Load("vector", buffer.address, prod(shape), data.name, offset)
            for buffer, data in zip(buffers[k % 2], given, strict=True)
        )
        work = partial(_on_segment, call, compute, buffers[k % 2], shape, k)
        steps.append(Step(loads, work, (k % 2, shape), (call.target.name, offset)))
    write_steps(call.builder, steps, 1)
    fitting = call.builder.capacities["vector"] // len(call.builder.buffers)
    call.builder.check(f"segments of {fitting} elements fit")


def _on_segment(
    call: Call,
    compute: Callable[[Builder, tuple[Buffer, ...], int], None],
    buffers: tuple[Buffer, ...],
    shape: tuple[int, ...],
    turn: int,
) -> Tile:
    compute(call.builder, buffers, prod(shape))
    return call.complete(buffers[0], (shape[0] * shape[1], *shape[2:]), turn)


def check_alike(call: Call, out: Data, given: Sequence[Data], code: DlaError) -> None:
    """Refuse data that is not divided as what the block writes. Raises Fault."""
    for k, data in enumerate(given):
        call.require(
            (data.extents, data.segments) == (out.extents, out.segments),
            code,
            f"the {data.places} is not divided as the {out.places}",
            1 + k,
            "declare both with the same extents and segment sizes",
        )


BLOCKS = {
    "relu_fp": _activation(relu),
    "sigmoid_fp": _activation(sigmoid),
    "tanh_fp": _activation(tanh),
    "vadd": combination("vav"),
    "vsub": combination("vsv"),
    "vmul": combination("vmv"),
    "vdiv": combination("vdv"),
}
