"""Offsets of the operands of a chain's products from those of the first product.

In: a chain and its two factors with the way each is walked. Out: `Links`. Links that continue each
other in both operands merge into one of a larger k, such as the taps in a row of a convolution
kernel if all channels of a pixel are summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as combinations

from tilewright.codegen.artifact import Panels
from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    Const,
    Expr,
    coefficient,
    evaluate,
    free_vars,
    product,
    round_up,
    substitute,
)
from tilewright.ir.chains import Chain
from tilewright.ir.matrix import Matrix
from tilewright.ir.nodes import View


@dataclass(frozen=True)
class Side:
    """One operand of a product: its view, walked by `panels`, or by `form` if there are none."""

    view: View
    form: Matrix
    panels: Panels | None = None

    @property
    def place(self) -> tuple[Expr, Expr]:
        """(offset of the operand's first element, leading dimension or distance of panels)."""
        if self.panels is None:
            return self.form.offset_elements, self.form.leading_dimension
        ranges, panels = self.view.ranges, self.panels
        outside = outside_of(self.view.shape, panels)
        index: Expr = Const(0)
        for d, extent in outside:
            index = index * extent + ranges[d].start
        taps, block = product(e for _, e in outside), block_of(self.view.shape, panels)
        far, near = _apart(ranges[panels.across].start, panels.columns)
        offset = far * (taps * rounded_depth(self.view.shape, panels)) + near * block
        start, index = ranges[panels.depth].start, index * block * panels.together
        within = index + start * (taps * panels.together if panels.block else 1)
        return offset + within * panels.width, panel_distance(self.view.shape, panels)

    def step(self, contiguous: str) -> Expr:
        """Elements from one index of k to the next; 1 in an operand of the `contiguous` order."""
        if self.panels is not None:
            return Const(self.panels.width)
        return Const(1) if self.form.order == contiguous else self.form.leading_dimension


def outside_of(shape: tuple[Expr, ...], panels: Panels) -> list[tuple[int, Expr]]:
    """(dimension, extent) of the dimensions between panels and depth."""
    inside = (panels.across, panels.depth)
    return [(d, e) for d, e in enumerate(shape) if d not in inside]


def _apart(start: Expr, columns: int) -> tuple[Expr, Expr]:
    """Split an index: (terms that are multiples of `columns`, the other terms)."""
    names = free_vars(start)
    near = {v for v in names if evaluate(coefficient(start, v), {}) % columns}
    at_start = substitute(start, dict.fromkeys(names, 0))
    far = substitute(start, dict.fromkeys(near, 0)) - at_start
    return far, substitute(start, dict.fromkeys(names - near, 0))


def panel_distance(shape: tuple[Expr, ...], panels: Panels) -> Expr:
    """Elements from one panel to the next that a product reads."""
    if panels.together > 1:
        return block_of(shape, panels) * panels.width
    taps = product(e for _, e in outside_of(shape, panels))
    return taps * rounded_depth(shape, panels) * panels.width


def block_of(shape: tuple[Expr, ...], panels: Panels) -> Expr:
    """Number of indices of the depth in one block."""
    return Const(panels.block) if panels.block else shape[panels.depth]


def rounded_depth(shape: tuple[Expr, ...], panels: Panels) -> Expr:
    """The depth rounded up to whole blocks."""
    return round_up(shape[panels.depth], panels.block or 1)


def packed_elements(shape: tuple[Expr, ...], panels: Panels) -> Expr:
    """Elements of a tensor or tile in panels."""
    across = round_up(shape[panels.across], panels.columns)
    taps = product(e for _, e in outside_of(shape, panels))
    return across * taps * rounded_depth(shape, panels)


@dataclass(frozen=True)
class Links:
    """A chain's products: offsets of their operands, in elements from the first; `k` of each."""

    a: tuple[Expr, ...]
    b: tuple[Expr, ...]
    k: Expr

    @property
    def count(self) -> int:
        """Number of products that are summed."""
        return len(self.a)


def linked(chain: Chain, a: Side, b: Side) -> Links:
    """The links of a chain. Raises ProgramError if a loop's extent is not constant."""
    found = Links(_offsets(chain, a), _offsets(chain, b), _depth(a.view))
    return _merge_links(found, a.step("row"), b.step("column"))


def _depth(view: View) -> Expr:
    pairs = zip(view.roles, view.ranges, strict=True)
    return product(r.extent for letter, r in pairs if letter == "k")


def _offsets(chain: Chain, side: Side) -> tuple[Expr, ...]:
    offset, _ = side.place
    extents = []
    for f in chain.loops:
        if not isinstance(f.extent, Const):
            raise ProgramError(f"loop {f.var!r} of a chain of products has no constant extent")
        extents.append(f.extent.value)
    names = [f.var for f in chain.loops]
    zeros = dict.fromkeys(names, Const(0))
    steps = [substitute(coefficient(offset, name), zeros) for name in names]
    found = []
    for indices in combinations(*map(range, extents)):
        at: Expr = Const(0)
        for index, step in zip(indices, steps, strict=True):
            at = at + step * index
        found.append(at)
    return tuple(found)


def _merge_links(links: Links, a_step: Expr, b_step: Expr) -> Links:
    """Merge links that follow each other along k into as few as possible, all of equal k."""
    offsets = [(x, y) for x, y in zip(links.a, links.b, strict=True)]
    if not isinstance(links.k, Const):
        return links
    for run in range(links.count, 1, -1):
        if links.count % run:
            continue
        starts = offsets[::run]
        expected = [
            (x + a_step * links.k * i, y + b_step * links.k * i)
            for x, y in starts
            for i in range(run)
        ]
        if expected == offsets:
            return Links(tuple(x for x, _ in starts), tuple(y for _, y in starts), links.k * run)
    return links
