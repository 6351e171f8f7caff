"""`tilewright simulate`: generated code, a program's text or a network on the cycle simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tilewright.asm.front_end import machine_of_file
from tilewright.cli.arguments import Simulate
from tilewright.cli.launch import LaunchedProgram, launch_program
from tilewright.cli.options import SearchOptions, given_options, overrides
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.cli.workload import (
    compile_workload,
    is_definition,
    is_operator,
    read_workload,
    show,
)
from tilewright.codegen.folder import read_text, write_text
from tilewright.compiler.artifact import read_kernel, read_network, read_program
from tilewright.compiler.explanation import simulated_account
from tilewright.compiler.kernel import simulated_run
from tilewright.compiler.settings import Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.compiler.written import read_written
from tilewright.graph.zoo import list_networks
from tilewright.ir.nodes import Program
from tilewright.machine import DEFAULT_MACHINE, Machine, load_machine
from tilewright.network.plans import require_networks
from tilewright.ops import OPERATORS
from tilewright.report.perfetto import perfetto_json
from tilewright.report.table import duration
from tilewright.report.view import CauseRow, TrafficRow
from tilewright.simulate.kernel.level import KernelRun
from tilewright.simulate.window.hosted import RUNTIMES


class SimulateResult(Struct, frozen=True):
    """The `--json` form of `simulate`, for one core group; `causes` sum to `cycles`."""

    machine: str
    program: str
    cycles: int
    milliseconds: float
    causes: tuple[CauseRow, ...]
    traffic: tuple[TrafficRow, ...]
    scratchpad_bytes: int
    scratchpad_peak_bytes: int
    trace: str | None = None


def run(asked: Simulate) -> None:
    """Simulate a core group running a program or network, with a cause for each cycle."""
    source, output, changes = Path(asked.subject), asked.output, overrides(asked.set)
    if _is_compiled_first(asked, source):
        _simulate_workload(asked, load_machine(asked.machine or DEFAULT_MACHINE, changes))
        return
    asked.division.require_undivided()
    machine = asked.machine or (machine_of_file(source) if source.is_file() else None)
    if changes and machine is None:
        raise UsageProblem("--set changes the machine that --machine names: give both")
    given = load_machine(machine, changes) if machine else None
    if given is not None and source.is_file() and RUNTIMES.of(given) is not None:
        inputs, outputs, limit = asked.inputs, asked.outputs, asked.max_cycles
        launched = LaunchedProgram(
            source, given, inputs, outputs, asked.trace, asked.timing, max_cycles=limit
        )
        launch_program(launched, output)
        return
    if given_options(asked, "inputs", "outputs", "timing", "max_cycles"):
        raise UsageProblem(
            "--input, --output, --timing and --max-cycles are for programs in assembly language"
        )
    programs, target = _programs_and_machine(source, asked.layer, given)
    _simulate(programs, target, asked.trace, asked.trace_limit, output)


def _is_compiled_first(asked: Simulate, source: Path) -> bool:
    """True for an operator, a definition or a network: an ONNX file, or a known name that is no
    local file or folder.

    Raises UsageProblem for options that apply to other subjects.
    """
    name = asked.subject
    known = name in list_networks() or name in OPERATORS
    if name.endswith(".onnx") or is_definition(name) or (known and not source.exists()):
        alone = is_operator(name)
        kind = "an operator" if alone else "a network"
        others = [] if alone else given_options(asked, "trace", "trace_limit")
        others += given_options(asked, "layer", "inputs", "outputs", "timing", "max_cycles")
        if others:
            raise UsageProblem(f"{name} is {kind}: leave {', '.join(others)}")
        return True
    given = given_options(asked.operator) + ["--unfused"] * asked.unfused
    if given:
        raise UsageProblem(f"{name} is no network: leave {', '.join(given)}")
    return False


def _simulate_workload(asked: Simulate, machine: Machine) -> None:
    """Compile an operator or plan a network, simulate it, and show its time by cause."""
    chain, output, division = Toolchain(machine), asked.output, asked.division
    workload = read_workload(asked.subject, asked.operator, chain.usual_type)
    _require_simulated(asked, chain, workload)
    search = SearchOptions(partition=division.partition)
    made = compile_workload(workload, chain, search, output, division=division)
    if workload.is_operator:
        kernel = made.plan.only
        _simulate(kernel.programs, kernel.machine, asked.trace, asked.trace_limit, output)
        return
    with progress_bar(output) as progress:
        found = made.simulate(unfused=asked.unfused, progress=progress)
    show(found, machine, output)


def _require_simulated(asked: Simulate, chain: Toolchain, workload: Workload) -> None:
    """Raise UsageProblem for options that do not apply to the workload or machine, ToolError or
    MachineError for a machine that cannot simulate it.
    """
    if chain.divides is None or workload.is_operator:
        asked.division.require_undivided()
        chain.require_simulated()
    if workload.is_operator:
        if asked.unfused:
            raise UsageProblem(f"{asked.subject} is no network: leave --unfused")
        return
    if chain.divides is None:
        require_networks(chain.machine, simulated=True)
    elif asked.unfused:
        raise UsageProblem("--unfused is for machines that run a network stage by stage")


def _simulate(
    programs: Sequence[Program],
    target: Machine,
    trace: Path | None,
    limit: int,
    output: OutputOptions,
) -> None:
    """Simulate programs in order, write the timeline of the first, show the time by cause."""
    program = programs[0]
    run = simulated_run(programs, target, limit if trace else 0)
    if trace:
        write_text(trace, perfetto_json(run, target, program.name))
    result = _result(run, program, target, trace)
    output.value(result)
    _show(result, output)


def _programs_and_machine(
    source: Path, layer: str | None, machine: Machine | None
) -> tuple[tuple[Program, ...], Machine]:
    """The programs of a group, and the machine to simulate them on. Raises SimulationError."""
    if source.is_dir():
        programs, own = _stored_programs(source, layer)
        target = machine or own
    else:
        if layer is not None:
            raise UsageProblem(f"{source} is no network: leave --layer")
        programs = (read_program(read_text(source), str(source)),)
        target = machine or load_machine(DEFAULT_MACHINE)
    Toolchain(target).require_simulated()
    return programs, target


def _stored_programs(folder: Path, layer: str | None) -> tuple[tuple[Program, ...], Machine]:
    """The programs of an operator, or of one layer of a network, by default the slowest."""
    written = read_written(folder)
    if written.explained is not None:
        read_network(folder)  # raises: a whole network has no programs
    if layer is not None and not written.is_layers:
        raise UsageProblem(f"{folder} holds one operator: leave --layer")
    stored, programs = read_kernel(written.kernels[written.chosen(layer)])
    return programs, stored.machine


def _result(
    run: KernelRun, program: Program, machine: Machine, trace: Path | None
) -> SimulateResult:
    account = simulated_account(run)
    return SimulateResult(
        machine=machine.name,
        program=program.name,
        cycles=run.cycles,
        milliseconds=run.seconds * 1e3,
        causes=account.causes,
        traffic=account.traffic,
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
