"""`tilewright compile`: choose, generate, check and report, for an operator or a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import MachineOptions, OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions, UsageProblem

if TYPE_CHECKING:
    from tilewright.compiler.settings import Check
    from tilewright.machine import Machine

WorkloadName = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK", help="A known network, FILE.onnx, or an operator such as conv2d."
    ),
]


@dataclass(frozen=True)
class CompileOptions:
    """What to do beyond choosing."""

    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for code and results.")
    ] = None
    top: Annotated[
        int,
        typer.Option(
            min=0, max=10_000, help="Simulate or measure the K best and take the fastest."
        ),
    ] = 0
    measure: Annotated[
        bool, typer.Option(help="Time the chosen code, where the machine is this computer.")
    ] = True
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Run the generated code of an operator or of every layer on the host; compare a "
            "whole network with the reference.",
        ),
    ] = False
    check_each_algorithm: Annotated[
        bool,
        typer.Option(
            "--check-each-algorithm",
            help="Run the code of each algorithm, on the smallest layer it applies to; of one that "
            "did not win there, with fewer images where all would take long.",
        ),
    ] = False
    schedule: Annotated[
        Path | None,
        typer.Option(help="Replay the schedule in this file: a kernel's schedule.txt."),
    ] = None
    layers: Annotated[
        bool,
        typer.Option(
            "--layers",
            help="The convolutions and matrix products of a network, each tuned alone as a kernel.",
        ),
    ] = False
    objective: Annotated[
        str | None,
        typer.Option(
            help="What a network divided over cores has least of: traffic (default), time, or both "
            "with a cycle counted as this many values."
        ),
    ] = None
    most_work: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="How much of a layer a core may compute, over what it has by the BWDSP paper's "
            "strategy (default 1); with more, halos may be computed again in place of moves.",
        ),
    ] = None
    onnx_out: Annotated[
        Path | None,
        typer.Option(
            help="ONNX file for a network divided over cores, with the plan in its metadata."
        ),
    ] = None
    timings: Annotated[bool, typer.Option("--timings", help="Say how long each stage took.")] = (
        False
    )

    def require_undivided(self) -> None:
        """Raise UsageProblem for what only networks divided over cores take."""
        for option, value in (
            ("objective", self.objective),
            ("most-work", self.most_work),
            ("onnx-out", self.onnx_out),
        ):
            if value is not None:
                raise UsageProblem(
                    f"--{option} is for networks on machines whose cores divide them"
                )

    @property
    def which(self) -> Check:
        """Which code to run."""
        if self.check and self.check_each_algorithm:
            raise UsageProblem("--check already checks every layer: leave --check-each-algorithm")
        if self.check:
            return "each layer"
        return "each algorithm" if self.check_each_algorithm else "none"


def compile_command(
    network: WorkloadName,
    machine: MachineOptions,
    operator: OperatorOptions,
    search: SearchOptions,
    options: CompileOptions,
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
        _divide(network, target, operator, search, output, options)
        return
    options.require_undivided()
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
    written = write_result(workload, compiled, options.out)
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
    from tilewright.network.plans import NETWORKS

    NETWORKS.required(machine, "--layers for the products of the network alone")
    _require_whole(search, options, native=LOADS.of(machine) is not None)
    out, top, measure, check = options.out, options.top, options.measure, options.check
    write_network(
        network, machine, operator, search, output, out, top, measure=measure, check=check
    )


def _require_whole(search: SearchOptions, options: CompileOptions, *, native: bool) -> None:
    """Raise UsageProblem for what only kernels take that are compiled alone."""
    for option, given in (
        ("partition", search.partition is not None),
        ("records", search.records is not None),
        ("executor", search.executor != SearchOptions.executor),
        ("top", options.top > 0 and not native),
        ("check-each-algorithm", options.check_each_algorithm),
    ):
        if given:
            raise UsageProblem(f"--{option} is for kernels that are compiled alone: add --layers")


def _divide(
    network: str,
    machine: Machine,
    operator: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
    options: CompileOptions,
) -> None:
    from tilewright.cli.divide import divide_network  # heavy: numba

    divide_network(network, machine, operator, search, output, options)


def _schedule(workload: str, options: CompileOptions) -> str | None:
    """The text of the file that is to be replayed."""
    if options.schedule is None:
        return None
    from tilewright.cli.workload import is_operator  # brings NumPy, which help does without
    from tilewright.ops import CONTRACTIONS

    if not is_operator(workload):
        raise UsageProblem(f"--schedule is for one operator, {', '.join(CONTRACTIONS)}")
    return options.schedule.read_text(encoding="utf-8", errors="replace")
