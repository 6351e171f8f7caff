"""`tilewright check`: legality checks before anything runs; every refusal names a fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path

import typer
from msgspec import UNSET

from tilewright.cli.arguments import Check
from tilewright.cli.options import OperatorOptions, OwnMachineOptions, given_options
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.cli.workload import (
    is_operator,
    is_source,
    machine_of,
    named_network,
    read_workload,
)
from tilewright.codegen.artifact import EMITS
from tilewright.codegen.folder import NETWORK_FILE, PROGRAM_FILE, SUMS_FILE, read_text
from tilewright.codegen.stored import file_states, network_kind
from tilewright.common.errors import CheckFailed, ScheduleError, TilewrightError
from tilewright.common.progress import told
from tilewright.compiler.artifact import read_kernel, read_program
from tilewright.compiler.artifact import read_network as read_layers
from tilewright.compiler.settings import Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.cost.product_bounds import (
    Product,
    ProductRoofline,
    ProductTile,
    product_roofline,
    require_tile,
)
from tilewright.graph.graph import Network
from tilewright.graph.rewriting import simplified
from tilewright.ir.nodes import Program
from tilewright.ir.verify import verify
from tilewright.machine import Machine
from tilewright.network.plans import require_networks
from tilewright.network.requirements import own_part, require_room
from tilewright.network.stored import read_native
from tilewright.ops import Op
from tilewright.partition.capability import DIVIDES
from tilewright.partition.plan import space
from tilewright.passes.lowering import lowering_of
from tilewright.report.network import some
from tilewright.report.view import CheckReport, Finding
from tilewright.tune.choose import padded_axes
from tilewright.tune.fit import require_fit
from tilewright.tune.ways import Way, ways

_FITS = "a core's part fits its buffers"
_BRIEF = 30
"""Findings up to which those that are ok are shown as well."""
_NAMED = 3
"""Operators named in a finding that concerns several."""


def run(asked: Check) -> None:
    """Check that operators fit a machine, or that a program is legal on it."""
    path, chain = Path(asked.subject), Toolchain(_machine(asked))
    target, tile, findings = chain.machine, asked.tile or [], tuple[Finding, ...]()
    if tile or (asked.subject == "gemm" and not target.target):
        if asked.subject != "gemm":
            raise UsageProblem("--tile goes with gemm")
        found, bounds = check_product(asked.operator, tile, target)
        _finish(CheckReport(target.name, found, _refused(found), bounds), asked.output)
        return
    _require_answerable(asked, chain)
    target = target.of_one_program
    if network_kind(path) == "native":
        findings = tuple(_native(path))
    elif path.is_dir():
        findings = tuple(_all_written(_kernels(path), target, asked.output))
    elif _is_written(path):
        program = read_program(read_text(path), asked.subject)
        findings = tuple(_program(program, asked.subject, target))
    elif chain.divides is not None and not is_operator(asked.subject):
        network = named_network(asked.subject, asked.operator, chain.usual_type)
        findings = check_divided(network, chain, asked.output)
    else:
        workload = read_workload(asked.subject, asked.operator, chain.usual_type)
        findings = _planned(workload, Toolchain(target), asked.algorithm, asked.layers)
    _finish(CheckReport(target.name, findings, _refused(findings)), asked.output)


def _is_written(path: Path) -> bool:
    """True if `path` is a folder or the text of a program."""
    return path.exists() and not is_source(path)


def _require_answerable(asked: Check, chain: Toolchain) -> None:
    """Raise UsageProblem for options that do not apply, ToolError for a machine without code."""
    subject, path, machine = asked.subject, Path(asked.subject), chain.machine
    written, operator = _is_written(path), is_operator(subject)
    if not (written or operator or asked.layers or chain.divides):
        require_networks(machine, "--layers for its products alone")
    if chain.emits is None and not (chain.divides and not operator):
        whole = "check a whole network, " if chain.divides else ""
        EMITS.required(machine, f"{whole}check a tile of a gemm (--tile m=8,n=8,k=8)")
    if asked.algorithm is not None and written:
        raise UsageProblem(f"{subject} is written already: leave --algorithm")
    if asked.layers and (written or operator or chain.divides):
        raise UsageProblem(f"{subject} is no network that is planned: leave --layers")
    if written and (given := given_options(asked.operator)):
        raise UsageProblem(f"{subject} is written already: leave {', '.join(given)}")
    if network_kind(path) == "native" and asked.machine.machine:
        raise UsageProblem(f"{subject} holds a network for its own machine: leave --machine")


def _machine(asked: Check) -> Machine:
    """The requested machine; for a written folder, its own by default."""
    path, unsaid = Path(asked.subject), asked.machine == OwnMachineOptions()
    if unsaid and network_kind(path) == "native":
        return read_native(path).machine
    kernels = _kernels(path) if path.is_dir() and unsaid else []
    return read_kernel(kernels[0])[0].machine if kernels else machine_of(asked.machine)


def _native(folder: Path) -> Iterator[Finding]:
    """One finding per file of a whole network, refused if changed since it was written."""
    stored = read_native(folder)
    pairs = zip(stored.files, stored.digests, strict=True)
    return _unchanged(folder, pairs, "compile the network again")


def _unchanged(folder: Path, digests: Iterable[tuple[str, str]], fix: str) -> Iterator[Finding]:
    """One finding per file, refused if it has changed since it was written."""
    for name, problem in file_states(folder, digests):
        status = "refused" if problem else "ok"
        path, own = str(folder / name), fix if problem else ""
        yield Finding(path, "as it was written", status, problem, own)


def _kernels(path: Path) -> list[Path]:
    """The folder itself, or its layers' folders if it holds a network."""
    if not (path / NETWORK_FILE).exists():
        return [path]
    return [path / name for name in dict.fromkeys(read_layers(path).folders.values())]


def _all_written(
    folders: Sequence[Path], machine: Machine, output: OutputOptions
) -> Iterator[Finding]:
    with progress_bar(output) as progress:
        for folder in told(progress, "check", folders):
            yield from _written_kernel_findings(folder, machine)


def _written_kernel_findings(folder: Path, machine: Machine) -> Iterator[Finding]:
    stored, programs = read_kernel(folder)
    for program, file in zip(programs, (PROGRAM_FILE, SUMS_FILE), strict=False):
        yield from _program(program, str(folder / file), machine)
    yield from _unchanged(folder, stored.digests.items(), "compile the kernel again")


def _planned(
    workload: Workload, chain: Toolchain, algorithm: str | None, layers: bool
) -> tuple[Finding, ...]:
    """Findings on a workload. A network planned as a whole first gets findings of its own. Findings
    on its operators alone say little about its plan, so only refusals are kept, or all with
    `layers`.
    """
    findings = _workload(workload, chain, algorithm)
    if workload.network is None or algorithm is not None or chain.networks is None:
        return findings
    if not layers:
        findings = tuple(f for f in findings if f.status == "refused")
    return (*_whole(workload.network, chain), *findings)


def _workload(workload: Workload, chain: Toolchain, algorithm: str | None) -> tuple[Finding, ...]:
    """Findings on each distinct operator."""
    machine = chain.machine
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
        for finding in (*_operator(firsts[op], own, machine), *_notes(firsts[op], op, own, chain))
    )
    return tuple(dict.fromkeys((*refused, *found)))


def _any_ways(
    firsts: Mapping[Op, str], machine: Machine
) -> tuple[dict[Op, list[Way]], tuple[Finding, ...]]:
    """Each operator's ways, and one finding per reason why others have none."""
    found: dict[Op, list[Way]] = {}
    reasons: dict[tuple[str, str], list[str]] = {}
    for op, name in firsts.items():
        try:
            (found[op],) = ways([op], machine)
        except ScheduleError as error:
            reasons.setdefault((error.message, error.fix), []).append(name)
    return found, tuple(
        Finding(some(names, _NAMED), "an algorithm for the machine", "refused", *reason)
        for reason, names in reasons.items()
    )


def _whole(network: Network, chain: Toolchain) -> tuple[Finding, ...]:
    """Findings on all nodes together, and on a group's tensors, before any search."""
    machine = chain.machine
    part, _ = own_part(network, machine)
    runs = partial(require_networks(machine).require, simplified(network), machine)
    rules = [("a stage for every operator", runs)]
    if not chain.executes_here:
        rules.append(("live tensors fit main memory", partial(require_room, part, machine)))
    return tuple(_finding(network.name, rule, _problem(act)) for rule, act in rules)


def _operator(name: str, own: list[Way], machine: Machine) -> Iterator[Finding]:
    """Findings on each way to compute an operator; failures are only notes if some way fits."""
    rule = "fits scratchpad and main memory"
    tried = [
        (
            f"{name}, {seed.name} over {part.kind}",
            _problem(partial(require_fit, part.piece, seed, machine)),
        )
        for part, seed in own
    ]
    status = "note" if any(problem is None for _, problem in tried) else "refused"
    yield from (_finding(subject, rule, problem, status) for subject, problem in tried)


def _notes(name: str, op: Op, own: list[Way], chain: Toolchain) -> Iterator[Finding]:
    """Notes on extents that are rounded up, and on pieces that overlap: legal, but not free."""
    why = "" if chain.executes_here else ", which the mesh divides"
    for part, seed in own:
        for axis, extent, padded in padded_axes(part.piece, seed, chain.machine):
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
    """Findings on stage rules and capacity, then on code generation: descriptor limits."""
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
    yield from (_finding(where, rule, _problem(act)) for rule, act in rules)


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


_TILE = re.compile(r"(?:(?P<memory>[A-Za-z0-9_-]{1,64}):)?(?P<sizes>[a-z]=[0-9]+(,[a-z]=[0-9]+)*)")
_EXTENTS = ("m", "n", "k")

Tiles = dict[str | None, ProductTile]


def check_product(
    options: OperatorOptions, texts: list[str], machine: Machine
) -> tuple[tuple[Finding, ...], ProductRoofline]:
    """Findings on each tile, and the roofline with all tiles."""
    product, tiles = _product(options, machine), dict(map(_tile, texts))
    findings = tuple(
        _tile_finding(memory, tile, product, machine) for memory, tile in tiles.items()
    )
    return findings, product_roofline(product, machine, tiles)


def roofline_lines(found: ProductRoofline) -> list[str]:
    """The roofline as text."""
    peak = found.peak_flops_per_second
    rows = [f"{'compute':32} {found.compute_cycles:14,.0f} cycles, {peak / 1e9:,.1f} Gop/s peak"]
    for level in found.levels:
        way = f"{level.engine}: {level.reads} -> {level.writes}"
        rows.append(
            f"{way:32} {level.cycles:14,.0f} cycles, {level.bytes:,} bytes at "
            f"{level.bytes_per_cycle:,.1f} a cycle"
        )
    rate, share = found.flops_per_second / 1e9, found.flops_per_second / peak
    rows.append(f"bound by {found.bound}: {rate:,.1f} Gop/s, {100 * share:.1f} % of the peak")
    return rows


def _product(options: OperatorOptions, machine: Machine) -> Product:
    given = {f.name for f in fields(options) if getattr(options, f.name) not in (None, False)}
    for name in _EXTENTS:
        if name not in given:
            raise UsageProblem(f"gemm needs --{name}")
    others = sorted(given - {*_EXTENTS, "dtype"})
    if others:
        raise UsageProblem(f"--tile goes with --m, --n, --k and --dtype, not with --{others[0]}")
    element = options.dtype or machine.core.usual_type
    m, n, k = (getattr(options, name) for name in _EXTENTS)
    return Product(m, n, k, element)


def _tile(text: str) -> tuple[str | None, ProductTile]:
    match = _TILE.fullmatch(text)
    sizes = dict(part.split("=") for part in match["sizes"].split(",")) if match else {}
    if match is None or set(sizes) != set(_EXTENTS) or not all(map(int, sizes.values())):
        raise UsageProblem(f"--tile takes [MEMORY:]m=M,n=N,k=K, found {text!r}")
    return match["memory"], ProductTile(*(int(sizes[name]) for name in _EXTENTS))


def _tile_finding(
    memory: str | None, tile: ProductTile, product: Product, machine: Machine
) -> Finding:
    subject = f"tile {tile}"
    rule = f"fits memory {memory!r}" if memory else "fits the memories of a core"
    fits = partial(require_tile, machine, product.element, tile, memory)
    return _finding(subject, rule, _problem(fits))


def check_divided(network: Network, chain: Toolchain, output: OutputOptions) -> tuple[Finding, ...]:
    """One finding per distinct layer, refused if no division of it fits the cores' buffers."""
    machine = chain.machine
    try:
        layers, model = DIVIDES.required(machine).planned(network, machine)
    except TilewrightError as error:
        return (_finding(network.name, "cores compute its operators and elements", error),)
    found: dict[object, Finding] = {}
    with progress_bar(output) as progress:
        for layer in told(progress, "check", layers):
            if layer.shape_key not in found:
                fits = partial(space, [layer], machine.cores, model=model)
                found[layer.shape_key] = _finding(layer.name, _FITS, _problem(fits))
    return tuple(found.values())


def _finding(
    subject: str, rule: str, problem: TilewrightError | None, status: str = "refused"
) -> Finding:
    """The finding for a check: ok without a problem, else `status` with the problem."""
    if problem is None:
        return Finding(subject, rule, "ok")
    return Finding(subject, rule, status, problem.message, problem.fix)
