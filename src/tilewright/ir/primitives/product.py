"""The matrix product, the only collective primitive: the local blocks of all cores form one product
(swATOP 4.1 and appendix, swDNN Fig. 3).

Windows of a kernel as primitives: gathering them from pixels (im2col), and summing over them.

Axes: rows r and columns c of pixels, points x of a window, windows t side by side, and lines u of
windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
from msgspec.structs import replace

from tilewright.common.dtypes import DType
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Value
from tilewright.common.fixed_point import exact_product
from tilewright.ir.matrix import Matrix, as_view, matrix_form
from tilewright.ir.nodes import Operand, Program
from tilewright.ir.place import Place
from tilewright.ir.primitive import Argument, Array, Primitive
from tilewright.ir.primitives.registry import register
from tilewright.ir.printer import print_operand
from tilewright.ir.verify_types import check_one_type, element_types

Letter: TypeAlias = Literal["m", "n"]
_ROLES = (("m", "n"), ("m", "k"), ("k", "n"))


@register
class MatrixProduct(Primitive, frozen=True):
    """C += A B, vectorised along m or n.

    `dtype` is the element type of the routine. If the operand that is loaded by vectors is not
    contiguous along them, the routine packs it into the buffer `workspace`.
    """

    name: ClassVar[str] = "gemm"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("mn", "accumulates"),
        Argument("mk"),
        Argument("kn"),
    )
    closed: ClassVar[bool] = True

    vector: Letter | None = None
    dtype: str | None = None
    workspace: str | None = None

    @property
    def computed_in(self) -> str | None:
        return self.dtype

    @property
    def along(self) -> Letter:
        """The vectorised dimension: m by default."""
        return self.vector or "m"

    @property
    def across(self) -> Letter:
        """The other dimension of the result."""
        return "m" if self.along == "n" else "n"

    @property
    def loaded(self) -> int:
        """The number of the operand that is loaded by vectors; the other factor is broadcast."""
        return 2 if self.along == "n" else 1

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        c, a, b = operands
        whole = self.on_mesh(a, b, np.matmul if c.dtype.kind == "f" else exact_product)
        total: Array = c + whole.astype(c.dtype, copy=False)
        return total

    @staticmethod
    def on_mesh(a: Array, b: Array, multiply: Callable[[Array, Array], Array]) -> Array:
        """The product of matrices that are distributed over a mesh in blocks, one per core."""
        rows, columns, m, k = a.shape
        n = b.shape[3]
        whole_a = a.transpose(0, 2, 1, 3).reshape(rows * m, columns * k)
        whole_b = b.transpose(0, 2, 1, 3).reshape(rows * b.shape[2], columns * n)
        return multiply(whole_a, whole_b).reshape(rows, m, columns, n).transpose(0, 2, 1, 3)

    def flops(self, dims: Mapping[str, Value], mesh_columns: int) -> Value:
        """Operations of a core; k runs over the blocks of a whole mesh row (swDNN Fig. 3)."""
        return 2 * dims["m"] * dims["n"] * dims["k"] * mesh_columns

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        """Integers may be narrower than the sums, which need the products' fraction bits."""
        kinds = element_types(operands, place)
        if any(kind.is_float for kind in kinds):
            check_one_type(self, operands, place)
        else:
            _check_integers(operands, kinds, place)
        if place.stage == "seed":
            return
        try:
            self.matrices(operands, place.program, runs=place.in_place)
        except ProgramError as error:
            raise place.error(error.message, error.fix) from error
        for name in self.buffers():
            place.buffer(name)

    def matrices(
        self, operands: tuple[Operand, ...], program: Program, *, runs: bool = False
    ) -> tuple[Matrix, ...]:
        """The matrices C, A and B. With `runs`, C and the factor that is not loaded by vectors may
        have runs along `across`. Raises as `matrix_form` does.
        """
        found = []
        for operand, roles in zip(operands, _ROLES, strict=True):
            broken = self.across if runs else ""
            found.append(matrix_form(as_view(operand, program), *roles, runs=broken))
        return tuple(found)

    def buffers(self) -> tuple[str, ...]:
        return (self.workspace,) if self.workspace else ()

    def renamed(self, name: Callable[[str], str]) -> Self:
        return replace(self, workspace=name(self.workspace)) if self.workspace else self


def _check_integers(operands: tuple[Operand, ...], kinds: list[DType], place: Place) -> None:
    sums, a, b = kinds
    for operand, kind in zip(operands, kinds, strict=True):
        if kind.size_bytes > sums.size_bytes:
            raise place.error(
                f"{print_operand(operand)} is of {kind}, wider than the sums of {sums}",
                "give the sums as many bits",
            )
    if sums.fraction_bits != a.fraction_bits + b.fraction_bits:
        raise place.error(
            f"products of {a} and {b} have {a.fraction_bits + b.fraction_bits} fraction bits, "
            f"the sums of {sums} have {sums.fraction_bits}",
            "give the sums as many",
        )


class WindowPrimitive(Primitive, frozen=True):
    """A primitive on windows. Point (i, j) of window t is the pixel in row i `row_step` and column
    t `stride` + j `col_step`. A window has `rows` x `cols` points in row-major order.
    """

    rows: int
    cols: int
    stride: int = 1
    row_step: int = 1
    col_step: int = 1

    def points(self, x: Array, windows: int, lines: int = 1, down: int = 1) -> Iterator[Array]:
        """For each point, the pixels of all windows, (u, t, rest), out of pixels (r, c, rest);
        `lines` lines of `windows` windows are `down` rows apart.
        """
        height, width = (lines - 1) * down + 1, (windows - 1) * self.stride + 1
        for i, j in product(range(self.rows), range(self.cols)):
            top, left = i * self.row_step, j * self.col_step
            yield x[:, :, top : top + height : down, left : left + width : self.stride]

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_one_type(self, operands, place)


@register
class Windows(WindowPrimitive, frozen=True):
    """The points of each window (im2col); further elements of the result stay unchanged."""

    name: ClassVar[str] = "windows"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("xt", "writes"), Argument("rc"))

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, x = operands  # x: (r, c, rest), out: (x, t, rest)
        found = out.copy()
        for number, point in enumerate(self.points(x, out.shape[3])):
            found[:, :, number] = point[:, :, 0]
        return found


@register
class WindowSums(WindowPrimitive, frozen=True):
    """The sum over points and terms k of each window times factors without axes u and t; lines of
    windows are `row_stride` rows apart.
    """

    row_stride: int = 1

    name: ClassVar[str] = "window_sums"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("ut", "writes"),
        Argument("rck"),
        Argument("xk"),
    )

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, x, w = operands  # out: (u, t, rest), x: (r, c, k, rest), w: (x, k, rest)
        found, (lines, windows) = np.zeros_like(out), out.shape[2:4]
        for number, point in enumerate(self.points(x, windows, lines, self.row_stride)):
            found += (point * w[:, :, number, None, None]).sum(axis=4)
        return found

    def flops(self, dims: Mapping[str, Value], mesh_columns: int) -> Value:
        return 2 * dims["elements"] * self.rows * self.cols * dims["k"]
