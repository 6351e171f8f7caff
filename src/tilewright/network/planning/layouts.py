"""Choice of a form for each tensor and a candidate for each product.

In: fused nodes, and their ranked candidates with and without epilogues. Out: `Layouts`, by which
`network.build` drafts a plan. `fastest_of_each` takes the fastest candidate of every product;
`WholeNetwork` minimises products, passes and copies between forms together (`partition.solve`).
Passes and copies are priced at the engine's peak, so `network.build` compares the resulting plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.common.dtypes import dtype, main_type
from tilewright.common.remembered import remembered
from tilewright.graph.graph import Network, Node
from tilewright.graph.rewrites.fusion import is_elementwise
from tilewright.machine import Machine
from tilewright.network.planning.bordered import Bordered
from tilewright.network.planning.epilogues import Request
from tilewright.network.planning.form import Form, permuted, row_major, same_memory
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.lowering import writes_any_form, writes_inside
from tilewright.network.planning.memory import (
    given_form,
    in_order,
    is_unblocked,
    ordered_like,
    unbordered,
)
from tilewright.network.planning.placed import lies_in_boxes, places_between, places_within
from tilewright.network.planning.products import Ranked, constants_of
from tilewright.network.waits import moving_cycles, next_cycles
from tilewright.ops import CONTRACTIONS, Op
from tilewright.ops.definitions import definitions_in, moves
from tilewright.ops.op import Shape
from tilewright.partition.solve import Solution, cheapest
from tilewright.tune.candidate import Candidate
from tilewright.tune.refills import Refills

if TYPE_CHECKING:
    from tilewright.network.planning.planner import Planner

_OTHER_ORDER = 10.0
"""Cost factor, prohibitive on purpose, of a gather that would change the order of axes."""
_MOST_WAYS = 8
_ROUNDS = 4
"""Most rounds of the choice."""


@dataclass(frozen=True, eq=False)
class Layouts:
    """The candidate of each product by node name; those in `fused` also compute the nodes after
    them. `forms` are the forms that passes write. `choice` is set where the layouts were chosen for
    the whole network.
    """

    products: Mapping[str, Candidate]
    fused: frozenset[str] = frozenset()
    forms: Mapping[str, Form] = field(default_factory=dict)
    choice: Solution | None = None


Epilogues = Mapping[Request, Sequence[Candidate]]


@dataclass(frozen=True, eq=False)
class _Way:
    """One way to compute a fused chain: its cycles, the form of its result, and the form in which
    it `takes` each operand. It keeps the dimension order of the tensor that it `follows`. A pass
    reads `reads` in any form; where it writes `blocks` of places, along its own innermost
    dimension. A candidate inside a border derives from a `plain` one.
    """

    cycles: float
    form: Form
    takes: Mapping[str, Form]
    candidate: Candidate | None = None
    fused: bool = False
    follows: str = ""
    reads: tuple[str, ...] = ()
    blocks: bool = False
    plain: Candidate | None = None

    @property
    def is_put_together(self) -> bool:
        """True if parts are copied one after the other, each along the blocks that it lies in."""
        return bool(self.follows and self.reads) and not self.blocks

    @property
    def operands(self) -> tuple[str, ...]:
        """Every tensor whose form affects the cost."""
        return (*self.takes, *self.reads, *([self.follows] if self.follows else []))


@dataclass(frozen=True, eq=False)
class NodeChain:
    """Nodes computed in one go, and their epilogue if they form one. A pooling of the product's
    result may come between.
    """

    nodes: tuple[Node, ...]
    request: Request | None

    @property
    def first(self) -> Node:
        """The node that the others follow."""
        return self.nodes[0]

    @property
    def pool(self) -> Node | None:
        """The pooling node after the first node, or None."""
        behind = self.nodes[1:2]
        return next((node for node in behind if node.op.pooling is not None), None)

    @property
    def finishing(self) -> tuple[Node, ...]:
        """The nodes from the last non-elementwise one on; all after it are elementwise."""
        return self.nodes if self.pool is None else self.nodes[1:]

    @property
    def output(self) -> str:
        """The tensor that the chain produces."""
        return self.nodes[-1].output


def fastest_of_each(
    network: Network,
    chains: Sequence[NodeChain],
    ranked: Ranked,
    epilogues: Epilogues,
    planner: Planner,
) -> Layouts:
    """The fastest candidate of each product, with an epilogue by the same algorithm; passes write
    the form that the next product reads.
    """
    forms = planner.forms
    weights = {t.name for t in network.weights}
    products = {n.name: ranked.best(n.op) for n in network.nodes if n.op.kind in CONTRACTIONS}
    wishes: dict[str, Form] = {}
    for node in network.nodes:
        if node.name in products:
            for name, form in _operands(node, products[node.name], forms, weights).items():
                wishes.setdefault(name, form)
        elif node.op.reshapes:
            wishes.setdefault(node.inputs[0], row_major(node.op.input_shapes[0]))
    for name in () if planner.arranges else network.outputs:
        wishes.setdefault(name, row_major(network.tensors[name].shape))
    fused = set()
    for chain in chains:
        for candidate in epilogues.get(chain.request, ()) if chain.request else ():
            alike = candidate.seed.name == products[chain.first.name].seed.name
            if alike and wishes.get(chain.output) in (None, _result(candidate, forms)):
                products[chain.first.name] = candidate
                fused.add(chain.first.name)
                break
    return Layouts(products, frozenset(fused), wishes)


def _operands(
    node: Node, candidate: Candidate, forms: Forms, weights: Container[str]
) -> dict[str, Form]:
    """Forms in which a candidate reads its operands other than weights, by tensor name."""
    pairs = zip(candidate.seed.operands, node.inputs, strict=True)
    taken = {tensor: name for tensor, name in pairs if name not in weights}
    found = forms.of(candidate, constants=not taken.keys().isdisjoint(constants_of(candidate.seed)))
    return {name: found[tensor] for tensor, name in taken.items()}


def _result(candidate: Candidate, forms: Forms) -> Form:
    return forms.of(candidate, constants=False)[candidate.seed.result]


class WholeNetwork:
    """The ways of all fused chains, and the cycles of copies between them."""

    def __init__(
        self,
        network: Network,
        chains: Sequence[NodeChain],
        ranked: Ranked,
        epilogues: Epilogues,
        planner: Planner,
        machine: Machine,
        refills: Refills,
    ) -> None:
        self.network, self.chains, self.ranked = network, chains, ranked
        self.epilogues, self.forms, self.planner = epilogues, planner.forms, planner
        self._machine, self._refills = machine, refills
        self._refilling: dict[Candidate, float] = {}
        self._known: dict[NodeChain, tuple[object, object, list[_Way]]] = {}
        self._weights = {t.name for t in network.weights}
        tensors = network.tensors
        self._shapes: dict[str, Shape] = {name: t.shape for name, t in tensors.items()}
        self._bytes = dtype(main_type(t.dtype for t in tensors.values())).size_bytes
        arranged = planner.arranges
        self._held = {t.name: [given_form(t.shape, arranged=arranged)] for t in network.inputs}
        self._wanted = self._all_wanted()
        read = Counter(name for node in network.nodes for name in node.inputs)
        self._placeable = {
            chain.output
            for chain in chains
            if chain.first.op.kind in CONTRACTIONS and read[chain.output] == 1
        } - {*network.outputs}

    def cheapest(self) -> Layouts:
        """The cheapest combination of ways, copies between them included. Where the chosen products
        turn out to have unexpected refills, the choice is repeated, at most `_ROUNDS` times; not
        where the solver ran out of time.
        """
        for _ in range(_ROUNDS):
            ways = [self._known_ways(chain) for chain in self.chains]
            own, edges = self._costs(ways)
            choice = cheapest(own, edges)
            taken = [w[o] for w, o in zip(ways, choice.options, strict=True)]
            if not self._refilled(taken) or not choice.proven:
                break
        return self._layouts(taken, choice)

    def _refilled(self, ways: Iterable[_Way]) -> bool:
        """Price the refills of some ways; True if any differ from what was expected."""
        new = {
            way.plain: (way.candidate, self._refill_cycles(way.plain))
            for way in ways
            if way.candidate and way.plain and way.plain not in self._refilling
        }
        for plain, (candidate, _) in new.items():
            self._refilling[plain] = self._refills.added(candidate, plain).refill_cycles
        return any(self._refilling[plain] != before for plain, (_, before) in new.items())

    def _refill_cycles(self, plain: Candidate) -> float:
        """Cycles that refills add to a plain candidate: as priced, else as expected."""
        found = self._refilling.get(plain)
        return self._refills.expected(plain).refill_cycles if found is None else found

    def _costs(
        self, ways: Sequence[Sequence[_Way]]
    ) -> tuple[list[np.ndarray], dict[tuple[int, int], np.ndarray]]:
        """Cycles of all ways, and of copies between the ways of two chains."""
        made = {chain.output: i for i, chain in enumerate(self.chains)}
        own = [self._own(chain, w) for chain, w in zip(self.chains, ways, strict=True)]
        edges: dict[tuple[int, int], np.ndarray] = {}
        for j, behind in enumerate(ways):
            for name in dict.fromkeys(name for way in behind for name in way.operands):
                held, first = self._forms_of(name, made, ways), self.chains[j].first
                prices = [[self._edge(first, name, form, way) for way in behind] for form in held]
                between = np.array(prices)
                if name not in made:
                    own[j] = own[j] + between[0]
                else:
                    edge = (made[name], j)
                    edges[edge] = edges[edge] + between if edge in edges else between
        return own, edges

    def _layouts(self, taken: Sequence[_Way], choice: Solution) -> Layouts:
        products, fused, forms = {}, set(), {}
        for chain, way in zip(self.chains, taken, strict=True):
            if way.candidate is not None:
                products[chain.first.name] = way.candidate
            if way.fused:
                fused.add(chain.first.name)
            forms[chain.output] = way.form
        return Layouts(products, frozenset(fused), forms, choice)

    def _forms_of(
        self, name: str, made: Mapping[str, int], ways: Sequence[Sequence[_Way]]
    ) -> list[Form]:
        return [way.form for way in ways[made[name]]] if name in made else self._held[name]

    def _own(self, chain: NodeChain, ways: Sequence[_Way]) -> np.ndarray:
        """The ways' own cycles; an output of the network also pays for a copy to a C array."""
        cycles = np.array([way.cycles for way in ways])
        if chain.output in self.network.outputs and not self.planner.arranges:
            wanted = row_major(self._shapes[chain.output])
            cycles += [self._copy(way.form, wanted) for way in ways]
        return cycles

    def _edge(self, node: Node, name: str, held: Form, way: _Way) -> float:
        """Cycles for a way of a chain to read a tensor held in a given form."""
        if way.is_put_together:
            return self._part(node, name, held, way)
        if name == way.follows:
            if not is_unblocked(held):
                return 0.0 if self.planner.views else self._copy(held, unbordered(held))
            alike = _order(held) == _order(way.takes[name])
            return 0.0 if alike else _OTHER_ORDER * self._moving(held)
        if name in way.takes:
            inside = self._reading_inside(node, name, held, way)
            return self._copy(held, way.takes[name]) if inside is None else inside
        against = self._reading(held, way.form) - 1 if name in way.reads else 0.0
        if way.blocks and against:
            return self._copy(held, ordered_like(way.form, held.shape))
        return against * self._moving(held) / 2

    def _part(self, node: Node, name: str, held: Form, way: _Way) -> float:
        """Cycles to copy a part into the concatenated tensor; 0 if a product writes it there."""
        own = unbordered(held)
        if name == way.follows and _order(own) != _order(way.takes[name]):
            return _OTHER_ORDER * self._moving(held)
        if name in self._placeable and self._is_placed(node, name, held, way.form):
            return 0.0
        return self._moving(held) * self._reading(own, way.form)

    @remembered
    def _is_placed(self, node: Node, name: str, held: Form, form: Form) -> bool:
        """True if a node puts the tensor into a box of its result's memory."""
        parts = [a.definition for a in node.op.definitions[-1].addends
                 if [node.inputs[n] for n in a.reads] == [name]]  # fmt: skip
        there = places_between(parts[0], held, form) if len(parts) == 1 else None
        return there is not None and lies_in_boxes(held, there)

    def _reading_inside(self, node: Node, name: str, held: Form, way: _Way) -> float | None:
        """Cycles that reading a tensor inside its border adds to a product; None if it cannot."""
        wanted, own = way.takes[name], way.candidate
        if own is None or not held.has_zeros or unbordered(held) != wanted:
            return None
        taken = [o for o, x in zip(own.seed.operands, node.inputs, strict=False) if x == name]
        there = places_within(wanted, held)
        if there is None or len(taken) != 1:
            return None
        found = self.planner.reading(own, taken[0], there)
        return None if found is None else found.cycles - own.cycles

    def _known_ways(self, chain: NodeChain) -> list[_Way]:
        """`_ways`, recomputed when refills have been priced or the operands have other forms."""
        read = [self._held.get(name) for node in chain.nodes for name in node.inputs]
        priced = [self._refill_cycles(candidate) for candidate in self._candidates(chain)]
        found = self._known.get(chain)
        if found is None or found[:2] != (read, priced):
            found = self._known[chain] = read, priced, self._ways(chain)
            self._held[chain.output] = list(dict.fromkeys(way.form for way in found[2]))
        return found[2]

    def _candidates(self, chain: NodeChain) -> Iterator[Candidate]:
        """Candidates of a product, those with an epilogue first."""
        yield from self.epilogues.get(chain.request, ()) if chain.request else ()
        yield from self.ranked.candidates.get(chain.first.op, ())

    def _ways(self, chain: NodeChain) -> list[_Way]:
        """All ways of one chain."""
        op, node = chain.first.op, chain.first
        if op.kind in CONTRACTIONS:
            return self._product_ways(chain)
        if is_elementwise(op):
            read = self._read_whole(chain.nodes)
            return [
                _Way(self._pass(form), form, {}, reads=read)
                for form in self._out_forms(chain, self._natural(node))
            ]
        return self._reshaped_ways(chain, op) if op.reshapes else self._gathering_ways(chain)

    def _natural(self, node: Node) -> list[Form]:
        """The forms that an elementwise node's full-size operands may have."""
        shape = node.op.out_shape
        whole = [x for x in node.inputs if x in self._held and self._shapes[x] == shape]
        return [form for name in whole for form in self._held[name]] or [row_major(shape)]

    def _reshaped_ways(self, chain: NodeChain, op: Op) -> list[_Way]:
        """Ways that read the operand as a C array, reshaped; nodes after it may write any form."""
        (name,), natural = chain.first.inputs, row_major(op.out_shape)
        takes = {name: row_major(op.input_shapes[0])} if name in self._held else {}
        if len(chain.nodes) == 1:
            return [_Way(0.0, natural, takes)]
        beside = self._read_whole(chain.nodes[1:])
        return [
            _Way(self._pass(form, self._grain(natural, form)), form, takes, reads=beside)
            for form in self._out_forms(chain, [natural])
        ]

    def _gathering_ways(self, chain: NodeChain) -> list[_Way]:
        """Ways that keep the dimension order of the operand, or write any form in a pass."""
        if len(chain.nodes) == 1 and writes_any_form(chain.first.op):
            return self._mapped_ways(chain)
        name = next((x for x in chain.first.inputs if x in self._held), "")
        beside = self._put_together(chain.first, name)
        alike = len({d.extents for d in definitions_in(chain.first.op)}) == 1
        found = []
        for held in self._held[name] if name else [row_major(chain.first.op.out_shape)]:
            own = _kept_order(chain.first.op, held, follows=bool(beside))
            alone = len(chain.nodes) == 1
            as_read = alone and not (self.planner.views and _writes_any(chain.first.op))
            takes = {name: held} if name else {}
            others = self._out_forms(chain, [own])
            if as_read:
                others = [f for f in others if f == own or writes_inside(chain.first.op, own, f)]
            for f in others:
                grain = self._grain(own, f)
                cycles = (grain - 1) * self._moving(f) if alone else self._pass(f, grain)
                found.append(_Way(cycles, f, takes, follows=name, reads=beside, blocks=alike))
        return found

    def _put_together(self, node: Node, name: str) -> tuple[str, ...]:
        """Operands after the first that are concatenated in its order of dimensions."""
        if node.op.is_named or not moves(node.op) or self.planner.views:
            return ()
        rank = len(node.op.out_shape)
        every = (x for x in dict.fromkeys(node.inputs) if x in self._held and x != name)
        return tuple(x for x in every if len(self._shapes[x]) == rank)

    def _mapped_ways(self, chain: NodeChain) -> list[_Way]:
        """Ways of maps that write any form; several maps write blocks of places together."""
        node, shape = chain.first, chain.first.op.out_shape
        blocks = len(definitions_in(node.op)) > 1
        read = tuple(x for x in dict.fromkeys(node.inputs)
                     if x in self._held and len(self._shapes[x]) == len(shape))  # fmt: skip
        natural = [in_order(shape, _order(form)) for x in read for form in self._held[x]]
        return [
            _Way(self._pass(form), form, {}, reads=read, blocks=blocks)
            for form in self._out_forms(chain, natural or [row_major(shape)])
        ]

    def _product_ways(self, chain: NodeChain) -> list[_Way]:
        node, found = chain.first, dict[tuple[object, ...], _Way]()
        behind = chain.finishing[1:]
        beside = self._read_whole(behind) if behind else ()
        ready = self.epilogues.get(chain.request, ()) if chain.request else ()
        plain = [(c, False) for c in self.ranked.candidates[node.op]]
        for candidate, fused in [*((c, True) for c in ready), *plain]:
            takes = self._takes(node, candidate)
            natural, refilling = _result(candidate, self.forms), self._refill_cycles(candidate)
            cycles = candidate.cycles - candidate.refill_cycles + refilling
            own = takes | dict.fromkeys(beside, natural) if fused else takes
            done = fused or not behind
            if chain.pool is not None and not fused:
                natural = _kept_order(chain.pool.op, natural)
                cycles += self._pass(natural, read=chain.pool.op.input_shapes[0])
            elif done:
                for other in self._bordered(chain, candidate, natural, beside if fused else ()):
                    inside = takes | dict.fromkeys(beside, other.beside) if fused else takes
                    price = other.cycles + refilling
                    own_form = _Way(price, other.form, inside, other, fused, plain=candidate)
                    _keep(found, own_form)
            for form in [natural] if done else self._out_forms(chain, [natural]):
                price = cycles
                if not done:  # the result and each further operand are read
                    grain = self._grain(natural, form)
                    moved = self._pass(form, grain + len(beside) / 2)
                    asked = chain.request
                    computed = self.planner.arithmetic_cycles(*asked, form) if asked else 0.0
                    # Vectors gathered element by element do not hide arithmetic.
                    price += max(moved, computed) if grain == 1 else moved + computed
                reads = () if done else beside
                way = _Way(price, form, own, candidate, fused, reads=reads, plain=candidate)
                _keep(found, way)
        return sorted(found.values(), key=lambda way: way.cycles)[:_MOST_WAYS]

    def _bordered(
        self, chain: NodeChain, candidate: Candidate, own: Form, beside: Sequence[str]
    ) -> Iterator[Bordered]:
        """The candidate with its result inside each border that a consumer wants, and with the
        tensors `beside` it inside each border that they have.
        """

        def around(forms: Iterable[Form]) -> list[Form]:
            alike = (form for form in forms if form.has_zeros and unbordered(form) == own)
            return list(dict.fromkeys(alike))

        wanted = around(self._wanted.get(chain.output, ()))
        held = around(form for name in beside for form in self._held[name])
        pairs = (*product(wanted, (None,)), *product((*wanted, own), held))
        for form, inside in pairs:
            found = self.planner.bordered(candidate, own, form, inside)
            if found is not None:
                yield found

    def _read_whole(self, nodes: Sequence[Node]) -> tuple[str, ...]:
        """The activations that elementwise nodes read in the shape of their result."""
        read = [name for node in nodes for name in node.inputs if name in self._held]
        shape = nodes[-1].op.out_shape
        return tuple(name for name in dict.fromkeys(read) if self._shapes[name] == shape)

    def _out_forms(self, chain: NodeChain, natural: Sequence[Form]) -> list[Form]:
        """Forms that a pass may write: those of its operands, and those that consumers want."""
        return list(dict.fromkeys([*natural, *self._wanted.get(chain.output, ())]))[:_MOST_WAYS]

    def _all_wanted(self) -> dict[str, list[Form]]:
        found: dict[str, list[Form]] = {}
        for chain in self.chains:
            node = chain.first
            for candidate in self.ranked.candidates.get(node.op, ()):
                for name, form in self._takes(node, candidate).items():
                    found.setdefault(name, []).append(form)
            if node.op.reshapes:
                found.setdefault(node.inputs[0], []).append(row_major(node.op.input_shapes[0]))
            pool = node.op.pooling
            if pool is not None and self.planner.gathers_channels:
                last = in_order(node.op.input_shapes[0], (0, 2, 3, 1))
                found.setdefault(node.inputs[0], []).append(last)
        for name in () if self.planner.arranges else self.network.outputs:
            found.setdefault(name, []).append(row_major(self._shapes[name]))
        return {name: list(dict.fromkeys(forms)) for name, forms in found.items()}

    @remembered
    def _takes(self, node: Node, candidate: Candidate) -> dict[str, Form]:
        """`_operands`, computed once."""
        return _operands(node, candidate, self.forms, self._weights)

    @remembered
    def _copy(self, held: Form, wanted: Form) -> float:
        """Cycles of a copy from one form into another; 0 if both are the same memory."""
        same = same_memory(held, wanted)
        return 0.0 if same else self._pass(wanted, self._grain(held, wanted))

    def _grain(self, a: Form, b: Form) -> float:
        """Factor on a copy's cycles for running against the grain."""
        return self.planner.against_the_grain(a, b) if a.dims and b.dims else 1.0

    def _reading(self, held: Form, made: Form) -> float:
        """Factor on the cycles of a pass that reads a tensor as it lies."""
        return self.planner.reading_as_held(held, made) if held.dims and made.dims else 1.0

    def _pass(self, form: Form, times: float = 1.0, read: Shape = ()) -> float:
        """Cycles of a stage that reads a tensor (of shape `read` if given) and writes it in `form`,
        at `times` the cycles of the engine's peak.
        """
        meets = self.ranked.groups > 1
        return self._moving(form, read) * times + next_cycles(self._machine.groups, meets=meets)

    @remembered
    def _moving(self, form: Form, read: Shape = ()) -> float:
        """Cycles to read a tensor (of shape `read` if given) and write it in `form` at the engine's
        peak.
        """
        got, written = (n * self._bytes for n in (prod(read or form.shape), form.elements))
        moving = moving_cycles(self._machine, got, written, self.ranked.groups)
        return moving + 2 * self._machine.dma.latency_cycles


def _writes_any(op: Op) -> bool:
    """False for operators with a fixed result form: a C array, or the operand's memory."""
    return op.is_named and op.permutation is None


def _kept_order(op: Op, held: Form, *, follows: bool = False) -> Form:
    """Form of the result of `op`, a move or gather of a tensor in form `held`. An unnamed operator
    keeps the order of a tensor that it `follows`, else writes a C array.
    """
    if op.permutation is not None:
        return permuted(held, op.permutation)
    if not op.is_named and not follows:
        return row_major(op.out_shape)
    return in_order(op.out_shape, _order(held))


def _order(form: Form) -> tuple[int, ...]:
    return tuple(d.axis for d in unbordered(form).dims)


def _keep(ways: dict[tuple[object, ...], _Way], way: _Way) -> None:
    """Add a way unless one of the same forms takes no longer."""
    key = (way.form, *sorted(way.takes.items(), key=lambda item: item[0]))
    if key not in ways or way.cycles < ways[key].cycles:
        ways[key] = way
