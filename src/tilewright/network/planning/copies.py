"""Elimination of copies: the stages around a copy write and read where it would.

In: draft stages. Out: drafts without the copies, and the value that replaces each one dropped.
Products write where a following copy puts their results (`planning.placed`), read where a preceding
copy reads, or read inside the border that another copy of the tensor has. A map and the copy of its
result may count the same places along different axes; they fuse into one map over common factors of
those axes. Prices decide, of the stages with and without the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.machine import Machine
from tilewright.network.plan import Scheduled, Schedules
from tilewright.network.planning.access import counted_places, normalised, steps_in_memory
from tilewright.network.planning.memory import Draft, PlannedMemory
from tilewright.network.planning.pieces import Share
from tilewright.network.planning.placed import (
    PlaceMap,
    in_places,
    is_plain_copy,
    places_read,
    places_within,
    places_written,
)
from tilewright.network.planning.shares import least_cycles_alone
from tilewright.network.waits import moving_cycles
from tilewright.ops import Op
from tilewright.ops.access import Access, Term
from tilewright.ops.mapping import InMemory
from tilewright.tune.candidate import Candidate

if TYPE_CHECKING:
    from tilewright.network.planning.planner import Planner


Terms = tuple[Term, ...]
Pair = tuple[Draft, Draft, InMemory]
"""A map, the copy of its result, and the map that does the work of both."""


def without_copies(
    memory: PlannedMemory, planner: Planner, cycles: Callable[[Draft], float]
) -> Iterator[Mapping[int, int]]:
    """Drop copies one at a time where the products around them get no slower than with the copy.
    `cycles` prices a copy. Each yielded mapping, from a value dropped to the one that replaces it,
    has to be merged at once.
    """
    yield planner.results_placed(memory, cycles)
    for name in [d.name for d in memory.drafts if _is_copy(memory, d)]:
        copy = next((d for d in memory.drafts if d.name == name), None)
        if copy is None:
            continue
        written = copy.arguments[-1][1]
        for value, there in _views(memory, copy):
            if _read_in(memory, planner, copy, value, there, cycles(copy)):
                yield {written: value}
                break


def copying_cycles(memory: PlannedMemory, machine: Machine, groups: int, copy: Draft) -> float:
    """Lower bound on the cycles of a copy by `groups` groups."""
    size = memory.values[copy.arguments[-1][1]].size_bytes
    return moving_cycles(machine, size, size, groups)


def _is_copy(memory: PlannedMemory, draft: Draft) -> bool:
    """True for a copy of one value into memory of its own."""
    alone = draft.work == "layout" and len(draft.arguments) == 2
    return alone and memory.values[draft.arguments[-1][1]].role == "scratch"


def _views(memory: PlannedMemory, copy: Draft) -> Iterator[tuple[int, PlaceMap]]:
    """Values that contain what a copy writes, and where: the value it reads, and other copies of
    that value inside a wider border.
    """
    (_, source), (_, written) = copy.arguments
    values, op = memory.values, copy.in_memory
    if op is None or not is_plain_copy(op):
        return
    own = places_read(op)
    if own is not None and values[source].role != "state":
        yield source, own
    for other in memory.drafts:
        if not _is_copy(memory, other) or other.arguments[0][1] != source:
            continue
        value = other.arguments[-1][1]
        there = places_within(values[written].form, values[value].form)
        alike = values[value].filled == values[written].filled and value != written
        if alike and there is not None and _agree(op, other.in_memory, there):
            yield value, there


def _agree(first: InMemory, second: InMemory | None, there: PlaceMap) -> bool:
    """True if `second` puts each element at the place `there` gives for where `first` puts it."""
    if second is None or not is_plain_copy(second):
        return False
    common = _common(*(counted_places(op.operands[0], op.extents) for op in (first, second)))
    if common is None:
        return False
    count = len(common.extents)
    own, start = steps_in_memory(_along(first.result, common.first), count)
    other, begin = steps_in_memory(_along(second.result, common.second), count)
    steps = [there.step_along(s, n) for s, n in zip(own, common.extents, strict=True)]
    return there.place(start) == begin and steps == other


def _read_in(
    memory: PlannedMemory,
    planner: Planner,
    copy: Draft,
    value: int,
    there: PlaceMap,
    copied: float,
) -> bool:
    """Let every reader of the copy's result read `value` instead, written no later than the copy.
    False, changing nothing, if some reader cannot, or if readers slow down by the `copied` cycles.
    """
    written, drafts = copy.arguments[-1][1], memory.drafts
    readers = [n for n, d in enumerate(drafts) if written in (v for _, v in d.arguments[:-1])]
    found = [_reading(drafts[n], written, there, planner) for n in readers]
    inside = [draft for draft in found if draft is not None]
    added = sum(_cycles(new) - _cycles(drafts[n]) for n, new in zip(readers, inside, strict=False))
    if not inside or len(inside) < len(found) or added >= copied:
        return False
    for number, draft in zip(readers, inside, strict=True):
        drafts[number] = draft
    first = drafts.index(copy)
    late = [d for d in drafts[first:] if d.arguments[-1][1] == value]
    kept = [d for d in drafts[first:] if d.arguments[-1][1] not in (written, value)]
    drafts[first:] = [*late, *kept]
    return True


def _cycles(draft: Draft) -> float:
    assert draft.scheduled is not None
    return draft.scheduled.cycles


def _reading(reader: Draft, value: int, there: PlaceMap, planner: Planner) -> Draft | None:
    """A product that reads `value` where its elements lie in another one; None if there is none."""
    operands = [n for n, (_, v) in enumerate(reader.arguments[:-1]) if v == value]
    if reader.work != "product" or reader.scheduled is None or len(operands) != 1:
        return None
    (number,) = operands
    name = reader.arguments[number][0]
    found = at_other_places(
        reader.scheduled, number, there, lambda c: planner.reading(c, name, there)
    )
    return replace(reader, scheduled=found) if found else None


def results_placed(
    memory: PlannedMemory, machine: Machine, cycles: Callable[[Draft], float]
) -> dict[int, int]:
    """Let products write where a copy puts their result, if nothing else reads it and that is
    faster than product and copy (`cycles`); returns the replacement of each value dropped.
    """
    found: dict[int, int] = {}
    for copy in list(memory.drafts):
        maker = copied_alone(memory, copy)
        if maker is None or maker.scheduled is None:
            continue
        made = _placing(maker, copy, machine)
        if made and made.cycles < maker.scheduled.cycles + cycles(copy):
            replaced(memory, maker, copy, replace(maker, scheduled=made))
            found[copy.arguments[0][1]] = copy.arguments[-1][1]
    return found


def copied_alone(memory: PlannedMemory, copy: Draft) -> Draft | None:
    """The stage that writes what a copy alone reads; None where there is none."""
    if copy.work != "layout" or len(copy.arguments) != 2:
        return None
    value = copy.arguments[0][1]
    using = [d for d in memory.drafts if value in (v for _, v in d.arguments)]
    alone = len(using) == 2 and memory.values[value].role == "scratch"
    return using[0] if alone and using[0].arguments[-1][1] == value else None


def replaced(memory: PlannedMemory, maker: Draft, copy: Draft, both: Draft) -> None:
    """Replace a stage and the copy of its result by `both`: at the stage's position, or at the
    copy's where the border around its result is filled in between.
    """
    drafts, to = memory.drafts, copy.arguments[-1][1]
    first, last = drafts.index(maker), drafts.index(copy)
    filled = any(d.arguments == ((d.arguments[-1][0], to),) for d in drafts[first:last])
    arguments = (*maker.arguments[:-1], (maker.arguments[-1][0], to))
    drafts[last if filled else first] = replace(both, arguments=arguments)
    del drafts[first if filled else last]


def _placing(maker: Draft, copy: Draft, machine: Machine) -> Scheduled | None:
    """The schedule of a product that writes where a copy of its result puts it, or None."""
    if maker.work != "product" or copy.in_memory is None:
        return None
    there, number = places_written(copy.in_memory), len(maker.arguments) - 1
    if there is None or maker.scheduled is None:
        return None
    if type(maker.scheduled.candidate) not in (Candidate, Share):
        return None
    name = maker.arguments[number][0]
    return at_other_places(
        maker.scheduled, number, there, lambda c: in_places(c, name, there, machine)
    )


def at_other_places(
    scheduled: Scheduled,
    number: int,
    there: PlaceMap,
    place: Callable[[Candidate], Candidate | None],
) -> Scheduled | None:
    """A product's schedule with tensor `number` in other places; None where its candidate cannot be
    moved there, or the groups' shares do not start at even distances there.
    """
    candidate, division = scheduled.candidate, scheduled.division
    if division is not None and division.steps[number]:
        step = there.step_along(division.steps[number], division.groups)
        if step is None or (isinstance(candidate, Share) and candidate.pieces.partial):
            return None
        steps = (*division.steps[:number], step, *division.steps[number + 1 :])
        division = replace(division, steps=steps)
    found = place(candidate) if candidate else None
    if found is None or candidate is None:
        return None
    return Scheduled(scheduled.cycles + found.cycles - candidate.cycles, found, division)


@dataclass(frozen=True)
class _Common:
    """Axes that refine those of two accesses to the same places: their extents, and the terms of
    each axis of the first and of the second access over them.
    """

    extents: tuple[int, ...]
    first: Mapping[int, Terms]
    second: Mapping[int, Terms]


def composed(first: InMemory, copy: InMemory) -> InMemory | None:
    """The map whose result a copy moves, writing each element where the copy puts it; None where
    their axes have no common refinement.

    >>> from tilewright.ops.access import straight
    >>> twice = InMemory((6,), straight((6,)), (straight((6,)),), "2 * x0")
    >>> turned = InMemory((3, 2), straight((3, 2)), (straight((2, 3), (1, 0)),))
    >>> found = composed(twice, turned)
    >>> found.extents, found.operands[0].terms, found.body
    ((3, 2), (((1, 1),), ((0, 1),)), '2 * x0')
    """
    if first.gather is not None or first.has_look_ups or not is_plain_copy(copy):
        return None
    common = _common(
        counted_places(first.result, first.extents), counted_places(copy.operands[0], copy.extents)
    )
    if common is None:
        return None
    found = replace(
        first,
        extents=common.extents,
        result=_along(copy.result, common.second),
        operands=tuple(_along(x, common.first) for x in first.operands),
    )
    return normalised(found)


def _common(
    first: Sequence[tuple[int, int, int]] | None, second: Sequence[tuple[int, int, int]] | None
) -> _Common | None:
    """Axes that refine both; None where their numbers of steps do not divide each other."""
    if first is None or second is None:
        return None
    extents, of_first, of_second = list[int](), dict[int, Terms](), dict[int, Terms]()
    sides = (iter(first), of_first), (iter(second), of_second)
    left, steps, axes = [1, 1], [1, 1], [-1, -1]
    while True:
        for side, (loops, _) in enumerate(sides):
            if left[side] == 1 and (loop := next(loops, None)) is not None:
                (_, left[side], axes[side]), steps[side] = loop, 1
        shared = min(left)
        if shared == 1:
            return _Common(tuple(extents), of_first, of_second) if left == [1, 1] else None
        if max(left) % shared:
            return None
        for side, (_, terms) in enumerate(sides):
            own = terms.get(axes[side], ())
            terms[axes[side]] = (*own, (len(extents), steps[side]))
            left[side], steps[side] = left[side] // shared, steps[side] * shared
        extents.append(shared)


def _along(access: Access, terms: Mapping[int, Terms]) -> Access:
    """The access over refined axes, by the `terms` of its own; axes of one step have none."""
    moved = (
        tuple((own, step * places) for axis, places in place for own, step in terms.get(axis, ()))
        for place in access.terms
    )
    return replace(access, terms=tuple(moved))


def pairs_of(memory: PlannedMemory) -> Iterator[Pair]:
    """Every map whose result is only copied, with that copy and the fused map."""
    for copy in memory.drafts:
        maker = copied_alone(memory, copy)
        if maker is None or maker.scheduled is not None or copy.scheduled is not None:
            continue
        if maker.in_memory is not None and copy.in_memory is not None:
            found = composed(maker.in_memory, copy.in_memory)
            if found is not None:
                yield maker, copy, found


def least_stage_cycles(
    memory: PlannedMemory, known: Schedules, machine: Machine, groups: int
) -> float:
    """Lower bound on the cycles of all drafts; `groups` groups share those that are not `known`.
    Such a draft moves its elements once, and a copy after a map is part of the map.
    """

    def least(op: Op) -> float:
        return least_cycles_alone(op.in_memory, machine) / groups if op.in_memory else 0.0

    found = dict[str, float]()
    for draft in memory.drafts:
        scheduled = draft.scheduled or known.get(draft.op)
        found[draft.name] = scheduled.cycles if scheduled else least(draft.op)
    for maker, copy, op in pairs_of(memory):
        found |= {maker.name: min(found[maker.name], least(op)), copy.name: 0.0}
    return sum(found.values())


def compose(memory: PlannedMemory, known: Schedules) -> dict[int, int]:
    """Fuse the first pair whose schedules are all `known` and whose fused map is no slower; returns
    the value that replaces the one dropped.
    """
    for maker, copy, op in pairs_of(memory):
        if op in known and known[op].cycles <= known[maker.op].cycles + known[copy.op].cycles:
            own = maker.heading
            heading = replace(own, label=own.label if own.flops else op.describe())
            replaced(memory, maker, copy, replace(maker, heading=heading, op=op))
            return {maker.arguments[-1][1]: copy.arguments[-1][1]}
    return {}
