"""The plan of a network on any machine with explicit programs: nodes in, stages out.

A tensor is held in one form; who needs another gets a copy. Elementwise operators and changes of
layout are one kind of stage, so that what follows a product writes at once in the form that the
next product reads. Operators without a lowering are refused before anything is searched for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import ceil

from tilewright.common.errors import CapacityError
from tilewright.common.progress import Progress, Steps, silent
from tilewright.graph.graph import Network, Node
from tilewright.graph.rewrites.images import batch_of
from tilewright.ir.scalar import Element
from tilewright.machine import Machine
from tilewright.network.arena import Life, place
from tilewright.network.bordered import Bordered
from tilewright.network.epilogues import ranked_epilogues, saved_cycles
from tilewright.network.expressed import Expressed, Read, expressed
from tilewright.network.expressions import elementwise
from tilewright.network.form import Form, row_major
from tilewright.network.forms import Forms
from tilewright.network.layouts import Chain, Layouts, WholeNetwork, nearest
from tilewright.network.lowerings import LOWERINGS
from tilewright.network.memory import Draft, Located, Memory, unbordered
from tilewright.network.pieces import Beside, Share
from tilewright.network.plan import Plan, Work, lives_of
from tilewright.network.products import Ranked, ranked_products, ranked_stages
from tilewright.network.requirements import (
    own_part,
    refuse_crowded,
    require_lowered,
    require_room,
)
from tilewright.network.results import LayoutChoice
from tilewright.network.search import BY_THE_MODEL, Search
from tilewright.network.shares import Division
from tilewright.network.together import ranked_parts, ranked_shares
from tilewright.network.variants import Variant, variants
from tilewright.network.waits import Use, cycles_before
from tilewright.ops import CONTRACTIONS
from tilewright.ops.op import Op
from tilewright.seeds.epilogues import operand_name
from tilewright.tune.candidate import Candidate

Schedules = dict[Op, tuple[Candidate, Division | None]]
"""How an operator is computed, and where the groups' shares begin if they divide it."""


def build_plan(
    network: Network,
    machine: Machine,
    search: Search = BY_THE_MODEL,
    *,
    fuse: bool = True,
    ranked: Ranked | None = None,
    progress: Progress = silent,
) -> Plan:
    """The plan of one group's part of the network, every stage with its schedule; `ranked` are its
    products where they are known.

    Raises GraphError for operators without a lowering and for mixed element types, before any
    search, CapacityError where values exceed main memory or no schedule fits.
    """
    ranked = ranked or rank_network(network, machine, search, progress=progress)
    part = network if ranked.images == 1 else own_part(network, machine)[0]
    options = [ranked.together(machine.groups.count), ranked] if ranked.shares else [ranked]
    forms, drafted, known = Forms(), list[_Builder](), Schedules()
    for own, variant in product(options, variants(part, fuse=fuse)):
        # products alone may already take longer than a whole plan
        if all(own.least_cycles(part) < b.cycles(known, machine) for b in drafted):
            divide = bool(ranked.shares)
            found = _cheapest(variant, own, machine, forms, known, progress, divide=divide)
            drafted.append(found)
    best = min(drafted, key=lambda builder: builder.cycles(known, machine))
    _require_room(best, known, machine)
    least = options[0].least_cycles(part) - max(builder.saved for builder in drafted)
    return _plan(best, known, machine, ranked.images, least)


def _cheapest(
    variant: Variant,
    own: Ranked,
    machine: Machine,
    forms: Forms,
    known: Schedules,
    progress: Progress,
    *,
    divide: bool,
) -> _Builder:
    """The cheaper plan of that with the fastest candidate of every product and of that with layouts
    chosen for the whole; `own` are the products to choose from. Other work is divided over the
    groups if they may `divide` it; its schedules are added to those `known`.
    """
    part, chains = variant.network, variant.chains
    requests = [chain.request for chain in chains if chain.request is not None]
    epilogues = ranked_epilogues(requests, own, machine)
    progress("lay out", 0, 3)
    found = [nearest(part, chains, own, epilogues, forms)]
    progress("lay out", 1, 3)
    found.append(WholeNetwork(part, chains, own, epilogues, forms, machine).cheapest())
    progress("lay out", 2, 3)
    drafted = [_drafted(variant, layouts, forms) for layouts in found]
    progress("lay out", 3, 3)
    ops = [d.op for builder in drafted for d in builder.memory.drafts if d.candidate is None]
    steps = partial(progress, "schedule")
    known.update(_schedules([op for op in ops if op not in known], machine, steps, divide=divide))
    cycles = [builder.cycles(known, machine) for builder in drafted]
    best = drafted[cycles.index(min(cycles))]
    best.saved = saved_cycles(requests, own, epilogues)
    if chosen := found[-1].choice:
        cost, bound = ceil(chosen.cost), ceil(chosen.bound)
        best.choice = LayoutChoice(cost, bound, chosen.proven, cycles[-1] <= min(cycles))
    return best


def rank_network(
    network: Network,
    machine: Machine,
    search: Search = BY_THE_MODEL,
    *,
    progress: Progress = silent,
) -> Ranked:
    """The ranked candidates of the products of the part that the groups run on their own images, or
    of all where no group has several and that is faster together. Raises as `build_plan` does.
    """
    require_lowered(network, machine)
    part, used = own_part(network, machine)
    require_room(part, machine)
    ranked = ranked_products(part, machine, search, images=used, progress=progress)
    groups, alone = machine.groups.count, used == 1
    if groups == 1 or not (alone or (batch_of(part) == 1 and _has_room(network, machine))):
        return ranked
    whole = ranked
    if not alone:
        whole = ranked_products(network, machine, search, images=1, progress=progress)
    shares = ranked_shares(list(whole.candidates), machine, search, progress=progress)
    whole = replace(whole, shares=shares)
    together = whole.together(groups).least_cycles(network)
    return whole if alone or together < ranked.least_cycles(part) else ranked


def _has_room(network: Network, machine: Machine) -> bool:
    """Whether one group's memory holds what lives at the same time."""
    try:
        require_room(network, machine)
    except CapacityError:
        return False
    return True


class _Builder:
    """Appends the drafts of one fused node after the other, as `layouts` say."""

    def __init__(self, variant: Variant, layouts: Layouts, forms: Forms) -> None:
        network = variant.network
        (kind,) = {t.dtype for t in network.tensors.values()}
        self.network, self.layouts, self.forms = network, layouts, forms
        self.ahead = variant.ahead
        self.weights = {t.name: t for t in network.weights}
        self.memory = Memory(kind)
        self.inputs = []
        for t in network.inputs:
            located = self.memory.value(t.name, row_major(t.shape), "input")
            self.memory.held[t.name] = [located]
            self.inputs.append((t.name, located.value))
        self.outputs: list[tuple[str, int, Form]] = []
        self.choice: LayoutChoice | None = None
        self.saved = 0.0

    def cycles(self, schedules: Schedules, machine: Machine) -> float:
        """The cycles of all stages by the model, those before each included."""
        drafts, before = self.memory.drafts, cycles_before(self.uses(schedules), machine.groups)
        own = ((d.candidate or schedules[d.op][0]).cycles for d in drafts)
        return sum(own) + sum(sum(cycles.values()) for cycles in before)

    def uses(self, schedules: Schedules) -> list[Use]:
        """What each stage reads and writes, on how many groups."""
        found = []
        for draft in self.memory.drafts:
            division = draft.division if draft.candidate else schedules[draft.op][1]
            *reads, writes = (value for _, value in draft.arguments)
            found.append(Use(tuple(reads), writes, division.groups if division else 1))
        return found

    def add(self, chain: Chain) -> None:
        """Append the stages of nodes that are fused: any one, and elementwise ones behind it."""
        nodes, first, behind = chain.finishing, chain.first, chain.finishing[1:]
        if first.op.kind in CONTRACTIONS:
            if first.name in self.layouts.fused:
                self._fused(chain)
                return
            made = self._product(first)
            if chain.pool is not None:
                self.memory.held[first.output] = [made]
                first, made = chain.pool, self._other(chain.pool)
        elif elementwise(first.op) is not None:
            self._elementwise(nodes, None)
            return
        else:
            made = self._other(first)
        self.memory.held[first.output] = [made]
        if behind:
            self._elementwise(nodes, made)

    def _other(self, node: Node) -> Located:
        self._hold_weights(node.inputs)
        return LOWERINGS[type(node.op)](self.memory, node, node.op)

    def _hold_weights(self, names: Iterable[str]) -> None:
        """Those of the tensors that are weights have a place: as C arrays."""
        for name in names:
            if name in self.weights and name not in self.memory.held:
                self.memory.held[name] = [self._tensor(name, row_major(self.weights[name].shape))]

    def finish(self) -> None:
        """The network's outputs as C arrays in values of their own."""
        self._hold_weights(self.network.outputs)
        for name in self.network.outputs:
            form = row_major(self.network.tensors[name].shape)
            located = self.memory.in_form(name, form)
            own = self.memory.values[located.value]
            if own.role == "scratch":
                self.memory.values[located.value] = replace(own, role="output")
            else:
                copy = self.memory.value(name, form, "output")
                self.memory.map(f"{name}_output", "layout", "x0", copy, (located,))
                located = copy
            self.outputs.append((name, located.value, form))

    def _tensor(self, name: str, form: Form) -> Located:
        """An activation or a weight in a form."""
        if name in self.weights:
            return self.memory.constant(("x0", (name,)), form, tuple(range(len(form.shape))))
        return self.memory.in_form(name, form)

    def _fused(self, chain: Chain) -> None:
        """Append the nodes as one product with an epilogue."""
        nodes, node, output = chain.nodes, chain.first, chain.output
        candidate = self.layouts.products[node.name]
        form = self.forms.of(candidate, constants=False)[candidate.seed.result]
        operands = self._product_operands(node, candidate)
        assert chain.request is not None
        beside = chain.request[1].beside
        reads = expressed(chain.finishing).reads[1:]
        for i, (read, (_, as_result)) in enumerate(zip(reads, beside, strict=True)):
            # a border belongs to the result alone
            own = unbordered(form) if isinstance(candidate, Bordered) else form
            place = self._tensor(read.tensors[0], own) if as_result else self._read(read)
            operands.append((operand_name(i), place.value))
        y = self.memory.value(output, form)
        self.memory.append(
            Draft(
                node.name,
                f"{node.op.describe()} {' '.join(n.op.kind for n in nodes[1:])}",
                "product",
                node.op,
                (*operands, (candidate.seed.result, y.value)),
                tuple(n.name for n in nodes),
                sum(n.op.flops for n in nodes),
                candidate,
                self._division(candidate, beside),
            )
        )
        self._fill(candidate, y)
        self.memory.held[output] = [y]

    def _product_operands(self, node: Node, candidate: Candidate) -> list[tuple[str, int]]:
        """The values of a product's own operands, in the forms that the candidate takes."""
        forms = self.forms.of(candidate)
        return [
            (tensor, self._tensor(name, forms[tensor]).value)
            for tensor, name in zip(candidate.seed.operands, node.inputs, strict=True)
        ]

    def _product(self, node: Node) -> Located:
        candidate = self.layouts.products[node.name]
        seed, forms = candidate.seed, self.forms.of(candidate)
        operands = self._product_operands(node, candidate)
        y = self.memory.value(node.output, forms[seed.result])
        self.memory.append(
            Draft(
                node.name,
                node.op.describe(),
                "product",
                node.op,
                (*operands, (seed.result, y.value)),
                (node.name,),
                node.op.flops,
                candidate,
                self._division(candidate),
            )
        )
        self._fill(candidate, y)
        return y

    def _fill(self, candidate: Candidate, y: Located) -> None:
        """Append what fills the border around a product's result, if it has one."""
        if isinstance(candidate, Bordered):
            self.memory.fill(self.memory.values[y.value].name, y)

    def _division(self, candidate: Candidate, beside: Sequence[Beside] = ()) -> Division | None:
        if not isinstance(candidate, Share):
            return None
        return candidate.division(self.forms.of(candidate), beside)

    def _elementwise(self, nodes: tuple[Node, ...], made: Located | None) -> None:
        """Elementwise nodes, behind what is `made` by the first of them if that is something else,
        as one stage that writes in the form that is wanted next.
        """
        found, last = expressed(nodes), nodes[-1]
        operands = self._operands(found, made)
        shape = last.op.out_shape
        full = [o for o in operands if o.form.shape == shape]
        own = unbordered(full[0].form) if full else row_major(shape)
        y = self.memory.value(last.output, self.layouts.forms.get(last.output) or own)
        work: Work = "layout" if found.scalar == Element(0) else "elementwise"
        nodes = nodes if made is None else nodes[1:]
        self.memory.map(
            last.name,
            work,
            str(found.scalar),
            y,
            operands,
            nodes=tuple(n.name for n in nodes),
            label=" ".join(n.op.kind for n in nodes),
            flops=sum(n.op.flops for n in nodes),
        )
        self.memory.held[last.output] = [y]

    def _operands(self, found: Expressed, made: Located | None) -> list[Located]:
        first = [] if made is None else [made]
        return first + [self._read(read) for read in found.reads[len(first) :]]

    def _read(self, read: Read) -> Located:
        if read.made is not None or read.tensors[0] in self.weights:
            shape = self.weights[read.tensors[0]].shape
            made = (read.made or "x0", read.tensors)
            return self.memory.constant(made, row_major(shape), read.axes)
        return replace(self.memory.held[read.tensors[0]][0], axes=read.axes)


def _drafted(variant: Variant, layouts: Layouts, forms: Forms) -> _Builder:
    builder = _Builder(variant, layouts, forms)
    for chain in variant.chains:
        builder.add(chain)
    builder.finish()
    return builder


def _schedules(ops: Sequence[Op], machine: Machine, steps: Steps, *, divide: bool) -> Schedules:
    """The schedule of each mapping and reduction, of a group's share where that is faster."""
    found: Schedules = {op: (c, None) for op, c in ranked_stages(ops, machine, steps).items()}
    for op, part in (ranked_parts(ops, machine) if divide else {}).items():
        if part[0].cycles < found[op][0].cycles:
            found[op] = part
    return found


def _plan(
    builder: _Builder, schedules: Schedules, machine: Machine, groups: int, least: float
) -> Plan:
    memory = builder.memory
    return Plan(
        builder.network.name,
        machine,
        memory.dtype,
        groups,
        tuple(memory.values),
        tuple(
            d.stage(*((d.candidate, d.division) if d.candidate else schedules[d.op]))
            for d in memory.drafts
        ),
        tuple(builder.inputs),
        tuple(builder.outputs),
        least,
        builder.choice,
        builder.ahead,
    )


def _require_room(builder: _Builder, schedules: Schedules, machine: Machine) -> None:
    """Everything that lives at once has to fit the memory of a group, the arena's gaps too."""
    memory = builder.memory
    uses = builder.uses(schedules)
    scratch = lives_of(memory.values, uses)
    lasting = {
        number: Life(value.size_bytes, 0, len(uses))
        for number, value in enumerate(memory.values)
        if value.role != "scratch"
    }
    lives = [(memory.values[number].name, life) for number, life in (lasting | scratch).items()]
    needed = place(scratch)[1] + sum(life.size_bytes for life in lasting.values())
    refuse_crowded(builder.network, lives, machine, needed)
