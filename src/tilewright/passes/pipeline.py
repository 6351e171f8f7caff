"""The passes after staging, in order: from staged nests to one program that can be run and emitted.

`make_explicit` binds the factors of the chosen candidate and makes the overlap and the addresses
explicit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from tilewright.common.expr import Expr
from tilewright.ir.nodes import (
    Barrier,
    Buffer,
    Call,
    For,
    Program,
    Stmt,
    Tensor,
    Transfer,
    View,
    Wait,
)
from tilewright.ir.visit import instantiate, rewrite
from tilewright.machine import Machine
from tilewright.passes.allocate_buffers import AllocateBuffers
from tilewright.passes.base import Observer, nothing, run
from tilewright.passes.divide_threads import DivideThreads
from tilewright.passes.double_buffer import DoubleBuffer
from tilewright.passes.lowering import lowering_of
from tilewright.passes.simplify import Simplify

Body = tuple[Stmt, ...]


def make_explicit(
    name: str,
    staged: Sequence[Program],
    bindings: Sequence[Mapping[str, int]],
    machine: Machine,
    tensors: Sequence[Tensor] = (),
    observer: Observer = nothing,
    *,
    together: Sequence[str] = (),
) -> Program:
    """Bind the factors of each nest, overlap, join the nests with barriers between, place the
    buffers.

    `tensors` are those of the operator that the nests know only under other shapes; `bindings`
    gives their extents. Neighbouring nests share their outermost loops that are named in
    `together`.
    """
    mesh = {"mesh_rows": machine.mesh.rows, "mesh_columns": machine.mesh.columns}
    simplify = Simplify((machine.mesh.rows, machine.mesh.columns))
    each_nest = (simplify, DoubleBuffer(), simplify)
    parts = [
        run(each_nest, instantiate(program, {**values, **mesh}), observer)
        for program, values in zip(staged, bindings, strict=True)
    ]
    room = lowering_of(machine).buffer_bytes
    bare = instantiate(Program(name, (), tuple(tensors), (), ()), bindings[0])
    whole = (
        DivideThreads(frozenset(together), machine.thread_count),
        AllocateBuffers(room, {name: machine.space(name).alignment_bytes for name in room}),
    )
    return run(whole, join(name, parts, bare.tensors, together), observer)


def join(
    name: str,
    parts: Sequence[Program],
    extra: Sequence[Tensor] = (),
    together: Sequence[str] = (),
) -> Program:
    """Join programs in sequence; tensors of one name are one tensor. Neighbours that begin with the
    same loop, one of `together`, share it.
    """
    tensors: dict[str, Tensor] = {t.name: t for t in extra}
    buffers: list[Buffer] = []
    bodies: list[Body] = []
    for part in parts:
        renamed = _renamed(part) if len(parts) > 1 else part
        tensors.update({t.name: t for t in renamed.tensors})
        buffers += renamed.buffers
        bodies.append(renamed.body)
    body = _in_turn(bodies, frozenset(together))
    return Program(name, (), tuple(tensors.values()), tuple(buffers), body)


def _in_turn(bodies: Sequence[Body], together: frozenset[str]) -> Body:
    """The bodies in sequence, separated by barriers; neighbours with a common outermost loop share
    it.
    """
    result: list[Stmt] = []
    for loop, group in groupby(bodies, lambda body: _shared_loop(body, together)):
        same = list(group)
        if loop is not None and len(same) > 1:
            insides = [only.body for (only,) in same if isinstance(only, For)]
            same = [(For(*loop, _in_turn(insides, together)),)]
        for body in same:
            result += [*([Barrier()] if result else []), *body]
    return tuple(result)


def _shared_loop(body: Body, together: frozenset[str]) -> tuple[str, Expr] | None:
    """Variable and extent of the loop around the whole body, if it may be shared."""
    match body:
        case (For(var, extent, _),) if var in together:
            return var, extent
        case _:
            return None


def _renamed(part: Program) -> Program:
    """Put the nest's name before its buffers' names."""

    def name(buffer: str) -> str:
        return f"{part.name}_{buffer}"

    def change(stmt: Stmt) -> tuple[Stmt, ...] | None:
        match stmt:
            case Transfer() | Wait():
                return (replace(stmt, buffer=name(stmt.buffer)),)
            case Call(primitive, operands):
                views = tuple(
                    replace(o, buffer=name(o.buffer)) if isinstance(o, View) else o
                    for o in operands
                )
                return (Call(primitive.renamed(name), views),)
            case _:
                return None

    buffers = tuple(replace(b, name=name(b.name)) for b in part.buffers)
    return replace(part, buffers=buffers, body=rewrite(part.body, change))
