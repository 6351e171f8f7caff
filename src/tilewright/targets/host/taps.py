"""Leave taps that read only zeros around an image out of a convolution in place.

In: a chain of products over the taps of a kernel, on images with a border of zeros. Out: the pieces
that replace it, each of neighbouring pixels with the same taps: as a program, and for the model the
pixels and taps of each piece. (The product of a non-finite factor and such a zero is left out,
too.)
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
from tilewright.machine import Machine

_MOST_KINDS = 8
"""Most kinds of turns of a loop over rows that the emitted text tells apart."""


@dataclass(frozen=True)
class SameTaps:
    """`count` indices along a dimension of the results, from `first` on; each uses `taps` taps
    along it, from number `tap` on.
    """

    first: int
    count: int
    tap: int
    taps: int


@cache
def same_taps(places: range, taps: range, inside: range) -> tuple[SameTaps, ...]:
    """Windows at these `places`, whose `taps` are offsets, in parts with the same taps inside an
    image; a window without any keeps one tap.

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
    """Pixels of a chain's results with the same taps: their rows and columns."""

    rows: SameTaps
    columns: SameTaps

    @property
    def pixels(self) -> int:
        """Number of results per channel."""
        return self.rows.count * self.columns.count

    @property
    def taps(self) -> int:
        """Number of taps that each result uses."""
        return self.rows.taps * self.columns.taps


@dataclass(frozen=True)
class PaddedChain:
    """A chain on padded `images`, their dimensions of rows and columns, and the loop whose turns
    are other rows of them, if there is one. With fewer than `least` pixels the sums of a piece wait
    for each other.
    """

    chain: Chain
    images: Tile
    dims: tuple[int, int]
    loop: For | None
    least: int
    program: Program

    @property
    def sizes(self) -> tuple[Expr, ...]:
        """Everything that decides the kinds of turns; loops count with their first iteration."""
        shape = self.program.tensor(self.images.tensor).shape
        ranges = (self.images.ranges[d] for d in self.dims)
        places = (e for r in ranges for e in (r.start, r.extent, r.step))
        loops = (f.extent for f in (self.loop, *self.chain.loops) if f)
        return *(shape[d] for d in self.dims), *places, *loops

    def kinds(self, values: Mapping[str, int]) -> list[tuple[int, tuple[PixelPiece, ...]]]:
        """(end, pieces) of each run of the loop's turns that have the same pieces; empty if there
        are too many kinds of turns to tell apart.
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
        """The pieces of one turn, the largest first. Columns are split only in pieces of enough
        rows, so that corners stay with the rows above and below.
        """
        down, across = (self._parts(d, values) for d in self.dims)
        width = sum(part.count for part in across)
        if width * min(part.count for part in down) < self.least:
            down = (_joined(down),)
        found = (
            PixelPiece(rows, columns)
            for rows in down
            for columns in (across if rows.count >= self.least else (_joined(across),))
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
        """A statement of the chain, restricted to the pixels and taps of a piece."""
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
    """All indices as one part, with every tap that any of them uses."""
    tap = min(part.tap for part in parts)
    taps = max(part.tap + part.taps for part in parts) - tap
    return SameTaps(0, sum(part.count for part in parts), tap, taps)


def padded_chain(chain: Chain, program: Program, machine: Machine) -> PaddedChain | None:
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
            return PaddedChain(chain, operand, (rows, columns), loop, _least(machine), program)
    return None


def _least(machine: Machine) -> int:
    """Pixels whose sums do not wait: one for each cycle of a multiply-add's latency. A block has at
    least as many vectors of a pixel as multiply-adds start in a cycle.
    """
    return machine.core.multiply_add_latency_cycles or 1


def _symbols(r: Range, program: Program) -> frozenset[str]:
    return (free_vars(r.start) | free_vars(r.extent)) - set(program.parameters)


def padded_chains(program: Program, machine: Machine) -> Iterator[PaddedChain]:
    """All chains of a program on padded images."""
    if any(t.zeros for t in program.tensors):
        found = (padded_chain(chain, program, machine) for chain in chains_of(program))
        yield from (one for one in found if one is not None)


def without_padding(program: Program, machine: Machine) -> Program:
    """An explicit program without parameters whose chains leave out taps in the border of zeros."""
    if not any(t.zeros for t in program.tensors):
        return program
    return replace(program, body=tuple(_body(program.body, program, machine)))


def _body(body: tuple[Stmt, ...], program: Program, machine: Machine) -> Iterator[Stmt]:
    index = 0
    while index < len(body):
        first, (stmt, found) = index, (body[index], chain_at(body, index))
        index = found[1] if found else index + 1
        padded = padded_chain(found[0], program, machine) if found else None
        if padded:
            yield from _taken_apart(padded, body[first:index])
        elif found:
            yield from body[first:index]
        elif isinstance(stmt, For):
            yield replace(stmt, body=tuple(_body(stmt.body, program, machine)))
        elif isinstance(stmt, If):
            both = stmt.then, stmt.orelse
            then, orelse = (tuple(_body(part, program, machine)) for part in both)
            yield replace(stmt, then=then, orelse=orelse)
        else:
            yield stmt


def _taken_apart(padded: PaddedChain, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a chain, piece by piece, for each kind of turn of the loop over rows."""
    found: tuple[Stmt, ...] = ()
    for end, pieces in reversed(padded.kinds({})):
        own = tuple(padded.narrowed(stmt, piece) for piece in pieces for stmt in stmts)
        found = (If(_before(padded, end), own, found),) if found else own
    return found or stmts


def _before(padded: PaddedChain, end: int) -> Expr:
    assert padded.loop is not None
    return binary("<", Var(padded.loop.var), end)
