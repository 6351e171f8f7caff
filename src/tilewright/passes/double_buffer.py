"""Overlap transfers with compute (swATOP 4.5.2).

In: an instantiated staged program. A buffer with two copies is fetched one iteration ahead: the
first tile before the loops, each next tile right after the wait for the current one, or after some
of the calls whose primitive `spreads` fetches. The next iteration's indices advance the inner loop
by one, or the next outer loop with the inner ones back at zero. A store is waited for only before
its slot is written again. The schedule chooses two copies tensor by tensor. With `late`, for cores
that keep operations in flight in order, stores of such buffers in innermost loops are issued after
the computation of the next iteration, which then need not wait for them.

before:  for i in range(n):
             get(a[i] -> t[0]); wait(t[0]); use(t[0])
after:   get(a[0] -> t[0])
         for i in range(n):
             wait(t[i % 2])
             if i + 1 < n: get(a[i + 1] -> t[(i + 1) % 2])
             use(t[i % 2])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.expr import Const, Expr, Var, binary, evaluate, free_vars, substitute
from tilewright.ir import nodes as ir
from tilewright.ir.visit import map_range, rewrite, simplify_body

Loops = tuple[ir.For, ...]


@dataclass(frozen=True)
class _Part:
    """A rewritten loop body, and the statements to place before and after the outermost loop."""

    body: tuple[ir.Stmt, ...]
    before: tuple[ir.Stmt, ...] = ()
    after: tuple[ir.Stmt, ...] = ()


@dataclass(frozen=True)
class DoubleBuffer:
    """Starts fetches one iteration early, and waits for stores as late as possible."""

    name: ClassVar[str] = "double_buffer"
    late: bool = False

    def apply(self, program: ir.Program) -> ir.Program:
        """The explicit-stage program of a staged one."""
        body: list[ir.Stmt] = []
        for stmt in program.body:
            if isinstance(stmt, ir.For):
                part = self._inside(stmt.body, (stmt,), program)
                body += [*part.before, replace(stmt, body=part.body), *part.after]
            else:
                body.append(stmt)
        return replace(program, body=simplify_body(tuple(body)))

    def _inside(self, body: tuple[ir.Stmt, ...], loops: Loops, program: ir.Program) -> _Part:
        """Rewrite a loop body, innermost loops first."""
        inner: list[ir.Stmt] = []
        before: tuple[ir.Stmt, ...] = ()
        after: tuple[ir.Stmt, ...] = ()
        for stmt in body:
            if isinstance(stmt, ir.For):
                part = self._inside(stmt.body, (*loops, stmt), program)
                inner.append(replace(stmt, body=part.body))
                before, after = before + part.before, after + part.after
            else:
                inner.append(stmt)
        here = _stores(_fetches(_Part(tuple(inner)), loops, program), loops, program)
        if self.late and not any(isinstance(stmt, ir.For) for stmt in body):
            here = _late(here, loops, program)
        return _Part(here.body, before + here.before, after + here.after)


def _copies(program: ir.Program, buffer: str) -> int:
    return int(evaluate(program.buffer(buffer).copies, {}))


def _fetches(part: _Part, loops: Loops, program: ir.Program) -> _Part:
    body: list[ir.Stmt] = []
    before: list[ir.Stmt] = []
    doubled: list[str] = []
    now, ahead = slot_of(loops, 0), slot_of(loops, 1)
    later: dict[int, list[ir.Transfer]] = {}
    behind = _fetches_behind(part.body)
    for number, stmt in enumerate(part.body):
        match stmt:
            case ir.Transfer("get", _, _, buffer) if _copies(program, buffer) == 2:
                doubled.append(buffer)
                before.append(_at_indices(stmt, {f.var: Const(0) for f in loops}, Const(0)))
                body.append(ir.Wait(buffer, now))
                later.setdefault(behind.get(number, number), []).append(stmt)
            case ir.Wait(buffer) if buffer in doubled:
                pass
            case _:
                body.append(stmt)
        for fetched in later.get(number, ()):
            body += fetch_next(fetched, loops, len(loops) - 1, ahead)
    return _Part(_with_slots(tuple(body), doubled, now), tuple(before))


def _fetches_behind(body: Sequence[ir.Stmt]) -> dict[int, int]:
    """Positions for fetches of the next tile in an innermost loop, spread evenly over the calls
    whose primitive `spreads`, so that each overlaps with some. Maps the index of a fetch to the
    index of the call that it follows; fetches that stay before all such calls are left out.
    """
    if any(isinstance(stmt, ir.For) for stmt in body):
        return {}
    calls = [i for i, s in enumerate(body) if isinstance(s, ir.Call) and s.primitive.spreads]
    gets = [i for i, s in enumerate(body) if isinstance(s, ir.Transfer) and s.direction == "get"]
    counts = ((get, k * len(calls) // (len(gets) + 1)) for k, get in enumerate(gets, 1))
    return {get: calls[count - 1] for get, count in counts if count}


def fetch_next(stmt: ir.Transfer, loops: Loops, level: int, slot: Expr) -> tuple[ir.Stmt, ...]:
    """Fetch for the next iteration: advance loop `level`, or at its end a loop outside it."""
    if level < 0:
        return ()
    loop = loops[level]
    indices: dict[str, Expr] = {f.var: Const(0) for f in loops[level + 1 :]}
    indices[loop.var] = Var(loop.var) + 1
    fetch = _at_indices(stmt, indices, slot)
    condition = binary("<", Var(loop.var) + 1, loop.extent)
    return (ir.If(condition, (fetch,), fetch_next(stmt, loops, level - 1, slot)),)


def _at_indices(stmt: ir.Transfer, indices: dict[str, Expr], slot: Expr) -> ir.Transfer:
    ranges = tuple(map_range(r, lambda e: substitute(e, indices)) for r in stmt.ranges)
    return replace(stmt, ranges=ranges, slot=slot)


def slot_of(loops: Loops, ahead: int) -> Expr:
    """The slot, 0 or 1, of the iteration `ahead` after the current one.

    Iterations of all loops together are numbered consecutively. An inner loop may be shorter in the
    last iteration of a loop around it; all iterations before are as long as the first, so the
    number of the current iteration follows from the first one's length.
    """
    index: Expr = Const(0)
    for depth, loop in enumerate(loops):
        inside = [_at(f, {loop.var: Const(0)}) for f in loops[depth + 1 :]]
        index = index + Var(loop.var) * _iterations(inside)
    return (index + ahead) % 2


def _iterations(loops: Sequence[ir.For]) -> Expr:
    """Number of iterations of nested loops, where the last pass of an inner loop may be shorter."""
    if not loops:
        return Const(1)
    loop, *inner = loops
    whole = _iterations([_at(f, {loop.var: Const(0)}) for f in inner])
    if not any(loop.var in free_vars(f.extent) for f in inner):
        return loop.extent * whole
    last = _iterations([_at(f, {loop.var: loop.extent - 1}) for f in inner])
    return (loop.extent - 1) * whole + last


def _at(loop: ir.For, indices: Mapping[str, Expr]) -> ir.For:
    extent = substitute(loop.extent, indices)
    return loop if extent is loop.extent else replace(loop, extent=extent)


def _stores(part: _Part, loops: Loops, program: ir.Program) -> _Part:
    body: list[ir.Stmt] = []
    stored: list[str] = []
    for stmt in part.body:
        if isinstance(stmt, ir.Transfer) and stmt.direction == "put":
            stored.append(stmt.buffer)
        if not (isinstance(stmt, ir.Wait) and stmt.buffer in stored):
            body.append(stmt)
    first: list[ir.Stmt] = []
    after: list[ir.Stmt] = []
    now = slot_of(loops, 0)
    for buffer in stored:
        copies = _copies(program, buffer)
        first.append(ir.Wait(buffer, now if copies == 2 else Const(0)))
        after += [ir.Wait(buffer, Const(slot)) for slot in range(copies)]
    doubled = [b for b in stored if _copies(program, b) == 2]
    slotted = _with_slots(tuple(body), doubled, now)
    return _Part((*first, *slotted), part.before, tuple(after))


def _late(part: _Part, loops: Loops, program: ir.Program) -> _Part:
    """Delay stores of two-slot buffers by one iteration; the last ones come after the loops."""
    body: list[ir.Stmt] = []
    after: list[ir.Stmt] = []
    for stmt in part.body:
        match stmt:
            case ir.Transfer("put", _, _, buffer) if _copies(program, buffer) == 2:
                body += store_before(stmt, loops, len(loops) - 1)
                slot = substitute(slot_of(loops, 0), _last(loops))
                after.append(_at_indices(stmt, _last(loops), slot))
            case _:
                body.append(stmt)
    return _Part(tuple(body), part.before, (*after, *part.after))


def store_before(stmt: ir.Transfer, loops: Loops, level: int) -> tuple[ir.Stmt, ...]:
    """Store for the previous iteration: loop `level` one back, or at its start a loop outside."""
    if level < 0:
        return ()
    loop = loops[level]
    indices = {loop.var: Var(loop.var) - 1}
    indices |= _last(loops[level + 1 :], indices)
    store = _at_indices(stmt, indices, slot_of(loops, 1))
    return (ir.If(binary("<", 0, Var(loop.var)), (store,), store_before(stmt, loops, level - 1)),)


def _last(loops: Loops, around: Mapping[str, Expr] | None = None) -> dict[str, Expr]:
    """The indices of the loops' last iteration, with outer loops at the indices `around`."""
    found: dict[str, Expr] = dict(around or {})
    for loop in loops:
        found[loop.var] = substitute(loop.extent, found) - 1
    return found


def _with_slots(body: tuple[ir.Stmt, ...], buffers: list[str], slot: Expr) -> tuple[ir.Stmt, ...]:
    """Make calls and stores of the buffers use `slot`; fetches and waits already have one."""

    def change(stmt: ir.Stmt) -> tuple[ir.Stmt, ...] | None:
        match stmt:
            case ir.Call(_, operands):
                changed = tuple(
                    replace(o, slot=slot) if isinstance(o, ir.View) and o.buffer in buffers else o
                    for o in operands
                )
                return (replace(stmt, operands=changed),)
            case ir.Transfer("put", _, _, buffer) if buffer in buffers:
                return (replace(stmt, slot=slot),)
            case _:
                return None

    return rewrite(body, change) if buffers else body
