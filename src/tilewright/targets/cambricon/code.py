"""The code of a Cambricon: DLA-AL, assembled, linked and run on the window simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.asm import Object, assemble, link
from tilewright.codegen.artifact import Array, Artifact, TensorInfo, require_bound
from tilewright.codegen.c.names import buffer_infos, name_program, tensor_infos
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError, ShapeError
from tilewright.ir.nodes import Program
from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.simulate.kernel.level import KernelRun
from tilewright.targets.cambricon.emit.program import emit_body
from tilewright.targets.cambricon.round_products import MATRIX, VECTOR
from tilewright.targets.cambricon.runtime import Device
from tilewright.targets.cambricon.sections import Units
from tilewright.targets.cambricon.simulated import kernel_run

_SECTIONS = {True: ".static_ro", False: ".static_rw"}


@dataclass(frozen=True)
class CambriconCode:
    """Emits DLA-AL and runs it on the simulated device."""

    def emit(self, program: Program, machine: Machine) -> Artifact:
        """Emit one source file. Raises ProgramError for operations without instructions,
        CapacityError where a scratchpad is too small.
        """
        require_bound(program)
        naming = name_program(program)
        tensors = tensor_infos(program, naming)
        for tensor in tensors:
            check_type(tensor, machine)
        capacity = {name: machine.space(name).capacity_bytes for name in (VECTOR, MATRIX)}
        buffers = buffer_infos(program, capacity)
        lines = [f"; {program.name} for {machine.name}", ".code"]
        lines += emit_body(program, naming.tensors)
        for read_only, section in _SECTIONS.items():
            own = [t for t in tensors if (t.kind in ("input", "constant")) == read_only]
            lines += [section, *map(declared, own)] if own else []
        files = {f"{naming.artifact}.dla": "\n".join(lines) + "\n"}
        return Artifact(
            naming.artifact,
            machine.target,
            files,
            tensors=tensors,
            buffers=buffers,
            scratchpad_bytes=sum(capacity.values()),
        )

    def run(
        self, artifact: Artifact, machine: Machine, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Assemble, link, upload, launch, download. Raises ShapeError for a missing input."""
        device = Device(image_of(artifact, machine), machine)
        for info in artifact.tensors:
            if info.is_given:
                if info.name not in inputs or inputs[info.name].shape != info.shape:
                    raise ShapeError(f"input tensor {info.name!r} of shape {info.shape} is missing")
                device.upload(info.identifier, inputs[info.name].reshape(1, 1, 1, -1))
        device.launch()
        return {
            info.name: device.download(info.identifier).reshape(info.shape)
            for info in artifact.tensors
            if info.is_result
        }

    def simulate(self, program: Program, machine: Machine) -> KernelRun:
        """The time of the program's code on the window simulator."""
        artifact = self.emit(program, machine)
        device = Device(image_of(artifact, machine), machine)
        run = device.launch(values=False)
        return kernel_run(program, artifact, device.instructions, run, machine)


def image_of(artifact: Artifact, machine: Machine) -> Object:
    """The linked program of an artifact."""
    table = load_table(machine.core.instruction_table or "")
    objects = [assemble(text, table, filename=name) for name, text in artifact.files.items()]
    return link(objects, table)


def declared(info: TensorInfo) -> str:
    """The statement that declares a tensor's data."""
    size = prod(info.shape)
    kind = "synapse" if info.kind == "constant" else "neuron"
    return f"  @{kind} {info.identifier}, 1, 1, 1, {size}"


def check_type(info: TensorInfo, machine: Machine) -> None:
    """Raise ProgramError for element types that the units do not support."""
    bits, kind = machine.section(Units).fraction_bits, dtype(info.dtype)
    if kind.numpy != np.int16 or kind.fraction_bits != bits:
        raise ProgramError(
            f"tensor {info.name!r} is of {kind}, the units of {machine.name!r} compute in "
            f"q{16 - bits}.{bits}",
            fix=f"--dtype q{16 - bits}.{bits}:q{64 - 2 * bits}.{2 * bits}:q{16 - bits}.{bits}",
        )


CODE = CambriconCode()
