"""Shares of work that the groups of a machine compute together, as ranked candidates.

In: operators and a machine. Out: for products the candidates of a piece, for maps and reductions
the best candidate of a share, as one group runs it while the others run theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tilewright.common.errors import ScheduleError
from tilewright.common.expr import evaluate
from tilewright.common.progress import uncounted
from tilewright.machine import Machine
from tilewright.network.plan import Scheduled
from tilewright.network.planning.bordered import reading_parts
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.pieces import Pieces, Share, pieces_of
from tilewright.network.planning.products import (
    Question,
    answered,
    by_cycles,
    one_group,
    ranked_stages,
)
from tilewright.network.planning.shares import (
    ELEMENTS,
    StageDivision,
    least_cycles_alone,
    share_of,
)
from tilewright.network.plans import Search
from tilewright.network.waits import MOST_SPARED, next_cycles
from tilewright.ops import Op
from tilewright.partition import Partition
from tilewright.seeds.space import Seed
from tilewright.tune.candidate import Candidate
from tilewright.tune.search import Ranking
from tilewright.tune.ways import divided_sums, ways


def asked_shares(
    ops: Sequence[Op], machine: Machine, search: Search
) -> tuple[list[Pieces], Question]:
    """Every way to compute the pieces of each product: each pair's pieces, and the question."""
    single = one_group(machine)
    asked = [
        (pieces, seed)
        for op in dict.fromkeys(ops)
        for pieces in pieces_of(op, machine.groups.count, _sums_of(op, machine))
        for seed in _seeds(pieces, single, search)
    ]
    pairs = [(pieces.piece, seed) for pieces, seed in asked]
    shared = [pieces.shared(seed) for pieces, seed in asked]
    return [pieces for pieces, _ in asked], Question(pairs, shared)


def shares_of(
    pieces: Sequence[Pieces], rankings: Sequence[Ranking], machine: Machine
) -> dict[Op, tuple[Share, ...]]:
    """The candidates of each product's pieces, best first, of which every group computes one; only
    pieces that lie at even distances in the whole tensors.
    """
    added = ranked_parts([own.adding for own in pieces if own.partial], machine)
    shares: dict[Op, list[Share]] = {}
    for own, ranking in zip(pieces, rankings, strict=True):
        found = shares_in(own, ranking.best)
        if own.partial:
            found = _with_sums(found, added.get(own.adding), machine)
        shares.setdefault(own.whole, []).extend(found)
    return {op: by_cycles(own) for op, own in shares.items()}


def _sums_of(op: Op, machine: Machine) -> list[Partition]:
    """The ways to divide a matrix product's sums; none for vectors, divided along themselves."""
    product = op.matrix_product
    return [] if product is None or 1 in (product.m, product.n) else divided_sums(op, machine)


def _with_sums(
    shares: Sequence[Share], adding: Scheduled | None, machine: Machine
) -> tuple[Share, ...]:
    """Shares with partial results that read their terms from the whole operands, the cycles of
    adding up included; none where the groups cannot add together.
    """
    if adding is None:
        return ()
    cycles = adding.cycles + next_cycles(machine.groups, meets=True)
    found = []
    for share in shares:
        pieces, dims = share.pieces, {t.name: {d for d, _ in t.dims} for t in share.seed.tensors}
        behind = {
            name: dict.fromkeys(dims[name] - dims[share.seed.result], (0, places))
            for name, spacing in zip(share.seed.operands, pieces.spacings, strict=False)
            if spacing and (places := (pieces.count - 1) * spacing.step)
        }
        own = reading_parts(share, behind, one_group(machine))
        if own is not None:
            found.append(replace(own, adding_cycles=cycles))
    return tuple(found)


def shares_in(pieces: Pieces, candidates: Sequence[Candidate]) -> tuple[Share, ...]:
    """Shares from candidates of a piece whose tensors are parts of the whole ones."""
    forms = Forms()
    found = (Share(c.op, c.seed, c.nests, c.blocks, pieces=pieces) for c in candidates)
    pairs = zip(candidates, found, strict=True)
    return tuple(share for c, share in pairs if _lies(c, share, forms))


def _seeds(pieces: Pieces, single: Machine, search: Search) -> list[Seed]:
    """The seeds of a piece that the search permits; all if it permits none of the operator's."""
    restricted = partial(
        ways, machine=single, algorithm=search.algorithm, max_error=search.max_error
    )
    try:
        (found,) = restricted([pieces.piece])
    except ScheduleError:
        try:
            restricted([pieces.whole])
        except ScheduleError:
            (found,) = ways([pieces.piece], single)
        else:
            found = []
    return [seed for _, seed in found]


def _lies(piece: Candidate, share: Share, forms: Forms) -> bool:
    """True if the piece's tensors lie as parts of the whole ones."""
    extents, values = {t.name: [e for _, e in t.dims] for t in piece.seed.tensors}, piece.values
    for name, form in forms.of(piece).items():
        stored = prod(int(evaluate(e, values)) for e in extents[name])
        if form.elements != stored or share.whole_form(name, form) is None:
            return False
    return True


@dataclass(frozen=True)
class StageShares:
    """Shares of maps and reductions. `whole` is the whole operator of each pair of the `question`;
    `divisions` gives, by whole operator, where its shares start.
    """

    whole: Sequence[Op]
    divisions: Mapping[Op, StageDivision]
    question: Question


def asked_parts(ops: Iterable[Op], machine: Machine) -> StageShares:
    """Every way to compute a share of each map or reduction that groups can divide."""
    distinct = [found for op in dict.fromkeys(ops) if (found := op.in_memory) is not None]
    parts: dict[Op, tuple[Op, StageDivision]] = {
        op: own_share for op in distinct if (own_share := share_of(op, machine.groups.count))
    }
    every = (
        ways([part for part, _ in parts.values()], one_group(machine), strict=False)
        if parts
        else []
    )
    pairs, shared, whole = [], [], []
    for (op, (part, division)), own in zip(parts.items(), every, strict=True):
        for _, seed in own:
            pairs.append((part, seed))
            names = zip(seed.operands, division.steps, strict=False)
            shared.append(frozenset(name for name, step in names if not step))
            whole.append(op)
    divisions = {op: division for op, (_, division) in parts.items()}
    return StageShares(whole, divisions, Question(pairs, shared))


def best_parts(asked: StageShares, rankings: Sequence[Ranking]) -> dict[Op, Scheduled]:
    """For each map or reduction asked for, the best share and where the shares start."""
    best: dict[Op, Candidate] = {}
    for op, ranking in zip(asked.whole, rankings, strict=True):
        for c in ranking.best:
            if op not in best or c.cycles < best[op].cycles:
                best[op] = c
    return {op: Scheduled(c.cycles, c, asked.divisions[op]) for op, c in best.items()}


def may_stay_whole(op: Op, part: Scheduled | None, machine: Machine) -> bool:
    """True if one group that computes a whole map or reduction may beat all groups computing a
    `part` each, meetings included.
    """
    own = op.in_memory
    if part is None or own is None:
        return True
    spared = MOST_SPARED * machine.groups.meet_cycles
    return least_cycles_alone(own, machine) <= part.cycles + spared


def ranked_parts(ops: Sequence[Op], machine: Machine) -> dict[Op, Scheduled]:
    """`best_parts` of maps and reductions, asked alone."""
    asked = asked_parts(ops, machine)
    (rankings,) = answered([asked.question], machine, 1, uncounted)
    return best_parts(asked, rankings)


def parts_of_all(ops: Sequence[Op], machine: Machine) -> dict[Op, Scheduled]:
    """Schedules of maps or reductions that write values all groups see: of a share each, or of the
    whole on the first group where there are no shares.
    """
    found = ranked_parts(ops, machine)
    for op, own in ranked_stages({op: op.kind for op in ops if op not in found}, machine).items():
        division = StageDivision(ELEMENTS, 1, (0,) * (len(op.input_shapes) + 1))
        found[op] = replace(own, division=division)
    return found
