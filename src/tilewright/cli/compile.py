"""`tilewright compile`: choose, generate, check and report, for an operator or a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.compile_options import CompileOptions
from tilewright.cli.division_options import DivisionOptions
from tilewright.cli.options import MachineOptions, OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.common.files import read_file_text

if TYPE_CHECKING:
    from tilewright.machine import Machine

WorkloadName = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK", help="A known network, FILE.onnx, or an operator such as conv2d."
    ),
]


def compile_command(
    network: WorkloadName,
    machine: MachineOptions,
    operator: OperatorOptions,
    search: SearchOptions,
    options: CompileOptions,
    division: DivisionOptions,
    output: OutputOptions,
) -> None:
    """Choose the best schedules of a network or operator; generate and time its code."""
    # Help needs none of these, which bring NumPy with them.
    from tilewright.cli.workload import is_operator
    from tilewright.partition.capability import DIVIDES

    target, check, schedule = machine.load(), options.which, _schedule(network, options)
    if options.layers and is_operator(network):
        raise UsageProblem(f"--layers is for networks, found {network}")
    whole = not options.layers and not is_operator(network)
    if whole and DIVIDES.of(target) is not None:
        _divide(network, target, operator, search, output, options, division)
        return
    options.require_undivided()
    division.require_undivided()
    if whole:
        _write_whole(network, target, operator, search, output, options)
        return
    # Heavy: numba.
    from tilewright.cli.layers import searched, show_result, write_result
    from tilewright.cli.workload import read_workload
    from tilewright.codegen.folder import require_replaceable

    workload = read_workload(network, operator)
    if options.out is not None:
        require_replaceable(options.out)
    measure = options.measure
    compiled = searched(
        workload, target, search, options.top, output, check, measure=measure, schedule=schedule
    )
    written = write_result(workload, compiled, options.out, output)
    show_result(written, target, output, timings=options.timings)
    if options.out is not None:
        output.show(f"written to {options.out}")


def _write_whole(
    network: str,
    machine: Machine,
    operator: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
    options: CompileOptions,
) -> None:
    from tilewright.cli.run_network import write_network  # heavy: NumPy
    from tilewright.codegen.artifact import LOADS
    from tilewright.network.refusal import require_networks

    require_networks(machine, "--layers for the products of the network alone")
    simulated_top, each = options.top > 0 and not LOADS.of(machine), options.check_each_algorithm
    search.require_whole("add --layers", top=simulated_top, check_each_algorithm=each)
    out, top, measure, check = options.out, options.top, options.measure, options.check
    write_network(
        network, machine, operator, search, output, out, top,
        measure=measure, check=check, timings=options.timings,
    )  # fmt: skip


def _divide(
    network: str,
    machine: Machine,
    operator: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
    options: CompileOptions,
    division: DivisionOptions,
) -> None:
    from tilewright.cli.divide import divide_network  # heavy: numba

    divide_network(network, machine, operator, search, output, options, division)


def _schedule(workload: str, options: CompileOptions) -> str | None:
    """The text of the file that is to be replayed."""
    if options.schedule is None:
        return None
    from tilewright.cli.workload import is_operator  # brings NumPy, which help does without
    from tilewright.ops import OPERATORS

    if not is_operator(workload):
        raise UsageProblem(f"--schedule is for one operator, {', '.join(OPERATORS)}")
    return read_file_text(options.schedule, errors="replace")
