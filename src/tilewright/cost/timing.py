"""Cost of one transfer and one primitive call: the leaves of every estimate and simulation.

In: a machine and shapes, integers (one candidate) or integer arrays (every candidate at once). Out:
cycles of the same form. Transfers follow swATOP Eq. 1 with the bandwidth rule fitted to swDNN Table
II; the matrix primitive follows swATOP Eq. 2 with the machine's calibrated data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product as combinations
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never

import numpy as np

from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    BinaryExpr,
    Const,
    Expr,
    Value,
    binary,
    maximum,
    minimum,
    product,
    substitute,
)
from tilewright.cost.nests import gathered_axes, nest_dims
from tilewright.ir.chains import Chain
from tilewright.ir.nodes import (
    CORE_SYMBOLS,
    LAST_CORE,
    SCRATCHPAD,
    Call,
    Direction,
    Operand,
    Range,
    Tile,
    View,
)
from tilewright.ir.primitives import (
    MatrixProduct,
    MultiplyAccumulate,
    Reduce,
    Repack,
    WinogradTransform,
)
from tilewright.ir.regions import Blocks, Repeat, split_region
from tilewright.machine import Machine


@dataclass(frozen=True)
class TransferShape:
    """One core's transfer as the memory sees it.

    It has `blocks` contiguous runs of `block_bytes` each, in `requests` DMA descriptors.
    `alignment_bytes` divides the distance between any two block starts of one turn (0 for a single
    block). The blocks of `adjoining` cores lie side by side, their starts `beside_bytes` apart,
    which need not be a multiple of the alignment; or this block ends a run of other cores' blocks,
    `before_bytes` long. From turn to turn all blocks move together, by the `moves` (bytes, turns);
    the first turn starts at `offset_bytes`. `space` is the memory on the core's side. A `share` of
    the cores moves this much; `others` move less, the rest nothing. In row-major order, all cores
    that move anything are among the leading share `until`.
    """

    block_bytes: Value
    blocks: Value = 1
    requests: Value = 1
    alignment_bytes: Value = 0
    adjoining: Value = 1
    space: str = field(default=SCRATCHPAD, repr=False)
    beside_bytes: Value = field(default=0, repr=False)
    moves: tuple[tuple[Value, Value], ...] = field(default=(), repr=False)
    offset_bytes: Value = field(default=0, repr=False)
    share: Value = field(default=1, repr=False)
    others: tuple[TransferShape, ...] = field(default=(), repr=False)
    until: Value = field(default=1, repr=False)
    before_bytes: Value = field(default=0, repr=False)

    @property
    def asked_bytes(self) -> Value:
        """Bytes that the program asks for, per core."""
        return self.blocks * self.block_bytes

    @property
    def moving(self) -> Value:
        """The share of the cores that move anything."""
        return sum(own.share * np.greater(own.blocks, 0) for own in (self, *self.others))


def transfer_shape(
    element_bytes: int,
    tensor_shape: Sequence[Value],
    extents: Sequence[Value],
    steps: Sequence[Value],
    distances: Sequence[Value] = (),
    cores: Sequence[Value] = (),
    space: str = SCRATCHPAD,
    moves: Sequence[tuple[int, Value, Value]] = (),
    offset: Value = 0,
    before: Sequence[Value] = (),
) -> TransferShape:
    """The requests that move a region of a row-major tensor.

    `ir.regions` splits the region as the generated code does: a DMA descriptor has one block size
    and one stride. A region without elements has no blocks and no requests. Per dimension,
    `distances` and `cores` are the indices between neighbouring cores' regions and the number of
    cores (0 and 1 for one core); a region several distances long adjoins the one that begins at its
    end. `before` are the indices from the first core to one at the end of a line, with two `cores`
    if the others reach up to it. The region starts at element `offset` and moves by the `moves`
    (dimension, indices, turns). `space` is the memory on the core's side.

    >>> transfer_shape(8, [64, 16, 32], [4, 16, 32], [1, 1, 1]).block_bytes
    16384
    >>> transfer_shape(8, [64, 16, 32], [4, 2, 8], [1, 1, 1])
    TransferShape(block_bytes=64, blocks=8, requests=4, alignment_bytes=256, adjoining=1)
    >>> transfer_shape(8, [64, 64], [8, 8], [1, 1], [0, 8], [1, 8]).adjoining
    8
    """
    strides = [element_bytes * prod(tensor_shape[d + 1 :]) for d in range(len(tensor_shape))]
    some = prod(np.greater(extent, 0) for extent in extents)
    repeats = [Repeat(n, away * by) for n, away, by in zip(extents, strides, steps, strict=True)]
    along = [*map(_along, extents, distances, cores, before or [0] * len(cores), strides)]
    others = [one.before_bytes for one in along]
    blocks = split_region(repeats, element_bytes, [one.cores for one in along], others)
    alignment, beside_bytes = _alignment(blocks, along)
    return TransferShape(
        _plain(blocks.length),
        _plain(np.where(some, blocks.count * blocks.requests, 0)),
        _plain(np.where(some, blocks.requests, 0)),
        _plain(alignment),
        _plain(blocks.adjoining),
        space,
        _plain(beside_bytes),
        tuple((strides[d] * indices, turns) for d, indices, turns in moves),
        offset * element_bytes + sum(others) - blocks.before,
        before_bytes=_plain(blocks.before),
    )


class _Along(NamedTuple):
    """Cores along a dimension: how many lie side by side, the bytes before this core and from one
    core's start to the next, and whether neighbouring regions `touch`.
    """

    cores: Value
    before_bytes: Value
    away_bytes: Value
    touch: Value


_ALONE = _Along(1, 0, 0, True)  # where no other core has a region of its own


def _along(extent: Value, distance: Value, cores: Value, before: Value, stride: Value) -> _Along:
    """Cores along a dimension; regions several distances long form as many interleaved rows."""
    if isinstance(cores, int) and cores == 1 and isinstance(before, int) and before == 0:
        return _ALONE
    rows, last = extent // np.maximum(distance, 1), np.greater(before, 0)
    beside = np.equal(distance * rows, extent) | last
    return _Along(
        np.where(beside, np.maximum(cores // np.maximum(rows, 1), 1), 1),
        before * stride,
        np.where(np.greater(cores, 1) & ~last, distance * stride, 0),
        beside & np.less(rows, 2),
    )


def _alignment(blocks: Blocks, along: Sequence[_Along]) -> tuple[Value, Value]:
    """(bytes that divide the distances between all block starts of one turn, bytes that divide
    those between neighbours that touch).
    """
    alignment: Value = 0
    for repeat in (Repeat(blocks.count, blocks.stride), *blocks.outer):
        alignment = np.gcd(alignment, np.where(np.greater(repeat.count, 1), repeat.stride, 0))
    apart: Value = 0
    for line in along:
        if line is not _ALONE:
            alignment = np.gcd(alignment, np.where(line.touch, 0, line.away_bytes))
            apart = np.gcd(apart, np.where(line.touch, line.away_bytes, 0))
    return alignment, apart


def with_edges(
    extents: Sequence[Value],
    distances: Sequence[Value],
    cores: Sequence[Value],
    left: Sequence[Value],
    lines: Sequence[str],
    shape_of: Callable[[Sequence[Value], Sequence[Value], Sequence[Value]], TransferShape],
) -> TransferShape:
    """The transfers of all cores: that of core (0, 0), with those of cores that the tensor's end
    cuts as its `others`. `shape_of` maps extents, cores and `before` to a shape (`transfer_shape`).

    Along dimension d, the core at position i of the line `lines[d]` has `left[d] - i *
    distances[d]` indices, at most `extents[d]` and at least 0. Where regions overlap and the end
    cuts several of a line, half of these count as the first one, half as the last.
    """
    ways: list[list[tuple[int, _Part]]] = []
    until: Value = 1
    for line in dict.fromkeys(lines):
        d = lines.index(line)
        if line and (parts := _parts_of_line(extents[d], distances[d], cores[d], left[d])):
            ways.append([(d, part) for part in parts])
            if line != "cid":  # the columns are in every row
                until = until * sum(part.share * np.greater(part.extent, 0) for part in parts)
    shapes: list[TransferShape] = []
    for way in combinations(*ways):
        share = prod(part.share for _, part in way)
        if not shapes or np.any(np.greater(share, 0)):
            own, count, before = [*extents], [*cores], [0] * len(extents)
            for d, part in way:
                own[d], count[d], before[d] = part.extent, part.cores, part.before
            shapes.append(replace(shape_of(own, count, before), share=_plain(share)))
    return replace(shapes[0], others=tuple(shapes[1:]), until=_plain(until))


class _Part(NamedTuple):
    """The `share` of a line's cores that have this extent, with `cores` side by side. A cut core
    has `before` indices ahead of it, and counts as two `cores` if its neighbours reach up to it.
    """

    share: Value
    extent: Value
    cores: Value
    before: Value


def _parts_of_line(extent: Value, distance: Value, cores: Value, left: Value) -> list[_Part]:
    """Parts of a line of cores: those with the whole extent, the first cut one, the last cut one;
    empty where no core is cut.
    """
    away = np.maximum(distance, 1)
    moves = np.greater(distance, 0) & np.greater(extent, 0)
    whole = np.where(moves, np.minimum((left - extent) // away + 1, cores), cores)
    if np.all(np.equal(whole, cores)):
        return []
    cut = np.where(moves, np.maximum(np.minimum(-(-left // away), cores) - whole, 0), 0)
    last = np.where(np.greater(cut, 1), cut / 2, 0)
    ends = (left - whole * away, left - (whole + cut - 1) * away)
    first, final = (np.where(np.greater(cut, 0), end, extent) for end in ends)
    return [
        _Part(whole / cores, extent, np.maximum(whole, 1), 0),
        _Part((cut - last) / cores, first, 1 + np.equal(distance, extent), whole * away),
        _Part(last / cores, final, 1, (whole + cut - 1) * away),
    ]


def moved_bytes_per_block(transaction_bytes: int, shape: TransferShape) -> Value:
    """Bytes in the whole transactions that one block touches, averaged over alignments.

    Within a turn blocks start at the multiples of g = gcd(distances, T) in a transaction of T
    bytes, each equally often, so s bytes touch floor((s + T - 1) / g) * g / T transactions: exact
    over a period (the waste of swATOP Eq. 1). The first turn starts at the shape's offset, later
    turns at multiples of the gcd of their moves after it. Where the blocks of neighbouring cores
    lie side by side and are no smaller than a transaction, a transaction that two of them touch is
    moved once: measured swDNN kernels are no slower at blocks of 160 or 224 bytes
    (docs/explanation/sw26010-accuracy.md); for smaller blocks nothing is known. A block that ends a
    run of others moves what it adds to that run.
    """
    size, before, block = transaction_bytes, shape.before_bytes, shape.block_bytes
    g, start = _largest_power(shape.alignment_bytes | size), shape.offset_bytes
    single = _in_turns(shape, start + before, block, _largest_power(g | shape.beside_bytes), size)
    joined = np.greater(shape.adjoining, 1) & np.greater_equal(block, size)
    if not np.any(joined):
        return _plain(single)
    ends = np.greater(before, 0)
    count = np.where(ends, 1, shape.adjoining)
    run = _in_turns(shape, start, before + block * count, g, size)
    if np.any(ends):
        run = run - np.where(ends, _in_turns(shape, start, before, g, size), 0)
    return _plain(np.where(joined, run / count, single))


def _in_turns(shape: TransferShape, start: Value, length: Value, g: Value, size: int) -> Value:
    """Bytes of the transactions that a run touches, averaged over its turns; starts of one turn are
    multiples of g apart. Turns that all end before the next such start touch as many as the first.
    As g divides `size`, a power of two, bit masks do: they take a tenth of the time of divisions.
    """
    first = (length - 1 + (start & g - 1) & -g) + size
    least: Value = g
    turns: Value = 1
    end: Value = (start & g - 1) + length
    for move, count in shape.moves:
        shifts = np.greater(count, 1) & np.greater(move & g - 1, 0)
        if shifts.any():  # most moves are by whole transactions
            least = _largest_power(least | np.where(shifts, move, 0))
            turns = turns * np.where(shifts, count, 1)
            end = end + np.where(shifts, move * (count - 1), 0)
    turns = np.where(end <= g, 1, turns)
    places = g // least
    turns = np.minimum(turns, places)
    if np.all(np.equal(turns, 1)):
        return first
    mean = (length - 1 + (start & least - 1) & -least) + size
    others = (mean * places - first) / np.maximum(places - 1, 1)
    return first / turns + others * (1 - 1 / turns)


def _largest_power(value: Value) -> Value:
    """Largest power of two that divides each integer; of `a | 2**n` it is gcd(a, 2**n)."""
    return value & -value


def of_all_cores(
    machine: Machine, shape: TransferShape, each: Callable[[TransferShape], Value]
) -> Value:
    """Unrounded sum over the cores of a group of a number that `each` core's transfer has."""
    return machine.cores * sum(own.share * each(own) for own in (shape, *shape.others))


def asked_bytes(machine: Machine, shape: TransferShape) -> Value:
    """Bytes that all cores of a group ask for."""
    return of_all_cores(machine, shape, lambda own: own.asked_bytes)


def moved_bytes(machine: Machine, shape: TransferShape) -> Value:
    """Bytes that cross the memory interface for all cores of a group, in whole transactions."""
    size = machine.transfer_engine(shape.space).transaction_bytes
    return of_all_cores(machine, shape, lambda own: own.blocks * moved_bytes_per_block(size, own))


def transfer_cycles(
    machine: Machine, direction: Direction, shape: TransferShape, *, shared: bool = False
) -> Value:
    """Unrounded cycles for which a group's engine serves this transfer of all cores.

    `shared`: the other groups read the same data at the same time. The engine's latency comes on
    top: it passes before the engine serves a request and overlaps with the service of others. A
    transfer without blocks costs nothing.
    """
    dma = machine.transfer_engine(shape.space, direction)
    engine = dma.between("main", shape.space, direction)
    together = shared and direction == "get"
    overhead = (
        dma.shared_block_overhead_transactions if together else engine.block_overhead_transactions
    )
    size = dma.transaction_bytes
    found = of_all_cores(
        machine,
        shape,
        lambda own: own.blocks * (moved_bytes_per_block(size, own) + overhead * size),
    )
    return found / engine.peak_bytes_per_second * machine.clock_hz


def stream_bytes_per_second(machine: Machine, direction: Direction, shape: TransferShape) -> Value:
    """Asked bytes per second of a group whose cores all stream transfers of this shape.

    swDNN Table II measures this and calls it MBW: the engine's service alone, its latency hidden.
    """
    cycles = transfer_cycles(machine, direction, shape)
    return asked_bytes(machine, shape) * machine.clock_hz / cycles


def issue_cycles(machine: Machine, shape: TransferShape) -> Value:
    """Cycles that the core itself spends on issuing the descriptors of one transfer."""
    return shape.requests * machine.transfer_engine(shape.space).issue_cycles


def call_dims(
    call: Call,
    known: Collection[str] | None = None,
    turns: Mapping[str, Expr] = MappingProxyType({}),
) -> dict[str, Expr]:
    """The extents that the cost of a call depends on, per core.

    One entry per role letter: the product of the extents of the dimensions with that role, in the
    first operand that has it. Entries with longer names: `elements` of the first operand, its
    contiguous `run` in the slot, the number of `operands`, the number of `factors` of
    `multiply_accumulate`, the loops of the code (`nests.nest_dims`), and the axes that `reduce`
    gathers (`nests.gathered_axes`). A `repack` has others: `elements` and `run` of the whole new
    tile, `source_elements` and `source_run` of the old one. Extents are those of core (0, 0), whose
    tile may be whole where another core re-packs: the cores run in lockstep, so a re-packing that
    is executed costs all of them. `RepackedAxis` names the entries for the other cores' tiles;
    axes that do not change are merged.
    """
    if isinstance(call.primitive, Repack):
        return _repack_dims(call)
    first = call.operands[0]
    dims: dict[str, Expr] = {}
    for operand in call.operands:
        pairs = [*zip(operand.roles, operand.ranges, strict=True)]
        letters = dict.fromkeys(role for role in operand.roles if role != ".")
        dims = {a: product(r.extent for role, r in pairs if role == a) for a in letters} | dims
    dims["operands"] = Const(len(call.operands))
    dims["elements"] = product(r.extent for r in first.ranges)
    dims["run"] = _run(first)
    if not isinstance(call.primitive, MatrixProduct):
        dims["common_run"] = _common_run(call)
        dims["inner"] = _inner_extent(first)
        dims |= nest_dims(call, known, turns)
    if isinstance(call.primitive, Reduce):
        dims |= gathered_axes(call)
    if isinstance(call.primitive, MultiplyAccumulate):
        dims["factors"] = product(r.extent for r in call.operands[-1].ranges)
    return dims


def chain_dims(chain: Chain) -> dict[str, Expr]:
    """`call_dims` for a chain of products in one call: `k` over all its links, and `links`."""
    dims, links = call_dims(chain.call), chain.links
    return {**dims, "k": dims["k"] * links, "links": links}


def _run(operand: Operand) -> Expr:
    """Elements of the innermost contiguous run: dimensions merge while inner ones are whole."""
    match operand:
        case Tile(_, ranges):
            return ranges[-1].extent if ranges else Const(1)
        case View(_, _, shape, ranges):
            run: Expr = Const(1)
            whole: Expr = Const(1)
            for size, r in reversed(list(zip(shape, ranges, strict=True))):
                run = run * (whole * (r.extent - 1) + 1)
                whole = binary("and", whole, _is_whole(size, r))
            return run
        case _:
            assert_never(operand)


def _common_run(call: Call) -> Expr:
    """Elements of the innermost run that is contiguous in every operand: dimensions of the same
    role merge as long as they are whole in all. A run ends at the points of a tile (`winograd`) and
    where the factor changes (`multiply_accumulate`).
    """
    operands, points = list(call.operands), set[str]()
    match call.primitive:
        case WinogradTransform():
            points = set("xrc")
        case MultiplyAccumulate():
            points = set(operands.pop().roles)
    dimensions = [_inner_dimensions(operand) for operand in operands]
    run: Expr = Const(1)
    whole: Expr = Const(1)
    for inner in zip(*dimensions, strict=False):
        roles = {role for role, _, _ in inner}
        if len(roles) > 1 or roles & points or any(r.step != Const(1) for _, _, r in inner):
            break
        run = run * (whole * (inner[0][2].extent - 1) + 1)
        for _, size, r in inner:
            whole = binary("and", whole, _is_whole(size, r))
    return run


def _inner_extent(operand: Operand) -> Expr:
    """Extent of the innermost dimension other than a tile's points."""
    dimensions = _inner_dimensions(operand)
    return next((r.extent for role, _, r in dimensions if role not in "xrc"), Const(1))


def _inner_dimensions(operand: Operand) -> list[tuple[str, Expr, Range]]:
    """(role, size, range) of the dimensions with more than one index, innermost first; `size`
    includes the single-index dimensions around, up to the next such dimension.
    """
    sizes = operand.shape if isinstance(operand, View) else [r.extent for r in operand.ranges]
    found: list[tuple[str, Expr, Range]] = []
    for role, size, r in reversed(list(zip(operand.roles, sizes, operand.ranges, strict=True))):
        if r.extent != Const(1):
            found.append((role, size, r))
        elif found:
            inner, whole, own = found[-1]
            found[-1] = inner, whole * size, own
    return found


def _is_whole(size: Expr, r: Range) -> Expr:
    return Const(1) if r.extent == size else binary("==", r.extent, size)


@dataclass(frozen=True)
class RepackedAxis:
    """Names, in the dims of a re-packing, of the entries for axis number `axis` of the tile.

    Each core has some of the `whole` indices: `most` in the largest tile that is not whole, `least`
    in the smallest; `some_whole` is 1 if some core has all. These three are stored plus one, as an
    extent of 0 means that nothing is done. The tile `grows` to `whole`, or it is cut down.
    """

    axis: int
    grows: bool

    @property
    def whole(self) -> str:
        """Indices of a whole tile."""
        return f"axis_{self.axis}"

    @property
    def most(self) -> str:
        """Indices of the largest tile that is not whole."""
        return f"{'grows' if self.grows else 'cut'}_{self.axis}"

    @property
    def least(self) -> str:
        """Indices of the smallest tile."""
        return f"least_{self.axis}"

    @property
    def some_whole(self) -> str:
        """Flag: some core has a whole tile."""
        return f"some_whole_{self.axis}"


def repacked_axes(dims: Mapping[str, Value]) -> list[RepackedAxis]:
    """The axes of a re-packing that may change, outermost first."""
    kinds = {"grows": True, "cut": False}
    parts = (name.split("_") for name in dims)
    return [RepackedAxis(int(axis[0]), kinds[kind]) for kind, *axis in parts if kind in kinds]


def by_cores(dims: Mapping[str, Value]) -> dict[str, Value]:
    """The dims of a re-packing with four cases along a new first axis: all cores; core (0, 0)
    alone, whose tile is the largest; the cores that have data; the cores that have none, or all
    cores if each has some. Dims that are equal in all cases get no such axis.
    """
    _, first, some, others = cases = [dict(dims) for _ in range(4)]
    for axis in repacked_axes(dims):
        most, least, whole = dims[axis.most], dims[axis.least], dims[axis.whole] + 1
        any_whole = np.greater(dims[axis.some_whole], 1)
        first[axis.most] = first[axis.least] = np.where(any_whole, whole, most)
        smallest = np.where(np.greater(least, 1), least, most)
        some[axis.most] = np.where(np.greater(smallest, 1), most, whole)
        some[axis.least] = np.where(np.greater(smallest, 1), smallest, whole)
        for name in (axis.most, axis.some_whole):
            others[name] = np.where(np.greater(least, 1), dims[name], 1)
    shape = np.broadcast_shapes(*map(np.shape, dims.values()))
    apart = {
        name: np.stack([np.broadcast_to(own[name], shape) for own in cases])
        for name, value in dims.items()
        if any(own[name] is not value for own in cases)
    }
    return {**dims, **apart}


def _repack_dims(call: Call) -> dict[str, Expr]:
    target, source = call.operands
    if not (isinstance(target, View) and isinstance(source, View)):
        raise ProgramError("repack works on views")
    dims = {
        "elements": product(target.shape),
        "run": target.shape[-1] if target.shape else Const(1),
        "source_elements": product(source.shape),
        "source_run": source.shape[-1] if source.shape else Const(1),
    }
    beside: Expr = Const(1)  # indices of the axes between those that change, which are as one
    number = 0
    for new, old in zip(target.shape, source.shape, strict=True):
        if new == old:
            beside = beside * new
        else:
            dims |= {f"axis_{number}": beside} | _repacked_axis(number + 1, new, old)
            beside, number = Const(1), number + 2
    return dims | {f"axis_{number}": beside}


def _repacked_axis(d: int, new: Expr, old: Expr) -> dict[str, Expr]:
    """Entries of an axis that changes. Tiles of neighbouring cores lie side by side: before the end
    of the tensor they are whole, at most one is cut, and those beyond it are empty.
    """
    to_end, whole, axis = _to_end(old, new), new, RepackedAxis(d, grows=True)
    if to_end is None:
        to_end, whole, axis = _to_end(new, old), old, RepackedAxis(d, grows=False)
    if to_end is None:  # no end of a tensor: the same on all cores
        to_end, whole = minimum(new, old), maximum(new, old)
        axis = RepackedAxis(d, grows=to_end == old)
    first = maximum(0, substitute(to_end, dict.fromkeys(CORE_SYMBOLS, 0)))
    last = maximum(0, substitute(to_end, LAST_CORE))
    is_cut = binary("<", last, whole)
    return {
        axis.whole: whole,
        axis.most: is_cut * (first % whole) + (1 - is_cut) * whole + 1,
        axis.least: minimum(last, whole) + 1,
        axis.some_whole: binary("<=", whole, first) + 1,
    }


def _to_end(extent: Expr, whole: Expr) -> Expr | None:
    """Indices to the end of the tensor, from an extent `max(0, min(whole, end))`, or `max(0, end)`
    where the end is known to be within a whole tile; None for other extents.
    """
    match extent:
        case BinaryExpr("max", Const(0), BinaryExpr("min") as inner):
            return _to_end(inner, whole)
        case BinaryExpr("max", Const(0), inner):
            return inner
        case BinaryExpr("min", a, b) if whole in (a, b):
            return b if a == whole else a
        case _:
            return None


def _plain(value: Any) -> Value:
    """A Python number for a scalar, an array for an array."""
    array = np.asarray(value)
    return array.item() if array.ndim == 0 else array
