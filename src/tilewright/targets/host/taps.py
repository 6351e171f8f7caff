"""Taps that find nothing but the zeros around an image are left out of a convolution in place.

In: a chain of products over the taps of a kernel, on images with a border of zeros. Out: the pieces
that take its place, each of neighbouring pixels that take the same taps: a program made of them,
and for the model the pixels and taps of each. (A factor that is not finite times such a zero is
left out, too.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby

from tilewright.common.expr import Const, Expr, Var, binary, evaluate, free_vars, substitute
from tilewright.ir.chains import Chain, chain_at, chains_of
from tilewright.ir.nodes import Call, For, If, Operand, Program, Range, Stmt, Tile
from tilewright.ir.visit import walk

_LEAST_PIXELS = 4
"""Pixels of a piece: with fewer the sums wait for each other."""
_MOST_KINDS = 8
"""Kinds of turns of a loop over rows that are told apart in text."""


@dataclass(frozen=True)
class SameTaps:
    """`count` indices along a dimension of the results from `first` on; they take `taps` taps along
    it, from number `tap` on.
    """

    first: int
    count: int
    tap: int
    taps: int


@cache
def same_taps(places: range, taps: range, inside: range) -> tuple[SameTaps, ...]:
    """The parts of windows that begin at these places, of taps so far behind, by which of their
    taps are inside an image; one of the others stays where none is.

    >>> [(p.count, p.tap, p.taps) for p in same_taps(range(7), range(3), range(1, 8))]
    [(1, 1, 2), (5, 0, 3), (1, 0, 2)]
    """
    found: list[SameTaps] = []
    used = [[i for i, tap in enumerate(taps) if place + tap in inside] or [0] for place in places]
    for (tap, last), same in groupby((own[0], own[-1]) for own in used):
        first = found[-1].first + found[-1].count if found else 0
        found.append(SameTaps(first, len(list(same)), tap, last + 1 - tap))
    return tuple(found)


@dataclass(frozen=True)
class PixelPiece:
    """Rows and columns of the results of a chain."""

    rows: SameTaps
    columns: SameTaps

    @property
    def pixels(self) -> int:
        """Number of results of a channel."""
        return self.rows.count * self.columns.count

    @property
    def taps(self) -> int:
        """Number of taps that each takes."""
        return self.rows.taps * self.columns.taps


@dataclass(frozen=True)
class PaddedChain:
    """A chain on padded `images`, their dimensions of rows and columns, and the loop whose turns
    are other rows of them, if there is one.
    """

    chain: Chain
    images: Tile
    dims: tuple[int, int]
    loop: For | None
    program: Program

    @property
    def sizes(self) -> tuple[Expr, ...]:
        """All that decides its kinds, with its loops and those around at their start."""
        shape = self.program.tensor(self.images.tensor).shape
        ranges = (self.images.ranges[d] for d in self.dims)
        places = (e for r in ranges for e in (r.start, r.extent, r.step))
        loops = (f.extent for f in (self.loop, *self.chain.loops) if f)
        return *(shape[d] for d in self.dims), *places, *loops

    def kinds(self, values: Mapping[str, int]) -> list[tuple[int, tuple[PixelPiece, ...]]]:
        """Runs of turns of the loop that take the same pieces: the end of each, and these; none
        where they are too many to be told apart.
        """
        turns = int(evaluate(self.loop.extent, values)) if self.loop else 1
        names = [self.loop.var] if self.loop else []
        every = (self._pieces({**values, **dict.fromkeys(names, turn)}) for turn in range(turns))
        found, end = [], 0
        for pieces, same in groupby(every):
            end += len(list(same))
            found.append((end, pieces))
        return found if len(found) <= _MOST_KINDS else []

    def _pieces(self, values: Mapping[str, int]) -> tuple[PixelPiece, ...]:
        """The pieces of one turn, the largest first: columns are taken apart where there are rows
        enough, in which corners stay with the rows above and below.
        """
        down, across = (self._parts(d, values) for d in self.dims)
        width = sum(part.count for part in across)
        if width * min(part.count for part in down) < _LEAST_PIXELS:
            down = (_joined(down),)
        found = (
            PixelPiece(rows, columns)
            for rows in down
            for columns in (across if rows.count >= _LEAST_PIXELS else (_joined(across),))
        )
        return tuple(sorted(found, key=lambda piece: -piece.pixels))

    def _parts(self, d: int, values: Mapping[str, int]) -> tuple[SameTaps, ...]:
        r, tensor = self.images.ranges[d], self.program.tensor(self.images.tensor)
        before, behind = tensor.zeros_of(tensor.dims[d])
        inside = range(before, int(evaluate(tensor.shape[d], values)) - behind)
        zeros = {**values, **{f.var: 0 for f in self.chain.loops}}
        start, extent, step = (int(evaluate(e, zeros)) for e in (r.start, r.extent, r.step))
        places = range(start, start + extent * step, step)
        for f in self.chain.loops:
            if f.var in free_vars(r.start):
                apart = int(evaluate(r.start, {**zeros, f.var: 1})) - start
                taps = int(evaluate(f.extent, values))
                return same_taps(places, range(0, taps * apart, apart), inside)
        return (SameTaps(0, extent, 0, 1),)

    def narrowed(self, stmt: Stmt, piece: PixelPiece) -> Stmt:
        """A statement of the chain for the pixels and taps of a piece."""
        parts = list(zip(self.dims, (piece.rows, piece.columns), strict=True))
        taps = {
            f.var: part
            for f in self.chain.loops
            for d, part in parts
            if f.var in free_vars(self.images.ranges[d].start)
        }
        moved = {name: Var(name) + part.tap for name, part in taps.items()}
        names = self.program.tensor(self.images.tensor).dims
        pixels = {names[d]: part for d, part in parts}

        def cut(operand: Operand) -> Operand:
            ranges = [replace(r, start=substitute(r.start, moved)) for r in operand.ranges]
            dims = self.program.tensor(operand.tensor).dims if isinstance(operand, Tile) else ()
            for d, name in enumerate(dims):
                if name in pixels:
                    r, part = ranges[d], pixels[name]
                    ranges[d] = Range(r.start + r.step * part.first, Const(part.count), r.step)
            return replace(operand, ranges=tuple(ranges))

        def inside(own: Stmt) -> Stmt:
            match own:
                case For(var, extent, body):
                    taken = Const(taps[var].taps) if var in taps else extent
                    return replace(own, extent=taken, body=tuple(map(inside, body)))
                case If(_, then, orelse):
                    then, orelse = tuple(map(inside, then)), tuple(map(inside, orelse))
                    return replace(own, then=then, orelse=orelse)
                case Call(_, operands):
                    return replace(own, operands=tuple(map(cut, operands)))
                case _:
                    return own

        return inside(stmt)


def _joined(parts: Sequence[SameTaps]) -> SameTaps:
    """All indices with all taps that any of them takes."""
    tap = min(part.tap for part in parts)
    taps = max(part.tap + part.taps for part in parts) - tap
    return SameTaps(0, sum(part.count for part in parts), tap, taps)


def padded_chain(chain: Chain, program: Program) -> PaddedChain | None:
    """The chain as one on padded images in place, by pixels of rows that one loop at most moves;
    None if it is another, or its sums are in a buffer.
    """
    if not isinstance(chain.call.operands[0], Tile):
        return None
    own = frozenset(f.var for f in chain.loops)
    for operand in chain.call.operands[1:]:
        if not isinstance(operand, Tile) or not program.tensor(operand.tensor).zeros:
            continue
        dims = program.tensor(operand.tensor).dims
        if not {"rows", "cols"} <= {*dims}:
            continue
        rows, columns = dims.index("rows"), dims.index("cols")
        moving, still = (_symbols(operand.ranges[d], program) - own for d in (rows, columns))
        loops = [s for s in walk(program.body) if isinstance(s, For) and s.var in moving]
        if not still and len(moving) == len(loops) <= 1:
            loop = loops[0] if loops else None
            return PaddedChain(chain, operand, (rows, columns), loop, program)
    return None


def _symbols(r: Range, program: Program) -> frozenset[str]:
    return (free_vars(r.start) | free_vars(r.extent)) - set(program.parameters)


def padded_chains(program: Program) -> Iterator[PaddedChain]:
    """All chains of a program on padded images."""
    if any(t.zeros for t in program.tensors):
        found = (padded_chain(chain, program) for chain in chains_of(program))
        yield from (one for one in found if one is not None)


def without_padding(program: Program) -> Program:
    """An explicit program without parameters whose chains leave out taps in the border of zeros."""
    if not any(t.zeros for t in program.tensors):
        return program
    return replace(program, body=tuple(_body(program.body, program)))


def _body(body: tuple[Stmt, ...], program: Program) -> Iterator[Stmt]:
    index = 0
    while index < len(body):
        first, (stmt, found) = index, (body[index], chain_at(body, index))
        index = found[1] if found else index + 1
        padded = padded_chain(found[0], program) if found else None
        if padded:
            yield from _taken_apart(padded, body[first:index])
        elif found:
            yield from body[first:index]
        elif isinstance(stmt, For):
            yield replace(stmt, body=tuple(_body(stmt.body, program)))
        elif isinstance(stmt, If):
            then, orelse = (tuple(_body(part, program)) for part in (stmt.then, stmt.orelse))
            yield replace(stmt, then=then, orelse=orelse)
        else:
            yield stmt


def _taken_apart(padded: PaddedChain, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a chain piece by piece, in each kind of turns of the loop over rows."""
    found: tuple[Stmt, ...] = ()
    for end, pieces in reversed(padded.kinds({})):
        own = tuple(padded.narrowed(stmt, piece) for piece in pieces for stmt in stmts)
        found = (If(_before(padded, end), own, found),) if found else own
    return found or stmts


def _before(padded: PaddedChain, end: int) -> Expr:
    assert padded.loop is not None
    return binary("<", Var(padded.loop.var), end)
