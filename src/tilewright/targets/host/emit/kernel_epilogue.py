"""The epilogue of a whole kernel: operations on complete sums before they are stored.

In: an explicit program and a `KernelEpilogue`. Out: the program with the epilogue's operands as
inputs and its result inside a border of pixels; for each call that writes the result, where its
part of bias and residual begins and when its sums are complete. Products apply the epilogue to sums
in registers, Winograd's transform to the pixels that it writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, Var, all_of, binary, free_vars, product
from tilewright.ir.chains import Chain, memory_of, with_chains
from tilewright.ir.matrix import Matrix, Runs, as_view
from tilewright.ir.nodes import (
    Call,
    For,
    If,
    Operand,
    Program,
    Range,
    Stmt,
    Tensor,
    Tile,
    Transfer,
)
from tilewright.ir.primitives import Fill, MatrixProduct, WindowSums, WinogradOutput
from tilewright.ir.visit import calls_of, rewrite, walk
from tilewright.machine import Machine
from tilewright.targets.host.sections import Caches
from tilewright.targets.host.vectors.epilogue import PLAIN_SUMS, Bias, Finish, Residual, names

WRITE_SUMS = (MatrixProduct, WindowSums, WinogradOutput)
"""Primitives that write complete sums."""


class Border(NamedTuple):
    """Pixels around an image, and channels `behind` its own, that the kernel does not write."""

    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0
    behind: int = 0


NO_BORDER = Border()


@dataclass(frozen=True)
class KernelEpilogue:
    """A `finish` of the sums, with biases along the result's channels and residuals of the result's
    form; the result lies inside a `border`.
    """

    finish: Finish = PLAIN_SUMS
    border: Border = NO_BORDER


PLAIN = KernelEpilogue()
"""No epilogue: sums are stored as they are."""


def kernel_with_epilogue(program: Program, epilogue: KernelEpilogue) -> Program:
    """The program with an input for each operand of the epilogue, its result inside the border.

    Raises ProgramError if the epilogue cannot be fused (`can_fuse`).
    """
    if epilogue == PLAIN:
        return program
    if not can_fuse(program, epilogue):
        raise ProgramError(
            f"program {program.name!r} does not write its result by products or transforms in "
            "place, so nothing can be done to it on the way"
        )
    plain, program = result_of(program), _bordered(program, epilogue.border)
    y = result_of(program)
    taken = {Bias: (y.dims[-1:], (_channels(plain),)), Residual: (y.dims, y.shape)}
    more = [
        Tensor(name, y.dtype, "input", *taken[type(beside)])
        for name, beside in names(epilogue.finish)
    ]
    return replace(program, tensors=(*program.tensors, *more))


def result_of(program: Program) -> Tensor:
    """The tensor that the program computes."""
    return next(t for t in program.tensors if t.kind == "output" and not t.storage)


def writes_result(call: Call, program: Program) -> bool:
    """True if a call writes to the memory of the program's result."""
    return _owner(call.operands[0], program) == result_of(program).name


def can_fuse(program: Program, epilogue: KernelEpilogue) -> bool:
    """True if the epilogue can be fused: every statement that writes the result has complete sums
    in registers, writes each element once with channels contiguous, and can skip the border. A
    residual excludes channels behind.
    """
    y = result_of(program)
    if epilogue.border != NO_BORDER and not {"rows", "cols", "channels"} <= set(y.dims):
        return False
    if epilogue.border.behind and Residual() in epilogue.finish.beside:
        return False
    for stmt in walk(program.body):
        match stmt:
            case Transfer(_, tensor) if program.tensor(tensor).memory == y.name:
                return False
            case Call(primitive, (first, *others)):
                if y.name in (_owner(o, program) for o in others):
                    return False
                if _owner(first, program) != y.name or isinstance(primitive, Fill):
                    continue
                if not isinstance(primitive, WRITE_SUMS) or not _by_channels(first, program):
                    return False
                if epilogue.border != NO_BORDER and not _around(first, program):
                    return False
            case _:
                pass
    if epilogue.border != NO_BORDER:
        filled = (_owner(o, program) for o in _fills(program.body) if memory_of(o) != y.name)
        if y.name in filled or not _walkable(_bordered(program, epilogue.border)):
            return False
    return _written_once(program.body, y.name, program)


def fusing_pays(program: Program, epilogue: KernelEpilogue, machine: Machine) -> bool:
    """True if fusing is faster than a separate pass. Fusing a residual does not pay where the
    channels of a pixel are a multiple of a page: read column by column it costs as much as the
    pass, even with its lines prefetched and in other cache sets than the result's, and the pass
    leaves its result in the level 2 cache for the next stage.
    """
    caches, y = machine.find_section(Caches), result_of(program)
    if caches is None or Residual() not in epilogue.finish.beside:
        return True
    row = product((y.shape[-1], Const(dtype(y.dtype).size_bytes)))
    return binary("%", row, caches.pages.page_bytes) != Const(0)


def _walkable(program: Program) -> bool:
    """True if products can still write the result: with borders between them, several rows of an
    image no longer form a matrix.
    """
    y = result_of(program).name
    for call, multiply in calls_of(program.body, MatrixProduct):
        try:
            if _owner(call.operands[0], program) == y:
                multiply.matrices(call.operands, program, runs=True)
        except ProgramError:
            return False
    return True


def _around(operand: Operand, program: Program) -> bool:
    """True if writes to an operand can skip the border: it is part of the result itself, or of a
    tensor that lists all pixels of the only image consecutively.
    """
    y, name = result_of(program), memory_of(operand)
    one = y.dims == ("group", "batch", "rows", "cols", "channels") and y.shape[1] == Const(1)
    pixels = program.tensor(name).dims == ("group", "pixels", "channels")
    return name == y.name or (one and pixels)


def _fills(body: tuple[Stmt, ...]) -> Iterator[Operand]:
    """Operands of fills that no chain of products absorbs."""
    for stmt in with_chains(body):
        match stmt:
            case Call(Fill(), (operand,)):
                yield operand
            case For(_, _, inner):
                yield from _fills(inner)
            case If(_, then, orelse):
                yield from _fills(then)
                yield from _fills(orelse)
            case _:
                pass


def form_inside(operand: Tile, form: Matrix, program: Program, border: Border) -> Matrix:
    """The form of a product's C inside the border. A border around the image splits consecutive
    pixels into runs, one per row; channels behind only spread them.
    """
    view = program.tensor(operand.tensor)
    if border == NO_BORDER or "pixels" not in view.dims:
        return form
    y = result_of(program)
    columns, channels = y.shape[-2] - border.left - border.right, y.shape[-1]
    row = y.shape[-2] * channels
    group, pixel, channel = (operand.ranges[view.dims.index(d)].start for d in view.dims)
    offset = group * product(y.shape[1:]) + border.top * row + border.left * channels + channel
    if border == Border(behind=border.behind):
        return Matrix(offset + pixel * channels, channels, form.order)
    column = binary("%", pixel, columns)
    offset = offset + binary("//", pixel, columns) * row + column * channels
    return Matrix(offset, channels, form.order, Runs(columns, row, column))


def _by_channels(operand: Operand, program: Program) -> bool:
    """True if the last dimension is the channels (of one group, or one of each) and has a role in
    the primitive.
    """
    tensor = program.tensor(memory_of(operand))
    channels = "channels" if "channels" in tensor.dims else "cols"
    each = tensor.dims[-2:] == ("channels", "group") and tensor.shape[-2] == Const(1)
    return (each or tensor.dims[-1] == channels) and operand.roles[-1] != "."


def arguments_of(
    operand: Operand, finish: Finish, program: Program, place: Expr
) -> tuple[tuple[str, Expr], ...]:
    """(tensor, offset in elements) of each epilogue operand of the call that writes `operand` from
    `place` on.
    """
    view = as_view(operand, program)
    dims = program.tensor(view.buffer).dims
    channel = view.ranges[-1].start
    if "group" in dims[:-1]:
        channel = channel + view.ranges[dims.index("group")].start * view.shape[-1]
    at = {Bias: channel, Residual: place}
    return tuple((name, at[type(beside)]) for name, beside in names(finish))


def is_last(chain: Chain, program: Program) -> Expr:
    """Nonzero where the chain completes its sums: in the last turn of all loops that return to its
    C.
    """
    c = chain.call.operands[0]
    kept = frozenset[str]().union(*(free_vars(r.start) for r in c.ranges))
    own = {f.var for f in chain.loops}
    loops = [f for f in _loops_around(program.body, chain.call) if f.var not in kept | own]
    return all_of(binary("==", Var(f.var), f.extent - 1) for f in loops)


def _loops_around(body: tuple[Stmt, ...], call: Call) -> tuple[For, ...]:
    """The loops around a call, outermost first."""
    for stmt in body:
        if not any(inner is call for inner in walk((stmt,))):
            continue
        match stmt:
            case For():
                return (stmt, *_loops_around(stmt.body, call))
            case If(_, then, orelse):
                return _loops_around(then, call) or _loops_around(orelse, call)
            case _:
                return ()
    return ()


def _owner(operand: Operand, program: Program) -> str:
    """Name of the tensor whose memory holds an operand in place; empty for one in a buffer."""
    return program.tensor(operand.tensor).memory if isinstance(operand, Tile) else ""


def _written_once(body: tuple[Stmt, ...], name: str, program: Program) -> bool:
    """True if a single statement writes the tensor at every level of the nest; of several, the
    earlier ones would leave incomplete sums.
    """
    writers = [
        stmt
        for stmt in body
        if any(
            isinstance(s, Call)
            and isinstance(s.primitive, WRITE_SUMS)
            and _owner(s.operands[0], program) == name
            for s in walk((stmt,))
        )
    ]
    if len(writers) != 1:
        return False
    match writers[0]:
        case For(_, _, inner):
            return _written_once(inner, name, program)
        case If(_, then, orelse):
            return all(_written_once(part, name, program) for part in (then, orelse) if part)
        case _:
            return True


def _channels(y: Tensor) -> Expr:
    pairs = list(zip(y.dims, y.shape, strict=True))
    return product((*(e for d, e in pairs[:-1] if d == "group"), y.shape[-1]))


def _bordered(program: Program, border: Border) -> Program:
    """The program with its result inside a larger image, its channels first in each pixel."""
    if border == NO_BORDER:
        return program
    y = result_of(program)
    before = {"rows": border.top, "cols": border.left}
    around = {"rows": border.top + border.bottom, "cols": border.left + border.right}
    around[y.dims[-1]] = border.behind
    shape = tuple(e + around.get(d, 0) for d, e in zip(y.dims, y.shape, strict=True))
    starts = [before.get(d, 0) for d in y.dims]

    def moved(operand: Operand) -> Operand:
        if not (isinstance(operand, Tile) and operand.tensor == y.name):
            return operand
        pairs = zip(operand.ranges, starts, strict=True)
        ranges = tuple(Range(r.start + start, r.extent, r.step) for r, start in pairs)
        return replace(operand, ranges=ranges)

    def inside(stmt: Stmt) -> tuple[Stmt, ...] | None:
        if isinstance(stmt, Call):
            return (replace(stmt, operands=tuple(map(moved, stmt.operands))),)
        return None

    tensors = tuple(replace(t, shape=shape) if t.name == y.name else t for t in program.tensors)
    return replace(program, tensors=tensors, body=rewrite(program.body, inside))
