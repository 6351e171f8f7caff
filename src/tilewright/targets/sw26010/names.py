"""The identifiers of the generated files: one place says what each thing of a program is called in
C.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError, ProgramError
from tilewright.common.expr import Const, evaluate
from tilewright.ir.nodes import CORE_SYMBOLS, MESH_SYMBOLS, For, Program
from tilewright.ir.visit import walk
from tilewright.machine import Machine
from tilewright.targets.base import BufferInfo, TensorInfo
from tilewright.targets.c_expression import Scope
from tilewright.targets.c_writer import Names, identifier

KERNEL_SUFFIX = "_kernel"
PARAMETERS_SUFFIX = "_parameters"
CHECK_SUFFIX = "_buffers_fit_the_scratchpad"
FILE_SCOPE_SUFFIXES = ("", KERNEL_SUFFIX, PARAMETERS_SUFFIX, CHECK_SUFFIX)
"""Everything that an artifact defines at file scope is its name and one of these."""


@dataclass(frozen=True)
class Naming:
    """A program's names in C: the artifact's, and those of tensors, buffers and loop variables."""

    artifact: str
    tensors: dict[str, str]
    buffers: dict[str, str]
    variables: dict[str, str]

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

    @property
    def guard(self) -> str:
        """The include guard of the artifact's header."""
        return f"TW_{self.artifact.upper()}_H"


def name_program(program: Program) -> Naming:
    """Choose all identifiers; equal programs get equal ones."""
    names = Names()
    artifact = names.of("program", program.name, FILE_SCOPE_SUFFIXES)
    tensors = {t.name: names.of("tensor", t.name) for t in program.tensors}
    buffers = {
        b.name: names.of("buffer", b.name, ("", "_reply", "_issued")) for b in program.buffers
    }
    loops = dict.fromkeys(s.var for s in walk(program.body) if isinstance(s, For))
    variables = {v: names.of("variable", v) for v in loops}
    return Naming(artifact, tensors, buffers, variables)


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


def tensor_infos(program: Program, naming: Naming) -> tuple[TensorInfo, ...]:
    """The tensors that own memory: inputs, then outputs, then scratch, each in program order."""
    order = ("input", "output", "scratch")
    owners = sorted(
        (t for t in program.tensors if not t.storage), key=lambda t: order.index(t.kind)
    )
    return tuple(
        TensorInfo(
            t.name,
            naming.tensors[t.name],
            dtype(t.dtype).name,
            t.kind,
            tuple(int(evaluate(e, {})) for e in t.shape),
        )
        for t in owners
    )


def buffer_infos(program: Program, machine: Machine) -> tuple[BufferInfo, ...]:
    """The buffers with their addresses; raises ProgramError for one without, CapacityError where
    they do not fit.
    """
    infos = []
    for b in program.buffers:
        if b.offset_bytes is None:
            raise ProgramError(
                f"buffer {b.name!r} has no address in the scratchpad",
                fix="run the buffer allocation pass first",
            )
        elements, copies = int(evaluate(b.elements, {})), int(evaluate(b.copies, {}))
        infos.append(BufferInfo(b.name, dtype(b.dtype).name, elements, copies, b.offset_bytes))
    available = machine.spm_available_bytes
    for info in infos:
        if buffer_end(info) > available:
            raise CapacityError(
                f"buffer {info.name!r} ends at byte {buffer_end(info)} of the scratchpad, "
                f"{available} are available to buffers",
                fix="choose smaller tiles or fewer copies",
            )
    return tuple(infos)


def buffer_end(info: BufferInfo) -> int:
    """The first scratchpad byte after the buffer's last slot."""
    size = dtype(info.dtype).size_bytes
    return info.offset_bytes + info.elements * info.copies * size


__all__ = [
    "FILE_SCOPE_SUFFIXES",
    "Naming",
    "buffer_end",
    "buffer_infos",
    "core_scope",
    "identifier",
    "mesh_bindings",
    "name_program",
    "tensor_infos",
]
