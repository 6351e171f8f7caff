"""What `tilewright check` does: the findings on a network, operator, folder or program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import typer
from msgspec import UNSET

from tilewright.cli.divide import check_divided
from tilewright.cli.options import OperatorOptions, OwnMachineOptions, given_options
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.cli.product import check_product, roofline_lines
from tilewright.cli.workload import Workload, is_operator, read_workload
from tilewright.codegen.artifact import EMITS, LOADS
from tilewright.codegen.folder import NETWORK_FILE, PROGRAM_FILE, SUMS_FILE, read_text
from tilewright.codegen.stored import file_states, network_kind
from tilewright.common.errors import CheckFailed, ScheduleError, TilewrightError
from tilewright.compiler.artifact import read_kernel, read_network, read_program
from tilewright.graph.graph import Network
from tilewright.ir.nodes import Program
from tilewright.ir.verify import verify
from tilewright.machine import Machine
from tilewright.network.plans import NETWORKS
from tilewright.network.refusal import require_networks
from tilewright.network.requirements import own_part, require_room
from tilewright.network.stored import read_native
from tilewright.ops import Op
from tilewright.partition.capability import DIVIDES
from tilewright.passes.lowering import lowering_of
from tilewright.report.findings import CheckReport, Finding
from tilewright.tune.choose import padded_axes
from tilewright.tune.fit import require_fit
from tilewright.tune.ways import Way, ways

_BRIEF = 30
"""More findings than this are shown without those that are well."""
_NAMED = 3
"""Operators that a finding on several of them names."""


def check_subject(
    subject: str,
    machine: OwnMachineOptions,
    operator: OperatorOptions,
    output: OutputOptions,
    algorithm: str | None,
    tile: list[str],
    layers: bool,
) -> None:
    """Check that operators fit a machine, or that a program is legal on it."""
    path = Path(subject)
    target = _machine(path, machine)
    if tile or (subject == "gemm" and not target.target):
        if subject != "gemm":
            raise UsageProblem("--tile goes with gemm")
        found, bounds = check_product(operator, tile, target)
        _finish(CheckReport(target.name, found, _refused(found), bounds), output)
        return
    written = path.exists() and path.suffix != ".onnx"
    if not (written or is_operator(subject) or layers or DIVIDES.of(target)):
        require_networks(target, "--layers for its products alone")
    if EMITS.of(target) is None and not (DIVIDES.of(target) and not is_operator(subject)):
        tile_of_gemm = "check a tile of a gemm (--tile m=8,n=8,k=8)"
        whole = "check a whole network, " if DIVIDES.of(target) else ""
        EMITS.required(target, whole + tile_of_gemm)
    target = target.of_one_program
    if algorithm is not None and written:
        raise UsageProblem(f"{subject} is written already: leave --algorithm")
    if layers and (written or is_operator(subject) or DIVIDES.of(target)):
        raise UsageProblem(f"{subject} is no network that is planned: leave --layers")
    if written and (given := given_options(operator)):
        raise UsageProblem(f"{subject} is written already: leave {', '.join(given)}")
    if network_kind(path) == "native":
        if machine.machine:
            raise UsageProblem(f"{subject} holds a network for its own machine: leave --machine")
        findings = tuple(_native(path))
    elif path.is_dir():
        findings = tuple(_all_written(_kernels(path), target, output))
    elif path.is_file() and path.suffix != ".onnx":
        findings = tuple(_program(read_program(read_text(path), subject), subject, target))
    else:
        if DIVIDES.of(target) is not None and not is_operator(subject):
            found = check_divided(subject, target, operator, output)
            _finish(CheckReport(target.name, found, _refused(found)), output)
            return
        findings = _planned(read_workload(subject, operator), target, algorithm, layers)
    _finish(CheckReport(target.name, findings, _refused(findings)), output)


def _machine(path: Path, options: OwnMachineOptions) -> Machine:
    """The machine that is asked for; of a written folder its own, where none is."""
    unsaid = options == OwnMachineOptions()
    if unsaid and network_kind(path) == "native":
        return read_native(path).machine
    kernels = _kernels(path) if path.is_dir() and unsaid else []
    return read_kernel(kernels[0])[0].machine if kernels else options.load()


def _native(folder: Path) -> Iterator[Finding]:
    """Whether each file of a whole network is as it was written."""
    stored = read_native(folder)
    pairs = zip(stored.files, stored.digests, strict=True)
    return _unchanged(folder, pairs, "compile the network again")


def _unchanged(folder: Path, digests: Iterable[tuple[str, str]], fix: str) -> Iterator[Finding]:
    """Whether each of the files is as it was written."""
    for name, problem in file_states(folder, digests):
        status = "refused" if problem else "ok"
        path, own = str(folder / name), fix if problem else ""
        yield Finding(path, "as it was written", status, problem, own)


def _kernels(path: Path) -> list[Path]:
    """The folder itself, or those of a network's layers."""
    if not (path / NETWORK_FILE).exists():
        return [path]
    return [path / name for name in dict.fromkeys(read_network(path).folders.values())]


def _all_written(
    folders: Sequence[Path], machine: Machine, output: OutputOptions
) -> Iterator[Finding]:
    with progress_bar(output) as progress:
        for done, folder in enumerate(folders):
            progress("check", done, len(folders))
            yield from _written(folder, machine)


def _written(folder: Path, machine: Machine) -> Iterator[Finding]:
    stored, programs = read_kernel(folder)
    for program, file in zip(programs, (PROGRAM_FILE, SUMS_FILE), strict=False):
        yield from _program(program, str(folder / file), machine)
    yield from _unchanged(folder, stored.digests.items(), "compile the kernel again")


def _planned(
    workload: Workload, machine: Machine, algorithm: str | None, layers: bool
) -> tuple[Finding, ...]:
    """What is found about operators alone. Of a network that is planned as a whole that: how its
    operators could be divided alone says little about its plan, and is left for `layers`.
    """
    findings = _workload(workload, machine, algorithm)
    if workload.network is None or algorithm is not None or NETWORKS.of(machine) is None:
        return findings
    if not layers:
        findings = tuple(f for f in findings if f.status == "refused")
    return (*_whole(workload.network, machine), *findings)


def _workload(workload: Workload, machine: Machine, algorithm: str | None) -> tuple[Finding, ...]:
    """What is found about each distinct operator."""
    firsts: dict[Op, str] = {}
    for name, op in workload.layers:
        firsts.setdefault(op, name)
    refused: tuple[Finding, ...] = ()
    if algorithm is None:
        every, refused = _any_ways(firsts, machine)
    else:
        strict = len(workload.layers) == 1
        found_ways = ways(list(firsts), machine, algorithm=algorithm, strict=strict)
        every = dict(zip(firsts, found_ways, strict=True))
    found = (
        finding
        for op, own in every.items()
        for finding in (
            *_operator(firsts[op], own, machine),
            *_notes(firsts[op], op, own, machine),
        )
    )
    return tuple(dict.fromkeys((*refused, *found)))


def _any_ways(
    firsts: Mapping[Op, str], machine: Machine
) -> tuple[dict[Op, list[Way]], tuple[Finding, ...]]:
    """The ways of each operator that has some; each reason why others have none, once."""
    found: dict[Op, list[Way]] = {}
    reasons: dict[tuple[str, str], list[str]] = {}
    for op, name in firsts.items():
        try:
            (found[op],) = ways([op], machine)
        except ScheduleError as error:
            reasons.setdefault((error.message, error.fix), []).append(name)
    return found, tuple(
        Finding(_shortly(names), "an algorithm for the machine", "refused", *reason)
        for reason, names in reasons.items()
    )


def _shortly(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _whole(network: Network, machine: Machine) -> tuple[Finding, ...]:
    """What is found about all nodes together, and about the tensors of one group's part of them,
    before any search.
    """
    part, _ = own_part(network, machine)
    runs = partial(NETWORKS.required(machine).require, network, machine)
    rules = [("a stage for every operator", runs)]
    if not LOADS.of(machine):
        rules.append(("live tensors fit main memory", partial(require_room, part, machine)))
    problems = [(rule, _problem(act)) for rule, act in rules]
    return tuple(
        Finding(network.name, rule, "ok")
        if problem is None
        else Finding(network.name, rule, "refused", problem.message, problem.fix)
        for rule, problem in problems
    )


def _operator(name: str, own: list[Way], machine: Machine) -> Iterator[Finding]:
    """Does an algorithm fit, divided over the groups in some way?"""
    rule = "fits scratchpad and main memory"
    tried = [
        (
            f"{name}, {seed.name} over {part.kind}",
            _problem(partial(require_fit, part.piece, seed, machine)),
        )
        for part, seed in own
    ]
    status = "note" if any(problem is None for _, problem in tried) else "refused"
    for subject, problem in tried:
        if problem is None:
            yield Finding(subject, rule, "ok")
        else:
            yield Finding(subject, rule, status, problem.message, problem.fix)


def _notes(name: str, op: Op, own: list[Way], machine: Machine) -> Iterator[Finding]:
    """Extents that are rounded up, and pieces that overlap: legal, but not free."""
    for part, seed in own:
        why = "" if LOADS.of(machine) else ", which the mesh divides"
        for axis, extent, padded in padded_axes(part.piece, seed, machine):
            yield Finding(
                f"{name}, {seed.name} over {part.kind}",
                "divisibility",
                "note",
                f"{axis} = {extent} is computed as {padded}{why}",
            )
    for part in {part.kind: part for part, _ in own}.values():
        total = sum(piece.op.flops for piece in part.pieces)
        if total > op.flops:
            yield Finding(
                name,
                "divisibility",
                "note",
                f"over {part.kind}, {len(part.pieces)} equal pieces overlap: "
                f"{100 * (total / op.flops - 1):.1f} % is computed twice",
            )


def _program(program: Program, where: str, machine: Machine) -> Iterator[Finding]:
    """Stage rules and capacity, then what code generation refuses: descriptor limits."""
    lowering = lowering_of(machine)
    legal = partial(
        verify,
        program,
        "explicit",
        capacity_bytes=lowering.buffer_bytes,
        in_place=lowering.in_place,
    )
    emitted = partial(EMITS.required(machine).emit, program, machine)
    rules = (("stage rules and scratchpad capacity", legal), ("DMA descriptor limits", emitted))
    for rule, act in rules:
        problem = _problem(act)
        if problem is None:
            yield Finding(where, rule, "ok")
        else:
            yield Finding(where, rule, "refused", problem.message, problem.fix)


def _problem(act: Callable[[], object]) -> TilewrightError | None:
    try:
        act()
    except TilewrightError as error:
        return error
    return None


def _refused(findings: tuple[Finding, ...]) -> int:
    return sum(finding.status == "refused" for finding in findings)


def _finish(report: CheckReport, output: OutputOptions) -> None:
    output.value(report)
    brief = len(report.findings) > _BRIEF
    for finding in (f for f in report.findings if not (brief and f.status == "ok")):
        text = f": {finding.message}" if finding.message else ""
        output.show(f"{finding.status:8} {finding.subject}: {finding.rule}{text}")
        if finding.fix:
            output.show(f"         fix: {finding.fix}")
    if report.roofline is not UNSET:
        output.show(*roofline_lines(report.roofline))
    output.show(f"{len(report.findings)} checks on {report.machine}, {report.refused} refused")
    if report.refused:
        raise typer.Exit(CheckFailed.exit_code)
