"""Cost of primitives that are simple loops over vectors: filling, copying, Winograd's transforms.

In: how a family's compiled loops run (`LoopForm`). Out: a cost table for `cost.calls`, from the
cycles per vector of the machine's description (`[primitives.vector]`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.calls import Costs, PricedCall
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import (
    Copy,
    Fill,
    Map,
    Reduce,
    Repack,
    Requantise,
    ScaleAdd,
    Windows,
    WinogradFilter,
    WinogradInput,
    WinogradOutput,
    WinogradTransform,
)
from tilewright.ir.scalar import operations
from tilewright.ir.winograd import KERNEL_POINTS, Matrix
from tilewright.machine import Machine
from tilewright.machine.sections import VectorPrimitive

_REQUANTISE_OPERATIONS = 6
"""Shift, remainder, comparison, addition, minimum and maximum."""


def matrix_operations(matrix: Matrix) -> int:
    """Vector operations that multiply a transform matrix by one column.

    Each non-zero entry is one addition or fused multiply-add, except the first of a row: free where
    the row has an entry of magnitude 1 to start from, one multiplication otherwise.
    """
    nonzero = np.count_nonzero(matrix, axis=1)
    starts_free = np.any(np.abs(matrix) == 1, axis=1)
    return int(np.sum(nonzero) - np.count_nonzero(starts_free))


@dataclass(frozen=True)
class LoopForm:
    """How compiled loops over vectors run.

    `overlapped`: an out-of-order core hides the shorter of its memory and arithmetic pipelines
    behind the longer one. On other cores the two add up, the pessimistic reading of swDNN section
    VI. `operations` counts the vector operations that multiply a transform matrix by one column.
    """

    overlapped: bool = False
    operations: Callable[[Matrix], int] = matrix_operations

    def cycles(
        self, machine: Machine, vectors: Value, *, memory: Value, arithmetic: Value = 0
    ) -> Value:
        """Cycles of a loop over `vectors`, each with so many loads and stores (`memory`), so many
        operations (`arithmetic`), and loop control.
        """
        vector = machine.section(VectorPrimitive)
        pipelines = memory * vector.load_cycles, arithmetic * vector.arithmetic_cycles
        busy = np.maximum(*pipelines) if self.overlapped else pipelines[0] + pipelines[1]
        return vectors * (busy + vector.loop_cycles)


def elementwise_costs(form: LoopForm) -> Costs:
    """The costs of all shipped primitives except the matrix product."""

    def fill(machine: Machine, call: PricedCall[Fill]) -> Value:
        return form.cycles(machine, _vectors(machine, call), memory=1)

    def copy(machine: Machine, call: PricedCall[Copy | Windows]) -> Value:
        return form.cycles(machine, _vectors(machine, call), memory=2)

    def scale_add(machine: Machine, call: PricedCall[ScaleAdd]) -> Value:
        """Load all, scale the first unless alpha is 1, multiply-add the others, store the first."""
        scaling, others = int(call.primitive.alpha != 1.0), call.dims["operands"] - 1
        vectors = _vectors(machine, call)
        return form.cycles(machine, vectors, memory=others + 2, arithmetic=others + scaling)

    def requantise(machine: Machine, call: PricedCall[Requantise]) -> Value:
        """Load the sums, shift, round and limit them, store the results."""
        vectors = _vectors(machine, call)
        return form.cycles(machine, vectors, memory=2, arithmetic=_REQUANTISE_OPERATIONS)

    def mapped(machine: Machine, call: PricedCall[Map]) -> Value:
        """Load the operands, compute, store the result."""
        memory, work = call.dims["operands"], operations(call.primitive.scalar)
        return form.cycles(machine, _vectors(machine, call), memory=memory, arithmetic=work)

    def reduce(machine: Machine, call: PricedCall[Reduce]) -> Value:
        """Per vector of results: load and combine k vectors, then load and store the result."""
        work = operations(call.primitive.scalar) + 1
        vectors = _vectors(machine, call)
        taken = form.cycles(machine, vectors * call.dims["k"], memory=1, arithmetic=work)
        return taken + form.cycles(machine, vectors, memory=2)

    def transform(machine: Machine, call: PricedCall[WinogradTransform]) -> Value:
        memory, arithmetic = _transform_work(call.primitive, form)
        vectors = _transform_vectors(machine, call)
        return form.cycles(machine, vectors, memory=memory, arithmetic=arithmetic)

    return {
        Fill: fill,
        Copy: copy,
        Windows: copy,
        Requantise: requantise,
        ScaleAdd: scale_add,
        Map: mapped,
        Reduce: reduce,
        Repack: _repack,
        WinogradInput: transform,
        WinogradFilter: transform,
        WinogradOutput: transform,
    }


def _ceil_div(a: Value, b: Value) -> Value:
    return -(-a // b)


def _vectors(machine: Machine, call: PricedCall[Primitive], source: str = "") -> Value:
    """Vectors in a call's elements; each contiguous run starts a new vector."""
    elements, run = call.dims[f"{source}elements"], np.maximum(call.dims[f"{source}run"], 1)
    return elements // run * _ceil_div(run, machine.core.lanes(call.dtype))


def _repack(machine: Machine, call: PricedCall[Repack]) -> Value:
    """Load the vectors of the old tile, store those of the new one (zeros where it grows)."""
    loads, stores = _vectors(machine, call, "source_"), _vectors(machine, call)
    vector = machine.section(VectorPrimitive)
    return (loads + stores) * vector.load_cycles + stores * vector.loop_cycles


def _transform_vectors(machine: Machine, call: PricedCall[WinogradTransform]) -> Value:
    """Vectors over the tiles and the axes that the transform does not touch."""
    elements: Value = 1
    for name, extent in call.dims.items():
        if len(name) == 1 and name not in "xrc":
            elements = elements * extent
    return _ceil_div(elements, machine.core.lanes(call.dtype))


def _transform_work(transform: WinogradTransform, form: LoopForm) -> tuple[int, int]:
    """(loads and stores, operations) of one vector of tiles."""
    found = transform.transforms
    points, tile = found.points, transform.output_tile
    match transform:
        case WinogradInput():
            # points columns, then points rows, of points squared values
            return 2 * points**2, 2 * points * form.operations(found.input)
        case WinogradFilter():
            # 3 columns, then points rows; 9 values in, points squared out
            columns = KERNEL_POINTS + points
            return KERNEL_POINTS**2 + points**2, columns * form.operations(found.filter)
        case _:
            # points columns, then tile rows, and the division
            divisions = tile**2 if found.divisor != 1 else 0
            operations = (points + tile) * form.operations(found.output) + divisions
            return points**2 + tile**2, operations
