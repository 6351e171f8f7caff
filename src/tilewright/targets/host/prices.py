"""The prices of this computer: copies by the core itself, caches, threads, partial blocks of
products, and loops whose loads and arithmetic overlap.

In: a prepared nest, a machine and values for the nest's parameters. Out: cycles, of the values'
form. Winograd's transforms and sums of windows compute little per byte: their traffic beyond the
level 2 cache costs as much as a copy, and data is evicted as far as the bytes touched between two
uses exceed the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from math import prod

import numpy as np
from msgspec import structs

from tilewright.common.dtypes import F32, F64, dtype
from tilewright.common.expr import Value, evaluate, free_vars
from tilewright.cost.buffers import scratchpad_bytes
from tilewright.cost.calls import Costs, PricedCall
from tilewright.cost.chain import Prepared
from tilewright.cost.elementwise import LoopForm, elementwise_costs
from tilewright.cost.pipeline_types import COPY
from tilewright.cost.prices import Prices
from tilewright.cost.timing import TransferShape, chain_dims, transfer_cycles
from tilewright.ir.nodes import Call, Direction, Program, Tile
from tilewright.ir.primitives import MatrixProduct, WindowSums, WinogradInput, WinogradOutput
from tilewright.ir.shared_sums import shared_sums
from tilewright.ir.visit import walk
from tilewright.ir.winograd import Matrix
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive, GemmTiming, VectorPrimitive
from tilewright.targets.host.cost.buffers import has_room
from tilewright.targets.host.cost.caches import exposed_cycles
from tilewright.targets.host.cost.threads import handed_cycles, meeting_cycles, memory_cycles
from tilewright.targets.host.sections import Caches, CoreCache, has_halves
from tilewright.targets.host.taps import PaddedChain, padded_chains, same_taps, without_padding
from tilewright.targets.host.vectors.microkernel import LINE_BYTES
from tilewright.targets.host.vectors.window_text import (
    block_pixels,
    is_short,
    row_pixels,
    shares_pixels,
    summed_lines,
)


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
    part = 2 if has_halves(machine, kind) else 1
    vectors = -(-width * part // lanes) / part
    products = k * scalars * vectors * (timing.cycles_per_k / full)
    blocks = rows * columns * (timing.block_cycles + gemm.switch_cycles)
    fixed = timing.call_cycles + rows * timing.row_cycles + blocks
    caches = machine.find_section(Caches)
    if caches is None:
        return fixed + products
    busy, missed, moved = _cached(machine, caches.l1, call, products, rows, columns)
    return fixed + busy + missed + moved


def window_sums_cycles(machine: Machine, call: PricedCall[WindowSums]) -> Value:
    """Cycles of sums of windows: loop control of blocks, and the longer of multiply-adds and of
    loads and stores.
    """
    dims, gemm = call.dims, _timing(machine, call.dtype)
    work = _window_work(call.primitive, dims, call.dtype, machine)
    loops = work.vectors * work.blocks * machine.section(VectorPrimitive).loop_cycles
    return gemm.call_cycles + loops + np.maximum(work.loaded, work.added)


@dataclass(frozen=True)
class _WindowWork:
    """The work of one call of sums of windows."""

    vectors: Value  # of channels
    blocks: Value  # of windows, for each vector
    loaded: Value  # cycles of loads and stores
    added: Value  # cycles of multiply-adds, which overlap these


def _window_work(
    windows: WindowSums, dims: Mapping[str, Value], kind: str, machine: Machine
) -> _WindowWork:
    """The work of a call: a multiply-add for each vector of results and each point. A block loads
    each pixel once if its windows share pixels, otherwise once per point. It loads factors once per
    line or per short block, or once per multiply-add if registers do not hold all factors for a row
    of pixels besides the sums of several lines. Results are stored once.
    """
    core, pixels, lines, terms = machine.core, dims["t"], dims["u"], dims["k"]
    lanes = core.lanes(kind)
    summed, depth, block = _block(windows, pixels, lines, terms, machine)
    turns = np.where(np.equal(depth, _short_lines(windows, machine)), -(-lines // depth), lines)
    blocks = -(-pixels // block) * turns
    vectors = -(-(dims["elements"] // (pixels * lines)) // lanes)
    points = windows.rows * windows.cols * terms
    loaded = points * pixels * lines
    added = points * pixels * lines * vectors * (2 * lanes / core.peak_flops_per_cycle(kind))
    if shares_pixels(windows.cols, 1, core.registers):
        row = windows.cols, windows.stride, windows.col_step
        once = pixels // block * row_pixels(block, *row) + row_pixels(pixels % block, *row)
        loaded = np.where(terms == 1, once * _rows_read(windows, lines, depth), loaded)
    held = np.maximum(0, (core.registers or points) - summed * block - 1)
    behind = windows.row_stride // windows.row_step
    used = (len(range(row, windows.rows, behind)) * windows.cols for row in range(behind))
    beyond = sum(np.maximum(0, factors - held) for factors in used)
    again = np.where(np.greater(summed, 1), beyond, 0)
    factors = (points - again) * blocks + again * pixels * lines
    loads = vectors * (loaded + factors + pixels * lines)
    return _WindowWork(vectors, blocks, loads * machine.section(VectorPrimitive).load_cycles, added)


def _block(
    windows: WindowSums, pixels: Value, lines: Value, terms: Value, machine: Machine
) -> tuple[Value, Value, Value]:
    """(lines that a block sums at once, lines that it covers, windows of each line in it)."""
    registers = machine.core.registers
    steps = windows.row_stride, windows.row_step, registers
    most = summed_lines(windows.rows, windows.cols, 1, *steps)
    several = np.greater(lines, 1) & np.equal(terms, 1) & (most > 1)
    wide = block_pixels(registers, most, windows.rows * windows.cols)
    width = np.where(several, wide, block_pixels(registers))
    depth = np.where(several, _short_lines(windows, machine) or lines, 1)
    return np.where(several, most, 1), depth, -(-pixels // -(-pixels // width))


def _short_lines(windows: WindowSums, machine: Machine) -> int:
    """Lines of a short block; 0 if blocks are long."""
    registers = machine.core.registers
    steps = windows.row_stride, windows.row_step, registers
    most = summed_lines(windows.rows, windows.cols, 1, *steps)
    return most if is_short(block_pixels(registers, most, windows.rows * windows.cols), most) else 0


def _rows_read(windows: WindowSums, lines: Value, depth: Value) -> Value:
    """Rows of pixels that blocks of `depth` lines read for all `lines`: each row once per block."""
    row = windows.rows, windows.row_stride, windows.row_step
    return lines // depth * row_pixels(depth, *row) + row_pixels(lines % depth, *row)


def _timing(machine: Machine, kind: str) -> GemmTiming:
    """The calibrated timing of a float type; for integers, the timing of the float type of the same
    size, scaled to the integers' rate.
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
    l1: CoreCache,
    call: PricedCall[MatrixProduct],
    products: Value,
    rows: Value,
    columns: Value,
) -> tuple[Value, Value, Value]:
    """Cycles of (multiply-adds and the streams that they overlap, misses, moving C).

    Each factor misses when it first arrives, the broadcast one once per block along the vectors. A
    large C is moved in and out. A loaded block that the level 1 cache cannot hold is streamed again
    for each block along the other dimension; the hardware prefetches it, so it costs only the part
    of its transfer that exceeds the arithmetic. If both factors are `packed`, and the level 1 cache
    holds a loaded block besides the current and the next broadcast elements, nothing is lost within
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
    """Ratio, at most 1, of a full block's cycles at the core's peak to the calibrated ones."""
    gemm, lanes = machine.section(GemmPrimitive), machine.core.lanes(kind)
    full = gemm.register_block_vectors * gemm.register_block_scalars
    ideal = 2 * lanes * full / machine.core.peak_flops_per_cycle(kind)
    return float(np.minimum(1.0, ideal / _timing(machine, kind).cycles_per_k))


def _shared_operations(matrix: Matrix) -> int:
    """Arithmetic operations of the generated transforms, which share sums."""
    return sum(one.operations for one in shared_sums(matrix))


_ELEMENTWISE = elementwise_costs(LoopForm(overlapped=True, operations=_shared_operations))


def transform_cycles(
    machine: Machine, call: PricedCall[WinogradInput] | PricedCall[WinogradOutput]
) -> Value:
    """Cycles of a transform on whole lines of channels. Channels that do not fill a line go through
    a copy of each tile, which is zeroed first; its elements are moved singly, in and out.
    """
    vector, which, dims = machine.section(VectorPrimitive), call.primitive, call.dims
    line, tiles = LINE_BYTES // dtype(call.dtype).size_bytes, dims.get("t", 1) * dims.get("q", 1)
    channels = dims.get("p", 1)
    lines, left = -(-channels // line), channels % line
    whole = replace(call, dims={**dims, "p": lines * line})
    points = which.transforms.points
    side = which.output_tile if isinstance(which, WinogradOutput) else points
    zeroed = points**2 * (vector.load_cycles + vector.loop_cycles)
    moved = (points**2 + side**2) * left * (2 * vector.load_cycles + vector.loop_cycles)
    return _ELEMENTWISE[type(which)](machine, whole) + tiles * np.where(left, zeroed + moved, 0)


COSTS: Costs = {
    **_ELEMENTWISE,
    MatrixProduct: product_cycles,
    WindowSums: window_sums_cycles,
    WinogradInput: transform_cycles,
    WinogradOutput: transform_cycles,
}


class HostPrices(Prices):
    """Prices of cores with caches, which make copies themselves."""

    costs = COSTS
    waits = True

    def transfer_kind(self, direction: Direction) -> int:
        """Transfers are copies, which keep the core busy."""
        return COPY

    def service_cycles(
        self,
        machine: Machine,
        direction: Direction,
        shape: TransferShape,
        tensor_bytes: Value,
        *,
        shared: bool,
    ) -> Value:
        """Cycles of a copy from the last cache. If that cannot keep the tensor, main memory's time
        for the bytes comes on top, as the core does not overlap the two.
        """
        cycles = transfer_cycles(machine, direction, shape, shared=shared)
        caches = machine.find_section(Caches)
        if caches is None or direction == "put":
            return cycles
        again = machine.dma.get.peak_bytes_per_second / machine.direct_bytes_per_second
        far = np.greater(tensor_bytes, caches.l3.capacity_bytes)
        return cycles * np.where(far, 1.0 + again, 1.0)

    def as_emitted(self, program: Program, machine: Machine) -> Program:
        """Without the taps in the border of zeros around images in place."""
        return without_padding(program, machine)

    def kept_share(self, prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
        """Share of the calls' cycles besides taps in the border of zeros around images in place."""
        call = _streaming(prepared)
        if call is not None and isinstance(call.primitive, WindowSums):
            return _in_image(call.primitive, call, prepared, machine, env)[0]
        padded = next(padded_chains(prepared.program, machine), None)
        return 1.0 if padded is None else _kept_share(padded, prepared, machine, env)

    def elapsed_cycles(
        self,
        prepared: Prepared,
        machine: Machine,
        env: Mapping[str, Value],
        cycles: Value,
    ) -> Value:
        """The `cycles` plus waits for caches, other threads and main memory."""
        taken = scratchpad_bytes(prepared.program, env)
        busy, exposed = cycles, exposed_cycles(prepared, machine, env, taken, cycles)
        cycles = cycles + exposed + streamed_cycles(prepared, machine, env, busy)
        cycles = cycles + copied_cycles(prepared, machine, env)
        cycles = cycles + meeting_cycles(prepared, machine, env)
        cycles = cycles + handed_cycles(prepared, machine, env)
        return np.maximum(cycles, memory_cycles(prepared, machine, env))

    def has_room(self, program: Program, machine: Machine, env: Mapping[str, Value]) -> Value:
        """True if the buffers fit the caches."""
        return has_room(program, machine, env)


def _kept_share(
    padded: PaddedChain, prepared: Prepared, machine: Machine, env: Mapping[str, Value]
) -> Value:
    """Cycles of the pieces in the emitted text over those of all pixels with all taps."""
    at_start = {**env, **dict.fromkeys((f.var for f in prepared.loops), 0)}
    dims = {letter: evaluate(e, at_start) for letter, e in chain_dims(padded.chain).items()}
    starts = {**at_start, **dict.fromkeys((f.var for f in padded.chain.loops), 0)}
    sizes = np.broadcast_arrays(*(evaluate(size, starts) for size in padded.sizes))
    alone = np.unique(np.stack(sizes), axis=-1, return_inverse=True)[1].reshape(sizes[0].shape)
    which, *values = np.broadcast_arrays(alone, *dims.values(), *env.values())
    kept = np.ones(which.shape)
    for first in np.unique(which, return_index=True)[1].tolist():
        alike = which == which.flat[first]
        own = dict(zip(dims, (v[alike] for v in values), strict=False))
        one = dict(zip(env, (int(v.flat[first]) for v in values[len(dims) :]), strict=True))
        kept[alike] = _kept(padded, one, own, machine)
    return kept


def _kept(
    padded: PaddedChain, env: Mapping[str, int], dims: Mapping[str, Value], machine: Machine
) -> Value:
    """The kept share for tiles whose rows and images have one size."""
    chain, program = padded.chain, padded.program
    kind = chain.multiply.computed_in or program.element_type(chain.call.operands[0])

    def cycles(pixels: int, taps: Value) -> Value:
        own = {**dims, chain.multiply.across: pixels, "k": dims["k"] * taps / dims["links"]}
        return product_cycles(machine, PricedCall(chain.multiply, own, kind))

    found: Value = 0.0
    whole: Value = 0.0
    turn, kinds = 0, padded.kinds(env)
    for end, pieces in kinds:
        for piece in pieces:
            found = found + (end - turn) * cycles(piece.pixels, piece.taps)
        whole = whole + (end - turn) * cycles(sum(p.pixels for p in pieces), dims["links"])
        turn = end
    return found / whole if kinds else 1.0


def _in_image(
    windows: WindowSums, call: Call, prepared: Prepared, machine: Machine, env: Mapping[str, Value]
) -> list[Value]:
    """Shares of the windows' points, and of the pixels, that the emitted text has. Those in a
    border of zeros are left out if pixels are shared and no loop moves their rows or columns.
    """
    shares = list[Value]((1.0, 1.0))
    pixels = next(o for o in call.operands if isinstance(o, Tile) and "r" in o.roles)
    tensor = prepared.program.tensor(pixels.tensor)
    env = {**env, **dict.fromkeys((f.var for f in prepared.loops), 0)}
    division = prepared.division
    extents = division.extents if division else [f.extent for f in prepared.loops]
    terms = (r.extent for r, role in zip(pixels.ranges, pixels.roles, strict=True) if role == "k")
    single = np.equal(prod(evaluate(extent, env) for extent in terms), 1)
    down = windows.rows, windows.row_step, windows.row_stride
    across = windows.cols, windows.col_step, windows.stride
    shared = shares_pixels(windows.cols, 1, machine.core.registers)
    ways = [("r", *down), ("c", *across)] if shared else []
    for role, points, step, stride in ways:
        d = pixels.roles.index(role)
        (before, behind), start = tensor.zeros_of(tensor.dims[d]), pixels.ranges[d].start
        if before + behind and not free_vars(start) - set(env):
            taps = range(0, points * step, step)
            sizes = evaluate(start, env), evaluate(tensor.shape[d], env)
            kept = _of_each(sizes, partial(_shares_inside, taps, stride, (before, behind)))
            moving = (f.var in free_vars(start) for f in prepared.loops)
            still = np.equal(prod(evaluate(e, env) for e in compress(extents, moving)), 1) & single
            shares = [s * np.where(still, k, 1.0) for s, k in zip(shares, kept, strict=True)]
    return shares


def _shares_inside(
    taps: range, stride: int, border: tuple[int, int], first: int, end: int
) -> tuple[float, float]:
    """Shares of points, and of pixels from `first` to `end`, that are not in the border."""
    places, inside = range(first, end - taps[-1], stride), (border[0], end - border[1])
    parts = same_taps(places, taps, range(*inside))
    points = sum(part.count * part.taps for part in parts)
    within = (inside[1] - max(first, border[0])) / (end - first)
    return points / (len(places) * len(taps)), within


def _of_each(
    sizes: tuple[Value, Value], shares: Callable[[int, int], tuple[float, float]]
) -> Iterator[Value]:
    """The shares for the (first, end) of each tile: tiles of several operators, with different
    sizes, are priced together.
    """
    first, end = np.broadcast_arrays(*sizes)
    pairs = np.stack([first, end], axis=-1)
    different, which = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    found = np.array([shares(*map(int, pair)) for pair in different])
    return iter(np.moveaxis(found[which].reshape(pairs.shape), -1, 0))


_STREAMING = (WindowSums, WinogradInput, WinogradOutput)


@dataclass(frozen=True)
class _Stream:
    """An operand in place that a call streams."""

    element_bytes: int
    call_bytes: Value  # that one call touches
    tensor_bytes: Value  # of the whole tensor
    moved_by: tuple[bool, ...]  # true for each loop that moves it
    extents: Mapping[str, Value]  # in a call, by role: rows, lines, terms, points, tiles, ...

    def touched(self, depth: int, counts: Sequence[Value]) -> Value:
        """Bytes that the loops inside the `depth` outer loops touch together."""
        touched = self.call_bytes
        for moves, count in list(zip(self.moved_by, counts, strict=True))[depth:]:
            touched = touched * (count if moves else 1)
        return np.minimum(touched, self.tensor_bytes)

    def every_turn(self, counts: Sequence[Value]) -> Value:
        """Bytes if each turn of the loops that do not move the tensor streams it once: data that
        neighbouring calls share, such as rows of windows, is still near.
        """
        turns: Value = 1
        for moves, count in zip(self.moved_by, counts, strict=True):
            turns = turns * (1 if moves else count)
        return self.tensor_bytes * turns


def streamed_cycles(
    prepared: Prepared, machine: Machine, env: Mapping[str, Value], busy: Value = 0.0
) -> Value:
    """Cycles that the core waits, beyond the calls' own time, for operands streamed from beyond the
    level 2 cache. Operands of windows stream while the core is `busy` or the level 1 cache fills,
    and count as wholly evicted if together they exceed the level 2 cache. Transforms compete with
    the products of other nests for the cache, and wait for the evicted share of their operands.
    """
    caches, call = machine.find_section(Caches), _streaming(prepared)
    if caches is None or call is None:
        return 0.0
    at_start = {**env, **dict.fromkeys((f.var for f in prepared.loops), 0)}
    counts = [evaluate(f.extent, at_start) for f in prepared.loops]
    calls = prod(counts)
    streams = [_stream(o, prepared, at_start) for o in call.operands if isinstance(o, Tile)]
    windows = call.primitive if isinstance(call.primitive, WindowSums) else None
    beside = evaluate(prepared.beside, at_start) * streams[0].element_bytes
    loaded = 1 / caches.l2.fill_bytes_per_cycle
    stored = loaded if windows else machine.clock_hz / machine.dma.put.peak_bytes_per_second
    rates = stored, *[loaded] * (len(streams) - 1)
    cycles: Value = 0.0
    for stream, rate in zip(streams, rates, strict=True):
        depth = (*stream.moved_by, True).index(True)
        between = beside
        for other in streams:
            between = between + other.touched(depth, counts)
        gone = np.maximum(0.0, 1 - caches.l2.capacity_bytes / np.maximum(between, 1))
        moved = stream.call_bytes * calls
        if windows:
            gone = np.ceil(gone)
            moved = np.minimum(moved, stream.every_turn(counts))
        cycles = cycles + gone * moved * rate
    if windows is None:
        return cycles
    kept, inside = _in_image(windows, call, prepared, machine, env)
    refilled = _refilled(windows, streams, counts, inside, machine, caches)
    idle = kept * calls * _idle_cycles(windows, streams, prepared.program, call, machine)
    exposed = cycles / loaded * caches.l2.exposed_cycles_per_byte
    return np.maximum(np.maximum(refilled - idle, exposed), cycles - busy)


def _idle_cycles(
    windows: WindowSums, streams: Sequence[_Stream], program: Program, call: Call, machine: Machine
) -> Value:
    """Cycles of a call in which it only multiplies and adds, so that the level 1 cache can fill."""
    y, x, _ = streams
    dims = {"u": 1, "k": 1, **y.extents, **{k: v for k, v in x.extents.items() if k == "k"}}
    dims["elements"] = y.call_bytes // y.element_bytes
    work = _window_work(windows, dims, program.element_type(call.operands[0]), machine)
    return np.maximum(0, work.added - work.loaded)


def _refilled(
    windows: WindowSums,
    streams: Sequence[_Stream],
    counts: Sequence[Value],
    inside: Value,
    machine: Machine,
    caches: Caches,
) -> Value:
    """Cycles of filling the level 1 cache. Lines that are not summed together read the rows of the
    previous lines again if the pixels of all channels exceed the cache, as these have been evicted
    by then. Blocks of fewer channels, whose rows would stay, take as long, as the hardware does not
    prefetch them. If a block reads more cache lines side by side than the prefetchers' `streams`,
    those that do not stay come twice. Only the share `inside` the image is read.
    """
    (y, x, w), l1 = streams, caches.l1
    lines = y.extents.get("u", 1)
    _, depth, pixels = _block(windows, y.extents["t"], lines, x.extents.get("k", 1), machine)
    rows = _rows_read(windows, depth, depth)
    read = inside * x.call_bytes * (rows / x.extents["r"]) + w.call_bytes
    held = read + y.call_bytes * (depth / lines)
    turns, across = -(-lines // depth), held
    for moves, count in zip(w.moved_by, counts, strict=True):
        turns, across = turns * count, across * (count if moves else 1)
    crowded = windows.rows * (2 * windows.cols + (pixels - 1) * windows.stride) > caches.streams
    gone = np.where(across > l1.capacity_bytes, 1.0, 0.0)
    gone = gone + np.where(crowded & (held > l1.capacity_bytes), 1.0, 0.0)
    return turns * gone * read / l1.fill_bytes_per_cycle


def copied_cycles(prepared: Prepared, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Cycles of copying Winograd's tiles that reach beyond the image, for whole lines of channels;
    a copy of input pixels is zeroed first.
    """
    call = _streaming(prepared)
    if call is None or not isinstance(call.primitive, (WinogradInput, WinogradOutput)):
        return 0.0
    which, vector = call.primitive, machine.section(VectorPrimitive)
    at_start = {**env, **dict.fromkeys((f.var for f in prepared.loops), 0)}
    written, read = (o for o in call.operands if isinstance(o, Tile))
    each = 2 * vector.load_cycles + vector.loop_cycles
    if isinstance(which, WinogradInput):
        pixels, points, side = read, written, which.transforms.points
        each = each + vector.load_cycles + vector.loop_cycles
    else:
        pixels, points, side = written, read, which.output_tile
    stream, kind = _stream(points, prepared, at_start), prepared.program.element_type(points)
    beyond = 1 - _inside(pixels, side, which.output_tile, stream, prepared, at_start)
    line, lanes = LINE_BYTES // stream.element_bytes, machine.core.lanes(kind)
    tiles = stream.extents.get("t", 1) * stream.extents.get("q", 1)
    vectors = stream.extents.get("p", 1) // line * (line // lanes)
    calls = prod(evaluate(f.extent, at_start) for f in prepared.loops)
    return beyond * calls * tiles * vectors * side**2 * each


def _inside(
    pixels: Tile,
    side: int,
    step: int,
    points: _Stream,
    prepared: Prepared,
    env: Mapping[str, Value],
) -> Value:
    """Share of the tiles, of `side` pixels each and `step` apart, that lie wholly in the image."""
    division, share = prepared.division, np.float64(1)
    extents = division.extents if division else [f.extent for f in prepared.loops]
    for letter, tiles in (("r", 1), ("c", points.extents.get("t", 1))):
        place = pixels.roles.index(letter)
        size = evaluate(prepared.program.tensor(pixels.tensor).shape[place], env)
        moving = free_vars(pixels.ranges[place].start)
        for loop, extent in zip(prepared.loops, extents, strict=True):
            tiles = tiles * (evaluate(extent, env) if loop.var in moving else 1)
        share = share * np.minimum(1, ((size - side) // step + 1) / tiles)
    return share


def _streaming(prepared: Prepared) -> Call | None:
    """The first call that streams all its operands in place, if any."""
    for call in (s for s in walk(prepared.program.body) if isinstance(s, Call)):
        in_place = all(isinstance(o, Tile) for o in call.operands)
        if isinstance(call.primitive, _STREAMING) and in_place:
            return call
    return None


def _stream(tile: Tile, prepared: Prepared, env: Mapping[str, Value]) -> _Stream:
    tensor = prepared.program.tensor(tile.tensor)
    element_bytes = dtype(tensor.dtype).size_bytes
    call_bytes: Value = element_bytes
    tensor_bytes: Value = element_bytes
    for r, size in zip(tile.ranges, tensor.shape, strict=True):
        extent = evaluate(size, env)
        tensor_bytes = tensor_bytes * extent
        call_bytes = call_bytes * np.minimum(evaluate(r.extent, env), extent)
    used = frozenset().union(*(free_vars(r.start) for r in tile.ranges))
    moved_by = tuple(f.var in used for f in prepared.loops)
    letters = zip(tile.roles, tile.ranges, strict=True)
    extents = {letter: evaluate(r.extent, env) for letter, r in letters if letter in "urkxptq"}
    return _Stream(element_bytes, call_bytes, tensor_bytes, moved_by, extents)


PRICES = HostPrices()
