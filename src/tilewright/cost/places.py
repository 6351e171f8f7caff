"""Where a transfer's region lies from core to core and from turn to turn, for its price.

In: the ranges of a transfer. Out: expressions, valued at core (0, 0): how far neighbours are apart,
what of a dimension is left for them, and by how much a region moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    Binary,
    Const,
    Expr,
    Var,
    coefficient,
    free_vars,
    maximum,
    minimum,
    product,
    substitute,
    total,
)
from tilewright.ir.nodes import CORE_SYMBOLS, For, Program, Range
from tilewright.ir.regions import strides_of
from tilewright.ir.visit import walk

_LINES = {"rid": Var("mesh_rows"), "cid": Var("mesh_columns")}


@dataclass(frozen=True)
class Places:
    """For each dimension how far neighbouring cores are apart, how many are in a line, the indices
    `left` from core (0, 0) to the end, and the `line` of cores along which these run out, empty
    where they do not. `moves` are (dimension, indices, turns) in which the region moves.
    """

    distances: tuple[Expr, ...]
    cores: tuple[Expr, ...]
    left: tuple[Expr, ...]
    lines: tuple[str, ...]
    moves: tuple[tuple[int, Expr, Expr], ...]


def places_of(ranges: Sequence[Range], turns: Mapping[str, Expr]) -> Places:
    """The places of a region; `turns` says how many each loop has."""
    lines = [_line(r) for r in ranges]
    distances = [_distance(r, line) for r, line in zip(ranges, lines, strict=True)]
    cores = [_LINES.get(line, Const(1)) for line in lines]
    left = [_left(*of) for of in zip(ranges, lines, distances, strict=True)]
    moves = [
        (d, *move) for d, r in enumerate(ranges) for move in dict.fromkeys(_moves(r.start, turns))
    ]
    return Places(
        tuple(distances),
        tuple(cores),
        tuple(Const(0) if one is None else one for one in left),
        tuple("" if one is None else line for one, line in zip(left, lines, strict=True)),
        tuple(moves),
    )


def turns_of(program: Program) -> dict[str, Expr]:
    """How many turns each loop has at most; loops of one name are taken together."""
    loops = [stmt for stmt in walk(program.body) if isinstance(stmt, For)]
    first: dict[str, Expr] = {loop.var: Const(0) for loop in loops}
    found: dict[str, Expr] = {}
    for loop in loops:
        turns = substitute(loop.extent, first)
        found[loop.var] = maximum(found.get(loop.var, turns), turns)
    return found


def offset_of(shape: Sequence[Expr], ranges: Sequence[Range]) -> Expr:
    """The element of the tensor at which the region of core (0, 0) starts."""
    starts = [substitute(r.start, dict.fromkeys(CORE_SYMBOLS, 0)) for r in ranges]
    return total(start * stride for start, stride in zip(starts, strides_of(shape), strict=True))


def _line(r: Range) -> str:
    """The symbol of the cores that have regions of their own; empty for none or both."""
    found = [core for core in CORE_SYMBOLS if core in free_vars(r.start)]
    return found[0] if len(found) == 1 else ""


def _distance(r: Range, line: str) -> Expr:
    """How far apart the starts of neighbouring cores are; 0 where nothing says it."""
    try:
        return coefficient(r.start, line) if line else Const(0)
    except ProgramError:
        return Const(0)


def _left(r: Range, line: str, distance: Expr) -> Expr | None:
    """Indices of the range from core (0, 0) to the end of the tensor, not more than the cores of
    the line have; None where the extent is the same on all.
    """
    if not line or distance == Const(0) or line not in free_vars(r.extent):
        return None
    whole, end = _whole_and_end(r.extent, line)
    at_first = substitute(end, dict.fromkeys(CORE_SYMBOLS, 0))
    if whole is None:
        return at_first
    return minimum(at_first, whole + (_LINES[line] - 1) * (distance // r.step))


def _whole_and_end(extent: Expr, line: str) -> tuple[Expr | None, Expr]:
    """A whole tile's indices, if they are a limit, and those up to the end of the tensor."""
    match extent:
        case Binary("max", Const(0), inner):
            return _whole_and_end(inner, line)
        case Binary("min", a, b) if line not in free_vars(a):
            return a, b
        case Binary("min", a, b) if line not in free_vars(b):
            return b, a
        case _:
            return None, extent


def _moves(e: Expr, turns: Mapping[str, Expr]) -> Iterator[tuple[Expr, Expr]]:
    """(step, turns) in which a start moves with the loops: it is a sum of multiples of these."""
    match e:
        case Var(name) if name in turns:
            yield Const(1), turns[name]
        case Binary("+" | "-", a, b):
            yield from _moves(a, turns)
            yield from _moves(b, turns)
        case Binary("*", a, b):
            inner = [*_moves(a, turns)]
            factor = b if inner else a
            yield from ((step * factor, count) for step, count in inner or _moves(b, turns))
        case Binary() if moving := e.symbols & turns.keys():
            yield Const(1), product(turns[name] for name in sorted(moving))
        case _:
            return
