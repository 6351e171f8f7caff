"""Elementwise blocks: expressions over neurons or synapses.

Each segment is loaded while the previous one is computed, by the instructions that compiled
programs use for the expression (`vector_steps`). Fusion applies an activation in place after
another block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from tilewright.targets.cambricon.dla.blocks.call import ONE, Block, BlockCall, ResultTile, Stage
from tilewright.targets.cambricon.dla.blocks.steps import Load, TileStep, write_steps
from tilewright.targets.cambricon.dla.builder import Builder, Place, ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError
from tilewright.targets.cambricon.vector_steps import Step as VectorStep
from tilewright.targets.cambricon.vector_steps import vector_steps_of

_FRACTION_BITS = ONE.bit_length() - 1
_SIGMOID = "exp({0}) / (exp({0}) + 1.0)"
_ACTIVATIONS = {
    "relu_fp": "max(x0, 0.0)",
    "sigmoid_fp": _SIGMOID.format("x0"),
    "tanh_fp": f"2.0 * ({_SIGMOID.format('(x0 + x0)')}) - 1.0",
}
_GRADIENTS = {
    "relu_bp": "x0 * (x1 > 0.0)",
    "sigmoid_bp": "x0 * (x1 - x1 * x1)",
    "tanh_bp": "x0 * (1.0 - x1 * x1)",
}
"""Expressions over the activation's output gradient (x0) and its output (x1)."""
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def _computed(builder: Builder, expression: str, places: Sequence[Place], size: int) -> None:
    """Write `size` elements of an expression over x0, x1, .. at `places`, into the place of x0."""
    steps = vector_steps_of(expression, len(places), _FRACTION_BITS)
    temporaries = [builder.scratch(f"temporary {k}", size) for k in range(steps.temporaries)]
    held = [places[0], *places, *temporaries]

    def write(step: VectorStep, sources: Sequence[int]) -> None:
        given = [held[source] for source in sources]
        if step.immediate is not None:
            given.append(f"#{step.immediate}")
        builder.vector(step.mnemonic, held[step.out], size, *given)

    for step in steps.constants:  # they read only themselves and wait for no transfer
        write(step, [step.out] * len(step.sources))
    for step in steps.steps:
        write(step, step.sources)


def _power(call: BlockCall) -> str:
    """Expression for powers of positive elements; the exponent is an element."""
    return f"exp({call.number(2, 0, -(2**15)) / ONE} * log(x0))"


def _activation(expression: str) -> Block:
    def stage(call: BlockCall) -> Stage:
        check_alike(call, call.output(), [call.data(1, "neuron")], DlaError.FUSION)

        def on_tile(builder: Builder, tile: ResultTile) -> ResultTile:
            _computed(builder, expression, [tile.place], tile.size)
            return tile

        return on_tile

    lower = partial(_lower, expression=lambda _: expression, sources=(1,))
    return Block((2, 2), "out, in", lower, stage)


def _of_two(form: str, expression: str, kind: str = "neuron") -> Block:
    """A block of two operands."""
    lower = partial(_lower, expression=lambda _: expression, sources=(1, 2), kind=kind)
    return Block((3, 3), form, lower)


def _lower(
    call: BlockCall,
    expression: Callable[[BlockCall], str],
    sources: Sequence[int],
    kind: str = "neuron",
) -> None:
    """Per segment: load data, compute in place of the first operand, store. Raises Fault."""
    out, text = call.written(0, kind), expression(call)
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
        work = partial(_on_segment, call, text, buffers[k % 2], shape, k)
        steps.append(TileStep(loads, work, (k % 2, shape), (call.target.name, offset)))
    write_steps(call.builder, steps, 1)
    fitting = call.builder.capacities["vector"] // len(call.builder.buffers)
    call.builder.check(f"segments of {fitting} elements fit")


def _on_segment(
    call: BlockCall,
    text: str,
    buffers: tuple[ScratchpadBuffer, ...],
    shape: tuple[int, ...],
    turn: int,
) -> ResultTile:
    _computed(call.builder, text, buffers, prod(shape))
    return call.complete(buffers[0], (shape[0] * shape[1], *shape[2:]), turn)


def check_alike(call: BlockCall, out: Data, given: Sequence[Data], code: DlaError) -> None:
    """Refuse data that is not divided like the block's output. Raises Fault."""
    for k, data in enumerate(given):
        call.require(
            (data.extents, data.segments) == (out.extents, out.segments),
            code,
            f"the {data.places} is not divided as the {out.places}",
            1 + k,
            "declare both with the same extents and segment sizes",
        )


BLOCKS = {
    **{name: _activation(text) for name, text in _ACTIVATIONS.items()},
    **{name: _of_two("din, dout, out", text) for name, text in _GRADIENTS.items()},
    **{
        f"{letter}{name}": _of_two("out, in0, in1", f"x0 {operator} x1", kind)
        for letter, kind in (("v", "neuron"), ("m", "synapse"))
        for name, operator in _OPERATORS.items()
    },
    "vpow": Block((3, 3), "out, in, #exponent", partial(_lower, expression=_power, sources=(1,))),
}
