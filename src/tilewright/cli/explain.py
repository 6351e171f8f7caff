"""`tilewright explain`: where the time goes of what is tuned or written, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from tilewright.cli import divide
from tilewright.cli.arguments import Explain
from tilewright.cli.kernels import kernel_folder, no_layer, searched, show_slowest
from tilewright.cli.networks import compiled_network, read_inputs
from tilewright.cli.options import SearchOptions, given_options
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.cli.planned import simulated
from tilewright.cli.workload import Workload, is_operator, machine_of, read_network, read_workload
from tilewright.codegen.folder import KERNEL_FILE, ArtifactError
from tilewright.codegen.stored import network_kind
from tilewright.common.progress import Progress
from tilewright.compiler.account import every_call
from tilewright.compiler.analysis import changes_that_help, routines_of
from tilewright.compiler.artifact import read_kernel, stored_op
from tilewright.compiler.kernel import Kernel
from tilewright.compiler.stage import (
    measured_stage,
    require_nameable,
    simulated_stage,
    stage_routines,
)
from tilewright.compiler.toolchain import Toolchain
from tilewright.cost.roofline import roofline
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.graph.rewriting import simplified
from tilewright.network.explain import Routines, explained, measured_explanation
from tilewright.network.refusal import require_networks
from tilewright.network.results import NetworkRun
from tilewright.network.search import Search
from tilewright.network.simulate import described
from tilewright.network.stored import read_native
from tilewright.report.explain import explain_text
from tilewright.report.network import network_table, plan_table
from tilewright.report.network_explain import measured_explanation_text, network_explanation_text
from tilewright.report.roofline import roofline_text
from tilewright.report.stage import stage_text
from tilewright.report.view import Explanation
from tilewright.simulate.kernel.level import simulate

_ALONE = (
    "explained alone: a whole network may fuse what follows into it, and take another schedule for",
    "the sake of layouts; `explain` without --layer shows its stage",
)
"""Behind the explanation of one product of a network that runs as a whole."""


def run(asked: Explain) -> None:
    """Explain the time of an operator, of a whole network, or of one layer of it."""
    path = Path(asked.subject)
    if not path.exists() or (asked.subject.endswith(".onnx") and path.is_file()):
        chain = Toolchain(machine_of(asked.machine))
        if is_operator(asked.subject) or not _explained_whole(asked, chain):
            asked.division.require_undivided()
            _explain_kernel(asked, chain)
        return
    asked.division.require_undivided()
    _require_own(asked)
    if network_kind(path) in {"native", "divided"}:
        if asked.layer is not None or asked.levels:
            raise UsageProblem(f"{path} holds a whole network: leave --layer and --roofline")
        _show_whole(path, asked.output)
        return
    folder = kernel_folder(path, asked.layer, asked.output)
    with progress_bar(asked.output) as progress:
        found = _stored(folder, changes=asked.changes, levels=asked.levels, progress=progress)
    _show(found, asked.output)


def _explain_kernel(asked: Explain, chain: Toolchain) -> None:
    """An operator, or one layer of a network."""
    kernel = _tuned(asked, chain)
    with progress_bar(asked.output) as progress:
        found = kernel.explanation(what_if=asked.changes, progress=progress)
        progress("routines", 0, 1)
        found = structs.replace(found, routines=kernel.routines(simulated=True))
    levels = kernel.roofline() if asked.levels else None
    _show(structs.replace(found, roofline=levels), asked.output)
    if asked.layer is not None and chain.networks is not None:
        asked.output.show("", *_ALONE)


def _explained_whole(asked: Explain, chain: Toolchain) -> bool:
    """Explain a network that the machine divides or plans as a whole, or a stage of it. Returns
    False for a product of a planned one and for the levels of memory, which are explained alone.
    """
    layer, alone = asked.layer, asked.layer is not None or asked.levels
    if chain.divides is not None:
        if alone:
            raise UsageProblem(
                f"cores of {chain.machine.name} divide a network: leave --layer and --roofline"
            )
        divide.explain(asked, chain)
        return True
    asked.division.require_undivided()
    if layer is not None and chain.networks is not None:
        network = read_network(asked.subject, asked.operator, chain.usual_type)
        if layer not in dict(network.layers()):
            asked.search.require_whole("name a convolution or matrix product")
            if asked.levels:
                raise UsageProblem(f"{quoted(layer)} is no product: leave --roofline")
            _explain_stage(network, layer, asked, chain)
            return True
    if alone:
        return False
    require_networks(chain.machine, "--layer for one product")
    asked.search.require_whole("add --layer")
    _explain_network(asked, chain)
    return True


def _show_whole(folder: Path, output: OutputOptions) -> None:
    """Why a network takes its time that was compiled as a whole, by what its folder keeps."""
    if network_kind(folder) == "native":
        _show_explained(read_native(folder).result, output)
    else:
        divide.show_explained(divide.read_divided(folder).divided, output)


def _stored(folder: Path, *, changes: bool, levels: bool, progress: Progress) -> Explanation:
    """The explanation stored in a kernel's folder, with the requested additions."""
    stored, programs = read_kernel(folder)
    program = programs[0]
    progress("routines", 0, 1)
    found = structs.replace(
        stored.explanation, routines=routines_of(program, stored.machine, simulated=True)
    )
    progress("routines", 1, 1)
    if changes and found.layer.timed_by == "simulated":
        where = str(folder / KERNEL_FILE)
        piece = stored_op(stored.pieces[0].op, where) if stored.pieces else None
        if piece is None:
            raise ArtifactError("has no pieces", where=where)
        algorithm, own = found.layer.algorithm, stored.machine
        helping = changes_that_help(piece, algorithm, programs, own, progress)
        found = structs.replace(found, changes=helping)
    if levels:
        simulated = found.layer.timed_by == "simulated"
        useful = simulate(program, stored.machine).useful_flops if simulated else None
        levelled = roofline(every_call(program), stored.machine, useful)
        found = structs.replace(found, roofline=levelled)
    return found


def _require_own(asked: Explain) -> None:
    """Raise UsageProblem where another machine or other extents than a folder's are asked for."""
    if given := [*given_options(asked.machine), *given_options(asked.operator)]:
        raise UsageProblem(
            f"{asked.subject} was compiled for its own machine: leave {', '.join(given)}, or "
            "explain what it was compiled from"
        )


def _tuned(asked: Explain, chain: Toolchain) -> Kernel:
    """The kernel of an operator, or of one layer of a network: the slowest one if not given."""
    output, search, layer, machine = asked.output, asked.search, asked.layer, chain.machine
    workload = read_workload(asked.subject, asked.operator, chain.usual_type)
    if layer is not None:
        if workload.is_operator:
            raise UsageProblem(f"{workload.name} is one operator: leave --layer")
        workload, search = _one_layer(workload, layer, chain, search)
    compiled = searched(workload, machine, search, 0, output)
    if workload.is_operator:
        return next(iter(compiled.kernels.values()))
    result = compiled.result()
    chosen = layer or max(result.layers, key=lambda x: x.milliseconds).name
    if layer is None:
        show_slowest(result, machine, chosen, output)
    return compiled.kernels[chosen]


def _one_layer(
    workload: Workload, layer: str, chain: Toolchain, search: SearchOptions
) -> tuple[Workload, SearchOptions]:
    """A network with one layer; a product with weights takes them on this computer as it does in a
    network, packed before it runs.
    """
    op, network = dict(workload.layers).get(layer), workload.network
    if op is None or network is None:
        raise no_layer(layer, dict(workload.layers))
    weights = {tensor.name for tensor in network.weights}
    operands = next(node.inputs for node in network.nodes if node.name == layer)
    packs = chain.executes_here and op.kind == "gemm" and operands[1] in weights
    if packs and search.algorithm is None:
        search = replace(search, algorithm="prepacked")
    return replace(workload, layers=((layer, op),)), search


def _show(found: Explanation, output: OutputOptions) -> None:
    output.value(found)
    output.show(explain_text(found).rstrip("\n"))
    if found.roofline is not None:
        output.show("", roofline_text(found.roofline, found.threads).rstrip("\n"))


def _explain_network(asked: Explain, chain: Toolchain) -> None:
    """Say why a network takes the time that it takes on a machine."""
    rewrites: list[str] = []
    network = read_network(asked.subject, asked.operator, chain.usual_type)
    fewer = simplified(network, lambda name, *_: rewrites.append(name))
    if chain.executes_here:
        run = _measured(network, chain, asked.search, asked.output)
        _show_explained(run, asked.output, tuple(rewrites))
        return
    how = Search(asked.search.algorithm, asked.search.max_error)
    planned, unfused, seconds = simulated(fewer, chain, asked.output, how, unfused=True)
    run = described(planned, plan_seconds=seconds, unfused=unfused)
    with progress_bar(asked.output) as progress:
        routines = stage_routines(planned.plan, progress)
    _show_explained(run, asked.output, tuple(rewrites), routines)


def _measured(
    network: Network, chain: Toolchain, search: SearchOptions, output: OutputOptions
) -> NetworkRun:
    """The run of a network on this computer, as `tilewright run` makes it."""
    compiled, seconds = compiled_network(network, chain, search, output, 0)
    with progress_bar(output) as progress:
        progress("run", 0, 1)
        inputs = read_inputs(network, None)
        found, _ = compiled.measured(network, {}, inputs, compile_seconds=seconds)
    return found


def _explain_stage(network: Network, name: str, asked: Explain, chain: Toolchain) -> None:
    """Say what one stage of a network does that is no product, and why it takes its time."""
    require_nameable(network, name)
    if chain.executes_here:
        found = measured_stage(_measured(network, chain, asked.search, asked.output), name)
    else:
        how = Search(asked.search.algorithm, asked.search.max_error)
        run, _, _ = simulated(simplified(network), chain, asked.output, how, unfused=False)
        found = simulated_stage(run, name)
    asked.output.value(found)
    asked.output.show(stage_text(found))


def _show_explained(
    run: NetworkRun,
    output: OutputOptions,
    rewrites: tuple[str, ...] = (),
    routines: Sequence[Routines] = (),
) -> None:
    """Print the stages of a run and why they take their time."""
    if run.cycles is None:
        measured = measured_explanation(run, rewrites=rewrites)
        output.value(measured)
        output.show(network_table(run, output.columns), "", measured_explanation_text(measured))
        return
    found = explained(run, rewrites=rewrites, routines=routines)
    output.value(found)
    output.show(plan_table(run, output.columns), "", network_explanation_text(found))
