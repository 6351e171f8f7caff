"""The built-in blocks, by name: those of the modules of this folder."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.targets.cambricon.dla.blocks import (
    convolution,
    convolution_training,
    elementwise,
    fully_connected,
    normalisation,
    normalisation_training,
    pooling,
    pooling_training,
    training,
)
from tilewright.targets.cambricon.dla.blocks.call import Block, BlockArgument, BlockCall

BLOCKS: Mapping[str, Block] = {
    **fully_connected.BLOCKS,
    **convolution.BLOCKS,
    **convolution_training.BLOCKS,
    **pooling.BLOCKS,
    **elementwise.BLOCKS,
    **normalisation.BLOCKS,
    **normalisation_training.BLOCKS,
    **training.BLOCKS,
    **pooling_training.BLOCKS,
}
"""Each may be called with `block_` before its name."""

__all__ = ["BLOCKS", "Block", "BlockArgument", "BlockCall"]
