"""Moves maps of results and fetches of weights among products, which leave room for one each.

In: a program whose products round their results where they are made, with maps behind the loops of
products and fetches before them. Out: the maps inside those loops, on the pixels of earlier turns;
parts of the next weights, too, where a schedule says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import ClassVar

from tilewright.common.errors import ScheduleError
from tilewright.common.expr import (
    Const,
    Expr,
    IntLike,
    Var,
    binary,
    ceil_div,
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
from tilewright.ir.primitives import Copy, Fill, MatrixProduct
from tilewright.ir.scalar import Apply, Element, Scalar, parse_scalar
from tilewright.ir.visit import map_stmt, rewrite, walk
from tilewright.passes.infer_dma import SLOT_ELEMENTS
from tilewright.seeds.steps import IN_PARTS
from tilewright.targets.cambricon.primitives import RoundedMap
from tilewright.targets.cambricon.slide_windows import part

_APART = 4
"""Turns between two steps of a map where the loop also copies windows."""
_VECTOR = "vector"
"""The loop over the vectors of a product."""


@dataclass(frozen=True)
class FinishBeside:
    """Computes on results while later products run. Beside each product there is room for one
    vector instruction, so several instructions take turns, each on as many pixels as there are
    turns.

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
        """Move maps of results into the loops that make them."""
        finishing = _Finishing(program)
        body = rewrite(finishing.finished(program.body), finishing.laid)
        calls = [s for s in walk(body) if isinstance(s, Call)]
        used = {name for call in calls for name in (*call.primitive.buffers(), *_buffers(call))}
        used |= {s.buffer for s in walk(body) if isinstance(s, Transfer)}
        buffers = (b for b in program.buffers if b.name in used)
        return replace(program, buffers=tuple(map(finishing.sized, buffers)), body=body)


@dataclass
class _Finishing:
    """Moves the maps of one program. `narrow` buffers hold numbers that are alike for all pixels:
    only as long along each given axis as one map needs, `elements` in total.
    """

    program: Program
    narrow: dict[str, dict[str, Expr]] = field(default_factory=dict)
    elements: dict[str, Expr] = field(default_factory=dict)

    def finished(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Move the map behind a loop of products into that loop, and the fetches of its other
        operands before the loop.
        """
        place = next((i for i, s in enumerate(body) if isinstance(_vectors(s), For)), None)
        if place is None:
            return body
        loop, after = _vectors(body[place]), body[place + 1 :]
        assert isinstance(loop, For)
        fetched = tuple(takewhile(_fetches, after))
        last = next(iter(after[len(fetched) :]), None)
        found = self._with_map(loop, last) if isinstance(last, Call) else None
        if found is None and loop is not body[place]:
            return body
        if found is None:
            return (*body[:place], replace(loop, body=self.finished(loop.body)), *after)
        return (*body[:place], *fetched, found[0], *found[1], *after[len(fetched) + 1 :])

    def _with_map(self, loop: For, last: Call) -> tuple[For, tuple[Stmt, ...]] | None:
        """The loop with a map of its results, and the part of the map that stays behind the loop.
        None if no turn completes a part of the result.
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
        """The loops with a step in each turn of the first one, and the steps on the last pixels."""
        (loop, *inner), (letter, *others) = loops, letters
        copies = any(isinstance(s, Call) and isinstance(s.primitive, Copy) for s in walk(loop.body))
        apart = _APART if copies else 1
        count = apart * len(steps)
        turn = Var(loop.var) % count
        whole, rest = (loop.extent - 1) // count, (loop.extent - 1) % count
        single = {o: (Var(f.var), Const(1)) for f, o in zip(inner, others, strict=True)}
        inside, behind = list[Stmt](), list[Stmt]()
        for number, step in enumerate(steps):
            for view in step.operands[2:]:
                self._narrow(view, {letter: 2 * count, **dict.fromkeys(others, 1)})
            part = {letter: (Var(loop.var) - turn - count, Const(count)), **single}
            is_turn = binary("<=", count, Var(loop.var)) * binary("==", turn, number * apart)
            inside.append(If(is_turn, (self._of_pixels(step, part),)))
            begun = maximum(whole - binary("<", rest, number * apart), 0) * count
            behind.append(self._of_pixels(step, {letter: (begun, loop.extent - begun)}))
        body = (*loops[-1].body, *inside)
        for f in reversed(loops[:-1]):
            inmost = next(s for s in f.body if isinstance(s, For))
            made = replace(inmost, body=body)
            body = tuple(made if s is inmost else s for s in f.body)
        return replace(loop, body=body), tuple(behind)

    def _narrow(self, view: Operand, most: Mapping[str, int]) -> None:
        """Keep only so many indices of an operand that is alike for all and used nowhere else."""
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
        """The view of a narrow buffer; an axis of one index is broadcast."""
        sizes = self.narrow.get(view.buffer, {})
        for letter in sizes.keys() & {*view.roles}:
            d, size = view.roles.index(letter), sizes[letter]
            roles = view.roles.replace(letter, "." if size == Const(1) else letter)
            shape, ranges = list(view.shape), list(view.ranges)
            shape[d], ranges[d] = size, Range(Const(0), size)
            view = replace(view, shape=tuple(shape), ranges=tuple(ranges), roles=roles)
        return view

    def _of_pixels(self, call: Call, parts: Mapping[str, tuple[Expr, Expr]]) -> Call:
        """A map of some indices only: along each axis of `parts`, from a first index on so many."""

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
        """A statement that fills a narrow buffer, for its smaller extent; None for others."""
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
        """The buffer with its smaller number of elements."""
        elements = self.elements.get(buffer.name)
        if elements is None:
            return buffer
        return replace(buffer, elements=round_up(elements, SLOT_ELEMENTS))


def _vectors(stmt: Stmt) -> Stmt:
    """A product of several vectors as a loop of products of one each; any other statement
    unchanged.

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


def _fetches(stmt: Stmt) -> bool:
    """True for a get or a wait."""
    return isinstance(stmt, Wait) or (isinstance(stmt, Transfer) and stmt.direction == "get")


def _buffers(stmt: Call | Transfer) -> tuple[str, ...]:
    """The buffers that a statement names, the one a call writes first."""
    if isinstance(stmt, Transfer):
        return (stmt.buffer,)
    return tuple(o.buffer if isinstance(o, View) else "" for o in stmt.operands)


def _names(stmt: Call | Transfer, view: Operand) -> bool:
    """True if a statement names the buffer of a view."""
    return isinstance(view, View) and view.buffer in _buffers(stmt)


def _one_by_one(last: Call) -> list[Call]:
    """A map of a result in place as maps of one instruction each; none unless it is a chain."""
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


_TURNS = 2
"""Turns from one part to the next. Two products leave room for a part and two stores."""


@dataclass(frozen=True)
class FetchInParts:
    """Fetches the weights that `stages` marks `IN_PARTS`: a part in every other turn of the loop
    over a product's vectors. Each result is stored behind the next product.

    before:  for tile: get(w[tile] -> w_tile)
                       for pixel: product(y_tile[0 : 7], w_tile, x_tile[pixel * 7 : pixel * 7 + 7])
                                  put(y_tile)
    after:   for tile:                                                  # in slot tile % 2
                 if tile == 0: get(w[0] -> w_tile)
                 for pixel: for vector:
                     if vector % 2 == 1: get(w[tile + 1][part] -> w_tile[slot (tile + 1) % 2])
                     product(y_tile[vector], w_tile, x_tile[pixel * 7 + vector])
                     if 0 < vector: put(y_tile[vector - 1])
                     if vector == 6: put(y_tile[vector])
    """

    name: ClassVar[str] = "fetch_in_parts"
    stages: Mapping[str, str]

    def apply(self, program: Program) -> Program:
        """Move the transfers into the loop. Raises ScheduleError if there is none or the results
        have another use.
        """
        for name, at in self.stages.items():
            if at == IN_PARTS and not _is_cut(name, program):
                program = _Parts.of(name, program).applied()
        return program


@dataclass(frozen=True)
class _Parts:
    """A transfer of weights in the loop over their `tiles`; inside it, in the loop over `pixels`, a
    product of several vectors and the store of its results.
    """

    program: Program
    fetched: Transfer
    product: Call
    stored: Transfer
    tiles: For
    pixels: For

    @staticmethod
    def of(tensor: str, program: Program) -> _Parts:
        """The fetch, product and store of `tensor`. Raises ScheduleError for other structures."""
        loops = _chain(program.body)
        tiles, pixels = loops[-2:] if len(loops) > 1 else (None, None)
        match [s for s in (tiles.body if tiles else ()) if not isinstance(s, Wait)]:
            case [Transfer("get", own) as fetched, For()] if own == tensor:
                pass
            case _:
                raise _refused(tensor)
        assert tiles
        assert pixels
        match [s for s in pixels.body if not isinstance(s, Wait)]:
            case [Call(MatrixProduct()) as product, Transfer("put") as stored]:
                return _Parts(program, fetched, product, stored, tiles, pixels)
            case _:
                raise _refused(tensor)

    def applied(self) -> Program:
        """The program with parts. Raises ScheduleError unless the product is a loop."""
        loop = _vectors(self.product)
        if not isinstance(loop, For):
            raise _refused(self.fetched.tensor)
        (product,) = (s for s in loop.body if isinstance(s, Call))
        turn, ranges = Var(loop.var), product.operands[0].ranges
        along = next(d for d, r in enumerate(ranges) if turn.name in free_vars(r.start))
        tile, count = Var(self.tiles.var), self.pixels.extent
        slots = {
            self.fetched.buffer: tile % 2,
            self.stored.buffer: (tile * count + Var(self.pixels.var)) % 2,
        }
        views = (
            replace(o, slot=slots.get(o.buffer, o.slot)) if isinstance(o, View) else o
            for o in product.operands
        )
        made = replace(self.stored, slot=slots[self.stored.buffer])
        free = Wait(made.buffer, made.slot)
        body = (
            self._part(loop, slots[self.fetched.buffer]),
            replace(product, operands=tuple(views)),
            If(binary("<", 0, turn), (part(made, along, turn - 1, Const(1)), free)),
            If(binary("==", turn + 1, loop.extent), (part(made, along, turn, Const(1)), free)),
        )
        begun = replace(self.fetched, slot=slots[self.fetched.buffer])
        first = If(binary("==", tile, 0), (begun, Wait(begun.buffer, begun.slot)))
        pixels = replace(self.pixels, body=(replace(loop, body=body),))
        tiles = replace(self.tiles, body=(first, pixels))
        buffers = (
            replace(b, copies=Const(2)) if b.name in slots else b for b in self.program.buffers
        )
        whole = _instead(self.program.body, self.tiles, tiles)
        return replace(self.program, buffers=tuple(buffers), body=whole)

    def _part(self, loop: For, slot: Expr) -> If:
        """Fetch a part of the next weights, if any. Each loop over pixels that is as long as the
        first one fetches equally many; the last parts may overlap.
        """
        tile, pixel = self.tiles.var, self.pixels.var
        (d,) = (i for i, r in enumerate(self.fetched.ranges) if tile in free_vars(r.start))
        following = replace(_at(self.fetched, {tile: Var(tile) + 1}), slot=1 - slot)
        length, end = (substitute(loop.extent, {pixel: n}) for n in (0, self.pixels.extent - 1))
        turns = maximum(1, length // _TURNS)
        whole = maximum(1, self.pixels.extent - binary("<", end, length))
        most, rows = (t.ranges[d].extent for t in (_at(self.fetched, {tile: 0}), following))
        size = minimum(ceil_div(most, turns * whole), rows)
        number = Var(pixel) * turns + Var(loop.var) // _TURNS
        rest = part(following, d, minimum(number * size, rows - size), size)
        is_turn = binary("==", Var(loop.var) % _TURNS, minimum(length, _TURNS) - 1)
        follows = binary("<", Var(tile) + 1, self.tiles.extent) * binary("<", Var(pixel), whole)
        return If(is_turn * follows, (rest, Wait(following.buffer, following.slot)))


def _is_cut(tensor: str, program: Program) -> bool:
    """True if the parts already have slots, as those of windows do."""
    moved = (s for s in walk(program.body) if isinstance(s, Transfer) and s.tensor == tensor)
    return any(s.slot != Const(0) for s in moved)


def _refused(tensor: str) -> ScheduleError:
    return ScheduleError(
        f"stage({tensor}, {IN_PARTS}): parts come beside a product whose loop over vectors is "
        f"inside the tiles of {tensor} and whose results are stored unchanged; name a loop instead"
    )


def _chain(body: Sequence[Stmt]) -> list[For]:
    """The nested loops of a body, outermost first."""
    loop = next((s for s in body if isinstance(s, For)), None)
    return [loop, *_chain(loop.body)] if loop else []


def _at(stmt: Transfer, values: Mapping[str, IntLike]) -> Transfer:
    found = map_stmt(stmt, lambda e: substitute(e, values))
    assert isinstance(found, Transfer)
    return found


def _instead(body: Sequence[Stmt], old: For, new: For) -> tuple[Stmt, ...]:
    """The body of a chain of loops with one of them replaced."""
    inside = (
        replace(s, body=_instead(s.body, old, new)) if isinstance(s, For) else s for s in body
    )
    return tuple(new if s is old else own for s, own in zip(body, inside, strict=True))
