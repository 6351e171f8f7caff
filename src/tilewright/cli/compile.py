"""`tilewright compile`: choose, generate, check and report, for an operator or a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from tilewright.cli.arguments import Compile
from tilewright.cli.networks import (
    checked,
    compiled_network,
    measured,
    read_inputs,
    show_network,
)
from tilewright.cli.output import StageClock, UsageProblem, progress_bar, show_timings
from tilewright.cli.workload import is_operator, machine_of, read_network, read_workload
from tilewright.codegen.artifact import Array
from tilewright.codegen.folder import require_replaceable
from tilewright.common.deferred import Deferred
from tilewright.common.files import read_file_text
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.graph import Network
from tilewright.network.plans import NativeNetwork, Other
from tilewright.network.refusal import require_networks
from tilewright.network.results import NetworkRun
from tilewright.ops import OPERATORS

if TYPE_CHECKING:
    from tilewright.cli import divide, kernels
else:  # heavy: numba
    divide, kernels = Deferred("tilewright.cli.divide"), Deferred("tilewright.cli.kernels")


def run(asked: Compile) -> None:
    """Choose the best schedules of a network or operator; generate and time its code."""
    chain, options = Toolchain(machine_of(asked.machine)), asked.options
    check, schedule = options.which, _schedule(asked)
    alone = options.layers or is_operator(asked.network)
    if options.layers and is_operator(asked.network):
        raise UsageProblem(f"--layers is for networks, found {asked.network}")
    if chain.divides is not None and not alone:
        divide.compile(asked, chain)
        return
    options.require_undivided()
    asked.division.require_undivided()
    if not alone:
        _compile_network(asked, chain)
        return
    workload, target, output = (
        read_workload(asked.network, asked.operator),
        chain.machine,
        asked.output,
    )
    if options.out is not None:
        require_replaceable(options.out)
    compiled = kernels.searched(
        workload, target, asked.search, options.top, output, check,
        measure=options.measure, schedule=schedule,
    )  # fmt: skip
    written = kernels.write_result(workload, compiled, options.out, output)
    kernels.show_result(written, target, output, timings=options.timings)
    if options.out is not None:
        output.show(f"written to {options.out}")


def _compile_network(asked: Compile, chain: Toolchain) -> None:
    """A network as a whole, with its code; run and timed unless that is not wanted."""
    require_networks(chain.machine, "--layers for the products of the network alone")
    options, output, clock = asked.options, asked.output, StageClock()
    asked.search.require_whole(
        "add --layers",
        top=options.top > 0 and not chain.executes_here,
        check_each_algorithm=options.check_each_algorithm,
    )
    if options.out is not None:
        require_replaceable(options.out)
    network = read_network(asked.network, asked.operator, chain.usual_type)
    # Without code to write or run nobody needs the weights' numbers.
    timed = options.measure and chain.executes_here
    weights: Mapping[str, Array] | None = {}
    if options.out is not None or options.check or timed:
        weights = None
    compiled, seconds = compiled_network(
        network, chain, asked.search, output, options.top, weights, clock
    )
    found = _judged(asked, chain, network, compiled, seconds, clock)
    if options.out is not None:
        with progress_bar(output, clock) as progress:
            progress("write", 0, 1)
            compiled.write(options.out, result=found)
        found = structs.replace(found, output=str(options.out))
    found = structs.replace(found, timings=clock.seconds)
    show_network(found, output)
    if options.timings:
        show_timings(found.timings, output)


def _judged(
    asked: Compile,
    chain: Toolchain,
    network: Network,
    compiled: NativeNetwork,
    seconds: float,
    clock: StageClock,
) -> NetworkRun:
    """The figures of a network: compared, or run and timed, as far as that is wanted."""
    options, output = asked.options, asked.output
    if options.check and not chain.executes_here:
        comparison = checked(network, compiled, chain, asked.search, output, clock)
        return structs.replace(compiled.described(seconds), comparison=comparison)
    if options.check or (options.measure and chain.executes_here):
        inputs = read_inputs(network, None)
        other: Other | None = "reference" if options.check else None
        return measured(compiled, network, inputs, asked.search, output, seconds, other, clock)[0]
    return compiled.described(seconds)


def _schedule(asked: Compile) -> str | None:
    """The text of the file that is to be replayed."""
    file = asked.options.schedule
    if file is None:
        return None
    if not is_operator(asked.network):
        raise UsageProblem(f"--schedule is for one operator, {', '.join(OPERATORS)}")
    return read_file_text(file, errors="replace")
