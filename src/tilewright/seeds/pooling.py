"""Seeds of convolutions whose results are pooled on the finished tile, before it is put.

In: a seed whose last nest makes whole windows of its result in one call, and windows that do not
overlap. Out: the same seed with the windows for its result, a fraction of what would be put; None
where a tile may end within a window. Winograd's transform back gives tiles of 2 x 2 or 4 x 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log2, prod
from typing import Literal, TypeAlias, get_args

from tilewright.common.expr import Const, Expr, coefficient, free_vars, total
from tilewright.ir.primitives import Map
from tilewright.ir.scalar import Apply, Element, Number, Scalar
from tilewright.ops import Op, Pool2d
from tilewright.ops.op import Shape
from tilewright.seeds.nest import Axis, Nest, Pooling, TensorSpec, Use
from tilewright.seeds.space import Seed

Pooled: TypeAlias = Literal["max", "average"]
POOLED: tuple[Pooled, ...] = get_args(Pooled)
UNPOOLED = "unpooled"
"""The tensor whose windows are pooled; only scratchpads hold it."""
MOST_PLACES = 4
"""Elements of a window; the nine of a 3 x 3 window are too many operands for a map routine."""


@dataclass(frozen=True)
class PoolWindows:
    """Adjacent windows: the function over each, and its extents in rows and columns."""

    function: Pooled
    extents: tuple[int, int]

    @property
    def expression(self) -> str:
        """Expression over the elements of one window, row by row. NaN is never the largest."""
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
        """The shape of the result for images of that shape."""
        images, channels, rows, columns = shape
        return images, channels, rows // self.extents[0], columns // self.extents[1]


def windows_of(pool: Pool2d) -> PoolWindows | None:
    """Fusable windows of `pool`; None if they overlap, skip elements or have no routine."""
    side_by_side = pool.kernel == pool.stride and not any(pool.padding)
    rests = (pool.height % pool.kernel[0], pool.width % pool.kernel[1])
    if not side_by_side or any(rests) or not 1 < prod(pool.kernel) <= MOST_PLACES:
        return None
    return PoolWindows(pool.reduction, pool.kernel)


def result_shape(seed: Seed, op: Op) -> Shape:
    """Shape of a seed's result, pooled if its nest pools."""
    pooling = seed.spaces[-1].nest.pooling
    if pooling is None:
        return op.out_shape
    images, channels, rows, columns = op.out_shape
    extents = dict(pooling.window)
    return images, channels, rows // extents["rows"], columns // extents["cols"]


def with_pooling(seed: Seed, windows: PoolWindows) -> Seed | None:
    """The seed with these windows of its result for its result."""
    *before, last = seed.spaces
    nest, extents = last.nest, dict(zip(("rows", "cols"), windows.extents, strict=True))
    whole = nest.finished
    if whole.tensor.name != seed.result or nest.pooling or nest.epilogue:
        return None
    if not extents.keys() <= dict(whole.tensor.dims).keys():
        return None
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
    """(an axis over the windows in one call, the index of a window, that of its first place), of a
    dimension whose places in one call are those of an axis that is taken whole; None where they
    may be no whole windows.
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
    """The nest whose finished result is a tensor that only scratchpads hold."""
    if nest.after:
        return replace(nest, after=replace(nest.after, output=Use(inside, nest.finished.indices)))
    return replace(nest, output=Use(inside, nest.finished.indices))
