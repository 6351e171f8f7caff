"""Cost of one primitive call on a core, from a table of one cost function per primitive class.

In: the machine and a `PricedCall`. Out: unrounded cycles, of the extents' form. A machine's family
supplies the table (`cost.prices`); an experiment overrides entries with
`{**call_costs(machine), Kind: its_function}`. `cost.elementwise` prices loops over vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar

import numpy as np

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Value
from tilewright.cost.buffers import is_whole_view
from tilewright.ir.nodes import Call, Operand, Program, Tile, Transfer, View
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import walk
from tilewright.machine import Machine

Dims = Mapping[str, Value]
P = TypeVar("P", bound=Primitive, covariant=True)


@dataclass(frozen=True)
class PricedCall(Generic[P]):
    """Everything that determines the time of a call: the primitive with its attributes, the
    extents (`timing.call_dims`), the element types of the computation and of the operands, and
    whether both factors of a product are `packed` in panels in buffers.
    """

    primitive: P
    dims: Dims
    dtype: str = "f64"
    packed: bool = False
    operand_dtypes: tuple[str, ...] = ()

    @property
    def kind(self) -> Hashable:
        """Everything that determines the time except the extents."""
        return self.primitive, self.dtype, self.packed, self.operand_dtypes


CallCost: TypeAlias = Callable[[Machine, PricedCall[Any]], Value]
Costs: TypeAlias = Mapping[type[Primitive], CallCost]


def call_cycles(machine: Machine, call: PricedCall[Any], costs: Costs) -> Value:
    """Unrounded cycles of one call; 0 where any extent is 0.

    Raises ProgramError for a primitive that is missing from `costs`.
    """
    cost = costs.get(type(call.primitive))
    if cost is None:
        known = ", ".join(kind.name for kind in costs)
        raise ProgramError(
            f"primitive {call.primitive.name!r} has no cost", fix=f"those with one are {known}"
        )
    cycles = np.asarray(cost(machine, call))
    for extent in call.dims.values():
        if _least(extent) <= 0:
            cycles = np.where(np.less_equal(extent, 0), 0, cycles)
    return cycles.item() if cycles.ndim == 0 else cycles


def _least(extent: Value) -> int:
    if isinstance(extent, np.ndarray):
        return int(np.minimum.reduce(extent, axis=None, initial=1))
    return int(extent)


def priced_call(call: Call, dims: Dims, program: Program) -> PricedCall[Primitive]:
    """The call with `dims` and everything else that its price depends on. Copies of constants do
    not count as packed: constants are in panels already, and copying them was measured to gain
    nothing.
    """
    primitive = call.primitive
    dtype = primitive.computed_in or program.element_type(call.operands[0])
    if not isinstance(primitive, MatrixProduct):
        kinds = tuple(program.element_type(operand) for operand in call.operands)
        return PricedCall(primitive, dims, dtype, operand_dtypes=kinds)
    constants = {
        s.buffer
        for s in walk(program.body)
        if isinstance(s, Transfer) and program.tensor(s.tensor).kind == "constant"
    }
    packed = all(_is_matrix(o) and o.buffer not in constants for o in call.operands[1:])
    return PricedCall(primitive, dims, dtype, packed)


def _is_matrix(operand: Operand) -> TypeGuard[View]:
    """True if a factor is a whole buffer with at most one dimension along k and one across."""
    if isinstance(operand, Tile):
        return False
    plain = [r for r, size in zip(operand.roles, operand.shape, strict=True) if size != Const(1)]
    return is_whole_view(operand) and len(set(plain)) == len(plain)
