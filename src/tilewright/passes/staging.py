"""The passes to the staged stage: transfers inferred, boundaries explicit, all still parametric.

They run once per set of discrete choices. `observer` sees the program between passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.ir.nodes import Program
from tilewright.passes.handle_boundary import handle_boundary
from tilewright.passes.infer_dma import infer_dma

Observer = Callable[[str, Program], None]


def nothing(_: str, __: Program) -> None:
    """An observer that looks away."""


def stage(
    seed: Program,
    stages: Mapping[str, str],
    observer: Observer = nothing,
    *,
    workspace: bool = True,
) -> Program:
    """Seed stage to staged: transfers inferred, boundaries explicit, all still parametric.

    A strided operand of a matrix product that is read by vectors gets a `workspace` to be packed
    into.
    """
    staged = infer_dma(seed, stages, workspace=workspace)
    observer("infer_dma", staged)
    bounded = handle_boundary(staged)
    observer("handle_boundary", bounded)
    return bounded
