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
from tilewright.network.products import Ranked, constants_of, one_group
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.ops.op import Shape
from tilewright.seeds.epilogues import Dims, with_epilogue
from tilewright.seeds.space import Seed
from tilewright.seeds.steps import Layout, Step
from tilewright.tune.candidate import Candidate
from tilewright.tune.search import rank

_PATIENCE = 0.9
"""A fused product may take this part of the time of the pass that it saves."""


@dataclass(frozen=True)
class Epilogue:
    """An expression over a product's result and operands; the `whole` ones are stored as it is."""

    expression: str
    operands: tuple[Dims, ...]
    whole: tuple[bool, ...]


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
    whole = tuple(len(read.axes) == len(out) for read in found.reads[1:])
    return Epilogue(str(found.scalar), tuple(operands), whole)


def ranked_epilogues(
    requests: Sequence[Request], ranked: Ranked, machine: Machine, others: Ranked
) -> dict[Request, tuple[Candidate, ...]]:
    """The candidates that pay of each product with its epilogue, best first: of the algorithm of
    the plain product's best candidate, by the schedules that are good for plain products. They pay
    if they are faster than the best of the `others` and a pass over its result.
    """
    distinct = [
        (op, epilogue)
        for op, epilogue in dict.fromkeys(requests)
        if ranked.best(op).cycles <= _limit(op, epilogue, others, machine)
    ]
    alike: dict[tuple[int, Epilogue], list[Op]] = {}
    for op, epilogue in distinct:
        alike.setdefault((id(ranked.best(op).seed), epilogue), []).append(op)
    pairs: list[tuple[Op, Seed]] = []
    asked: list[Request] = []
    for (_, epilogue), ops in alike.items():
        plain = [c for op in ops for c in ranked.candidates[op] if c.seed is ranked.best(op).seed]
        seed = with_epilogue(_narrowed(plain), epilogue.expression, epilogue.operands)
        if seed is not None:
            pairs += [(op, seed) for op in ops]
            asked += [(op, epilogue) for op in ops]
    shared = [constants_of(seed) if ranked.shared else frozenset[str]() for _, seed in pairs]
    rankings = rank(pairs, one_group(machine), shared=shared, keep=2) if pairs else []
    return {
        (op, epilogue): tuple(
            c for c in ranking.best if c.cycles <= _limit(op, epilogue, others, machine)
        )
        for (op, epilogue), ranking in zip(asked, rankings, strict=True)
    }


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
    get = (1 + sum(epilogue.whole)) * size / engine.get.peak_bytes_per_second
    put = size / engine.put.peak_bytes_per_second
    moving = (get + put) * machine.clock_hz / ranked.groups
    return ranked.best(op).cycles + _PATIENCE * (moving + 2 * engine.latency_cycles)
