"""What groups compute together on a machine: ranked candidates of their shares.

In: operators and a machine. Out: of products the candidates of a piece, of mappings and reductions
the best candidate of a share, as one group runs it while the others run theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

from tilewright.common.expr import evaluate
from tilewright.common.progress import Progress
from tilewright.machine import Machine
from tilewright.network.groups import stored_forms
from tilewright.network.products import by_cycles, one_group
from tilewright.network.search import Search
from tilewright.network.shares import Division, Share, share_of
from tilewright.ops import Conv2d, Op
from tilewright.ops.box import Box
from tilewright.ops.mapping import Mapping, Reduction
from tilewright.partition import Partition
from tilewright.seeds.space import Seed
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import shared_operands
from tilewright.tune.search import rank
from tilewright.tune.ways import ways


def ranked_shares(
    ops: Sequence[Op], machine: Machine, search: Search, *, progress: Progress
) -> dict[Op, tuple[Share, ...]]:
    """The candidates of the pieces of each product, best first, that every group computes one of,
    where the pieces of its tensors lie one after the other.
    """
    distinct, single = list(dict.fromkeys(ops)), one_group(machine)
    restricted = partial(ways, algorithm=search.algorithm, max_error=search.max_error, strict=False)
    triples: list[tuple[Op, Partition, Seed]] = []
    cropped: list[tuple[Op, Partition]] = []
    for op, own in zip(distinct, restricted(distinct, machine), strict=True):
        for part, seed in own:
            if len(part.pieces) > 1 and not part.partial:
                with_rows = _with_all_rows(part)
                if with_rows == part:
                    triples.append((op, part, seed))
                elif (op, with_rows) not in cropped:
                    cropped.append((op, with_rows))
    pieces = [part.piece for _, part in cropped]
    for (op, part), own in zip(cropped, restricted(pieces, single) if pieces else [], strict=True):
        triples += [(op, part, seed) for _, seed in own]
    rankings = rank(
        [(part.piece, seed) for _, part, seed in triples],
        single,
        shared=[shared_operands(part, seed) for _, part, seed in triples],
        keep=search.keep,
        steps=lambda done, total: progress("divide", done, total),
    )
    shares: dict[Op, list[Share]] = {}
    for (op, part, _), ranking in zip(triples, rankings, strict=True):
        for c in ranking.best:
            share = Share(c.op, c.seed, c.nests, c.blocks, partition=part)
            if _lies_in_pieces(c, share):
                shares.setdefault(op, []).append(share)
    return {op: by_cycles(own) for op, own in shares.items()}


def _with_all_rows(part: Partition) -> Partition:
    """Pieces that read all of an image where a stride leaves its last rows or columns out: it lies
    in memory with them.
    """
    op, count = part.op, len(part.pieces)
    if not isinstance(op, Conv2d) or part.kind != "out_channels" or op.out_channels % count:
        return part
    piece, image = replace(op, out_channels=op.out_channels // count), Box.whole(op.input_shapes[0])
    if op.groups > 1 or piece.out_shape != part.piece.out_shape:
        return part
    pieces = tuple(replace(p, op=piece, operands=(image, *p.operands[1:])) for p in part.pieces)
    return replace(part, pieces=pieces)


def _lies_in_pieces(piece: Candidate, share: Share) -> bool:
    """Whether one program serves all pieces, and their tensors are parts of the whole ones."""
    if any(p.op != piece.op for p in share.partition.pieces):  # borders differ
        return False
    extents = {t.name: [e for _, e in t.dims] for t in piece.seed.tensors}
    for name, form in stored_forms(piece).items():
        stored = prod(int(evaluate(e, piece.values)) for e in extents[name])
        if form.elements != stored or share.whole_form(name, form) is None:
            return False
    return True


def ranked_parts(ops: Sequence[Op], machine: Machine) -> dict[Op, tuple[Candidate, Division]]:
    """For each mapping or reduction that groups can compute together the best candidate of a
    share, and where the shares begin.
    """
    distinct = [op for op in dict.fromkeys(ops) if isinstance(op, Mapping | Reduction)]
    parts: dict[Op, tuple[Op, Division]] = {
        op: found for op in distinct if (found := share_of(op, machine.groups.count))
    }
    single = one_group(machine)
    every = ways([part for part, _ in parts.values()], single, strict=False) if parts else []
    pairs, shared, whole = [], [], []
    for (op, (part, division)), own in zip(parts.items(), every, strict=True):
        for _, seed in own:
            pairs.append((part, seed))
            names = zip(seed.operands, division.steps, strict=False)
            shared.append(frozenset(name for name, step in names if not step))
            whole.append(op)
    best: dict[Op, Candidate] = {}
    for op, ranking in zip(whole, rank(pairs, single, shared=shared, keep=1), strict=True):
        for c in ranking.best:
            if op not in best or c.cycles < best[op].cycles:
                best[op] = c
    return {op: (candidate, parts[op][1]) for op, candidate in best.items()}
