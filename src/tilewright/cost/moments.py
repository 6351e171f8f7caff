"""What each item of a nest costs in each kind of iteration, as expressions of parameters alone.

In: the items and loops of a nest. Out: `Moments`: where the loops are in an iteration of a kind is
put into the expressions once, so that pricing a space evaluates straight-line code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product as combinations
from typing import TypeAlias, assert_never

from tilewright.common.expr import (
    Binary,
    Const,
    Expr,
    IntLike,
    Var,
    binary,
    free_vars,
    maximum,
    minimum,
)
from tilewright.common.straight_line import StraightLine, straight_line
from tilewright.cost.pipeline_types import Ints, Rows
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.ir.nodes import For

Edges: TypeAlias = tuple[int, int]
"""How many of a loop's first and last iterations may each cost something of their own."""
Costed: TypeAlias = CallStep | TransferStep


@dataclass(frozen=True)
class Kinds:
    """A call or transfer in its kinds of iterations, so many that they take `rows` of a table.

    `numbers` says where among `Moments.numbers` its values are: whether it happens, then the
    extents of a call, or shape and numbers of a transfer.
    """

    step: Costed
    rows: int
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Moments:
    """The expressions of a nest: `items` in the order of the rows of `Outline.costs`, `counts` the
    places of the loops' extents in that of `Outline.counts`. Each of the `numbers` is the places of
    its values, one for each kind of iteration or one for all of them.
    """

    code: StraightLine
    numbers: tuple[tuple[int, ...], ...]
    items: tuple[Kinds, ...]
    counts: tuple[int, ...]


def moments_of(
    items: Sequence[tuple[Costed, Expr]],
    loops: Sequence[For],
    edges: Sequence[Edges],
    costs: Rows,
    counts: Rows,
) -> Moments:
    """Every row of the costs of items (with their conditions) and of the loops' extents."""
    iterations, indices = _Iterations(loops, edges), {loop.var for loop in loops}
    numbered: dict[Expr, int] = {}
    numbers: dict[tuple[int, ...], int] = {}

    def places(e: Expr, own: Sequence[_Iteration]) -> tuple[int, ...]:
        if free_vars(e).isdisjoint(indices):  # the same in every iteration
            return (numbered.setdefault(e, len(numbered)),) * len(own)
        return tuple(numbered.setdefault(at.put(e), len(numbered)) for at in own)

    costed = []
    for (step, condition), strides in zip(items, costs.strides, strict=True):
        own = iterations.of(strides)
        every = [places(e, own) for e in (condition, *_numbers(step))]
        shortest = [found if len(set(found)) > 1 else found[:1] for found in every]
        found = tuple(numbers.setdefault(one, len(numbers)) for one in shortest)
        costed.append(Kinds(step, len(own), found))
    extents = [
        place
        for loop, strides in zip(loops, counts.strides, strict=True)
        for place in places(loop.extent, iterations.of(strides))
    ]
    code = straight_line(list(numbered))
    return Moments(code, tuple(numbers), tuple(costed), tuple(extents))


def kind_index(edges: Edges, kind: int, count: IntLike) -> Expr:
    """A loop index that stands for a kind of iteration: of those in front, the others, those at the
    back.
    """
    front, back = edges
    if kind == 0:
        return Const(0)
    if kind <= front:
        return minimum(kind, count - 1)
    return maximum(count - back + (kind - front - 1), 0)


def _numbers(step: Costed) -> tuple[Expr, ...]:
    if isinstance(step, CallStep):
        return tuple(step.dims.values())
    return (*step.tensor_shape, *step.numbers)


@dataclass
class _Iteration:
    """The loops' indices in an iteration, and the expressions that they were put into."""

    indices: dict[str, Expr] = field(default_factory=dict)
    made: dict[Expr, Expr] = field(default_factory=dict)

    def put(self, e: Expr) -> Expr:
        """The expression with the indices in place of the loops' symbols."""
        match e:
            case Const():
                return e
            case Var(name):
                return self.indices.get(name, e)
            case Binary(op, a, b):
                found = self.made.get(e)
                if found is None:
                    alone = e.symbols.isdisjoint(self.indices)
                    found = e if alone else binary(op, self.put(a), self.put(b))
                    self.made[e] = found
                return found
            case _:
                assert_never(e)


@dataclass(frozen=True)
class _Iterations:
    """An iteration for each combination of kinds that something depends on."""

    loops: Sequence[For]
    edges: Sequence[Edges]
    found: dict[tuple[int, ...], _Iteration] = field(default_factory=dict)

    def of(self, strides: Ints) -> list[_Iteration]:
        """One for every combination of kinds of the loops with a stride; the others are in their
        first iteration.
        """
        kinds = (range(sum(edges) + 1 if strides[d] else 1) for d, edges in enumerate(self.edges))
        return [self._at(every) for every in combinations(*kinds)]

    def _at(self, kinds: tuple[int, ...]) -> _Iteration:
        at = self.found.get(kinds)
        if at is None:
            at = self.found[kinds] = _Iteration()
            for loop, edges, kind in zip(self.loops, self.edges, kinds, strict=True):
                at.indices[loop.var] = kind_index(edges, kind, at.put(loop.extent))
                at.made.clear()
        return at
