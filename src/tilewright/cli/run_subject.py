"""What `tilewright run` does: networks in `run_network`, operators in `run_operator`."""

from __future__ import annotations

from tilewright.cli.division_options import DivisionOptions
from tilewright.cli.options import HostMachineOptions, OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.cli.run import CompareOptions, RunOptions
from tilewright.cli.run_network import run_network
from tilewright.cli.workload import is_operator
from tilewright.codegen.artifact import EMITS, LOADS
from tilewright.network.refusal import require_networks
from tilewright.partition.capability import DIVIDES


def run_subject(
    name: str,
    machine: HostMachineOptions,
    operator: OperatorOptions,
    search: SearchOptions,
    compare: CompareOptions,
    options: RunOptions,
    division: DivisionOptions,
    output: OutputOptions,
) -> None:
    """Run an operator or a network on this computer, compare it, and time it."""
    target, files, top = machine.load(), options.files, options.top
    if not is_operator(name):
        if DIVIDES.of(target) is not None:
            from tilewright.cli.divide import run_divided  # heavy: numba

            run_divided(name, target, operator, search, compare.other, output, files, top, division)
            return
        division.require_undivided()
        require_networks(target)
        run_network(name, machine, operator, search, compare, output, files, top)
        return
    division.require_undivided()
    compiling = "compile --check on this machine" if EMITS.of(target) else ""
    LOADS.required(target, compiling)
    if compare.compare:
        raise UsageProblem("--compare is for networks; operators are compared with the reference")
    from tilewright.cli.run_operator import run_operator  # heavy: numba

    run_operator(name, target, operator, search, output, files, top)
