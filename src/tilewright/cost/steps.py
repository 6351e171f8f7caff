"""A program for timing: every transfer and call with the values that its time depends on.

In: a staged or explicit program. Out: a tree of steps, which `cost.chain` prices for every
candidate at once, `cost.totals` counts, and the kernel simulator plays.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias, assert_never

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    BinaryExpr,
    Const,
    Expr,
    IntLike,
    Value,
    Var,
    all_of,
    binary,
    coefficient,
    free_vars,
    maximum,
    minimum,
    product,
    substitute,
    total,
)
from tilewright.cost.nests import starts_of_vectors
from tilewright.cost.timing import (
    TransferShape,
    call_dims,
    chain_dims,
    transfer_shape,
    with_edges,
)
from tilewright.ir.chains import Chain, ChainRules, chain_of_single, with_chains
from tilewright.ir.nodes import (
    CORE_SYMBOLS,
    Barrier,
    Call,
    For,
    If,
    Program,
    Range,
    Stmt,
    Tile,
    Transfer,
    Wait,
)
from tilewright.ir.primitives import MatrixProduct, MultiplyAccumulate, Reduce
from tilewright.ir.regions import strides_of
from tilewright.ir.visit import rewrite, walk
from tilewright.machine import Machine

_Turns: TypeAlias = tuple[tuple[str, Expr], ...]
_MOST_KEPT = 1 << 14


@dataclass(frozen=True, eq=False)
class LoopStep:
    """A loop and the steps of its body."""

    stmt: For
    body: tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class BranchStep:
    """A condition and the steps of its branches."""

    condition: Expr
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class TransferStep:
    """A transfer and the numbers that its time depends on (`CorePlaces`). `numbers` lists extents,
    steps, distances, cores and indices left, each for all dimensions; then (indices, turns) for
    each entry of `moved`, the dimension of a move; and, if `placed`, the element at which the
    region starts. `lines` has the line of cores along which each dimension ends, `space` is the
    memory of the buffer.
    """

    stmt: Transfer
    element_bytes: int
    tensor_shape: tuple[Expr, ...]
    shared: bool
    numbers: tuple[Expr, ...]
    space: str
    lines: tuple[str, ...]
    moved: tuple[int, ...]
    placed: bool = False

    @property
    def kind(self) -> Hashable:
        """Everything that determines the time except the tensor's shape and the numbers."""
        way, place = self.stmt.direction, (self.space, self.lines, self.moved, self.placed)
        return way, self.element_bytes, self.shared, *place, len(self.tensor_shape)

    def anywhere(self) -> TransferStep:
        """The step without the numbers of its address: how it moves and where it starts."""
        fixed = self.numbers[: 5 * len(self.tensor_shape)]
        return replace(self, numbers=fixed, moved=(), placed=False)

    def at_place(self, unit: int) -> TransferStep:
        """The step of a single turn, placed by its start modulo `unit` elements."""
        fixed = self.numbers[: 5 * len(self.tensor_shape)]
        offset = offset_of(self.tensor_shape, self.stmt.ranges) % unit
        return replace(self, numbers=(*fixed, offset), moved=(), placed=True)

    def bound(self, values: Mapping[str, IntLike]) -> TransferStep:
        """The step with values for some of its symbols."""
        shape = tuple(substitute(e, values) for e in self.tensor_shape)
        numbers = tuple(substitute(e, values) for e in self.numbers)
        return replace(self, tensor_shape=shape, numbers=numbers)

    def shape(self, tensor_shape: Sequence[Value], numbers: Sequence[Value]) -> TransferShape:
        """The transfer as the memory sees it, from values for the expressions of the same names."""
        rank = len(tensor_shape)
        extents, steps, *along = (numbers[i * rank : (i + 1) * rank] for i in range(5))
        distances, cores, left = along
        rest = numbers[5 * rank :]
        moves = [(d, *rest[2 * i : 2 * i + 2]) for i, d in enumerate(self.moved)]
        place = self.space, moves, rest[-1] if self.placed else 0

        def shape_of(
            own: Sequence[Value], cores: Sequence[Value], before: Sequence[Value] = ()
        ) -> TransferShape:
            line = distances, cores, *place, before
            return transfer_shape(self.element_bytes, tensor_shape, own, steps, *line)

        if not any(self.lines):
            return shape_of(extents, cores)
        away = [distance // step for distance, step in zip(distances, steps, strict=True)]
        return with_edges(extents, away, cores, left, self.lines, shape_of)


@dataclass(frozen=True, eq=False)
class CallStep:
    """A call and the extents that its cost depends on; for a chain of products also its loops."""

    stmt: Call
    dims: Mapping[str, Expr]
    loops: tuple[For, ...] | None = None


Step: TypeAlias = LoopStep | BranchStep | TransferStep | CallStep | Wait | Barrier


def steps_of(program: Program, *, chains: ChainRules | None = None) -> tuple[Step, ...]:
    """The program's steps; `chains` says which products one call computes together, None: none."""
    return _steps(program.body, _Whole(program, chains, turns_of(program)))


@dataclass(frozen=True, eq=False)
class _Whole:
    """The program around a statement, with the number of turns of each loop."""

    program: Program
    chains: ChainRules | None
    turns: Mapping[str, Expr]

    @cached_property
    def sorted_turns(self) -> _Turns:
        """The turns in the order of the loops' names."""
        return tuple(sorted(self.turns.items()))

    def dims(self, call: Call) -> dict[str, Expr]:
        """The extents that the cost of a call depends on. In an instantiated program an extent that
        does not vary is a constant; with parameters, its values in the first and in the last turn
        decide whether code will know it.
        """
        parameters = self.program.parameters
        return _dims(call, parameters, self.sorted_turns if parameters else ())


# Structures of one nest share most of their transfers and calls: each is looked at once.
@lru_cache(maxsize=_MOST_KEPT)
def _dims(call: Call, parameters: tuple[str, ...], turns: _Turns) -> dict[str, Expr]:
    return call_dims(call, parameters, dict(turns))


@lru_cache(maxsize=_MOST_KEPT)
def _places(ranges: tuple[Range, ...], turns: _Turns) -> CorePlaces:
    return places_of(ranges, dict(turns))


@lru_cache(maxsize=_MOST_KEPT)
def _first_start(
    shape: tuple[Expr, ...], ranges: tuple[Range, ...], loops: tuple[str, ...]
) -> Expr:
    """The element at which the region of core (0, 0) starts in the first turn of all loops."""
    return substitute(offset_of(shape, ranges), dict.fromkeys(loops, 0))


def first_core(machine: Machine) -> dict[str, int]:
    """Values of the mesh and core symbols at core (0, 0), whose extents are the largest and so
    decide the time of all cores.
    """
    mesh = {"mesh_rows": machine.mesh.rows, "mesh_columns": machine.mesh.columns}
    return {**mesh, **dict.fromkeys(CORE_SYMBOLS, 0)}


def _steps(body: tuple[Stmt, ...], whole: _Whole) -> tuple[Step, ...]:
    steps: list[Step] = []
    chains = whole.chains
    for stmt in with_chains(body, chains) if chains else body:
        single = chain_of_single(stmt, chains) if chains and whole.program.parameters else None
        steps += _branch_if_once(*single, whole) if single else [_step(stmt, whole)]
    return tuple(steps)


def _branch_if_once(
    stmt: Stmt, chain: Chain, loops: Sequence[For], whole: _Whole
) -> Iterator[Step]:
    """A nest that is a chain if `loops` run once: both forms, each under its condition."""
    once = all_of(binary("==", _longest(f.extent, whole), 1) for f in loops)
    yield BranchStep(once, (_step(chain, whole),), ())
    guarded = rewrite((stmt,), lambda s: (If(once, (), (s,)),) if isinstance(s, Call) else None)
    yield from _steps(guarded, whole)


def _longest(extent: Expr, whole: _Whole) -> Expr:
    """An extent in the first iteration of all loops, where it is longest."""
    return substitute(extent, dict.fromkeys(whole.turns, 0))


def _step(stmt: Stmt | Chain, whole: _Whole) -> Step:
    match stmt:
        case For():
            return LoopStep(stmt, _steps(stmt.body, whole))
        case If(condition, then, orelse):
            return BranchStep(condition, *(_steps(part, whole) for part in (then, orelse)))
        case Transfer():
            return _transfer(stmt, whole)
        case Call():
            dims = whole.dims(stmt)
            beside = {**_distance(stmt, whole.program), **_starts(stmt, whole.turns)}
            return CallStep(stmt, {**dims, **beside})
        case Chain():
            return CallStep(stmt.call, chain_dims(stmt), stmt.loops)
        case Wait() | Barrier():
            return stmt
        case _:
            assert_never(stmt)


def _distance(call: Call, program: Program) -> dict[str, Expr]:
    """Row strides, in elements, of a product's operands that stay in main memory: `distance` for
    the factor that is read by vectors, with `along_terms` 1 if its rows run along k;
    `result_distance` for a result that is updated in place.
    """
    if not isinstance(call.primitive, MatrixProduct):
        return {}
    result, factor = call.operands[0], call.operands[call.primitive.loaded]
    if isinstance(result, Tile) and program.tensor(result.tensor).kind == "updated":
        return {"result_distance": program.tensor(result.tensor).shape[-1]}
    if not isinstance(factor, Tile):
        return {}
    along_terms = {"along_terms": Const(1)} if factor.roles.rstrip(".").endswith("k") else {}
    return {"distance": program.tensor(factor.tensor).shape[-1], **along_terms}


def _starts(call: Call, turns: Mapping[str, Expr]) -> dict[str, Expr]:
    """How often the operands of a reduction or a product by factors start on a vector boundary;
    the taps of windows are loops around the call.
    """
    if not isinstance(call.primitive, (MultiplyAccumulate, Reduce)):
        return {}
    return starts_of_vectors(call, turns)


def _transfer(stmt: Transfer, whole: _Whole) -> TransferStep:
    program = whole.program
    tensor, space = program.tensor(stmt.tensor), program.buffer(stmt.buffer).space
    at = _places(stmt.ranges, whole.sorted_turns)
    sizes = (r.extent for r in stmt.ranges), (r.step for r in stmt.ranges)
    numbers = (*sizes, at.distances, at.cores, at.left, *(move for _, *move in at.moves))
    start = _first_start(tensor.shape, stmt.ranges, tuple(whole.turns))
    placed = start != Const(0)
    return TransferStep(
        stmt,
        dtype(tensor.dtype).size_bytes,
        tensor.shape,
        tensor.shared,
        (*(e for group in numbers for e in group), *([start] if placed else [])),
        space,
        at.lines,
        tuple(d for d, *_ in at.moves),
        placed,
    )


_BOTH = "rid cid"
_LINES = {
    "rid": Var("mesh_rows"),
    "cid": Var("mesh_columns"),
    _BOTH: Var("mesh_rows") * Var("mesh_columns"),
}


@dataclass(frozen=True)
class CorePlaces:
    """A region on neighbouring cores. Per dimension: the distance in indices between their starts,
    the cores in a line, the indices `left` from core (0, 0) to the end of the tensor, and the line
    of cores along which these run out, empty where they do not. `moves` lists (dimension, indices,
    turns) of the region's movement with the loops.
    """

    distances: tuple[Expr, ...]
    cores: tuple[Expr, ...]
    left: tuple[Expr, ...]
    lines: tuple[str, ...]
    moves: tuple[tuple[int, Expr, Expr], ...]


def places_of(ranges: Sequence[Range], turns: Mapping[str, Expr]) -> CorePlaces:
    """The places of a region on the cores; `turns` has the number of turns of each loop."""
    lines = [_line(r) for r in ranges]
    distances = [_apart(r, line) for r, line in zip(ranges, lines, strict=True)]
    cores = [_LINES.get(line, Const(1)) for line in lines]
    left = [_indices_to_end(*of) for of in zip(ranges, lines, distances, strict=True)]
    moves = [
        (d, *move) for d, r in enumerate(ranges) for move in dict.fromkeys(_moves(r.start, turns))
    ]
    return CorePlaces(
        tuple(distances),
        tuple(cores),
        tuple(Const(0) if one is None else one for one in left),
        tuple("" if one is None else line for one, line in zip(left, lines, strict=True)),
        tuple(moves),
    )


def turns_of(program: Program) -> dict[str, Expr]:
    """Most turns of each loop; of loops with the same name, those of the longest."""
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
    """The core symbols that a range's start depends on, separated by a space."""
    return " ".join(core for core in ("rid", "cid") if core in free_vars(r.start))


def _apart(r: Range, line: str) -> Expr:
    """Distance between the starts of neighbouring cores; 0 where it is not constant, or where the
    rows of the mesh do not continue each other.
    """
    try:
        away = coefficient(r.start, line.rpartition(" ")[2]) if line else Const(0)
        if line == _BOTH:
            row = coefficient(r.start, "rid")
            away = away * binary("==", row, away * _LINES["cid"])
    except ProgramError:
        return Const(0)
    return away


def _indices_to_end(r: Range, line: str, distance: Expr) -> Expr | None:
    """Indices of the range from core (0, 0) to the end of the tensor, at most those that the line
    of cores covers; None where all cores have the same extent.
    """
    last = line.rpartition(" ")[2]
    if not line or distance == Const(0) or last not in free_vars(r.extent):
        return None
    whole, end = _whole_and_end(r.extent, last)
    at_first = substitute(end, dict.fromkeys(CORE_SYMBOLS, 0))
    if whole is None:
        return at_first
    return minimum(at_first, whole + (_LINES[line] - 1) * (distance // r.step))


def _whole_and_end(extent: Expr, line: str) -> tuple[Expr | None, Expr]:
    """(indices of a whole tile, None if they are no limit; indices to the end of the tensor)."""
    match extent:
        case BinaryExpr("max", Const(0), inner):
            return _whole_and_end(inner, line)
        case BinaryExpr("min", a, b) if line not in free_vars(a):
            return a, b
        case BinaryExpr("min", a, b) if line not in free_vars(b):
            return b, a
        case _:
            return None, extent


def _moves(e: Expr, turns: Mapping[str, Expr]) -> Iterator[tuple[Expr, Expr]]:
    """(step, turns) of each move of a start, a sum of multiples of loop indices."""
    match e:
        case Var(name) if name in turns:
            yield Const(1), turns[name]
        case BinaryExpr("+" | "-", a, b):
            yield from _moves(a, turns)
            yield from _moves(b, turns)
        case BinaryExpr("*", a, b):
            inner = [*_moves(a, turns)]
            factor = b if inner else a
            yield from ((step * factor, count) for step, count in inner or _moves(b, turns))
        case BinaryExpr() if moving := e.symbols & turns.keys():
            yield Const(1), product(turns[name] for name in sorted(moving))
        case _:
            return
