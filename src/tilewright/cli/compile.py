"""`tilewright compile`: choose, generate, check and report, for an operator or a network."""

from __future__ import annotations

from tilewright.cli.arguments import Compile
from tilewright.cli.kinds import kind_of
from tilewright.cli.output import UsageProblem
from tilewright.cli.workload import is_operator, machine_of
from tilewright.compiler.toolchain import Toolchain
from tilewright.ops import OPERATORS


def run(asked: Compile) -> None:
    """Choose the best schedules of a network or operator; generate and time its code."""
    chain, layers = Toolchain(machine_of(asked.machine)), asked.options.layers
    asked.options.require_one_check()
    if asked.options.schedule is not None and not is_operator(asked.network):
        raise UsageProblem(f"--schedule is for one operator, {', '.join(OPERATORS)}")
    if asked.options.training and (
        layers or is_operator(asked.network) or chain.divides is not None
    ):
        raise UsageProblem("--training is for networks that are compiled as a whole")
    if layers and is_operator(asked.network):
        raise UsageProblem(f"--layers is for networks, found {asked.network}")
    kind_of(asked.network, chain, layers=layers).compile(asked, chain)
