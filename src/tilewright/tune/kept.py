"""Rankings kept in the cache, so that later processes need not search again.

In: as for `search.rank`. Out: the same rankings, bit for bit. A cache entry holds the rankings of
one operator as numbers: for each nest of a candidate, the index of its combination of steps, its
factors and its cycles. The key digests everything that determines them: the operator, the seeds,
the machine, the number kept and the sources of tilewright. So an entry that is damaged or of
another version is never used. A user's own seeds and machine families have no digest: their spaces
are searched each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypedDict

import msgspec
from msgspec import Struct

from tilewright.common.cache import CacheStore
from tilewright.common.digest import digest, own_sources
from tilewright.common.progress import Steps, uncounted
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.schedule.structures import combinations
from tilewright.seeds.space import Seed, Space, parameters
from tilewright.tune.candidate import Candidate, NestChoice
from tilewright.tune.executors import call_beside, process_count
from tilewright.tune.legal import rules_of, structure_on
from tilewright.tune.prepared import keeps
from tilewright.tune.search import Counts, Ranking, rank, sharing, told_apart

_KEPT = CacheStore("rankings")
_MOST = 64
"""Most candidates of a seed worth caching: a request for more is for the whole space, once."""

Case = tuple[Seed, frozenset[str], int | None]
"""A seed, the tensors that all groups read together, and the limit on `product_changes`."""
Cases = dict[tuple[int, frozenset[str], int | None], Case]
"""Distinct cases of an operator, keyed with the seed's identity in place of the seed."""


class _Nest(Struct, frozen=True, array_like=True):
    combination: int
    factors: dict[str, int]
    cycles: float
    compute_cycles: float
    bound_cycles: float


class _Whole(Struct, frozen=True, array_like=True):
    nests: list[_Nest]
    blocks: dict[str, int]


class _Ranked(Struct, frozen=True, array_like=True):
    counts: Counts
    best: list[_Whole]
    floors: list[tuple[int, float]]


def kept_rankings(
    cases: Sequence[tuple[Op, Seed]],
    machine: Machine,
    *,
    shared: Sequence[frozenset[str]] = (),
    keep: int = 4,
    changes: Sequence[int | None] = (),
    beside: bool = False,
    steps: Steps = uncounted,
) -> list[Ranking]:
    """`search.rank`, with rankings from the cache where it has them. With `beside`, missing ones
    are searched for in several processes (`executors.call_beside`).
    """
    together = told_apart(shared or [frozenset()] * len(cases), machine)
    if keep > _MOST or not keeps(machine):
        return rank(cases, machine, shared=together, keep=keep, changes=changes, steps=steps)
    limits = [*zip(together, changes or [None] * len(cases), strict=True)]
    asked: dict[Op, Cases] = {}
    for (op, seed), own_limits in zip(cases, limits, strict=True):
        asked.setdefault(op, {})[id(seed), *own_limits] = seed, *own_limits
    keys = _keys(asked, machine, keep)
    found = {op: _recalled(op, [*own.values()], machine, keys[op]) for op, own in asked.items()}
    new = {op: own for op, own in asked.items() if found[op] is None}
    if beside and len(new) > 1 and process_count() > 1:
        _search_beside(new, keys, machine, keep, steps)
        found |= {op: _recalled(op, [*own.values()], machine, keys[op]) for op, own in new.items()}
        new = {op: own for op, own in new.items() if found[op] is None}
    known = sum(map(len, asked.values())) - sum(map(len, new.values()))
    fresh = iter(
        rank(
            machine=machine,
            keep=keep,
            steps=lambda done, total: steps(known + done, known + total),
            **_arguments(new),
        )
    )
    for op, own in new.items():
        found[op] = rankings = [next(fresh) for _ in own]
        _KEPT.remember(
            keys[op], msgspec.json.encode([_stored_ranking(r, machine) for r in rankings])
        )
    by_case = {
        (op, *case): ranking
        for op, own in asked.items()
        for case, ranking in zip(own, found[op] or (), strict=True)
    }
    return [by_case[op, id(seed), *own] for (op, seed), own in zip(cases, limits, strict=True)]


def _parts(new: Mapping[Op, Cases]) -> list[dict[Op, Cases]]:
    """The cases of each seed; operators of one seed share walks over its structures."""
    parts: dict[int, dict[Op, Cases]] = {}
    for op, own in new.items():
        for case, found in own.items():
            parts.setdefault(case[0], {}).setdefault(op, {})[case] = found
    return [*parts.values()]


def _search_beside(
    new: Mapping[Op, Cases], keys: Mapping[Op, str], machine: Machine, keep: int, steps: Steps
) -> None:
    """Search the seeds in several processes, then merge each operator's entries into one."""
    count, parts = sum(map(len, new.values())), _parts(new)
    calls = [partial(kept_rankings, machine=machine, keep=keep, **_arguments(p)) for p in parts]
    call_beside(calls, lambda done, of: steps(count * done // of, count))
    kept: dict[Op, dict[object, msgspec.Raw]] = {op: {} for op in new}
    for part in parts:
        for op, key in _keys(part, machine, keep).items():
            content = _KEPT.recall(key)
            if content is not None:
                every = msgspec.json.decode(content, type=list[msgspec.Raw])
                kept[op] |= zip(part[op], every, strict=True)
                _KEPT.forget(key)
    for op, own in new.items():
        if own.keys() == kept[op].keys():
            _KEPT.remember(keys[op], msgspec.json.encode([kept[op][case] for case in own]))


class _Arguments(TypedDict):
    cases: list[tuple[Op, Seed]]
    shared: list[frozenset[str]]
    changes: list[int | None]


def _arguments(asked: Mapping[Op, Cases]) -> _Arguments:
    """The cases as arguments of `search.rank`."""
    every = [(op, *case) for op, own in asked.items() for case in own.values()]
    return {
        "cases": [(op, seed) for op, seed, _, _ in every],
        "shared": [names for _, _, names, _ in every],
        "changes": [most for *_, most in every],
    }


def _keys(asked: Mapping[Op, Cases], machine: Machine, keep: int) -> dict[Op, str]:
    """Each operator's cache key, over all its cases; `repr` of an operator is complete."""
    seeds = {id(seed): seed for own in asked.values() for seed, *_ in own.values()}
    texts = {number: _text(seed) for number, seed in seeds.items()}
    decides = (machine.content_hash(), str(keep), own_sources())
    return {
        op: digest(
            repr(op), *decides, *(text for case in own.values() for text in _of(op, case, texts))
        )
        for op, own in asked.items()
    }


def _of(op: Op, case: Case, texts: Mapping[int, str]) -> tuple[str, ...]:
    seed, shared, changes = case
    blocks = repr(list(seed.blocks(parameters(op))))
    return texts[id(seed)], blocks, " ".join(sorted(shared)), str(changes)


def _text(seed: Seed) -> str:
    """Digest of a seed without its functions, which the sources of tilewright cover."""
    fields = (seed.tensors, seed.spaces, seed.layouts, seed.operands, seed.result, seed.together)
    return digest(seed.name, repr(fields))


def _stored_ranking(ranking: Ranking, machine: Machine) -> _Ranked:
    return _Ranked(
        ranking.counts,
        [
            _Whole([_nest(c.seed, *pair, machine) for pair in _by_space(c)], dict(c.blocks))
            for c in ranking.best
        ],
        _numbered(ranking, machine),
    )


def _numbered(ranking: Ranking, machine: Machine) -> list[tuple[int, float]]:
    """The floors by index of combination; both have the same order, so one pass finds all."""
    seed = ranking.seed
    every = enumerate(combinations(seed, seed.spaces[0], rules_of(machine)))
    return [
        (next(number for number, steps in every if steps == own), cycles)
        for own, cycles in ranking.floors
    ]


def _by_space(candidate: Candidate) -> Iterator[tuple[Space, NestChoice]]:
    return zip(candidate.seed.spaces, candidate.nests, strict=True)


def _nest(seed: Seed, space: Space, nest: NestChoice, machine: Machine) -> _Nest:
    every = combinations(seed, space, rules_of(machine))
    number = every.index(nest.structure.steps)
    return _Nest(number, dict(nest.factors), nest.cycles, nest.compute_cycles, nest.bound_cycles)


def _recalled(op: Op, cases: Sequence[Case], machine: Machine, key: str) -> list[Ranking] | None:
    """Cached rankings of an operator, one per case; None if absent or damaged."""
    content = _KEPT.recall(key)
    if content is None:
        return None
    try:
        kept = msgspec.json.decode(content, type=list[_Ranked])
        return [_ranking(op, *pair, machine) for pair in zip(cases, kept, strict=True)]
    except (msgspec.MsgspecError, ValueError, IndexError):
        _KEPT.forget(key)
        return None


def _ranking(op: Op, case: Case, kept: _Ranked, machine: Machine) -> Ranking:
    seed, shared, _ = case
    best = (_candidate(op, seed, whole, shared, machine) for whole in kept.best)
    every = combinations(seed, seed.spaces[0], rules_of(machine)) if kept.floors else ()
    floors = tuple((every[number], cycles) for number, cycles in kept.floors)
    return Ranking(seed, tuple(best), kept.counts, floors)


def _candidate(
    op: Op, seed: Seed, whole: _Whole, shared: frozenset[str], machine: Machine
) -> Candidate:
    nests = []
    for space, nest in zip(seed.spaces, whole.nests, strict=True):
        steps = combinations(seed, space, rules_of(machine))[nest.combination]
        structure = sharing(structure_on(machine, space, steps, op.dtype), shared)
        cycles = (nest.cycles, nest.compute_cycles, nest.bound_cycles)
        nests.append(NestChoice(structure, nest.factors, *cycles))
    return Candidate(op, seed, tuple(nests), whole.blocks)
