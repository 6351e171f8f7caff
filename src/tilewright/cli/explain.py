"""`tilewright explain`: time of a tuned or written workload by cause, and helpful changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tilewright.cli.arguments import Explain
from tilewright.cli.options import SearchOptions, given_options
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.cli.workload import (
    compile_workload,
    is_source,
    machine_of,
    read_workload,
    require_options,
    show,
)
from tilewright.compiler.compiled import Figures
from tilewright.compiler.explanation import require_nameable
from tilewright.compiler.settings import Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.compiler.written import Written, no_layer, read_written
from tilewright.graph.names import quoted
from tilewright.machine import Machine
from tilewright.report.figures import Shown, figure_lines

_ALONE = (
    "explained alone: a whole network may fuse what follows into it, and take another schedule for",
    "the sake of layouts; `explain` without --layer shows its stage",
)
"""Shown after the explanation of one product of a network that runs as a whole."""


def run(asked: Explain) -> None:
    """Explain the time of an operator, of a whole network, or of one layer of it."""
    path = Path(asked.subject)
    if path.exists() and not is_source(path):
        _explain_folder(asked, path)
        return
    chain, output, layer = Toolchain(machine_of(asked.machine)), asked.output, asked.layer
    workload = read_workload(asked.subject, asked.operator, chain.usual_type)
    alone, search = _is_alone(asked, chain, workload), asked.search
    require_options(
        chain.way(alone=alone),
        chain,
        search,
        asked.division,
        instead="--layer for one product",
        way_out="add --layer" if layer is None else "name a convolution or matrix product",
    )
    if alone and layer is not None:
        workload, search = _one_layer(workload, layer, chain, search)
    elif layer is not None:
        require_nameable(workload.whole, layer)
    made = compile_workload(workload, chain, search, output, alone=alone, division=asked.division)
    if alone and layer is None and not workload.is_operator:
        _show_slowest(made.figures(), chain.machine, made.plan.slowest, output)
    with progress_bar(output) as progress:
        found = made.explanation(
            layer, changes=asked.changes, levels=asked.levels, progress=progress
        )
    show(found, chain.machine, output)
    if alone and layer is not None and chain.networks is not None:
        output.show("", *_ALONE)


def _is_alone(asked: Explain, chain: Toolchain, workload: Workload) -> bool:
    """True for subjects explained alone: an operator, a product of a planned network, a roofline.

    Raises UsageProblem for options that do not fit together.
    """
    if workload.is_operator:
        return True
    layer, alone = asked.layer, asked.layer is not None or asked.levels
    if chain.divides is not None:
        if alone:
            raise UsageProblem(
                f"cores of {chain.machine.name} divide a network: leave --layer and --roofline"
            )
        return False
    if layer is not None and chain.networks is not None and layer not in dict(workload.layers):
        if asked.levels:
            raise UsageProblem(f"{quoted(layer)} is no product: leave --roofline")
        return False
    return alone


def _explain_folder(asked: Explain, folder: Path) -> None:
    """Explain the contents of a compiled folder, for its own machine."""
    asked.division.require_undivided()
    if given := [*given_options(asked.machine), *given_options(asked.operator)]:
        raise UsageProblem(
            f"{folder} was compiled for its own machine: leave {', '.join(given)}, or "
            "explain what it was compiled from"
        )
    written, layer, output = read_written(folder), asked.layer, asked.output
    _require_layers(written, asked)
    if written.table is not None and layer is None:
        _show_slowest(written.table, written.machine, written.chosen(None), output)
    with progress_bar(output) as progress:
        found = written.explain(
            layer, changes=asked.changes, levels=asked.levels, progress=progress
        )
    show(found, written.machine, output)


def _require_layers(written: Written, asked: Explain) -> None:
    """Raise UsageProblem for kernel options on a folder without layers."""
    if written.explained is not None and (asked.layer is not None or asked.levels):
        raise UsageProblem(f"{written.folder} holds a whole network: leave --layer and --roofline")
    if asked.layer is not None and not written.is_layers:
        raise UsageProblem(f"{written.folder} holds one operator: leave --layer")


def _one_layer(
    workload: Workload, layer: str, chain: Toolchain, search: SearchOptions
) -> tuple[Workload, SearchOptions]:
    """The network with one layer, and its search. On this computer a product with weights packs
    them ahead of its runs, as in a network.
    """
    op, network = dict(workload.layers).get(layer), workload.network
    if network is None:
        raise UsageProblem(f"{workload.name} is one operator: leave --layer")
    if op is None:
        raise no_layer(layer, dict(workload.layers))
    weights = {tensor.name for tensor in network.weights}
    operands = next(node.inputs for node in network.nodes if node.name == layer)
    packs = chain.executes_here and op.kind == "gemm" and operands[1] in weights
    if packs and search.algorithm is None:
        search = replace(search, algorithm="prepacked")
    return replace(workload, layers=((layer, op),)), search


def _show_slowest(found: Figures, machine: Machine, chosen: str, output: OutputOptions) -> None:
    """Show the table of a network, ahead of the explanation of its slowest layer."""
    output.show(*figure_lines(found, Shown(machine, output.columns)))
    output.show(f"the slowest layer is {chosen}:", "")
