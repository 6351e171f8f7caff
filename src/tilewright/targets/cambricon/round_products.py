"""Replace exact sums in a wide buffer by products that round as the matrix unit does.

A sum that one product completes is rounded once, as the operator defines it. If its terms come in
several products, each of these is rounded, and they are added with saturation. The program states
these operations, and its interpreter computes them.

before:  fill(y_sums_tile); for k: gemm(y_sums_tile, w_tile, x_tile)
         requantise(y_tile, y_sums_tile, shift=8)
after:   for k: if k == 0: rounded_product(y_tile, w_tile, x_tile, shift=8)
                else: rounded_product(y_part, w_tile, x_tile, shift=8)
                      saturating_add(y_tile, y_part)

Each buffer is then put into the memory that its use requires: the operands that a product loads by
vectors into the matrix scratchpad, all others into the vector scratchpad.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.common.expr import (
    Const,
    Expr,
    Var,
    free_vars,
    product,
    round_up,
    substitute,
    total,
)
from tilewright.ir.matrix import as_view
from tilewright.ir.nodes import Buffer, Call, For, If, Operand, Program, Range, Stmt, View
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Fill, MatrixProduct, Requantise
from tilewright.ir.visit import calls_of, in_first, rewrite, walk
from tilewright.passes.infer_dma import SLOT_ELEMENTS
from tilewright.targets.cambricon.primitives import (
    OuterProduct,
    RoundedProduct,
    SaturatingAdd,
    Turned,
)

VECTOR, MATRIX = "vector", "matrix"
"""The memories of a core's buffers."""
_PARTS = 2
"""Slots of the buffer of partial results: one is written while the other is added."""


@dataclass(frozen=True)
class RoundProducts:
    """Rounds products where they are made, and assigns each buffer the memory its use demands."""

    name: ClassVar[str] = "round_products"

    def apply(self, program: Program) -> Program:
        """Round the program's products. Raises ScheduleError for one beyond the matrix unit."""
        ends = [(call, end) for call, end in calls_of(program.body, Requantise)]
        for call, end in ends:
            program = _rounded(program, call, end)
        if next(calls_of(program.body, MatrixProduct), None) and not ends:
            _only_rounded(program)
        return _placed(program)


def _only_rounded(program: Program) -> None:
    for _, multiply in calls_of(program.body, MatrixProduct):
        if not isinstance(multiply, RoundedProduct):
            raise ScheduleError(
                "the matrix unit writes results of 16 bits, found sums that are kept",
                fix="--dtype q8.8:q48.16:q8.8",
            )


def _rounded(program: Program, end: Call, how: Requantise) -> Program:
    """Round the products before one requantisation."""
    if how.rounding != "even" or not how.saturate:
        raise ScheduleError(
            "the matrix unit rounds to even and saturates, found "
            f"{how.rounding} and {'saturate' if how.saturate else 'wrap'}",
            fix="leave rounding and overflow out of --dtype",
        )
    result, sums = (o for o in end.operands if isinstance(o, View))
    every = (c for c, _ in calls_of(program.body, MatrixProduct))
    call = next((c for c in every if _is_of(c.operands[0], sums.buffer)), None)
    if call is None:
        raise ScheduleError(f"the sums in {sums.buffer!r} are made by no product")
    loops = _reducing(program, sums.buffer)
    part = _part(program, call, result)
    several = bool(loops)

    def change(stmt: Stmt) -> tuple[Stmt, ...] | None:
        match stmt:
            case Call(Fill(), (View(buffer), *_)) if buffer == sums.buffer:
                return ()
            case If(_, (Call(Fill(), (View(buffer), *_)),), ()) if buffer == sums.buffer:
                return ()
            case Call(MatrixProduct() as multiply, operands) if _is_of(operands[0], sums.buffer):
                return _products(multiply, operands, result.buffer, part.name, how.shift, loops)
            case Call(Requantise(), (_, View(buffer))) if buffer == sums.buffer:
                return ()
            case If(_, (Call(Requantise(), (_, View(buffer))),), ()) if buffer == sums.buffer:
                return ()
            case _:
                return None

    kept = tuple(b for b in program.buffers if b.name != sums.buffer)
    parts = (part,) if several else ()
    body = rewrite(program.body, change)
    return replace(program, buffers=(*kept, *parts), body=body)


def _is_of(operand: Operand, buffer: str) -> bool:
    return isinstance(operand, View) and operand.buffer == buffer


def _part(program: Program, call: Call, result: View) -> Buffer:
    """The buffer of partial products to add to the result, as large as the first one."""
    first = {s.var: 0 for s in walk(program.body) if isinstance(s, For)}
    extents = (substitute(r.extent, {**first, "rid": 0, "cid": 0}) for r in call.operands[0].ranges)
    kind = program.buffer(result.buffer).dtype
    elements = round_up(product(extents), SLOT_ELEMENTS)
    return Buffer(f"{result.buffer}_part", kind, elements, Const(_PARTS))


def _reducing(program: Program, sums: str) -> tuple[For, ...]:
    """The loops, outermost first, that add up several products in the buffer `sums`."""
    found: list[tuple[For, ...]] = []
    _find(program.body, sums, (), found)
    return found[0] if found else ()


def _find(
    body: tuple[Stmt, ...], sums: str, around: tuple[For, ...], found: list[tuple[For, ...]]
) -> None:
    """Collect the loops between the fill of the sums and each product added to them."""
    filled = any(
        isinstance(s, Call) and isinstance(s.primitive, Fill) and _is_of(s.operands[0], sums)
        for s in body
    )
    inside: tuple[For, ...] = () if filled else around
    for stmt in body:
        match stmt:
            case For():
                _find(stmt.body, sums, (*inside, stmt), found)
            case If(_, then, orelse):
                _find(then, sums, inside, found)
                _find(orelse, sums, inside, found)
            case Call(MatrixProduct(), (View(buffer) as c, *_)) if buffer == sums:
                kept = frozenset().union(*(free_vars(r.start) for r in c.ranges))
                found.append(tuple(f for f in inside if f.var not in kept))
            case _:
                pass


def _products(
    multiply: MatrixProduct,
    operands: tuple[Operand, ...],
    result: str,
    part: str,
    shift: int,
    loops: tuple[For, ...],
) -> tuple[Stmt, ...]:
    """One product of the sums: the first writes the result, the others are added to it."""
    c, *factors = operands
    assert isinstance(c, View)
    own = OuterProduct if _is_of_one_term(factors[0]) else RoundedProduct
    rounded = own(vector=multiply.vector, dtype=None, shift=shift)
    out = replace(c, buffer=result)
    first = Call(rounded, (out, *factors))
    if not loops:
        return (first,)
    slot = _count(loops) % _PARTS
    alone = tuple(Range(Const(0), r.extent) for r in c.ranges)
    beside = View(part, slot, tuple(r.extent for r in c.ranges), alone, c.roles)
    letters = "".join(chr(ord("a") + i) for i in range(len(c.ranges)))
    added = Call(SaturatingAdd(), (replace(out, roles=letters), replace(beside, roles=letters)))
    later = (Call(rounded, (beside, *factors)), added)
    return (If(in_first(loops), (first,), later),)


def _is_of_one_term(factor: Operand) -> bool:
    """True if a factor of a product has one index along the sum, whatever the operator."""
    assert isinstance(factor, View)
    sides = zip(factor.ranges, factor.roles, strict=True)
    return all(r.extent == Const(1) for r, role in sides if role == "k")


def _count(loops: tuple[For, ...]) -> Expr:
    """The number of an iteration of all loops together."""
    return total(
        Var(f.var) * product(inner.extent for inner in loops[d + 1 :]) for d, f in enumerate(loops)
    )


def _placed(program: Program) -> Program:
    """Put buffers into their memories. Raises ScheduleError for operands that are not runs."""
    matrices: set[str] = set()
    for call, multiply in calls_of(program.body, MatrixProduct):
        if isinstance(multiply, OuterProduct):
            matrices.add(as_view(call.operands[0], program).buffer)
            continue
        loaded = call.operands[multiply.loaded]
        if not isinstance(loaded, View):
            raise ScheduleError("a product takes its operands from the scratchpads")
        matrices.add(loaded.buffer)
        _check(call, multiply, program)
    matrices |= {as_view(c.operands[1], program).buffer for c, _ in calls_of(program.body, Turned)}
    buffers = tuple(
        replace(b, space=MATRIX if b.name in matrices else VECTOR) for b in program.buffers
    )
    vectors = {
        o.buffer
        for call in walk(program.body)
        if isinstance(call, Call)
        for i, o in enumerate(call.operands)
        if isinstance(o, View)
        if i != _loaded(call.primitive)
    }
    if matrices & vectors:
        raise ScheduleError("a buffer is the matrix of a product and a vector of another call")
    return replace(program, buffers=buffers)


def _loaded(primitive: Primitive) -> int | None:
    """The operand that lies in the matrix scratchpad."""
    if isinstance(primitive, OuterProduct):
        return 0
    if isinstance(primitive, MatrixProduct):
        return primitive.loaded
    return 1 if isinstance(primitive, Turned) else None


def _check(call: Call, multiply: MatrixProduct, program: Program) -> None:
    """Raise ScheduleError for operands that `mmv` and `vmm` do not take."""
    try:
        forms = multiply.matrices(call.operands, program)
    except ProgramError as error:
        raise ScheduleError(error.message, fix=error.fix) from error
    loaded = as_view(call.operands[multiply.loaded], program)
    form = forms[multiply.loaded]
    roles = ("m", "k") if multiply.loaded == 1 else ("k", "n")
    inner = roles[1] if form.order == "row" else roles[0]
    width = product(
        r.extent for r, role in zip(loaded.ranges, loaded.roles, strict=True) if role == inner
    )
    if form.leading_dimension != width:
        raise ScheduleError(
            f"{loaded.buffer!r} is a matrix with gaps between its rows",
            fix="a transfer of what one product takes",
        )
    other = 3 - multiply.loaded
    along_terms = "row" if other == 1 else "column"
    if forms[other].order != along_terms:
        raise ScheduleError(f"{as_view(call.operands[other], program).buffer!r} is no vector of k")
