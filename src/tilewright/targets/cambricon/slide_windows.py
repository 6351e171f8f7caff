"""Moves windows row by row in the loops over them, ahead of the products that read them.

In: a program that fetches or gathers all windows of a column together. Out: the moves inside the
loop, one row beside each product, and fetches without the rows that neighbouring parts of an image
share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from typing import ClassVar

from tilewright.common.expr import (
    Const,
    Expr,
    IntLike,
    Var,
    binary,
    coefficient,
    evaluate,
    free_vars,
    maximum,
    minimum,
    product,
    substitute,
)
from tilewright.ir.nodes import Call, For, If, Program, Range, Stmt, Transfer, View, Wait
from tilewright.ir.primitives import Copy, MatrixProduct
from tilewright.ir.visit import calls_of, map_stmt, rewrite, used_symbols, walk
from tilewright.seeds.convolution.tensors import BORDERS
from tilewright.targets.cambricon.primitives import RoundedMap, RoundedStep
from tilewright.targets.cambricon.vector_steps import step_expression


@dataclass(frozen=True)
class SlideWindows:
    """Fetches and gathers windows row by row in the loop over them: a row moves while the product
    before its own runs, and rows shared by neighbouring windows move once. The first window of a
    column moves during the last products of the column before; if a column has few windows, the
    buffer has two slots so that it need not wait for them. A fetch of one run stays whole, and so
    does that of a pool, whose tiles are fetched ahead. Border rows are zeros in every column, so
    they are fetched with the first column of a part only.

    before:  for column: copy(windows_tile, x_tile[column, 0 : 7])
                         for pixel: product(windows_tile[pixel : pixel + 3])
    after:   copy(windows_tile[slot 0][0 : 3], x_tile[0, 0 : 3])
             for column: for pixel:                                     # in slot column % 2
                 if pixel + 1 < 5: copy(windows_tile[pixel + 3], x_tile[column, pixel + 3])
                 product(windows_tile[pixel : pixel + 3])
                 if pixel == 2 and column + 1 < 9:                      # in slot (column + 1) % 2
                     copy(windows_tile[0], x_tile[column + 1, 0])
                 ...                                                # rows 1 and 2 in turns 3 and 4
    """

    name: ClassVar[str] = "slide_windows"

    def apply(self, program: Program) -> Program:
        """Move the gathering into the loops over windows."""
        doubled = set[str]()
        body = _slid(program.body, (), {}, [], doubled, program)
        buffers = (replace(b, copies=Const(2)) if b.name in doubled else b for b in program.buffers)
        zeros = used_symbols(body) & {*chain(*BORDERS.values())}
        parameters = tuple(sorted({*program.parameters} | zeros))
        return replace(program, parameters=parameters, buffers=tuple(buffers), body=body)


_MOST_PARTS = 16
"""Most statements that move a first window. Each has a condition, and each is priced in all
iterations.
"""
Firsts = list[tuple[int, Stmt]]
"""Statements that move first windows, each with the number of loops around it."""


def _slid(
    body: tuple[Stmt, ...],
    around: tuple[For, ...],
    filled: Mapping[str, int],
    firsts: Firsts,
    doubled: set[str],
    program: Program,
) -> tuple[Stmt, ...]:
    """The body with fills moved into the loop over their buffer, each `filled` inside so many of
    the loops `around`. Buffers that are `doubled` have two slots, used alternately.
    """
    loop = next((s for s in body if isinstance(s, For)), None)
    if loop is None:
        return body
    here = body[: body.index(loop)]
    filled = {**filled, **{s.buffer: len(around) for s in here if isinstance(s, Transfer)}}
    if any(isinstance(s, For) for s in loop.body):
        inner = _slid(loop.body, (*around, loop), filled, firsts, doubled, program)
        begun = [stmt for depth, stmt in firsts if depth == len(around)]
        return _replaced(body, loop, replace(loop, body=inner), (), begun)
    inside, behind, moved, own = list[Stmt](), list[Stmt](), set[Stmt](), loop.body
    for stmt in here if next(calls_of(loop.body, MatrixProduct), None) else ():
        waits: tuple[Wait, ...] = ()
        match stmt:
            case Call(Copy(), (View(buffer), View(source))):
                depth = filled.get(source, len(around))
            case Transfer("get", _, _, buffer):
                waits, depth = (Wait(buffer, Const(0)),), 0
            case _:
                continue
        if (rows := _moving(loop, buffer)) is None or not _is_apart(stmt, loop, *rows, program):
            continue
        moved |= {stmt, *waits}
        ahead, count = binary("<", 0, 0), rows[1].extent
        first, zeros = part(stmt, rows[0], Const(0), count), _zeros(stmt, rows[0], around, program)
        if isinstance(count, Const) and not _varies(first, around[depth:]):
            ahead = alone = binary("<", count, substitute(loop.extent, {f.var: 0 for f in around}))
            if isinstance(stmt, Call):
                ahead, slot = Const(1), Var(around[-1].var) % (2 - ahead)
                (first,), own = (_in_slot(s, buffer, slot) for s in ((first,), own))
                stmt = _with_slot(stmt, slot)
                doubled.add(buffer)
            at_start = _at(first, {f.var: 0 for f in (loop, *around[depth:])})
            firsts.append((depth, If(ahead, (at_start, *waits))))
            parts = _following(stmt, loop, around[depth:], rows[0], count.value, alone, zeros)
            behind += (If(test * ahead, (row, *waits)) for test, row in parts)
        every = _gathered(stmt, waits, loop, *rows, zeros)
        inside += replace(every[0], condition=every[0].condition * (1 - ahead)), every[1]
    slid, begun = (*inside, *own, *behind), [s for depth, s in firsts if depth == len(around)]
    return _replaced(body, loop, replace(loop, body=slid), moved, begun)


@dataclass(frozen=True)
class _Zeros:
    """Numbers of zero rows `above` and `below` an image with moving windows; the loop over its
    `parts`, if any, and the inner loops over `columns`.
    """

    above: Expr
    below: Expr
    parts: For | None
    columns: Sequence[For]

    def stay_above(self, rows: int) -> Expr:
        """True if so many rows are zeros and already lie where the next column needs them."""
        first = binary("==", Var(self.parts.var), 0) if self.parts else Const(1)
        ends = product(binary("==", Var(f.var) + 1, f.extent) for f in self.columns)
        return binary("<=", rows, self.above) * first * (1 - ends)

    def stay_below(self, loop: For) -> Expr:
        """True if the rows that the next window adds are zeros that already lie in place."""
        parts = self.parts
        last = binary("==", Var(parts.var) + 1, parts.extent) if parts else Const(1)
        begins = product(binary("==", Var(f.var), 0) for f in self.columns)
        return binary("<=", loop.extent - self.below, Var(loop.var) + 1) * last * (1 - begins)


def _zeros(
    stmt: Call | Transfer, dimension: int, around: Sequence[For], program: Program
) -> _Zeros | None:
    """The zeros around an image that a transfer moves along a dimension; None if there are none."""
    if not isinstance(stmt, Transfer):
        return None
    extent = program.tensor(stmt.tensor).shape[dimension]
    names = BORDERS.get(extent.name) if isinstance(extent, Var) else None
    moving = free_vars(stmt.ranges[dimension].start)
    last = max((i for i, f in enumerate(around) if f.var in moving), default=-1)
    if names is None or not (columns := around[last + 1 :]):
        return None
    return _Zeros(Var(names[0]), Var(names[1]), around[last] if last >= 0 else None, columns)


def _with_slot(call: Call, slot: Expr) -> Call:
    """The call that writes a slot of its buffer."""
    made, *others = call.operands
    assert isinstance(made, View)
    return replace(call, operands=(replace(made, slot=slot), *others))


def _in_slot(body: tuple[Stmt, ...], buffer: str, slot: Expr) -> tuple[Stmt, ...]:
    """The statements with a slot of a buffer."""

    def own(stmt: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(stmt, Call):
            return None
        views = (
            replace(o, slot=slot) if isinstance(o, View) and o.buffer == buffer else o
            for o in stmt.operands
        )
        return (replace(stmt, operands=tuple(views)),)

    return rewrite(body, own)


def _replaced(
    body: tuple[Stmt, ...], old: For, new: For, moved: Collection[Stmt], begun: Sequence[Stmt]
) -> tuple[Stmt, ...]:
    """The body with one loop replaced and `begun` before it, without statements that `moved`."""
    kept = (s for s in body if s not in moved)
    return tuple(x for s in kept for x in ((*begun, new) if s is old else (s,)))


def _varies(stmt: Stmt, loops: Sequence[For]) -> bool:
    """True if there are no loops, or a statement moves other extents in other turns."""
    parts = stmt.operands if isinstance(stmt, Call) else (stmt,)
    ranges = (r for part in parts if isinstance(part, View | Transfer) for r in part.ranges)
    sizes = frozenset().union(*(free_vars(r.extent) for r in ranges))
    return not loops or bool(sizes & {f.var for f in loops})


def _at(stmt: Stmt, values: Mapping[str, IntLike]) -> Stmt:
    """A transfer, call or wait at these indices of loops."""
    return map_stmt(stmt, lambda e: substitute(e, values))


def _following(
    stmt: Call | Transfer,
    loop: For,
    around: Sequence[For],
    dimension: int,
    count: int,
    alone: Expr,
    zeros: _Zeros | None,
) -> Iterator[tuple[Expr, Stmt]]:
    """(When, what) for the moves of the first window of the next turn of the loops around: one row
    in each of the last turns but one, in which the next turn moves none before its product; if
    there are many rows, several in each of fewer turns. With a single slot (`alone`), no row moves
    beside a product that reads its place, since it would wait, and so would the next product. Rows
    of `zeros` stay.
    """
    following: dict[str, Expr] = {}
    carry: Expr = Const(1)
    for outer in reversed(around):
        ends = carry * binary("==", Var(outer.var) + 1, outer.extent)
        following[outer.var] = (Var(outer.var) + carry) * (1 if outer is around[0] else 1 - ends)
        carry = ends
    for row in range(0, count, rows := -(-count // _MOST_PARTS)):
        own = min(rows, count - row)
        last = row + own - 1
        turn = maximum(loop.extent - count - 1, 0) + minimum(loop.extent, count) * last // count
        turn = maximum(turn, alone * minimum(last + 1, loop.extent - 1))
        moved = _at(part(stmt, dimension, Const(row), Const(own)), following)
        stays = zeros.stay_above(row + own) if zeros else Const(0)
        yield binary("==", Var(loop.var), turn) * (1 - carry) * (1 - stays), moved


def _moving(loop: For, buffer: str) -> tuple[int, Range] | None:
    """The dimension along which a loop's products move over a buffer, and their rows there."""
    products = calls_of(loop.body, MatrixProduct)
    views = (o for call, _ in products for o in call.operands[1:] if isinstance(o, View))
    found = {
        (d, r)
        for v in views
        if v.buffer == buffer
        for d, r in enumerate(v.ranges)
        if loop.var in free_vars(r.start)
    }
    return found.pop() if len(found) == 1 else None


def _is_apart(
    stmt: Call | Transfer, loop: For, dimension: int, window: Range, program: Program
) -> bool:
    """True if a statement moves the indices of a dimension one by one, for windows that overlap."""
    if isinstance(stmt, Call):
        return True
    if minimum(coefficient(window.start, loop.var), window.extent) == window.extent:
        return False
    shape = program.tensor(stmt.tensor).shape
    around, inner = stmt.ranges[:dimension], stmt.ranges[dimension + 1 :]
    rows = zip(inner, shape[dimension + 1 :], strict=True)
    return all(r.extent == Const(1) for r in around) and any(r.extent != n for r, n in rows)


def _gathered(
    stmt: Call | Transfer,
    waits: tuple[Wait, ...],
    loop: For,
    dimension: int,
    rows: Range,
    zeros: _Zeros | None,
) -> tuple[If, If]:
    """The first window's rows, and those that the next window adds; `zeros` in place stay."""
    step = coefficient(rows.start, loop.var)
    new = minimum(step, rows.extent)
    later = (Var(loop.var) + 1) * step + (rows.extent - new)
    first = part(stmt, dimension, Const(0), rows.extent), *waits
    others = part(stmt, dimension, later, new), *waits
    is_first, is_last = (binary("==", Var(loop.var), n) for n in (0, loop.extent - 1))
    goes_on = 1 - is_last
    if zeros and new == Const(1):
        goes_on *= 1 - zeros.stay_below(loop)
    return If(is_first, first), If(goes_on, others)


def part(stmt: Call | Transfer, dimension: int, first: Expr, count: Expr) -> Stmt:
    """The statement for some indices of a dimension of its result."""

    def cut(ranges: tuple[Range, ...], d: int) -> tuple[Range, ...]:
        own = replace(ranges[d], start=ranges[d].start + first, extent=count)
        return (*ranges[:d], own, *ranges[d + 1 :])

    if isinstance(stmt, Transfer):
        inner = product(r.extent for r in stmt.ranges[dimension + 1 :])
        return replace(stmt, ranges=cut(stmt.ranges, dimension), first=first * inner)
    made, source = (o for o in stmt.operands if isinstance(o, View))
    other = source.roles.index(made.roles[dimension])
    views = (
        replace(view, ranges=cut(view.ranges, d))
        for view, d in ((made, dimension), (source, other))
    )
    return replace(stmt, operands=tuple(views))


@dataclass(frozen=True)
class KeepRows:
    """Fetches only those rows of a part that the part before did not have. They replace as many of
    its rows: row r is at place r modulo the rows of a part. If maps of results follow the loop that
    computes them, rows of the next part are fetched between the steps of the maps.

    before:  for part: get(x[part * 2 : part * 2 + 4] -> x_tile)
                       copy(windows_tile, x_tile[0 : 3])
    after:   for part: if part == 0: get(x[0 : 4] -> x_tile)
                       else: get(x[part * 2 + 2 : part * 2 + 4] -> x_tile, first=...)
                       copy(windows_tile[0], x_tile[part * 2 % 4])
                       copy(windows_tile[1], x_tile[(part * 2 + 1) % 4])
                       copy(windows_tile[2], x_tile[(part * 2 + 2) % 4])
    """

    name: ClassVar[str] = "keep_rows"

    def apply(self, program: Program) -> Program:
        """The program with parts that keep rows."""
        calls = [s for s in walk(program.body) if isinstance(s, Call)]

        def kept(stmt: Stmt) -> tuple[Stmt, ...] | None:
            if not isinstance(stmt, For):
                return None
            for s in stmt.body:
                if isinstance(s, Transfer) and (rows := _shared(s, stmt, calls)):
                    body = rows.ahead(stmt.body) or rewrite(stmt.body, rows.fetched_late)
                    stmt = replace(stmt, body=rewrite(body, rows.change))
            return (stmt,)

        return replace(program, body=rewrite(program.body, kept))


@dataclass(frozen=True)
class _Kept:
    """The rows of the parts that a transfer fetches along a dimension: each turn of a loop adds
    `step` rows to a buffer of `places` rows.
    """

    fetched: Transfer
    loop: For
    dimension: int
    step: Expr
    places: Expr

    @property
    def fit(self) -> Expr:
        """True if whole numbers of new rows fill the places."""
        return binary("==", self.places % self.step, 0)

    @property
    def later(self) -> Expr:
        """True if the part before had some of the rows."""
        return (1 - binary("==", Var(self.loop.var), 0)) * self.fit

    def fetched_late(self, stmt: Stmt) -> tuple[Stmt, ...] | None:
        """Statements to replace the transfer if a part is fetched when it begins."""
        late = If(self.later, (self._new(),), (self.fetched,))
        return (late,) if stmt is self.fetched else None

    def ahead(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The body with rows of the next part between the steps of maps, one by one if their number
        is known; empty if there are no such maps.
        """
        place = next((i for i, s in enumerate(body) if isinstance(s, For)), len(body))
        maps = [s for s in takewhile(_is_map, body[place + 1 :]) if isinstance(s, Call)]
        if not maps:
            return ()
        var, new = Var(self.loop.var), [self._new()]
        goes_on = binary("<", var + 1, self.loop.extent) * self.fit
        if isinstance(self.step, Const) and self.fit == Const(1):
            new = [self._new(row, Const(1)) for row in range(self.step.value)]
        moved = [If(goes_on, (_at(t, {var.name: var + 1}), Wait(t.buffer, Const(0)))) for t in new]
        steps = [step for call in maps for step in _in_steps(call)]
        between = list[Stmt]()
        for number, step in enumerate(steps):
            between += step, *(moved[number // 2 :][:1] if number % 2 == 0 else ())
        is_first = If(1 - self.later, (self.fetched,))
        before = (is_first if s is self.fetched else s for s in body[: place + 1])
        rest = moved[-(-len(steps) // 2) :]
        return (*before, *between, *rest, *body[place + 1 + len(maps) :])

    def change(self, stmt: Stmt) -> tuple[Stmt, ...] | None:
        """Copies row by row to replace one from the transfer's buffer."""
        if isinstance(stmt, Call) and self.fetched.buffer in _sources(stmt):
            return (If(self.fit, tuple(self._by_rows(stmt)), (stmt,)),)
        return None

    def _new(self, first: int = 0, count: Expr | None = None) -> Transfer:
        """The transfer of the rows that the part before did not have, or of so many of them."""
        ranges, d = list(self.fetched.ranges), self.dimension
        own, old = ranges[d], self.places - self.step + first
        ranges[d] = replace(own, start=own.start + old, extent=count or own.extent - old)
        inner = product(r.extent for r in ranges[d + 1 :])
        place = (Var(self.loop.var) * self.step + old) % self.places
        return replace(self.fetched, ranges=tuple(ranges), first=place * inner)

    def _by_rows(self, call: Call) -> Iterator[Call]:
        """A copy for each row, from the place of the row."""
        made, source = (o for o in call.operands if isinstance(o, View))
        rows = source.ranges[self.dimension]
        other = made.roles.index(source.roles[self.dimension])
        assert isinstance(rows.extent, Const)
        passed = Var(self.loop.var) * self.step
        shape = list(source.shape)
        shape[self.dimension] = self.places
        for number in range(rows.extent.value):
            place = (passed + (rows.start + number)) % self.places
            own = _single(replace(source, shape=tuple(shape)), self.dimension, place)
            to = _single(made, other, made.ranges[other].start + number)
            yield replace(call, operands=(to, own))


def _single(view: View, dimension: int, index: Expr) -> View:
    """The view of one index of a dimension."""
    ranges = list(view.ranges)
    ranges[dimension] = Range(index, Const(1))
    return replace(view, ranges=tuple(ranges))


def _is_map(stmt: Stmt) -> bool:
    """True for a map whose steps may be calls of their own."""
    if not isinstance(stmt, Call) or not isinstance(stmt.primitive, RoundedMap):
        return False
    steps = stmt.primitive.steps(len(stmt.operands) - 1)
    return not steps.constants and steps.temporaries < 2


def _in_steps(call: Call) -> Iterator[Call]:
    """A call for each step of a map that needs one temporary."""
    primitive, y = call.primitive, call.operands[0]
    assert isinstance(primitive, RoundedMap)
    extents = tuple(r.extent for r in y.ranges)
    ranges = tuple(Range(Const(0), n) for n in extents)
    places = (*call.operands, View(primitive.work or "", Const(0), extents, ranges, y.roles))
    for step in primitive.steps(len(call.operands) - 1).steps:
        expression, sources = step_expression(step, primitive.fraction_bits)
        own = tuple(places[place] for place in (step.out, *sources))
        yield Call(RoundedStep(expression, primitive.fraction_bits), own)


def _sources(call: Call) -> list[str]:
    return [o.buffer for o in call.operands[1:] if isinstance(o, View)]


def _shared(fetched: Transfer, loop: For, calls: list[Call]) -> _Kept | None:
    """The rows of the parts that a transfer in a loop fetches. None if neighbouring parts share
    none, if a part begins above the one before, or if anything but copies of a fixed number of rows
    reads them.
    """
    moving = [d for d, r in enumerate(fetched.ranges) if loop.var in free_vars(r.start)]
    if fetched.direction != "get" or len(moving) != 1:
        return None
    (d,) = moving
    around = (*fetched.ranges[:d], *fetched.ranges[d + 1 :])
    if any(loop.var in free_vars(r.extent) for r in around):
        return None
    step, places = (
        coefficient(fetched.ranges[d].start, loop.var),
        substitute(fetched.ranges[d].extent, {loop.var: 0}),
    )
    if evaluate(step, dict.fromkeys(free_vars(step), 1)) < 1:
        return None
    readers = [c for c in calls if fetched.buffer in _sources(c)]
    rows = [c.operands[1].ranges[d] for c in readers if isinstance(c.primitive, Copy)]
    single = all(r.extent == Const(1) for r in fetched.ranges[:d])
    if not rows or len(rows) < len(readers) or not single:
        return None
    if not all(isinstance(r.extent, Const) and r.step == Const(1) for r in rows):
        return None
    return _Kept(fetched, loop, d, step, places)
