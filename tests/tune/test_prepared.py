"""Structures from the cache are those that are made, with the same prices to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest
from msgspec import structs

from tilewright.common.cache import store
from tilewright.machine import Machine
from tilewright.machine.load import find_machine, list_machines, load_machine
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.passes.lowering import lowering_of
from tilewright.schedule import structures
from tilewright.seeds.space import Seed, seeds_for
from tilewright.tune import prepared
from tilewright.tune.fit import shortage
from tilewright.tune.legal import structures_on
from tilewright.tune.prepared import prepared_of, ready_structures
from tilewright.tune.search import rank

MACHINE = load_machine("sw26010_cg")
CONV = Conv2d(batch=2, in_channels=8, out_channels=16, height=8, width=8, kernel=(3, 3))
CASES: list[tuple[Op, Seed]] = [
    *((CONV, seed) for seed in seeds_for(CONV)),
    *((Gemm(64, 32, 16), seed) for seed in seeds_for(Gemm(64, 32, 16))),
]


@pytest.fixture(autouse=True)
def process(monkeypatch) -> Callable[[], None]:
    """Another version of tilewright, whose entries nobody has made; called, another process."""
    version = uuid4().hex

    def begin() -> None:
        monkeypatch.setattr(prepared, "own_sources", lambda: version)
        monkeypatch.setattr(prepared, "_KNOWN", {})
        monkeypatch.setattr(prepared, "_PREPARED", {})
        structures._structures.cache_clear()
        structures._structure.cache_clear()

    begin()
    return begin


def refused(*_: object) -> None:
    pytest.fail("a structure is made again")


def ranked() -> list[object]:
    return [
        (r.counts, [(n.schedule, n.cycles, n.compute_cycles, n.bound_cycles, n.structure.staged)
                    for c in r.best for n in c.nests])
        for r in rank(CASES, MACHINE)
    ]  # fmt: skip


def test_rankings_are_the_same_without_lowering_anything(process, monkeypatch) -> None:
    first = ranked()
    process()
    monkeypatch.setattr(prepared, "structures_on", refused)
    monkeypatch.setattr(prepared, "take_apart", refused)
    monkeypatch.setattr(structures, "lower", refused)
    assert ranked() == first


def short(machine: Machine) -> list[str]:
    found = [shortage(op, seed, machine) for op, seed in CASES]
    return [str(own and own.error) for own in found]


def test_misfits_are_found_without_lowering_anything(process, monkeypatch) -> None:
    tight = load_machine("sw26010_cg", {"memory.spm.capacity_bytes": 4700})
    first = [short(MACHINE), short(tight)]
    assert first[0] == ["None"] * len(CASES)
    assert "None" not in first[1]
    process()
    monkeypatch.setattr(prepared, "structures_on", refused)
    monkeypatch.setattr(structures, "lower", refused)
    assert [short(MACHINE), short(tight)] == first


def ready(op: Op, seed: Seed, machine: Machine = MACHINE) -> list[str]:
    """All of a dozen structures or more, as they are kept."""
    found = [s for space in seed.spaces for s in ready_structures(machine, seed, space, op.dtype)]
    some = found[:: max(1, len(found) // 12)]
    return [repr((s.steps, s.staged, s.aligned, prepared_of(s, seed, machine))) for s in some]


@pytest.mark.parametrize(("op", "seed"), CASES, ids=[seed.name for _, seed in CASES])
def test_structures_from_the_cache_are_those_that_are_made(op, seed, process) -> None:
    made = ready(op, seed)
    process()
    assert ready(op, seed) == made


def test_machines_that_differ_in_numbers_alone_share_them(process, monkeypatch) -> None:
    op, seed = CASES[0]
    made = ready(op, seed)
    process()
    monkeypatch.setattr(prepared, "structures_on", refused)
    assert ready(op, seed, structs.replace(MACHINE, clock_hz=2 * MACHINE.clock_hz)) == made


def test_other_rules_have_their_own(process, monkeypatch) -> None:
    op, seed = CASES[-1]
    asked = []

    def made(*given):
        asked.append(given)
        return structures_on(*given)

    monkeypatch.setattr(prepared, "structures_on", made)
    ready(op, seed)
    rules = lowering_of(MACHINE)
    assert rules.chains is not None
    without = replace(rules, chains=None)
    monkeypatch.setattr(prepared, "lowering_of", lambda machine: without)
    ready(op, seed)
    assert len(asked) == 2 * len(seed.spaces)


def test_an_installation_may_bring_them(process, monkeypatch, tmp_path) -> None:
    op, seed = CASES[-1]
    made = ready(op, seed)
    for key in prepared._KNOWN:
        content = prepared._KEPT.recall(key)
        assert content is not None
        (tmp_path / "structures").mkdir(exist_ok=True)
        (tmp_path / "structures" / key).write_bytes(content)
        prepared._KEPT.forget(key)
    process()
    monkeypatch.setattr(store, "INSTALLED", tmp_path)
    monkeypatch.setattr(prepared, "structures_on", refused)
    assert ready(op, seed) == made


@pytest.mark.parametrize("name", sorted({*list_machines()} - {"bwdsp-56"}))  # no nests of its own
def test_the_passes_of_a_family_are_told_by_name(name: str) -> None:
    staging = lowering_of(find_machine(name)).staging
    assert "<" not in staging.__qualname__
