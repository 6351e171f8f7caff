"""`tilewright run`: compile for this computer, run, judge and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from tilewright.cli.arguments import Run
from tilewright.cli.networks import compiled_network, measured, read_inputs, show_network
from tilewright.cli.output import UsageProblem
from tilewright.cli.workload import is_operator, machine_of, read_network
from tilewright.codegen.artifact import LOADS
from tilewright.codegen.folder import write_arrays
from tilewright.common.deferred import Deferred
from tilewright.compiler.toolchain import Toolchain
from tilewright.network.refusal import require_networks

if TYPE_CHECKING:
    from tilewright.cli import divide, kernels
else:  # heavy: numba
    divide, kernels = Deferred("tilewright.cli.divide"), Deferred("tilewright.cli.kernels")


def run(asked: Run) -> None:
    """Run an operator or a network on this computer, compare it, and time it."""
    chain = Toolchain(machine_of(asked.machine))
    if chain.divides is not None and not is_operator(asked.workload_name):
        divide.run(asked, chain)
        return
    asked.division.require_undivided()
    if is_operator(asked.workload_name):
        compiling = "compile --check on this machine" if chain.emits else ""
        LOADS.required(chain.machine, compiling)
        if asked.compare.compare:
            raise UsageProblem(
                "--compare is for networks; operators are compared with the reference"
            )
        kernels.run(asked, chain)
        return
    require_networks(chain.machine)
    _run_network(asked, chain)


def _run_network(asked: Run, chain: Toolchain) -> None:
    search, output, other = asked.search, asked.output, asked.compare.other
    search.require_whole("compile --layers takes it", top=asked.top > 0 and not chain.executes_here)
    network = read_network(asked.workload_name, asked.operator, chain.usual_type)
    given = asked.inputs and read_inputs(network, asked.inputs)  # before what takes long
    compiled, seconds = compiled_network(network, chain, search, output, asked.top)
    inputs = given or read_inputs(network, None)
    found, outputs = measured(compiled, network, inputs, search, output, seconds, other)
    if asked.out is not None:
        write_arrays(asked.out, outputs)
        found = structs.replace(found, output=str(asked.out))
    show_network(found, output)
