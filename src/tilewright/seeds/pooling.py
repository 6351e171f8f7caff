"""Seeds of convolutions whose results are pooled on the finished tile, before it is put.

In: a seed whose last nest computes whole windows of its result in one call, and windows that do not
overlap. Out: the same seed with pooled windows as its result, so that less is put; None where a
tile may end within a window. Winograd's output transform yields 2 x 2 or 4 x 4 tiles. Where loops
walk over single pixels, additional inner loops run over the places of a window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf, log2, prod
from typing import Literal, TypeAlias, get_args

from tilewright.common.expr import Const, Expr, Var, coefficient, free_vars, substitute, total
from tilewright.ir.primitives import Map
from tilewright.ir.scalar import Apply, Element, Number, Scalar
from tilewright.ops import Op, Pool2d
from tilewright.ops.op import Shape
from tilewright.seeds.nest import Axis, Nest, Pooling, TensorSpec, Use
from tilewright.seeds.space import Alternative, Seed
from tilewright.seeds.steps import Layout, Reorder, Split, Spread, Stage, Step, Walk

Pooled: TypeAlias = Literal["max", "average"]
POOLED: tuple[Pooled, ...] = get_args(Pooled)
UNPOOLED = "unpooled"
"""The tensor before pooling; it exists only in scratchpads."""
_NAMES = "rows", "cols"
MOST_PLACES = 4
"""Most elements of a window; nine, for 3 x 3, are too many operands for a map routine."""


@dataclass(frozen=True)
class PoolWindows:
    """Adjacent windows: the function over each, and its extents in rows and columns."""

    function: Pooled
    extents: tuple[int, int]

    @property
    def expression(self) -> str:
        """Expression over the elements of one window, row by row. The maximum ignores NaN."""
        places = prod(self.extents)
        elements = [Element(i) for i in range(places)]
        found: Scalar
        if self.function == "max":
            found = Number(-inf)
            for element in elements:
                found = Apply("if", (Apply("<", (found, element)), element, found))
            return str(found)
        found = elements[0]
        for element in elements[1:]:
            found = Apply("+", (found, element))
        if log2(places).is_integer():  # then the product is the quotient
            return str(Apply("*", (found, Number(1 / places))))
        return str(Apply("/", (found, Number(float(places)))))

    def pooled(self, shape: Shape) -> Shape:
        """Shape of the pooled result for images of `shape`."""
        images, channels, rows, columns = shape
        return images, channels, rows // self.extents[0], columns // self.extents[1]


def windows_of(pool: Pool2d) -> PoolWindows | None:
    """Fusable windows of `pool`; None if they overlap, skip elements or have no routine."""
    side_by_side = pool.kernel == pool.stride and not any(pool.padding)
    rests = (pool.height % pool.kernel[0], pool.width % pool.kernel[1])
    if not side_by_side or any(rests) or not 1 < prod(pool.kernel) <= MOST_PLACES:
        return None
    return PoolWindows(pool.reduction, pool.kernel)


def pooled_extents(seed: Seed) -> dict[str, int]:
    """Rows and columns of the windows that the seed's nest pools, by dimension name."""
    pooling = seed.spaces[-1].nest.pooling
    return dict(zip(_NAMES, (n for _, n in pooling.window), strict=True)) if pooling else {}


def result_shape(seed: Seed, op: Op) -> Shape:
    """Shape of a seed's result, pooled if its nest pools."""
    images, channels, rows, columns = op.out_shape
    extents = pooled_extents(seed)
    return images, channels, rows // extents.get("rows", 1), columns // extents.get("cols", 1)


def with_pooling(seed: Seed, windows: PoolWindows) -> Seed | None:
    """The seed with its result pooled by these windows, or None."""
    *before, last = seed.spaces
    nest, extents = last.nest, dict(zip(_NAMES, windows.extents, strict=True))
    whole = nest.finished
    if whole.tensor.name != seed.result or nest.pooling or nest.epilogue:
        return None
    if not extents.keys() <= dict(whole.tensor.dims).keys():
        return None
    if (walked := _walked(seed, extents)) is not None:
        return _by_places(seed, extents, walked, windows.expression)
    names = [name for name, _ in whole.tensor.dims]
    axes, pooled, source = [], [], []
    for name, index in zip(names, whole.indices, strict=True):
        cut = (
            _windows_in_call(nest, index, extents[name])
            if name in extents
            else (None, index, index)
        )
        if cut is None:
            return None
        axes += [cut[0]] if cut[0] else []
        pooled.append(cut[1])
        source.append(cut[2])
    dims = tuple((d, e // extents[d] if d in extents else e) for d, e in whole.tensor.dims)
    spec = replace(whole.tensor, dims=dims)
    inside = replace(whole.tensor, name=UNPOOLED, kind="scratch")
    pooling = Pooling(
        Map(windows.expression),
        Use(spec, tuple(pooled)),
        Use(inside, tuple(source)),
        tuple(extents.items()),
    )
    pooling_nest = replace(_renamed(nest, inside), pooling=pooling, axes=(*nest.axes, *axes))
    return replace(
        seed,
        tensors=tuple(spec if t == whole.tensor else t for t in seed.tensors),
        spaces=(*before, replace(last, nest=pooling_nest)),
        layouts=seed.layouts_beside([UNPOOLED]),
    )


def _windows_in_call(nest: Nest, index: Expr, extent: int) -> tuple[Axis | None, Expr, Expr] | None:
    """(axis over the windows in one call, index of a window, index of its first place) along one
    dimension of the result, where the call takes an axis whole; None where it might cut windows.
    """
    used = [a for a in nest.axes if a.name in free_vars(index)]
    inner = [a for a in used if a.inner]
    if len(inner) != 1 or not isinstance(inner[0].extent, Const):
        return None
    (places,), count = inner, inner[0].extent.value // extent
    steps = {a.name: coefficient(index, a.name) for a in used}
    outer = [(a, steps[a.name]) for a in used if a is not places]
    if places.extent != Const(count * extent) or steps[places.name] != Const(1):
        return None
    if any(not isinstance(step, Const) or step.value % extent for _, step in outer):
        return None
    window: Expr = total(a.var * (step // extent) for a, step in outer)
    if count == 1:
        return None, window, window * extent
    within = Axis(f"{places.name}_window", Const(count), inner=True)
    first = total((*(a.var * step for a, step in outer), within.var * extent))
    return within, window + within.var, first


def _renamed(nest: Nest, inside: TensorSpec) -> Nest:
    """The nest with its finished result in a scratchpad-only tensor."""
    if nest.after:
        return replace(nest, after=replace(nest.after, output=Use(inside, nest.finished.indices)))
    return replace(nest, output=Use(inside, nest.finished.indices))


def _walked(seed: Seed, names: Iterable[str]) -> dict[str, tuple[str, str]] | None:
    """For each of these result dimensions, its axis and the loop that walks over its single
    indices; None if one has no such loop.
    """
    last = seed.spaces[-1]
    steps = [s for choice in last.choices for steps in choice for s in steps]
    loops = {s.axis: s.over for s in steps if isinstance(s, Walk)}
    dims = (name for name, _ in last.nest.finished.tensor.dims)
    places = dict(zip(dims, last.nest.finished.indices, strict=True))
    axes = {name: place.name for name in names if isinstance(place := places[name], Var)}
    found = {name: (axis, loops[axis]) for name, axis in axes.items() if axis in loops}
    return found if found.keys() == {*names} and last.nest.after is None else None


def _by_places(
    seed: Seed, extents: Mapping[str, int], walked: Mapping[str, tuple[str, str]], expression: str
) -> Seed:
    """The seed with axes that count windows, a row of windows per tile, and loops over the places
    of a window. The finished result is stored place by place: one element of all windows,
    contiguous.
    """
    *before, last = seed.spaces
    nest, places = _nest_by_places(last.nest, extents, walked, expression)
    rows, _ = (axis for axis, _ in walked.values())
    loops = {loop: place for (_, loop), place in zip(walked.values(), places, strict=True)}
    choices = tuple(
        tuple(_over_places(steps, rows, loops, seed.result) for steps in choice)
        for choice in last.choices
    )
    assert nest.pooling is not None
    inner, made = tuple(name for name, _ in nest.pooling.window), nest.pooling.output.tensor

    def laid(x: Layout) -> tuple[Layout, ...]:
        return (x, Layout(UNPOOLED, (*inner, *x.dims))) if x.tensor == seed.result else (x,)

    return replace(
        seed,
        tensors=tuple(made if t.name == made.name else t for t in seed.tensors),
        spaces=(*before, replace(last, nest=nest, choices=choices)),
        layouts=tuple(
            tuple(tuple(own for x in chosen for own in laid(x)) for chosen in choice)
            for choice in seed.layouts
        ),
    )


def _nest_by_places(
    nest: Nest, extents: Mapping[str, int], walked: Mapping[str, tuple[str, str]], expression: str
) -> tuple[Nest, tuple[str, ...]]:
    """The pooling nest, whose row axis has no role, and the names of its axes over places."""
    whole, counts = nest.finished, {axis: extents[name] for name, (axis, _) in walked.items()}
    places = tuple(Axis(f"{axis}_place", Const(count)) for axis, count in counts.items())
    moved = {
        axis: Var(axis) * count + place.var
        for (axis, count), place in zip(counts.items(), places, strict=True)
    }

    def own(use: Use) -> Use:
        return replace(use, indices=tuple(substitute(i, moved) for i in use.indices))

    before = nest.before
    if before:
        before = replace(before, output=own(before.output), source=own(before.source))
    dims = tuple((d, e // extents.get(d, 1)) for d, e in whole.tensor.dims)
    window = tuple((f"{name}_places", extents[name]) for name in walked)
    within = tuple((name, Const(count)) for name, count in window)
    inside = TensorSpec(UNPOOLED, "scratch", (*dims, *within))
    output = Use(replace(whole.tensor, dims=dims), whole.indices)
    source = Use(inside, (*whole.indices, *(Const(0) for _ in within)))
    axes = (replace(a, extent=a.extent // counts.get(a.name, 1)) for a in nest.axes)
    made = replace(
        nest,
        axes=(*axes, *places),
        roles=tuple((axis, letter) for axis, letter in nest.roles if axis != next(iter(counts))),
        output=Use(inside, (*whole.indices, *(place.var for place in places))),
        inputs=tuple(map(own, nest.inputs)),
        before=before,
        pooling=Pooling(Map(expression), output, source, window),
    )
    return made, tuple(place.name for place in places)


def _over_places(
    steps: Alternative, rows: str, loops: Mapping[str, str], result: str
) -> Alternative:
    """The steps for a nest whose `rows` axis is a loop. `loops` maps the loop of each walk, rows
    first, to its loop over places. The walk over rows becomes its loop over places; the other
    encloses its own, outside which the result is staged.
    """
    inner, outer = loops.values()
    found = list[Step]()
    for step in steps:
        match step:
            case Split(axis) | Spread(axis) | Walk(axis) if axis == rows:
                pass
            case Reorder(order):
                own = (
                    (loop, loops[loop]) if loops.get(loop) == outer else (loop,) for loop in order
                )
                named = (loop for pair in own for loop in pair)
                found.append(Reorder(tuple(inner if loops.get(o) == inner else o for o in named)))
            case Stage(tensor, at) if loops.get(at) == inner:
                found.append(Stage(tensor, outer if tensor == result else inner))
            case _:
                found.append(step)
    return tuple(found)
