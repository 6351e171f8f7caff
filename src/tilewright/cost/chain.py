"""A staged program as a chain of loops with items at every level: the form in which it is priced.

In: a staged program of one nest. Out: `Prepared`, made once and priced many times: the loops, the
transfers and calls before and after the inner loop at each level, and the loops that each cost
depends on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    Const,
    Expr,
    Value,
    Var,
    ceil_div,
    evaluate,
    free_vars,
)
from tilewright.cost.calls import PricedCall, priced_call
from tilewright.cost.moments import Edges, Moments, edges_of, moments_of
from tilewright.cost.pipeline_types import Ints, Rows
from tilewright.cost.steps import BranchStep, CallStep, LoopStep, Step, TransferStep, steps_of
from tilewright.ir.chains import ChainRules
from tilewright.ir.nodes import For, Program, Transfer
from tilewright.ir.primitive import Primitive
from tilewright.ir.threads import loop_chain, parts_of
from tilewright.ir.visit import walk
from tilewright.machine import Machine
from tilewright.machine.parts import Engine

_NOTHING = Const(0)


@dataclass(frozen=True)
class ChainItem:
    """A call or transfer with its guard `condition` and its position: inside `level` loops, before
    or `after` the next one. `buffer` is the number of a transfer's buffer.
    """

    step: CallStep | TransferStep
    condition: Expr
    level: int
    after: bool
    buffer: int = 0

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Symbols that the cost depends on: those of the condition, of a call's extents, and of a
        transfer's extents and `numbers`. The addresses in a transfer's ranges are not among them.
        """
        found = free_vars(self.condition)
        match self.step:
            case TransferStep(stmt, numbers=numbers):
                apart = (r.extent for r in stmt.ranges)
                return found.union(*map(free_vars, (*apart, *numbers)))
            case CallStep(_, dims):
                return found.union(*(free_vars(e) for e in dims.values()))


@dataclass(frozen=True)
class Outline:
    """Spans (level, first and end) of item numbers `before` and `after` the inner loop; the rows of
    the items' costs and of the loops' iteration counts.
    """

    before: Ints
    after: Ints
    costs: Rows
    counts: Rows


@dataclass(frozen=True)
class _Division:
    """How threads may divide the loops. Per loop: the iterations of all threads in `extents`, and
    the symbol of its number of parts, None if it is indivisible. Other nests share the outermost
    `together` loops.
    """

    extents: tuple[Expr, ...]
    parts: tuple[str | None, ...]
    together: int

    @property
    def shared(self) -> tuple[tuple[Expr, str], ...]:
        """(extent, symbol of the number of parts) of each loop that nests share."""
        pairs = zip(self.extents[: self.together], self.parts, strict=False)
        return tuple((extent, parts) for extent, parts in pairs if parts is not None)

    def values(self, env: Mapping[str, Value], threads: int) -> dict[str, Value]:
        """The number of parts of each divisible loop, by symbol."""
        at_start = {**env, **dict.fromkeys((p for p in self.parts if p), 1)}
        counts = [evaluate(e, at_start) for e in self.extents]
        found = parts_of(counts, [p is not None for p in self.parts], self.together, threads)
        return {p: value for p, value in zip(self.parts, found, strict=True) if p}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A nest ready to be priced. `edges[d]` tells which iterations of loop d may each have a cost
    of their own. The loops `inside` belong to a chain of products that one call computes. With a
    `division` the loops run over the share of one thread. `beside` counts the elements that
    products of other nests touch in one turn of the loops that the nests share.
    """

    program: Program
    loops: tuple[For, ...]
    edges: tuple[Edges, ...]
    items: tuple[ChainItem, ...]
    outline: Outline
    moments: Moments
    inside: tuple[For, ...] = ()
    division: _Division | None = None
    beside: Expr = _NOTHING

    @property
    def kinds(self) -> tuple[int, ...]:
        """Number of kinds of iterations of each loop."""
        return tuple(own.kinds for own in self.edges)

    @cached_property
    def calls(self) -> tuple[PricedCall[Primitive] | None, ...]:
        """The `PricedCall` of each item, without extents; None for transfers."""
        steps = (item.step for item in self.items)
        return tuple(
            priced_call(s.stmt, {}, self.program) if isinstance(s, CallStep) else None
            for s in steps
        )

    def marked(self, program: Program) -> Prepared:
        """This nest for a `program` that differs only in which tensors are shared."""
        items = tuple(replace(i, step=_marked(i.step, program)) for i in self.items)
        steps = zip(self.moments.items, items, strict=True)
        numbers = tuple(replace(own, step=item.step) for own, item in steps)
        moments = replace(self.moments, items=numbers)
        return replace(self, program=program, items=items, moments=moments)

    def engines(self, machine: Machine) -> list[Engine]:
        """The engines that serve the nest's transfers, one per memory."""
        return [machine.transfer_engine(space) for space in self._spaces]

    @cached_property
    def turning(self) -> frozenset[int]:
        """Numbers of the buffers whose slots the program chooses itself: their transfers stay where
        the program has them.
        """
        return frozenset(
            i.buffer
            for i in self.items
            if isinstance(i.step, TransferStep) and free_vars(i.step.stmt.slot)
        )

    @cached_property
    def _spaces(self) -> frozenset[str]:
        """The memories that the nest's transfers fill or drain."""
        moved = {s.buffer for s in walk(self.program.body) if isinstance(s, Transfer)}
        return frozenset(b.space for b in self.program.buffers if b.name in moved)


def _marked(step: CallStep | TransferStep, program: Program) -> CallStep | TransferStep:
    if isinstance(step, CallStep):
        return step
    return replace(step, shared=program.tensor(step.stmt.tensor).shared)


def take_apart(
    program: Program,
    *,
    chains: ChainRules | None = None,
    together: Collection[str] | None = None,
    places: bool = True,
) -> Prepared:
    """Take a nest apart. Raises ProgramError unless its loops form one chain.

    `chains` says which chains of products one call computes (`ir.chains`), None for none. With
    `together`, the names of the loops that nests share, the nest is divided among threads. Without
    `places` the time of a transfer is independent of its address.
    """
    loops, inside, found = _taken_apart(steps_of(program, chains=chains))
    if not places:
        found = [replace(item, step=_anywhere(item.step)) for item in found]
    division = None if together is None else _division(program, loops, together)
    if division is not None:
        loops = [
            replace(f, extent=ceil_div(f.extent, Var(p))) if p else f
            for f, p in zip(loops, division.parts, strict=True)
        ]
    buffers = {b.name: i for i, b in enumerate(program.buffers)}
    conditions = [(item.symbols, item.condition) for item in found]
    edges = [edges_of(f, loops, conditions) for f in loops]
    kinds = [own.kinds for own in edges]
    items = [_completed(item, buffers) for item in _in_program_order(found)]
    outline = _outline(items, loops, kinds)
    costed = [(i.step, i.condition) for i in items]
    moments = moments_of(costed, loops, edges, outline.costs, outline.counts)
    return Prepared(
        program, tuple(loops), tuple(edges), tuple(items), outline, moments, inside, division
    )


def _anywhere(step: CallStep | TransferStep) -> CallStep | TransferStep:
    return step if isinstance(step, CallStep) else step.anywhere()


def _division(program: Program, loops: Sequence[For], together: Collection[str]) -> _Division:
    divisible = {f.var: able for f, able in loop_chain(program.body)}
    shared = next((d for d, f in enumerate(loops) if f.var not in together), len(loops))
    parts = tuple(
        f"{f.var}_parts" if d < shared or divisible[f.var] else None for d, f in enumerate(loops)
    )
    return _Division(tuple(f.extent for f in loops), parts, shared)


def _taken_apart(steps: tuple[Step, ...]) -> tuple[list[For], tuple[For, ...], list[ChainItem]]:
    """The loops of a nest, outermost first; the loops inside a call; the items of every level."""
    loops: list[For] = []
    inside: tuple[For, ...] = ()
    items: list[ChainItem] = []
    here: tuple[Step, ...] | None = steps
    while here is not None:
        level, inner = len(loops), None
        for step in here:
            if isinstance(step, LoopStep):
                if inner is not None:
                    raise ProgramError("an estimate needs one chain of loops, not two side by side")
                inner = step
                loops.append(step.stmt)
                continue
            if isinstance(step, CallStep) and step.loops is not None:
                inside = step.loops
            items += _flat(step, Const(1), level, inner is not None)
        here = inner.body if inner else None
    return loops, inside, items


def _flat(step: Step, condition: Expr, level: int, after: bool) -> Iterator[ChainItem]:
    match step:
        case BranchStep(test, then, orelse):
            for part, holds in ((then, test), (orelse, 1 - test)):
                for inner in part:
                    yield from _flat(inner, condition * holds, level, after)
        case CallStep() | TransferStep():
            yield ChainItem(step, condition, level, after)
        case _:
            return


def _in_program_order(items: Sequence[ChainItem]) -> list[ChainItem]:
    return sorted(items, key=lambda i: (i.level, i.after))


def _completed(item: ChainItem, buffers: Mapping[str, int]) -> ChainItem:
    if isinstance(item.step, CallStep):
        return item
    return replace(item, buffer=buffers[item.step.stmt.buffer])


def _outline(items: Sequence[ChainItem], loops: Sequence[For], kinds: Sequence[int]) -> Outline:
    spans = [[_span(items, d, after) for d in range(len(kinds) + 1)] for after in (False, True)]
    costs = [(item.symbols, item.level) for item in items]
    counts = [(free_vars(f.extent), d) for d, f in enumerate(loops)]
    return Outline(
        np.array(spans[0], np.int64),
        np.array(spans[1], np.int64),
        _rows(costs, loops, kinds),
        _rows(counts, loops, kinds),
    )


def _rows(
    values: Sequence[tuple[frozenset[str], int]], loops: Sequence[For], kinds: Sequence[int]
) -> Rows:
    """Rows of values, each given by its symbols and its level."""
    base, strides, row = [], [], 0
    for symbols, level in values:
        used = _with_extents(symbols, loops)
        own = [d for d in range(level) if loops[d].var in used and kinds[d] > 1]
        steps, step = [0] * max(1, len(kinds)), 1
        for d in reversed(own):
            steps[d] = step
            step *= kinds[d]
        base.append(row)
        strides.append(steps)
        row += step
    table = np.array(strides, np.int64).reshape(len(values), max(1, len(kinds)))
    return Rows(np.array(base, np.int64), table, np.asarray(table.any(axis=1)))


def _with_extents(symbols: frozenset[str], loops: Sequence[For]) -> frozenset[str]:
    """`symbols`, and those of their loops' extents, which decide where the last iteration is."""
    for f in reversed(loops):
        if f.var in symbols:
            symbols |= free_vars(f.extent)
    return symbols


def _span(items: Sequence[ChainItem], level: int, after: bool) -> tuple[int, int]:
    own = [i for i, item in enumerate(items) if (item.level, item.after) == (level, after)]
    return (own[0], own[-1] + 1) if own else (0, 0)
