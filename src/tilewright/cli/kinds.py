"""Kinds of workloads, and the one place that asks which kind something is.

An operator, or each layer of a network, is a kernel of its own; a network is planned as a whole, or
divided over cores.
"""

from __future__ import annotations

from typing import Protocol, cast

from tilewright.cli.arguments import Compile, Run
from tilewright.cli.workload import is_operator
from tilewright.common.deferred import Deferred
from tilewright.compiler.toolchain import Toolchain


class Kind(Protocol):
    """The commands for workloads of one kind. Errors: UsageProblem for options of another."""

    def compile(self, asked: Compile, chain: Toolchain) -> None:
        """Choose, generate, write and show."""

    def run(self, asked: Run, chain: Toolchain) -> None:
        """Compute on data, compare and show."""


def kind_of(workload: str, chain: Toolchain, *, layers: bool = False) -> Kind:
    """The commands for a workload; with `layers`, a network's layers are kernels of their own."""
    module = "networks" if chain.divides is None else "divide"
    if layers or is_operator(workload):
        module = "kernels"
    return cast("Kind", Deferred(f"tilewright.cli.{module}"))
