"""Replace maps and reductions of fixed point by the vector instructions that compute them.

Each instruction rounds and saturates. The program states this, so its interpreter computes the same
bits as the units. Intermediate values of an expression are in a buffer of temporaries.

before:  fill(y_tile, value=-inf); reduce(y_tile, x_tile, function=max)
         map(y_tile, y_tile, expression=exp(x0) / 3.0); map(z_tile, x_tile, expression=x0)
after:   fill(constant_85, value=85)                           # once
         fill(y_tile, value=-32768); rounded_reduce(y_tile, x_tile, expression=max(x0, x1), ...)
         rounded_map(y_tile, y_tile, constant_85, expression=exp(x0) * x1, ..., work=y_work)
         turned(z_tile, x_tile, one=256, work=z_unit)          # z_tile[m, n] = x_tile[n, m]

An operand that a loop reads repeatedly, one element for a whole row, is expanded to the result's
shape once, so that one instruction can take a tile:

before:  get(b -> b_tile); for row: rounded_map(y_tile, x_tile, b_tile)
after:   get(b -> b_tile); rounded_map(b_wide, b_tile); for row: rounded_map(y_tile, x_tile, b_wide)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import ClassVar

from msgspec import structs

from tilewright.common.dtypes import DType, dtype
from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.common.expr import (
    Const,
    Expr,
    binary,
    free_vars,
    product,
    round_up,
    substitute,
)
from tilewright.cost.buffers import is_whole_view
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
from tilewright.ir.primitives import Copy, Fill
from tilewright.ir.primitives.maps import Accumulate, Map, Reduce
from tilewright.ir.scalar import Apply, Element, renumbered
from tilewright.ir.visit import in_first, in_last, rewrite, walk
from tilewright.passes.infer_dma import SLOT_ELEMENTS
from tilewright.targets.cambricon.primitives import (
    RoundedMap,
    RoundedReduce,
    RoundedStep,
    StepByStep,
    Turned,
)
from tilewright.targets.cambricon.vector_steps import raw_number, with_constants

_COMBINED = {"sum": "+", "max": "max", "prod": "*"}


@dataclass(frozen=True)
class RoundElements:
    """Replaces the calls that compute elements of fixed point."""

    name: ClassVar[str] = "round_elements"

    def apply(self, program: Program) -> Program:
        """Round the program's calls. Raises ScheduleError if no instructions compute a function."""
        loops = [s.var for s in walk(program.body) if isinstance(s, For)]
        rounding = _Rounding(program, dict.fromkeys((*loops, "rid", "cid"), Const(0)))
        body = rounding.spread(_paired(rewrite(program.body, rounding.change)))
        body = (*rounding.constants.values(), *body)
        return replace(program, buffers=(*program.buffers, *rounding.work.values()), body=body)


@dataclass
class _Rounding:
    """Rounds the calls of a program. `first` maps loop variables to their first turn, whose tiles
    are whole; `work` has the buffers that calls need beside their operands; `constants` has the
    fills of those that hold one number.
    """

    program: Program
    first: Mapping[str, Expr]
    work: dict[str, Buffer] = field(default_factory=dict)
    constants: dict[str, Call] = field(default_factory=dict)

    def change(self, stmt: Stmt) -> tuple[Stmt, ...] | None:
        """Statements to replace a call of fixed point; None for other statements."""
        if not isinstance(stmt, Call) or not isinstance(y := stmt.operands[0], View):
            return None
        kind = dtype(self.program.buffer(y.buffer).dtype)
        if kind.kind != "fixed":
            return None
        if isinstance(stmt.primitive, Fill):
            raw = raw_number(stmt.primitive.value, kind.fraction_bits)
            return (replace(stmt, primitive=Fill(float(raw))),)
        if turned := _turned(stmt):
            size = 2 * self._extent(turned.operands[0], "m")
            unit = self._reserved(f"{y.buffer}_unit", kind, size)
            one = 1 << kind.fraction_bits
            return (replace(turned, primitive=Turned(one=one, work=unit)),)
        if isinstance(stmt.primitive, Accumulate):  # one step, which reads the result so far
            taken = stmt.primitive.executed
            stmt = replace(stmt, primitive=taken, operands=(y, *stmt.operands))
        try:
            return self._in_steps(stmt, y, kind)
        except ProgramError as error:
            raise ScheduleError(error.message, fix=error.fix) from error

    def _in_steps(self, call: Call, y: View, kind: DType) -> tuple[Stmt, ...] | None:
        if isinstance(call.primitive, Map):
            expression, numbers = with_constants(call.primitive.expression, len(call.operands) - 1)
            beside = (self._constant(n, y, kind) for n in numbers)
            own = (*call.operands, *beside)
            call = replace(call, primitive=Map(expression), operands=own)
        rounded = _rounded(call, kind.fraction_bits)
        if rounded is None:
            return None
        if needed := rounded.steps(len(call.operands) - 1).temporaries:
            size = self._extent(y, y.roles)
            name = self._reserved(f"{y.buffer}_work", kind, size, needed)
            rounded = structs.replace(rounded, work=name)
        return (replace(call, primitive=rounded),)

    def _constant(self, value: float, like: View, kind: DType) -> View:
        """A number repeated for each element of a tile; filled before everything else."""
        raw = raw_number(value, kind.fraction_bits)
        name = f"constant_{raw}".replace("-", "minus_")
        self._reserved(name, kind, self._extent(like, like.roles))
        whole = self.work[name].elements
        filled = View(name, Const(0), (whole,), (Range(Const(0), whole),), "a")
        self.constants[name] = Call(Fill(float(raw)), (filled,))
        extents = tuple(r.extent for r in like.ranges)
        ranges = tuple(Range(Const(0), n) for n in extents)
        return View(name, Const(0), extents, ranges, like.roles)

    def spread(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The body with operands that lack dimensions of their loops' result expanded to that."""
        filled: set[str] = set()
        found: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, Transfer):
                filled.add(stmt.buffer)
            if isinstance(stmt, For):
                laid: dict[str, Call] = {}
                inside = {s.var for s in (stmt, *walk(stmt.body)) if isinstance(s, For)}
                change = partial(self._wide, filled=filled, inside=inside, laid=laid)
                stmt = replace(stmt, body=self.spread(rewrite(stmt.body, change)))
                found += laid.values()
            found.append(stmt)
        return tuple(found)

    def _wide(
        self, stmt: Stmt, *, filled: set[str], inside: set[str], laid: dict[str, Call]
    ) -> tuple[Stmt, ...] | None:
        """A map whose operands `filled` outside the loops `inside` are expanded to the shape of its
        result; the calls that expand them go to `laid`.
        """
        if not isinstance(stmt, Call) or not isinstance(stmt.primitive, RoundedMap):
            return None
        y, *operands = stmt.operands
        changed: list[Operand] = [y]
        for x in operands:
            lacks = isinstance(x, View) and bool({*y.roles} - {*x.roles, "."})
            moves = any({*inside} & (free_vars(r.start) | free_vars(r.extent)) for r in x.ranges)
            if isinstance(x, View) and x.buffer in filled and lacks and not moves:
                kind = dtype(self.program.buffer(x.buffer).dtype)
                name = self._reserved(f"{x.buffer}_wide", kind, self._extent(y, y.roles))
                own = tuple(
                    r.extent if role in x.roles else substitute(r.extent, self.first)
                    for r, role in zip(y.ranges, y.roles, strict=True)
                )
                whole = tuple(Range(Const(0), n) for n in own)
                wide = View(name, Const(0), own, whole, y.roles)
                copied = RoundedMap("x0", kind.fraction_bits)
                laid[name] = Call(copied, (wide, x))
                parts = tuple(Range(Const(0), r.extent) for r in y.ranges)
                x = replace(wide, ranges=parts)
            changed.append(x)
        return (replace(stmt, operands=tuple(changed)),)

    def _extent(self, view: Operand, letters: str) -> Expr:
        """Elements of a whole tile along these axes."""
        pairs = zip(view.roles, view.ranges, strict=True)
        return product(substitute(r.extent, self.first) for role, r in pairs if role in letters)

    def _reserved(self, name: str, kind: DType, size: Expr, count: int = 1) -> str:
        """A buffer that several calls use in turn, large enough for each of them."""
        elements = count * round_up(size, SLOT_ELEMENTS)
        if name in self.work:
            elements = binary("max", elements, self.work[name].elements)
        self.work[name] = Buffer(name, kind.name, elements)
        return name


def _paired(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with results that begin with the larger of two elements, not the smallest number.

    before:  fill(y, -32768); for tap in range(3): rounded_reduce(y, x[tap])
    after:   for tap in range(3):
                 if tap == 0: rounded_map(y, x[0], x[2], expression=max(x0, x1))
                 elif tap != 2: rounded_reduce(y, x[tap])
    """
    found = [replace(s, body=_paired(s.body)) if isinstance(s, For) else s for s in body]
    for number, stmt in enumerate(found):
        loops, gather = _gathering(found[number:])
        match stmt, gather:
            case Call(Fill(), (View(begun), *_)), Call(
                RoundedReduce(_, work=None), (View(y), _)
            ) if begun == y:
                pairs = _largest_of_two(gather, loops)
                if pairs is not None:
                    filled, change = pairs[0](stmt), partial(_replaced, gather, pairs[1])
                    return (*found[:number], *filled, *rewrite(tuple(found[number + 1 :]), change))
            case _:
                pass
    return tuple(found)


def _replaced(old: Stmt, new: tuple[Stmt, ...], stmt: Stmt) -> tuple[Stmt, ...] | None:
    return new if stmt is old else None


def _gathering(body: Sequence[Stmt]) -> tuple[list[For], Call | None]:
    """The first call behind a fill, or in the loops behind it, and these loops."""
    loops: list[For] = []
    following: Sequence[Stmt] = body[1:]
    while True:
        inner = next((s for s in following if isinstance(s, For | Call)), None)
        if not isinstance(inner, For):
            return loops, inner
        loops.append(inner)
        following = inner.body


def _largest_of_two(
    call: Call, loops: Sequence[For]
) -> tuple[Callable[[Stmt], tuple[Stmt, ...]], tuple[Stmt, ...]] | None:
    """Calls to replace the fill and a call that gathers the largest: the first place with the last
    one, then those between. Along several dimensions, the outer ones are gathered in place in the
    operand. None for other calls, and for places that move in turn.
    """
    y, x = call.operands
    gather = call.primitive
    if not isinstance(x, View) or not isinstance(y, View) or not isinstance(gather, RoundedReduce):
        return None
    along = [d for d, role in enumerate(x.roles) if role == "k" and x.ranges[d].extent != Const(1)]
    moved = {s.buffer for loop in loops for s in walk(loop.body) if isinstance(s, Transfer)}
    if gather.expression != "max(x0, x1)" or (not along and x.buffer in moved):
        return None
    both = RoundedStep(gather.expression, gather.fraction_bits)

    def place(x: View, turns: Mapping[str, Expr]) -> View:
        ranges = tuple(replace(r, start=substitute(r.start, turns)) for r in x.ranges)
        return replace(x, ranges=ranges, roles=x.roles.replace("k", "."))

    if not along:
        is_first, is_last = in_first(loops), in_last(loops)
        first = place(x, {f.var: Const(0) for f in loops})
        last = place(x, {f.var: f.extent - 1 for f in loops})
        later = If(is_last, (), (call,))
        return lambda fill: (), (If(is_first, (Call(both, (y, first, last)),), (later,)),)
    whole, once = binary("==", product(f.extent for f in loops), 1), list[Stmt]()
    for d in along:
        made = y if d == along[-1] else part_along(x, d, Range(x.ranges[d].start, Const(1)))
        once += _folds(both, gather, made, x, d)
        x = part_along(x, d, Range(x.ranges[d].start, Const(1)))
    return lambda fill: (If(whole, (), (fill,)),), (If(whole, tuple(once), (call,)),)


def _folds(
    both: RoundedMap, gather: RoundedReduce, y: View, x: View, dimension: int
) -> tuple[Stmt, ...]:
    """Combine the first place along a dimension with the last one, then with those between."""
    own = x.ranges[dimension]
    first, last = (
        part_along(x, dimension, Range(own.start + index, Const(1)))
        for index in (Const(0), own.extent - 1)
    )
    between = part_along(x, dimension, Range(own.start + 1, own.extent - 2), "k")
    middle = Call(gather, (y, between))
    return Call(both, (y, first, last)), If(binary("<", 2, own.extent), (middle,))


def part_along(x: View, dimension: int, part: Range, role: str = ".") -> View:
    """A part of an operand along a dimension; other dimensions it is gathered along are kept."""
    ranges, roles = list(x.ranges), list(x.roles)
    ranges[dimension] = part
    for d, letter in enumerate(x.roles):
        roles[d] = chr(ord("a") + d) if letter == "k" else letter
    roles[dimension] = role
    return replace(x, ranges=tuple(ranges), roles="".join(roles))


def _rounded(call: Call, fraction_bits: int) -> StepByStep | None:
    """The primitive that replaces a call's; None for a call that computes nothing."""
    match call.primitive:
        case Map(expression):
            return RoundedMap(expression, fraction_bits)
        case Reduce(function) as gathering:
            each = renumbered(gathering.scalar, [Element(1)])
            combined = str(Apply(_COMBINED[function], (Element(0), each)))
            return RoundedReduce(combined, fraction_bits)
        case _:
            return None


def _turned(call: Call) -> Call | None:
    """A copy that transposes the dimension along memory, with the roles of `Turned`; else None."""
    match call:
        case Call(Map("x0") | Copy(), (View() as y, View() as x)):
            pass
        case _:
            return None
    if not is_whole_view(y) or not is_whole_view(x):
        return None
    pairs = zip(y.roles, x.roles, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    outer, moved, inner = y.roles[:same], y.roles[same:], x.roles[same:]
    for cut in range(1, len(moved)):
        if inner == moved[cut:] + moved[:cut]:
            m, n = moved[:cut], moved[cut:]
            names = str.maketrans(m + n, "m" * len(m) + "n" * len(n))
            turned = (replace(o, roles=o.roles.translate(names)) for o in (y, x))
            return None if {"m", "n"} & {*outer} else replace(call, operands=tuple(turned))
    return None


@dataclass(frozen=True)
class CopyInPlace:
    """Stores a fetched tile from where it lies, if both buffers of a copy have its elements in the
    same order. It saves one instruction per tile, and a tile may be as large as the memory; a
    second slot would save nothing, since the transfers follow each other.

    before:  get(x -> x_tile); wait(x_tile); rounded_map(y_tile, x_tile, expression=x0)
             put(y_tile -> y); wait(y_tile)
    after:   get(x -> x_tile); wait(x_tile); put(x_tile -> y); wait(x_tile)
    """

    name: ClassVar[str] = "copy_in_place"

    def apply(self, program: Program) -> Program:
        """The program with a single buffer."""
        body = rewrite(program.body, lambda s: () if _is_dead(s) else None)
        calls = [s for s in walk(body) if isinstance(s, Call)]
        if len(calls) != 1 or len(program.buffers) != 2 or not _copies(calls[0]):
            return program
        made, fetched = (o.buffer for o in calls[0].operands if isinstance(o, View))

        def change(stmt: Stmt) -> tuple[Stmt, ...] | None:
            if stmt == calls[0]:
                return ()
            if isinstance(stmt, Transfer | Wait) and stmt.buffer == made:
                return (replace(stmt, buffer=fetched),)
            return None

        slots = frozenset().union(*(free_vars(b.copies) for b in program.buffers))
        parameters = tuple(name for name in program.parameters if name not in slots)
        buffers = (replace(program.buffer(fetched), copies=Const(1)),)
        return replace(program, parameters=parameters, buffers=buffers, body=rewrite(body, change))


def _is_dead(stmt: Stmt) -> bool:
    return isinstance(stmt, If) and stmt.condition == Const(0) and not stmt.orelse


def _copies(call: Call) -> bool:
    """True for a copy of a whole tile that keeps the order of its elements."""
    match call:
        case Call(RoundedMap(expression="x0"), (View() as made, View() as fetched)):
            own = [replace(view, buffer="", slot=Const(0)) for view in (made, fetched)]
            return own[0] == own[1] and is_whole_view(made)
        case _:
            return False
