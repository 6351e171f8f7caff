"""The GEMM primitives that a program needs: an instantiated program in, its distinct instances out.

A call's extents and leading dimensions may depend on loop variables (swATOP 4.5.3 gives boundary
tiles their own extents). Of every variable only representatives are tried: values that agree in all
subexpressions of that one variable agree in the whole expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.codegen.c.expression import Scope, bounds_of
from tilewright.common.dtypes import FLOATS, DType, dtype
from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.common.expr import BinaryExpr, Const, Expr, Var, evaluate, free_vars
from tilewright.ir.chains import Chain, ChainRules, with_chains
from tilewright.ir.matrix import Matrix, matrix_form
from tilewright.ir.nodes import CORE_SYMBOLS, Call, For, If, Program, Stmt, View, role_extent
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.passes.lowering import lowering_of
from tilewright.targets.sw26010.gemm.shape import (
    LARGEST_MESH,
    PRECISIONS,
    VECTOR_LANES,
    Dimension,
    GemmPlan,
    GemmShape,
    GemmVariant,
    plan_gemm,
)

Integers: TypeAlias = npt.NDArray[np.int64]
MOST_POINTS = 1 << 22
ROLES = (("m", "n"), ("m", "k"), ("k", "n"))


@dataclass(frozen=True)
class GemmInstance:
    """One routine: a variant for one shape per core, leading dimensions in elements."""

    variant: GemmVariant
    shape: GemmShape

    @property
    def symbol(self) -> str:
        """A name that is unique to the instance, like `gemm_f64_n_row_row_32x16x8_8_16_16`: type,
        vectorised dimension, orders of A and B, extents, leading dimensions; for a chain also its
        number of links, as `_x9`.
        """
        v, s = self.variant, self.shape
        layouts = f"{v.vectorised}_{v.a_layout}_{v.b_layout}"
        links = f"_x{s.links}" if s.links > 1 else ""
        extents, leading = f"{s.m}x{s.n}x{s.k}", f"{s.lda}_{s.ldb}_{s.ldc}"
        return f"gemm_{v.precision.name}_{layouts}_{extents}_{leading}{links}"

    @property
    def plan(self) -> GemmPlan:
        """The product as the primitive sees it. Errors: ScheduleError, CapacityError."""
        return plan_gemm(self.variant, self.shape)


@dataclass(frozen=True)
class _Place:
    """A call with its enclosing loops, outermost first, and conditions. The innermost loops are
    those of a chain of `links` links.
    """

    call: Call
    multiply: MatrixProduct
    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]
    links: int = 1


def square_mesh(machine: Machine) -> int:
    """Rows and columns of the machine's mesh. Errors: ScheduleError for one that the matrix
    primitive cannot run on: its broadcasts need a step for each row and each column.
    """
    rows, columns = machine.mesh.rows, machine.mesh.columns
    if rows != columns or rows > LARGEST_MESH:
        raise ScheduleError(
            f"the matrix primitive needs a square mesh of at most {LARGEST_MESH} x {LARGEST_MESH} "
            f"cores, machine {machine.name!r} has {rows} x {columns}",
            fix=f"set mesh.rows and mesh.columns to one number of 1 to {LARGEST_MESH}",
        )
    return rows


def has_chains(instances: Iterable[GemmInstance]) -> bool:
    """True if any instance is a chain, which takes several products in one call."""
    return any(instance.shape.links > 1 for instance in instances)


def gemm_types(program: Program) -> tuple[DType, ...]:
    """The element types of the program's matrix products."""
    places = _calls(program.body, (), (), None)
    results = [_view(place.call.operands[0]).buffer for place in places]
    used = {program.buffer(name).dtype for name in results}
    return tuple(kind for kind in FLOATS if kind.name in used)


def gemm_instances(program: Program, machine: Machine) -> tuple[GemmInstance, ...]:
    """The distinct instances of all gemm calls of `gemm_types`, in the order of the calls.

    Extents that are not positive are left out: such a call computes nothing. Errors: ProgramError
    for operands that are no matrices or differ between cores and for a missing workspace,
    ScheduleError and CapacityError for what the primitive cannot do.
    """
    return tuple(dict.fromkeys(i for _, own in called_instances(program, machine) for i in own))


def called_instances(
    program: Program, machine: Machine
) -> Iterator[tuple[Call, tuple[GemmInstance, ...]]]:
    """Each call of the matrix primitive with its distinct instances; raises as `gemm_instances`."""
    for place in _calls(program.body, (), (), lowering_of(machine).chains):
        own = tuple(dict.fromkeys(_instances(program, place, machine)))
        _check_workspace(program, place.call, own)
        yield place.call, own


def _check_workspace(program: Program, call: Call, instances: Iterable[GemmInstance]) -> None:
    """Check that calls that pack name a buffer that is large enough."""
    given = 0
    for name in call.primitive.buffers():
        buffer = program.buffer(name)
        given = int(evaluate(buffer.elements, {})) * dtype(buffer.dtype).size_bytes
    for instance in instances:
        needed = instance.plan.workspace_bytes
        if needed > given:
            raise ProgramError(
                f"{instance.symbol} packs its vectorised operand into {needed} bytes, "
                f"its workspace has {given}",
                fix="name a larger buffer in the call's attribute 'workspace'",
            )


def _calls(
    body: tuple[Stmt, ...],
    loops: tuple[For, ...],
    conditions: tuple[Expr, ...],
    chains: ChainRules | None,
) -> Iterator[_Place]:
    for stmt in body if chains is None else with_chains(body, chains):
        match stmt:
            case For():
                yield from _calls(stmt.body, (*loops, stmt), conditions, chains)
            case If():
                yield from _calls(stmt.then, loops, (*conditions, stmt.condition), chains)
                fails = BinaryExpr("==", stmt.condition, Const(0))
                yield from _calls(stmt.orelse, loops, (*conditions, fails), chains)
            case Chain(call, multiply, inside, _):
                links = int(evaluate(stmt.links, {}))
                yield _Place(call, multiply, (*loops, *inside), conditions, links)
            case Call(MatrixProduct() as multiply):
                yield _Place(stmt, multiply, loops, conditions)
            case _:
                pass


def _instances(program: Program, place: _Place, machine: Machine) -> Iterator[GemmInstance]:
    views = [_view(operand) for operand in place.call.operands]
    c, a, b = (matrix_form(v, *roles) for v, roles in zip(views, ROLES, strict=True))
    kind = dtype(program.buffer(views[0].buffer).dtype).name
    if kind not in PRECISIONS:
        raise ScheduleError(
            f"the matrix primitive computes {' and '.join(PRECISIONS)}, the product has sums of "
            f"{kind}",
            fix="compute it in one of those, or on a machine whose cores multiply integers",
        )
    vectorised: Dimension = place.multiply.along
    by_m = vectorised == "m"
    if c.order != ("column" if by_m else "row"):
        raise ScheduleError(
            f"gemm vectorises {vectorised}, but the result is stored in {c.order} order",
            fix=f"vectorise {'n' if by_m else 'm'}, or store the result the other way",
        )
    variant = GemmVariant(vectorised, a.order, b.order, PRECISIONS[kind])
    extents = (role_extent(views[0], "m"), role_extent(views[0], "n"), role_extent(views[1], "k"))
    leading = tuple(form.leading_dimension for form in (a, b, c))
    mesh, capacity_bytes = square_mesh(machine), machine.spm.capacity_bytes
    for values in _distinct((*extents, *leading), place).tolist():
        if min(values[:3]) > 0:
            m, n, k, lda, ldb, ldc = values
            shape = GemmShape(m, n, k, lda, ldb, ldc, capacity_bytes, mesh, place.links)
            yield GemmInstance(variant, shape)
    aligned = (c, *((a,) if by_m else (b,)))
    for form, view in zip(aligned, (views[0], views[1 if by_m else 2]), strict=True):
        _check_alignment(program, view, form, place)


def _view(operand: object) -> View:
    if not isinstance(operand, View):
        raise ProgramError(
            "gemm works on a tensor in main memory", fix="stage its operands in the scratchpad"
        )
    return operand


def _check_alignment(program: Program, view: View, form: Matrix, place: _Place) -> None:
    """Check that a vectorised operand starts at a whole vector in every iteration."""
    elements = program.buffer(view.buffer).elements
    start = view.slot * elements + form.offset_elements
    if _divisor(start) % VECTOR_LANES == 0:
        return
    rest = _distinct((BinaryExpr("%", start, Const(VECTOR_LANES)),), place)
    if rest.any():
        raise ScheduleError(
            f"gemm reads vectors of {view.buffer!r} from element {start}, which is not always a "
            f"multiple of {VECTOR_LANES}",
            fix="make the tile's contiguous extent a multiple of the vector lanes",
        )


def _divisor(e: Expr) -> int:
    """A number that divides every value of `e`; 0 for the constant 0."""
    match e:
        case Const(value):
            return abs(value)
        case BinaryExpr("*", a, b):
            return _divisor(a) * _divisor(b)
        case BinaryExpr("+" | "-" | "min" | "max", a, b):
            return int(np.gcd(_divisor(a), _divisor(b)))
        case _:
            return 1


def _distinct(values: tuple[Expr, ...], place: _Place) -> Integers:
    """The distinct rows of `values` over all iterations in which the call runs."""
    symbols = frozenset[str]().union(*(free_vars(e) for e in values))
    if symbols & set(CORE_SYMBOLS):
        raise ProgramError(
            "the extents of a gemm differ between cores", fix="pad the tiles of all cores alike"
        )
    loops, conditions = _loops_and_conditions(symbols, place)
    points = _points(loops, (*values, *conditions))
    env: dict[str, Any] = dict(zip(points, np.ix_(*points.values()), strict=True))
    shape = tuple(len(p) for p in points.values())
    if np.prod(shape, dtype=float) > MOST_POINTS:
        raise ProgramError(f"the extents of a gemm take more than {MOST_POINTS} combinations")
    runs = np.ones(shape, bool)
    for condition in conditions:
        runs = runs & (np.asarray(evaluate(condition, env)) != 0)
    columns = [np.broadcast_to(evaluate(e, env), shape)[runs] for e in values]
    return np.unique(np.stack(columns, axis=-1).astype(np.int64), axis=0)


def _loops_and_conditions(symbols: frozenset[str], place: _Place) -> tuple[list[For], list[Expr]]:
    """The loops that `symbols` depend on, and the conditions on these alone."""
    loops: list[For] = []
    for loop in reversed(place.loops):
        if loop.var in symbols:
            loops.insert(0, loop)
            symbols |= free_vars(loop.extent)
    known = {loop.var for loop in loops}
    conditions = [e for e in place.conditions if free_vars(e) <= known]
    conditions += [
        BinaryExpr("<", Var(loop.var), loop.extent)
        for loop in loops
        if not isinstance(loop.extent, Const)
    ]
    return loops, conditions


def _points(loops: list[For], values: tuple[Expr, ...]) -> dict[str, Integers]:
    """Representative values of each loop variable."""
    scope, points = Scope({}, {}), {}
    for loop in loops:
        count = max(bounds_of(loop.extent, scope)[1], 0)
        scope = scope.with_symbol(loop.var, loop.var, (0, max(count - 1, 0)))
        span = np.arange(count, dtype=np.int64)
        own = list(dict.fromkeys(p for e in values for p in _pieces(e, loop.var)))
        rows = np.array([np.broadcast_to(evaluate(p, {loop.var: span}), span.shape) for p in own])
        points[loop.var] = span[np.unique(rows, axis=1, return_index=True)[1]] if own else span[:1]
    return points


def _pieces(e: Expr, variable: str) -> Iterator[Expr]:
    """The largest subexpressions that contain no symbol but `variable`."""
    symbols = free_vars(e)
    if symbols == {variable}:
        yield e
    elif variable in symbols and isinstance(e, BinaryExpr):
        yield from _pieces(e.a, variable)
        yield from _pieces(e.b, variable)
