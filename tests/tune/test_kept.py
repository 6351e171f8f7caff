"""Rankings from the cache are those of the search, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

import msgspec
import pytest

from tilewright.common.cache import CacheStore
from tilewright.common.cache.entries import entries_below
from tilewright.common.cache.folders import cache_folder
from tilewright.ir.nodes import Program
from tilewright.machine.load import load_machine
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.seeds.space import Seed, seeds_for
from tilewright.tune import executors, kept
from tilewright.tune.candidate import Candidate
from tilewright.tune.kept import kept_rankings
from tilewright.tune.search import Ranking, rank

MACHINE = load_machine("sw26010_cg")
CONV = Conv2d(batch=2, in_channels=8, out_channels=16, height=8, width=8, kernel=(3, 3))
CASES: list[tuple[Op, Seed]] = [
    *((CONV, seed) for seed in seeds_for(CONV) if seed.name in ("explicit", "winograd2")),
    *((op, seed) for op in (Gemm(64, 32, 16), Gemm(8, 64, 32)) for seed in seeds_for(op)),
]


@pytest.fixture(autouse=True)
def version(monkeypatch) -> Callable[[], None]:
    """Another version of tilewright, whose entries nobody has made; again when it is called."""

    def change() -> None:
        found = uuid4().hex
        monkeypatch.setattr(kept, "own_sources", lambda: found)

    change()
    return change


@pytest.fixture
def searched(monkeypatch) -> list[int]:
    """How many pairs each call searches for."""
    counts: list[int] = []

    def counted(cases: Sequence[tuple[Op, Seed]], *given, **named) -> list[Ranking]:
        counts.append(len(cases))
        return rank(cases, *given, **named)

    monkeypatch.setattr(kept, "rank", counted)
    return counts


def said(rankings: Sequence[Ranking]) -> list[object]:
    """All that a ranking says, programs included."""
    return [
        (ranking.seed.name, ranking.counts, ranking.floors, [said_of(c) for c in ranking.best])
        for ranking in rankings
    ]


def said_of(candidate: Candidate) -> list[object]:
    """All that a candidate says."""
    nests = [
        (n.schedule, n.cycles, n.compute_cycles, n.bound_cycles, n.structure.staged)
        for n in candidate.nests
    ]
    return [candidate.op, candidate.blocks, candidate.joint_layouts(), *nests]


@pytest.mark.parametrize("together", [False, True])
def test_kept_rankings_are_those_of_the_search(searched, together):
    machine = load_machine("sw26010")
    shared = [frozenset(seed.operands[1:2] if together else ()) for _, seed in CASES]
    changes = [0 if together and i % 2 else None for i in range(len(CASES))]
    expected = said(rank(CASES, machine, shared=shared, keep=2, changes=changes))
    for _ in range(2):
        found = kept_rankings(CASES, machine, shared=shared, keep=2, changes=changes)
        assert said(found) == expected
    assert searched == [len(CASES), 0]


def test_rankings_found_in_several_processes_are_kept_for_each_operator(
    searched, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # others keep rankings meanwhile
    monkeypatch.setattr(executors, "process_count", lambda: 2)
    monkeypatch.setattr(kept, "process_count", lambda: 2)
    expected = said(rank(CASES, MACHINE, keep=2))
    before = kept_entries()
    assert said(kept_rankings(CASES, MACHINE, keep=2, beside=True)) == expected
    assert kept_entries() - before == len({op for op, _ in CASES})
    assert said(kept_rankings(CASES, MACHINE, keep=2)) == expected
    assert searched[-2:] == [0, 0]  # neither joining nor asking again searches


def kept_entries() -> int:
    every = entries_below(cache_folder())
    return len([entry for entry in every if entry.parent.name == "rankings"])


def test_a_case_that_is_asked_twice(searched):
    twice = [*CASES[-1:], *CASES[-2:]]
    expected = said(rank(twice, MACHINE))
    assert said(kept_rankings(twice, MACHINE)) == expected
    assert said(kept_rankings(twice, MACHINE)) == expected


def test_what_decides_is_part_of_the_key(searched, version):
    (case,) = CASES[-1:]
    slower = load_machine("sw26010_cg", {"dma.latency_cycles": 500})
    for machine, keep in ((MACHINE, 2), (MACHINE, 3), (slower, 2), (MACHINE, 2)):
        kept_rankings([case], machine, keep=keep)
    version()
    kept_rankings([case], MACHINE, keep=2)
    assert searched == [1, 1, 1, 0, 1]


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'[[{"considered":1},[[[[99999,{},1,1,1]],{}]]]]']
)
def test_an_entry_that_says_something_else_is_found_anew(searched, monkeypatch, content):
    made: list[str] = []
    remember = CacheStore.remember
    monkeypatch.setattr(
        CacheStore,
        "remember",
        lambda own, key, found: (made.append(key), remember(own, key, found)),
    )
    expected = said(kept_rankings(CASES[-1:], MACHINE))
    CacheStore("rankings").forget(made[0])
    remember(CacheStore("rankings"), made[0], content)
    assert said(kept_rankings(CASES[-1:], MACHINE)) == expected
    assert searched == [1, 1]
    assert msgspec.json.decode(CacheStore("rankings").recall(made[0]) or b"") != []


def test_progress_counts_what_is_found(searched):
    kept_rankings(CASES[:1], MACHINE)
    told: list[tuple[int, int]] = []
    kept_rankings(
        [CASES[0], *CASES[-2:]], MACHINE, steps=lambda done, total: told.append((done, total))
    )
    assert told[0] == (1, 3)
    assert told[-1] == (3, 3)


def test_all_candidates_are_not_kept(searched):
    for _ in range(2):
        kept_rankings(CASES[-1:], MACHINE, keep=1000)
    assert searched == [1, 1]


def test_a_key_of_candidates_stands_for_one_program():
    """Operators, layouts, factors, blocks, and what all groups read together differ."""
    programs: dict[str, set[Program]] = {}
    machine = load_machine("sw26010")
    for shared in (frozenset[str](), frozenset({"w", "b"})):
        for ranking in rank(CASES, machine, shared=[shared] * len(CASES)):
            for candidate in ranking.best:
                programs.setdefault(candidate.key(machine), set()).add(candidate.program(machine))
    assert len(programs) > len(CASES)
    assert {len(own) for own in programs.values()} == {1}
