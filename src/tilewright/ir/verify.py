"""The rules of a program's stage, checked after each pass in tests and before anything runs.

In: a program and the stage it claims to be in. Out: nothing, or ProgramError naming the way to the
first statement that breaks a rule, the rule and the way out. What only the values of parameters
decide is left to the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from tilewright.common.expr import Const, Expr
from tilewright.ir.names import check_name
from tilewright.ir.nodes import (
    CORE_SYMBOLS,
    MESH_SYMBOLS,
    Barrier,
    Call,
    For,
    If,
    Program,
    Stmt,
    Tile,
    Transfer,
    Wait,
)
from tilewright.ir.place import Place, Stage
from tilewright.ir.verify_calls import check_call, check_fits, check_rank, check_slot
from tilewright.ir.verify_declarations import check_capacity, check_declarations
from tilewright.ir.visit import expressions, walk

__all__ = ["Stage", "verify"]

MOST_ITERATIONS = 2**31 - 1
"""Limit of one loop's iterations, which simulators can count through."""


def verify(
    program: Program,
    stage: Stage,
    *,
    capacity_bytes: Mapping[str, int] | None = None,
    part: bool = False,
    in_place: bool = False,
) -> None:
    """Check every rule of the stage.

    A `part` is one nest of several: what owns the storage of its tensors may stand in another.
    `in_place`: cores address main memory, so calls may work on tensors where they lie.
    Raises ProgramError for a broken rule, and CapacityError for buffers beyond the `capacity_bytes`
    of each of a core's memories.

    >>> from tilewright.ir.parser import parse
    >>> verify(parse("def p(n):\\n    for i in range(m):\\n        barrier()"), "seed")
    Traceback (most recent call last):
        ...
    tilewright.common.errors.ProgramError: p > for i in range(m): symbol 'm' is not defined here; \
known: n, rid, cid, mesh_rows, mesh_columns
    """
    check_declarations(program, part=part)
    tensors = {t.name: t for t in program.tensors}
    buffers = {b.name: b for b in program.buffers}
    place = Place(program, stage, tensors, buffers, in_place=in_place)
    _check_body(program.body, place)
    _check_waited(place)
    _check_outputs(place)
    if capacity_bytes is not None:
        check_capacity(program, capacity_bytes)


def _check_body(body: tuple[Stmt, ...], place: Place) -> None:
    for i, stmt in enumerate(body):
        here = place.at(stmt)
        for e in expressions(stmt):
            here.check_symbols(e)
        if isinstance(stmt, Transfer) and place.stage == "staged":
            _check_followed(stmt, body[i + 1 : i + 2], here)
        _check_statement(stmt, here)


def _check_statement(stmt: Stmt, place: Place) -> None:
    match stmt:
        case For(var, extent, body):
            _check_loop_variable(var, place)
            place.check_uniform("extent", extent)
            _check_extent(extent, place)
            _check_body(body, place.inside(stmt))
        case If(condition, then, orelse):
            place.check_uniform("condition", condition)
            _check_body(then, place.inside(stmt))
            _check_body(orelse, place.inside(stmt, orelse=True))
        case Transfer():
            _check_no_seed(place)
            _check_transfer(stmt, place)
        case Wait(buffer, slot):
            _check_no_seed(place)
            check_slot(buffer, slot, place)
        case Call():
            check_call(stmt, place)
            if stmt.operands and isinstance(stmt.operands[0], Tile):
                _check_writable(stmt.operands[0].tensor, place)
        case Barrier():
            pass
        case _:
            assert_never(stmt)


def _check_extent(extent: Expr, place: Place) -> None:
    if isinstance(extent, Const) and extent.value > MOST_ITERATIONS:
        raise place.error(f"a loop runs at most {MOST_ITERATIONS} times")


def _check_loop_variable(var: str, place: Place) -> None:
    check_name("loop variable", var)
    taken = {
        **dict.fromkeys((*CORE_SYMBOLS, *MESH_SYMBOLS), "symbol of the mesh"),
        **dict.fromkeys(place.program.parameters, "parameter"),
        **dict.fromkeys(place.tensors, "tensor"),
        **dict.fromkeys(place.buffers, "buffer"),
        **dict.fromkeys(place.loops, "loop around it"),
    }
    if var in taken:
        message = f"loop variable {var!r} has the name of a {taken[var]}"
        raise place.error(message, "give each its own name")


def _check_no_seed(place: Place) -> None:
    if place.stage == "seed":
        message = "the seed stage has no transfers and no waits"
        raise place.error(message, "calls work on tiles; transfers are inferred later")


def _check_transfer(stmt: Transfer, place: Place) -> None:
    tensor, buffer = place.tensor(stmt.tensor), place.buffer(stmt.buffer)
    check_rank(tensor, stmt.ranges, place)
    check_slot(stmt.buffer, stmt.slot, place)
    check_fits(stmt.buffer, tuple(r.extent for r in stmt.ranges), place)
    if tensor.dtype != buffer.dtype:
        raise place.error(
            f"tensor {tensor.name!r} of {tensor.dtype} moves to or from "
            f"buffer {buffer.name!r} of {buffer.dtype}",
            "a transfer does not convert: give both the same element type",
        )
    if stmt.direction == "put":
        _check_writable(stmt.tensor, place)


def _check_writable(name: str, place: Place) -> None:
    tensor = place.tensor(name)
    owner = place.tensors.get(tensor.memory, tensor)
    if tensor.is_given or owner.is_given:
        raise place.error(f"tensor {name!r} is an input and cannot be written")


def _check_followed(stmt: Transfer, following: tuple[Stmt, ...], place: Place) -> None:
    wait = Wait(stmt.buffer, stmt.slot)
    if following != (wait,):
        message = "in the staged stage a transfer is followed by its wait"
        raise place.error(message, f"put wait({stmt.buffer}[{stmt.slot}]) after it")


def _check_waited(place: Place) -> None:
    """Raise unless every buffer that a transfer touches is waited for somewhere."""
    statements = list(walk(place.program.body))
    waited = {s.buffer for s in statements if isinstance(s, Wait)}
    for stmt in statements:
        if isinstance(stmt, Transfer) and stmt.buffer not in waited:
            message = f"buffer {stmt.buffer!r} is never waited for"
            raise place.at(stmt).error(message, f"add wait({stmt.buffer}[{stmt.slot}])")


def _check_outputs(place: Place) -> None:
    written = {place.tensor(name).memory for name in _written(place)}
    for tensor in place.program.tensors:
        if tensor.is_result and tensor.memory not in written:
            way = "a call" if place.stage == "seed" else "a put"
            message = f"output {tensor.name!r} is never written"
            raise place.error(message, f"every output needs {way} that writes it")


def _written(place: Place) -> Iterator[str]:
    for stmt in walk(place.program.body):
        match stmt:
            case Transfer("put", tensor):
                yield tensor
            case Call(_, (Tile(tensor), *_)):
                yield tensor
            case _:
                pass
