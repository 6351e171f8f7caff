"""Winograd's transforms of pixels, kernels and results as primitives; `ir.winograd` computes the
matrices.

Axes: rows r and columns c of pixels, points x of a transformed tile, tiles t.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tilewright.ir.nodes import Operand
from tilewright.ir.place import Place
from tilewright.ir.primitive import Argument, Array, Primitive
from tilewright.ir.primitives.registry import register
from tilewright.ir.verify_types import check_floating
from tilewright.ir.winograd import Transforms, points_of, transforms


class WinogradTransform(Primitive, frozen=True):
    """A transform for output tiles of `output_tile` rows and columns and 3 x 3 kernels.

    `points` are the finite interpolation points; None for the textbook's.
    """

    output_tile: int
    points: str | None = None

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_floating(self, operands, place)

    @property
    def finite_points(self) -> str:
        """The finite points; raises ProgramError if they do not suit the tile."""
        return points_of(self.output_tile, self.points)

    @property
    def transforms(self) -> Transforms:
        """The matrices; raises as `finite_points` does."""
        return transforms(self.finite_points)


@register
class WinogradInput(WinogradTransform, frozen=True):
    """B^T d B of each window of pixels."""

    name: ClassVar[str] = "winograd_input"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("xt", "writes"), Argument("rc"))

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, x = operands  # x: (r, c, rest), out: (x, t, rest)
        b = self.transforms.input
        window = _windows(x, 3, len(b), self.output_tile)  # (R, C, r, t, rest..., c)
        transformed: Array = np.einsum("ir,jc,RSrt...c->RSijt...", b, b, window)
        return np.asarray(transformed.reshape(out.shape), out.dtype)


@register
class WinogradFilter(WinogradTransform, frozen=True):
    """G g G^T of each kernel."""

    name: ClassVar[str] = "winograd_filter"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("x", "writes"), Argument("rc"))

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, w = operands  # w: (r, c, rest), out: (x, rest)
        g = self.transforms.filter
        transformed: Array = np.einsum("ir,jc,RSrc...->RSij...", g, g, w)
        return np.asarray(transformed.reshape(out.shape), out.dtype)


@register
class WinogradOutput(WinogradTransform, frozen=True):
    """A^T m A of the products at each point, over the divisor."""

    name: ClassVar[str] = "winograd_output"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("rc", "writes"), Argument("xt"))

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, product = operands  # product: (x, t, rest), out: (r, c, rest)
        found = self.transforms
        transformed = _both_ways(found.output, product, found.points)
        return (transformed / found.divisor).reshape(out.shape).astype(out.dtype)

    def dependence(self, operands: tuple[Array, ...]) -> Array:
        """As `meaning`, but products with a factor of 0 do not count as read: only the last output
        reads those at infinity.
        """
        out, product = operands
        found = self.transforms
        factors, unknown = (found.output != 0).astype(float), np.isnan(product).astype(float)
        reads = _both_ways(factors, unknown, found.points)
        return np.where(reads > 0, np.nan, 0.0).reshape(out.shape)


def _both_ways(a: Array, product: Array, points: int) -> Array:
    """A^T m A of the products at each point."""
    split = product.reshape(*product.shape[:2], points, points, *product.shape[3:])
    found: Array = np.einsum("ri,cj,RSijt...->RSrtc...", a, a, split)
    return found


def _windows(array: Array, axis: int, size: int, stride: int) -> Array:
    """Overlapping windows along `axis`; the new last axis is the position within a window."""
    view = np.lib.stride_tricks.sliding_window_view(array, size, axis=axis)
    index = [slice(None)] * view.ndim
    index[axis] = slice(None, None, stride)
    return view[tuple(index)]
