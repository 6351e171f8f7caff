"""Refills of the instruction cache, where routines evict each other, in the price of candidates.

In: candidates with their estimates, which assume every routine resident in the instruction cache.
Out: the candidates with the cycles that refills add, best first. Transfers may hide a refill, so
simulation tells what it adds. Candidates that call routines alike are expected to lose as much; of
these, only those that may be the best are simulated. The estimate ignores refills, so where they
slow the best candidate, a second search looks for candidates that seldom change routines.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import compress
from math import inf
from typing import Protocol, TypeVar

import numpy as np

from tilewright.common.cache import CacheStore
from tilewright.cost.prices import prices_of
from tilewright.cost.steps import first_core
from tilewright.ir.nodes import Program
from tilewright.ir.primitives import MatrixProduct
from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.simulate.kernel.level import KernelRun, KernelTime, simulate, without_and_with
from tilewright.tune.candidate import Candidate, NestChoice
from tilewright.tune.kept import kept_rankings
from tilewright.tune.prepared import keeps, prepared_of

_KEPT, _RUNS = CacheStore("refills"), CacheStore("runs")
_WORTH = 0.01
"""Refills' share of the best candidate's time beyond which steadier ones are searched for."""


class _Priced(Protocol):
    @property
    def cycles(self) -> float: ...


_Kind = TypeVar("_Kind", bound=_Priced)


def best_first(
    every: Iterable[_Kind], expected: Callable[[_Kind], _Kind], refilled: Callable[[_Kind], _Kind]
) -> tuple[_Kind, ...]:
    """All items by their cycles with refills: those that may be the best are `refilled`, exactly;
    an item `expected` to take longer than the least so far keeps its expected price.
    """
    least, found = inf, list[_Kind]()
    for one in sorted(every, key=lambda own: own.cycles):
        own = expected(one)
        if own.cycles < least:
            own = refilled(one)
            least = min(least, own.cycles)
        found.append(own)
    return tuple(sorted(found, key=lambda own: own.cycles))


def steadied(
    every: Sequence[Sequence[_Kind]],
    machine: Machine,
    candidate_of: Callable[[_Kind], Candidate],
    made: Callable[[_Kind, Candidate], _Kind],
) -> list[tuple[_Kind, ...]]:
    """`best_first` of each operator's items. Where refills exceed `_WORTH` of the best item's time,
    `made` turns its `_steadier` candidates into further items, until the best item is one for which
    that was done.
    """

    refills = Refills(machine)

    def expected(one: _Kind) -> _Kind:
        return made(one, refills.expected(candidate_of(one)))

    def refilled(one: _Kind) -> _Kind:
        return made(one, refills.added(candidate_of(one)))

    found = [best_first(own, expected, refilled) for own in every]
    searched = set[tuple[object, ...]]()
    while True:
        asked: dict[tuple[object, ...], tuple[int, _Kind]] = {}
        for i, own in enumerate(found):
            best = candidate_of(own[0]) if own else None
            if best is not None and best.refill_cycles > _WORTH * best.cycles:
                asked[i, best.op, id(best.seed), best.shared, best.refill_cycles] = i, own[0]
        new = [asked[way] for way in asked if way not in searched]  # each once, so that this ends
        if not new:
            return found
        searched.update(asked)
        steadier = _steadier([candidate_of(one) for _, one in new], machine)
        for (i, one), more in zip(new, steadier, strict=True):
            found[i] = best_first((*found[i], *(made(one, c) for c in more)), expected, refilled)


def _steadier(slow: Sequence[Candidate], machine: Machine) -> list[tuple[Candidate, ...]]:
    """For each candidate, the best ones of its algorithm that change routines so seldom that even
    fetching the whole cache at each change takes no longer than the candidate's refills.
    """
    rankings = kept_rankings(
        [(one.op, one.seed) for one in slow],
        machine,
        shared=[frozenset(one.shared) for one in slow],
        keep=1,
        changes=[int(one.refill_cycles // _fetch_cycles(machine)) for one in slow],
    )
    return [ranking.best for ranking in rankings]


def _fetch_cycles(machine: Machine) -> int:
    """Cycles of filling a core's instruction cache."""
    name = machine.core.instruction_table
    cache = load_table(name).instruction_cache if name else None
    return cache.sets * cache.ways * cache.miss_cycles if cache else 0


def with_refills(candidate: Candidate, machine: Machine) -> Candidate:
    """The candidate with the cycles that refills add to a launch that follows another of the same
    program; 0 where its routines fit the cache together. Cached on machines of tilewright's own.
    """
    if not _evicts(machine):
        return candidate
    find = partial(_refill_cycles, candidate, machine)
    found = _KEPT.value(candidate.key(machine), int, find) if keeps(machine) else find()
    if found == candidate.refill_cycles:
        return candidate
    return replace(candidate, refill_cycles=found)


def lacks_refills(candidate: Candidate, machine: Machine) -> bool:
    """True if `with_refills` would simulate the candidate and cache the result."""
    unknown = _evicts(machine) and keeps(machine)
    return unknown and _KEPT.recall(candidate.key(machine)) is None


def _evicts(machine: Machine) -> bool:
    """True if the machine's routines may evict each other."""
    return _fetch_cycles(machine) > 0


def _refill_cycles(candidate: Candidate, machine: Machine) -> int:
    runs = _without_and_with(candidate.program(machine), machine)
    if runs is None:
        return 0
    warm, refilled = runs
    return _kept_run(candidate, machine, lambda: refilled).cycles - warm.cycles


# Candidates that differ only in the position of one-iteration loops share a program.
@lru_cache(maxsize=1 << 10)
def _without_and_with(program: Program, machine: Machine) -> tuple[KernelRun, KernelRun] | None:
    lines = prices_of(machine).code(program, machine)
    return None if lines is None else without_and_with(lines, program, machine)


def simulated(candidate: Candidate, machine: Machine) -> KernelTime:
    """Simulated time of a candidate on one core group; cached on machines of tilewright's own."""
    return _kept_run(candidate, machine, lambda: simulate(candidate.program(machine), machine))


def _kept_run(candidate: Candidate, machine: Machine, run: Callable[[], KernelTime]) -> KernelTime:
    return _RUNS.value(candidate.key(machine), KernelTime, run) if keeps(machine) else run()


class Refills:
    """Cycles that refills add to candidates on one machine; each is simulated once."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._evicts = machine, _evicts(machine)
        self._known: dict[int, tuple[Candidate, Candidate]] = {}
        self._alike: dict[Hashable, dict[float, float]] = {}

    def added(self, candidate: Candidate, plain: Candidate | None = None) -> Candidate:
        """`with_refills` of the candidate, once per object. For a candidate inside a border,
        `plain` is the one without it, which keys the refills that others expect.
        """
        found = self._known.get(id(candidate))
        if found is None:
            found = candidate, with_refills(candidate, self._machine)
            self._known[id(candidate)] = found
            if self._evicts:
                like = plain or candidate
                changed = self._alike.setdefault(_computing(like), {})
                changed.setdefault(_changes(like, self._machine), found[1].refill_cycles)
        return found[1]

    def expected(self, candidate: Candidate) -> Candidate:
        """The candidate with the refills of the first one simulated of its algorithm whose products
        take as long and change extents as often, such as one of other layouts. Unchanged if there
        is none or if its price includes refills.
        """
        changed = self._alike.get(_computing(candidate), {}) if self._alike else {}
        if candidate.refill_cycles or not any(changed.values()):
            return candidate
        cycles = changed.get(_changes(candidate, self._machine), 0.0)
        return replace(candidate, refill_cycles=cycles) if cycles else candidate


def _computing(candidate: Candidate) -> Hashable:
    """Key of a candidate's operator, algorithm and the cycles of its products."""
    return candidate.op, id(candidate.seed), *(n.compute_cycles for n in _products(candidate))


def _products(candidate: Candidate) -> Sequence[NestChoice]:
    """Nests of matrix products; all nests if there are none."""
    spaces = (n.structure.space.nest.primitive for n in candidate.nests)
    found = compress(candidate.nests, (isinstance(own, MatrixProduct) for own in spaces))
    return [*found] or candidate.nests


@lru_cache(maxsize=1 << 12)
def _changes(candidate: Candidate, machine: Machine) -> float:
    """Upper bound on how often a candidate's products change their extents, and so routines."""
    env, found = {**candidate.values, **first_core(machine)}, 0.0
    for nest in _products(candidate):
        moments = prepared_of(nest.structure, candidate.seed, machine).moments
        found += float(np.max(moments.product_changes({**env, **nest.factors})))
    return found
