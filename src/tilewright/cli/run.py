"""`tilewright run`: compile for this computer, run, judge and time."""

from __future__ import annotations

from tilewright.cli.arguments import Run
from tilewright.cli.kinds import kind_of
from tilewright.cli.workload import machine_of
from tilewright.compiler.toolchain import Toolchain


def run(asked: Run) -> None:
    """Run an operator or a network on this computer, compare it, and time it."""
    chain = Toolchain(machine_of(asked.machine))
    kind_of(asked.workload_name, chain).run(asked, chain)
