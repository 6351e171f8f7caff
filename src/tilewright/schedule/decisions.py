"""The steps of a schedule, indexed by what they decide (swATOP 4.3).

In: a nest and its steps. Out: `Decisions`, or a ScheduleError that names the step that does not
apply to this nest. `schedule.structures` checks that the primitive accepts the resulting tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import assert_never

from tilewright.common.errors import ScheduleError
from tilewright.common.expr import Expr, free_vars
from tilewright.ir.nodes import CORE_SYMBOLS, MESH_SYMBOLS, Range, check_name
from tilewright.ir.primitives import MatrixProduct
from tilewright.seeds.nest import Axis, Nest
from tilewright.seeds.steps import (
    IN_PARTS,
    IN_PLACE,
    Fuse,
    Layout,
    Pad,
    Reorder,
    Skew,
    Split,
    Spread,
    Stage,
    Step,
    Vectorize,
    Walk,
    Whole,
    print_step,
)

Direction = str
"""How a dimension is cut over the mesh: over its "rows", "columns" or "cores", or "" if uncut."""

_GEMM_SPREAD = (
    {"m": "rows", "n": "columns"},
    {"m": "rows", "k": "columns"},
    {"k": "rows", "n": "columns"},
)
_GEMM_OVER = {"m": "rows", "n": "columns", "k": "both"}
"""How the block algorithm of the matrix product cuts its dimensions (swDNN Fig. 3)."""


@dataclass(frozen=True)
class Rules:
    """Freedoms that a machine allows: operands in main memory (`in_place`), vectors along the terms
    of a sum there (`along_terms`), and partial blocks of the primitive on a mesh of one core
    (`partial_blocks`).
    """

    partial_blocks: bool = False
    in_place: bool = False
    along_terms: bool = False


STRICT = Rules()
"""Whole blocks, all operands in scratchpads."""


@dataclass(frozen=True)
class Decisions:
    """The steps of a schedule, by what they decide; one cached object per nest, steps and rules."""

    nest: Nest
    splits: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    layouts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vector: str = ""
    spreads: Mapping[str, Direction] = field(default_factory=dict)
    stages: Mapping[str, str] = field(default_factory=dict)
    pads: frozenset[str] = frozenset()
    skews: Mapping[str, Skew] = field(default_factory=dict)
    walks: Mapping[str, str] = field(default_factory=dict)
    wholes: frozenset[str] = frozenset()
    cuts: frozenset[Step] = frozenset()
    rules: Rules = STRICT

    @cached_property
    def ranges(self) -> dict[tuple[int, Expr], Range]:
        """Cache of the ranges of tiles, by operand and index."""
        return _ranges(self.nest, self.cuts, self.rules)

    def direction(self, operand: int, axis: str) -> Direction:
        """How `axis` is cut over the mesh in operand number `operand` (0 is the output)."""
        if axis not in self.spreads or self.rules.partial_blocks:
            return ""
        if isinstance(self.nest.primitive, MatrixProduct):
            return _GEMM_SPREAD[operand].get(self.roles[axis], "")
        return self.spreads[axis]

    def looped(self, axis: Axis) -> bool:
        """True if a loop runs over the axis."""
        return not axis.inner and (axis.name in self.splits or axis.name not in self.roles)

    def loops(self) -> tuple[str, ...]:
        """The loops in the order of the axes. A skewed loop is just outside the loop that it is
        skewed with; loops that walk through a core's own part are innermost.
        """
        over = {s.by: s.over for s in self.skews.values()}
        names = [a.name for a in self.nest.axes if self.looped(a)]
        found = (loop for name in names for loop in (over.get(name), name) if loop)
        return (*found, *self.walks.values())


@cache
def _ranges(nest: Nest, cuts: frozenset[Step], rules: Rules) -> dict[tuple[int, Expr], Range]:
    """One table shared by all schedules that cut the axes alike."""
    return {}


@cache
def decisions(nest: Nest, steps: tuple[Step, ...], rules: Rules = STRICT) -> Decisions:
    """Collect and check the steps.

    Raises ScheduleError for a name that the nest lacks, a step that contradicts an earlier one, an
    order that is no permutation of the loops, and a spread that the primitive does not support.
    """
    _require_once(steps)
    p = replace(_collected(nest, steps), rules=rules)
    for step in steps:
        _check(step, p)
    return p


def _collected(nest: Nest, steps: tuple[Step, ...]) -> Decisions:
    unordered = Decisions(
        nest,
        splits={s.axis: s.factor for s in steps if isinstance(s, Split)},
        roles=dict(nest.roles) | {s.axis: s.into for s in steps if isinstance(s, Fuse)},
        layouts={s.tensor: s.dims for s in steps if isinstance(s, Layout)},
        vector=next((s.letter for s in steps if isinstance(s, Vectorize)), ""),
        spreads={s.axis: s.over for s in steps if isinstance(s, Spread)},
        stages={s.tensor: s.at for s in steps if isinstance(s, Stage)},
        pads=frozenset(s.axis for s in steps if isinstance(s, Pad)),
        skews={s.axis: s for s in steps if isinstance(s, Skew)},
        walks={s.axis: s.over for s in steps if isinstance(s, Walk)},
        wholes=frozenset(s.axis for s in steps if isinstance(s, Whole)),
        cuts=frozenset(s for s in steps if not isinstance(s, Layout | Reorder | Stage | Vectorize)),
    )
    orders = (s.loops for s in steps if isinstance(s, Reorder))
    return replace(unordered, order=next(orders, unordered.loops()))


def _require_once(steps: tuple[Step, ...]) -> None:
    """Refuse a second step of one kind for the same axis, tensor or letter."""
    seen: dict[tuple[type[Step], str], Step] = {}
    for step in steps:
        match step:
            case Split(name) | Fuse(name) | Spread(name) | Pad(name) | Skew(name) | Walk(name):
                subject = name
            case Whole(name) | Layout(name) | Stage(name):
                subject = name
            case Reorder() | Vectorize():
                subject = ""
            case _:
                assert_never(step)
        first = seen.setdefault((type(step), subject), step)
        if first is not step:
            raise _refusal(step, f"contradicts {print_step(first)}", "leave one of them")


def _check(step: Step, p: Decisions) -> None:
    match step:
        case Split(axis, factor):
            _check_split(step, axis, factor, p)
        case Fuse(axis, into):
            _axis(step, axis, p)
            letters = tuple(letter for _, letter in p.nest.roles)
            if into not in letters:
                raise _refusal(
                    step, _lacks(p, "dimension", into), f"choose one of {_list(letters)}"
                )
        case Reorder(loops):
            if sorted(loops) != sorted(p.loops()):
                fix = f"the loops are {_list(p.loops())}"
                raise _refusal(step, "these are not the loops", fix)
        case Layout(tensor, dims):
            _check_layout(step, tensor, dims, p)
        case Vectorize(letter):
            if not isinstance(p.nest.primitive, MatrixProduct):
                raise _refusal(step, f"{p.nest.primitive.name!r} is not vectorised by choice")
            if letter not in ("m", "n"):
                raise _refusal(step, "a matrix product is vectorised along m or n")
        case Spread(axis, over):
            _check_spread(step, axis, over, p)
        case Stage(tensor, at):
            _tensor_dims(step, tensor, p)
            if at not in {IN_PLACE, IN_PARTS, *p.order}:
                raise _refusal(step, "there is no such loop", f"the loops are {_list(p.order)}")
        case Pad(axis):
            _check_pad(step, axis, p)
        case Skew():
            _check_skew(step, p)
        case Walk():
            _check_walk(step, p)
        case Whole(axis):
            _check_whole(step, axis, p)
        case _:
            assert_never(step)


def _check_split(step: Step, axis: str, factor: str, p: Decisions) -> None:
    if _axis(step, axis, p).inner:
        raise _refusal(step, f"{p.nest.primitive.name!r} takes {axis} whole")
    check_name("factor", factor)
    if list(p.splits.values()).count(factor) > 1 or factor in _symbols(p.nest):
        raise _refusal(step, f"the name {factor!r} is taken", "give the factor a name of its own")


def _symbols(nest: Nest) -> frozenset[str]:
    """All names with a meaning in the lowered program."""
    extents = (e for use in nest.every_use for _, e in use.tensor.dims)
    named = {a.name for a in nest.axes} | {f"{a.name}_granule" for a in nest.axes}
    copies = {f"{use.tensor.name}_copies" for use in nest.every_use}
    return frozenset(named | copies).union(CORE_SYMBOLS, MESH_SYMBOLS, *map(free_vars, extents))


def _check_layout(step: Step, tensor: str, dims: tuple[str, ...], p: Decisions) -> None:
    known = _tensor_dims(step, tensor, p)
    if sorted(dims) != sorted(known):
        raise _refusal(step, f"the dimensions of {tensor!r} are {_list(known)}")


def _check_spread(step: Step, axis: str, over: str, p: Decisions) -> None:
    _axis(step, axis, p)
    if axis not in p.splits and axis not in p.wholes:
        raise _refusal(step, f"{axis} is not split", f"add split({axis}, {axis}_tile)")
    if isinstance(p.nest.primitive, MatrixProduct):
        expected = _GEMM_OVER.get(p.roles.get(axis, ""))
        if expected is None:
            raise _refusal(step, f"{axis} is no dimension of the matrix product")
        if over != expected:
            raise _refusal(step, f"a matrix product cuts {p.roles[axis]} over {expected}")
    elif over not in ("rows", "columns", "cores"):
        raise _refusal(step, f"{p.nest.primitive.name!r} is cut over rows, columns or cores")
    taken = {over, "cores"} if over != "cores" else {"rows", "columns", "cores"}
    others = [a for a, other in p.spreads.items() if other in taken and a != axis]
    if others and not p.rules.partial_blocks:
        raise _refusal(step, f"{others[0]} is cut over {over} already")


def _check_pad(step: Step, axis: str, p: Decisions) -> None:
    _axis(step, axis, p)
    if axis not in p.splits or axis not in p.roles:
        raise _refusal(step, f"no part of {axis} is inside the primitive", f"split and fuse {axis}")
    if axis in p.spreads:
        raise _refusal(step, f"{axis} is spread, and padded for that")


def _check_whole(step: Step, axis: str, p: Decisions) -> None:
    _axis(step, axis, p)
    if axis in p.splits:
        raise _refusal(step, f"{axis} is split", "leave one of them")
    if axis not in p.spreads:
        raise _refusal(step, f"{axis} is not spread", "spread it")


def _check_skew(step: Skew, p: Decisions) -> None:
    for axis in (step.axis, step.by):
        if _axis(step, axis, p).inner or axis in p.roles:
            raise _refusal(step, f"the primitive takes {axis}, it is no loop")
    if step.axis not in p.splits:
        raise _refusal(step, f"{step.axis} is not split", f"split {step.axis}")
    if step.by in p.splits:
        raise _refusal(step, f"{step.by} is split", f"leave {step.by} whole")
    if step.over in _symbols(p.nest) | {*p.splits.values()}:
        raise _refusal(step, f"the name {step.over!r} is taken", "give the loop a name of its own")
    places = [p.order.index(loop) for loop in (step.axis, step.over, step.by) if loop in p.order]
    if places != sorted(places):
        order = f"{step.axis}, {step.over}, {step.by}"
        raise _refusal(step, "its loops are in another order", f"put them in the order {order}")


def _check_walk(step: Walk, p: Decisions) -> None:
    _axis(step, step.axis, p)
    if step.axis not in p.splits or step.axis not in p.spreads:
        raise _refusal(step, f"{step.axis} is not split and spread", "do both")
    if step.over in _symbols(p.nest) | {*p.splits.values()}:
        raise _refusal(step, f"the name {step.over!r} is taken", "give the loop a name of its own")
    letter, product = p.roles.get(step.axis, ""), isinstance(p.nest.primitive, MatrixProduct)
    if letter not in (("m", "n") if product else ("",)):
        what = (
            "no row or column of a matrix product's result" if product else "inside the primitive"
        )
        raise _refusal(step, f"{step.axis} is {what}")
    others = [a for a, role in p.roles.items() if role == letter and a not in p.walks]
    rounded = not product or p.rules.partial_blocks
    if not rounded and not any(a in p.pads or a in p.spreads for a in others):
        why = f"the primitive takes {letter} of {_list(tuple(others)) or 'no other axis'}"
        raise _refusal(step, f"{why}, which nothing rounds up", "pad one of them")
    place = p.order.index(step.over) if step.over in p.order else len(p.order)
    if step.axis in p.order and p.order.index(step.axis) > place:
        raise _refusal(
            step, "its loops are in another order", f"put {step.over} inside {step.axis}"
        )


def _axis(step: Step, name: str, p: Decisions) -> Axis:
    for axis in p.nest.axes:
        if axis.name == name:
            return axis
    known = tuple(a.name for a in p.nest.axes)
    raise _refusal(step, _lacks(p, "axis", name), f"its axes are {_list(known)}")


def _tensor_dims(step: Step, name: str, p: Decisions) -> tuple[str, ...]:
    """The dimensions of a tensor of the nest."""
    specs = {use.tensor.name: use.tensor for use in p.nest.every_use}
    if name not in specs:
        raise _refusal(step, _lacks(p, "tensor", name), f"its tensors are {_list(tuple(specs))}")
    return tuple(d for d, _ in specs[name].dims)


def _lacks(p: Decisions, what: str, name: str) -> str:
    return f"nest {p.nest.name!r} has no {what} {name!r}"


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _refusal(step: Step, why: str, fix: str = "") -> ScheduleError:
    return ScheduleError(f"{print_step(step)}: {why}", fix=fix)
