"""Axes of the operands of an elementwise call, in the order in which its loops run over them.

In: views, whose role letters say which dimensions are the same axis, and a primitive. Out: the
strided axes of each operand, letter by letter. Generated code and its price have these loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.common.expr import Const, Expr, product
from tilewright.ir.nodes import View
from tilewright.ir.primitives import Windows, WinogradOutput, WinogradTransform
from tilewright.ir.regions import strides_of


@dataclass(frozen=True)
class StridedAxis:
    """`extent` elements, `stride` elements apart."""

    extent: Expr
    stride: Expr


@dataclass(frozen=True)
class Loop:
    """One loop, and its stride in each operand."""

    extent: Expr
    strides: tuple[Expr, ...]

    def continues(self, inner: Loop) -> bool:
        """True if it goes on in every operand where a run of the `inner` loop ends."""
        pairs = zip(self.strides, inner.strides, strict=True)
        return all(own == inner.extent * step for own, step in pairs)


Axes: TypeAlias = dict[str, list[StridedAxis]]
"""A view's dimensions of more than one index by role letter, outermost first."""
Paired: TypeAlias = list[tuple[str, tuple[list[StridedAxis], ...]]]
"""For each letter, outermost first, the axes of every operand, which may be divided differently."""


def axes_of(view: View) -> Axes:
    """The view's dimensions; those without a role are left out."""
    axes: Axes = {}
    for role, r, stride in zip(view.roles, view.ranges, strides_of(view.shape), strict=True):
        mine = axes.setdefault(role, [])
        if r.extent != Const(1):
            mine.append(StridedAxis(r.extent, r.step * stride))
    axes.pop(".", None)
    return axes


def window_axes(
    windows: Windows, axes: Sequence[Axes], row_stride: Expr, column_stride: Expr
) -> Paired:
    """Of a copy that gathers windows: loops over their points overlap in the pixels. The second
    `axes`, those of the pixels, lack rows and columns, whose strides are given.
    """
    result, pixels = axes
    counts, own = (Const(windows.rows), Const(windows.cols)), result.get("x", [])
    if len(own) == 1:  # the result may have room for more points
        steps = own[0].stride * windows.cols, own[0].stride
        own = [StridedAxis(n, step) for n, step in zip(counts, steps, strict=True)]
    own = [a for a in own if a.extent != Const(1)]
    strides = row_stride * windows.row_step, column_stride * windows.col_step
    points = [StridedAxis(n, s) for n, s in zip(counts, strides, strict=True) if n != Const(1)]
    tiles = result.get("t", [])
    across = _along(tiles, column_stride * windows.stride)
    # The innermost points stay beside the dimensions they may merge with in the result.
    outside = max(0, len(points) - 1)
    special = {"x": (own[-1:], points[-1:]), "t": (tiles, across)}
    inner: Paired = [
        (letter, special.get(letter, (mine, pixels.get(letter, []))))
        for letter, mine in result.items()
    ]
    return [("x", (own[:outside], points[:outside])), *inner]


def transform_axes(
    transform: WinogradTransform, axes: Sequence[Axes], column_stride: Expr
) -> Paired:
    """Of a transform: tiles, then every axis that it leaves alone. `axes` lack the points."""
    flat = 1 if isinstance(transform, WinogradOutput) else 0
    tiles = axes[flat].get("t", [])
    steps = _along(tiles, column_stride * transform.output_tile)
    both = (tiles, steps) if flat == 0 else (steps, tiles)
    letters = dict.fromkeys(a for own in axes for a in own if a != "t")
    others: Paired = [(a, (axes[0].get(a, []), axes[1].get(a, []))) for a in letters]
    return [("t", both), *others]


def _along(tiles: Sequence[StridedAxis], stride: Expr) -> list[StridedAxis]:
    """All tiles as one axis, if there are any."""
    return [StridedAxis(product(a.extent for a in tiles), stride)] if tiles else []
