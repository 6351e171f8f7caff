"""Gathering element by element: for each step of the gathered axes the body on tiles of the result.

For contractions whose axes leave no matrix product worth the name (depthwise windows, one row), and
for bodies of several operands that are no product. The gathered axes are loops, innermost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tilewright.common.expr import Expr, Var, total
from tilewright.ops.definition import Definition
from tilewright.ops.matrix_roles import Cell, MatrixRoles, matrix_roles
from tilewright.seeds.contraction import pattern
from tilewright.seeds.mapping import LETTERS, spread, tile_sizes
from tilewright.seeds.nest import Axis, TensorSpec, Use, axis, nest
from tilewright.seeds.space import Seed, Space, seed
from tilewright.seeds.steps import IN_PLACE, Stage, Step

_MOST_GATHERED = 2
"""Innermost gathered axes outside which an operand may be fetched whole."""


@seed("contraction", name="elementwise")
def elementwise(op: Definition) -> Seed | None:
    """A multiplication and an addition for each step, on floats."""
    return _elementwise(op, in_place=False)


@seed("contraction", name="elementwise", addressed=True)
def elementwise_in_place(op: Definition) -> Seed | None:
    """Likewise, with operands where they lie."""
    return _elementwise(op, in_place=True)


def _elementwise(op: Definition, *, in_place: bool) -> Seed | None:
    roles = matrix_roles(op)
    if not (op.numerics.is_float and roles.kept):
        return None
    return _seed(pattern(roles), op.body, in_place=in_place)


@cache
def _seed(roles: MatrixRoles, body: str, *, in_place: bool) -> Seed:
    gathered = tuple(sorted({*roles.k, *roles.taps}))
    axes = {a: axis(f"i{a}", roles.extents[a] if a in roles.taps else Var(f"n{a}"))
            for a in (*roles.kept, *gathered)}  # fmt: skip
    cut = tuple(axes[a] for a in _tiled_axes(roles))
    dims = tuple((f"i{a}", axes[a].extent) for a in roles.kept)
    y = TensorSpec("y", "output", dims)
    uses = [_use(i, cut.cells, axes) for i, cut in enumerate(roles.operands)]
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
        space = space.choose(*_fetched(x, beside, [axes[a] for a in gathered]))
        # A large get ahead of many small puts would keep them waiting in the engine's queue.
        space = space.prefetch(y) if beside else space.prefetch(y, *x)
        space = space.limit(largest=1 << 14, most=tile_sizes(len(cut)))
    return Seed("elementwise", (y, *x), (space,), (), tuple(t.name for t in x), "y")


def _tiled_axes(roles: MatrixRoles) -> tuple[int, ...]:
    """The result's axes to tile, no two along one dimension; inner ones are preferred."""
    dims = [cell.axes for operand in roles.operands for cell in operand.cells]
    found: list[int] = []
    for a in reversed(roles.kept):
        if not any(a in dim and dim & {*found} for dim in dims) and len(found) < len(LETTERS):
            found.append(a)
    return tuple(reversed(found))


def _use(number: int, cells: Sequence[Cell], axes: dict[int, Axis]) -> Use:
    dims = tuple((f"d{j}", Var(f"x{number}_{j}")) for j in range(len(cells)))
    places: list[Expr] = [total(axes[a].var * s for a, s in cell.terms) + cell.offset
                          for cell in cells]  # fmt: skip
    return Use(TensorSpec(f"x{number}", "input", dims, operand=number), tuple(places))


def _fetched(
    x: Sequence[TensorSpec], beside: Sequence[Axis], gathered: Sequence[Axis]
) -> list[tuple[Step, ...]]:
    """Operands fetched step by step, for the innermost gathered axes at once, or for the loops
    `beside` the tiles: windows of one tile share most of their places.
    """
    inner = [a.name for a in gathered[-_MOST_GATHERED:]]
    found = [(), *(tuple(Stage(t.name, name) for t in x) for name in inner)]
    if beside:
        first, last = beside[0].name, beside[-1].name
        for t, other in (x, reversed(x)):
            found.append((Stage(t.name, first), Stage(other.name, last)))
    return list(dict.fromkeys(found))
