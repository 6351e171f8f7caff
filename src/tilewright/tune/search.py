"""Rank every candidate of every algorithm by the model (swATOP 4.6).

In: operators and a machine. Out: a ranking per operator and algorithm: its best candidates, how
many were priced, how many fit. The nests of a seed are ranked one by one under each joint layout of
the tensors they share. Their cycles add up, so the best nests make the best candidate: an
exhaustive optimum without the product of the nests' spaces. Small spaces are priced together, as
one array; operators that share structures (the layers of a network) share a walk.
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
"""Tiles after which a batch of structures is priced; more take memory and save no time."""
_Limited = tuple[Op, int | None]
"""An operator and the limit on its candidates' `product_changes`, None for none."""
_OUTER = ("input", "output")
"""Kinds of tensors that other operators share."""


Floors = tuple[tuple[tuple[Step, ...], float], ...]
"""(steps, least cycles of a candidate) of each structure, in the order of the space."""


@dataclass(frozen=True)
class Counts:
    """Numbers of candidates, each among the one before. `considered`: the tiles fit with one copy
    of each buffer. `fitting`: they fit with the candidate's copies. `priced`: no variant with more
    copies fits, which is never slower. `played`, iteration by iteration: its calls, its transfers
    and what cannot overlap each take no longer than the best.
    """

    considered: int = 0
    fitting: int = 0
    priced: int = 0
    played: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Result of the search for one algorithm: the `best` candidates and the best of each layout of
    its tensors, best first; `counts` over their space; for a single nest, the structures' `floors`.
    """

    seed: Seed
    best: tuple[Candidate, ...]
    counts: Counts
    floors: Floors = ()


@dataclass(frozen=True, eq=False)
class _Priced:
    """Prices of one structure's candidates for one operator, whose tiles begin at `first` of
    `grid`. `kinds` (3, copies, tiles) are the three kinds of cycles of `NestChoice`, infinite for
    candidates that are not wanted, the first kind also for those not played. `floor` is the least
    of all candidates' cycles, or of their bounds where they are not played.
    """

    structure: Structure
    grid: FactorGrid
    first: int
    kinds: Floats
    counts: Counts
    floor: float

    def top(self, count: int) -> list[NestChoice]:
        """The `count` best of the played candidates; ties go to the first."""
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

    Pairs that share a seed are priced together, equal ones once. A pair without any legal schedule,
    or whose every candidate overflows the scratchpad, has an empty `best`. Per pair, `shared` names
    the tensors that every group of cores reads at the same time, and `changes` limits a candidate's
    `Moments.product_changes`, None for no limit. `steps` counts the distinct pairs ranked.
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
    """The first structure of each group with equal `alike`; any other stands for itself."""
    found: dict[str | Structure, Structure] = {}
    for structure in nest:
        found.setdefault(structure.alike or structure, structure)
    return found


def _with_alike(nest: Sequence[Structure], priced: Iterator[list[_Priced]]) -> list[list[_Priced]]:
    """Prices of all structures of a nest, each from the first one that is alike."""
    known = dict(zip(_firsts(nest), priced, strict=False))  # `priced` goes on with the next nest
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
    """The priced choice of `schedule`; None if it is outside the nest's space or does not fit."""
    (told,) = told_apart([shared], machine)
    for structure in ready_structures(machine, seed, space, op.dtype):
        if structure.steps == schedule.steps:
            ((priced,),) = _price([sharing(structure, told)], [_Case(op, blocks)], machine, seed, 0)
            for choice in priced.top(priced.counts.played):
                if choice.factors == dict(schedule.factors):
                    return choice
    return None


def candidates_like(candidate: Candidate, machine: Machine) -> Iterator[tuple[Candidate, Program]]:
    """Every candidate of a single nest for the operator of `candidate`, in any layouts, by its
    algorithm or one of whole depth; best first, each with the parametric program that its factors
    bind.
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
    """`shared`; empty sets if shared reads cost the same as others: fewer programs to price."""
    engines = [e for e in machine.engines.values() if "get" in e.directions]
    if all(
        e.shared_block_overhead_transactions == e.get.block_overhead_transactions for e in engines
    ):
        return [frozenset()] * len(shared)
    return shared


class _Case(NamedTuple):
    """An operator with sizes of its blocks; `changes` limits its candidates' `product_changes`."""

    op: Op
    blocks: Mapping[str, int]
    changes: int | None = None

    @property
    def limited(self) -> _Limited:
        """The operator with its limit."""
        return self.op, self.changes


@dataclass(frozen=True, eq=False)
class _Question:
    """Operators that share a seed, each with every size of its blocks, and the legal structures of
    each nest; `nests` is empty if any nest has none.
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
    """The ranking of each operator, from the prices of its nests' structures."""
    seed = asked.seed
    found: dict[_Limited, list[Ranking]] = {case.limited: [] for case in asked.cases}
    for i, case in enumerate(asked.cases if priced else ()):
        own = [[p[i] for p in nest] for nest in priced]
        fits = main_memory_bytes(case.op, seed) <= machine.main.capacity_bytes
        found[case.limited].append(_ranking(case.op, seed, case.blocks, own, keep if fits else 0))
    return [_merged(seed, rankings, keep) for rankings in found.values()]


def _merged(seed: Seed, rankings: Sequence[Ranking], keep: int) -> Ranking:
    """Merge the rankings of one operator, one for each size of its blocks."""
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
    first. Layouts of constants do not count, since constants are packed beforehand.
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
    """The structure with its `shared` tensors marked, which all groups read together."""
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
    """The candidates of one structure for several operators, side by side: the `tiles` that fit
    with one copy of each buffer, the `values` of all parameters, the mask of candidates that `fits`
    with their own copies (copies, tiles), the `ends` of the operators' tiles, and `best` as in
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
        """Mask of the candidates to price (copies, tiles)."""
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
    """Price every case, structure by structure; only the `keep` best of each need exact prices
    (0: all).
    """
    own = _Question(seed, cases)
    return list(_price_all([(structure, own, 0) for structure in structures], machine, keep))


def _price_all(
    asked: Iterable[tuple[Structure, _Question, int]], machine: Machine, keep: int
) -> Iterator[list[_Priced]]:
    """`_price` in batches that share a walk. Structures of one nest with the same layouts compete
    for the `keep` best.
    """
    waiting: list[_Grids] = []
    bests: dict[tuple[int, int, frozenset[Layout]], Floats] = {}
    known = _Known({}, {}, {})
    for structure, own, nest in asked:
        rivals = id(own), nest, structure.layouts
        # Without columns there is no limit, and every candidate matters.
        first = np.full((len(own.cases), keep if keep < _TOGETHER else 0), np.inf)
        best = bests.setdefault(rivals, first)
        waiting.append(_grids(structure, own, machine, best, known))
        if sum(grids.fits.shape[1] for grids in waiting) > _TOGETHER:
            yield from _priced(waiting, machine)
            waiting, known = [], _Known({}, {}, {})
    yield from _priced(waiting, machine)


class _Known(NamedTuple):
    """Columns that structures of a batch share: tiles by everything that determines them, values of
    their candidates, and the tiles that fit with their values.
    """

    tiles: dict[Hashable, TileColumns]
    values: dict[Hashable, Values]
    fitting: dict[Hashable, tuple[TileColumns, Columns]]


def _grids(
    structure: Structure, asked: _Question, machine: Machine, best: Floats, known: _Known
) -> _Grids:
    """The candidates of a structure. Equal columns that are `known` are one object: `estimates`
    shares work between nests whose values are identical.
    """
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
    """Prices of each operator's candidates, structure by structure."""
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
    """Split the prices of one structure's candidates by operator."""
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
    """The nest to price for a structure, each operator's tiles in a contest of their own."""
    ahead = grids.structure.space.ahead
    prepared = prepared_of(grids.structure, grids.seed, machine)
    contest = np.repeat(np.arange(len(grids.ends)), np.diff([0, *grids.ends]))
    return PricedNest(prepared, grids.values, grids.wanted, contest, None if ahead else grids.best)


def _kinds(prepared: Prepared, found: Estimate, machine: Machine, *, ahead: bool) -> Floats:
    """The `kinds` of `_Priced`; a nest that runs `ahead` of all calls costs nothing."""
    latencies = (engine.latency_cycles for engine in prepared.engines(machine))
    engine = found.dma_cycles + min(latencies, default=0)
    kinds = [found.cycles, found.compute_cycles, np.maximum(found.compute_cycles, engine)]
    every = np.stack(kinds)
    return np.where(np.isfinite(every), 0.0, every) if ahead else every


def _undominated(
    copies: npt.NDArray[np.int64], fits: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Mask of the candidates that fit and of which no variant with more double buffers fits.

    A second copy of a buffer costs nothing but space: waits move later, never earlier.
    """
    wanted = fits.copy()
    for i, more in enumerate(_with_more(tuple(map(tuple, copies.tolist())))):
        if more:
            wanted[i] &= ~np.logical_or.reduce(fits[more], axis=0)
    return wanted


@cache
def _with_more(copies: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    """For each row, the indices of other rows with at least as many copies of every buffer."""
    return [
        [j for j, other in enumerate(copies) if j != i and all(map(le, own, other))]
        for i, own in enumerate(copies)
    ]


def _ranking(
    op: Op, seed: Seed, blocks: Mapping[str, int], nests: list[list[_Priced]], keep: int
) -> Ranking:
    """Combine the nests' best choices under each joint layout."""
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
    """Estimate without rounding noise, so that ties go to the first."""
    return round(choice.cycles, 6)


def _best_wholes(
    op: Op, seed: Seed, blocks: Mapping[str, int], parts: list[list[NestChoice]], keep: int
) -> list[Candidate]:
    """The best candidate, then candidates that differ from it in one nest."""
    if not all(parts):
        return []
    best = tuple(part[0] for part in parts)
    others = [
        (*best[:i], choice, *best[i + 1 :]) for i, part in enumerate(parts) for choice in part[1:]
    ]
    return [Candidate(op, seed, nests, blocks) for nests in (best, *others)][: keep * len(parts)]
