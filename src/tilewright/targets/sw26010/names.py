"""The identifiers of the generated files: the one place that names each part of a program in C."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.c import names as c_names
from tilewright.codegen.c.expression import Scope
from tilewright.codegen.c.names import buffer_end, buffer_infos, tensor_infos
from tilewright.codegen.c.writer import identifier
from tilewright.common.expr import Const
from tilewright.ir.nodes import CORE_SYMBOLS, MESH_SYMBOLS, Program
from tilewright.ir.scalar import LIBRARY_FUNCTIONS
from tilewright.machine import Machine

KERNEL_SUFFIX = "_kernel"
PARAMETERS_SUFFIX = "_parameters"
CHECK_SUFFIX = "_buffers_fit_the_scratchpad"
FILE_SCOPE_SUFFIXES = ("", KERNEL_SUFFIX, PARAMETERS_SUFFIX, CHECK_SUFFIX)
"""Suffixes of all names at file scope; each name is the artifact's with one of these."""
_RESERVED = frozenset(
    (
        *("athread_get", "athread_put", "athread_syn", "athread_init"),
        *("athread_spawn", "athread_join", "dma", "dma_wait", "slave", "host"),
        *("ldm", "ldm_bytes", "ldm_malloc", "ldm_free"),
        *("doublev4", "floatv4", "intv8", "int256"),
    )
)
"""Words of athread C."""
_LIBRARY = frozenset(
    (
        *LIBRARY_FUNCTIONS,
        *("free", "malloc", "posix_memalign", "abort", "exit", "abs", "main"),
        *("memory", "arena", "parameters"),
    )
)
"""Names that generated code takes from the C library or uses for itself."""
_BUFFER_SUFFIXES = ("", "_reply", "_issued")


@dataclass(frozen=True)
class LaunchNaming(c_names.Naming):
    """A program's names in C, and those of its launch."""

    @property
    def kernel(self) -> str:
        """The function that every core runs."""
        return self.artifact + KERNEL_SUFFIX

    @property
    def parameters(self) -> str:
        """The tag of the structure that the kernel is started with."""
        return self.artifact + PARAMETERS_SUFFIX

    @property
    def check(self) -> str:
        """The type that exists only if the buffers fit."""
        return self.artifact + CHECK_SUFFIX


def name_launch(program: Program) -> LaunchNaming:
    """Choose all identifiers; equal programs get equal ones."""
    reserved = _RESERVED | _LIBRARY
    names = c_names.name_program(program, FILE_SCOPE_SUFFIXES, _BUFFER_SUFFIXES, reserved)
    return LaunchNaming(names.artifact, names.tensors, names.buffers, names.variables)


def core_scope(machine: Machine) -> Scope:
    """The symbols that every core knows: its row and its column."""
    rows, columns = machine.mesh.rows, machine.mesh.columns
    bounds = dict(zip(CORE_SYMBOLS, ((0, rows - 1), (0, columns - 1)), strict=True))
    return Scope({name: name for name in CORE_SYMBOLS}, bounds)


def mesh_bindings(machine: Machine) -> dict[str, Const]:
    """Values of the symbols for the mesh's extents."""
    return dict(
        zip(MESH_SYMBOLS, (Const(machine.mesh.rows), Const(machine.mesh.columns)), strict=True)
    )


__all__ = [
    "FILE_SCOPE_SUFFIXES",
    "LaunchNaming",
    "buffer_end",
    "buffer_infos",
    "core_scope",
    "identifier",
    "mesh_bindings",
    "name_launch",
    "tensor_infos",
]
