"""Networks divided over the cores of a machine: what a `Compiled` does with them.

In: a network. Out: the division that the machine's family found, computed, timed and written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from tilewright.codegen.artifact import Array, Arrays
from tilewright.codegen.folder import NETWORK_FILE, new_folder, write_text
from tilewright.codegen.stored import read_stored
from tilewright.common.errors import GraphError
from tilewright.common.progress import Progress, silent
from tilewright.common.version import tool_version
from tilewright.compiler.compiled import Compiled, Explaining, Outputs, Simulating, Way
from tilewright.compiler.settings import Settings, Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.weights import random_inputs, random_weights
from tilewright.machine import Machine
from tilewright.machine.build import stored_machine
from tilewright.machine.model import document_of
from tilewright.network.plans import Other
from tilewright.network.rival import compare_outputs
from tilewright.partition.capability import DIVIDES
from tilewright.partition.divided import DividedNetwork
from tilewright.partition.grids import IMAGES
from tilewright.report.division import DividedExplanation, DividedRun, layer_picture

_FORMAT = "tilewright divided network 2"
_PICTURED = (2, IMAGES)
"""Dimensions of results that pictures show: matrices and images."""

Made = Compiled[DividedNetwork]


class StoredDivision(Struct, frozen=True):
    """The main file of a divided network's folder, which lists the other `files`."""

    format: str
    version: str
    description: dict[str, Any] = field(name="machine")
    divided: DividedRun
    files: tuple[str, ...] = ("plan.json", "traffic.json", "layers")

    @property
    def machine(self) -> Machine:
        """The machine whose cores divide the network."""
        return stored_machine(self.description)


def read_divided(directory: Path) -> StoredDivision:
    """Read what was written of a divided network; raises ArtifactError."""
    return read_stored(directory / NETWORK_FILE, StoredDivision, _FORMAT)


class DividedWay(Way[DividedNetwork]):
    """Networks divided over cores."""

    def planned(self, workload: Workload, chain: Toolchain, settings: Settings) -> DividedNetwork:
        """The division that costs least as the settings count."""
        return DIVIDES.required(chain.machine).divide(
            workload.whole,
            chain.machine,
            settings.partition,
            settings.objective,
            settings.most_work,
            place=settings.place,
            progress=settings.progress,
        )

    def title(self, made: Made) -> str:
        """The network and its cores."""
        return f"{made.name}: divided over {made.plan.plan.cores} cores of {made.machine.name}"

    def run(
        self, made: Made, inputs: Sequence[Array], named: Arrays, weights: Arrays | None
    ) -> Outputs:
        """The outputs, computed by the programs of cores that each see their own memory alone."""
        network = made.plan.network
        feeds = {**dict(zip((t.name for t in network.inputs), inputs, strict=False)), **named}
        known = {**network.values, **(weights or {})}
        missing = [
            t.name for t in (*network.inputs, *network.weights) if t.name not in feeds | known
        ]
        if missing:
            raise GraphError(f"{network.name} takes also {', '.join(missing)}")
        return made.plan.run({**(weights or {}), **feeds})

    def figures(self, made: Made, progress: Progress = silent) -> DividedRun:
        """The plan with its times."""
        return DividedRun(**structs.asdict(made.plan.result(progress)))

    def judged(self, made: Made, *, check: bool, measure: bool, progress: Progress) -> DividedRun:
        """The figures, compared with the reference if that is wanted."""
        if not check:
            return self.figures(made, progress)
        return self.measured(made, None, "reference", progress)[0]

    def measured(
        self, made: Made, inputs: Arrays | None, compare: Other | None, progress: Progress
    ) -> tuple[DividedRun, Outputs]:
        """The outputs of all cores' programs, with random weights where there are none."""
        network = made.plan.network
        weights = random_weights(network)
        given = random_inputs(network) if inputs is None else inputs
        outputs = made.plan.run({**weights, **given}, progress)
        found = self.figures(made, progress)
        if compare is None:
            return found, outputs
        other = compare_outputs(compare, network, weights, given, outputs, made.settings.max_error)
        return structs.replace(found, comparison=other), outputs

    def simulated(self, made: Made, asked: Simulating, progress: Progress) -> DividedRun:
        """The times of all cores."""
        return self.figures(made, progress)

    def explained(self, made: Made, asked: Explaining, progress: Progress) -> DividedExplanation:
        """The figures, and which layers take the time for what."""
        return DividedExplanation(**structs.asdict(self.figures(made, progress)))

    def write(
        self,
        made: Made,
        directory: Path,
        _weights: Arrays | None,
        found: DividedRun,
        _progress: Progress,
    ) -> DividedRun:
        """Write `network.json` with the figures, `plan.json` with all shares and moves,
        `traffic.json` with links and cores, and a picture of each layer of images or a matrix,
        `layers/NAME.svg`.
        """
        divided = made.plan
        with new_folder(directory) as folder:
            plans = divided.layer_plans()
            stored = StoredDivision(_FORMAT, tool_version(), document_of(made.machine), found)
            files = {NETWORK_FILE: stored, "plan.json": plans, "traffic.json": divided.traffic()}
            for file, value in files.items():
                text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
                write_text(folder / file, f"{text}\n")
            (folder / "layers").mkdir()
            for plan, layer in zip(plans, found.layers, strict=True):
                shape = divided.network.tensors[plan.result].shape
                if len(shape) in _PICTURED:
                    heading = f"{layer.name} on {found.machine}: {layer.divides}, grid {layer.grid}"
                    heading += f" ({layer.strategy})"
                    picture = layer_picture(plan, shape, divided.plan.cores, heading, layer.inputs)
                    write_text(folder / "layers" / f"{plan.name}.svg", picture)
        return found


WAY = DividedWay()
