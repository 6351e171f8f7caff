"""Rank every candidate of every algorithm by the model (swATOP 4.6).

In: operators and a machine. Out: per operator and algorithm the ranking: its best candidates, how
many were priced, how many fit. The nests of a seed are ranked one by one under each joint layout of
the tensors they share, so the best whole is the sum of the best parts: an exhaustive optimum
without the product of the nests' spaces. Small spaces are priced together, as one array, and those
of operators that share structures (the layers of a network) in one walk.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from operator import add, le
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.common.errors import ScheduleError
from tilewright.common.expr import Values
from tilewright.common.progress import Steps, uncounted
from tilewright.cost.chain import Prepared
from tilewright.cost.estimate import Estimate, PricedNest, estimates
from tilewright.cost.prices import prices_of
from tilewright.cost.steps import first_core
from tilewright.ir.nodes import Program
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.schedule.factors import (
    Columns,
    FactorGrid,
    TileColumns,
    blocks_of,
    copies_of,
    factor_grids,
)
from tilewright.schedule.structures import Structure
from tilewright.seeds.space import Seed, Space, parameters, seeds_for, takes_whole_depth
from tilewright.seeds.steps import Layout, Schedule, Step
from tilewright.tune.candidate import Candidate, NestChoice
from tilewright.tune.fit import main_memory_bytes, mesh_values
from tilewright.tune.prepared import prepared_of, ready_structures

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
_TOGETHER = 1 << 17
"""Tiles of several structures that are priced together; more gain no time and take memory."""
_Limited = tuple[Op, int | None]
"""An operator and the most changes of its candidates."""
_OUTER = ("input", "output")
"""Kinds of tensors that other operators share."""


Floors = tuple[tuple[tuple[Step, ...], float], ...]
"""Structures by their steps, in the order of their space, with the least cycles of candidates."""


@dataclass(frozen=True)
class Counts:
    """Candidates of a space: `considered` are all whose tiles fit with one copy of each buffer,
    `fitting` those that fit with their own copies, and `priced` those of them that no candidate
    with more copies, which is never slower, makes superfluous. Of these the overlap of calls and
    transfers was `played` where neither alone, nor what cannot overlap, took longer than the best.
    """

    considered: int = 0
    fitting: int = 0
    priced: int = 0
    played: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best candidates of one algorithm and the best of each layout of its tensors, best first,
    the size of their space, and of an algorithm of one nest the best of each structure.
    """

    seed: Seed
    best: tuple[Candidate, ...]
    counts: Counts
    floors: Floors = ()


@dataclass(frozen=True, eq=False)
class _Priced:
    """`NestChoice`'s three kinds of cycles for one structure's grid and one operator, whose tiles
    begin at `first`: (3, copies, tiles), infinite where a candidate is not wanted, the first also
    where it is not played. `counts` are numbers of candidates, `floor` the least cycles, by their
    bound those of candidates that are not played.
    """

    structure: Structure
    grid: FactorGrid
    first: int
    kinds: Floats
    counts: Counts
    floor: float

    def top(self, count: int) -> list[NestChoice]:
        """The best that were played, of equal ones the first."""
        if not self.counts.played:
            return []
        cycles = self.kinds[0]
        played = np.nonzero(np.isfinite(cycles))
        order = np.argsort(cycles[played], kind="stable")[:count]
        return [
            NestChoice(
                self.structure,
                self.grid.chosen(copies, self.first + tile),
                *self.kinds[:, copies, tile].tolist(),
            )
            for copies, tile in zip(*(own[order].tolist() for own in played), strict=True)
        ]


def rank(
    cases: Sequence[tuple[Op, Seed]],
    machine: Machine,
    *,
    shared: Sequence[frozenset[str]] = (),
    keep: int = 4,
    changes: Sequence[int | None] = (),
    steps: Steps = uncounted,
) -> list[Ranking]:
    """Rank each (operator, seed) pair.

    Pairs that share a seed are priced together, equal ones once. A pair whose every candidate
    overflows the scratchpad, or of whose seed no schedule is legal, has an empty `best`. `shared`
    names, pair by pair, the tensors that every group of cores reads at the same time, `changes` the
    most of `Moments.product_changes` that a candidate may have, None for any.
    `steps` counts the different pairs that are ranked.
    """
    together = told_apart(shared or [frozenset()] * len(cases), machine)
    every_case = [*zip(cases, together, changes or [None] * len(cases), strict=True)]
    groups: dict[tuple[int, str, frozenset[str]], dict[_Limited, Seed]] = {}
    for (op, seed), own_shared, most in every_case:
        groups.setdefault((id(seed), op.dtype, own_shared), {})[op, most] = seed
    found: dict[tuple[int, frozenset[str], _Limited], Ranking] = {}
    total = sum(map(len, groups.values()))
    steps(0, total)
    asked = [
        _question_of([*limited], next(iter(limited.values())), own_shared, machine)
        for (_, _, own_shared), limited in groups.items()
    ]
    every = [
        (structure, own, number)
        for own in asked
        for number, nest in enumerate(own.nests)
        for structure in _firsts(nest).values()
    ]
    priced = _price_all(every, machine, keep)
    for ((number, _, own_shared), limited), own in zip(groups.items(), asked, strict=True):
        nests = [_with_alike(nest, priced) for nest in own.nests]
        rankings = _rankings(own, nests, machine, keep)
        found |= {(number, own_shared, way): r for way, r in zip(limited, rankings, strict=True)}
        steps(len(found), total)
    return [found[id(seed), own_shared, (op, most)] for (op, seed), own_shared, most in every_case]


def _firsts(nest: Sequence[Structure]) -> dict[str | Structure, Structure]:
    """The first of all structures that are alike."""
    found: dict[str | Structure, Structure] = {}
    for structure in nest:
        found.setdefault(structure.alike or structure, structure)
    return found


def _with_alike(nest: Sequence[Structure], priced: Iterator[list[_Priced]]) -> list[list[_Priced]]:
    """The prices of all structures of a nest by those of `_firsts`."""
    known = dict(zip(_firsts(nest), priced, strict=False))
    return [
        [
            own if own.structure is structure else replace(own, structure=structure)
            for own in known[structure.alike or structure]
        ]
        for structure in nest
    ]


def choice_of(
    schedule: Schedule,
    op: Op,
    seed: Seed,
    space: Space,
    machine: Machine,
    *,
    blocks: Mapping[str, int],
    shared: frozenset[str],
) -> NestChoice | None:
    """The choice that `schedule` describes, priced; None if it is outside the nest's space or does
    not fit the machine.
    """
    (told,) = told_apart([shared], machine)
    for structure in ready_structures(machine, seed, space, op.dtype):
        if structure.steps == schedule.steps:
            ((priced,),) = _price([sharing(structure, told)], [_Case(op, blocks)], machine, seed, 0)
            for choice in priced.top(priced.counts.played):
                if choice.factors == dict(schedule.factors):
                    return choice
    return None


def candidates_like(candidate: Candidate, machine: Machine) -> Iterator[tuple[Candidate, Program]]:
    """Every candidate of one nest for a candidate's operator, in any layouts, by its algorithm or
    one that takes the whole depth of products; best first, each with the parametric program that
    its factors are of.
    """
    op, found = candidate.op, list[tuple[Candidate, Program]]()
    for seed in seeds_for(op, whole=True):
        if seed.name != candidate.seed.name and not takes_whole_depth(op.kind, seed.name):
            continue
        asked = _question_of([(op, None)], seed, frozenset(), machine)
        for structure in asked.nests[0] if len(asked.nests) == 1 else ():
            for case in asked.cases:
                ((priced,),) = _price([structure], [case], machine, seed, 0)
                every = priced.top(priced.counts.played)
                own = (Candidate(op, seed, (choice,), case.blocks) for choice in every)
                found += [(each, structure.staged) for each in own]
    yield from sorted(found, key=lambda pair: pair[0].cycles)


def told_apart(shared: Sequence[frozenset[str]], machine: Machine) -> Sequence[frozenset[str]]:
    """`shared`, or empty sets if the machine prices shared reads alike: fewer programs to price."""
    engines = [e for e in machine.engines.values() if "get" in e.directions]
    if all(
        e.shared_block_overhead_transactions == e.get.block_overhead_transactions for e in engines
    ):
        return [frozenset()] * len(shared)
    return shared


class _Case(NamedTuple):
    """An operator with sizes of its blocks; candidates have at most so many `changes`."""

    op: Op
    blocks: Mapping[str, int]
    changes: int | None = None

    @property
    def limited(self) -> _Limited:
        """The operator with its limit."""
        return self.op, self.changes


@dataclass(frozen=True, eq=False)
class _Question:
    """Operators that share a seed, with each size of its blocks, and the legal structures of each
    of its nests; no nests where one has none.
    """

    seed: Seed
    cases: Sequence[_Case]
    nests: Sequence[Sequence[Structure]] = ()


def _question_of(
    ops: Sequence[_Limited], seed: Seed, shared: frozenset[str], machine: Machine
) -> _Question:
    dtype = ops[0][0].dtype
    cases = [
        _Case(op, blocks, changes) for op, changes in ops for blocks in seed.blocks(parameters(op))
    ]
    try:
        nests = [ready_structures(machine, seed, space, dtype) for space in seed.spaces]
    except ScheduleError:  # no schedule is legal on this machine
        return _Question(seed, cases)
    return _Question(seed, cases, [[sharing(s, shared) for s in nest] for nest in nests])


def _rankings(
    asked: _Question, priced: Sequence[Sequence[list[_Priced]]], machine: Machine, keep: int
) -> list[Ranking]:
    """The ranking of each operator by the prices of its nests' structures."""
    seed = asked.seed
    found: dict[_Limited, list[Ranking]] = {case.limited: [] for case in asked.cases}
    for i, case in enumerate(asked.cases if priced else ()):
        own = [[p[i] for p in nest] for nest in priced]
        fits = main_memory_bytes(case.op, seed) <= machine.main.capacity_bytes
        found[case.limited].append(_ranking(case.op, seed, case.blocks, own, keep if fits else 0))
    return [_merged(seed, rankings, keep) for rankings in found.values()]


def _merged(seed: Seed, rankings: Sequence[Ranking], keep: int) -> Ranking:
    """The best of all sizes of blocks."""
    best, counts = (
        [c for r in rankings for c in r.best],
        sum((r.counts for r in rankings), Counts()),
    )
    every = zip(*(r.floors for r in rankings), strict=True)
    floors = ((own[0][0], min(cycles for _, cycles in own)) for own in every)
    found = tuple(floor for floor in floors if np.isfinite(floor[1]))
    return Ranking(seed, _best_by_layout(best, keep), counts, found)


def _best_by_layout(candidates: Sequence[Candidate], keep: int) -> tuple[Candidate, ...]:
    """The `keep` best of one seed and the best of each joint layout of inputs and outputs, best
    first; constants are brought into any layout beforehand.
    """
    ordered = sorted(candidates, key=_cycles)
    firsts: dict[frozenset[Layout], Candidate] = {}
    outer = {t.name for t in ordered[0].seed.tensors if t.kind in _OUTER} if ordered else set()
    for candidate in ordered:
        own = frozenset().union(*(n.structure.layouts for n in candidate.nests))
        firsts.setdefault(frozenset(x for x in own if x.tensor in outer), candidate)
    chosen = {id(c) for c in (*ordered[:keep], *firsts.values())} if keep else set[int]()
    return tuple(c for c in ordered if id(c) in chosen)


@cache
def sharing(structure: Structure, shared: frozenset[str]) -> Structure:
    """The structure, with the tensors marked that all groups read together."""
    if shared.isdisjoint(use.tensor.name for use in structure.space.nest.every_use):
        return structure
    marked = partial(_marked, structure, shared)
    changes = (*structure.changes, f"shared {sorted(shared)}")
    return replace(structure, program=marked, unmarked=structure, changes=changes)


def _marked(structure: Structure, shared: frozenset[str]) -> Program:
    program = structure.staged
    tensors = tuple(replace(t, shared=t.name in shared) for t in program.tensors)
    return replace(program, tensors=tensors)


@dataclass(frozen=True, eq=False)
class _Grids:
    """The candidates of one structure for several operators, side by side: those `tiles` that fit
    with one copy of each buffer, the `values` of all parameters, which of their candidates fit with
    their own copies (copies, tiles), and where the tiles of each operator end; `best` as of
    `PricedNest`.
    """

    structure: Structure
    seed: Seed
    tiles: FactorGrid
    values: Columns
    fits: Flags
    ends: list[int]
    best: Floats

    @cached_property
    def wanted(self) -> Flags:
        """The candidates that are priced."""
        columns = [v for v in self.tiles.copies.values() if v.ndim == 2]
        copies = np.concatenate(columns, axis=1) if columns else np.ones((1, 0), np.int64)
        return _undominated(copies, self.fits)


def _price(
    structures: Sequence[Structure],
    cases: Sequence[_Case],
    machine: Machine,
    seed: Seed,
    keep: int,
) -> list[list[_Priced]]:
    """Price the grids of all operators and sizes of blocks, structure by structure; of each the
    `keep` best are wanted (0: all).
    """
    own = _Question(seed, cases)
    return list(_price_all([(structure, own, 0) for structure in structures], machine, keep))


def _price_all(
    asked: Iterable[tuple[Structure, _Question, int]], machine: Machine, keep: int
) -> Iterator[list[_Priced]]:
    """`_price` in few walks. Structures of one nest with the same layouts compete: of all of them
    the best are asked for.
    """
    waiting: list[_Grids] = []
    bests: dict[tuple[int, int, frozenset[Layout]], Floats] = {}
    known = _Known({}, {}, {})
    for structure, own, nest in asked:
        rivals = id(own), nest, structure.layouts
        first = np.full((len(own.cases), keep if keep < _TOGETHER else 0), np.inf)
        best = bests.setdefault(rivals, first)
        waiting.append(_grids(structure, own, machine, best, known))
        if sum(grids.fits.shape[1] for grids in waiting) > _TOGETHER:
            yield from _priced(waiting, machine)
            waiting, known = [], _Known({}, {}, {})
    yield from _priced(waiting, machine)


class _Known(NamedTuple):
    """Tiles by all that decides them, the values of their candidates, and those that fit with
    theirs.
    """

    tiles: dict[Hashable, TileColumns]
    values: dict[Hashable, Values]
    fitting: dict[Hashable, tuple[TileColumns, Columns]]


def _grids(
    structure: Structure, asked: _Question, machine: Machine, best: Floats, known: _Known
) -> _Grids:
    """The candidates of a structure; those of another one that are `known` are the same object."""
    cases = asked.cases
    blocks = blocks_of(machine, cases[0].op.numerics.sums.name)
    copies, packs = copies_of(structure, blocks.overlap)
    tiling = id(asked), id(structure.space.nest), structure.tiling, packs
    if tiling not in known.tiles:
        operators = [{**parameters(case.op), **case.blocks} for case in cases]
        known.tiles[tiling] = factor_grids(structure, operators, blocks)
    grids = known.tiles[tiling]
    if (tiling, id(copies)) not in known.values:
        every = {**grids.values, **copies, **mesh_values(machine)}
        known.values[tiling, id(copies)] = Values(every)
    at = known.values[tiling, id(copies)]
    room = prices_of(machine).has_room(structure.staged, machine, at)
    counts = np.diff(grids.ends, prepend=0)
    fits = np.broadcast_to(room, (grids.grid(copies).copy_count, counts.sum()))
    single = fits[0]  # with one copy of each buffer
    if any(case.changes is not None for case in cases):
        moments = prepared_of(structure, asked.seed, machine).moments
        changes = moments.product_changes({**grids.values, **first_core(machine)})
        most = [np.inf if case.changes is None else case.changes for case in cases]
        single = single & np.less_equal(changes, np.repeat(most, counts))
    key = *tiling, single.tobytes(), id(copies)
    if key not in known.fitting:
        own = grids.only(single)
        known.fitting[key] = own, {**own.values, **copies}
    own, values = known.fitting[key]
    ends = own.ends.tolist()
    return _Grids(structure, asked.seed, own.grid(copies), values, fits[:, single], ends, best)


def _priced(grids: Sequence[_Grids], machine: Machine) -> list[list[_Priced]]:
    """The prices of each operator's candidates, structure by structure."""
    cases = [_case(own, machine) for own in grids if own.fits.shape[1]]
    known = iter(zip(cases, estimates(cases, machine), strict=True))
    found = []
    for own in grids:
        kinds = np.empty((3, *own.fits.shape))
        if own.fits.shape[1]:
            case, estimate = next(known)
            kinds = _kinds(case.prepared, estimate, machine, ahead=own.structure.space.ahead)
        found.append(_parts(own, kinds))
    return found


def _parts(grids: _Grids, kinds: Floats) -> list[_Priced]:
    """The prices of each operator's candidates."""
    played, copies = np.isfinite(kinds[0]), len(grids.fits)
    sums = np.zeros((3, played.shape[1] + 1), np.int64)
    for own, flags in zip(sums, (grids.fits, grids.wanted, played), strict=True):
        flags.sum(axis=0).cumsum(out=own[1:])
    floors = np.where(played, kinds[0], kinds[2]).min(axis=0)
    return [
        _Priced(
            grids.structure,
            grids.tiles,
            first,
            kinds[:, :, first:end],
            Counts(copies * (end - first), *(sums[:, end] - sums[:, first]).tolist()),
            float(floors[first:end].min(initial=np.inf)),
        )
        for first, end in pairwise((0, *grids.ends))
    ]


def _case(grids: _Grids, machine: Machine) -> PricedNest:
    """The priced program of a structure."""
    ahead = grids.structure.space.ahead
    prepared = prepared_of(grids.structure, grids.seed, machine)
    contest = np.repeat(np.arange(len(grids.ends)), np.diff([0, *grids.ends]))
    return PricedNest(prepared, grids.values, grids.wanted, contest, None if ahead else grids.best)


def _kinds(prepared: Prepared, found: Estimate, machine: Machine, *, ahead: bool) -> Floats:
    """The kinds of cycles of `_Priced`; what runs `ahead` of all calls costs nothing."""
    latencies = (engine.latency_cycles for engine in prepared.engines(machine))
    engine = found.dma_cycles + min(latencies, default=0)
    kinds = [found.cycles, found.compute_cycles, np.maximum(found.compute_cycles, engine)]
    every = np.stack(kinds)
    return np.where(np.isfinite(every), 0.0, every) if ahead else every


def _undominated(
    copies: npt.NDArray[np.int64], fits: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """The candidates that fit and of which no variant with more double buffers fits too.

    A second copy of a buffer costs nothing but space: waits move later, never earlier.
    """
    wanted = fits.copy()
    for i, more in enumerate(_with_more(tuple(map(tuple, copies.tolist())))):
        if more:
            wanted[i] &= ~np.logical_or.reduce(fits[more], axis=0)
    return wanted


@cache
def _with_more(copies: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    """The numbers of the other rows that have at least as many copies of every buffer, for each."""
    return [
        [j for j, other in enumerate(copies) if j != i and all(map(le, own, other))]
        for i, own in enumerate(copies)
    ]


def _ranking(
    op: Op, seed: Seed, blocks: Mapping[str, int], nests: list[list[_Priced]], keep: int
) -> Ranking:
    """Join the nests' best choices under each joint layout."""
    counts = sum((p.counts for nest in nests for p in nest), Counts())
    tops = [[(p.structure.layouts, p.top(keep)) for p in nest] for nest in nests] if keep else []
    found: list[Candidate] = []
    for joint in seed.layout_combinations() if keep else ():
        layouts = frozenset(joint)
        parts = [_best_under(layouts, top, keep) for top in tops]
        found += _best_wholes(op, seed, blocks, parts, keep)
    return Ranking(seed, _best_by_layout(found, keep), counts, _floors(*nests))


def _floors(nest: Sequence[_Priced], *others: Sequence[_Priced]) -> Floors:
    if others:
        return ()
    return tuple((p.structure.steps, p.floor) for p in nest)


def _best_under(
    layouts: frozenset[Layout], tops: list[tuple[frozenset[Layout], list[NestChoice]]], keep: int
) -> list[NestChoice]:
    choices = [c for own, top in tops if own <= layouts for c in top]
    return sorted(choices, key=_cycles)[:keep]


def _cycles(choice: Candidate | NestChoice) -> float:
    """Estimate without what rounding adds, so that of equal ones the first is taken."""
    return round(choice.cycles, 6)


def _best_wholes(
    op: Op, seed: Seed, blocks: Mapping[str, int], parts: list[list[NestChoice]], keep: int
) -> list[Candidate]:
    """The best whole, then the wholes that differ from it in one nest."""
    if not all(parts):
        return []
    best = tuple(part[0] for part in parts)
    others = [
        (*best[:i], choice, *best[i + 1 :]) for i, part in enumerate(parts) for choice in part[1:]
    ]
    return [Candidate(op, seed, nests, blocks) for nests in (best, *others)][: keep * len(parts)]
