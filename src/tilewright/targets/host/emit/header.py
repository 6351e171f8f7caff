"""The header of one kernel: its entry point, the functions that pack constants, the workspace."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.codegen.artifact import TensorInfo
from tilewright.codegen.c.names import Naming
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.targets.host.emit.threads import THREAD, THREADS

PACKED = "packed"
"""Name of the parameter that a packing function writes to."""


@dataclass(frozen=True)
class Workspace:
    """Memory that a kernel's caller provides: for each of the `threads` its own buffers and scratch
    tensors, `own_bytes` in all, then the scratch tensors that threads share.

    `scratch` has (tensor, offset in a thread's own part), `shared` (tensor, offset in the whole);
    `size_bytes` includes room to align the start.
    """

    size_bytes: int
    alignment_bytes: int
    scratch: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[str, int], ...] = ()
    own_bytes: int = 0
    threads: int = 1


def stored_shape(info: TensorInfo) -> tuple[int, ...]:
    """Shape in which a kernel reads an operand: of its panels, or of the tensor made from it."""
    if info.made is not None:
        return stored_shape(info.made)
    if info.panels is None:
        return info.shape
    panels, across, depth = info.panels, info.panels.across, info.panels.depth
    outside = [e for d, e in enumerate(info.shape) if d not in (across, depth)]
    block = panels.block or info.shape[depth]
    blocks = -(-info.shape[depth] // block)
    if panels.together > 1:
        outside.append(panels.together)
    return (-(-info.shape[across] // panels.columns), blocks, *outside, block, panels.width)


def stored_elements(info: TensorInfo) -> int:
    """Elements of an operand in the form that the kernel reads."""
    return prod(stored_shape(info))


def host_header(
    naming: Naming, tensors: tuple[TensorInfo, ...], workspace: Workspace, compiled_with: str
) -> str:
    """The text of `<name>.h`."""
    writer = CWriter()
    writer.comment(f"{naming.artifact}.h: the entry point of one kernel. Generated.")
    writer.comment(f"{compiled_with}")
    with writer.header(naming.guard, (info.dtype for info in tensors)):
        public = [info for info in tensors if info.kind != "scratch"]
        for info in public:
            shape = " x ".join(map(str, stored_shape(info))) or "1"
            packed = f", packed by {pack_name(naming.artifact, info)}" if info.is_packed else ""
            writer.comment(
                f"{info.kind} {info.identifier}: {shape} {info.dtype}, row-major{packed}"
            )
        for info in public:
            if info.is_packed:
                shape = " x ".join(map(str, info.shape))
                form = "into its panels" if info.panels else "into that form"
                writer.comment(f"{info.identifier}: {shape} {info.dtype}, row-major, {form}")
                _declare(writer, *pack_prototype(naming, info))
        writer.comment("Bytes of `workspace`, which the kernel overwrites.")
        writer.line(f"#define {naming.guard[:-2]}_WORKSPACE_BYTES {workspace.size_bytes}UL")
        name, parameters = prototype(naming, tensors)
        _declare(writer, name, parameters)
        if workspace.threads > 1:
            writer.comment(
                f"The same for each of up to {workspace.threads} threads, by its number."
            )
            _declare(writer, f"{name}_thread", [*parameters, *thread_parameters()])
    return writer.text()


def prototype(naming: Naming, tensors: tuple[TensorInfo, ...]) -> tuple[str, list[str]]:
    """(return type and name, parameters) of the entry point."""
    public = [_parameter(info) for info in tensors if info.kind != "scratch"]
    return f"void {naming.artifact}", [*public, "void *workspace"]


def thread_parameters() -> list[str]:
    """Last C parameters of a thread's function: its number and the number of threads."""
    return [f"long {THREAD}", f"long {THREADS}"]


def pack_prototype(naming: Naming, info: TensorInfo) -> tuple[str, list[str]]:
    """(return type and name, parameters) of the function that packs one constant."""
    return f"void {pack_name(naming.artifact, info)}", [
        _parameter(info),
        f"{dtype(info.dtype).c_name} *{PACKED}",
    ]


def pack_name(kernel: str, info: TensorInfo) -> str:
    """Name of the function that packs one of a kernel's constants."""
    return f"{kernel}_pack_{info.identifier}"


def _parameter(info: TensorInfo) -> str:
    const = "const " if info.is_given else ""
    return f"{const}{dtype(info.dtype).c_name} *{info.identifier}"


def _declare(writer: CWriter, function: str, parameters: list[str]) -> None:
    writer.call(function, parameters)
