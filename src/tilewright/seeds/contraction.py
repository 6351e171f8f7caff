"""Seeds of any contraction of two operands: loops around a matrix product, or around an elementwise
multiply-add.

Axes whose indices run through together form one dimension of the product. One or two window axes
may join it; their taps are then innermost loops, inside the transfer of the region they share.
Extents other than those of taps are parameters, so operators of one pattern share their programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from tilewright.common.expr import Const, Expr, Var, total
from tilewright.ir.nodes import TensorKind
from tilewright.ops.definition import Definition
from tilewright.ops.matrix_roles import Cell, Cut, MatrixRoles, matrix_roles
from tilewright.seeds.gemm import gemm_space
from tilewright.seeds.mapping import LETTERS, spread, tile_sizes
from tilewright.seeds.nest import Axis, Nest, TensorSpec, Use, axis, nest
from tilewright.seeds.space import INTERFACES, Choice, NestInterface, Seed, Space, seed, tile_factor
from tilewright.seeds.steps import (
    IN_PLACE,
    Fuse,
    Layout,
    Reorder,
    Split,
    Spread,
    Stage,
    Step,
    Vectorize,
)

_NAMES = {"m": "row", "n": "col", "k": "depth"}
_MOST_JOINED = 2
"""Window axes that one product covers beside the plain ones."""


def _parameters(op: Definition) -> dict[str, int]:
    roles = matrix_roles(op)
    extents = {letter: roles.extent(getattr(roles, letter)) for letter in "mnk"}
    cells = {f"x{i}_{j}": cell.extent for i, cut in enumerate(roles.operands)
             for j, cell in enumerate(cut.cells)}  # fmt: skip
    return extents | {f"n{a}": n for a, n in enumerate(roles.extents)} | cells


def _arrange(op: Definition, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    roles = matrix_roles(op)
    return tuple(cut.arranged(x) for cut, x in zip(roles.operands, operands, strict=True))


def _restore(op: Definition, y: Any) -> Any:
    return matrix_roles(op).restored(np.asarray(y))


INTERFACES["contraction"] = NestInterface("contraction", _parameters, _arrange, _restore)


@seed("contraction", name="loops")
def loops(op: Definition) -> Seed:
    """Tiles the product's dimensions; all other axes are loops outside them, taps innermost."""
    return _seed(pattern(matrix_roles(op)), in_place=False)


@seed("contraction", name="loops", addressed=True)
def loops_in_place(op: Definition) -> Seed:
    """`loops` with operands read and written in place."""
    return _seed(pattern(matrix_roles(op)), in_place=True)


def pattern(roles: MatrixRoles) -> MatrixRoles:
    """The roles with every extent erased except those of taps: the key that programs share."""
    extents = tuple(n if a in roles.taps else 0 for a, n in enumerate(roles.extents))
    first, second = (
        replace(cut, taken=(), around=(), fill=0.0, flipped=(), cropped=False, expanded=(),
                cells=tuple(replace(c, extent=0) for c in cut.cells))
        for cut in roles.operands
    )  # fmt: skip
    result = replace(roles.result, shape=(), terms=(), offsets=())
    return replace(roles, extents=extents, operands=(first, second), result=result)


@dataclass(frozen=True)
class _StoredOperand:
    """A tensor as stored, and the view the product sees: dimensions `m`, `n`, `k` and cells.
    `parts` maps each dimension of the view to the stored ones it joins.
    """

    stored: TensorSpec
    view: TensorSpec
    parts: dict[str, tuple[str, ...]]

    def layout(self, items: Sequence[str]) -> tuple[Layout, ...]:
        """Layouts with the view's dimensions in this order."""
        own = Layout(self.view.name, tuple(items))
        if self.view is self.stored:
            return (own,)
        dims = tuple(d for item in items for d in self.parts[item])
        return Layout(self.stored.name, dims), own


def _stored_operand(
    name: str,
    kind: TensorKind,
    dims: Sequence[tuple[str, Expr]],
    groups: dict[str, tuple[str, ...]],
    operand: int | None,
) -> _StoredOperand:
    """The tensor with each group of dimensions joined into one; an empty group becomes extent 1."""
    lone = {group[0]: letter for letter, group in groups.items() if len(group) == 1}
    units = [letter for letter, group in groups.items() if not group]
    joined = {d for group in groups.values() for d in group}
    if all(len(group) <= 1 for group in groups.values()):
        named = [(lone.get(d, d), Var(lone[d]) if d in lone else e) for d, e in dims]
        every = (*named, *((letter, Var(letter)) for letter in units))
        spec = TensorSpec(name, kind, every, operand=operand)
        return _StoredOperand(spec, spec, {d: (d,) for d, _ in every})
    ones: list[tuple[str, Expr]] = [(letter, Const(1)) for letter in units]
    stored = TensorSpec(name, kind, (*dims, *ones), operand=operand)
    others = [(d, e) for d, e in dims if d not in joined]
    letters: list[tuple[str, Expr]] = [(letter, Var(letter)) for letter in groups]
    view = TensorSpec(f"{name}_view", kind, (*letters, *others), name, operand)
    parts = {d: (d,) for d, _ in others}
    return _StoredOperand(stored, view, parts | {x: group or (x,) for x, group in groups.items()})


@dataclass(frozen=True)
class _Parts:
    """The axes of one pattern's nest, and its tensors.

    `matrix` holds the product's axes by letter, `axes` the others by number. `base` names the
    window axis that stands in for a letter without plain axes, else None.
    """

    roles: MatrixRoles
    matrix: dict[str, Axis]
    axes: dict[int, Axis]
    left: _StoredOperand
    right: _StoredOperand
    result: _StoredOperand
    base: dict[str, int | None]

    def named(self, axes: Sequence[int]) -> tuple[Axis, ...]:
        """The axes with these numbers, except those that the product covers."""
        taken = [a.name for a in self.matrix.values()]
        return tuple(self.axes[a] for a in axes if self.axes[a].name not in taken)

    @property
    def names(self) -> tuple[list[str], list[str], list[str]]:
        """The names of axes outside the product: of loops, of window axes beside it, of taps."""
        roles = self.roles
        every = (roles.loops, (*roles.wide_m, *roles.wide_n), roles.taps)
        outer, wide, taps = ([a.name for a in self.named(axes)] for axes in every)
        return outer, wide, taps

    def dimension(self, held: _StoredOperand, a: int) -> str:
        """The dimension of the tensor's view along which axis `a` runs alone."""
        if held is self.result:
            return f"i{a}"
        cut = self.roles.left if held is self.left else self.roles.right
        return next(f"d{j}" for j, cell in enumerate(cut.cells) if a in cell.axes)

    def item(self, held: _StoredOperand, letter: str) -> str:
        """The dimension of the tensor's view that feeds the product's dimension `letter`."""
        own = self.base[letter]
        return letter if own is None else self.dimension(held, own)


def _parts(roles: MatrixRoles) -> _Parts:
    base = {
        "m": _wide_base(roles.m, roles.wide_m),
        "n": _wide_base(roles.n, roles.wide_n),
        "k": None,
    }
    joined = {*roles.m, *roles.n, *roles.k}
    axes = {
        a: axis(f"i{a}", roles.extents[a] if a in roles.taps else Var(f"n{a}"))
        for a in (*roles.kept, *roles.taps)
        if a not in joined
    }
    matrix = {
        letter: axis(_NAMES[letter], Var(letter)) if own is None else axes[own]
        for letter, own in base.items()
    }
    groups = {"m": roles.m, "n": roles.n, "k": roles.k}
    own_groups = {letter: groups[letter] for letter in groups if base[letter] is None}
    dims = [(f"i{a}", Var(f"n{a}")) for a in roles.kept]
    of_result = {x: tuple(f"i{a}" for a in group) for x, group in own_groups.items() if x != "k"}
    left, right = (
        _operand(cut, number, {x: own_groups[x] for x in letters if x in own_groups})
        for cut, number, letters in (
            (roles.left, int(roles.swapped), "mk"), (roles.right, int(not roles.swapped), "nk"))
    )  # fmt: skip
    return _Parts(
        roles,
        matrix,
        axes,
        left,
        right,
        _stored_operand("y", "output", dims, of_result, None),
        base,
    )


def _wide_base(plain: tuple[int, ...], wide: tuple[int, ...]) -> int | None:
    """The window axis that becomes a dimension of the product when no plain axis does."""
    return wide[-1] if wide and not plain else None


def _operand(cut: Cut, number: int, groups: dict[str, tuple[int, ...]]) -> _StoredOperand:
    place = {cell.terms[0][0]: f"d{j}" for j, cell in enumerate(cut.cells) if len(cell.terms) == 1}
    dims = [(f"d{j}", Var(f"x{number}_{j}")) for j in range(len(cut.cells))]
    named = {letter: tuple(place[a] for a in group) for letter, group in groups.items()}
    return _stored_operand(f"x{number}", "input", dims, named, number)


def _use(p: _Parts, held: _StoredOperand, cells: Sequence[Cell]) -> Use:
    """The element that one iteration touches; `cells` are the operand's, empty for the result."""
    places: list[Expr] = []
    for item, _ in held.view.dims:
        if item in p.matrix:
            places.append(p.matrix[item].var)
        elif not cells:
            places.append(p.axes[int(item[1:])].var)
        else:
            cell = cells[int(item[1:])]
            at = total(p.axes[a].var * step for a, step in cell.terms)
            places.append(at + cell.offset)
    return Use(held.view, tuple(places))


@cache
def _seed(roles: MatrixRoles, *, in_place: bool) -> Seed:
    p = _parts(roles)
    outer = p.named(roles.loops)
    wide = p.named((*roles.wide_m, *roles.wide_n))
    row, col, depth = (p.matrix[x] for x in "mnk")
    body = nest(
        "loops",
        "gemm",
        (*outer, *wide, row, col, depth, *p.named(roles.taps)),
        {"m": row, "n": col, "k": depth},
        _use(p, p.result, ()),
        _use(p, p.left, roles.left.cells),
        _use(p, p.right, roles.right.cells),
    )
    if not wide and not roles.taps:
        space = gemm_space(body, row.name, col.name, depth.name)
    elif in_place:
        space = _addressed_space(p, body)
    else:
        space = _staged_space(p, body)
    held = (p.left, p.right, p.result)
    stored = tuple(h.stored for h in held)
    views = tuple(h.view for h in held if h.view is not h.stored)
    return Seed("loops", (*stored, *views), (space,), _layouts(p), ("x0", "x1"), "y")


def _joinable_axes(p: _Parts) -> tuple[tuple[int, ...], ...]:
    """Sets of window axes to join to the columns: inner ones, no two along one dimension."""
    free = [a for a in p.roles.wide_n if a != p.base["n"]]
    most = _MOST_JOINED - (p.base["n"] is not None)
    found: list[tuple[int, ...]] = [()]
    for count in range(1, min(most, len(free)) + 1):
        chosen = (*free[-count:], *((p.base["n"],) if p.base["n"] is not None else ()))
        if all(len(cell.axes & {*chosen}) <= 1 for cell in p.roles.right.cells):
            found.append(tuple(free[-count:]))
    return tuple(found)


def _columns(p: _Parts) -> tuple[tuple[Step, ...], ...]:
    """Alternatives that fuse window axes into columns and spread one axis over mesh columns."""
    found = []
    for chosen in _joinable_axes(p):
        names = [p.axes[a].name for a in chosen]
        steps = tuple(
            s for name in names for s in (Split(name, tile_factor(name)), Fuse(name, "n"))
        )
        found += [(*steps, Spread(name, "columns")) for name in (p.matrix["n"].name, *names)]
    return tuple(found)


def _staged_space(p: _Parts, body: Nest) -> Space:
    row, col, depth = (p.matrix[x] for x in "mnk")
    return (
        Space(body)
        .split(row, col, depth)
        .spread(row, "rows")
        .spread(depth, "both")
        .choose(*_columns(p))
        .choose(*_orders(p))
        .prefetch(*(u.tensor for u in body.uses))
        .limit(largest=1024, most=5)
    )


def _orders(p: _Parts) -> Choice:
    """Loop orders, vector dimensions, and the loops outside which operands are fetched. Taps with
    no other work between their products form a chain (`ir.chains`).
    """
    outer, wide, taps = p.names
    row, col, depth = (p.matrix[x].name for x in "mnk")
    blocks = ((*outer, row, *wide, col), (*outer, *wide, col, row))
    return tuple(
        (Reorder((*block, depth, *walked)), Vectorize(v), *stages)
        for block, (walked, stages), v in product(blocks, _fetched(p, taps), "mn")
    )


def _fetched(p: _Parts, taps: Sequence[str]) -> list[tuple[tuple[str, ...], tuple[Step, ...]]]:
    """Tap orders, each with the loops outside which operands are fetched. Where windows are joined
    along two axes, taps of the outer axis share one fetch if they are innermost.
    """
    left, right = p.left.view.name, p.right.view.name
    natural = tuple(taps)
    found: list[tuple[tuple[str, ...], tuple[Step, ...]]] = [(natural, ())]
    for tap in taps[-2:]:
        found.append((natural, (Stage(left, tap), Stage(right, tap))))
    if len(taps) > 1:
        *outer, one, last = taps
        found.append(((*outer, last, one), (Stage(left, one), Stage(right, one))))
    if taps:
        found.append((natural, (Stage(left, taps[-1]),)))
    return found


def _addressed_space(p: _Parts, body: Nest) -> Space:
    """For one block of columns and some rows, the products of all taps and terms accumulate into
    one C; operands that are not packed are read in place.
    """
    outer, wide, taps = p.names
    row, col, depth = (p.matrix[x].name for x in "mnk")
    orders = ((row, col, depth, *wide), (depth, row, col, *wide), (depth, *wide, row, col),
              (*wide, row, col, depth))  # fmt: skip
    return (
        Space(body)
        .split(*(p.matrix[x] for x in "mnk"))
        .spread(p.matrix["m"], "rows")
        .spread(p.matrix["k"], "both")
        .choose(*_columns(p))
        .choose(*((Reorder((*outer, *order, *taps)),) for order in orders))
        .vectorize("m")
        .in_place(*(u.tensor for u in body.uses))
        .limit(largest=1024, most=6)
    )


def _layouts(p: _Parts) -> tuple[tuple[tuple[Layout, ...], ...], ...]:
    """Product dimensions innermost, in either order, next to the axes joined to its columns."""
    rows, columns = (p.item(p.result, x) for x in "mn")
    own, terms = p.item(p.right, "n"), p.item(p.right, "k")
    pairs: list[tuple[Layout, ...]] = []
    for chosen in _joinable_axes(p):
        beside = [[p.dimension(held, a) for a in chosen] for held in (p.right, p.result)]
        for right, result in (
            ((terms, *beside[0], own), (rows, *beside[1], columns)),
            ((*beside[0], own, terms), (*beside[1], columns, rows)),
        ):
            pairs.append((*_inside(p.right, right), *_inside(p.result, result)))
    left, depth = p.item(p.left, "m"), p.item(p.left, "k")
    return (
        tuple(dict.fromkeys(pairs)),
        (_inside(p.left, (depth, left)), _inside(p.left, (left, depth))),
    )


def _inside(held: _StoredOperand, items: Sequence[str]) -> tuple[Layout, ...]:
    """The layout with these dimensions innermost, the others in declared order."""
    return held.layout((*(d for d, _ in held.view.dims if d not in items), *items))


# Elementwise gathering: for each step of the gathered axes, the body runs on tiles of the result.
#
# For contractions whose axes leave no worthwhile matrix product (depthwise windows, a single row),
# and for bodies of several operands that are not products. The gathered axes are innermost loops.

_MOST_GATHERED = 2
"""Innermost gathered axes outside which an operand may be fetched whole."""


@seed("contraction", name="elementwise")
def elementwise(op: Definition) -> Seed | None:
    """One elementwise multiply-add per step of the gathered axes; floats only."""
    return _elementwise(op, in_place=False)


@seed("contraction", name="elementwise", addressed=True)
def elementwise_in_place(op: Definition) -> Seed | None:
    """`elementwise` with operands read and written in place."""
    return _elementwise(op, in_place=True)


def _elementwise(op: Definition, *, in_place: bool) -> Seed | None:
    roles = matrix_roles(op)
    if not (op.numerics.is_float and roles.kept):
        return None
    return _elementwise_seed(pattern(roles), op.body, in_place=in_place)


@cache
def _elementwise_seed(roles: MatrixRoles, body: str, *, in_place: bool) -> Seed:
    gathered = tuple(sorted({*roles.k, *roles.taps}))
    axes = {a: axis(f"i{a}", roles.extents[a] if a in roles.taps else Var(f"n{a}"))
            for a in (*roles.kept, *gathered)}  # fmt: skip
    cut = tuple(axes[a] for a in _tiled_axes(roles))
    dims = tuple((f"i{a}", axes[a].extent) for a in roles.kept)
    y = TensorSpec("y", "output", dims)
    uses = [_element(i, cut.cells, axes) for i, cut in enumerate(roles.operands)]
    x = [use.tensor for use in uses]
    made = nest(
        "elementwise",
        "accumulate",
        tuple(axes.values()),
        dict(zip(LETTERS, cut, strict=False)),
        Use(y, tuple(axes[a].var for a in roles.kept), exact=True),
        *uses,
        function="sum",
        expression=body,
    )
    if in_place:
        places = tuple(Stage(t.name, IN_PLACE) for t in (y, *x))
        space = Space(made).split(*cut).choose(places).limit(largest=1 << 31, most=1)
    else:
        beside = [axes[a] for a in roles.kept if axes[a] not in cut]
        space = spread(Space(made).split(*cut), cut)
        space = space.reorder((*cut, *beside, *(axes[a] for a in gathered)))
        space = space.choose(*_fetched_elements(x, beside, [axes[a] for a in gathered]))
        # A large get ahead of many small puts would keep them waiting in the engine's queue.
        space = space.prefetch(y) if beside else space.prefetch(y, *x)
        space = space.limit(largest=1 << 14, most=tile_sizes(len(cut)))
    return Seed("elementwise", (y, *x), (space,), (), tuple(t.name for t in x), "y")


def _tiled_axes(roles: MatrixRoles) -> tuple[int, ...]:
    """The result's axes to tile: no two along one dimension, inner ones first."""
    dims = [cell.axes for operand in roles.operands for cell in operand.cells]
    found: list[int] = []
    for a in reversed(roles.kept):
        if not any(a in dim and dim & {*found} for dim in dims) and len(found) < len(LETTERS):
            found.append(a)
    return tuple(reversed(found))


def _element(number: int, cells: Sequence[Cell], axes: dict[int, Axis]) -> Use:
    dims = tuple((f"d{j}", Var(f"x{number}_{j}")) for j in range(len(cells)))
    places: list[Expr] = [total(axes[a].var * s for a, s in cell.terms) + cell.offset
                          for cell in cells]  # fmt: skip
    return Use(TensorSpec(f"x{number}", "input", dims, operand=number), tuple(places))


def _fetched_elements(
    x: Sequence[TensorSpec], beside: Sequence[Axis], gathered: Sequence[Axis]
) -> list[tuple[Step, ...]]:
    """Alternatives for fetching operands: per step, once for the innermost gathered axes, or once
    for the loops `beside` the tiles, where the windows of one tile overlap.
    """
    inner = [a.name for a in gathered[-_MOST_GATHERED:]]
    found = [(), *(tuple(Stage(t.name, name) for t in x) for name in inner)]
    if beside:
        first, last = beside[0].name, beside[-1].name
        for t, other in (x, reversed(x)):
            found.append((Stage(t.name, first), Stage(other.name, last)))
    return list(dict.fromkeys(found))
