"""Lower one nest under one schedule to the seed stage of the IR (swATOP Fig. 4, middle).

In: a nest and its steps, factors still symbols. Out: a program of loops around one call on tiles,
parametric in the operator's extents, the tile factors and the granules. Tiles belong to one core:
the inner part of a spread axis is cut into equal chunks over the mesh. The last tile of a spread
axis is rounded up to its granule, the smallest extent that the primitive accepts: the call on that
tile has smaller extents, and zeros pad the remainder (swATOP 4.5.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product as combinations
from string import ascii_letters

from msgspec import structs

from tilewright.common.errors import ScheduleError
from tilewright.common.expr import (
    Const,
    Expr,
    Var,
    all_of,
    binary,
    ceil_div,
    coefficient,
    free_vars,
    minimum,
    round_up,
    substitute,
    total,
)
from tilewright.ir.nodes import (
    CORE_SYMBOLS,
    MESH_SYMBOLS,
    Call,
    For,
    If,
    Program,
    Range,
    Stmt,
    Tensor,
    Tile,
)
from tilewright.ir.primitives import Fill, Map, MatrixProduct, Requantise
from tilewright.ir.visit import used_symbols
from tilewright.ops.numerics import Numerics
from tilewright.schedule.decisions import STRICT, Decisions, Direction, Rules, decisions
from tilewright.seeds.nest import Axis, Nest, Pooling, TensorSpec, Transform, Use
from tilewright.seeds.steps import Skew, Step, print_step

_FACTORS = 2
"""Operands of a product that is summed."""


def granule(axis: str) -> Var:
    """The symbol of an axis' granule, the smallest extent that the primitive accepts."""
    return Var(f"{axis}_granule")


def lower(nest: Nest, steps: tuple[Step, ...], dtype: str, rules: Rules = STRICT) -> Program:
    """The seed-stage program of one nest under one schedule, for the element types `dtype`."""
    p = decisions(nest, steps, rules)
    numerics = Numerics.of(dtype)
    tensors = tuple(declare(u.tensor, p.layouts, dtype) for u in nest.every_use)
    if _requantises(nest, numerics):
        tensors = (*tensors, _sums(tensors[0], numerics))
    body = _innermost(p, numerics)
    if p.skews:
        body = (If(all_of(_inside(p, s) for s in p.skews.values()), body),)
    for name in reversed(p.order):
        body = (For(name, _iterations(p, name), body),)
    loops, known = set(p.order), {*CORE_SYMBOLS, *MESH_SYMBOLS}
    shapes = frozenset().union(*(free_vars(e) for t in tensors for e in t.shape))
    parameters = (used_symbols(body) | shapes) - loops - known
    return Program(nest.name, tuple(sorted(parameters)), tensors, (), body)


def _iterations(p: Decisions, loop: str) -> Expr:
    """Iterations of a loop: one per tile of its axis; for a skewed loop, one per value of the sum
    of its two indices.
    """
    for s in p.skews.values():
        if s.over == loop:
            return _padded(p, p.nest.axis(s.axis)) + (p.nest.axis(s.by).extent - 1)
    for walked, over in p.walks.items():
        if over == loop:
            return _part(p, p.nest.axis(walked), p.spreads[walked])[1]
    axis = p.nest.axis(loop)
    return ceil_div(axis.extent, _tile(p, axis))


def _inside(p: Decisions, s: Skew) -> Expr:
    """The condition that the skewed loop's index minus `by` lies in the current tile."""
    tile = _padded(p, p.nest.axis(s.axis))
    from_first = binary("<=", Var(s.by), Var(s.over))
    return all_of((from_first, binary("<", Var(s.over), Var(s.by) + tile)))


def declare(spec: TensorSpec, layouts: Mapping[str, tuple[str, ...]], dtype: str) -> Tensor:
    """The tensor in its layout's storage order, with its own element type out of `dtype`."""
    extents = dict(spec.dims)
    dims = layouts.get(spec.name, tuple(extents))
    own = spec.element_type(Numerics.of(dtype)).name
    shape = tuple(extents[d] for d in dims)
    return Tensor(spec.name, own, spec.kind, dims, shape, spec.storage, zeros=spec.zeros)


def _requantises(nest: Nest, numerics: Numerics) -> bool:
    """True if the nest's sums are requantised to another element type."""
    return nest.primitive.accumulates and numerics.requantises and not numerics.in_reals


def _sums(result: Tensor, numerics: Numerics) -> Tensor:
    """The tensor of a result's sums; it needs no main memory, since `infer_dma` buffers it."""
    return replace(
        result, name=f"{result.name}_sums", dtype=numerics.sums.name, kind="scratch", storage=""
    )


def _innermost(p: Decisions, numerics: Numerics) -> tuple[Stmt, ...]:
    """The call, with the output's initialisation before it and its epilogue after it."""
    nest = p.nest
    operands = tuple(tile(p, use, i) for i, use in enumerate(nest.uses))
    for s in p.skews.values():
        _check_transfers(p, s, operands)
    primitive = nest.primitive
    if isinstance(primitive, MatrixProduct) and p.vector:
        primitive = structs.replace(primitive, vector=p.vector, dtype=numerics.sums.name)
    if isinstance(primitive, Map) and (numerics.is_mixed or not numerics.is_float):
        primitive = structs.replace(primitive, dtype=numerics.sums.name)
    requantises = _requantises(nest, numerics)
    if requantises:
        operands = (replace(operands[0], tensor=f"{operands[0].tensor}_sums"), *operands[1:])
    call = Call(primitive, operands)
    if not primitive.accumulates:
        finishing = _finishing(p, operands[0])
        return (call, If(_at_last(p, []), finishing)) if finishing else (call,)
    output = operands[0]
    reductions = [nest.axis(a) for a in p.order if a in nest.reductions()]
    start = Fill(primitive.start(numerics.sums))
    body: tuple[Stmt, ...] = (call,)
    if nest.output.tensor.kind != "updated":
        body = (If(_at_first(reductions), (Call(start, (output,)),)), call)
    if nest.before:
        number = next(
            i for i, use in enumerate(nest.uses) if use.tensor == nest.before.output.tensor
        )
        parts = _parts(p, nest.uses[number], nest.before.output)
        body = (If(_at_first(parts), (_transform(p, nest.before, number),)), *body)
    if nest.after:
        parts = _parts(p, nest.output, nest.after.source)
        made = tile(p, nest.finished, 0, dict(nest.after.roles))
        finished = (_transform(p, nest.after, 0), *_finishing(p, made))
        body = (*body, If(_at_last(p, [*reductions, *parts]), finished))
    elif requantises:
        ended = _requantised(p, output, numerics)
        finished = (ended, *_finishing(p, replace(output, tensor=nest.output.tensor.name)))
        body = (*body, If(_at_last(p, reductions), finished))
    elif finishing := _finishing(p, output):
        body = (*body, If(_at_last(p, reductions), finishing))
    return body


def _at_first(axes: Sequence[Axis]) -> Expr:
    return all_of(binary("==", a.var, 0) for a in axes)


def _at_last(p: Decisions, axes: Sequence[Axis]) -> Expr:
    return all_of(binary("==", a.var, ceil_div(a.extent, _tile(p, a)) - 1) for a in axes)


def _parts(p: Decisions, use: Use, whole: Use) -> list[Axis]:
    """The loops' axes that cut a tensor into parts which a transform writes or reads `whole`."""
    return [p.nest.axis(a) for a in p.order if a in use.axes() - whole.axes()]


def _transform(p: Decisions, transform: Transform, operand: int) -> Call:
    """The call of a transform, its tiles cut over the mesh like operand number `operand`."""
    roles = dict(transform.roles)
    uses = (transform.output, transform.source)
    return Call(transform.primitive, tuple(tile(p, use, operand, roles) for use in uses))


def _check_transfers(p: Decisions, s: Skew, operands: tuple[Tile, ...]) -> None:
    """Refuse a transfer that depends on both loops of a skew inside the skewed loop: it also runs
    where the index lies outside the tile.
    """
    if p.nest.axis(s.by).extent == Const(1):
        return
    for use, operand in zip(p.nest.uses, operands, strict=True):
        place = p.order.index(p.stages.get(use.tensor.name, s.by))
        moves = any({s.over, s.by} <= free_vars(r.start) for r in operand.ranges)
        if moves and place > p.order.index(s.over):
            raise ScheduleError(
                f"{print_step(s)}: the tile of {use.tensor.name!r} moves with {s.over} and {s.by}",
                fix=f"stage({use.tensor.name}, {s.over}), or a loop further out",
            )


def _finishing(p: Decisions, made: Tile) -> tuple[Call, ...]:
    """The calls on the finished tile: pooling, then the epilogue."""
    nest = p.nest
    pooled = (_pooled(p, nest.pooling),) if nest.pooling else ()
    result = tile(p, nest.result, 0) if nest.pooling else made
    return (*pooled, _epilogue(p, result)) if nest.epilogue else pooled


def _pooled(p: Decisions, pooling: Pooling) -> Call:
    """The call that pools windows of the finished tile, one operand per element of a window."""
    output, source = (tile(p, use, 0) for use in (pooling.output, pooling.source))
    letters = dict(zip(_names(p, pooling.output), ascii_letters, strict=False))
    names = _names(p, pooling.source)
    roles = "".join(letters.get(name, ".") for name in names)
    tiles = [replace(output, roles="".join(letters.values()))]
    counts = dict(pooling.window)
    for place in combinations(*(range(counts.get(name, 1)) for name in names)):
        pairs = zip(source.ranges, place, strict=True)
        ranges = tuple(replace(r, start=r.start + i) for r, i in pairs)
        tiles.append(replace(source, ranges=ranges, roles=roles))
    return Call(pooling.primitive, tuple(tiles))


def _epilogue(p: Decisions, output: Tile) -> Call:
    """The call of the epilogue on the tile of the result."""
    assert p.nest.epilogue is not None
    epilogue = p.nest.epilogue
    names = _indices_in_storage_order(
        p, p.nest.result
    )  # not unique: several dimensions may have no axis
    own, letters = ascii_letters[: len(names)], dict(zip(names, ascii_letters, strict=False))
    tiles = [replace(output, roles=own)]
    for use in epilogue.operands:
        indices = _indices_in_storage_order(p, use)
        roles = own if indices == names else "".join(letters.get(i, ".") for i in indices)
        tiles.append(replace(tile(p, use, 0), roles=roles))
    return Call(epilogue.primitive, tuple(tiles))


def _requantised(p: Decisions, sums: Tile, numerics: Numerics) -> Call:
    """The call that shifts, rounds once, and saturates or wraps finished sums."""
    result = replace(sums, tensor=p.nest.output.tensor.name)
    primitive = Requantise(
        numerics.shift, numerics.rounding, int(numerics.saturate), numerics.sums.name
    )
    return Call(primitive, _elementwise(result, sums))


def _elementwise(*tiles: Tile) -> tuple[Tile, ...]:
    """The tiles with one distinct role letter per dimension, the same letters in each tile."""
    letters = "".join(chr(ord("a") + i) for i in range(len(tiles[0].roles)))
    return tuple(Tile(t.tensor, t.ranges, letters) for t in tiles)


def _tile(p: Decisions, axis: Axis) -> Expr:
    """Indices of the axis that one call covers, over all cores."""
    if axis.name in p.splits:
        return Var(p.splits[axis.name])
    return axis.extent if axis.inner or axis.name in p.roles else Const(1)


def _padded(p: Decisions, axis: Axis) -> Expr:
    """The extent of the current tile, rounded up to the granule where the axis has one."""
    size = _tile(p, axis)
    if axis.name in p.wholes:
        return size if p.rules.partial_blocks else round_up(size, granule(axis.name))
    if axis.name in p.skews:
        return minimum(size, axis.extent - axis.var * size)
    if axis.name not in p.spreads and axis.name not in p.pads:
        return size
    if p.rules.partial_blocks:
        return minimum(size, axis.extent - axis.var * size)
    return minimum(size, round_up(axis.extent - axis.var * size, granule(axis.name)))


def _local(p: Decisions, operand: int, axis: Axis) -> tuple[Expr, Expr]:
    """Start and extent of the indices that one call touches on one core in one operand."""
    start = axis.var * _tile(p, axis) if p.looped(axis) else Const(0)
    if axis.name in p.skews:
        skew = p.skews[axis.name]
        return start + (Var(skew.over) - Var(skew.by)), Const(1)
    first, extent = _part(p, axis, p.direction(operand, axis.name))
    if axis.name in p.walks:
        return start + first + Var(p.walks[axis.name]), Const(1)
    return start + first, extent


def _part(p: Decisions, axis: Axis, over: Direction) -> tuple[Expr, Expr]:
    """Start of one core's part within the current tile, and its extent."""
    extent = _padded(p, axis)
    match over:
        case "rows":
            chunk: Expr = extent // Var("mesh_rows")
            return Var("rid") * chunk, chunk
        case "columns":
            chunk = extent // Var("mesh_columns")
            return Var("cid") * chunk, chunk
        case "cores":
            chunk = extent // (Var("mesh_rows") * Var("mesh_columns"))
            return (Var("rid") * Var("mesh_columns") + Var("cid")) * chunk, chunk
        case _:
            return Const(0), extent


def tile(p: Decisions, use: Use, operand: int, roles: Mapping[str, str] | None = None) -> Tile:
    """The region of the use's tensor that one core touches in one call, in storage order. `roles`
    override the roles of the nest's main primitive.
    """
    indices = _indices_in_storage_order(p, use)
    ranges = [_range(p, operand, index) for index in indices]
    if use.exact:
        pairs = zip(ranges, indices, strict=True)
        ranges = [replace(r, stop=_stop(p, index)) for r, index in pairs]
    letters = "".join(_letter(p, index, roles or p.roles) for index in indices)
    return Tile(use.tensor.name, tuple(ranges), letters)


def _stop(p: Decisions, index: Expr) -> Expr | None:
    """One past the last index that the axes reach in a dimension; None if no tile exceeds it.

    Of two axes in one dimension the outer counts blocks. The inner axis' last tile ends with its
    block, since the next block belongs to another core.
    """
    used = [a for a in p.nest.axes if a.name in free_vars(index)]
    if not any(a.name in p.spreads for a in used):
        return None
    return substitute(index, {a.name: _last(p, a) for a in used}) + 1


def _last(p: Decisions, axis: Axis) -> Expr:
    """The last index of the axis in the current tiles of all cores together."""
    if axis.name in {*p.spreads, *p.pads} or not p.looped(axis):
        return axis.extent - 1
    return axis.var * _tile(p, axis) + _tile(p, axis) - 1


def _indices_in_storage_order(p: Decisions, use: Use) -> tuple[Expr, ...]:
    """The index of each dimension, in storage order."""
    dims = dict(zip((d for d, _ in use.tensor.dims), use.indices, strict=True))
    return tuple(dims[d] for d in _names(p, use))


def _names(p: Decisions, use: Use) -> tuple[str, ...]:
    """The names of the dimensions, in storage order."""
    return p.layouts.get(use.tensor.name, tuple(d for d, _ in use.tensor.dims))


def _range(p: Decisions, operand: int, index: Expr) -> Range:
    """The indices of one dimension of an operand that one core touches in one call."""
    key = operand, index
    if key not in p.ranges:
        p.ranges[key] = _range_made(p, operand, index)
    return p.ranges[key]


def _range_made(p: Decisions, operand: int, index: Expr) -> Range:
    axes = [a for a in p.nest.axes if a.name in free_vars(index)]
    zeros = {a.name: Const(0) for a in axes}
    start = substitute(index, zeros)
    spans: list[tuple[Expr, Expr]] = []
    for a in axes:
        step = coefficient(index, a.name)
        first, extent = _local(p, operand, a)
        start = start + step * first
        if extent != Const(1):
            spans.append((step, extent))
    for skew in (p.skews[a.name] for a in axes if a.name in p.skews):
        start = _gathered(start, (skew.over, skew.by))
    if not spans:
        return Range(start, Const(1))
    if len(spans) == 2:
        (outer, count), (step, size) = spans
        if step != Const(1) and outer == step * size:
            return Range(start, count * size, step)  # the outer axis continues the stride
    if len(spans) == 1:
        return Range(start, spans[0][1], spans[0][0])
    return Range(start, total((size - 1) * step for step, size in spans) + 1)


def _gathered(e: Expr, names: tuple[str, ...]) -> Expr:
    """The sum `e` with one term per name; terms that cancel are dropped."""
    terms = (Var(name) * coefficient(e, name) for name in names)
    return total((substitute(e, dict.fromkeys(names, 0)), *terms))


def _letter(p: Decisions, index: Expr, roles: Mapping[str, str]) -> str:
    """The role of a dimension: its inner axis' role, else the role of its only axis with one."""
    axes = [a for a in p.nest.axes if a.name in free_vars(index) and a.name in roles]
    axes.sort(key=lambda a: not a.inner)
    return roles[axes[0].name] if axes else "."
