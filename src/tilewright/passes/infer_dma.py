"""Infer the transfers of a seed-stage program (swATOP 4.5.1).

Each tensor gets a scratchpad buffer, and a transfer just inside the innermost loop that its region
depends on, which is as far out as possible without a larger buffer. `stage` moves a tensor's
transfer further out, where it covers the union of the regions of the loops inside, or leaves the
tensor in place, so that calls work on it directly. Transfers stay outside the condition of a skewed
loop. A result whose reduction loops all run inside its transfer starts from zero and is put once;
otherwise it is fetched again for every outer reduction step. Further operands of an epilogue are
fetched where the result is put.

before:  for i: for k: gemm(c[i], a[i, k], b[k])
after:   for i: fill(c_tile)
                for k: get(a -> a_tile); get(b -> b_tile); gemm(c_tile, a_tile, b_tile)
                put(c_tile -> c)

A call before the main one may compute an operand from another tensor, and a call after it may turn
the sums into another tensor. Such operands and sums live in buffers alone; the calls stand outside
the loops over their parts. Tensors between later calls reuse the buffers of such operands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from string import ascii_letters
from typing import ClassVar

from msgspec import structs

from tilewright.common import expr
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ScheduleError
from tilewright.ir import nodes as ir
from tilewright.ir.primitives import Fill, MatrixProduct, Requantise
from tilewright.seeds.steps import IN_PARTS, IN_PLACE

# The innermost statements of a seed-stage program: the main call, and the calls around it that
# start, prepare and finish.


def chain_of(body: tuple[ir.Stmt, ...]) -> tuple[list[ir.For], tuple[ir.Stmt, ...]]:
    """The perfectly nested outer loops, outermost first, and the body of the last."""
    loops: list[ir.For] = []
    while len(body) == 1 and isinstance(body[0], ir.For):
        loops.append(body[0])
        body = body[0].body
    return loops, body


def unguarded(body: tuple[ir.Stmt, ...]) -> tuple[expr.Expr | None, tuple[ir.Stmt, ...]]:
    """The condition of a skewed loop that guards the innermost statements, if any, and these."""
    match body:
        case (ir.If(condition, then, ()),):
            return condition, then
        case _:
            return None, body


def main_call(inner: tuple[ir.Stmt, ...]) -> ir.Call:
    """The main call, the only unconditional one."""
    return next(s for s in inner if isinstance(s, ir.Call))


def _guarded(inner: tuple[ir.Stmt, ...], *, after: bool) -> list[ir.Call]:
    """The guarded calls before or after the main call."""
    place = inner.index(main_call(inner))
    part = inner[place + 1 :] if after else inner[:place]
    return [
        s
        for branch in part
        if isinstance(branch, ir.If)
        for s in branch.then
        if isinstance(s, ir.Call)
    ]


def preparing(inner: tuple[ir.Stmt, ...], main: ir.Call) -> list[ir.Call]:
    """The calls before the main one that compute an operand from another tensor."""
    calls = _guarded(inner, after=False)
    return [c for c in calls if any(o.tensor not in names_of(main) for o in operands_of(c))]


def written(inner: tuple[ir.Stmt, ...], main: ir.Call) -> tuple[str, str]:
    """The tensors of the main call's sums and of the result. They are equal unless a call after the
    main one turns the sums into another tensor.
    """
    calls = (main, *_guarded(inner, after=True))
    first, last = (c.operands[0] for c in (calls[0], calls[-1]))
    assert isinstance(first, ir.Tile)
    assert isinstance(last, ir.Tile)
    return first.tensor, last.tensor


def operands_of(call: ir.Call) -> list[ir.Tile]:
    """The operands that are tiles of tensors."""
    return [o for o in call.operands if isinstance(o, ir.Tile)]


def names_of(call: ir.Call) -> set[str]:
    """The tensors of a call's operands."""
    return {o.tensor for o in operands_of(call)}


def tiles_of(inner: tuple[ir.Stmt, ...], main: ir.Call) -> list[ir.Tile]:
    """One tile per tensor: the operands of the main call, then the other operands of the calls
    around it. A tensor that is written whole and read in parts has its whole tile.
    """
    around = (*preparing(inner, main), *_guarded(inner, after=True))
    others: dict[str, ir.Tile] = {}
    for o in (o for call in around for o in operands_of(call)):
        if o.tensor not in names_of(main):
            others.setdefault(o.tensor, o)
    return [*operands_of(main), *others.values()]


def made_behind(inner: tuple[ir.Stmt, ...]) -> set[str]:
    """The tensors written by calls after the main one."""
    return {operands_of(call)[0].tensor for call in _guarded(inner, after=True)}


def wholes(inner: tuple[ir.Stmt, ...], main: ir.Call, loops: list[ir.For]) -> dict[str, str]:
    """For each tensor with a larger tile in a call around the main one, the outermost loop in which
    the larger tile is invariant.
    """
    around = (*preparing(inner, main), *_guarded(inner, after=True))
    larger = {o.tensor: o for c in around for o in operands_of(c)}
    found: dict[str, str] = {}
    for o in operands_of(main):
        if o.tensor in larger and symbols_of(larger[o.tensor]) < symbols_of(o):
            found[o.tensor] = loops[_depth_of(larger[o.tensor], loops)].var
    return found


def symbols_of(tile: ir.Tile) -> frozenset[str]:
    """The symbols in the starts and extents of a tile."""
    return frozenset().union(*(range_symbols(r) for r in tile.ranges))


def range_symbols(r: ir.Range) -> frozenset[str]:
    """The symbols in the start and extent of one dimension."""
    return expr.free_vars(r.start) | expr.free_vars(r.extent)


def _depth_of(tile: ir.Tile, loops: list[ir.For]) -> int:
    """Number of loops from the outermost to the innermost that the tile depends on."""
    used = symbols_of(tile)
    return max((i + 1 for i, f in enumerate(loops) if f.var in used), default=0)


SLOT_ELEMENTS = 8
"""Slots start at multiples of this many elements, which aligns them for vectors of f32 and f64."""


@dataclass(frozen=True)
class _Staged:
    """The transfer of one tensor: `region` inside `depth` loops. `view` is a call's part of the
    buffer, or the tile itself if the tensor stays in place.
    """

    tile: ir.Tile
    depth: int
    region: tuple[ir.Range, ...]
    view: ir.Operand
    written: bool


def copies(tensor: str) -> expr.Var:
    """The symbol of a tensor's number of buffer copies: 1, or 2 when double-buffered."""
    return expr.Var(f"{tensor}_copies")


@dataclass(frozen=True)
class InferDma:
    """Inserts the transfers that a schedule implies.

    `stages` maps a tensor to the loop outside which its transfer stands, to `IN_PLACE`, or, with
    `in_parts`, to `IN_PARTS` for a later pass to cut. With `workspace`, a strided operand that a
    matrix product reads by vectors gets a buffer to be packed into. With `early`, an epilogue's
    further operands are fetched as far out as other operands.
    """

    name: ClassVar[str] = "infer_dma"
    stages: Mapping[str, str]
    workspace: bool = True
    early: bool = False
    in_parts: bool = False

    def apply(self, program: ir.Program) -> ir.Program:
        """The staged-stage program: each transfer is followed by its wait, calls work on views.
        Raises ScheduleError for a stage that the program or the machine lacks.
        """
        stages = self.stages if self.in_parts else _uncut(self.stages)
        loops, body = chain_of(program.body)
        guard, inner = unguarded(body)
        main = main_call(inner)
        sums, made = written(inner, main)
        if made != sums and stages.get(made) != IN_PLACE:
            stages = {**stages, **({sums: stages[made]} if made in stages else {})}
        if made in stages and stages[made] != IN_PLACE:
            beside = {*_addends(inner), *_of_sums(inner)}
            stages = {**dict.fromkeys(beside, stages[made]), **stages}
        stages = {**stages, **wholes(inner, main, loops)}
        own = {sums, *made_behind(inner)}
        staged = [_stage(o, loops, stages, o.tensor in own) for o in tiles_of(inner, main)]
        staged, housed = _housed(staged, inner, own - {sums, made, *_of_sums(inner)})
        output, result = staged[0], next(s for s in staged if s.tile.tensor == made)
        start = _start(program, sums, main)
        views = {s.tile.tensor: s.view for s in staged}
        packing = None
        if self.workspace and isinstance(main.primitive, MatrixProduct):
            packing = _workspace(main.primitive, staged, program, loops)
            name = packing.name if packing else None
            main = replace(main, primitive=structs.replace(main.primitive, workspace=name))
        body = (_on_views(main, views),)
        if guard is not None:
            body = (ir.If(guard, body),)
        for depth in range(len(loops), -1, -1):
            body = _at_depth(
                depth, body, loops, staged, inner, output, result, start, early=self.early
            )
            if depth:
                body = (replace(loops[depth - 1], body=body),)
        copied = [s for s in staged if isinstance(s.view, ir.View)]
        kept = {operands_of(c)[0].tensor for c in preparing(inner, main)} | (own - {made})
        moved = [s for s in copied if s.tile.tensor not in kept]
        buffers = tuple(
            _buffer(s, housed.get(s.tile.tensor), program, loops, once=s not in moved)
            for s in copied
            if s not in housed.values()
        )
        buffers = (*buffers, packing) if packing else buffers
        parameters = {*program.parameters, *(f"{s.tile.tensor}_copies" for s in moved)}
        tensors = tuple(t for t in program.tensors if t.name not in kept)
        return ir.Program(program.name, tuple(sorted(parameters)), tensors, buffers, body)


def _uncut(stages: Mapping[str, str]) -> Mapping[str, str]:
    """The stages unchanged. Raises ScheduleError if one is `IN_PARTS`."""
    cut = next((tensor for tensor, at in stages.items() if at == IN_PARTS), None)
    if cut is not None:
        raise ScheduleError(
            f"stage({cut}, {IN_PARTS}): this machine fetches whole tiles; name a loop instead"
        )
    return stages


def _stage(tile: ir.Tile, loops: list[ir.For], stages: Mapping[str, str], written: bool) -> _Staged:
    names, depth = [f.var for f in loops], _depth_of(tile, loops)
    if stages.get(tile.tensor) == IN_PLACE:
        return _Staged(tile, depth, tile.ranges, tile, written)
    if stages.get(tile.tensor, IN_PARTS) != IN_PARTS:
        if stages[tile.tensor] not in names:
            raise ScheduleError(
                f"stage({tile.tensor}, {stages[tile.tensor]}): there is no such loop"
            )
        depth = min(depth, names.index(stages[tile.tensor]))
    pairs = [_union(r, loops[depth:], tile.tensor) for r in tile.ranges]
    region = tuple(r for r, _ in pairs)
    view = ir.View(
        _buffer_name(tile.tensor),
        expr.Const(0),
        tuple(r.extent for r in region),
        tuple(v for _, v in pairs),
        tile.roles,
    )
    return _Staged(tile, depth, region, view, written)


def _buffer_name(tensor: str) -> str:
    return f"{tensor}_tile"


def _union(r: ir.Range, inside: list[ir.For], tensor: str) -> tuple[ir.Range, ir.Range]:
    """The range that all iterations of the loops `inside` touch together, and one iteration's range
    relative to it. Raises ScheduleError if the extent varies.
    """
    moving = [f for f in inside if f.var in range_symbols(r)]
    if not moving:
        return r, ir.Range(expr.Const(0), r.extent)
    whole = _tiled(r, moving)
    if whole is not None:
        return ir.Range(expr.substitute(r.start, {moving[0].var: expr.Const(0)}), whole), ir.Range(
            expr.Var(moving[0].var) * expr.coefficient(r.start, moving[0].var), r.extent
        )
    sizes = expr.free_vars(r.extent).union(*(expr.free_vars(f.extent) for f in moving))
    if any(f.var in sizes for f in moving):
        raise ScheduleError(
            f"stage({tensor}): the tile's extent changes inside the loop, it has no fixed union"
        )
    zeros = {f.var: expr.Const(0) for f in moving}
    start = expr.substitute(r.start, zeros)
    steps = [(f, expr.coefficient(r.start, f.var)) for f in moving]
    if len(steps) == 1 and r.extent == expr.Const(1):
        loop, step = steps[0]
        return ir.Range(start, loop.extent, step, r.stop), ir.Range(
            expr.Var(loop.var), expr.Const(1)
        )
    extent = (r.extent - 1) * r.step + 1
    place: expr.Expr = expr.Const(0)
    for loop, step in steps:
        extent = extent + (loop.extent - 1) * step
        place = place + expr.Var(loop.var) * step
    return ir.Range(start, extent, stop=r.stop), ir.Range(place, r.extent, r.step)


def _tiled(r: ir.Range, moving: list[ir.For]) -> expr.Expr | None:
    """The extent of an axis that one loop covers in tiles, of which the last may be shorter; None
    if the range has another form.

    >>> from tilewright.common.expr import ceil_div, minimum
    >>> i, n, tile = expr.Var("i"), expr.Var("n"), expr.Var("tile")
    >>> loop = ir.For("i", ceil_div(n, tile), ())
    >>> str(_tiled(ir.Range(i * tile, minimum(tile, n - i * tile)), [loop]))
    'n'
    """
    if len(moving) != 1 or r.step != expr.Const(1) or r.stop is not None:
        return None
    loop = moving[0]
    match r.extent, loop.extent:
        case expr.BinaryExpr("min", tile, expr.BinaryExpr("-", whole, before)), expr.BinaryExpr(
            "ceil_div", n, size
        ) if (
            whole,
            tile,
            before,
        ) == (n, size, expr.Var(loop.var) * size) and expr.coefficient(r.start, loop.var) == size:
            return whole
        case _:
            return None


def _at_depth(
    depth: int,
    body: tuple[ir.Stmt, ...],
    loops: list[ir.For],
    staged: list[_Staged],
    inner: tuple[ir.Stmt, ...],
    output: _Staged,
    result: _Staged,
    start: Fill | None,
    *,
    early: bool,
) -> tuple[ir.Stmt, ...]:
    """Wrap `body` in the transfers that stand inside exactly `depth` loops."""
    before: list[ir.Stmt] = []
    after: list[ir.Stmt] = []
    prepared = _prepared(inner, staged, loops)
    late = {n for n in _addends(inner) if not early or _depth(n, staged) >= output.depth}
    for s in staged:
        name = s.tile.tensor
        if s.depth == depth and not s.written and name not in {*late, *prepared}:
            before += _moved(s, "get")
    here = (s.tile.tensor for s in staged if s.depth == depth)
    before += [prepared[name] for name in here if name in prepared]
    if output.depth == depth:
        before = [*_initialised(output, loops, inner, start), *before]
        after = [*_finished(staged, inner, late, loops), *_moved(result, "put")]
    return (*before, *body, *after)


def _depth(tensor: str, staged: list[_Staged]) -> int:
    return next(s.depth for s in staged if s.tile.tensor == tensor)


def _prepared(
    inner: tuple[ir.Stmt, ...], staged: list[_Staged], loops: list[ir.For]
) -> dict[str, ir.Call]:
    """The calls that prepare operands of the main call, by the tensor that they write. They write
    whole buffers, and read whole buffers or parts of buffers that are filled further out.
    """
    by_tensor = {s.tile.tensor: s for s in staged}
    found: dict[str, ir.Call] = {}
    for call in preparing(inner, main_call(inner)):
        made, *sources = operands_of(call)
        own = by_tensor[made.tensor]
        parts = (_at(by_tensor[o.tensor], o.roles, loops, own.depth) for o in sources)
        found[made.tensor] = replace(call, operands=(_whole(own, made.roles), *parts))
    return found


def _at(s: _Staged, roles: str, loops: list[ir.For], depth: int) -> ir.Operand:
    """The part of a buffer that is touched by the loops inside the outermost `depth` ones."""
    between = loops[s.depth : depth]
    if not any(f.var in symbols_of(s.tile) for f in between) or not isinstance(s.view, ir.View):
        return _whole(s, roles)
    at_start = {f.var: expr.Const(0) for f in loops[depth:]}
    ranges = []
    for r in s.tile.ranges:
        (whole, place), (part, _) = (_union(r, loops[d:], s.tile.tensor) for d in (s.depth, depth))
        step = expr.Const(1) if part.step == whole.step else part.step
        ranges.append(ir.Range(expr.substitute(place.start, at_start), part.extent, step))
    return replace(s.view, ranges=tuple(ranges), roles=roles)


def _moved(s: _Staged, direction: str) -> list[ir.Stmt]:
    if not isinstance(s.view, ir.View):
        return []
    transfer = ir.Transfer(
        "put" if direction == "put" else "get",
        s.tile.tensor,
        s.region,
        s.view.buffer,
        expr.Const(0),
    )
    return [transfer, ir.Wait(s.view.buffer, expr.Const(0))]


def _whole(s: _Staged, roles: str = ascii_letters) -> ir.Operand:
    letters = roles[: len(s.region)]
    if not isinstance(s.view, ir.View):
        return replace(s.view, roles=letters)
    ranges = tuple(ir.Range(expr.Const(0), r.extent) for r in s.region)
    return replace(s.view, ranges=ranges, roles=letters)


def _part(s: _Staged, tile: ir.Tile, inside: list[ir.For]) -> ir.Operand:
    """A call's operand in a buffer: all of it, or the part covered by the loops `inside`."""
    if tile.ranges == s.tile.ranges or not isinstance(s.view, ir.View):
        return _whole(s, tile.roles)
    touched = (_union(r, inside, tile.tensor)[0] for r in tile.ranges)
    pairs = zip(touched, s.region, strict=True)
    ranges = tuple(ir.Range(_beyond(r.start, whole.start), r.extent, r.step) for r, whole in pairs)
    return replace(s.view, ranges=ranges, roles=tile.roles)


def _beyond(start: expr.Expr, first: expr.Expr) -> expr.Expr:
    """`start - first`, folded where `start` begins with `first`."""
    match start:
        case expr.BinaryExpr("+", a, b) if a == first:
            return b
        case _:
            return start - first


def _start(program: ir.Program, sums: str, main: ir.Call) -> Fill | None:
    """The fill that initialises the sums; None if they start from the tensor's old value."""
    tensor = program.tensor(sums)
    return None if tensor.kind == "updated" else Fill(main.primitive.start(dtype(tensor.dtype)))


def _initialised(
    output: _Staged, loops: list[ir.For], inner: tuple[ir.Stmt, ...], start: Fill | None
) -> list[ir.Stmt]:
    if not main_call(inner).primitive.accumulates:
        return []
    if start is None:
        return _moved(output, "get")
    zero = ir.Call(start, (_whole(output),))
    used = symbols_of(output.tile)
    outer = [f.var for f in loops[: output.depth] if f.var in _reduced(inner, loops) - used]
    if not outer:
        return [zero]
    if _guarded(inner, after=True):
        raise ScheduleError("an epilogue needs every reduction loop inside the result's transfer")
    first = expr.all_of(expr.binary("==", expr.Var(v), 0) for v in outer)
    return [ir.If(first, (zero,), tuple(_moved(output, "get")))]


def _reduced(inner: tuple[ir.Stmt, ...], loops: list[ir.For]) -> frozenset[str]:
    """The loops whose first iteration initialises the result; all loops if there is no guard."""
    before = inner[: inner.index(main_call(inner))]
    conditions = [expr.free_vars(stmt.condition) for stmt in before if isinstance(stmt, ir.If)]
    return frozenset().union(*conditions) if conditions else frozenset(f.var for f in loops)


def _addends(inner: tuple[ir.Stmt, ...]) -> set[str]:
    calls = _guarded(inner, after=True)
    return {o.tensor for c in calls for o in c.operands[1:] if isinstance(o, ir.Tile)}


def _of_sums(inner: tuple[ir.Stmt, ...]) -> set[str]:
    """The tensors of sums that are requantised."""
    calls = _guarded(inner, after=True)
    return {operands_of(c)[0].tensor for c in calls if isinstance(c.primitive, Requantise)}


def _finished(
    staged: list[_Staged], inner: tuple[ir.Stmt, ...], late: Collection[str], loops: list[ir.For]
) -> list[ir.Stmt]:
    """The calls on the finished result, each after the fetches of its operands in `late`."""
    result: list[ir.Stmt] = []
    by_tensor = {s.tile.tensor: s for s in staged}
    for call in _guarded(inner, after=True):
        tiles = [o for o in call.operands if isinstance(o, ir.Tile)]
        parts = [by_tensor[o.tensor] for o in tiles]
        for part in parts[1:]:
            fetched = part.tile.tensor in late and not part.written
            result += _moved(part, "get") if fetched else []
        operands = (_part(s, o, loops[s.depth :]) for s, o in zip(parts, tiles, strict=True))
        result.append(replace(call, operands=tuple(operands)))
    return result


def _on_views(call: ir.Call, views: Mapping[str, ir.Operand]) -> ir.Call:
    return replace(
        call,
        operands=tuple(views[o.tensor] if isinstance(o, ir.Tile) else o for o in call.operands),
    )


def _housed(
    staged: list[_Staged], inner: tuple[ir.Stmt, ...], behind: set[str]
) -> tuple[list[_Staged], dict[str, _Staged]]:
    """Move tensors that calls `behind` the main call write into the buffers of prepared operands.
    This is safe because operands are prepared anew before they are read again. Returns all staged
    tensors, and the moved ones by the tensor that hosts them.
    """
    prepared = {operands_of(c)[0].tensor for c in preparing(inner, main_call(inner))}
    hosts = [s for s in staged if s.tile.tensor in prepared and s.depth >= staged[0].depth]
    housed: dict[str, _Staged] = {}
    found = []
    for s in staged:
        if s.tile.tensor in behind and hosts:
            host = hosts.pop(0)
            assert isinstance(s.view, ir.View)
            s = replace(s, view=replace(s.view, buffer=_buffer_name(host.tile.tensor)))
            housed[host.tile.tensor] = s
        found.append(s)
    return found, housed


def _buffer(
    s: _Staged, housed: _Staged | None, program: ir.Program, loops: list[ir.For], *, once: bool
) -> ir.Buffer:
    """The buffer of a tensor's tile and of a tensor `housed` there. With `once`, it is never
    transferred, so one copy suffices.
    """
    elements = _largest(s.region, loops)
    if housed:
        elements = expr.maximum(elements, _largest(housed.region, loops))
    kind = program.tensor(s.tile.tensor).dtype
    name, count = _buffer_name(s.tile.tensor), expr.Const(1) if once else copies(s.tile.tensor)
    return ir.Buffer(name, kind, expr.round_up(elements, SLOT_ELEMENTS), count)


def _largest(ranges: tuple[ir.Range, ...], loops: list[ir.For]) -> expr.Expr:
    """Elements of the largest tile, which is the first iteration's on core (0, 0)."""
    first = {**{f.var: expr.Const(0) for f in loops}, "rid": expr.Const(0), "cid": expr.Const(0)}
    return expr.product(expr.substitute(r.extent, first) for r in ranges)


def _workspace(
    multiply: MatrixProduct, staged: list[_Staged], program: ir.Program, loops: list[ir.For]
) -> ir.Buffer | None:
    """A workspace to pack the vectorised operand of a matrix product; None if it is contiguous."""
    operand = staged[multiply.loaded]
    if operand.tile.roles.rstrip(".").endswith(multiply.along):
        return None
    elements = _largest(operand.view.ranges, loops)
    kind = program.tensor(operand.tile.tensor).dtype
    return ir.Buffer("gemm_workspace", kind, expr.round_up(elements, SLOT_ELEMENTS))
