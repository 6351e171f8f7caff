"""Operands of core groups, arranged by the groups' own cores.

In: whole arrays in C order and the forms of the groups' tensors. Out: for each group the stages
that write its tensor, with zeros around its elements, or that store its result. These are ordinary
programs, so they are priced, simulated and emitted like any other. A region that already lies as
its form says needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat

from tilewright.machine import Machine
from tilewright.network.groups import CutTensor, GroupWork
from tilewright.network.plan import Scheduled
from tilewright.network.planning.access import access_of, blocked_loops
from tilewright.network.planning.form import Form, row_major
from tilewright.network.planning.memory import Draft, Heading, PlannedMemory
from tilewright.network.planning.products import ranked_stages
from tilewright.ops import Op
from tilewright.ops.box import Box
from tilewright.ops.mapping import InMemory

WHOLE, PART = 0, 1
"""Value numbers in the stages: the whole array from the region's start, and the tensor."""


def arranged_by_cores(works: Sequence[GroupWork], machine: Machine) -> list[GroupWork]:
    """`works` with the stages that move each group's tensors, the fastest by the model; all are
    searched for together.

    Raises ScheduleError or CapacityError where a tensor can be moved in no way.
    """
    every = [_drafts_of(work) for work in works]
    groups = (group for drafts in every for cut in drafts for group in cut)
    schedules = ranked_stages({d.op: d.name for group in groups for d in group}, machine)
    return [_staged(work, drafts, schedules) for work, drafts in zip(works, every, strict=True)]


def _drafts_of(work: GroupWork) -> list[list[list[Draft]]]:
    """For each operand and the result, the draft stages by which each group moves it."""
    cuts = (*work.operands, work.result)
    return [
        [_drafts(cut, group, given=cut is not work.result) for group in _movers(cut)]
        for cut in cuts
    ]


def _staged(
    work: GroupWork, drafts: list[list[list[Draft]]], schedules: Mapping[Op, Scheduled]
) -> GroupWork:
    def staged(cut: CutTensor, own: list[list[Draft]]) -> CutTensor:
        stages = (tuple(d.stage(schedules[d.op]) for d in group) for group in own)
        return replace(cut, stages=tuple(stages))

    cuts = (*work.operands, work.result)
    *operands, result = (staged(cut, own) for cut, own in zip(cuts, drafts, strict=True))
    return replace(work, operands=tuple(operands), result=result)


def _movers(cut: CutTensor) -> range:
    """The groups that arrange a tensor: all, or the first for a shared one."""
    return range(1 if cut.shared else len(cut.forms))


def _drafts(cut: CutTensor, group: int, *, given: bool) -> list[Draft]:
    added = cut.shared and not given  # partial results: an array longer than the result
    if not added and all(map(_lies_so, cut.forms, cut.regions, repeat(cut.shape))):
        return []
    form, region = cut.forms[group], cut.regions[group]
    memory = PlannedMemory(cut.dtype)
    whole, part = memory.value("whole", row_major(cut.shape)), memory.value("part", form)
    source, target = (whole, part) if given else (part, whole)
    extents, index = blocked_loops(region.shape, [form])
    to, of = (access_of(place.form, index, extents) for place in (target, source))
    mapping = InMemory(extents, to, (of,), "x0", dtype=cut.dtype)
    memory.mapped(Heading(cut.name, "layout"), mapping, target, (source,))
    if given:
        memory.fill(cut.name, target)
    return memory.drafts


def _lies_so(form: Form, region: Box, shape: tuple[int, ...]) -> bool:
    """True if the region of a C array is the tensor itself: contiguous, without a border.

    >>> _lies_so(row_major((1, 2, 5)), Box((0, 1, 0), (1, 3, 5)), (4, 7, 5))
    True
    >>> _lies_so(row_major((2, 2, 5)), Box((0, 1, 0), (2, 3, 5)), (4, 7, 5))
    False
    """
    extents = region.shape
    outer = next((axis for axis, n in enumerate(extents) if n > 1), len(extents))
    return form == row_major(extents) and extents[outer + 1 :] == tuple(shape[outer + 1 :])
