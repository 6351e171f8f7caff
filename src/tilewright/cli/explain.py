"""`tilewright explain`: where the time of written code goes, what bounds it, what would help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import structs

from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.codegen.folder import KERNEL_FILE, NETWORK_FILE, ArtifactError
from tilewright.common.errors import GraphError
from tilewright.compiler.account import every_call
from tilewright.compiler.analysis import changes_that_help
from tilewright.compiler.artifact import read_kernel, read_network, stored_op
from tilewright.cost.roofline import roofline
from tilewright.graph.names import quoted
from tilewright.report.explain import explain_text
from tilewright.report.roofline import roofline_text
from tilewright.report.table import layer_table, totals
from tilewright.simulate.kernel.level import simulate

ArtifactFolder = Annotated[
    Path, typer.Argument(metavar="ARTIFACT", help="A folder of `compile -o`.")
]


def explain_command(
    artifact: ArtifactFolder,
    output: OutputOptions,
    layer: Annotated[
        str | None, typer.Option(help="Which layer of a network; the slowest one if not given.")
    ] = None,
    changes: Annotated[
        bool, typer.Option(help="Simulate changed machines to see what would help.")
    ] = True,
    levels: Annotated[
        bool,
        typer.Option(
            "--roofline", help="Bandwidth required and available at each level of the memories."
        ),
    ] = False,
) -> None:
    """Explain the time of an operator, or of one layer of a network."""
    folder = kernel_folder(artifact, layer, output)
    stored, program = read_kernel(folder)
    found = stored.explanation
    if changes and found.layer.timed_by == "simulated":
        where = str(folder / KERNEL_FILE)
        piece = stored_op(stored.pieces[0].op, where) if stored.pieces else None
        if piece is None:
            raise ArtifactError("has no pieces", where=where)
        helping = changes_that_help(piece, found.layer.algorithm, program, stored.machine)
        found = structs.replace(found, changes=helping)
    if levels:
        simulated = found.layer.timed_by == "simulated"
        useful = simulate(program, stored.machine).useful_flops if simulated else None
        levelled = roofline(every_call(program), stored.machine, useful)
        found = structs.replace(found, roofline=levelled)
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
    if not (artifact / NETWORK_FILE).exists():
        raise ArtifactError(
            f"has neither {KERNEL_FILE} nor {NETWORK_FILE}",
            where=str(artifact),
            fix="give a folder that `tilewright compile -o` wrote",
        )
    stored = read_network(artifact)
    chosen = layer or max(stored.result.layers, key=lambda x: x.milliseconds).name
    if chosen not in stored.folders:
        known = ", ".join(stored.folders)
        raise GraphError(f"there is no layer {quoted(chosen)}", fix=f"the layers are {known}")
    if layer is None:
        machine = stored.machine
        output.show(layer_table(stored.result, machine.clock_hz, schedules=output.is_wide))
        output.show(
            totals(stored.result, machine.peak_flops_of(stored.result.dtype)),
            f"the slowest layer is {chosen}:",
            "",
        )
    return artifact / stored.folders[chosen]
