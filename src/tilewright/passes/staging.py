"""The passes to the staged stage: transfers inferred, boundaries explicit, all still parametric."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import InferDma
from tilewright.passes.map_accumulations import MapAccumulations

Staging = Callable[[Mapping[str, str]], tuple[Pass, ...]]
"""From each tensor's stage (the loop outside which it is transferred) to the passes of a nest."""


def staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The passes for machines with scratchpads, once per set of discrete choices."""
    return InferDma(stages), MapAccumulations(), HandleBoundary()
