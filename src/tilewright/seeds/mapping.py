"""Seeds of mappings and reductions of tensors as they lie: one nest around the primitive.

Every axis is tiled, and one or two are spread over the cores. All sizes are parameters, so that
operators of one pattern share their programs. Window taps are innermost loops, inside the transfer
of the region they share.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

from tilewright.common.expr import Const, Expr, Var, total
from tilewright.ir.nodes import TensorKind
from tilewright.ir.primitives import Map
from tilewright.ops.access import Access
from tilewright.ops.mapping import InMemory
from tilewright.seeds.nest import Axis, TensorSpec, TileEpilogue, Use, axis, nest
from tilewright.seeds.space import INTERFACES, NestInterface, Seed, Space, seed, tile_factor
from tilewright.seeds.steps import IN_PARTS, IN_PLACE, Split, Spread, Stage, Step, Walk

LETTERS = "pqrstuvw"
_FEW_AXES = 4

Pattern = tuple[tuple[tuple[tuple[int, int], ...], ...], tuple[int, ...]]
"""Terms and offsets of an access, without extents."""


def _pattern(access: Access) -> Pattern:
    return access.terms, access.offsets


def _sizes(**accesses: Access) -> dict[str, int]:
    """Extents of the stored tensors, by parameter name."""
    return {f"{t}_{d}": n for t, access in accesses.items() for d, n in enumerate(access.shape)}


def _parameters(op: InMemory) -> dict[str, int]:
    stored = {f"x{i}": access for i, access in enumerate(op.operands)}
    return {f"n{i}": n for i, n in enumerate(op.extents)} | _sizes(y=op.result, **stored)


def _as_given(op: InMemory, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    del op
    return operands


def _shaped(op: InMemory, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    return operands if _own_axes(op) else tuple(x[..., None] for x in operands)


INTERFACES["map"] = NestInterface("map", _parameters, _as_given, lambda op, y: y)
INTERFACES["reduce"] = NestInterface("reduce", _parameters, _shaped, lambda op, y: y)


@seed("map", name="map")
def mapping(op: InMemory) -> Seed:
    """The expression applied element by element, tile by tile."""
    return _mapping(*_mapped(op), in_place=False)


@seed("map", name="map", addressed=True)
def mapping_in_place(op: InMemory) -> Seed:
    """The expression applied element by element, in place."""
    return _mapping(*_mapped(op), in_place=True)


def _mapped(op: InMemory) -> tuple[int, Pattern, tuple[Pattern, ...], str]:
    return len(op.extents), _pattern(op.result), tuple(map(_pattern, op.operands)), op.body


@cache
def _mapping(
    rank: int, result: Pattern, operands: tuple[Pattern, ...], expression: str, *, in_place: bool
) -> Seed:
    axes = _axes(rank)
    own = tuple(axes[n] for n in _uncounted(rank, (result, *operands)))
    unit = () if own else (axis("unit", 1),)
    cut = own or unit
    y = _tensor("y", "output", result, unit=not own)
    inputs = [_tensor(f"x{i}", "input", p, i, unit=not own) for i, p in enumerate(operands)]
    uses = [_use(x, p, axes, unit) for x, p in zip(inputs, operands, strict=True)]
    roles = dict(zip(LETTERS, cut, strict=False))
    written = _use(y, result, axes, unit)
    body = nest("map", "map", (*axes, *unit), roles, written, *uses, expression=expression)
    if in_place:
        space = Space(body).split(*cut).choose(tuple(Stage(t.name, IN_PLACE) for t in (y, *inputs)))
        space = space.limit(largest=1 << 31, most=1)
    else:
        counted = tuple(axes[n] for n in range(rank) if axes[n] not in cut)
        space = spread(Space(body).split(*cut), cut, counted).prefetch(y, *inputs)
        within = _within((result, *operands))
        for x, (places, _) in zip(inputs, operands, strict=True):
            moving = {a for terms in places for a, _ in terms}
            backwards = any(step < 0 for terms in places for _, step in terms)
            if own and moving and moving <= within and not backwards:
                space = space.stage(x, axes[0], None)
        space = space.limit(largest=1 << 14, most=tile_sizes(rank))
    return Seed("map", (y, *inputs), (space,), (), tuple(x.name for x in inputs), "y")


def cut_axes(op: InMemory) -> tuple[int, ...]:
    """The axes of a mapping that tiles may cut."""
    rank, result, operands, _ = _mapped(op)
    return _uncounted(rank, (result, *operands))


def _uncounted(rank: int, patterns: tuple[Pattern, ...]) -> tuple[int, ...]:
    blocks = _blocks(patterns)
    return tuple(n for n in range(rank) if n not in blocks)


def _blocks(patterns: tuple[Pattern, ...]) -> frozenset[int]:
    """The axes along which a tile has extent 1: those that some tensor is read backwards along, and
    those that count blocks of one tensor's dimension where another tensor stores the place within a
    block as a separate dimension, since a tile lies within one block.
    """
    every = [terms for places, _ in patterns for terms in places]
    dims = [frozenset(a for a, _ in terms) for terms in every]
    found = {a for terms in every for a, step in terms if step < 0}
    for places, _ in patterns:
        for terms in places:
            together = frozenset(a for a, _ in terms)
            if any(apart and apart < together for apart in dims):
                found |= together - {min(terms, key=lambda term: term[1])[0]}
    return frozenset(found)


def _within(patterns: tuple[Pattern, ...]) -> set[int]:
    """The axes that count places within a block. A tensor that varies along these alone is small
    and may be fetched once.
    """
    dims = (terms for places, _ in patterns for terms in places if len(terms) > 1)
    return {min(terms, key=lambda term: term[1])[0] for terms in dims}


@seed("reduce", name="reduce")
def reduction(op: InMemory) -> Seed | None:
    """The windows or rows of one operand, gathered tile by tile."""
    if len(op.operands) != 1:
        return None
    (operand,) = op.operands
    return _reduction(
        (len(op.extents), op.outer, _own_axes(op)),
        (_pattern(op.result), _pattern(operand)),
        (op.gather or "sum", op.body, op.finish),
    )


@seed("reduce", name="windows_in_parts", whole=True)
def windows_in_parts(op: InMemory) -> Seed | None:
    """Maximum over disjoint windows of two columns, computed where the last rows lie; the rows of
    the next windows arrive in parts.
    """
    if (op.gather, op.body, op.finish, len(op.operands)) != ("max", "x0", "x0", 1):
        return None
    read, made = (
        [a for terms in access.terms for a, _ in terms] for access in (op.operands[0], op.result)
    )
    single = all(len(terms) == 1 for terms in (*op.operands[0].terms, *op.result.terms))
    windows = [a for a in read if a >= op.outer]
    if not single or len(windows) != 2 or [a for a in read if a < op.outer] != made:
        return None
    rows, columns = (op.extents[a] for a in windows)
    before = read[read.index(windows[1]) - 1]
    if rows < 2 or columns != 2 or windows != sorted(windows) or before == windows[0]:
        return None
    return _windows_in_parts(op.outer, (_pattern(op.result), _pattern(op.operands[0])))


@cache
def _windows_in_parts(kept: int, patterns: tuple[Pattern, Pattern]) -> Seed | None:
    result, operand = patterns
    axes = (*_axes(kept), *(axis(f"i{n}", Var(f"n{n}"), inner=True) for n in (kept, kept + 1)))
    if _blocks(patterns):
        return None
    y = _tensor("y", "output", result, unit=False)
    x = _tensor("x0", "input", operand, 0, unit=False)
    uses = _use(y, result, axes, ()), _use(x, operand, axes, ())
    roles: dict[str, Axis | tuple[Axis, ...]] = dict(zip(LETTERS, axes[:kept], strict=False))
    roles["k"] = axes[kept:]
    body = nest("windows_in_parts", "reduce", axes, roles, *uses, function="max", expression="x0")
    space = spread(Space(body).split(*axes[:kept]), axes[:kept]).reorder(axes[:kept])
    space = space.choose((Stage("x0", IN_PARTS),)).limit(largest=1 << 14, most=tile_sizes(kept))
    return Seed("windows_in_parts", (y, x), (space,), (), ("x0",), "y")


def _own_axes(op: InMemory) -> tuple[int, ...]:
    """The gathered axes that run alone along a dimension of the operand."""
    alone = {terms[0][0] for terms in op.operands[0].terms if len(terms) == 1}
    return tuple(a for a in range(op.outer, len(op.extents)) if a in alone)


@cache
def _reduction(
    shape: tuple[int, int, tuple[int, ...]],
    patterns: tuple[Pattern, Pattern],
    what: tuple[str, str, str],
) -> Seed:
    (rank, kept, own), (result, operand), (function, expression, finish) = shape, patterns, what
    axes, unit, row = _axes(rank), axis("unit", 1), axis("row", 1)
    single = tuple(tuple(term for term in terms if term[0] < kept) for terms in operand[0])
    blocks = _blocks((result, (single, operand[1])))
    cut = tuple(a for n, a in enumerate(axes[:kept]) if n not in blocks)
    rows = () if cut else (row,)
    y = _tensor("y", "output", result, unit=not cut)
    x = _tensor("x0", "input", operand, 0, unit=not own)
    gathered = tuple(axes[a] for a in own) or (unit,)
    taps = tuple(axes[a] for a in range(kept, rank) if a not in own)
    tiled = cut or rows
    roles: dict[str, Axis | tuple[Axis, ...]] = dict(zip(LETTERS, tiled, strict=False))
    written = _use(y, result, axes, rows)
    last = TileEpilogue(Map(finish), (written,)) if finish != "x0" else None
    body = nest(
        "reduce",
        "reduce",
        (*axes[:kept], *rows, *axes[kept:], *(() if own else (unit,))),
        {**roles, "k": gathered},
        written,
        _use(x, operand, axes, () if own else (unit,)),
        epilogue=last,
        function=function,
        expression=expression,
    )
    split = (*tiled, *(gathered if own else ()))
    space = Space(body).split(*split)
    space = spread(space, cut) if cut else space
    space = space.reorder((*axes[:kept], *rows, *(gathered if own else ()), *taps))
    if taps:
        space = space.stage(x, taps[0])
    space = space.prefetch(y, x).limit(largest=1 << 14, most=tile_sizes(len(split)))
    return Seed("reduce", (y, x), (space,), (), ("x0",), "y")


def _axes(rank: int) -> tuple[Axis, ...]:
    return tuple(axis(f"i{n}", Var(f"n{n}")) for n in range(rank))


def _tensor(
    name: str, kind: TensorKind, pattern: Pattern, operand: int | None = None, *, unit: bool
) -> TensorSpec:
    dims: tuple[tuple[str, Expr], ...] = tuple(
        (f"d{d}", Var(f"{name}_{d}")) for d in range(len(pattern[1]))
    )
    if unit or not dims:
        dims = (*dims, ("one", Const(1)))
    return TensorSpec(name, kind, dims, operand=operand)


def _use(
    spec: TensorSpec, pattern: Pattern, axes: tuple[Axis, ...], unit: tuple[Axis, ...] = ()
) -> Use:
    places: list[Expr] = []
    for terms, offset in zip(*pattern, strict=True):
        places.append(total(axes[a].var * step for a, step in terms) + offset)
    beside: list[Expr] = [*(a.var for a in unit), Const(0)]
    every = [*places, *beside][: len(spec.dims)]
    return Use(spec, tuple(every), exact=spec.kind == "output")


def tile_sizes(axes: int) -> int:
    """Tile sizes to try per axis: more for few axes, since a copy into another order of dimensions
    then needs them for long runs in main memory.
    """
    return 10 if axes <= _FEW_AXES else 3


def spread(space: Space, axes: tuple[Axis, ...], counted: tuple[Axis, ...] = ()) -> Space:
    """Spread one axis over all cores, or two over rows and columns. The `counted` axes, which tiles
    cannot cut, are walked one index at a time.
    """
    single = [(Spread(a.name, "cores"),) for a in axes]
    double = [(Spread(a.name, "rows"), Spread(b.name, "columns")) for a, b in combinations(axes, 2)]
    walked = [
        (*_walked(c), Spread(c.name, over), *beside)
        for c in counted
        for over, beside in _beside(axes)
    ]
    return space.choose(*single, *double, *walked)


def _walked(axis: Axis) -> tuple[Step, ...]:
    return Split(axis.name, tile_factor(axis.name)), Walk(axis.name, f"{axis.name}_own")


def _beside(axes: tuple[Axis, ...]) -> list[tuple[str, tuple[Step, ...]]]:
    """Where to spread a walked axis, each with a second axis over the columns left."""
    return [("cores", ()), *(("rows", (Spread(a.name, "columns"),)) for a in axes)]
