"""Where groups that compute a network together wait for each other."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tilewright.machine.model import Groups
from tilewright.network.build import _Builder
from tilewright.network.plan import Scheduled
from tilewright.network.planning.memory import Draft, Heading
from tilewright.network.waits import MOST_SPARED, StageUse, cycles_before, meetings, steps

GROUPS = Groups(4, launch_cycles=100, barrier_cycles=10, meet_cycles=20)


def test_a_stage_waits_for_what_it_reads():
    uses = [StageUse((0,), 1, 4), StageUse((1,), 2, 4), StageUse((2,), 3, 4)]
    assert meetings(uses) == (False, True, True)
    assert cycles_before(uses, GROUPS) == (
        {"launch": 100},
        {"barrier": 10, "meeting": 20},
        {"barrier": 10, "meeting": 20},
    )


def test_stages_that_need_nothing_of_each_other_do_not_wait():
    border, branch = StageUse((), 1, 4), StageUse((0,), 2, 4)
    uses = [StageUse((0,), 1, 4), border, branch, StageUse((1, 2), 3, 4)]
    assert meetings(uses) == (False, False, False, True)
    assert steps(uses) == (0, 0, 0, 1), "what they use lies in different memory"


def test_what_is_still_read_is_not_overwritten():
    assert meetings([StageUse((0,), 1, 4), StageUse((2,), 0, 4)]) == (False, True)


def test_the_first_group_alone_waits_for_no_other():
    uses = [
        StageUse((0,), 1),
        StageUse((1,), 2),
        StageUse((2,), 3, 4),
        StageUse((3,), 4),
        StageUse((4,), 5),
    ]
    assert meetings(uses) == (False, False, True, True, False)


def test_groups_with_images_of_their_own_never_wait():
    uses = [StageUse((0,), 1), StageUse((1,), 2), StageUse((), 2), StageUse((2,), 3)]
    assert not any(meetings(uses))
    assert steps(uses) == (0, 1, 2, 3)
    assert cycles_before(uses, Groups(4)) == ({}, {}, {}, {})


def test_a_stage_that_the_first_group_computes_alone_spares_two_meetings_at_most():
    random, spared = np.random.default_rng(7), set[int]()
    for _ in range(2000):
        uses = [
            StageUse(tuple(random.integers(0, 4, random.integers(0, 3)).tolist()), int(w), int(g))
            for w, g in zip(random.integers(0, 4, 9), random.choice([1, 4], 9), strict=True)
        ]
        number = int(random.integers(len(uses)))
        alone = [*uses]
        alone[number] = replace(uses[number], groups=1)
        spared.add(sum(meetings(uses)) - sum(meetings(alone)))
    assert max(spared) == MOST_SPARED


@pytest.mark.parametrize("saved", [39, 40, 41])
def test_a_stage_is_left_to_one_group_where_the_others_save_less_than_they_wait(saved: int) -> None:
    """It spares the meeting before it and the one behind it, of 20 cycles each."""
    divided, alone = {"b": Scheduled(100.0)}, {"b": Scheduled(100.0 + saved)}
    groups = {id(divided["b"]): 4, id(alone["b"]): 1}
    drafts = [Draft(Heading(name, "product"), name, (), Scheduled(9.0)) for name in "ac"]
    drafts.insert(1, Draft(Heading("b", "product"), "b", ()))

    def use(draft: Draft, scheduled: Scheduled) -> StageUse:
        number = drafts_by_name.index(draft.name)
        return StageUse((number,), number + 1, groups.get(id(scheduled), 1))

    drafts_by_name = [draft.name for draft in drafts]
    builder = SimpleNamespace(
        memory=SimpleNamespace(drafts=drafts),
        uses=lambda schedules: [use(d, d.scheduled or schedules[d.op]) for d in drafts],
        _use=use,
    )
    _Builder.leave_whole(builder, divided, alone, SimpleNamespace(groups=GROUPS))
    assert drafts[1].scheduled == (alone["b"] if saved < 40 else None)
