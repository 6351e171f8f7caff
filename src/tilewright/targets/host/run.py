"""Run generated kernels in this process: artifact and inputs in, outputs out.

The sources are compiled into a shared library (kept under a digest of their contents) and called on
arrays that begin on pages of their own. Constants are packed when they are bound, once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.codegen.artifact import Array, Artifact, TensorInfo
from tilewright.common.dtypes import F32, dtype
from tilewright.common.errors import ShapeError, ToolError
from tilewright.machine import Machine
from tilewright.targets.host.emit.header import stored_elements
from tilewright.targets.host.emit.products import instruction_set_of
from tilewright.targets.host.memory import address, aligned
from tilewright.targets.host.native import FLAGS, load_library, native_instruction_sets


@dataclass(frozen=True, eq=False)
class LoadedKernel:
    """A compiled kernel in this process."""

    artifact: Artifact
    library: ctypes.CDLL

    def bind(self, inputs: Mapping[str, Array]) -> BoundKernel:
        """Copy `inputs`, one array per input and constant in the program's storage order, to where
        the kernel runs on them; raises ShapeError where they do not fit.
        """
        arrays: dict[str, Array] = {}
        for info in self.artifact.tensors:
            if info.kind == "scratch":
                continue
            arrays[info.name] = aligned(stored_elements(info), dtype(info.dtype))
            if info.is_given:
                self._give(info, _given(info, inputs), arrays[info.name])
            else:
                arrays[info.name].fill(dtype(info.dtype).nothing)
        workspace = aligned(self.artifact.scratchpad_bytes // 4 + 1, F32)
        return BoundKernel(self, arrays, workspace)

    def _give(self, info: TensorInfo, given: Array, place: Array) -> None:
        """Copy an input to its place, packed if the kernel takes it packed."""
        if not info.is_packed:
            place[...] = given.reshape(-1)
            return
        plain = aligned(given.size, dtype(info.dtype))
        plain[...] = given.reshape(-1)
        pack = self.library[f"{self.artifact.name}_pack_{info.identifier}"]
        pack(address(plain), address(place))


@dataclass(frozen=True, eq=False)
class BoundKernel:
    """A kernel with its arrays."""

    kernel: LoadedKernel
    arrays: Mapping[str, Array]
    workspace: Array

    def repeat(self, calls: int) -> None:
        """Compute the outputs, again and again."""
        pointers = [array.ctypes.data for array in (*self.arrays.values(), self.workspace)]
        arguments = (ctypes.c_void_p * len(pointers))(*pointers)
        entry = self.kernel.library[self.kernel.artifact.name]
        _repeater(len(pointers))(ctypes.c_long(calls), entry, arguments)

    def outputs(self) -> dict[str, Array]:
        """Copies of the output tensors, shaped as declared."""
        infos = (t for t in self.kernel.artifact.tensors if t.kind == "output")
        return {t.name: self.arrays[t.name].reshape(t.shape).copy() for t in infos}


def load_kernel(artifact: Artifact, machine: Machine) -> LoadedKernel:
    """Compile and load an artifact of the host target.

    Raises ToolError where there is no compiler, or where this processor lacks the instructions.
    """
    isa = instruction_set_of(machine)
    native = native_instruction_sets()
    if isa not in native:
        lanes = native[0].vector_bytes // 8
        raise ToolError(
            f"the code of {machine.name!r} needs {isa.name}, this processor has {native[0].name}",
            fix=f"a machine with core.vector_lanes = {lanes}",
        )
    sources = {name: text for name, text in artifact.files.items() if name.endswith((".c", ".h"))}
    return LoadedKernel(artifact, load_library(sources, _own_flags(artifact)))


def _own_flags(artifact: Artifact) -> tuple[str, ...]:
    """Compiler flags of the artifact beyond those of all generated code."""
    (step,) = artifact.build.steps
    return tuple(word for word in step.command[1:] if word[0] == "-" and word not in FLAGS)


@cache
def _repeater(arguments: int) -> Any:
    """The C function that calls a kernel of `arguments` arguments repeatedly, with no time between
    calls.
    """
    kinds = ", ".join(["void *"] * arguments)
    given = ", ".join(f"p[{i}]" for i in range(arguments))
    text = f"""\
void tw_repeat(long calls, void (*kernel)({kinds}), void **p)
{{
    for (long i = 0; i < calls; i++)
        kernel({given});
}}
"""
    return load_library({"repeat.c": text}).tw_repeat


def _given(info: TensorInfo, inputs: Mapping[str, Array]) -> Array:
    if info.name not in inputs:
        raise ShapeError(f"input tensor {info.name!r} is missing")
    given = inputs[info.name]
    if given.shape != info.shape:
        raise ShapeError(
            f"input tensor {info.name!r} has shape {given.shape}, expected {info.shape}"
        )
    return given
