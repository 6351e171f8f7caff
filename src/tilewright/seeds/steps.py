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
from typing import TypeAlias

from tilewright.common.errors import ScheduleError


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
    """Which dimension of the matrix product runs along the vector lanes: m or n."""

    letter: str


@dataclass(frozen=True)
class Spread:
    """Distribute the inner part of an axis over the mesh's rows or columns."""

    axis: str
    over: str


@dataclass(frozen=True)
class Stage:
    """Transfer the tensor outside loop `at`: all that the loops from `at` inwards need, at once."""

    tensor: str
    at: str


Step: TypeAlias = Split | Fuse | Reorder | Layout | Vectorize | Spread | Stage

_STEPS: dict[str, type[Split | Fuse | Vectorize | Spread | Stage]] = {
    "split": Split,
    "fuse": Fuse,
    "vectorize": Vectorize,
    "spread": Spread,
    "stage": Stage,
}


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
    """One step as a line of text."""
    name = type(step).__name__.lower()
    match step:
        case Reorder(loops):
            return f"{name}({', '.join(loops)})"
        case Layout(tensor, dims):
            return f"{name}({', '.join((tensor, *dims))})"
        case _:
            return f"{name}({', '.join(str(v) for v in astuple(step))})"


def parse_schedule(text: str) -> Schedule:
    """Read the text form; ScheduleError names the line that is not a step."""
    steps: list[Step] = []
    factors: tuple[tuple[str, int], ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, arguments, keywords = _call(line, number)
        if name == "factors":
            factors = tuple(_factor(k, number) for k in keywords)
        else:
            steps.append(_step(name, arguments, number))
    return Schedule(tuple(steps), factors)


def _call(line: str, number: int) -> tuple[str, list[str], list[ast.keyword]]:
    """The function, the names and the keywords of a line."""
    try:
        node = ast.parse(line.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        node = None
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            names = [a.id for a in args if isinstance(a, ast.Name)]
            if len(names) == len(args):
                return name, names, keywords
    raise ScheduleError(f"{line.strip()[:60]!r} is not a step", where=f"line {number}")


def _factor(keyword: ast.keyword, number: int) -> tuple[str, int]:
    match keyword:
        case ast.keyword(arg=str(name), value=ast.Constant(value=int(value))):
            return name, value
    raise ScheduleError("a factor is name=integer", where=f"line {number}")


def _step(name: str, arguments: list[str], number: int) -> Step:
    if name == "reorder":
        return Reorder(tuple(arguments))
    if name == "layout" and arguments:
        return Layout(arguments[0], tuple(arguments[1:]))
    kind = _STEPS.get(name)
    if kind is None:
        known = ", ".join(sorted([*_STEPS, "reorder", "layout", "factors"]))
        raise ScheduleError(
            f"unknown step {name!r}", where=f"line {number}", fix=f"the steps are {known}"
        )
    fields = list(kind.__dataclass_fields__)
    if len(arguments) != len(fields):
        raise ScheduleError(
            f"{name} takes {len(fields)} names ({', '.join(fields)}), found {len(arguments)}",
            where=f"line {number}",
        )
    return kind(*arguments)
