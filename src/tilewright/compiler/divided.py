"""Networks divided over the cores of a machine, as a `Compiled`.

In: a network. Out: the division that the machine's family found; computed, timed and written.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from tilewright.codegen.artifact import Array, Arrays
from tilewright.codegen.folder import NETWORK_FILE, new_folder, write_text
from tilewright.codegen.stored import Stored, read_stored
from tilewright.common.errors import GraphError
from tilewright.common.json import to_json
from tilewright.common.progress import Progress, silent
from tilewright.common.version import tool_version
from tilewright.compiler.compiled import Compiled, Explaining, Outputs, Simulating
from tilewright.compiler.settings import Settings, Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.weights import random_inputs, random_weights
from tilewright.machine.model import document_of
from tilewright.network.plans import Other
from tilewright.network.rival import compare_outputs
from tilewright.partition.capability import DIVIDES
from tilewright.partition.divided import DividedNetwork
from tilewright.partition.grids import IMAGES
from tilewright.report.division import DividedExplanation, DividedRun, layer_picture

_FORMAT = "tilewright divided network 2"
_PICTURED = (2, IMAGES)
"""Ranks of results drawn as pictures: matrices and images."""


class StoredDivision(Stored, frozen=True):
    """The main file of a divided network's folder, which lists the other `files`."""

    divided: DividedRun
    files: tuple[str, ...] = ("plan.json", "traffic.json", "layers")


def read_divided(directory: Path) -> StoredDivision:
    """Read the main file of a divided network's folder. Raises ArtifactError."""
    return read_stored(directory / NETWORK_FILE, StoredDivision, _FORMAT)


class CompiledDivided(Compiled[DividedNetwork]):
    """Networks divided over cores."""

    @staticmethod
    def planned(workload: Workload, chain: Toolchain, settings: Settings) -> DividedNetwork:
        return DIVIDES.required(chain.machine).divide(
            workload.whole,
            chain.machine,
            settings.partition,
            settings.objective,
            settings.most_work,
            place=settings.place,
            progress=settings.progress,
        )

    @property
    def title(self) -> str:
        return f"{self.name}: divided over {self.plan.plan.cores} cores of {self.machine.name}"

    def run(self, *inputs: Array, weights: Arrays | None = None, **named: Array) -> Outputs:
        """The outputs, computed by core programs that each see only their own memory."""
        network = self.plan.network
        feeds = {**dict(zip((t.name for t in network.inputs), inputs, strict=False)), **named}
        known = {**network.values, **(weights or {})}
        missing = [
            t.name for t in (*network.inputs, *network.weights) if t.name not in feeds | known
        ]
        if missing:
            raise GraphError(f"{network.name} takes also {', '.join(missing)}")
        return self.plan.run({**(weights or {}), **feeds})

    def figures(self, progress: Progress = silent) -> DividedRun:
        return DividedRun(**structs.asdict(self.plan.result(progress)))

    def judged(self, *, check: bool, measure: bool, progress: Progress = silent) -> DividedRun:
        if not check:
            return self.figures(progress)
        return self.measure(compare="reference", progress=progress)[0]

    def measure(
        self,
        inputs: Arrays | None = None,
        *,
        compare: Other | None = None,
        progress: Progress = silent,
    ) -> tuple[DividedRun, Outputs]:
        """The figures, and the outputs of all cores; weights without numbers are random."""
        network = self.plan.network
        weights = random_weights(network)
        given = random_inputs(network) if inputs is None else inputs
        outputs = self.plan.run({**weights, **given}, progress)
        found = self.figures(progress)
        if compare is None:
            return found, outputs
        other = compare_outputs(compare, network, weights, given, outputs, self.settings.max_error)
        return structs.replace(found, comparison=other), outputs

    def _simulated(self, asked: Simulating, progress: Progress) -> DividedRun:
        return self.figures(progress)

    def _explained(self, asked: Explaining, progress: Progress) -> DividedExplanation:
        """The figures, as an explanation of each layer's time."""
        return DividedExplanation(**structs.asdict(self.figures(progress)))

    def _write(
        self, directory: Path, weights: Arrays | None, found: DividedRun, progress: Progress
    ) -> DividedRun:
        """Write `network.json` with the figures, `plan.json` with all shares and moves,
        `traffic.json` with links and cores, and `layers/NAME.svg`, a picture of each layer whose
        result is images or a matrix.
        """
        divided = self.plan
        with new_folder(directory) as folder:
            plans = divided.layer_plans()
            stored = StoredDivision(_FORMAT, tool_version(), document_of(self.machine), found)
            files = {NETWORK_FILE: stored, "plan.json": plans, "traffic.json": divided.traffic()}
            for file, value in files.items():
                write_text(folder / file, f"{to_json(value)}\n")
            (folder / "layers").mkdir()
            for plan, layer in zip(plans, found.layers, strict=True):
                shape = divided.network.tensors[plan.result].shape
                if len(shape) in _PICTURED:
                    heading = f"{layer.name} on {found.machine}: {layer.divides}, grid {layer.grid}"
                    heading += f" ({layer.strategy})"
                    picture = layer_picture(plan, shape, divided.plan.cores, heading, layer.inputs)
                    write_text(folder / "layers" / f"{plan.name}.svg", picture)
        return found


WAY = CompiledDivided
