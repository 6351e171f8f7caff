"""Elementwise operators inside the product that they follow: on its tiles, before they are put.

In: fused nodes that begin with a product, and the ranked plain candidates of that. Out: candidates
that compute all of it, for `network.build` to take where that pays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.common.dtypes import dtype
from tilewright.graph.graph import Node
from tilewright.machine import Machine
from tilewright.network.expressed import expressed
from tilewright.network.pieces import Beside, Pieces, Share
from tilewright.network.products import Ranked, constants_of, one_group
from tilewright.network.together import shares_in
from tilewright.network.waits import next_cycles
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.ops.op import Shape
from tilewright.seeds.epilogues import Dims, operand_name, with_epilogue
from tilewright.seeds.space import Seed
from tilewright.seeds.steps import Layout, Step
from tilewright.tune.candidate import Candidate
from tilewright.tune.search import Ranking, rank

_PATIENCE = 0.9
"""A fused product may take this part of the time of the pass that it saves."""


@dataclass(frozen=True)
class Epilogue:
    """An expression over a product's result and operands `beside` it, whose dimensions its seeds
    name.
    """

    expression: str
    operands: tuple[Dims, ...]
    beside: tuple[Beside, ...]


Request = tuple[Op, Epilogue]


def epilogue_of(nodes: Sequence[Node], shapes: Mapping[str, Shape]) -> Epilogue | None:
    """What follows the first node, None where it reads what lies otherwise than the result."""
    op, found = nodes[0].op, expressed(nodes)
    out = op.out_shape
    operands: list[Dims] = []
    for read in found.reads[1:]:
        along = _dims(op, read.axes)
        if along is None or shapes[read.tensors[0]] != tuple(out[axis] for axis in read.axes):
            return None
        operands.append(along)
    beside = tuple((read.axes, len(read.axes) == len(out)) for read in found.reads[1:])
    return Epilogue(str(found.scalar), tuple(operands), beside)


class Rankings:
    """Rankings of products with epilogues, each found once for all drafts of a network."""

    def __init__(self) -> None:
        self._seeds: dict[tuple[int, Epilogue, tuple[object, ...]], Seed | None] = {}
        self._found: dict[tuple[int, Op, frozenset[str]], Ranking] = {}

    def seed(self, plain: Sequence[Candidate], epilogue: Epilogue) -> Seed | None:
        """The seed that these candidates share, with the choices that one of them takes and the
        epilogue; None where it cannot have that.
        """
        narrowed = _narrowed(plain)
        key = id(plain[0].seed), epilogue, tuple(space.choices for space in narrowed.spaces)
        if key not in self._seeds:
            found = with_epilogue(narrowed, epilogue.expression, epilogue.operands)
            self._seeds[key] = found
        return self._seeds[key]

    def of(
        self,
        pairs: Sequence[tuple[Op, Seed]],
        shared: Sequence[frozenset[str]],
        machine: Machine,
    ) -> list[Ranking]:
        """The rankings of pairs, whose seeds are of this object, on one group of a machine."""
        keys = [(id(seed), op, names) for (op, seed), names in zip(pairs, shared, strict=True)]
        new = {key: i for i, key in enumerate(keys) if key not in self._found}
        if new:
            asked = [pairs[i] for i in new.values()]
            names = [shared[i] for i in new.values()]
            rankings = rank(asked, one_group(machine), shared=names, keep=2)
            self._found.update(zip(new, rankings, strict=True))
        return [self._found[key] for key in keys]


def ranked_epilogues(
    requests: Sequence[Request], ranked: Ranked, machine: Machine, known: Rankings
) -> dict[Request, tuple[Candidate, ...]]:
    """The candidates that pay of each product with its epilogue, best first: of the algorithm and
    the pieces of the plain product's best candidate, by the schedules that are good for plain
    products. They pay if they are faster than that and a pass over its result. What is `known` is
    not ranked again.
    """
    alike: dict[tuple[int, Epilogue], list[Request]] = {}
    for request in dict.fromkeys(requests):
        best, epilogue = ranked.best(request[0]), request[1]
        if not isinstance(best, Share) or _takes(best.pieces, epilogue):
            alike.setdefault((id(best.seed), epilogue), []).append(request)
    pairs: list[tuple[Op, Seed]] = []
    asked: list[Request] = []
    for (_, epilogue), own in alike.items():
        plain = [c for op, _ in own for c in _of_the_best(ranked, op)]
        seed = known.seed(plain, epilogue)
        if seed is not None:
            pairs += [(ranked.best(op).op, seed) for op, _ in own]
            asked += own
    both = zip(asked, pairs, strict=True)
    shared = [_shared(ranked, request, seed) for request, (_, seed) in both]
    found: dict[Request, tuple[Candidate, ...]] = {}
    rankings = known.of(pairs, shared, machine)
    for (op, epilogue), ranking in zip(asked, rankings, strict=True):
        limit, best = _limit(op, epilogue, ranked, machine), ranked.best(op)
        paying = tuple(c for c in ranking.best if c.cycles <= limit)
        pieces = best.pieces if isinstance(best, Share) else None
        found[op, epilogue] = shares_in(pieces, paying) if pieces else paying
    return found


def _takes(pieces: Pieces, epilogue: Epilogue) -> bool:
    """Whether each piece's part of every operand is a part of its memory."""
    return all(whole or pieces.step_along(axes) is not None for axes, whole in epilogue.beside)


def _shared(ranked: Ranked, request: Request, seed: Seed) -> frozenset[str]:
    """The operands that all groups read together."""
    best, epilogue = ranked.best(request[0]), request[1]
    if not isinstance(best, Share):
        return constants_of(seed) if ranked.shared else frozenset()
    pieces, beside = best.pieces, enumerate(epilogue.beside)
    alike = (i for i, (axes, whole) in beside if not whole and pieces.step_along(axes) == 0)
    return pieces.shared(seed) | {operand_name(i) for i in alike}


def _of_the_best(ranked: Ranked, op: Op) -> list[Candidate]:
    """The candidates by the algorithm of the best one, and in its pieces."""
    best = ranked.best(op)
    return [c for c in ranked.candidates[op] if c.seed is best.seed and c.op == best.op]


def _narrowed(candidates: Sequence[Candidate]) -> Seed:
    """Their common seed with the choices that one of them takes."""
    seed = candidates[0].seed
    spaces = tuple(
        replace(
            space,
            choices=(
                tuple(dict.fromkeys(_unlaid(c.nests[i].structure.steps) for c in candidates)),
            ),
        )
        for i, space in enumerate(seed.spaces)
    )
    return replace(seed, spaces=spaces)


def _unlaid(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(step for step in steps if not isinstance(step, Layout))


def _dims(op: Op, axes: tuple[int, ...]) -> Dims | None:
    """The dimensions of a product's result, as its seeds name them, that lie along axes."""
    match op:
        case Conv2d():
            named: tuple[Dims, ...] = (("batch",), ("group", "channels"), ("rows",), ("cols",))
        case Gemm():
            named = (("rows",), ("cols",))
        case _:
            return None
    return tuple(dim for axis in axes for dim in named[axis])


def _limit(op: Op, epilogue: Epilogue, ranked: Ranked, machine: Machine) -> float:
    """Cycles up to which a product with its epilogue pays: it saves a pass over the result at the
    engine's best, latencies too.
    """
    size = prod(op.out_shape) * dtype(op.out_dtype).size_bytes
    engine = machine.dma
    get = (1 + sum(whole for _, whole in epilogue.beside)) * size / engine.get.peak_bytes_per_second
    put = size / engine.put.peak_bytes_per_second
    moving = (get + put) * machine.clock_hz / ranked.groups
    between = next_cycles(machine.groups, meets=ranked.groups > 1)
    pass_cycles = moving + 2 * engine.latency_cycles + between
    return ranked.best(op).cycles + _PATIENCE * pass_cycles
