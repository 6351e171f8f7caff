"""How programs are lowered for a Cambricon: activations and results in the vector scratchpad,
weights in the matrix scratchpad, every product rounded where it is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tilewright.common.expr import (
    Const,
    Expr,
    IntLike,
    Var,
    binary,
    coefficient,
    free_vars,
    maximum,
    minimum,
    product,
    round_up,
    substitute,
)
from tilewright.ir.nodes import (
    Buffer,
    Call,
    For,
    If,
    Operand,
    Program,
    Range,
    Stmt,
    Transfer,
    View,
    Wait,
)
from tilewright.ir.primitives import Copy, Fill, Map, MatrixProduct
from tilewright.ir.scalar import Apply, Element, Scalar, parse_scalar
from tilewright.ir.visit import calls_of, map_stmt, rewrite, walk
from tilewright.machine import Machine
from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import (
    SLOT_ELEMENTS,
    InferDma,
    chain_of,
    main_call,
    operands_of,
    symbols_of,
    unguarded,
)
from tilewright.passes.lowering import Lowering
from tilewright.targets.cambricon.primitives import RoundedMap
from tilewright.targets.cambricon.round_elements import RoundElements
from tilewright.targets.cambricon.round_products import MATRIX, VECTOR, RoundProducts


@dataclass(frozen=True)
class SlideWindows:
    """Fetches and gathers windows row by row where a loop moves over them: a row moves while the
    product before its own runs, and rows that neighbouring windows share move once. The first
    window of a column moves while the last products of the column before it run. What is fetched
    in one run stays whole, and so does what is pooled: its tiles are fetched ahead.

    before:  for column: copy(windows_tile, x_tile[column, 0 : 7])
                         for pixel: product(windows_tile[pixel : pixel + 3])
    after:   copy(windows_tile[0 : 3], x_tile[0, 0 : 3])
             for column: for pixel:
                 if pixel + 1 < 5: copy(windows_tile[pixel + 3], x_tile[column, pixel + 3])
                 product(windows_tile[pixel : pixel + 3])
                 if pixel == 2 and column + 1 < 9: copy(windows_tile[0], x_tile[column + 1, 0])
                 ...                                                # rows 1 and 2 in turns 3 and 4
    """

    name: ClassVar[str] = "slide_windows"

    def apply(self, program: Program) -> Program:
        """The program with gathering inside the loops over windows."""
        doubled = set[str]()
        body = _slid(program.body, (), {}, [], doubled, program)
        buffers = (replace(b, copies=Const(2)) if b.name in doubled else b for b in program.buffers)
        return replace(program, buffers=tuple(buffers), body=body)


_VECTOR = "vector"
"""The loop over the vectors of a product."""
Firsts = list[tuple[int, Stmt]]
"""Statements that move first windows, and inside how many loops each of them stands."""


def _slid(
    body: tuple[Stmt, ...],
    around: tuple[For, ...],
    filled: Mapping[str, int],
    firsts: Firsts,
    doubled: set[str],
    program: Program,
) -> tuple[Stmt, ...]:
    """The body inside the loops `around` of which what fills a buffer that its loop moves over
    stands in that loop; buffers are `filled` inside so many loops. Of what is gathered ahead there
    are two, which the turns of the loop around take in turn.
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
    inside, behind, moved = list[Stmt](), list[Stmt](), set[Stmt]()
    own = loop.body
    for stmt in here if next(calls_of(loop.body, MatrixProduct), None) else ():
        waits: tuple[Wait, ...] = ()
        match stmt:
            case Call(Copy(), (View(buffer), View(source))):
                depth = filled.get(source, len(around))
            case Transfer("get", _, _, buffer):
                waits, depth = (Wait(buffer, Const(0)),), 0
            case _:
                continue
        rows = _moving(loop, buffer)
        if rows is None or not _is_apart(stmt, loop, *rows, program):
            continue
        moved |= {stmt, *waits}
        count, ahead = rows[1].extent, Const(0)
        first = _part(stmt, rows[0], Const(0), count)
        if isinstance(count, Const) and not _varies(first, around[depth:]):
            ahead = binary("<", count, substitute(loop.extent, {f.var: 0 for f in around}))
            if isinstance(stmt, Call):
                ahead, slot = Const(1), Var(around[-1].var) % 2
                (stmt, first), own = (_in_slot(s, buffer, slot) for s in ((stmt, first), own))
                doubled.add(buffer)
            start = {f.var: 0 for f in (loop, *around[depth:])}
            firsts.append((depth, If(ahead, (_at(first, start), *waits))))
            later = _following(stmt, loop, around[depth:], rows[0], count.value)
            behind += (If(test * ahead, (row, *waits)) for test, row in later)
        every = _gathered(stmt, waits, loop, *rows)
        inside += replace(every[0], condition=every[0].condition * (1 - ahead)), every[1]
    slid = replace(loop, body=(*inside, *own, *behind))
    begun = [stmt for depth, stmt in firsts if depth == len(around)]
    return _replaced(body, loop, slid, moved, begun)


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
    """The body with one loop for another, without what has `moved`, and with what has `begun`
    before the loop.
    """
    kept = (s for s in body if s not in moved)
    return tuple(x for s in kept for x in ((*begun, new) if s is old else (s,)))


def _varies(stmt: Stmt, loops: Sequence[For]) -> bool:
    """True if there are no loops, or what a statement moves has other extents in other turns."""
    parts = stmt.operands if isinstance(stmt, Call) else (stmt,)
    ranges = (r for part in parts if isinstance(part, View | Transfer) for r in part.ranges)
    sizes = frozenset().union(*(free_vars(r.extent) for r in ranges))
    return not loops or bool(sizes & {f.var for f in loops})


def _at(stmt: Stmt, values: Mapping[str, IntLike]) -> Stmt:
    """A transfer, call or wait at these indices of loops."""
    return map_stmt(stmt, lambda e: substitute(e, values))


def _following(
    stmt: Call | Transfer, loop: For, around: Sequence[For], dimension: int, count: int
) -> Iterator[tuple[Expr, Stmt]]:
    """The first window of the next turn of the loops around, a row in each of the last turns, or
    several in each of few: when, and what moves.
    """
    following: dict[str, Expr] = {}
    carry: Expr = Const(1)
    for outer in reversed(around):
        ends = carry * binary("==", Var(outer.var) + 1, outer.extent)
        following[outer.var] = (Var(outer.var) + carry) * (1 if outer is around[0] else 1 - ends)
        carry = ends
    for row in range(count):
        turn = maximum(loop.extent - count, 0) + minimum(loop.extent, count) * row // count
        moved = _at(_part(stmt, dimension, Const(row), Const(1)), following)
        yield binary("==", Var(loop.var), turn) * (1 - carry), moved


def _moving(loop: For, buffer: str) -> tuple[int, Range] | None:
    """The dimension along which a loop moves over what it reads of a buffer, and its rows there."""
    calls = (s for s in walk(loop.body) if isinstance(s, Call))
    views = (o for c in calls for o in c.operands[1:] if isinstance(o, View))
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
    """True if a statement moves the indices of a dimension one by one, of windows that overlap."""
    if isinstance(stmt, Call):
        return True
    if minimum(coefficient(window.start, loop.var), window.extent) == window.extent:
        return False
    shape = program.tensor(stmt.tensor).shape
    around, inner = stmt.ranges[:dimension], stmt.ranges[dimension + 1 :]
    rows = zip(inner, shape[dimension + 1 :], strict=True)
    return all(r.extent == Const(1) for r in around) and any(r.extent != n for r, n in rows)


def _gathered(
    stmt: Call | Transfer, waits: tuple[Wait, ...], loop: For, dimension: int, rows: Range
) -> tuple[If, If]:
    """The first window's rows, and those that the next window has and the present one has not."""
    step = coefficient(rows.start, loop.var)
    new = minimum(step, rows.extent)
    later = (Var(loop.var) + 1) * step + (rows.extent - new)
    first = _part(stmt, dimension, Const(0), rows.extent), *waits
    others = _part(stmt, dimension, later, new), *waits
    is_first, goes_on = binary("==", Var(loop.var), 0), binary("<", Var(loop.var) + 1, loop.extent)
    return If(is_first, first), If(goes_on, others)


def _part(stmt: Call | Transfer, dimension: int, first: Expr, count: Expr) -> Stmt:
    """The statement for some indices of a dimension of what it writes."""

    def part(ranges: tuple[Range, ...], d: int) -> tuple[Range, ...]:
        own = replace(ranges[d], start=ranges[d].start + first, extent=count)
        return (*ranges[:d], own, *ranges[d + 1 :])

    if isinstance(stmt, Transfer):
        inner = product(r.extent for r in stmt.ranges[dimension + 1 :])
        return replace(stmt, ranges=part(stmt.ranges, dimension), first=first * inner)
    made, source = (o for o in stmt.operands if isinstance(o, View))
    other = source.roles.index(made.roles[dimension])
    views = (
        replace(view, ranges=part(view.ranges, d))
        for view, d in ((made, dimension), (source, other))
    )
    return replace(stmt, operands=tuple(views))


@dataclass(frozen=True)
class FinishBeside:
    """Computes on results while later products run: beside each product there is room for one
    vector instruction, so that each of several takes the results of as many pixels, in turn.

    before:  for pixel: product(y_tile[pixel])
             rounded_map(y_tile, y_tile, b_wide, zeros, expression=max(x0 + x1, x2))
    after:   for pixel:
                 product(y_tile[pixel])
                 if (2 <= pixel) * (pixel % 2 == 0):
                     rounded_map(y_tile[pixel - 2 : pixel], ..., expression=x0 + x1)
                 if (2 <= pixel) * (pixel % 2 == 1):
                     rounded_map(y_tile[pixel - 3 : pixel - 1], ..., expression=max(x0, x1))
             ...                                                        # the last pixels
    """

    name: ClassVar[str] = "finish_beside"

    def apply(self, program: Program) -> Program:
        """The program with maps of results inside the loops that make them."""
        finishing = _Finishing(program)
        body = rewrite(finishing.finished(program.body), finishing.laid)
        calls = [s for s in walk(body) if isinstance(s, Call)]
        used = {name for call in calls for name in (*call.primitive.buffers(), *_buffers(call))}
        used |= {s.buffer for s in walk(body) if isinstance(s, Transfer)}
        buffers = (b for b in program.buffers if b.name in used)
        return replace(program, buffers=tuple(map(finishing.sized, buffers)), body=body)


@dataclass
class _Finishing:
    """Maps of a program that come beside products. Buffers of what is alike for all pixels are
    `narrow`: as long along an axis as one map behind the loop takes, of so many elements.
    """

    program: Program
    narrow: dict[str, dict[str, Expr]] = field(default_factory=dict)
    elements: dict[str, Expr] = field(default_factory=dict)

    def finished(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The body with the map behind a loop of products in that loop."""
        place = next((i for i, s in enumerate(body) if isinstance(_vectors(s), For)), None)
        if place is None:
            return body
        loop, after = _vectors(body[place]), body[place + 1 :]
        assert isinstance(loop, For)
        last = next((s for s in after if not isinstance(s, Wait)), None)
        found = self._with_map(loop, last) if isinstance(last, Call) else None
        if found is None and loop is not body[place]:
            return body
        if found is None:
            return (*body[:place], replace(loop, body=self.finished(loop.body)), *after)
        rest = (x for s in after for x in (found[1] if s is last else (s,)))
        return (*body[:place], found[0], *rest)

    def _with_map(self, loop: For, last: Call) -> tuple[For, tuple[Stmt, ...]] | None:
        """The loop with a map of what it makes, and what of that stays behind it; None where one
        turn makes no part of its own.
        """
        y, steps = last.operands[0], _one_by_one(last)
        users = [s for s in walk(loop.body) if isinstance(s, Call | Transfer) and _names(s, y)]
        if not steps or len(users) != 1 or not isinstance(made := users[0], Call):
            return None
        loops = [loop, *(s for s in walk(loop.body) if isinstance(s, For))]
        starts = [r.start for r in made.operands[0].ranges]
        along = [starts.index(Var(f.var)) for f in loops if Var(f.var) in starts]
        letters = [y.roles[d] for d in along]
        missing = any(letter not in o.roles for letter in letters for o in last.operands)
        if not isinstance(made.primitive, MatrixProduct) or len(along) != len(loops) or missing:
            return None
        if along[0] == max(along):
            return self._in_turns(loops, letters, steps)
        own = self._of_pixels(last, {letters[0]: (Var(loop.var), Const(1))})
        inner = self.finished((*loop.body, own))
        return None if own in inner else (replace(loop, body=inner), ())

    def _in_turns(
        self, loops: Sequence[For], letters: Sequence[str], steps: Sequence[Call]
    ) -> tuple[For, tuple[Stmt, ...]]:
        """The loops with one of the steps in each turn of the first one, and the steps on the last
        pixels.
        """
        (loop, *inner), (letter, *others) = loops, letters
        count, turn = len(steps), Var(loop.var) % len(steps)
        whole, rest = (loop.extent - 1) // count, (loop.extent - 1) % count
        single = {o: (Var(f.var), Const(1)) for f, o in zip(inner, others, strict=True)}
        inside, behind = list[Stmt](), list[Stmt]()
        for number, step in enumerate(steps):
            for view in step.operands[2:]:
                self._narrow(view, {letter: 2 * count, **dict.fromkeys(others, 1)})
            part = {letter: (Var(loop.var) - turn - count, Const(count)), **single}
            is_turn = binary("<=", count, Var(loop.var)) * binary("==", turn, number)
            inside.append(If(is_turn, (self._of_pixels(step, part),)))
            begun = maximum(whole - binary("<", rest, number), 0) * count
            behind.append(self._of_pixels(step, {letter: (begun, loop.extent - begun)}))
        body = (*loops[-1].body, *inside)
        for f in reversed(loops[:-1]):
            inmost = next(s for s in f.body if isinstance(s, For))
            made = replace(inmost, body=body)
            body = tuple(made if s is inmost else s for s in f.body)
        return replace(loop, body=body), tuple(behind)

    def _narrow(self, view: Operand, most: Mapping[str, int]) -> None:
        """Keep so many indices of an operand that is alike for all and that nothing else uses."""
        users = [s for s in walk(self.program.body) if isinstance(s, Call) and _names(s, view)]
        first = users[0]
        if len(users) != 2 or _buffers(first)[0] not in _buffers(replace(first, operands=(view,))):
            return
        alike = isinstance(first.primitive, Fill) or (
            isinstance(first.primitive, RoundedMap) and not {*most} & {*first.operands[1].roles}
        )
        if alike and isinstance(view, View):
            at_first = {s.var: 0 for s in walk(self.program.body) if isinstance(s, For)}
            pairs = zip(view.roles, view.shape, strict=True)
            sizes = {role: substitute(n, at_first) for role, n in pairs}
            own = {letter: minimum(sizes[letter], n) for letter, n in most.items()}
            self.narrow[view.buffer] = {**self.narrow.get(view.buffer, {}), **own}
            self.elements[view.buffer] = product({**sizes, **self.narrow[view.buffer]}.values())

    def _narrowed(self, view: View) -> View:
        """The view of a narrow buffer; one index along an axis counts for all."""
        sizes = self.narrow.get(view.buffer, {})
        for letter in sizes.keys() & {*view.roles}:
            d, size = view.roles.index(letter), sizes[letter]
            roles = view.roles.replace(letter, "." if size == Const(1) else letter)
            shape, ranges = list(view.shape), list(view.ranges)
            shape[d], ranges[d] = size, Range(Const(0), size)
            view = replace(view, shape=tuple(shape), ranges=tuple(ranges), roles=roles)
        return view

    def _of_pixels(self, call: Call, parts: Mapping[str, tuple[Expr, Expr]]) -> Call:
        """A map of some indices, from the first on so many, along axes."""

        def part(view: Operand) -> Operand:
            assert isinstance(view, View)
            own, ranges = self._narrowed(view), list[Range]()
            for letter, r in zip(own.roles, own.ranges, strict=True):
                start, count = parts.get(letter, (Const(0), r.extent))
                begun = r.start if view.buffer in self.narrow else r.start + start
                ranges.append(replace(r, start=begun, extent=count))
            return replace(own, ranges=tuple(ranges))

        return replace(call, operands=tuple(map(part, call.operands)))

    def laid(self, stmt: Stmt) -> tuple[Stmt, ...] | None:
        """A statement that fills a narrow buffer, for that much of it; None for others."""
        match stmt:
            case Call(Fill(), (View(name, _, (_,)),)) if name in self.narrow:
                size = self.elements[name]
                view = View(name, Const(0), (size,), (Range(Const(0), size),), "a")
                return (replace(stmt, operands=(view,)),)
            case Call(_, (View(name) as wide, source)) if name in self.narrow:
                return (replace(stmt, operands=(self._narrowed(wide), source)),)
            case _:
                return None

    def sized(self, buffer: Buffer) -> Buffer:
        """The buffer with as many elements as it keeps."""
        elements = self.elements.get(buffer.name)
        if elements is None:
            return buffer
        return replace(buffer, elements=round_up(elements, SLOT_ELEMENTS))


def _vectors(stmt: Stmt) -> Stmt:
    """A product of several vectors as a loop of products of one each; other statements themselves.

    before:  product(y_tile[0 : 98], w_tile, x_tile[0 : 98])
    after:   for vector: product(y_tile[vector], w_tile, x_tile[vector])
    """
    if not isinstance(stmt, Call) or not isinstance(stmt.primitive, MatrixProduct):
        return stmt
    across, views = stmt.primitive.across, list[Operand]()
    counts = set[Expr]()
    for view in stmt.operands:
        ranges = list(view.ranges)
        places = [d for d, role in enumerate(view.roles) if role == across]
        if len(places) > 1:
            return stmt
        for d in places:
            counts.add(ranges[d].extent)
            start = ranges[d].start + Var(_VECTOR) * ranges[d].step
            ranges[d] = replace(ranges[d], start=start, extent=Const(1))
        views.append(replace(view, ranges=tuple(ranges)))
    if len(counts) != 1 or counts == {Const(1)}:
        return stmt
    return For(_VECTOR, counts.pop(), (replace(stmt, operands=tuple(views)),))


def _buffers(stmt: Call | Transfer) -> tuple[str, ...]:
    """The buffers that a statement names, that which a call writes first."""
    if isinstance(stmt, Transfer):
        return (stmt.buffer,)
    return tuple(o.buffer if isinstance(o, View) else "" for o in stmt.operands)


def _names(stmt: Call | Transfer, view: Operand) -> bool:
    """True if a statement works on the buffer of a view."""
    return isinstance(view, View) and view.buffer in _buffers(stmt)


def _one_by_one(last: Call) -> list[Call]:
    """A map of a result in place as maps of one instruction each; none where it is no chain."""
    y, found = last.operands[0], list[Call]()
    if not isinstance(last.primitive, RoundedMap) or last.operands[1] != y:
        return []
    own: Scalar | None = parse_scalar(last.primitive.expression)
    while isinstance(own, Apply):
        inner = [a for a in own.arguments if isinstance(a, Apply)]
        before: Scalar = inner[0] if inner else Element(0)
        operands, arguments = [y, y], list[Scalar]()
        for argument in own.arguments:
            if isinstance(argument, Element) and argument != before:
                operands.append(last.operands[1 + argument.index])
                arguments.append(Element(len(operands) - 2))
            else:
                arguments.append(Element(0) if argument == before else argument)
        primitive = RoundedMap(
            str(Apply(own.function, tuple(arguments))), last.primitive.fraction_bits
        )
        made = primitive.steps(len(operands) - 1)
        if len(made.steps) > 1 or made.constants or any(o == y for o in operands[2:]):
            return []
        found.insert(0, replace(last, primitive=primitive, operands=tuple(operands)))
        own = inner[0] if inner else None
    return found


@dataclass(frozen=True)
class SharedFirst:
    """Orders the loops of a map so that what is shared by many elements is fetched once for all of
    them: those that such an operand depends on come first.

    before:  for row: for channel: map(y[row, channel], x[row, channel], b[channel])
    after:   for channel: for row: map(y[row, channel], x[row, channel], b[channel])
    """

    name: ClassVar[str] = "shared_first"

    def apply(self, program: Program) -> Program:
        """The seed-stage program with its loops in this order."""
        loops, body = chain_of(program.body)
        main = main_call(unguarded(body)[1])
        if not isinstance(main.primitive, Map):
            return program
        y, *others = operands_of(main)
        shared = (x for x in others if not {*y.roles} <= {*x.roles})
        names = frozenset().union(*(symbols_of(x) for x in shared))
        ordered = sorted(loops, key=lambda loop: loop.var not in names)
        for loop in reversed(ordered):
            body = (replace(loop, body=body),)
        return replace(program, body=body)


def _staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The usual passes, then rounding and a memory for each buffer."""
    return (
        SharedFirst(),
        InferDma(stages, workspace=False, early=True),
        HandleBoundary(),
        RoundElements(),
        RoundProducts(),
        FinishBeside(),
        SlideWindows(),
    )


@dataclass(frozen=True)
class CambriconRules:
    """Two scratchpads; products of any extents."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine."""
        room = {name: machine.space(name).available_bytes for name in (VECTOR, MATRIX)}
        return Lowering(room, _staging, partial_blocks=True, any_extent=True, fixed_point=True)


RULES = CambriconRules()
