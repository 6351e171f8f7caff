"""Folders of compiled workloads, read back: explained, and split into kernels.

In: a folder. Out: a `Written`, whatever was compiled into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from tilewright.codegen.folder import KERNEL_FILE, ArtifactError
from tilewright.codegen.stored import network_kind
from tilewright.common.errors import GraphError
from tilewright.common.progress import Progress
from tilewright.compiler.artifact import read_kernel, read_network, stored_op
from tilewright.compiler.compiled import Figures
from tilewright.compiler.divided import read_divided
from tilewright.compiler.explanation import changes_that_help, every_call, routines_of
from tilewright.cost.roofline import roofline
from tilewright.graph.names import quoted
from tilewright.machine import Machine
from tilewright.network.explain import explained, measured_explanation
from tilewright.network.stored import read_native
from tilewright.report.division import DividedExplanation
from tilewright.report.view import Explanation, NetworkResult
from tilewright.simulate.kernel.level import simulate

_OPERATOR = ""
"""The key of an operator compiled alone."""


@dataclass(frozen=True)
class Written:
    """A compiled folder. `kernels` maps layers to their folders, or the empty name to an
    operator's. A network compiled as a whole has no kernels but is already `explained`.
    """

    folder: Path
    machine: Machine
    kernels: Mapping[str, Path]
    table: NetworkResult | None = None
    explained: Figures = None

    @property
    def is_layers(self) -> bool:
        """True if a layer can be named."""
        return _OPERATOR not in self.kernels and self.explained is None

    def chosen(self, layer: str | None) -> str:
        """The named layer, or else the slowest one. Raises GraphError for an unknown name."""
        if self.table is None:
            return _OPERATOR
        name = layer or max(self.table.layers, key=lambda x: x.milliseconds).name
        if name not in self.kernels:
            raise no_layer(name, self.kernels)
        return name

    def explain(
        self, layer: str | None, *, changes: bool, levels: bool, progress: Progress
    ) -> Figures:
        """The stored explanation, of one kernel with the requested additions."""
        if self.explained is not None:
            return self.explained
        folder = self.kernels[self.chosen(layer)]
        return _explained_kernel(folder, changes=changes, levels=levels, progress=progress)


def read_written(folder: Path) -> Written:
    """Read a written folder. Raises ArtifactError."""
    match network_kind(folder):
        case "native":
            native = read_native(folder)
            explain = measured_explanation if native.result.cycles is None else explained
            return Written(folder, native.machine, {}, explained=explain(native.result))
        case "divided":
            division = read_divided(folder)
            found = DividedExplanation(**structs.asdict(division.divided))
            return Written(folder, division.machine, {}, explained=found)
        case _ if (folder / KERNEL_FILE).exists():
            return Written(folder, read_kernel(folder)[0].machine, {_OPERATOR: folder})
        case _:
            stored = read_network(folder)
            kernels = {name: folder / own for name, own in stored.folders.items()}
            return Written(folder, stored.machine, kernels, stored.result)


def no_layer(name: str, known: Iterable[str]) -> GraphError:
    """The error for an unknown layer."""
    return GraphError(f"there is no layer {quoted(name)}", fix=f"the layers are {', '.join(known)}")


def _explained_kernel(
    folder: Path, *, changes: bool, levels: bool, progress: Progress
) -> Explanation:
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
