"""The built-in blocks by name, collected from the modules of this folder."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.targets.cambricon.dla.blocks import (
    convolution,
    elementwise,
    fully_connected,
    normalisation,
    pooling,
)
from tilewright.targets.cambricon.dla.blocks.call import Block, BlockArgument, BlockCall

_MODULES = (fully_connected, convolution, pooling, elementwise, normalisation)
BLOCKS: Mapping[str, Block] = {k: block for m in _MODULES for k, block in m.BLOCKS.items()}
"""Each can also be called with the prefix `block_`."""

__all__ = ["BLOCKS", "Block", "BlockArgument", "BlockCall"]
