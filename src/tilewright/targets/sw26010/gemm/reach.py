"""Largest displacements of the matrix products of a candidate, as its search sees them.

In: a staged program and the values of its parameters, one candidate or arrays of them. Out: for
each call of the matrix primitive the largest displacement of its routine. `shape` refuses what
no instruction can hold, by the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError
from tilewright.common.expr import Const, Expr, Value
from tilewright.ir.chains import memory_of
from tilewright.ir.matrix import matrix_form
from tilewright.ir.nodes import Call, Program, View
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import walk
from tilewright.targets.sw26010.dma import first_value
from tilewright.targets.sw26010.gemm.instances import ROLES, role_extent
from tilewright.targets.sw26010.gemm.shape import LARGEST_DISPLACEMENT, VECTOR_LANES
from tilewright.targets.sw26010.gemm.shape import block_reaches as block_reaches


@dataclass(frozen=True)
class Reach:
    """The largest displacement of a routine that multiplies into `buffer`."""

    buffer: str
    found_bytes: Value
    limit_bytes: int = LARGEST_DISPLACEMENT

    def least(self, op: str, nest: str) -> CapacityError:
        """The error for a nest that no tile fits, with the displacement of the tile of shortest
        rows.
        """
        return CapacityError(
            f"no tile of {op} fits: of the tiles of {nest!r} the one with the shortest rows adds "
            f"to {self.buffer!r} {int(self.found_bytes)} bytes from a pointer, a displacement "
            f"is at most {self.limit_bytes}",
            fix="another algorithm",
        )


def reaches(program: Program, env: Mapping[str, Value]) -> Iterator[Reach]:
    """The reach of each matrix product in the scratchpad, in the first iteration of all loops,
    where tiles are largest.
    """
    for call in (s for s in walk(program.body) if isinstance(s, Call)):
        strides = _strides(call)
        if strides is not None:
            buffer = program.buffer(memory_of(call.operands[0]))
            found = block_reaches(*(first_value(e, env) for e in strides))
            yield Reach(buffer.name, dtype(buffer.dtype).size_bytes * reduce(np.maximum, found))


@cache
def _strides(call: Call) -> tuple[Expr, ...] | None:
    """The arguments of `shape.reaches` in elements; None if the call is no matrix product of three
    views.
    """
    multiply, views = call.primitive, [v for v in call.operands if isinstance(v, View)]
    if not isinstance(multiply, MatrixProduct) or len(views) != len(ROLES):
        return None
    by_m = multiply.along == "m"
    c, a, b = (matrix_form(view, *roles) for view, roles in zip(views, ROLES, strict=True))
    vector, scalar = (a, b) if by_m else (b, a)
    packs = vector.order != ("column" if by_m else "row")
    scalar_fast = scalar.order == ("row" if by_m else "column")
    rows, columns = vector.leading_dimension, scalar.leading_dimension
    return (
        Const(1) if scalar_fast else columns,
        columns if scalar_fast else Const(1),
        rows if packs else Const(0),
        role_extent(views[0], multiply.along) if packs else rows,
        c.leading_dimension,
        Const(VECTOR_LANES),
    )
