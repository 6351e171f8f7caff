"""Fusion: which blocks may follow another one on its tiles, before those are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.asm.diagnostics import Fault, SourceLine, Span
from tilewright.targets.cambricon.dla.blocks import Block, Call
from tilewright.targets.cambricon.dla.blocks.call import Stage
from tilewright.targets.cambricon.dla.declarations import Data
from tilewright.targets.cambricon.dla.error_codes import DlaError
from tilewright.targets.cambricon.dla.pieces import Piece


@dataclass
class Fusion:
    """Blocks between `@fuse` and `@endfuse`; a fault was reported where others interrupt them."""

    line: SourceLine
    calls: list[tuple[SourceLine, str, list[Piece], Span]] = field(default_factory=list)
    is_interrupted: bool = False


def stage_of(call: Call, block: Block, previous: Data, users: Sequence[str]) -> Stage:
    """The computation of a call on tiles of `previous`, which it has to take; `users` are the other
    blocks that take or write it. Raises Fault.
    """
    if block.stage is None:
        raise Fault(
            DlaError.FUSION,
            f"{call.name} cannot be fused behind another block",
            call.span,
            fix="fuse @relu_fp, @sigmoid_fp, @tanh_fp, @maxpool_fp or @avgpool_fp behind a block",
        )
    out, source = call.output(), call.data(1, "neuron")
    call.require(
        source == previous,
        DlaError.FUSION,
        f"it has to take what the block before writes, not {source.name}",
        1,
    )
    call.require(
        not users or out == source,
        DlaError.FUSION,
        f"{source.name} is not stored, but taken or written by {', '.join(users)}",
        1,
        f"leave {call.name} out of the fusion",
    )
    return block.stage(call)
