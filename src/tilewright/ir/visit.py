"""Walks and rewrites over IR trees, shared by passes, the verifier and the printers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar, assert_never

from tilewright.common.expr import (
    Const,
    Expr,
    IntLike,
    Var,
    all_of,
    binary,
    free_vars,
    substitution,
)
from tilewright.ir import nodes as ir
from tilewright.ir.primitive import Primitive

P = TypeVar("P", bound=Primitive)
ExprMap = Callable[[Expr], Expr]
Rewrite = Callable[[ir.Stmt], tuple[ir.Stmt, ...] | None]


def map_range(r: ir.Range, f: ExprMap) -> ir.Range:
    """Apply `f` to every expression of a range."""
    return ir.Range(f(r.start), f(r.extent), f(r.step), None if r.stop is None else f(r.stop))


def map_operand(operand: ir.Operand, f: ExprMap) -> ir.Operand:
    """Apply `f` to every expression of an operand."""
    ranges = tuple(map_range(r, f) for r in operand.ranges)
    match operand:
        case ir.Tile():
            return replace(operand, ranges=ranges)
        case ir.View():
            shape = tuple(f(e) for e in operand.shape)
            return replace(operand, ranges=ranges, slot=f(operand.slot), shape=shape)
        case _:
            assert_never(operand)


def map_stmt(stmt: ir.Stmt, f: ExprMap) -> ir.Stmt:
    """Apply `f` to every expression of a statement and of the statements inside it."""
    match stmt:
        case ir.For():
            return replace(stmt, extent=f(stmt.extent), body=map_body(stmt.body, f))
        case ir.If():
            then, orelse = map_body(stmt.then, f), map_body(stmt.orelse, f)
            return ir.If(f(stmt.condition), then, orelse)
        case ir.Transfer():
            ranges = tuple(map_range(r, f) for r in stmt.ranges)
            return replace(stmt, ranges=ranges, slot=f(stmt.slot), first=f(stmt.first))
        case ir.Wait():
            return replace(stmt, slot=f(stmt.slot))
        case ir.Call():
            return replace(stmt, operands=tuple(map_operand(o, f) for o in stmt.operands))
        case ir.Barrier():
            return stmt
        case _:
            assert_never(stmt)


def map_body(body: tuple[ir.Stmt, ...], f: ExprMap) -> tuple[ir.Stmt, ...]:
    """Apply `f` to every expression of a statement list."""
    return tuple(map_stmt(s, f) for s in body)


def rewrite(body: tuple[ir.Stmt, ...], f: Rewrite) -> tuple[ir.Stmt, ...]:
    """Replace statements bottom-up: `f` returns the new statements, or None to keep the old one."""
    result: list[ir.Stmt] = []
    for stmt in body:
        match stmt:
            case ir.For():
                stmt = replace(stmt, body=rewrite(stmt.body, f))
            case ir.If():
                stmt = ir.If(stmt.condition, rewrite(stmt.then, f), rewrite(stmt.orelse, f))
            case _:
                pass
        new = f(stmt)
        result.extend((stmt,) if new is None else new)
    return tuple(result)


def walk(body: tuple[ir.Stmt, ...]) -> Iterator[ir.Stmt]:
    """Every statement, outer before inner, in program order."""
    found: list[ir.Stmt] = []
    _add_all(body, found)
    return iter(found)


def _add_all(body: tuple[ir.Stmt, ...], found: list[ir.Stmt]) -> None:
    for stmt in body:
        found.append(stmt)
        if isinstance(stmt, ir.For):
            _add_all(stmt.body, found)
        elif isinstance(stmt, ir.If):
            _add_all(stmt.then, found)
            _add_all(stmt.orelse, found)


def calls_of(body: tuple[ir.Stmt, ...], kind: type[P]) -> Iterator[tuple[ir.Call, P]]:
    """Every call of one kind of primitive in program order, and its primitive."""
    for stmt in walk(body):
        if isinstance(stmt, ir.Call) and isinstance(stmt.primitive, kind):
            yield stmt, stmt.primitive


def moved_tensors(program: ir.Program) -> dict[str, str]:
    """The tensor that each buffer with transfers holds a part of, by buffer."""
    return {s.buffer: s.tensor for s in walk(program.body) if isinstance(s, ir.Transfer)}


def expressions(stmt: ir.Stmt) -> Iterator[Expr]:
    """The expressions of a statement itself, without those in its body."""
    match stmt:
        case ir.For():
            yield stmt.extent
        case ir.If():
            yield stmt.condition
        case ir.Transfer():
            yield from (stmt.slot, stmt.first)
            yield from _range_expressions(stmt.ranges)
        case ir.Wait():
            yield stmt.slot
        case ir.Call():
            for operand in stmt.operands:
                yield from _range_expressions(operand.ranges)
                if isinstance(operand, ir.View):
                    yield operand.slot
                    yield from operand.shape
        case ir.Barrier():
            return
        case _:
            assert_never(stmt)


def _range_expressions(ranges: tuple[ir.Range, ...]) -> Iterator[Expr]:
    for r in ranges:
        yield from (r.start, r.extent, r.step)
        if r.stop is not None:
            yield r.stop


def used_symbols(body: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """Names of every symbol that the statements read."""
    return frozenset().union(*(free_vars(e) for s in walk(body) for e in expressions(s)))


def instantiate(program: ir.Program, bindings: Mapping[str, IntLike]) -> ir.Program:
    """Bind parameters to values; loops of one iteration and decided conditions are unwrapped.

    >>> from tilewright.ir.parser import parse
    >>> p = parse('''
    ... def p(n):
    ...     for i in range(n):
    ...         if 0 < i:
    ...             barrier()
    ... ''')
    >>> instantiate(p, {"n": 1}).body
    ()
    """

    bound = substitution(bindings)

    def tensor(t: ir.Tensor) -> ir.Tensor:
        return replace(t, shape=tuple(bound(e) for e in t.shape))

    def buffer(b: ir.Buffer) -> ir.Buffer:
        return replace(b, elements=bound(b.elements), copies=bound(b.copies))

    return ir.Program(
        program.name,
        tuple(p for p in program.parameters if p not in bindings),
        tuple(tensor(t) for t in program.tensors),
        tuple(buffer(b) for b in program.buffers),
        _simplified(program.body, bindings, bound),
    )


def simplify_body(body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    """Drop empty loops; unwrap loops of one iteration and decided conditions."""
    return _simplified(body, {}, substitution({}))


def _simplified(
    body: tuple[ir.Stmt, ...], bindings: Mapping[str, IntLike], bound: ExprMap
) -> tuple[ir.Stmt, ...]:
    """`simplify_body` with symbols `bound` to values, in one pass over the statements."""
    result: list[ir.Stmt] = []
    for stmt in body:
        match stmt:
            case ir.For(var, extent, inner, threads):
                extent = bound(extent)
                if extent == Const(1) and threads == 1:
                    at_zero = {**bindings, var: 0}
                    result.extend(_simplified(inner, at_zero, substitution(at_zero)))
                elif extent != Const(0) and (simple := _simplified(inner, bindings, bound)):
                    result.append(ir.For(var, extent, simple, threads))
            case ir.If(condition, then, orelse):
                match bound(condition):
                    case Const(value):
                        result.extend(_simplified(then if value else orelse, bindings, bound))
                    case condition:
                        branches = (_simplified(part, bindings, bound) for part in (then, orelse))
                        if any(both := tuple(branches)):
                            result.append(ir.If(condition, *both))
            case _:
                result.append(map_stmt(stmt, bound) if bindings else stmt)
    return tuple(result)


def in_first(loops: Iterable[ir.For]) -> Expr:
    """1 in the first iteration of all of these loops, else 0."""
    return all_of(binary("==", Var(loop.var), 0) for loop in loops)


def in_last(loops: Iterable[ir.For]) -> Expr:
    """1 in the last iteration of all of these loops, else 0."""
    return all_of(binary("==", Var(loop.var) + 1, loop.extent) for loop in loops)
