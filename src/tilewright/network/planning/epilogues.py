"""Elementwise operators inside the product that they follow: applied to its tiles before they are
put. Windows between them are pooled there, too.

In: fused nodes that begin with a product, and its ranked plain candidates. Out: candidates that
compute all of it, for `network.build` to take where that pays. Elementwise nodes become one
expression over the elements of their first operand (the first node's result, or its operand where
it is elementwise itself) and of further operands. A normalisation's parameters become two numbers
per channel, computed once ahead of all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.common.dtypes import dtype
from tilewright.graph.graph import Node
from tilewright.graph.rewrites.fusion import is_elementwise
from tilewright.ir.nodes import Program
from tilewright.ir.scalar import Element, Scalar, parse_scalar, renumbered
from tilewright.machine import Machine
from tilewright.network.planning.bordered import Bordered
from tilewright.network.planning.form import Form
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.pieces import Beside, Pieces, Share
from tilewright.network.planning.products import Ranked, by_cycles, constants_of, one_group
from tilewright.network.planning.together import shares_in
from tilewright.network.waits import moving_cycles, next_cycles
from tilewright.ops import Op
from tilewright.ops.definitions import pointwise
from tilewright.ops.op import Shape
from tilewright.passes.base import Observer
from tilewright.seeds.pooling import PoolWindows, windows_of, with_pooling
from tilewright.seeds.space import Dims, Seed, operand_name, with_epilogue
from tilewright.seeds.steps import Layout, Step
from tilewright.tune.candidate import Candidate
from tilewright.tune.kept import kept_rankings
from tilewright.tune.search import Ranking


@dataclass(frozen=True)
class Read:
    """An operand of an expression: a tensor by name, or a constant `made` of tensors by an
    expression over their elements, in double precision. Its dimensions lie along `axes` of the
    result.
    """

    tensors: tuple[str, ...]
    axes: tuple[int, ...]
    made: str | None = None


@dataclass(frozen=True)
class Expressed:
    """An expression; operand 0 is the first node's result if that node is not elementwise."""

    scalar: Scalar
    reads: tuple[Read, ...]


def expressed(nodes: Sequence[Node]) -> Expressed:
    """One expression for all nodes after the first, and for the first if it is elementwise."""
    first, *rest = nodes
    found = Expressed(Element(0), (Read((first.output,), tuple(range(len(first.op.out_shape)))),))
    if is_elementwise(first.op):
        found = _expression(first)
    scalar, reads = found.scalar, list(found.reads)
    made = {first.output: scalar}
    for node in rest:
        found = _expression(node)
        numbers: list[Scalar] = []
        for read in found.reads:
            inside = made.get(read.tensors[0]) if read.made is None else None
            if inside is None and read not in reads:
                reads.append(read)
            numbers.append(Element(reads.index(read)) if inside is None else inside)
        made[node.output] = scalar = renumbered(found.scalar, numbers)
    return Expressed(scalar, tuple(reads))


def _expression(node: Node) -> Expressed:
    """The expression of one elementwise node."""
    every = tuple(range(len(node.op.out_shape)))
    if (norm := node.op.normalisation) is not None:
        x, scale, bias, mean, variance = node.inputs
        factor = f"x0 / sqrt(x1 + {norm.epsilon!r})"
        factors = Read((scale, variance), (1,), factor)
        shift = Read((scale, variance, bias, mean), (1,), f"x2 - x3 * ({factor})")
        return Expressed(parse_scalar("x0 * x1 + x2"), (Read((x,), every), factors, shift))
    own = pointwise(node.op)
    assert own is not None
    reads = []
    for name, access in zip(node.inputs, own.operands, strict=True):
        aligned = every[len(every) - len(access.shape) :]
        axes = (p[0][0] if p else d for p, d in zip(access.terms, aligned, strict=True))
        reads.append(Read((name,), tuple(axes)))
    return Expressed(own.scalar, tuple(reads))


_PATIENCE = 0.9
"""Share of the pass it saves that a fused product may cost."""
_COPIES = 2
"""Passes by which a product may be slower than the best: a copy of its operand into the form it
reads, and one out of the form of its result.
"""


@dataclass(frozen=True)
class Epilogue:
    """An expression over a product's result, or over `windows` of it, and over further operands.
    `operands` names their dimensions as the seeds do; `beside` says how they are stored.
    """

    expression: str
    operands: tuple[Dims, ...]
    beside: tuple[Beside, ...]
    windows: PoolWindows | None = None

    @property
    def computes(self) -> bool:
        """True unless the expression is just its first operand."""
        return Element(0) != parse_scalar(self.expression)


Request = tuple[Op, Epilogue]
_Choices = tuple[tuple[Step, ...], ...]
"""Alternatives of one space."""
_Group = tuple[Mapping[Request, Candidate], Sequence[_Choices]]
"""Requests of one epilogue, each with a plain candidate of one algorithm; choices to try."""


@dataclass(frozen=True)
class _Limits:
    """Cycles up to which a product with its epilogue pays: `least` for any forms, more for forms in
    which a plain candidate is close enough to the best.
    """

    least: float
    of_forms: Mapping[frozenset[tuple[str, Form]], float]
    forms: Forms

    def admit(self, candidate: Candidate) -> bool:
        """True if a candidate is within the limit."""
        if candidate.cycles <= self.least:
            return True
        return candidate.cycles <= self.of_forms.get(_forms(candidate, self.forms), 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Finished(Bordered):
    """A `plain` candidate, whose result lies in its `own` form, with code after its program that
    applies an epilogue and writes another form.
    """

    plain: Candidate
    own: Form
    epilogue: Epilogue | None

    @property
    def beside(self) -> Form:
        return self.form

    def program(self, machine: Machine, observer: Observer | None = None) -> Program:
        return self.plain.program(machine, observer)


def epilogue_of(nodes: Sequence[Node], shapes: Mapping[str, Shape]) -> Epilogue | None:
    """The epilogue of the nodes after the first; None if an operand cannot be read along it."""
    op, windows, elementwise = nodes[0].op, None, nodes
    if (pool := nodes[1].op.pooling) is not None:
        windows, elementwise = windows_of(pool), nodes[1:]
    found, out = expressed(elementwise), elementwise[0].op.out_shape
    operands: list[Dims] = []
    for read in found.reads[1:]:
        along = _dims(op, read.axes)
        if along is None or shapes[read.tensors[0]] != tuple(out[axis] for axis in read.axes):
            return None
        operands.append(along)
    beside = tuple((read.axes, len(read.axes) == len(out)) for read in found.reads[1:])
    return Epilogue(str(found.scalar), tuple(operands), beside, windows)


class Rankings:
    """Rankings of products with epilogues, each computed once for all drafts of a network."""

    def __init__(self) -> None:
        self._seeds: dict[tuple[int, Epilogue, tuple[object, ...]], Seed | None] = {}
        self._found: dict[tuple[int, Op, frozenset[str]], Ranking] = {}

    def seed(self, plain: Seed, choices: Sequence[_Choices], epilogue: Epilogue) -> Seed | None:
        """The seed restricted to these choices, with the epilogue; None if unsupported."""
        key = id(plain), epilogue, (*choices,)
        if key not in self._seeds:
            pairs = zip(plain.spaces, choices, strict=True)
            spaces = tuple(replace(space, choices=(own,)) for space, own in pairs)
            self._seeds[key] = _finished(replace(plain, spaces=spaces), epilogue)
        return self._seeds[key]

    def of(
        self, pairs: Sequence[tuple[Op, Seed]], shared: Sequence[frozenset[str]], machine: Machine
    ) -> list[Ranking]:
        """The rankings of pairs, whose seeds come from `seed`, on one group of a machine."""
        keys = [(id(seed), op, names) for (op, seed), names in zip(pairs, shared, strict=True)]
        new = {key: i for i, key in enumerate(keys) if key not in self._found}
        if new:
            asked = [pairs[i] for i in new.values()]
            names = [shared[i] for i in new.values()]
            rankings = kept_rankings(asked, one_group(machine), shared=names)
            self._found.update(zip(new, rankings, strict=True))
        return [self._found[key] for key in keys]


def ranked_epilogues(
    requests: Sequence[Request],
    ranked: Ranked,
    machine: Machine,
    known: Rankings,
    arithmetic_cycles: Callable[[Op, Epilogue], float],
    forms: Forms,
) -> dict[Request, tuple[Candidate, ...]]:
    """The candidates of each product with its epilogue that pay, best first.

    A candidate pays if it is faster than the best plain one of the same forms plus a pass over its
    result with the epilogue's arithmetic. Tried first are the algorithms, pieces and schedules of
    good plain candidates (with windows, of the best that computes whole windows); if none pays, all
    schedules by which plain products are fast enough. Entries `known` are not ranked again.
    """
    limits = {
        r: _limits(ranked, r[0], _saved(*r, ranked, machine) + arithmetic_cycles(*r), forms)
        for r in dict.fromkeys(requests)
    }
    found: dict[Request, list[Candidate]] = {}

    def add_paying(groups: Sequence[_Group]) -> None:
        pairs: list[tuple[Op, Seed]] = []
        shared: list[frozenset[str]] = []
        asked: list[tuple[Request, Pieces | None]] = []
        for own, choices in groups:
            (_, epilogue), base = next(iter(own.items()))
            seed = known.seed(base.seed, choices, epilogue)
            if seed is None:
                continue
            for request, base in own.items():
                pieces = _pieces(base, epilogue)
                pairs.append((base.op, seed))
                shared.append(_shared_operands(ranked, pieces, epilogue, seed))
                asked.append((request, pieces))
        rankings = known.of(pairs, shared, machine)
        for (request, pieces), ranking in zip(asked, rankings, strict=True):
            paying = tuple(c for c in ranking.best if limits[request].admit(c))
            found.setdefault(request, []).extend(shares_in(pieces, paying) if pieces else paying)

    groups = _groups(ranked, limits)
    add_paying(groups)
    wider = (_wider(*group, found, limits, ranked) for group in groups)
    add_paying([group for group in wider if group])
    return {request: by_cycles(own) for request, own in found.items()}


def _groups(ranked: Ranked, limits: Mapping[Request, _Limits]) -> list[_Group]:
    """The requests of each algorithm and epilogue, and the choices to try. Products that pool use
    the choices of the same products without pooling.
    """
    alike: dict[tuple[int, Epilogue], dict[Request, Candidate]] = {}
    beside: dict[tuple[int, Epilogue], dict[Request, Candidate]] = {}
    for (op, epilogue), own_limits in limits.items():
        whole = replace(epilogue, windows=None)
        for made, groups in ((epilogue, alike), (whole, beside)):
            for base in _bases(ranked, (op, made), own_limits):
                groups.setdefault((id(base.seed), made), {})[op, made] = base
    return [(own, _taken(beside.get(key, own), ranked)) for key, own in alike.items()]


def _wider(
    own: Mapping[Request, Candidate],
    tried: Sequence[_Choices],
    found: Mapping[Request, Sequence[Candidate]],
    limits: Mapping[Request, _Limits],
    ranked: Ranked,
) -> _Group | None:
    """The requests of a group without a paying candidate, with further choices by which the plain
    product is fast enough; None if there are none.
    """
    short = {request: base for request, base in own.items() if not found.get(request)}
    others = dict.fromkeys(
        _unlaid(steps)
        for request, base in short.items()
        for steps, cycles in ranked.floors.get((base.op, id(base.seed)), ())
        if cycles < limits[request].least
    )
    untried = tuple(steps for steps in others if steps not in tried[0])
    return (short, [untried]) if untried else None


def saved_cycles(
    requests: Sequence[Request], ranked: Ranked, found: Mapping[Request, Sequence[Candidate]]
) -> float:
    """Cycles that pooling products save against the best plain ones: they need less scratchpad and
    put less.
    """
    return sum(
        max(0.0, ranked.best(request[0]).cycles - found[request][0].cycles)
        for request in requests
        if found.get(request)
    )


def _finished(seed: Seed, epilogue: Epilogue) -> Seed | None:
    """The seed with the windows and the epilogue; None if it supports either not."""
    found = with_pooling(seed, epilogue.windows) if epilogue.windows else seed
    if found is None or not epilogue.computes:
        return found
    return with_epilogue(found, epilogue.expression, epilogue.operands)


def _bases(ranked: Ranked, request: Request, limits: _Limits) -> list[Candidate]:
    """The plain candidates whose algorithms and pieces to use with the epilogue: the best one, and
    the best of each other algorithm within its limit.
    """
    op, epilogue = request
    first = _base(ranked, request)
    if first is None or epilogue.windows or isinstance(first, Share):
        return [first] if first else []
    found = {id(first.seed): first}
    for c in ranked.candidates[op]:
        if limits.admit(c) and not isinstance(c, Share):
            found.setdefault(id(c.seed), c)
    return [*found.values()]


def _base(ranked: Ranked, request: Request) -> Candidate | None:
    """The plain candidate whose algorithm and pieces to use with the epilogue."""
    op, epilogue = request
    whole = [c for c in ranked.candidates[op] if not (isinstance(c, Share) and c.pieces.partial)]
    for c in whole if epilogue.windows else whole[:1]:
        pieces, divided = _pieces(c, epilogue), isinstance(c, Share)
        taken = not divided or (pieces is not None and _takes(pieces, epilogue))
        if taken and (epilogue.windows is None or with_pooling(c.seed, epilogue.windows)):
            return c
    return None


def _pieces(base: Candidate, epilogue: Epilogue) -> Pieces | None:
    """The pieces that a candidate belongs to, with the windows of their results."""
    if not isinstance(base, Share):
        return None
    return base.pieces.pooled(epilogue.windows) if epilogue.windows else base.pieces


def _takes(pieces: Pieces, epilogue: Epilogue) -> bool:
    """True if each piece's part of every epilogue operand is a slice of that operand's memory."""
    return all(whole or pieces.step_along(axes) is not None for axes, whole in epilogue.beside)


def _shared_operands(
    ranked: Ranked, pieces: Pieces | None, epilogue: Epilogue, seed: Seed
) -> frozenset[str]:
    """The operands that all groups read together."""
    if pieces is None:
        return constants_of(seed) if ranked.shared else frozenset()
    beside = enumerate(epilogue.beside)
    alike = (i for i, (axes, whole) in beside if not whole and pieces.step_along(axes) == 0)
    return pieces.shared(seed) | {operand_name(i) for i in alike}


def _alike(ranked: Ranked, op: Op, base: Candidate) -> list[Candidate]:
    """The candidates with the algorithm and the pieces of `base`."""
    return [c for c in ranked.candidates[op] if c.seed is base.seed and c.op == base.op]


def _taken(bases: Mapping[Request, Candidate], ranked: Ranked) -> list[_Choices]:
    """Choices, space by space, of the plain candidates alike to `bases` of one seed."""
    plain = [c for (op, _), base in bases.items() for c in _alike(ranked, op, base)]
    by_space = zip(*(c.nests for c in plain), strict=True)
    return [tuple(dict.fromkeys(_unlaid(n.structure.steps) for n in own)) for own in by_space]


def _unlaid(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(step for step in steps if not isinstance(step, Layout))


def _dims(op: Op, axes: tuple[int, ...]) -> Dims | None:
    """The dimensions of a product's result along these axes, as its seeds name them."""
    named: tuple[Dims, ...] = (("rows",), ("cols",))
    if op.convolution is not None:
        named = (("batch",), ("group", "channels"), *named)
    elif op.matrix_product is None:
        return None
    return tuple(dim for axis in axes for dim in named[axis])


def _limits(ranked: Ranked, op: Op, saved: float, forms: Forms) -> _Limits:
    """Limits around a product's plain candidates; an epilogue saves a pass over their result."""
    best = ranked.best(op).cycles
    found: dict[frozenset[tuple[str, Form]], float] = {}
    for c in ranked.candidates[op]:
        if c.cycles <= best + _COPIES * saved:
            found.setdefault(_forms(c, forms), c.cycles + saved)
    return _Limits(best + saved, found, forms)


def _forms(candidate: Candidate, forms: Forms) -> frozenset[tuple[str, Form]]:
    return frozenset(forms.of(candidate, constants=False).items())


def _saved(op: Op, epilogue: Epilogue, ranked: Ranked, machine: Machine) -> float:
    """Cycles up to which an epilogue pays: a pass over the result, or one that pools it and one
    over the windows, at the engine's peak rate plus latencies.
    """
    whole = size = prod(op.out_shape) * dtype(op.out_dtype).size_bytes
    passes: list[tuple[int, int]] = []
    if epilogue.windows:
        size = whole // prod(epilogue.windows.extents)
        passes.append((whole, size))
    if epilogue.computes:
        passes.append(((1 + sum(alike for _, alike in epilogue.beside)) * size, size))
    between = next_cycles(machine.groups, meets=ranked.groups > 1)
    saved = 0.0
    for read, written in passes:
        moving = moving_cycles(machine, read, written, ranked.groups)
        saved += moving + 2 * machine.dma.latency_cycles + between
    return _PATIENCE * saved
