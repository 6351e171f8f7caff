"""The SW26010 target: explicit program in, C for managing core and computing cores out (swATOP
4.7).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tilewright.codegen.artifact import Array, Arrays, Artifact, require_bound
from tilewright.codegen.c.elementwise_text import primitives_header, primitives_source
from tilewright.common.deferred import Deferred
from tilewright.ir.nodes import SCRATCHPAD, Program
from tilewright.ir.visit import instantiate
from tilewright.machine import Machine
from tilewright.targets.sw26010.calls.expressions import ROUTINES, expression_headers, routine_texts
from tilewright.targets.sw26010.emit.build import build_steps, emit_makefile
from tilewright.targets.sw26010.emit.launch import emit_header, emit_host, gemm_header
from tilewright.targets.sw26010.emit.slave import emit_slave
from tilewright.targets.sw26010.emulation.build import mesh_flags, runtime_objects
from tilewright.targets.sw26010.gemm.assembly import emit_gemm_assembly, emit_gemm_dispatch
from tilewright.targets.sw26010.gemm.instances import gemm_instances, gemm_types, has_chains
from tilewright.targets.sw26010.names import buffer_infos, mesh_bindings, name_launch, tensor_infos

if TYPE_CHECKING:
    from tilewright.targets.sw26010.emulation import run as emulation
else:  # heavy: the assembler, and what builds and runs code
    emulation = Deferred("tilewright.targets.sw26010.emulation.run")


@dataclass(frozen=True)
class Sw26010Code:
    """Generates athread C for machines like the Sunway SW26010."""

    name: str = "sw26010"

    def emit(self, program: Program, machine: Machine) -> Artifact:
        """Generate the sources of an explicit program without parameters.

        Raises ProgramError for a program of another stage, CapacityError where buffers do not fit
        the scratchpad or a transfer exceeds the DMA descriptor, ScheduleError for a matrix product
        that the primitive cannot do.
        """
        require_bound(program)
        program = instantiate(program, mesh_bindings(machine))
        naming = name_launch(program)
        instances, kinds = gemm_instances(program, machine), gemm_types(program)
        slave = emit_slave(program, machine, naming)
        routines = routine_texts([program])
        chains = has_chains(instances)
        plan = build_steps(naming, has_gemm=bool(kinds), chains=chains, routines=[*routines])
        files = {
            f"{naming.artifact}.h": emit_header(program, naming),
            f"{naming.artifact}_host.c": emit_host(program, machine, naming),
            f"{naming.artifact}_slave.c": slave,
            "spm_gemm.h": gemm_header(chains=chains),
            "tw_primitives.h": primitives_header(),
            "tw_primitives.c": primitives_source(),
            "Makefile": emit_makefile(plan, [*routines]),
            **routines,
            **expression_headers([program]),
        }
        if kinds:
            products = naming.artifact, instances
            files[f"{naming.artifact}_gemm.S"] = ROUTINES.text(
                products, partial(emit_gemm_assembly, *products)
            )
            files["spm_gemm.c"] = emit_gemm_dispatch(naming.artifact, instances, kinds)
        spm, available = machine.spm, {SCRATCHPAD: machine.spm_available_bytes}
        tensors, buffers = tensor_infos(program, naming), buffer_infos(program, available)
        return Artifact(
            naming.artifact,
            self.name,
            files,
            plan,
            tensors,
            buffers,
            spm.capacity_bytes,
            spm.alignment_bytes,
        )

    def run(self, artifact: Artifact, machine: Machine, inputs: Arrays) -> dict[str, Array]:
        """Run the code on the emulated cores.

        Raises SimulationError where it does something illegal, ToolError where it cannot be built.
        """
        mesh = (machine.mesh.rows, machine.mesh.columns)
        return emulation.run_emulated(artifact, inputs, mesh=mesh)

    def make_ready(self, machine: Machine) -> None:
        """Compile the runtime of the emulation where the cache lacks it; raises ToolError."""
        sources = {"tw_primitives.h": primitives_header(), "tw_primitives.c": primitives_source()}
        runtime_objects(sources, mesh_flags((machine.mesh.rows, machine.mesh.columns)))


CODE = Sw26010Code()
