"""The SW26010 target: explicit program in, C for managing core and computing cores out (swATOP
4.7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.codegen.artifact import Array, Arrays, Artifact
from tilewright.common.deferred import Deferred
from tilewright.ir.nodes import Program
from tilewright.machine import Machine

if TYPE_CHECKING:
    from tilewright.codegen.c import elementwise_text
    from tilewright.targets.sw26010.emit import launch
    from tilewright.targets.sw26010.emulation import build, run
else:  # heavy: what writes code, the assembler, and what builds and runs code
    elementwise_text = Deferred("tilewright.codegen.c.elementwise_text")
    launch = Deferred("tilewright.targets.sw26010.emit.launch")
    build = Deferred("tilewright.targets.sw26010.emulation.build")
    run = Deferred("tilewright.targets.sw26010.emulation.run")


@dataclass(frozen=True)
class Sw26010Code:
    """Generates athread C for machines like the Sunway SW26010."""

    def emit(self, program: Program, machine: Machine) -> Artifact:
        """Generate the sources of an explicit program without parameters.

        Raises ProgramError for a program of another stage, CapacityError where buffers do not fit
        the scratchpad or a transfer exceeds the DMA descriptor, ScheduleError for a matrix product
        that the primitive cannot do.
        """
        return launch.kernel_artifact(program, machine)

    def run(self, artifact: Artifact, machine: Machine, inputs: Arrays) -> dict[str, Array]:
        """Run the code on the emulated cores.

        Raises SimulationError where it does something illegal, ToolError where it cannot be built.
        """
        mesh = (machine.mesh.rows, machine.mesh.columns)
        return run.run_emulated(artifact, inputs, mesh=mesh)

    def make_ready(self, machine: Machine) -> None:
        """Compile the runtime of the emulation where the cache lacks it; raises ToolError."""
        text = elementwise_text
        sources = {
            "tw_primitives.h": text.primitives_header(),
            "tw_primitives.c": text.primitives_source(),
        }
        flags = build.mesh_flags((machine.mesh.rows, machine.mesh.columns))
        build.runtime_objects(sources, flags)


CODE = Sw26010Code()
