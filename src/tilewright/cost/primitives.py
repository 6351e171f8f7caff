"""What one call of a tensorised primitive costs the core: a table from primitive to cycles.

In: the machine, the call's extents (`timing.call_dims`), its attributes. Out: cycles, not rounded,
of the extents' form. The table is data: `timing.call_cycles` takes another one in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Value
from tilewright.ir.nodes import Attribute
from tilewright.ir.shared_sums import shared_sums
from tilewright.ir.winograd import Matrix, transforms_of
from tilewright.machine import Machine
from tilewright.machine.sections import Caches, GemmPrimitive, VectorPrimitive

Dims = Mapping[str, Value]
Attributes = Mapping[str, Attribute]
CallCost = Callable[[Machine, Dims, Attributes], Value]


_REQUANTISE_OPERATIONS = 6
"""Shift, remainder, comparison, addition, minimum and maximum."""


def _ceil_div(a: Value, b: Value) -> Value:
    return -(-a // b)


def _gemm_cycles(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    """swATOP Eq. 2 in the form that follows the code: call + rows + blocks x mesh steps x (k x rate
    + per block), and packing where the call has a workspace to pack its vector operand into.
    """
    gemm = machine.section(GemmPrimitive)
    timing = gemm.timing(_dtype(attributes))
    vector = attributes.get("vector", "m")
    if vector not in ("m", "n"):
        raise ProgramError(f"gemm cannot vectorise {vector!r}", fix="use m or n")
    scalar = "n" if vector == "m" else "m"
    if gemm.partial_blocks:
        return _partial_gemm_cycles(machine, dims[scalar], dims[str(vector)], dims["k"], attributes)
    rows = _ceil_div(dims[str(vector)], gemm.lanes * gemm.register_block_vectors)
    blocks = rows * _ceil_div(dims[scalar], gemm.register_block_scalars)
    each = dims["k"] * timing.cycles_per_k + timing.block_cycles + gemm.switch_cycles
    cycles = timing.call_cycles + rows * timing.row_cycles + blocks * machine.mesh.columns * each
    if "workspace" in attributes:
        sweeps = _ceil_div(dims["k"], gemm.lanes)
        cycles = cycles + sweeps * (timing.sweep_cycles + rows * timing.row_sweep_cycles)
    return cycles


def _partial_gemm_cycles(
    machine: Machine, scalars: Value, width: Value, k: Value, attributes: Attributes
) -> Value:
    """The same for blocks that need not be full: each step of k takes a multiply-add per vector.

    Both factors come from the second cache: the broadcast one once for each block along the
    vectors, and a large C, in and out. A loaded block that the first cache cannot hold is streamed
    again for each block along the other dimension, which the processor foresees: that only takes
    the time of the transfer, if it is longer. Where both factors are `packed` and the first cache
    holds a loaded block beside the broadcast elements in work and the next ones, nothing is lost
    within a block.
    """
    gemm, kind = machine.section(GemmPrimitive), _dtype(attributes)
    timing, lanes = gemm.timing(kind), machine.core.lanes(kind)
    rows = _ceil_div(width, lanes * gemm.register_block_vectors)
    columns = _ceil_div(scalars, gemm.register_block_scalars)
    full = gemm.register_block_vectors * gemm.register_block_scalars
    products = k * scalars * _ceil_div(width, lanes) * (timing.cycles_per_k / full)
    blocks = rows * columns * (timing.block_cycles + gemm.switch_cycles)
    fixed = timing.call_cycles + rows * timing.row_cycles + blocks
    caches = machine.find_section(Caches)
    if caches is None:
        return fixed + products
    l1, size = caches.l1, dtype(kind).size_bytes
    if attributes.get("packed"):
        near = (lanes * gemm.register_block_vectors + 2 * gemm.register_block_scalars) * k * size
        ideal = 2 * lanes * full / machine.core.peak_flops_per_cycle(kind)
        rate = np.minimum(1.0, ideal / timing.cycles_per_k)
        products = products * np.where(near <= l1.capacity_bytes, rate, 1.0)
    block = (lanes * gemm.register_block_vectors + gemm.register_block_scalars) * k * size
    streamed = np.where(block <= l1.capacity_bytes, 1, columns) * width * k * size
    missed = (width + rows * scalars) * k * size * l1.exposed_cycles_per_byte
    result = width * scalars * size
    moved = np.where(result > l1.capacity_bytes // 2, 2 * result, 0) / l1.fill_bytes_per_cycle
    return fixed + np.maximum(products, streamed / l1.fill_bytes_per_cycle) + missed + moved


def _dtype(attributes: Attributes) -> str:
    return str(attributes.get("dtype", "f64"))


def _vectors(machine: Machine, elements: Value, run: Value, attributes: Attributes) -> Value:
    """Vectors of `lanes` elements in runs that each start a new vector."""
    run = np.maximum(run, 1)
    return elements // run * _ceil_div(run, machine.core.lanes(_dtype(attributes)))


def _loop_cycles(
    machine: Machine, vectors: Value, *, memory: Value, arithmetic: Value = 0
) -> Value:
    """A loop over vectors: loads and stores, operations, loop control, one after the other.

    The compiled loop does not overlap its two pipelines, which is the pessimistic reading of swDNN
    section VI. Cores with caches run out of order: the pipeline with more to do hides the other.
    """
    vector = machine.section(VectorPrimitive)
    pipelines = memory * vector.load_cycles, arithmetic * vector.arithmetic_cycles
    together = machine.find_section(Caches) is not None
    busy = np.maximum(*pipelines) if together else pipelines[0] + pipelines[1]
    return vectors * (busy + vector.loop_cycles)


def _fill_cycles(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    vectors = _vectors(machine, dims["elements"], dims["run"], attributes)
    return _loop_cycles(machine, vectors, memory=1)


def _copy_cycles(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    vectors = _vectors(machine, dims["elements"], dims["run"], attributes)
    return _loop_cycles(machine, vectors, memory=2)


def _scale_add_cycles(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    """Load all, scale the first unless alpha is 1, multiply-add the others, store the first."""
    vectors = _vectors(machine, dims["elements"], dims["run"], attributes)
    scaling = int(float(attributes.get("alpha", 1.0)) != 1.0)
    others = dims["operands"] - 1
    return _loop_cycles(machine, vectors, memory=others + 2, arithmetic=others + scaling)


def _requantise_cycles(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    """Load the sums, shift, round and limit them, store the results."""
    vectors = _vectors(machine, dims["elements"], dims["run"], attributes)
    return _loop_cycles(machine, vectors, memory=2, arithmetic=_REQUANTISE_OPERATIONS)


def _repack_cycles(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    """Load the vectors of the old tile, store those of the new one (zeros where it grows)."""
    loads = _vectors(machine, dims["source_elements"], dims["source_run"], attributes)
    stores = _vectors(machine, dims["elements"], dims["run"], attributes)
    vector = machine.section(VectorPrimitive)
    return (loads + stores) * vector.load_cycles + stores * vector.loop_cycles


def matrix_operations(matrix: Matrix) -> int:
    """Vector operations of one product of a transform matrix with a column.

    Each non-zero entry is one addition or fused multiply-add, except the first of a row, which is
    free where the row has an entry of magnitude 1 to start from and one multiplication otherwise.
    """
    nonzero = np.count_nonzero(matrix, axis=1)
    starts_free = np.any(np.abs(matrix) == 1, axis=1)
    return int(np.sum(nonzero) - np.count_nonzero(starts_free))


def _operations(machine: Machine, matrix: Matrix) -> int:
    """Those of the code for the machine: where it has caches, transforms share sums."""
    if machine.find_section(Caches) is None:
        return matrix_operations(matrix)
    return sum(one.operations for one in shared_sums(matrix))


def _transform_vectors(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    """Vectors over the tiles and every axis that the transform leaves alone."""
    lengths = [e for name, e in dims.items() if len(name) == 1 and name not in "xrc"]
    elements: Value = 1
    for extent in lengths:
        elements = elements * extent
    return _ceil_div(elements, machine.core.lanes(_dtype(attributes)))


def _winograd_input_cycles(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    """B^T d B: points columns, then points rows, of points squared values."""
    found = transforms_of(attributes)
    points = found.points
    operations = 2 * points * _operations(machine, found.input)
    vectors = _transform_vectors(machine, dims, attributes)
    return _loop_cycles(machine, vectors, memory=2 * points**2, arithmetic=operations)


def _winograd_filter_cycles(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    """G g G^T: 3 columns, then points rows; 9 values in, points squared out."""
    found = transforms_of(attributes)
    points = found.points
    operations = (3 + points) * _operations(machine, found.filter)
    vectors = _transform_vectors(machine, dims, attributes)
    return _loop_cycles(machine, vectors, memory=9 + points**2, arithmetic=operations)


def _winograd_output_cycles(machine: Machine, dims: Dims, attributes: Attributes) -> Value:
    """A^T m A and the division: points columns, then tile rows."""
    found = transforms_of(attributes)
    tile, points = found.output.shape
    operations = (points + tile) * _operations(machine, found.output)
    operations += tile**2 if found.divisor != 1 else 0
    vectors = _transform_vectors(machine, dims, attributes)
    return _loop_cycles(machine, vectors, memory=points**2 + tile**2, arithmetic=operations)


CALL_COSTS: dict[str, CallCost] = {
    "gemm": _gemm_cycles,
    "fill": _fill_cycles,
    "copy": _copy_cycles,
    "requantise": _requantise_cycles,
    "scale_add": _scale_add_cycles,
    "repack": _repack_cycles,
    "winograd_input": _winograd_input_cycles,
    "winograd_filter": _winograd_filter_cycles,
    "winograd_output": _winograd_output_cycles,
}
