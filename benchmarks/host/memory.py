"""Memory of operands while candidates are compared: the same for all, on huge pages.

The level 2 cache is indexed by physical addresses: with ordinary pages, chance decides which of
them share a set, and the same kernel on other pages takes up to a fifth longer.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.artifact import Artifact
from tilewright.targets.host.emit.header import stored_elements

_HUGE_PAGE_BYTES = 1 << 21

Array = NDArray[np.float32]


def on_huge_pages(elements: int) -> Array:
    """Normally distributed numbers that begin on a huge page, where the system has them."""
    size = 4 * elements
    region = mmap.mmap(-1, size + 2 * _HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    region.madvise(mmap.MADV_HUGEPAGE)
    memory = np.frombuffer(region, np.uint8)
    start = -memory.ctypes.data % _HUGE_PAGE_BYTES
    array: Array = memory[start : start + size].view(np.float32)
    array[...] = np.random.default_rng(0).standard_normal(elements, np.float32)
    return array


@dataclass(frozen=True)
class Memory:
    """One array per use ("input", "output", "workspace"), as large as the largest so far."""

    arrays: dict[str, Array] = field(default_factory=dict)

    def __call__(self, use: str, elements: int) -> Array:
        """The first `elements` of the array for a use, which grows if necessary."""
        known = self.arrays.get(use)
        if known is None or known.size < elements:
            self.arrays[use] = known = on_huge_pages(elements)
        return known[:elements]

    def workspace(self, artifact: Artifact) -> Array:
        """Memory for a kernel's workspace."""
        return self("workspace", artifact.scratchpad_bytes // 4 + 1)

    def reserve(self, artifact: Artifact) -> None:
        """Grow the arrays for a kernel, before any kernel is bound to them."""
        self.workspace(artifact)
        for info in artifact.tensors:
            self(info.kind, stored_elements(info))
