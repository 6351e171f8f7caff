"""Cycles that a core waits for operands used in place: the traffic between the caches.

In: a prepared nest, a machine and values for the nest's parameters. Out: cycles, of the values'
form. A cache holds the data that the loops from some depth inwards touch, if they fit; then every
operand is fetched from beyond the cache once for each iteration of the outer loops that move its
region. A byte costs the part of its transfer that does not overlap with computing (the additive
execution-cache-memory model, Stengel et al. 2015), and all bytes together take at least the time
that a level needs to deliver them. If everything fits nothing is charged: a kernel that is called
again finds its operands in the cache.

Rows whose distance is a multiple of a power of two share sets of a cache: they occupy all lines of
those sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Value, coefficient, evaluate, free_vars, product
from tilewright.cost.chain import Prepared
from tilewright.ir.chains import chains_of
from tilewright.ir.nodes import Call, Operand, Program, Range, Tensor, Tile, View
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import calls_of
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive, VectorPrimitive
from tilewright.targets.host.cost.buffers import loaded_buffers, waiting_bytes
from tilewright.targets.host.cost.stores import is_fetched_ahead, passes_caches, whole_bytes
from tilewright.targets.host.cost.threads import crowding, has_own
from tilewright.targets.host.sections import Caches, CoreCache, Pages
from tilewright.targets.host.vectors.microkernel import LINE_BYTES

_L1_SHARE = 0.5
"""Share of the level 1 cache that one factor may occupy: the other is streamed through it."""


@dataclass(frozen=True)
class TouchedRows:
    """Touched bytes, in rows of `run` bytes with starts `pitch` bytes apart (0: a single row)."""

    bytes: Value
    run: Value
    pitch: Value

    @property
    def rows(self) -> Value:
        """Number of rows."""
        return self.bytes / np.maximum(self.run, 1)

    def fetched(self, block_bytes: int) -> Value:
        """Bytes that come with it where memory is fetched in whole blocks of so many bytes."""
        blocks = np.minimum(-(-self.run // block_bytes) * block_bytes, self.pitch)
        apart = np.greater(self.pitch, self.run)
        return self.bytes * np.where(apart, blocks / np.maximum(self.run, 1), 1.0)

    def room(self, cache: CoreCache) -> Value:
        """Bytes of the cache sets that hold the region."""
        shared = np.gcd(self.pitch, cache.way_bytes)
        part = np.where(np.greater(self.pitch, 0), self.run / np.maximum(shared, 1), 1.0)
        return self.bytes / np.minimum(part, 1.0)


@dataclass(frozen=True)
class _Operand:
    """An operand of a product that is used in place."""

    tile: Tile
    reach: TouchedRows  # (depths + 1, tiles): region touched inside 0 to `depths` outer loops
    moved_by: tuple[bool, ...]  # true for each loop that moves its region
    constant_bytes: Value = 0  # of a whole constant, of which other nests may read the rest
    own: Value = True  # true if each thread has its own part of it

    @cached_property
    def regions(self) -> tuple[TouchedRows, ...]:
        """The regions that it touches inside each number of outer loops."""
        fields = (self.reach.bytes, self.reach.run, self.reach.pitch)
        return tuple(map(TouchedRows, *map(_rows, fields)))

    def rooms(self, cache: CoreCache) -> list[Value]:
        """Capacity of the cache sets that each region occupies; a whole constant between runs."""
        every, *inside = _rows(self.reach.room(cache))
        return [np.maximum(every, self.constant_bytes), *inside]

    def traffic(self, depth: int, counts: Sequence[Value], block_bytes: int) -> Value:
        """Bytes that come into a cache that holds what is touched inside `depth` loops, in whole
        blocks of so many bytes.
        """
        moving = [d for d in range(depth) if self.moved_by[d]]
        if not moving:
            return self.regions[0].fetched(block_bytes)
        times: Value = 1
        for count in counts[: moving[-1]]:
            times = times * count
        return times * self.regions[moving[-1]].fetched(block_bytes)


def _rows(table: Value) -> list[Value]:
    """The rows of a table; of a table with one column, its numbers."""
    return list(table[:, 0] if table.shape[1] == 1 else table)


def exposed_cycles(
    prepared: Prepared,
    machine: Machine,
    env: Mapping[str, Value],
    buffer_bytes: Value,
    busy_cycles: Value = 0.0,
) -> Value:
    """Cycles that the core waits, beyond the calls' own time, for operands in place, or in buffers
    larger than the level 2 cache.

    Buffers occupy `buffer_bytes` of the caches. Fills overlap with `busy_cycles` of other work.
    """
    caches, program = machine.find_section(Caches), prepared.program
    if caches is None or next(calls_of(program.body, MatrixProduct), None) is None:
        return 0.0
    every = (*prepared.loops, *prepared.inside)
    at_start = {**env, **dict.fromkeys((f.var for f in every), 0)}
    loops = [(f.var, evaluate(f.extent, at_start)) for f in every]
    counts = [count for _, count in loops[: len(prepared.loops)]]
    operands = [_operand(tile, program, at_start, loops, len(counts)) for tile in _tiles(program)]
    operands = [replace(o, own=has_own(prepared, env, o.moved_by)) for o in operands]
    if prepared.division is not None:
        operands = [_from_memory(o, program) for o in operands]
    operands, stored = _without_stored(operands, program, machine, at_start, counts)
    waits, fills = _set_conflicts(program, machine, at_start, operands, loops)
    far = buffer_bytes > machine.spm_available_bytes
    near = buffer_bytes - far * waiting_bytes(program, machine, at_start)
    l1, l2, l3 = caches.levels
    for nearer, cache, threads in ((l1, l2, 1), (l2, l3, machine.thread_count)):
        taken = near if cache is caches.l2 else buffer_bytes
        moved = _traffic(operands, counts, cache, taken, threads, caches.fetched_bytes)
        moved = moved * (crowding(machine) if threads > 1 else 1)
        if cache is caches.l2:
            again = _swept_again(program, machine, at_start, operands, near)
            moved = moved + prod(counts) * (again + far * _streamed(program, at_start))
        waits = waits + moved * _further_cycles(nearer, cache)
        moved = moved + (stored * crowding(machine) if cache is caches.l3 else 0)
        fills = np.maximum(fills, moved / cache.fill_bytes_per_cycle)
    handed = _handed_over(operands, counts, program, machine) * caches.handed_cycles_per_byte
    waits = np.maximum(waits, fills - busy_cycles) + handed
    return waits + prod(counts) * _cut_panels(program, machine, at_start) * caches.pages.miss_cycles


def _further_cycles(nearer: CoreCache, cache: CoreCache) -> float:
    """Exposed cycles of a byte from beyond `cache`, in addition to those from beyond `nearer`,
    which are charged already as the byte passes through both.
    """
    return max(0.0, cache.exposed_cycles_per_byte - nearer.exposed_cycles_per_byte)


def _handed_over(
    operands: Sequence[_Operand], counts: Sequence[Value], program: Program, machine: Machine
) -> Value:
    """Bytes of intermediate results that a thread reads after others stored them, over all turns of
    loops that move no operand. If threads divide the constant, the nests before and after divide
    these results by rows instead, so most come from other threads; undivided sums are its own.
    """
    scratch = [o for o in operands if program.tensor(o.tile.tensor).kind == "scratch"]
    if not scratch or machine.thread_count == 1:
        return 0
    turns: Value = 1 - 1 / machine.thread_count
    for count, *moves in zip(counts, *(o.moved_by for o in operands), strict=True):
        turns = turns * (1 if any(moves) else count)
    call, _ = next(calls_of(program.body, MatrixProduct))
    divided: Value = np.False_
    found: Value = 0
    for one in operands:
        divided = divided | (np.greater(one.constant_bytes, 0) & one.own)
    for one in scratch:
        foreign = divided & (one.tile is not call.operands[0] or one.own)
        found = found + np.where(foreign, one.regions[0].bytes, 0)
    return turns * found


def _from_memory(operand: _Operand, program: Program) -> _Operand:
    """The operand with infinite `constant_bytes` if it is a constant of a program with intermediate
    results. These are transformed convolution kernels, several times the size of the weights and
    shared by threads: no cache keeps them until the next run.
    """
    between = any(t.kind == "scratch" for t in program.tensors)
    far = between & np.greater(operand.constant_bytes, 0)
    return replace(operand, constant_bytes=np.where(far, np.inf, operand.constant_bytes))


def _without_stored(
    operands: Sequence[_Operand],
    program: Program,
    machine: Machine,
    env: Mapping[str, Value],
    counts: Sequence[Value],
) -> tuple[list[_Operand], Value]:
    """(operands, bytes of C if it is written by non-temporal stores). Such a C counts no bytes as
    an operand: its stores take time of main memory, but the core does not wait for them.
    """
    found: list[_Operand] = []
    stored: Value = 0
    chain = next(iter(chains_of(program)))
    for mine in operands:
        if mine.tile is chain.call.operands[0] and chain.first != Const(0):
            past = passes_caches(mine.tile, program, machine, env)
            for moves, count in zip(mine.moved_by, counts, strict=True):
                past = past & (moves | np.equal(count, 1))
            stored = np.where(past, mine.regions[0].bytes, 0)
            kept = np.where(past, 0, mine.reach.bytes)
            mine = replace(mine, reach=replace(mine.reach, bytes=kept))
        found.append(mine)
    return found, stored


@dataclass(frozen=True)
class _Shape:
    """Extents, register block and factors of a product."""

    scalars: Value  # extent along the broadcast factor
    columns: Value  # extent along the loaded factor
    k: Value
    height: int  # of a register block, along the broadcast factor
    width: int  # of a register block, along the loaded factor
    broadcast: Operand  # factor read element by element
    loaded: Operand  # factor read by vectors


def _shape(program: Program, machine: Machine, env: Mapping[str, Value]) -> _Shape:
    """The shape of the program's first product."""
    call, multiply = next(calls_of(program.body, MatrixProduct))
    m, n, k = (_extent(call, letter, env) for letter in "mnk")
    _, a, b = call.operands
    lanes = machine.core.lanes(program.element_type(call.operands[0]))
    gemm = machine.section(GemmPrimitive)
    block = gemm.register_block_scalars, lanes * gemm.register_block_vectors
    if multiply.along == "n":
        return _Shape(m, n, k, *block, a, b)
    return _Shape(n, m, k, *block, b, a)


def _swept_again(
    program: Program,
    machine: Machine,
    env: Mapping[str, Value],
    operands: Sequence[_Operand],
    buffer_bytes: Value,
) -> Value:
    """Bytes fetched into the level 2 cache again within one call: each block of columns sweeps the
    whole broadcast factor, which the cache may not keep from one sweep to the next.
    """
    caches = machine.find_section(Caches)
    if caches is None:
        return 0
    shape = _shape(program, machine, env)
    part = np.minimum(1.0, shape.width / np.maximum(shape.columns, 1))
    touched, swept = buffer_bytes, 0
    for mine in operands:
        region = mine.regions[-1]
        if mine.tile is shape.broadcast:
            swept = region.bytes
            touched = touched + region.room(caches.l2)
        else:
            touched = touched + part * region.room(caches.l2)
    again = -(-shape.columns // shape.width) - 1
    return np.where(touched > caches.l2.capacity_bytes, again * swept, 0)


def _streamed(program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes of the buffers that products load by vectors."""
    found: Value = 0
    for view, _ in loaded_buffers(program):
        size = dtype(program.buffer(view.buffer).dtype).size_bytes
        found = found + evaluate(product(view.shape), env) * size
    return found


def _cut_panels(program: Program, machine: Machine, env: Mapping[str, Value]) -> Value:
    """Panels of a constant of which a call reads a part along k, each on pages of its own; whole
    panels are contiguous in memory.
    """
    shape = _shape(program, machine, env)
    if not isinstance(shape.loaded, Tile) or program.tensor(shape.loaded.tensor).kind != "constant":
        return 0
    tile, part = shape.loaded, np.False_
    for role, r, size in zip(
        tile.roles, tile.ranges, program.tensor(tile.tensor).shape, strict=True
    ):
        if role == "k":
            extent = evaluate(r.extent, env)
            part = part | (np.greater(extent, 1) & np.less(extent, evaluate(size, env)))
    return np.where(part, -(-shape.columns // shape.width), 0)


def _tiles(program: Program) -> tuple[Tile, ...]:
    """Operands of the matrix products used in place."""
    products = calls_of(program.body, MatrixProduct)
    return tuple(o for call, _ in products for o in call.operands if isinstance(o, Tile))


def _operand(
    tile: Tile,
    program: Program,
    env: Mapping[str, Value],
    loops: Sequence[tuple[str, Value]],
    depths: int,
) -> _Operand:
    """The regions that an operand touches inside 0 to `depths` outer loops, down to one call, which
    contains all further loops.
    """
    tensor = program.tensor(tile.tensor)
    shape = [evaluate(e, env) for e in tensor.shape]
    steps = [evaluate(r.step, env) for r in tile.ranges]
    pairs = zip(tile.ranges, shape, strict=True)
    counts = [np.minimum(_touched(r, loops, depths, env), extent) for r, extent in pairs]
    used = frozenset().union(*(free_vars(r.start) for r in tile.ranges))
    reach = _region(tensor, counts, steps, shape)
    constant = whole_bytes(tensor, env) if tensor.kind == "constant" else 0
    return _Operand(tile, reach, tuple(name in used for name, _ in loops[:depths]), constant)


def _region(
    tensor: Tensor, counts: Sequence[Value], steps: Sequence[Value], shape: Sequence[Value]
) -> TouchedRows:
    """Touched rows of a region with `counts` indices `steps` apart in a tensor of `shape`; packed
    constants are contiguous, without a pitch.
    """
    size = dtype(tensor.dtype).size_bytes
    run: Value = size
    pitch: Value = 0
    stride: Value = size
    whole: Value = True
    for count, step, extent in reversed(list(zip(counts, steps, shape, strict=True))):
        whole = whole & (np.equal(step, 1) | np.equal(count, 1))
        # the innermost dimension that does not continue the run sets the pitch
        begins = ~np.asarray(whole) & np.equal(pitch, 0) & np.greater(count, 1)
        pitch = np.where(begins, stride * step, pitch)
        run = np.where(whole, run * count, run)
        whole = whole & np.equal(count, extent)
        stride = stride * extent
    whole = np.broadcast_arrays(size * prod(counts), run, pitch)
    return TouchedRows(whole[0], whole[1], whole[2] * (tensor.kind != "constant"))


def _set_conflicts(
    program: Program,
    machine: Machine,
    env: Mapping[str, Value],
    operands: Sequence[_Operand],
    loops: Sequence[tuple[str, Value]],
) -> tuple[Value, Value]:
    """(cycles that the core waits, cycles in which prefetched lines arrive) for factors whose part
    in one register block is small but not kept by the nearer caches, because its rows share sets or
    lie on too many pages. Every use fetches each line again; a prefetched line comes twice if its
    set does not keep it until its use.
    """
    call, _ = next(calls_of(program.body, MatrixProduct))
    kind, shape = program.element_type(call.operands[0]), _shape(program, machine, env)
    scalars, columns, width, height = shape.scalars, shape.columns, shape.width, shape.height
    times = shape.k * dtype(kind).size_bytes * prod(count for _, count in loops)
    sweeps = prod(count for _, count in loops) * -(-columns // width)
    written = [o.regions[-1] for o in operands if o.tile is call.operands[0]]
    caches = machine.section(Caches)
    cycles: Value = 0.0
    meanwhile: Value = 0.0
    each: Value
    times_in: Value = 1
    for number, factor in enumerate(call.operands[1:]):
        loaded = factor is shape.loaded
        whole, part = (columns, width) if loaded else (scalars, height + 2)
        used = columns * -(-scalars // height) if loaded else scalars * -(-columns // width)
        letter = "k" if loaded else "mn"[number]
        pitch = _row_bytes(factor, letter, program, env)
        each = 0.0 if loaded else _in_one_set(pitch, caches)
        for mine in (o.regions[-1] for o in operands if o.tile is factor):
            if not loaded:
                cycles = cycles + sweeps * _page_cycles(mine, written, caches.pages)
            block = replace(mine, bytes=mine.bytes * np.minimum(1.0, part / whole))
            if loaded:
                run = np.minimum(mine.run, width * dtype(kind).size_bytes)
                block = replace(block, run=run, pitch=pitch)
                blocks = prod(count for _, count in loops) * used / width
                cycles = cycles + blocks * _row_miss_cycles(block, caches.pages)
            each = np.maximum(each, _anew(block, caches, height))
            times_in = 1 + _is_crowded(block, caches.l1)
        again = used * times * each
        if loaded and isinstance(factor, Tile) and dtype(kind).is_float:
            ahead = is_fetched_ahead(program.tensor(factor.tensor), caches, env) & (each > 0)
            steps = sweeps * -(-scalars // height) * shape.k
            meanwhile = meanwhile + np.where(ahead, again, 0)
            again = np.where(ahead, steps * _late_cycles(times_in, kind, machine), again)
        cycles = cycles + again
    return cycles, meanwhile


def _late_cycles(times_in: Value, kind: str, machine: Machine) -> Value:
    """Cycles that a step of k takes beyond its multiply-adds, in a full register block whose lines
    are prefetched and come into the level 1 cache `times_in` times. Loads and fills do not overlap.
    """
    gemm, caches = machine.section(GemmPrimitive), machine.section(Caches)
    row = machine.core.lanes(kind) * gemm.register_block_vectors * dtype(kind).size_bytes
    loads = gemm.register_block_scalars + gemm.register_block_vectors + -(-row // LINE_BYTES)
    taken = loads * machine.section(VectorPrimitive).load_cycles
    taken = taken + times_in * row / caches.l1.fill_bytes_per_cycle
    return np.maximum(0.0, taken - gemm.given_timing(kind).cycles_per_k)


def _row_bytes(factor: Operand, letter: str, program: Program, env: Mapping[str, Value]) -> Value:
    """Bytes from one index of a factor's dimension `letter` to the next; 0 for packed constants."""
    match factor:
        case Tile(tensor):
            if program.tensor(tensor).kind == "constant":
                return 0
            shape, kind = program.tensor(tensor).shape, program.tensor(tensor).dtype
        case View(buffer):
            shape, kind = factor.shape, program.buffer(buffer).dtype
    d = factor.roles.rindex(letter)
    stride = product(shape[d + 1 :]) * factor.ranges[d].step
    return dtype(kind).size_bytes * evaluate(stride, env)


def _in_one_set(pitch: Value, caches: Caches) -> Value:
    """Cycles per byte of rows that all begin in one set of the level 1 cache."""
    alike = np.greater(pitch, 0) & np.equal(pitch % caches.l1.way_bytes, 0)
    return np.where(alike, 1 / caches.l2.fill_bytes_per_cycle, 0.0)


def _anew(block: TouchedRows, caches: Caches, height: int) -> Value:
    """Cycles per byte to refetch a register block's factor at each use, 0 if a cache keeps it. The
    other factor and C each touch `height` rows besides.
    """
    l1, l2, pages = caches.l1, caches.l2, caches.pages
    touched = np.minimum(block.pitch, pages.page_bytes) * (block.rows + 2 * height)
    scattered = touched > pages.count * pages.page_bytes
    crowded = _is_crowded(block, l1)
    far = (block.room(l2) > l2.capacity_bytes) & (block.room(l2) > block.bytes)
    near = np.where(crowded | scattered, 1 / l1.fill_bytes_per_cycle, 0.0)
    return np.where(far, 1 / l2.fill_bytes_per_cycle, near)


def _is_crowded(block: TouchedRows, l1: CoreCache) -> Value:
    """True if the rows of a register block's factor share sets of the level 1 cache, and these
    exceed the factor's share of it.
    """
    return (block.room(l1) > _L1_SHARE * l1.capacity_bytes) & (block.room(l1) > block.bytes)


def _row_miss_cycles(block: TouchedRows, pages: Pages) -> Value:
    """Cycles of TLB misses in one register block whose rows lie on pages of their own."""
    apart = np.greater_equal(block.pitch, pages.page_bytes)
    return np.where(apart, block.rows * pages.row_miss_cycles, 0)


def _page_cycles(swept: TouchedRows, written: Sequence[TouchedRows], pages: Pages) -> Value:
    """Cycles of TLB misses in one sweep of rows that, with a column of C, lie on more pages than
    the TLB holds.
    """
    size = pages.page_bytes
    apart = np.greater_equal(swept.pitch, size)
    each = np.where(apart, 1 + swept.run / size, swept.pitch / size)
    swept_pages = swept.rows * each
    beside = _sum(c.rows * np.minimum(1.0, c.pitch / size) for c in written)
    return np.where(swept_pages + beside > pages.count, swept_pages * pages.miss_cycles, 0)


def _extent(call: Call, letter: str, env: Mapping[str, Value]) -> Value:
    """Extent of a product along `letter` in the first iteration."""
    operand = next(o for o in call.operands if letter in o.roles)
    found: Value = 1
    for role, r in zip(operand.roles, operand.ranges, strict=True):
        found = found * evaluate(r.extent, env) if role == letter else found
    return found


def _touched(
    r: Range, loops: Sequence[tuple[str, Value]], depths: int, env: Mapping[str, Value]
) -> Value:
    """(depths + 1, tiles): indices of one dimension that the loops inside 0 to `depths` outer loops
    touch together.
    """
    extent = evaluate(r.extent, env)
    span: Value = (extent - 1) * evaluate(r.step, env) + 1
    found, number = [np.minimum(span, extent)], extent
    for loop, count in reversed(loops):
        step = coefficient(r.start, loop)
        if step != Const(0):
            span = span + (count - 1) * evaluate(step, env)
            number = number * count
            found.append(np.minimum(span, number))
        else:
            found.append(found[-1])
    rows = np.broadcast_arrays(*found[: -depths - 2 : -1])
    return np.stack([np.atleast_1d(row) for row in rows])


def _traffic(
    operands: Sequence[_Operand],
    counts: Sequence[Value],
    cache: CoreCache,
    buffer_bytes: Value,
    threads: int,
    block_bytes: int,
) -> Value:
    """Bytes that a thread brings into `cache` in whole blocks, with the regions of the largest
    depth that fits kept there; if not even those of one call fit, each call fetches its own again.
    Threads share what they have no parts of, but for what comes from main memory.
    """
    room = cache.capacity_bytes - threads * buffer_bytes
    shares = [np.where(o.own | np.isinf(o.constant_bytes), 1.0, 1.0 / threads) for o in operands]
    pairs = list(zip(operands, shares, strict=True))
    rooms = [o.rooms(cache) for o in operands]
    each = _sum(o.regions[-1].fetched(block_bytes) * share for o, share in pairs)
    bytes_in: Value = prod(counts) * each
    for depth in range(len(counts), -1, -1):
        held = _sum(own[depth] * share for own, share in zip(rooms, shares, strict=True))
        moved = (o.traffic(depth, counts, block_bytes) * share for o, share in pairs)
        now = _sum(moved) if depth else 0
        bytes_in = np.where(threads * held <= room, now, bytes_in)
    return bytes_in


def _sum(values: Iterator[Value]) -> Value:
    total: Value = 0
    for value in values:
        total = total + value
    return total
