"""The innermost statements of a seed-stage program: the main call, and the calls around it that
start, prepare and finish.
"""

from __future__ import annotations

from tilewright.common.expr import Expr, free_vars
from tilewright.ir.nodes import Call, For, If, Range, Stmt, Tile


def chain_of(body: tuple[Stmt, ...]) -> tuple[list[For], tuple[Stmt, ...]]:
    """The perfectly nested outer loops, outermost first, and the body of the last."""
    loops: list[For] = []
    while len(body) == 1 and isinstance(body[0], For):
        loops.append(body[0])
        body = body[0].body
    return loops, body


def unguarded(body: tuple[Stmt, ...]) -> tuple[Expr | None, tuple[Stmt, ...]]:
    """The innermost statements, and the condition of a skewed loop that guards them all, if any."""
    match body:
        case (If(condition, then, ()),):
            return condition, then
        case _:
            return None, body


def main_call(inner: tuple[Stmt, ...]) -> Call:
    """The unconditional call."""
    return next(s for s in inner if isinstance(s, Call))


def guarded(inner: tuple[Stmt, ...], *, after: bool) -> list[Call]:
    """The guarded calls before or after the main call."""
    place = inner.index(main_call(inner))
    part = inner[place + 1 :] if after else inner[:place]
    return [
        s for branch in part if isinstance(branch, If) for s in branch.then if isinstance(s, Call)
    ]


def preparing(inner: tuple[Stmt, ...], main: Call) -> list[Call]:
    """The calls before the main one that make an operand of another tensor."""
    calls = guarded(inner, after=False)
    return [c for c in calls if any(o.tensor not in names_of(main) for o in operands_of(c))]


def written(inner: tuple[Stmt, ...], main: Call) -> tuple[str, str]:
    """The tensors of the main call's sums and of the result: the same one, unless a call after it
    turns the sums into another tensor.
    """
    calls = (main, *guarded(inner, after=True))
    first, last = (c.operands[0] for c in (calls[0], calls[-1]))
    assert isinstance(first, Tile)
    assert isinstance(last, Tile)
    return first.tensor, last.tensor


def operands_of(call: Call) -> list[Tile]:
    """The operands that are tiles of tensors."""
    return [o for o in call.operands if isinstance(o, Tile)]


def names_of(call: Call) -> set[str]:
    """The tensors of its operands."""
    return {o.tensor for o in operands_of(call)}


def tiles_of(inner: tuple[Stmt, ...], main: Call) -> list[Tile]:
    """One tile per tensor: the operands of the main call, then the further ones of the calls around
    it; a tensor that is made whole and read in parts has its whole tile.
    """
    around = (*preparing(inner, main), *guarded(inner, after=True))
    others: dict[str, Tile] = {}
    for o in (o for call in around for o in operands_of(call)):
        if o.tensor not in names_of(main):
            others.setdefault(o.tensor, o)
    return [*operands_of(main), *others.values()]


def made_behind(inner: tuple[Stmt, ...]) -> set[str]:
    """The tensors that calls after the main one write."""
    return {operands_of(call)[0].tensor for call in guarded(inner, after=True)}


def wholes(inner: tuple[Stmt, ...], main: Call, loops: list[For]) -> dict[str, str]:
    """For each tensor of which a call around the main one uses a larger tile: the outermost loop
    that this tile is invariant in.
    """
    around = (*preparing(inner, main), *guarded(inner, after=True))
    larger = {o.tensor: o for c in around for o in operands_of(c)}
    found: dict[str, str] = {}
    for o in operands_of(main):
        if o.tensor in larger and symbols_of(larger[o.tensor]) < symbols_of(o):
            found[o.tensor] = loops[depth_of(larger[o.tensor], loops)].var
    return found


def symbols_of(tile: Tile) -> frozenset[str]:
    """The symbols in the starts and extents of a tile."""
    return frozenset().union(*(range_symbols(r) for r in tile.ranges))


def range_symbols(r: Range) -> frozenset[str]:
    """The symbols in the start and extent of one dimension."""
    return free_vars(r.start) | free_vars(r.extent)


def depth_of(tile: Tile, loops: list[For]) -> int:
    """Number of loops from the outermost to the innermost that the tile depends on."""
    used = symbols_of(tile)
    return max((i + 1 for i, f in enumerate(loops) if f.var in used), default=0)
