"""Schedule primitives as values, and the schedule: a replayable list of them with its factors
bound.

>>> s = parse_schedule("split(out_channels, tile)\\nvectorize(n)\\nfactors(tile=64)")
>>> s.steps
(Split(axis='out_channels', factor='tile'), Vectorize(letter='n'))
>>> print(s)
split(out_channels, tile)
vectorize(n)
factors(tile=64)
"""

from __future__ import annotations

import ast
from dataclasses import astuple, dataclass
from typing import TypeAlias, get_args

from tilewright.common.errors import ScheduleError
from tilewright.common.syntax import expression_tree


@dataclass(frozen=True)
class Split:
    """for a in N  ->  for a in ceil(N / factor), with `factor` iterations inside the primitive."""

    axis: str
    factor: str


@dataclass(frozen=True)
class Fuse:
    """Merge the inner part of a split axis into dimension `into` of the primitive."""

    axis: str
    into: str


@dataclass(frozen=True)
class Reorder:
    """The order of the loops, outermost first."""

    loops: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """The storage order of a tensor's dimensions, slowest first."""

    tensor: str
    dims: tuple[str, ...]


@dataclass(frozen=True)
class Vectorize:
    """Run one dimension of the matrix product along the vector lanes: m or n."""

    letter: str


@dataclass(frozen=True)
class Spread:
    """Distribute the inner part of an axis over the mesh's rows, its columns, or all its cores."""

    axis: str
    over: str


IN_PLACE = "in_place"
"""Stage of a tensor that is used where it lies, without a transfer."""
IN_PARTS = "in_parts"
"""Stage of a tensor whose next tile arrives in parts, during calls on the current one."""


@dataclass(frozen=True)
class Stage:
    """Transfer the tensor outside loop `at`: all that the loops from `at` inwards need, at once. Or
    use it where it lies (`IN_PLACE`), or fetch the next tile in parts (`IN_PARTS`).
    """

    tensor: str
    at: str


@dataclass(frozen=True)
class Pad:
    """Round the last tile of a split, unspread axis up to a size that the primitive accepts."""

    axis: str


@dataclass(frozen=True)
class Skew:
    """Run the inner part of a split axis as a loop over the sum of its index and the index of `by`.

    The new loop `over` is outside the loop `by`: a tensor that depends on the sum alone, as the
    input column of a convolution depends on output column + kernel column, is transferred once for
    both (swDNN Algorithm 2).
    """

    axis: str
    by: str
    over: str


@dataclass(frozen=True)
class Walk:
    """Run each core's part of a spread axis as a loop `over` its indices, one call for each.

    A call then covers a single index of the axis, so its indices need not be contiguous with those
    of another axis: rows of an image may be parts of rows that are staged together.
    """

    axis: str
    over: str


@dataclass(frozen=True)
class Whole:
    """Take an axis whole, rounded up to a size that the primitive accepts; no loop runs over it."""

    axis: str


_Named: TypeAlias = Split | Fuse | Vectorize | Spread | Stage | Pad | Skew | Walk | Whole
Step: TypeAlias = _Named | Reorder | Layout
_STEPS: dict[str, type[_Named]] = {step.__name__.lower(): step for step in get_args(_Named)}
"""Steps whose arguments are their fields, by the name they have in text."""


@dataclass(frozen=True)
class Schedule:
    """Steps in order, and the value of each factor; prints, parses back and replays."""

    steps: tuple[Step, ...]
    factors: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        lines = [print_step(s) for s in self.steps]
        if self.factors:
            lines.append(f"factors({', '.join(f'{k}={v}' for k, v in self.factors)})")
        return "\n".join(lines)


def print_step(step: Step) -> str:
    """A step as one line of text."""
    name = type(step).__name__.lower()
    match step:
        case Reorder(loops):
            return f"{name}({', '.join(loops)})"
        case Layout(tensor, dims):
            return f"{name}({', '.join((tensor, *dims))})"
        case _:
            return f"{name}({', '.join(str(v) for v in astuple(step))})"


def parse_schedule(text: str) -> Schedule:
    """Parse the text form. Raises ScheduleError, which names the line that is not a step."""
    steps: list[Step] = []
    factors: tuple[tuple[str, int], ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"line {number}"
        call = _call(line, where)
        if call.name != "factors":
            steps.append(_step(call, where))
        elif factors:
            raise ScheduleError("factors stand in one line, a second one follows", where=where)
        else:
            factors = _factors(call, where)
    return Schedule(tuple(steps), factors)


@dataclass(frozen=True)
class _Call:
    """A parsed line: function name, positional arguments, keywords."""

    name: str
    arguments: tuple[str, ...]
    keywords: tuple[ast.keyword, ...]


def _call(line: str, where: str) -> _Call:
    try:
        node = expression_tree(line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        node = None
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            names = tuple(a.id for a in args if isinstance(a, ast.Name))
            if len(names) == len(args):
                return _Call(name, names, tuple(keywords))
    raise ScheduleError(f"{line.strip()[:60]!r} is not a step", where=where)


def _factors(call: _Call, where: str) -> tuple[tuple[str, int], ...]:
    wrong = list(call.arguments)
    values: list[tuple[str, int]] = []
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg=str(name), value=ast.Constant(value=value)) if (
                type(value) is int and value > 0
            ):
                if name in dict(values):
                    raise ScheduleError(f"factor {name!r} is given twice", where=where)
                values.append((name, value))
            case _:
                wrong.append(ast.unparse(keyword))
    if wrong:
        raise ScheduleError(
            f"factors takes name=integer, 1 or more, found {wrong[0][:60]!r}", where=where
        )
    return tuple(values)


def _step(call: _Call, where: str) -> Step:
    name, arguments = call.name, call.arguments
    if call.keywords:
        raise ScheduleError(f"{name} takes names, found {call.keywords[0].arg}=", where=where)
    if name == "reorder":
        return Reorder(arguments)
    if name == "layout":
        if not arguments:
            raise ScheduleError("layout takes a tensor and its dimensions", where=where)
        return Layout(arguments[0], arguments[1:])
    kind = _STEPS.get(name)
    if kind is None:
        known = ", ".join(sorted([*_STEPS, "reorder", "layout", "factors"]))
        raise ScheduleError(f"unknown step {name!r}", where=where, fix=f"the steps are {known}")
    fields = list(kind.__dataclass_fields__)
    if len(arguments) != len(fields):
        raise ScheduleError(
            f"{name} takes {len(fields)} names ({', '.join(fields)}), found {len(arguments)}",
            where=where,
        )
    return kind(*arguments)
