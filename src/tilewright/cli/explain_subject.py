"""What `tilewright explain` does: tune, or read what was written, and say where the time goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from tilewright.cli.divide import explain_divided, read_divided, show_explained
from tilewright.cli.division_options import DivisionOptions
from tilewright.cli.explain import ExplainOptions
from tilewright.cli.explain_network import explain_network, explain_stage, show_explained_run
from tilewright.cli.layers import searched
from tilewright.cli.options import OperatorOptions, OwnMachineOptions, SearchOptions, given_options
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.cli.run_network import usual_type
from tilewright.cli.workload import Workload, is_operator, read_network, read_workload
from tilewright.codegen.artifact import LOADS
from tilewright.codegen.folder import KERNEL_FILE, ArtifactError
from tilewright.codegen.stored import network_kind
from tilewright.common.errors import GraphError
from tilewright.common.progress import Progress
from tilewright.compiler.account import every_call
from tilewright.compiler.analysis import changes_that_help, routines_of
from tilewright.compiler.artifact import read_kernel, stored_op
from tilewright.compiler.artifact import read_network as read_layers
from tilewright.compiler.kernel import Kernel
from tilewright.cost.roofline import roofline
from tilewright.graph.names import quoted
from tilewright.machine import Machine
from tilewright.network.plans import NETWORKS
from tilewright.network.refusal import require_networks
from tilewright.network.stored import read_native
from tilewright.ops.numerics import sums_called
from tilewright.partition.capability import DIVIDES
from tilewright.report.explain import explain_text
from tilewright.report.roofline import roofline_text
from tilewright.report.table import layer_table, totals
from tilewright.report.view import Explanation, NetworkResult
from tilewright.simulate.kernel.level import simulate

_ALONE = (
    "explained alone: a whole network may fuse what follows into it, and take another schedule for",
    "the sake of layouts; `explain` without --layer shows its stage",
)
"""Behind the explanation of one product of a network that runs as a whole."""


def explain_subject(
    subject: str,
    machine: OwnMachineOptions,
    operator: OperatorOptions,
    search: SearchOptions,
    options: ExplainOptions,
    division: DivisionOptions,
    output: OutputOptions,
) -> None:
    """Explain the time of an operator, of a whole network, or of one layer of it."""
    if not Path(subject).exists() or (subject.endswith(".onnx") and Path(subject).is_file()):
        target = machine.load()
        if not is_operator(subject) and _explained_whole(
            subject, target, operator, search, output, division, options
        ):
            return
        division.require_undivided()
        kernel = _tuned(subject, operator, target, options.layer, search, output)
        with progress_bar(output) as progress:
            found = kernel.explanation(what_if=options.changes, progress=progress)
            progress("routines", 0, 1)
            found = structs.replace(found, routines=kernel.routines(simulated=True))
        _show(
            structs.replace(found, roofline=kernel.roofline() if options.levels else None), output
        )
        if options.layer is not None and NETWORKS.of(target) is not None:
            output.show("", *_ALONE)
        return
    division.require_undivided()
    path = _unchanged(subject, machine, operator)
    if network_kind(path) in {"native", "divided"}:
        if options.layer is not None or options.levels:
            raise UsageProblem(f"{subject} holds a whole network: leave --layer and --roofline")
        _show_whole(path, output)
        return
    folder = kernel_folder(path, options.layer, output)
    with progress_bar(output) as progress:
        found = _stored(folder, changes=options.changes, levels=options.levels, progress=progress)
    _show(found, output)


def _explained_whole(
    subject: str,
    target: Machine,
    operator: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
    division: DivisionOptions,
    options: ExplainOptions,
) -> bool:
    """Explain a network that the machine divides or plans as a whole, or a stage of it; whether it
    was. A product of a planned one is explained alone, as are the levels of memory.
    """
    layer, alone = options.layer, options.layer is not None or options.levels
    if DIVIDES.of(target) is not None:
        if alone:
            raise UsageProblem(
                f"cores of {target.name} divide a network: leave --layer and --roofline"
            )
        explain_divided(subject, target, operator, search, output, division)
        return True
    division.require_undivided()
    if layer is not None and NETWORKS.of(target) is not None:
        network = read_network(subject, operator, usual_type(target))
        if layer not in dict(network.layers()):
            search.require_whole("name a convolution or matrix product")
            if options.levels:
                raise UsageProblem(f"{quoted(layer)} is no product: leave --roofline")
            explain_stage(network, layer, target, search, output)
            return True
    if alone:
        return False
    require_networks(target, "--layer for one product")
    search.require_whole("add --layer")
    explain_network(subject, target, operator, search, output)
    return True


def _show_whole(folder: Path, output: OutputOptions) -> None:
    """Why a network takes its time that was compiled as a whole, by what its folder keeps."""
    if network_kind(folder) == "native":
        show_explained_run(read_native(folder).result, output)
    else:
        show_explained(read_divided(folder).divided, output)


def _stored(folder: Path, *, changes: bool, levels: bool, progress: Progress) -> Explanation:
    """The explanation that lies in a kernel's folder, with what is asked for beside it."""
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


def _unchanged(folder: str, machine: OwnMachineOptions, operator: OperatorOptions) -> Path:
    """A folder of kernels; UsageProblem where another machine or other extents are asked for."""
    if given := [*given_options(machine), *given_options(operator)]:
        raise UsageProblem(
            f"{folder} was compiled for its own machine: leave {', '.join(given)}, or explain "
            "what it was compiled from"
        )
    return Path(folder)


def _tuned(
    subject: str,
    operator: OperatorOptions,
    machine: Machine,
    layer: str | None,
    search: SearchOptions,
    output: OutputOptions,
) -> Kernel:
    """The kernel of an operator, or of one layer of a network: the slowest one if not given."""
    workload = read_workload(subject, operator, usual_type(machine))
    if layer is not None:
        if workload.is_operator:
            raise UsageProblem(f"{workload.name} is one operator: leave --layer")
        workload, search = _one_layer(workload, layer, machine, search)
    compiled = searched(workload, machine, search, 0, output)
    if workload.is_operator:
        return next(iter(compiled.kernels.values()))
    result = compiled.result()
    chosen = layer or max(result.layers, key=lambda x: x.milliseconds).name
    if layer is None:
        _slowest_of(result, machine, chosen, output)
    return compiled.kernels[chosen]


def _one_layer(
    workload: Workload, layer: str, machine: Machine, search: SearchOptions
) -> tuple[Workload, SearchOptions]:
    """A network with one layer; a product with weights takes them on this computer as it does in a
    network, packed before it runs.
    """
    op, network = dict(workload.layers).get(layer), workload.network
    if op is None or network is None:
        raise _no_layer(layer, dict(workload.layers))
    weights = {tensor.name for tensor in network.weights}
    operands = next(node.inputs for node in network.nodes if node.name == layer)
    packs = LOADS.of(machine) is not None and op.kind == "gemm" and operands[1] in weights
    if packs and search.algorithm is None:
        search = replace(search, algorithm="prepacked")
    return replace(workload, layers=((layer, op),)), search


def _show(found: Explanation, output: OutputOptions) -> None:
    output.value(found)
    output.show(explain_text(found).rstrip("\n"))
    if found.roofline is not None:
        output.show("", roofline_text(found.roofline, found.threads).rstrip("\n"))


def kernel_folder(artifact: Path, layer: str | None, output: OutputOptions) -> Path:
    """The folder of the operator that is meant; of a network, its table is shown first."""
    if (artifact / KERNEL_FILE).exists():
        if layer is not None:
            raise UsageProblem(f"{artifact} holds one operator: leave --layer")
        return artifact
    stored = read_layers(artifact)
    chosen = layer or max(stored.result.layers, key=lambda x: x.milliseconds).name
    if chosen not in stored.folders:
        raise _no_layer(chosen, stored.folders)
    if layer is None:
        _slowest_of(stored.result, stored.machine, chosen, output)
    return artifact / stored.folders[chosen]


def _no_layer(name: str, known: Iterable[str]) -> GraphError:
    return GraphError(f"there is no layer {quoted(name)}", fix=f"the layers are {', '.join(known)}")


def _slowest_of(
    result: NetworkResult, machine: Machine, chosen: str, output: OutputOptions
) -> None:
    """The table of a network, of which the slowest layer is explained."""
    output.show(layer_table(result, machine.clock_hz, schedules=output.is_wide))
    output.show(
        totals(result, machine.peak_flops_of(sums_called(result.dtype))),
        f"the slowest layer is {chosen}:",
        "",
    )
