"""The passes after staging, in order: from staged nests to one program to run and emit.

`make_explicit` binds the factors of the chosen candidate and makes overlap and addresses explicit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

from tilewright.common.expr import Const, Expr
from tilewright.ir import nodes as ir
from tilewright.ir.threads import loop_chain, occupies, parts_of
from tilewright.ir.visit import instantiate, rewrite, walk
from tilewright.machine import Machine
from tilewright.passes.allocate_buffers import AllocateBuffers
from tilewright.passes.base import Observer, nothing, run
from tilewright.passes.double_buffer import DoubleBuffer
from tilewright.passes.lowering import lowering_of
from tilewright.passes.simplify import Simplify

ALONE = "alone"
"""The variable of the one-iteration loop around statements for a single thread."""


@dataclass(frozen=True)
class DivideThreads:
    """Divides the loops of each nest among `threads` by the rule of `ir.threads`; several nests may
    share the loops named in `together`. Statements outside divided loops run on one thread, as the
    only iteration of a divided loop.

    before: for row in range(28): gemm(...)
    after:  for row in range(28, threads=2): gemm(...)
    """

    name: ClassVar[str] = "divide_threads"
    together: frozenset[str]
    threads: int

    def apply(self, program: ir.Program) -> ir.Program:
        """The program with its loops divided among the threads."""
        if self.threads == 1:
            return program
        return replace(program, body=_body(program.body, self.together, self.threads))


def _body(
    body: tuple[ir.Stmt, ...], together: Collection[str], threads: int
) -> tuple[ir.Stmt, ...]:
    """Divide each nest by itself; barriers separate nests."""
    result: list[ir.Stmt] = []
    nest: list[ir.Stmt] = []
    for stmt in (*body, ir.Barrier()):
        if isinstance(stmt, ir.Barrier):
            result += [*_nest(tuple(nest), together, threads), stmt]
            nest = []
        else:
            nest.append(stmt)
    return tuple(result[:-1])


def _nest(
    body: tuple[ir.Stmt, ...], together: Collection[str], threads: int
) -> tuple[ir.Stmt, ...]:
    match body:
        case (ir.For(var, Const(count)) as loop,) if var in together:
            if occupies(count, threads):
                return (replace(loop, threads=threads),)
            if any(isinstance(stmt, ir.Barrier) for stmt in walk(loop.body)):
                return (replace(loop, body=_body(loop.body, together, threads)),)
            return (replace(loop, body=_nest(loop.body, together, threads)),)
    chain = loop_chain(body)
    counts = [loop.extent.value if isinstance(loop.extent, Const) else 1 for loop, _ in chain]
    parts = parts_of(counts, [divisible for _, divisible in chain], 0, threads)
    divided = {loop.var: int(p) for (loop, _), p in zip(chain, parts, strict=True) if p > 1}
    if not divided:
        return (ir.For(ALONE, Const(1), body, threads),) if body else ()
    return _marked(body, divided)


def _marked(body: tuple[ir.Stmt, ...], divided: dict[str, int]) -> tuple[ir.Stmt, ...]:
    """The body with loops marked as `divided`, which maps a variable to the number of parts."""
    return tuple(
        replace(s, threads=divided.get(s.var, 1), body=_marked(s.body, divided))
        if isinstance(s, ir.For)
        else s
        for s in body
    )


Body = tuple[ir.Stmt, ...]


def make_explicit(
    name: str,
    staged: Sequence[ir.Program],
    bindings: Sequence[Mapping[str, int]],
    machine: Machine,
    tensors: Sequence[ir.Tensor] = (),
    observer: Observer = nothing,
    *,
    together: Sequence[str] = (),
) -> ir.Program:
    """Bind each nest's factors, overlap transfers, join the nests with barriers, divide loops among
    threads and place the buffers.

    `tensors` are the operator's tensors that nests use only under other shapes; `bindings` binds
    extents and factors, nest by nest. Neighbouring nests share outermost loops named in `together`.
    """
    mesh = {"mesh_rows": machine.mesh.rows, "mesh_columns": machine.mesh.columns}
    simplify = Simplify((machine.mesh.rows, machine.mesh.columns))
    each_nest = (simplify, DoubleBuffer(late=machine.has_window), simplify)
    parts = [
        run(each_nest, instantiate(program, {**values, **mesh}), observer)
        for program, values in zip(staged, bindings, strict=True)
    ]
    room = lowering_of(machine).buffer_bytes
    bare = instantiate(ir.Program(name, (), tuple(tensors), (), ()), bindings[0])
    whole = (
        DivideThreads(frozenset(together), machine.thread_count),
        AllocateBuffers(room, {name: machine.space(name).alignment_bytes for name in room}),
    )
    return run(whole, join(name, parts, bare.tensors, together), observer)


def join(
    name: str,
    parts: Sequence[ir.Program],
    extra: Sequence[ir.Tensor] = (),
    together: Sequence[str] = (),
) -> ir.Program:
    """Join programs in sequence; tensors of equal name are one tensor. Neighbours with the same
    outermost loop share it if `together` names it.
    """
    tensors: dict[str, ir.Tensor] = {t.name: t for t in extra}
    buffers: list[ir.Buffer] = []
    bodies: list[Body] = []
    for part in parts:
        renamed = _renamed(part) if len(parts) > 1 else part
        tensors.update({t.name: t for t in renamed.tensors})
        buffers += renamed.buffers
        bodies.append(renamed.body)
    body = _in_turn(bodies, frozenset(together))
    return ir.Program(name, (), tuple(tensors.values()), tuple(buffers), body)


def _in_turn(bodies: Sequence[Body], together: frozenset[str]) -> Body:
    """The bodies in sequence, separated by barriers; neighbours share a common outermost loop."""
    result: list[ir.Stmt] = []
    for loop, group in groupby(bodies, lambda body: _shared_loop(body, together)):
        same = list(group)
        if loop is not None:
            insides = [only.body for (only,) in same if isinstance(only, ir.For)]
            same = [(ir.For(*loop, _in_turn(insides, together)),)]
        for body in same:
            result += [*([ir.Barrier()] if result else []), *body]
    return tuple(result)


def _shared_loop(body: Body, together: frozenset[str]) -> tuple[str, Expr] | None:
    """Variable and extent of the loop around the whole body; None if it may not be shared."""
    match body:
        case (ir.For(var, extent, _),) if var in together:
            return var, extent
        case _:
            return None


def _renamed(part: ir.Program) -> ir.Program:
    """Prefix the names of a nest's buffers with its own name."""

    def name(buffer: str) -> str:
        return f"{part.name}_{buffer}"

    def change(stmt: ir.Stmt) -> tuple[ir.Stmt, ...] | None:
        match stmt:
            case ir.Transfer() | ir.Wait():
                return (replace(stmt, buffer=name(stmt.buffer)),)
            case ir.Call(primitive, operands):
                views = tuple(
                    replace(o, buffer=name(o.buffer)) if isinstance(o, ir.View) else o
                    for o in operands
                )
                return (ir.Call(primitive.renamed(name), views),)
            case _:
                return None

    buffers = tuple(replace(b, name=name(b.name)) for b in part.buffers)
    return replace(part, buffers=buffers, body=rewrite(part.body, change))
