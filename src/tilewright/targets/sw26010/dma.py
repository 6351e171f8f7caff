"""Limits of fields, for one program at emission and, as arrays, for the candidates of a search.

The fields of a DMA descriptor (athread_get / athread_put in PE_MODE) have limits. In each call of
the matrix primitive in a staged program, the largest displacement must fit an instruction; `shape`
checks it by the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from math import prod

import numpy as np

from tilewright.codegen.c.expression import Scope, bounds_of
from tilewright.codegen.transfer_plan import TransferPlan
from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError
from tilewright.common.expr import Const, Expr, Value, evaluate, free_vars, substitute
from tilewright.cost.prices import RequestField
from tilewright.ir.chains import memory_of
from tilewright.ir.matrix import matrix_form
from tilewright.ir.nodes import Call, Program, Tensor, Transfer, View, role_extent
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.regions import Repeat, split_region
from tilewright.ir.visit import walk
from tilewright.machine import Machine
from tilewright.machine.parts import DescriptorLimits
from tilewright.targets.sw26010.gemm.instances import ROLES
from tilewright.targets.sw26010.gemm.shape import LARGEST_DISPLACEMENT, VECTOR_LANES
from tilewright.targets.sw26010.gemm.shape import block_reaches as block_reaches

_SMALLER = "a schedule with a smaller tile"
_OTHER = {
    "size": _SMALLER,
    "block": _SMALLER,
    "stride": "a layout that stores the tile's dimensions next to each other",
}


def check_limits(plan: TransferPlan, tensor: Tensor, machine: Machine, scope: Scope) -> None:
    """Raise CapacityError if a field of the DMA descriptor cannot hold its value."""
    limits, size = machine.dma.limits, dtype(tensor.dtype).size_bytes
    if limits is None:
        return
    blocks, most_elements = plan.blocks, plan.largest_elements
    block = min(bounds_of(blocks.length, scope)[1], most_elements) * size
    total = min(bounds_of(blocks.length * blocks.count, scope)[1], most_elements) * size
    gap = bounds_of(blocks.stride - blocks.length, scope)[1] * size
    for field in _fields(limits, tensor.name, {"size": total, "block": block, "stride": gap}):
        if field.found_bytes > field.limit_bytes:
            raise field.error()


def request_fields(
    program: Program, machine: Machine, env: Mapping[str, Value]
) -> Iterator[RequestField]:
    """The fields of the program's transfers that may exceed a limit, for candidates with these
    values. The regions of the first iterations on the first core are used, since they are the
    largest.
    """
    limits, room = machine.dma.limits, machine.spm.available_bytes
    if limits is None:
        return
    apart: dict[str, int] = {}  # most elements from one index to the next of any dimension
    holds_tiles = min(limits.size_bytes or room, limits.block_bytes or room) >= room
    for transfer in (s for s in walk(program.body) if isinstance(s, Transfer)):
        tensor = program.tensor(transfer.tensor)
        size = dtype(tensor.dtype).size_bytes
        if tensor.name not in apart:
            most = [_largest(e, env) for e in tensor.shape]
            strides = (prod(most[d + 1 :]) for d, extent in enumerate(most) if extent > 1)
            apart[tensor.name] = max(strides, default=0)
        steps = (_largest(r.step, env) for r in transfer.ranges)
        longest = apart[tensor.name] * size * max(steps, default=1)
        if holds_tiles and (limits.stride_bytes is None or longest <= limits.stride_bytes):
            continue
        shape = [first_value(e, env) for e in tensor.shape]
        repeats = [
            Repeat(first_value(r.extent, env), prod(shape[d + 1 :]) * first_value(r.step, env))
            for d, r in enumerate(transfer.ranges)
        ]
        blocks = split_region(repeats, 1)
        found = {
            "size": blocks.length * blocks.count * size,
            "block": blocks.length * size,
            "stride": (blocks.stride - blocks.length) * size,
        }
        yield from _fields(limits, tensor.name, found)


def _largest(e: Expr, env: Mapping[str, Value]) -> int:
    if isinstance(e, Const):
        return max(0, e.value)
    return int(np.asarray(first_value(e, env)).max(initial=0))


def first_value(e: Expr, env: Mapping[str, Value]) -> Value:
    """The value in the first iteration of loops and on the first core, if `env` has none."""
    return evaluate(substitute(e, dict.fromkeys(free_vars(e) - env.keys(), 0)), env)


def _fields(
    limits: DescriptorLimits, tensor: str, found: Mapping[str, Value]
) -> Iterator[RequestField]:
    for what, number in found.items():
        limit = getattr(limits, f"{what}_bytes")
        if limit is not None:
            key = f"dma.limits.{what}_bytes"
            yield RequestField(what, tensor, number, limit, key, _OTHER[what])


@dataclass(frozen=True)
class Reach:
    """The largest displacement of a routine that multiplies into `buffer`."""

    buffer: str
    found_bytes: Value
    limit_bytes: int = LARGEST_DISPLACEMENT

    def least(self, op: str, nest: str) -> CapacityError:
        """The error for a nest that no tile fits, with the displacement of the shortest rows."""
        return CapacityError(
            f"no tile of {op} fits: of the tiles of {nest!r} the one with the shortest rows adds "
            f"to {self.buffer!r} {int(self.found_bytes)} bytes from a pointer, a displacement "
            f"is at most {self.limit_bytes}",
            fix="another algorithm",
        )


def reaches(program: Program, env: Mapping[str, Value]) -> Iterator[Reach]:
    """The largest reach of each product in the scratchpad, where all loops begin."""
    for call in (s for s in walk(program.body) if isinstance(s, Call)):
        strides = _strides(call)
        if strides is not None:
            buffer = program.buffer(memory_of(call.operands[0]))
            found = block_reaches(*(first_value(e, env) for e in strides))
            yield Reach(buffer.name, dtype(buffer.dtype).size_bytes * reduce(np.maximum, found))


@cache
def _strides(call: Call) -> tuple[Expr, ...] | None:
    """The arguments of `shape.reaches` in elements; None unless it is a product of three views."""
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
