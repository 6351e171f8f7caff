"""The code of a Duo: C for its core, with a header that emulates the core on this computer."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.codegen.artifact import Array, Artifact, TensorInfo
from tilewright.codegen.c.compiler import compiled_files
from tilewright.codegen.c.names import buffer_infos, name_program, tensor_infos
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError, ShapeError, SimulationError
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright_duo.emit import emit_source
from tilewright_duo.header import HEADER
from tilewright_duo.rules import SPACES

_FLAGS = ("-std=c11", "-O2", "-fwrapv", "-fPIC", "-shared", "-o", "duo.so")
_ERRORS = {
    1: "a transfer is never waited for",
    2: "more transfers are under way than the engines keep",
}


@dataclass(frozen=True)
class DuoCode:
    """Emits C, and runs it on this computer."""

    def emit(self, program: Program, machine: Machine) -> Artifact:
        """One source and the header of the core.

        Raises ProgramError for what the core lacks, CapacityError where a memory is too small.
        """
        if program.parameters:
            raise ProgramError(
                f"program {program.name!r} still has parameters: {', '.join(program.parameters)}",
                fix="instantiate it before code is generated",
            )
        naming, tensors = name_program(program), tensor_infos(program, name_program(program))
        capacity = {name: machine.space(name).capacity_bytes for name in SPACES}
        buffers = buffer_infos(program, capacity)
        source = emit_source(program, naming, tensors, capacity)
        files = {f"{naming.artifact}.c": source, "duo.h": HEADER}
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
        """Compile the code for this computer and call it: transfers take effect at the wait."""
        (path,) = compiled_files("the Duo's emulation", "duo", dict(artifact.files), _FLAGS)
        arrays = {info.name: _array(info, inputs) for info in artifact.tensors}
        entry = ctypes.CDLL(str(path))[artifact.name]
        status = entry(*(ctypes.c_void_p(array.ctypes.data) for array in arrays.values()))
        if status:
            raise SimulationError(f"{artifact.name}: {_ERRORS[status]}")
        return {info.name: arrays[info.name] for info in artifact.tensors if info.kind == "output"}


def _array(info: TensorInfo, inputs: Mapping[str, Array]) -> Array:
    """A tensor's memory: the input, or elements that nobody has computed yet."""
    kind = dtype(info.dtype)
    if not info.is_given:
        return np.full(info.shape, kind.limits[0], kind.numpy)
    if info.name not in inputs or inputs[info.name].shape != info.shape:
        raise ShapeError(f"input tensor {info.name!r} of shape {info.shape} is missing")
    return np.ascontiguousarray(inputs[info.name], kind.numpy)


CODE = DuoCode()
