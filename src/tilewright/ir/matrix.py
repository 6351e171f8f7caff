"""Views as matrices that a gemm kernel can address by a base, a leading dimension and unit stride.

In: a view whose roles assign dimensions to the matrix's rows and columns. Out: the matrix's offset
in the buffer slot, its leading dimension and its order, as expressions (the program may be
parametric). A tile used in place is a view of its whole tensor. These are the parameters of
swATOP's DGEMM primitive (4.4 and appendix: base pointer, M, N, K, leading dimensions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, assert_never

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, product
from tilewright.ir.nodes import Operand, Program, Range, Tile, View
from tilewright.ir.printer import print_operand, print_range
from tilewright.ir.regions import strides_of

Order = Literal["row", "column"]
_BEGIN = Const(0)


@dataclass(frozen=True)
class Matrix:
    """A matrix in a slot, with element (i, j) at `offset_elements + i * leading_dimension + j` in
    order "row", and at `offset_elements + j * leading_dimension + i` in order "column".

    If the outer index is split into `runs`, these have a distance of their own.
    """

    offset_elements: Expr
    leading_dimension: Expr
    order: Order
    runs: Runs | None = None


@dataclass(frozen=True)
class Runs:
    """Groups of `length` indices of a role. Indices are a leading dimension apart within a run, and
    runs begin `distance_elements` apart. The first index is number `first` of its run.

    An example is the pixels of several rows of an image, with part of each row.
    """

    length: Expr
    distance_elements: Expr
    first: Expr = _BEGIN


def as_view(operand: Operand, program: Program) -> View:
    """A view as it is; a tile as the view of a slot that holds its tensor."""
    match operand:
        case View():
            return operand
        case Tile(tensor, ranges, roles):
            return View(tensor, Const(0), program.tensor(tensor).shape, ranges, roles)
        case _:
            assert_never(operand)


@dataclass(frozen=True)
class _Dimensions:
    """The view's strides in elements, and the dimensions wider than one index, outermost first."""

    view: View
    strides: tuple[Expr, ...]
    wide: tuple[int, ...]

    def of(self, role: str) -> list[int]:
        return [d for d in self.wide if self.view.roles[d] == role]


def matrix_form(view: View, role_rows: str, role_columns: str, runs: str = "") -> Matrix:
    """The matrix form of `view`; dimensions of extent 1 are ignored.

    The dimensions of a role must be adjacent and form one index: all but the outermost are covered
    whole. The inner role must have stride 1; only an outer role of one dimension may have steps. If
    a role has extent 1, the order follows the storage order of the dimensions where possible. If
    the outer role is `runs`, its second dimension may be covered in part or be separated from the
    first. Raises ProgramError naming the dimension that breaks the form.

    >>> from tilewright.common.expr import Const, Var
    >>> from tilewright.ir.nodes import at
    >>> k, m = Var("k"), Var("m")
    >>> a = View("a", Const(0), (Const(3), k, m), (at(1, 1), at(0, k), at(0, m)), ".km")
    >>> form = matrix_form(a, "m", "k")
    >>> str(form.offset_elements), str(form.leading_dimension), form.order
    ('k * m', 'm', 'column')
    """
    _check_ranks(view)
    strides = strides_of(view.shape)
    wide = tuple(d for d, r in enumerate(view.ranges) if r.extent != Const(1))
    dimensions = _Dimensions(view, strides, wide)
    for d in wide:
        _check_dimension(view, d, (role_rows, role_columns))
    order = _order(dimensions, role_rows, role_columns)
    outer, inner = (role_rows, role_columns) if order == "row" else (role_columns, role_rows)
    found = _runs(dimensions, outer) if outer == runs else None
    for role in (role_rows, role_columns):
        in_runs = role == outer and found is not None
        _check_collapsible(dimensions, role, dimensions.of(role)[in_runs:])
    if found is None:
        _check_steps(dimensions, outer)
    _check_unit_stride(dimensions, inner)
    offset: Expr = Const(0)
    for r, stride in zip(view.ranges, strides, strict=True):
        offset = offset + r.start * stride
    return Matrix(offset, _leading_dimension(dimensions, outer, inner), order, found)


def _runs(dimensions: _Dimensions, role: str) -> Runs | None:
    """The runs of a role of several dimensions; None if the second is covered whole and adjacent to
    the first.
    """
    view, (first, *others) = dimensions.view, dimensions.of(role) or [0]
    if not others:
        return None
    outer, inner = view.ranges[first], view.ranges[others[0]]
    apart = any(view.shape[d] != Const(1) for d in range(first + 1, others[0]))
    whole = inner == Range(_BEGIN, view.shape[others[0]], Const(1))
    if whole and not apart and outer.step == Const(1):
        return None
    length = product(view.ranges[d].extent for d in others)
    return Runs(length, dimensions.strides[first] * outer.step)


def _check_ranks(view: View) -> None:
    if len(view.ranges) != len(view.shape) or len(view.roles) != len(view.shape):
        raise ProgramError(
            f"view {print_operand(view)} has {len(view.shape)} dimensions, "
            f"{len(view.ranges)} ranges and {len(view.roles)} roles",
            fix="give each dimension one range and one role",
        )


def _check_dimension(view: View, d: int, roles: tuple[str, str]) -> None:
    if view.roles[d] not in roles:
        why = f"it has role {view.roles[d]!r} and extent {view.ranges[d].extent}"
        fix = f"give it role {roles[0]!r} or {roles[1]!r}, or extent 1"
        raise _not_a_matrix(view, d, why, fix)


def _check_steps(dimensions: _Dimensions, outer: str) -> None:
    """Require steps of 1, except in a single outer dimension, where the leading dimension absorbs
    them.
    """
    view = dimensions.view
    for d in dimensions.wide:
        if view.ranges[d].step != Const(1) and dimensions.of(outer) != [d]:
            why = f"its step is {view.ranges[d].step}"
            raise _not_a_matrix(view, d, why, "pack the elements with step 1 first")


def _check_collapsible(dimensions: _Dimensions, role: str, mine: Sequence[int]) -> None:
    """Require that these dimensions of `role` form one index with one stride."""
    view = dimensions.view
    for outer, inner in pairwise(mine):
        between = [d for d in range(outer + 1, inner) if view.shape[d] != Const(1)]
        for d in between:
            why = f"it lies between dimensions {outer} and {inner} of role {role!r}"
            fix = f"make the dimensions of role {role!r} adjacent"
            raise _not_a_matrix(view, d, why, fix)
        r, extent = view.ranges[inner], view.shape[inner]
        if r.extent != extent or r.start != Const(0):
            why = f"{print_range(r)} does not cover its {extent} elements"
            fix = f"only the outermost dimension of role {role!r} may be covered in part"
            raise _not_a_matrix(view, inner, why, fix)


def _check_unit_stride(dimensions: _Dimensions, inner: str) -> None:
    """Require that the inner role's last dimension is the innermost of the packed tile."""
    mine = dimensions.of(inner)
    if not mine or dimensions.strides[mine[-1]] == Const(1):
        return
    view = dimensions.view
    behind = next(d for d in reversed(range(len(view.shape))) if view.shape[d] != Const(1))
    why = f"one index of its {view.shape[behind]} is taken, which gives role {inner!r} a stride"
    fix = f"make the dimensions of role {inner!r} the innermost of the packed tile"
    raise _not_a_matrix(view, behind, why, fix)


def _order(dimensions: _Dimensions, role_rows: str, role_columns: str) -> Order:
    """The order in which the inner role is contiguous; a role of extent 1 does not count."""
    rows, columns = dimensions.of(role_rows), dimensions.of(role_columns)
    if rows and columns:
        return "row" if rows[-1] < columns[-1] else "column"
    roles = dimensions.view.roles
    stored: Order = "row" if roles.rfind(role_rows) <= roles.rfind(role_columns) else "column"
    inside = columns if stored == "row" else rows
    if not inside or dimensions.strides[inside[-1]] == Const(1):
        return stored
    return "column" if stored == "row" else "row"


def _leading_dimension(dimensions: _Dimensions, outer: str, inner: str) -> Expr:
    """The stride of the outer role; the width of the inner one if the outer has extent 1."""
    wide = dimensions.of(outer)
    if wide:
        return dimensions.strides[wide[-1]] * dimensions.view.ranges[wide[-1]].step
    return product(dimensions.view.shape[d] for d in dimensions.of(inner))


def _not_a_matrix(view: View, d: int, why: str, fix: str) -> ProgramError:
    return ProgramError(f"{print_operand(view)} is not a matrix: dimension {d}: {why}", fix=fix)
