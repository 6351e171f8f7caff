"""The identifiers of generated C, chosen in one place.

In: a program. Out: a `Naming`, and the facts about its tensors and buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.codegen.artifact import BufferInfo, TensorInfo
from tilewright.codegen.c.writer import Names
from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError, ProgramError
from tilewright.common.expr import evaluate
from tilewright.ir.nodes import SCRATCHPAD, Buffer, For, Program, memory_words
from tilewright.ir.visit import walk


@dataclass(frozen=True)
class Naming:
    """A program's names in C: the artifact's, and those of tensors, buffers and loop variables."""

    artifact: str
    tensors: dict[str, str]
    buffers: dict[str, str]
    variables: dict[str, str]

    @property
    def guard(self) -> str:
        """The include guard of the artifact's header."""
        return f"TW_{self.artifact.upper()}_H"


def name_program(
    program: Program,
    suffixes: Sequence[str] = ("",),
    buffer_suffixes: Sequence[str] = ("",),
    reserved: frozenset[str] = frozenset(),
) -> Naming:
    """Choose all identifiers, none of them `reserved`; equal programs get equal names.

    The names of the artifact and of buffers stay unique with each suffix appended.
    """
    names = Names(reserved)
    artifact = names.of("program", program.name, tuple(suffixes))
    tensors = {t.name: names.of("tensor", t.name) for t in program.tensors}
    buffers = {b.name: names.of("buffer", b.name, tuple(buffer_suffixes)) for b in program.buffers}
    loops = dict.fromkeys(s.var for s in walk(program.body) if isinstance(s, For))
    variables = {v: names.of("variable", v) for v in loops}
    return Naming(artifact, tensors, buffers, variables)


def tensor_infos(program: Program, naming: Naming) -> tuple[TensorInfo, ...]:
    """Tensors that own memory: inputs, constants, outputs, updated, scratch; each in order."""
    order = ("input", "constant", "output", "updated", "scratch")
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


def buffer_infos(program: Program, available_bytes: Mapping[str, int]) -> tuple[BufferInfo, ...]:
    """The buffers with their addresses. Raises ProgramError for a buffer without an address or in a
    memory that the core lacks, CapacityError if buffers exceed the `available_bytes` of their
    memory.
    """
    infos = tuple(_buffer_info(b) for b in program.buffers)
    for info in infos:
        if info.space not in available_bytes:
            raise ProgramError(
                f"buffer {info.name!r} lies in {memory_words(info.space)}, which the core lacks",
                fix=f"it has: {', '.join(available_bytes)}",
            )
        limit = available_bytes[info.space]
        if buffer_end(info) > limit:
            raise CapacityError(
                f"buffer {info.name!r} ends at byte {buffer_end(info)} of {_the(info.space)}, "
                f"{limit} are available to buffers",
                fix="choose smaller tiles or fewer copies",
            )
    return infos


def _the(space: str) -> str:
    return "the scratchpad" if space == SCRATCHPAD else memory_words(space)


def _buffer_info(b: Buffer) -> BufferInfo:
    if b.offset_bytes is None:
        raise ProgramError(
            f"buffer {b.name!r} has no address in {_the(b.space)}",
            fix="run the buffer allocation pass first",
        )
    elements, copies = int(evaluate(b.elements, {})), int(evaluate(b.copies, {}))
    return BufferInfo(b.name, dtype(b.dtype).name, elements, copies, b.offset_bytes, b.space)


def buffer_end(info: BufferInfo) -> int:
    """Byte offset just past the buffer's last slot."""
    size = dtype(info.dtype).size_bytes
    return info.offset_bytes + info.elements * info.copies * size
