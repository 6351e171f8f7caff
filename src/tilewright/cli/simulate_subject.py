"""What `tilewright simulate` does: written code, a program's text or a network on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tilewright.asm.front_end import machine_of_file
from tilewright.cli.divide import simulate_divided
from tilewright.cli.division_options import StrategyOptions
from tilewright.cli.explain_subject import kernel_folder
from tilewright.cli.launch import LaunchedProgram, launch_program
from tilewright.cli.options import given_options, overrides
from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.cli.simulate import NetworkOptions, SimulateOptions
from tilewright.cli.simulate_network import simulate_network
from tilewright.codegen.artifact import LOADS
from tilewright.codegen.folder import read_text, write_text
from tilewright.common.errors import SimulationError
from tilewright.compiler.adding import simulated_run
from tilewright.compiler.artifact import read_kernel, read_program
from tilewright.graph.zoo import list_networks
from tilewright.ir.nodes import Program
from tilewright.machine import DEFAULT_MACHINE, Machine, load_machine
from tilewright.partition.capability import DIVIDES
from tilewright.report.perfetto import perfetto_json
from tilewright.report.table import duration
from tilewright.report.view import CauseRow, TrafficRow
from tilewright.simulate.kernel.level import KernelRun
from tilewright.simulate.window.hosted import RUNTIMES


class SimulateResult(Struct, frozen=True):
    """The `--json` form of `simulate`; one core group, `causes` sum to `cycles`."""

    machine: str
    program: str
    cycles: int
    milliseconds: float
    causes: tuple[CauseRow, ...]
    traffic: tuple[TrafficRow, ...]
    scratchpad_bytes: int
    scratchpad_peak_bytes: int
    trace: str | None = None


def simulate_subject(
    source: Path,
    network: NetworkOptions,
    options: SimulateOptions,
    division: StrategyOptions,
    output: OutputOptions,
) -> None:
    """Simulate a core group running a program or network, with a cause for each cycle."""
    changes, trace = overrides(options.set), options.trace
    if _is_network(source, network, options.for_programs()):
        target = load_machine(options.machine or DEFAULT_MACHINE, changes)
        if DIVIDES.of(target) is not None:
            simulate_divided(str(source), target, network.undivided(), output, division)
        else:
            division.require_undivided()
            simulate_network(str(source), target, network, output)
        return
    division.require_undivided()
    machine = options.machine or (machine_of_file(source) if source.is_file() else None)
    if changes and machine is None:
        raise UsageProblem("--set changes the machine that --machine names: give both")
    given = load_machine(machine, changes) if machine else None
    if given is not None and source.is_file() and RUNTIMES.of(given) is not None:
        inputs, outputs = options.inputs, options.outputs
        launched = LaunchedProgram(
            source, given, inputs, outputs, trace, options.timing, max_cycles=options.max_cycles
        )
        launch_program(launched, output)
        return
    if options.inputs or options.outputs or options.timing or options.limited:
        raise UsageProblem(
            "--input, --output, --timing and --max-cycles are for programs in assembly language"
        )
    programs, target = _read(source, options.layer, given, output)
    _simulate(programs, target, trace, options.trace_limit, output)


def _is_network(source: Path, options: NetworkOptions, others: Sequence[str]) -> bool:
    """Whether `source` is a network, and no file of ours or folder.

    Raises UsageProblem where `options` are for something else, or there are `others`, which are for
    programs.
    """
    text = str(source)
    if text.endswith(".onnx") or (text in list_networks() and not source.exists()):
        if others:
            raise UsageProblem(f"{source} is a network: leave {', '.join(others)}")
        return True
    if options != NetworkOptions():
        raise UsageProblem(f"{source} is no network: leave {', '.join(given_options(options))}")
    return False


def _simulate(
    programs: Sequence[Program],
    target: Machine,
    trace: Path | None,
    limit: int,
    output: OutputOptions,
) -> None:
    """Simulate programs one after the other, write the timeline of the first and show where the
    time goes.
    """
    program = programs[0]
    run = simulated_run(programs, target, limit if trace else 0)
    if trace:
        write_text(trace, perfetto_json(run, target, program.name))
    result = _result(run, program, target, trace)
    output.value(result)
    _show(result, output)


def _read(
    source: Path, layer: str | None, machine: Machine | None, output: OutputOptions
) -> tuple[tuple[Program, ...], Machine]:
    """The programs of a group, and the machine to simulate them on. Errors: SimulationError."""
    if source.is_dir():
        quiet = OutputOptions(json=True)
        stored, programs = read_kernel(kernel_folder(source, layer, quiet))
        target = machine or stored.machine
    else:
        if layer is not None:
            raise UsageProblem(f"{source} is no network: leave --layer")
        programs = (read_program(read_text(source), str(source)),)
        target = machine or load_machine(DEFAULT_MACHINE)
    if LOADS.of(target) is not None:
        raise SimulationError(
            f"machine {target.name!r} is this computer: it is measured, not simulated",
            fix="tilewright run, or another --machine",
        )
    return programs, target


def _result(
    run: KernelRun, program: Program, machine: Machine, trace: Path | None
) -> SimulateResult:
    return SimulateResult(
        machine=machine.name,
        program=program.name,
        cycles=run.cycles,
        milliseconds=run.seconds * 1e3,
        causes=tuple(CauseRow(c.kind, c.subject, c.cycles) for c in run.causes),
        traffic=tuple(
            TrafficRow(
                t.tensor, t.direction, t.asked_bytes, t.moved_bytes, t.requests, t.engine_cycles
            )
            for t in run.tensors
        ),
        scratchpad_bytes=run.allocated_bytes,
        scratchpad_peak_bytes=run.peak_bytes,
        trace=str(trace) if trace else None,
    )


def _show(result: SimulateResult, output: OutputOptions) -> None:
    output.show(
        f"{result.program} on one core group of {result.machine}: {result.cycles} cycles "
        f"simulated, {duration(result.milliseconds)}"
    )
    for cause in result.causes:
        share = 100 * cause.cycles / max(1, result.cycles)
        name = f"{cause.kind} {cause.subject}".strip()
        output.show(f"  {name:32} {cause.cycles:>14} {share:6.1f} %")
    output.show(
        f"scratchpad: {result.scratchpad_bytes} bytes allocated, "
        f"at most {result.scratchpad_peak_bytes} in use"
    )
    if result.trace:
        output.show(f"timeline written to {result.trace}")
