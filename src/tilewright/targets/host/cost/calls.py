"""Cost of primitives on a processor with caches: partial blocks of the product, and loops whose
loads and arithmetic overlap.
"""

from __future__ import annotations

import numpy as np
from msgspec import structs

from tilewright.common.dtypes import F32, F64, dtype
from tilewright.common.expr import Value
from tilewright.cost.calls import Costs, PricedCall
from tilewright.cost.elementwise import LoopForm, elementwise_costs
from tilewright.ir.primitives import MatrixProduct, WindowSums
from tilewright.ir.shared_sums import shared_sums
from tilewright.ir.winograd import Matrix
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive, GemmTiming, VectorPrimitive
from tilewright.targets.host.sections import Cache, Caches
from tilewright.targets.host.vectors.window_text import block_pixels


def product_cycles(machine: Machine, call: PricedCall[MatrixProduct]) -> Value:
    """swATOP Eq. 2 for blocks that need not be full: each step of k takes a multiply-add per
    vector, and the core waits for what is beyond the level 1 cache.
    """
    dims, product = call.dims, call.primitive
    scalars, width, k = dims[product.across], dims[product.along], dims["k"]
    gemm, kind = machine.section(GemmPrimitive), call.dtype
    timing, lanes = _timing(machine, kind), machine.core.lanes(kind)
    rows = -(-width // (lanes * gemm.register_block_vectors))
    columns = -(-scalars // gemm.register_block_scalars)
    full = gemm.register_block_vectors * gemm.register_block_scalars
    products = k * scalars * -(-width // lanes) * (timing.cycles_per_k / full)
    blocks = rows * columns * (timing.block_cycles + gemm.switch_cycles)
    fixed = timing.call_cycles + rows * timing.row_cycles + blocks
    caches = machine.find_section(Caches)
    if caches is None:
        return fixed + products
    busy, missed, moved = _cached(machine, caches.l1, call, products, rows, columns)
    return fixed + busy + missed + moved


def window_sums_cycles(machine: Machine, call: PricedCall[WindowSums]) -> Value:
    """For each vector of results and each point a load and a multiply-add, whichever takes longer;
    factors are loaded once for a block of pixels, results stored once.
    """
    windows, core, vector = call.primitive, machine.core, machine.section(VectorPrimitive)
    lanes, pixels = core.lanes(call.dtype), call.dims["t"]
    blocks = -(-pixels // block_pixels(machine.core.registers))
    vectors = call.dims["elements"] // pixels
    vectors = -(-vectors // lanes)
    points = windows.rows * windows.cols * call.dims["k"]
    loads = vectors * (points * (pixels + blocks) + pixels) * vector.load_cycles
    added = points * pixels * vectors * (2 * lanes / core.peak_flops_per_cycle(call.dtype))
    gemm = _timing(machine, call.dtype)
    return gemm.call_cycles + vectors * blocks * vector.loop_cycles + np.maximum(loads, added)


def _timing(machine: Machine, kind: str) -> GemmTiming:
    """The calibrated timing of a float; of integers that of the float of the same size, at the rate
    of the integers.
    """
    gemm, element, core = machine.section(GemmPrimitive), dtype(kind), machine.core
    if element.is_float:
        return gemm.given_timing(kind)
    alike = F64.name if element.size_bytes == F64.size_bytes else F32.name
    known = gemm.given_timing(alike)
    slower = core.peak_flops_per_cycle(alike) / core.peak_flops_per_cycle(kind)
    return structs.replace(known, cycles_per_k=known.cycles_per_k * slower)


def _cached(
    machine: Machine,
    l1: Cache,
    call: PricedCall[MatrixProduct],
    products: Value,
    rows: Value,
    columns: Value,
) -> tuple[Value, Value, Value]:
    """Cycles of the multiply-adds and what streams in meanwhile, of misses, and of moving C.

    Misses are those of the broadcast factor, once for each block along the vectors, and of a large
    C, in and out. A loaded block that the level 1 cache cannot hold is streamed again for each
    block along the other dimension; the hardware prefetches it, so it costs only the part of its
    transfer that exceeds the arithmetic. Where both factors are `packed` and the level 1 cache
    holds a loaded block beside the current and the next broadcast elements, nothing is lost within
    a block.
    """
    dims, gemm, kind = call.dims, machine.section(GemmPrimitive), call.dtype
    scalars, width, k = dims[call.primitive.across], dims[call.primitive.along], dims["k"]
    size, lanes = dtype(kind).size_bytes, machine.core.lanes(kind)
    if call.packed:
        near = (lanes * gemm.register_block_vectors + 2 * gemm.register_block_scalars) * k * size
        rate = _ideal_rate(machine, kind)
        products = products * np.where(near <= l1.capacity_bytes, rate, 1.0)
    block = (lanes * gemm.register_block_vectors + gemm.register_block_scalars) * k * size
    streamed = np.where(block <= l1.capacity_bytes, 1, columns) * width * k * size
    missed = (width + rows * scalars) * k * size * l1.exposed_cycles_per_byte
    result = width * scalars * size
    moved = np.where(result > l1.capacity_bytes // 2, 2 * result, 0) / l1.fill_bytes_per_cycle
    return np.maximum(products, streamed / l1.fill_bytes_per_cycle), missed, moved


def _ideal_rate(machine: Machine, kind: str) -> float:
    """How much faster full blocks are at the core's peak than at the calibrated rate."""
    gemm, lanes = machine.section(GemmPrimitive), machine.core.lanes(kind)
    full = gemm.register_block_vectors * gemm.register_block_scalars
    ideal = 2 * lanes * full / machine.core.peak_flops_per_cycle(kind)
    return float(np.minimum(1.0, ideal / _timing(machine, kind).cycles_per_k))


def _shared_operations(matrix: Matrix) -> int:
    """Arithmetic operations of the generated transforms, which share sums."""
    return sum(one.operations for one in shared_sums(matrix))


COSTS: Costs = {
    MatrixProduct: product_cycles,
    WindowSums: window_sums_cycles,
    **elementwise_costs(LoopForm(overlapped=True, operations=_shared_operations)),
}
