"""The integer part of a space: every value of the tile factors and buffer copies of a structure.

Tiles of a spread axis are multiples of its granule, the smallest extent that the primitive accepts:
the register block of the matrix product times the mesh. They are balanced: for each number of
tiles, the smallest size that covers the axis. Tiles of other axes inside the primitive are divisors
of the extent, since these axes are never padded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import gcd, isqrt, lcm, prod

import numpy as np
import numpy.typing as npt

from tilewright.common.expr import Const, Value, evaluate
from tilewright.ir.nodes import For
from tilewright.ir.visit import moved_tensors, walk
from tilewright.machine import Machine
from tilewright.passes.lowering import lowering_of
from tilewright.schedule.decisions import Decisions
from tilewright.schedule.structures import Structure
from tilewright.seeds.space import FactorLimits

Columns = dict[str, npt.NDArray[np.int64]]

_OCTAVES = 11
"""Number of doublings over which numbers of tiles are tried."""


@dataclass(frozen=True)
class Granularity:
    """Granularity of the machine's primitives: mesh size and register block.

    With `partial`, blocks may be partly filled; tiles still are multiples of blocks, or whole axes.
    With `overlap`, transfers overlap with computation, so a second copy of a buffer pays off. The
    depth of a product is a multiple of `terms`.
    """

    rows: int
    columns: int
    vector: int
    scalar: int
    lanes: int = 4
    partial: bool = False
    overlap: bool = True
    terms: int = 1


def blocks_of(machine: Machine, dtype: str) -> Granularity:
    """The granularity of the machine's matrix primitive."""
    lowering, lanes = lowering_of(machine), machine.core.lanes(dtype)
    vectors, scalars = lowering.block
    return Granularity(
        machine.mesh.rows,
        machine.mesh.columns,
        1 if lowering.any_extent else lanes * vectors,
        scalars,
        1 if lowering.partial_blocks else lanes,
        partial=lowering.partial_blocks,
        overlap=lowering.overlap,
        terms=lowering.multiples.get("k", 1),
    )


@dataclass(frozen=True)
class SplitAxis:
    """One split axis: `letter` is its role, `over` its spread ("" for none), `extent` its length.

    `beside` is the product of the extents of unsplit axes in the same dimension of the primitive. A
    `padded` axis is rounded up in every core, an `uneven` one may have a shorter last tile, a
    `whole` one is a single tile without a factor. An `even` axis is no dimension of the primitive;
    it must divide evenly, so that every core has a part.
    """

    name: str
    factor: str
    letter: str
    over: str
    extent: int
    beside: int
    padded: bool
    uneven: bool
    whole: bool
    even: bool

    @property
    def rounded(self) -> bool:
        """True if its last tile is rounded up to a granule."""
        return self.padded or self.over != ""


def split_axes(p: Decisions, parameters: Mapping[str, int]) -> tuple[SplitAxis, ...]:
    """The split axes of a schedule, with extents for one operator's `parameters`."""
    return tuple(
        SplitAxis(
            name,
            factor,
            p.roles.get(name, ""),
            p.spreads.get(name, ""),
            int(evaluate(p.nest.axis(name).extent, parameters)),
            _beside(p, p.roles.get(name, ""), parameters),
            name in p.pads,
            name in p.skews,
            name in p.wholes,
            name in p.walks and name not in p.roles,
        )
        for name, factor in (*p.splits.items(), *((name, "") for name in sorted(p.wholes)))
    )


def _beside(p: Decisions, letter: str, parameters: Mapping[str, int]) -> int:
    """Product of the extents of the unsplit axes in the primitive's dimension `letter`."""
    cut = {*p.splits, *p.wholes}
    axes = (a for a in p.nest.axes if a.name not in cut and p.roles.get(a.name) == letter)
    return prod(int(evaluate(a.extent, parameters)) for a in axes)


@dataclass(frozen=True, eq=False)
class FactorGrid:
    """The values to try: `tiles` as arrays (tiles,), `copies` as arrays (copies, 1).

    Expressions over both broadcast to (copies, tiles); expressions over tiles alone are evaluated
    once for all copies.
    """

    tiles: Columns
    copies: Columns

    @property
    def tile_count(self) -> int:
        """Number of combinations of tile factors."""
        return len(next(iter(self.tiles.values())))

    @property
    def copy_count(self) -> int:
        """Number of combinations of buffer copies; 1 if nothing is copied."""
        return len(next(iter(self.copies.values()), (1,)))

    def chosen(self, copy_index: int, tile_index: int) -> dict[str, int]:
        """The values of one candidate."""
        copies = {name: int(v[copy_index, 0]) for name, v in self.copies.items()}
        return {name: int(v[tile_index]) for name, v in self.tiles.items()} | copies


@dataclass(frozen=True, eq=False)
class TileColumns:
    """The tiles of several operators, concatenated: operator i ends at `ends[i]`. `values` maps the
    names of `factors` and of the operators' parameters to one value per tile.
    """

    values: Columns
    factors: tuple[str, ...]
    ends: npt.NDArray[np.int64]

    def only(self, some: npt.NDArray[np.bool_]) -> TileColumns:
        """The tiles selected by the mask `some`."""
        if some.all():
            return self
        ends = np.cumsum([0, *some])[self.ends]
        return TileColumns({name: v[some] for name, v in self.values.items()}, self.factors, ends)

    def grid(self, copies: Columns) -> FactorGrid:
        """The grid of all tiles with these numbers of copies."""
        return FactorGrid({name: self.values[name] for name in self.factors}, copies)


def factor_grid(
    structure: Structure, parameters: Mapping[str, int], blocks: Granularity
) -> FactorGrid:
    """Every value of the factors, granules and copies of a structure for one operator."""
    copies, _ = copies_of(structure, blocks.overlap)
    return factor_grids(structure, [parameters], blocks).grid(copies)


def factor_grids(
    structure: Structure, cases: Sequence[Mapping[str, int]], blocks: Granularity
) -> TileColumns:
    """Every value of the factors and granules of a structure, for several operators given by their
    parameters. They are equal for structures of one nest with equal `tiling` that agree in having
    packed buffers.
    """
    p = structure.decisions
    if structure.along_terms:
        blocks = replace(blocks, vector=blocks.terms, terms=blocks.vector)
    _, packs = copies_of(structure, blocks.overlap)
    limits = structure.space.limits
    tiles = [_tiles(split_axes(p, c), p.vector, limits, blocks, packs) for c in cases]
    columns = {name: np.concatenate([own[name] for own in tiles]) for name in tiles[0]}
    counts = [len(next(iter(own.values()))) for own in tiles]
    parameters = {name: np.repeat([case[name] for case in cases], counts) for name in cases[0]}
    grids = TileColumns(columns | parameters, tuple(columns), np.cumsum(counts))
    return grids if blocks.partial else grids.only(_aligned(structure, grids.values, blocks))


@cache
def copies_of(structure: Structure, overlap: bool) -> tuple[Columns, bool]:
    """The numbers of copies of a structure's buffers, and True if it has packed buffers."""
    p = structure.decisions
    doubled = structure.space.doubled if overlap else ()
    if p.nest.reductions() and _reduces_outside(p):
        doubled = tuple(t for t in doubled if t != p.nest.output.tensor.name)
    buffers = [b for b in structure.staged.buffers if not isinstance(b.copies, Const)]
    held = moved_tensors(structure.staged)
    kept = {f"{tensor.name}_tile" for tensor in p.nest.kept}
    packs = any(b not in buffers and b.name not in kept for b in structure.staged.buffers)
    return _copies(tuple(held[b.name] for b in buffers), doubled), packs


def _aligned(
    structure: Structure, values: Mapping[str, Value], blocks: Granularity
) -> npt.NDArray[np.bool_]:
    """Mask of the tiles whose vector accesses are aligned in the first and in the last iteration of
    every loop.
    """
    mesh = {"mesh_rows": blocks.rows, "mesh_columns": blocks.columns, "rid": 0, "cid": 0}
    env = {**values, **mesh}
    loops = _loops(structure)
    width = max(np.size(v) for v in values.values())
    fits = np.ones(width, np.bool_)
    for last in (False, True):
        at: dict[str, Value] = {}
        for f in loops:
            at[f.var] = evaluate(f.extent, {**env, **at}) - 1 if last else 0
        for count in structure.aligned:
            fits &= evaluate(count, {**env, **at}) % blocks.lanes == 0
    return fits


@cache
def _loops(structure: Structure) -> tuple[For, ...]:
    return tuple(s for s in walk(structure.staged.body) if isinstance(s, For))


def _reduces_outside(p: Decisions) -> bool:
    """True if a reduction loop runs outside a loop over the result, which is then fetched again."""
    reductions = p.nest.reductions()
    made = {*(s.over for s in p.skews.values()), *p.walks.values()}
    own = [i for i, name in enumerate(p.order) if name not in reductions | made]
    looped = [i for i in own if p.nest.axis(p.order[i]).extent != Const(1)]
    first = min((i for i, name in enumerate(p.order) if name in reductions), default=len(p.order))
    return any(i > first for i in looped)


@cache
def _copies(tensors: tuple[str, ...], doubled: tuple[str, ...]) -> Columns:
    table = np.array(list(product(*((1, 2) if t in doubled else (1,) for t in tensors))), np.int64)
    return {f"{t}_copies": table[:, i : i + 1] for i, t in enumerate(tensors)}


@cache
def _tiles(
    axes: tuple[SplitAxis, ...], vector: str, limits: FactorLimits, blocks: Granularity, packs: bool
) -> Columns:
    rounded = [a for a in axes if a.rounded and not blocks.partial]
    cut = [a for a in axes if not a.whole]
    names = [a.factor for a in cut] + [f"{a.name}_granule" for a in rounded]
    rows: list[tuple[int, ...]] = []
    whole = [a for a in axes if not a.rounded and not a.uneven]
    for sizes in product(*(divisors(a.extent, limits.most) for a in whole)):
        fixed = dict(zip((a.name for a in whole), sizes, strict=True))
        granules = _granules(axes, fixed, vector, blocks, packs)
        if any(a.even and a.extent % granules[a.name] for a in axes):  # idle cores
            continue
        choices = [
            (fixed[a.name],)
            if a.name in fixed
            else balanced_tiles(a.extent, granules.get(a.name, 1), limits)
            for a in cut
        ]
        if blocks.partial:
            choices = [within(a.extent, tiles) for a, tiles in zip(cut, choices, strict=True)]
        own = [granules[a.name] for a in rounded]
        rows += [(*tiles, *own) for tiles in product(*choices)]
    table = np.array(rows, np.int64).reshape(len(rows), len(names))
    return {name: table[:, i] for i, name in enumerate(names)}


def _granules(
    axes: Sequence[SplitAxis],
    fixed: Mapping[str, int],
    vector: str,
    blocks: Granularity,
    packs: bool,
) -> dict[str, int]:
    """The granules of the rounded axes. Padded axes come first, since a spread axis shares the
    register block with their granules.
    """
    known = dict(fixed)
    for a in axes:
        if a.padded:
            known[a.name] = granule_of(a, axes, known, vector, blocks, packs)
    found = {a.name: granule_of(a, axes, known, vector, blocks, packs) for a in axes if a.over}
    return {a.name: found.get(a.name, known.get(a.name, 1)) for a in axes if a.rounded}


def granule_of(
    a: SplitAxis,
    axes: Sequence[SplitAxis],
    fixed: Mapping[str, int],
    vector: str,
    blocks: Granularity,
    packs: bool,
) -> int:
    """Smallest extent of a rounded axis such that every core's part is whole register blocks.

    If the primitive `packs` an operand, it reads it along k by vectors, so k needs whole vectors.
    """
    both = lcm(blocks.rows, blocks.columns)
    cores = blocks.rows * blocks.columns
    lines = {"": 1, "rows": blocks.rows, "columns": blocks.columns, "both": both, "cores": cores}
    mesh = lines[a.over]
    if not vector:
        return mesh
    if a.letter == "k":
        return mesh * (blocks.lanes if packs else blocks.terms)
    known = (fixed[o.name] for o in axes if o.letter == a.letter and o.name in fixed)
    others = a.beside * prod(known)
    block = blocks.vector if a.letter == vector else blocks.scalar
    return mesh * (block // gcd(block, others))


def balanced_tiles(extent: int, granule: int, limits: FactorLimits) -> tuple[int, ...]:
    """Tiles that are multiples of the granule, evened out over the axis, largest first.

    >>> balanced_tiles(512, 32, FactorLimits(largest=1024, most=5))
    (512, 256, 192, 128, 96)
    >>> balanced_tiles(100, 32, FactorLimits(largest=64, most=5))
    (64, 32)
    >>> balanced_tiles(24, 1, FactorLimits(largest=24, most=6, between=4))
    (24, 12, 8, 6, 5, 4)
    """
    fewest = -(-extent // max(granule, limits.largest))
    found: dict[int, None] = {}
    for factor in _tile_counts(limits.between):
        count = fewest * factor
        found[-(-extent // (count * granule)) * granule] = None
    return tuple(found)[: limits.most]


@cache
def _tile_counts(between: int) -> tuple[int, ...]:
    """Numbers of tiles to try, as multiples of the fewest, ascending; `between` per doubling."""
    steps = range(between, 2 * between)
    return tuple(sorted({(n << octave) // between for octave in range(_OCTAVES) for n in steps}))


def within(extent: int, tiles: Sequence[int]) -> tuple[int, ...]:
    """Tiles cut to the length of their axis.

    >>> within(100, (128, 64, 32))
    (100, 64, 32)
    """
    return tuple(dict.fromkeys(min(extent, tile) for tile in tiles))


def divisors(extent: int, most: int) -> tuple[int, ...]:
    """A few divisors of the extent: the extent itself, 1, and some between.

    >>> divisors(56, 5)
    (56, 14, 7, 4, 1)
    """
    small = np.arange(1, isqrt(extent) + 1)
    small = small[extent % small == 0]
    every = np.unique(np.concatenate([small, extent // small]))[::-1]
    if len(every) > most:
        every = every[np.linspace(0, len(every) - 1, most).round().astype(int)]
    return tuple(every.tolist())
