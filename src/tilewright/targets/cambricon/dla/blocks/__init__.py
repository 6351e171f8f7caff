"""The built-in blocks, by name: those of the modules of this folder."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.targets.cambricon.dla.blocks import (
    convolution,
    elementwise,
    fully_connected,
    pooling,
)
from tilewright.targets.cambricon.dla.blocks.call import Argument, Block, Call

BLOCKS: Mapping[str, Block] = {
    **fully_connected.BLOCKS,
    **convolution.BLOCKS,
    **pooling.BLOCKS,
    **elementwise.BLOCKS,
}
"""Each may be called with `block_` before its name."""

__all__ = ["BLOCKS", "Argument", "Block", "Call"]
