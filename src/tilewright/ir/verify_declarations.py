"""Verification of parameters, tensors and buffers, which comes before that of statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.common.dtypes import KNOWN_NAMES, dtype_or_none
from tilewright.common.dtypes import dtype as dtype_called
from tilewright.common.errors import CapacityError, ProgramError
from tilewright.common.expr import Const, Expr, free_vars, product
from tilewright.ir.names import check_name
from tilewright.ir.nodes import (
    CORE_SYMBOLS,
    MESH_SYMBOLS,
    SCRATCHPAD,
    Barrier,
    Buffer,
    Call,
    Program,
    Stmt,
    Tensor,
    Transfer,
    View,
    Wait,
    memory_words,
)
from tilewright.ir.visit import walk


def check_declarations(program: Program, *, part: bool) -> None:
    """Names, element types, extents, shared storage and addresses; raises ProgramError.

    The owner of a storage may be missing from a `part` of a larger program.
    """
    check_name("program", program.name)
    _check_names(program)
    for tensor in program.tensors:
        _check_tensor(tensor, program)
        if tensor.storage and (_declared(tensor.storage, program) or not part):
            _check_storage(tensor, program)
    for buffer in program.buffers:
        _check_buffer(buffer, program)
    _check_offsets(program)


def check_capacity(program: Program, capacity_bytes: Mapping[str, int]) -> None:
    """Buffers that are alive together fit each memory; raises CapacityError naming the first that
    does not.

    Top-level barriers separate parts whose buffers may share addresses. Buffers whose size is still
    an expression are not counted.
    """
    for alive in _alive_together(program):
        end_bytes = 0
        for buffer in alive:
            limit = capacity_bytes.get(buffer.space, 0)
            size_bytes = _size_bytes(buffer) or 0
            start_bytes = end_bytes if buffer.offset_bytes is None else buffer.offset_bytes
            end_bytes = start_bytes + size_bytes
            if end_bytes > limit:
                place = "" if buffer.space == SCRATCHPAD else f" of {memory_words(buffer.space)}"
                raise CapacityError(
                    f"buffer {buffer.name!r} of {size_bytes} bytes ends at byte "
                    f"{end_bytes}{place}, the limit is {limit}",
                    where=program.name,
                    fix=f"free {end_bytes - limit} bytes: smaller tiles or fewer copies",
                )


def _check_names(program: Program) -> None:
    named = [("parameter", p) for p in program.parameters]
    named += [("tensor", t.name) for t in program.tensors]
    named += [("buffer", b.name) for b in program.buffers]
    seen: dict[str, str] = {}
    for what, name in named:
        check_name(what, name, where=program.name)
        if name in (*CORE_SYMBOLS, *MESH_SYMBOLS):
            raise _error(program, f"{what} {name!r} has the name of a symbol of the mesh")
        if name in seen:
            message = f"{what} {name!r} has the name of a {seen[name]}"
            raise _error(program, message, "give each its own name")
        seen[name] = what


def _check_tensor(tensor: Tensor, program: Program) -> None:
    what = f"tensor {tensor.name!r}"
    _check_dtype(tensor.dtype, what, program)
    if len(tensor.dims) != len(tensor.shape):
        message = f"{what} has {len(tensor.dims)} dimension names and {len(tensor.shape)} extents"
        raise _error(program, message, "give each dimension one name and one extent")
    for dim, extent in zip(tensor.dims, tensor.shape, strict=True):
        check_name("dimension", dim, where=program.name)
        if tensor.dims.count(dim) > 1:
            raise _error(program, f"{what} has two dimensions {dim!r}")
        _check_size(extent, f"dimension {dim!r} of {what}", program)


def _declared(name: str, program: Program) -> bool:
    return any(t.name == name for t in program.tensors)


def _check_storage(tensor: Tensor, program: Program) -> None:
    what = f"tensor {tensor.name!r}"
    owner = next((t for t in program.tensors if t.name == tensor.storage), None)
    if owner is None or owner.storage:
        message = f"{what} shares the storage of {tensor.storage!r}, which owns none"
        raise _error(program, message, "name a tensor that is declared without storage")
    if owner.dtype != tensor.dtype:
        message = f"{what} of {tensor.dtype} shares the storage of {owner.name!r} of {owner.dtype}"
        raise _error(program, message, "give both the same element type")
    mine, other = product(tensor.shape), product(owner.shape)
    if isinstance(mine, Const) and isinstance(other, Const) and mine != other:
        message = f"{what} of {mine} elements shares the storage of {owner.name!r} of {other}"
        raise _error(program, message, "give both the same number of elements")


def _check_buffer(buffer: Buffer, program: Program) -> None:
    what = f"buffer {buffer.name!r}"
    _check_dtype(buffer.dtype, what, program)
    _check_size(buffer.elements, f"slot of {what}", program)
    _check_size(buffer.copies, f"number of copies of {what}", program)


def _check_dtype(name: str, what: str, program: Program) -> None:
    if dtype_or_none(name) is None:
        raise _error(
            program, f"{what} has the unknown element type {name!r}", f"use one of {KNOWN_NAMES}"
        )


def _check_size(size: Expr, what: str, program: Program) -> None:
    known = (*program.parameters, *MESH_SYMBOLS)
    for name in sorted(free_vars(size)):
        if name not in known:
            fix = f"declarations may use {', '.join(known)}"
            raise _error(program, f"the {what} is {size}, but {name!r} is not a parameter", fix)
    if isinstance(size, Const) and size.value < 1:
        raise _error(program, f"the {what} is {size}", "it must be at least 1")


def _check_offsets(program: Program) -> None:
    placed = [b.name for b in program.buffers if b.offset_bytes is not None]
    missing = [b.name for b in program.buffers if b.offset_bytes is None]
    if placed and missing:
        message = f"buffer {placed[0]!r} has an address and buffer {missing[0]!r} has none"
        raise _error(program, message, "place all buffers or none")
    for b in program.buffers:
        if b.offset_bytes is not None and b.offset_bytes < 0:
            raise _error(program, f"buffer {b.name!r} has the address {b.offset_bytes}")
    if placed:
        for alive in _alive_together(program):
            _check_overlap(alive, program)


def _check_overlap(alive: list[Buffer], program: Program) -> None:
    end_bytes, last = 0, ""
    for b in sorted(alive, key=lambda b: b.offset_bytes or 0):
        start_bytes = b.offset_bytes or 0
        if start_bytes < end_bytes:
            message = (
                f"buffer {b.name!r} starts at byte {start_bytes}, "
                f"buffer {last!r} ends at byte {end_bytes}"
            )
            raise _error(program, message, "buffers used in one part must not overlap")
        end_bytes, last = start_bytes + (_size_bytes(b) or 0), b.name


def _alive_together(program: Program) -> Iterator[list[Buffer]]:
    """The buffers of one memory that each part between top-level barriers uses, in order of
    declaration.
    """
    used: set[str] = set()
    for stmt in (*program.body, Barrier()):
        if isinstance(stmt, Barrier):
            alive = [b for b in program.buffers if b.name in used]
            for space in dict.fromkeys(b.space for b in alive):
                yield [b for b in alive if b.space == space]
            used = set()
        else:
            used.update(name for s in walk((stmt,)) for name in _buffers_of(s))


def _buffers_of(stmt: Stmt) -> list[str]:
    match stmt:
        case Transfer() | Wait():
            return [stmt.buffer]
        case Call(_, operands):
            return [o.buffer for o in operands if isinstance(o, View)]
        case _:
            return []


def _size_bytes(buffer: Buffer) -> int | None:
    """Bytes of all copies, or None while they depend on parameters."""
    match buffer.elements * buffer.copies:
        case Const(elements):
            return elements * dtype_called(buffer.dtype).size_bytes
        case _:
            return None


def _error(program: Program, message: str, fix: str = "") -> ProgramError:
    return ProgramError(message, where=program.name, fix=fix)
