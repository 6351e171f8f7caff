"""The plan of a network on any machine with explicit programs: nodes in, stages out.

A `_Builder` appends the draft stages of one fused node after the other, given the form of each
tensor and the candidate of each product (`network.planning.layouts`). With the schedules of all
other work, it prices the drafts and turns them into a plan.

A tensor is held in one form; a consumer that needs another form gets a copy. Elementwise operators
and layout changes are one kind of stage, so a stage after a product can write directly in the form
that the next product reads. Operators without a lowering are refused before any search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import ceil

from tilewright.common.dtypes import main_type
from tilewright.common.errors import CapacityError
from tilewright.common.progress import Progress, silent
from tilewright.graph.graph import Network, Node, State
from tilewright.graph.rewrites.fusion import is_elementwise
from tilewright.graph.rewrites.images import batch_of
from tilewright.graph.rewrites.over_groups import alike_in_groups
from tilewright.ir.scalar import Element
from tilewright.machine import Machine
from tilewright.network.plan import (
    Plan,
    Scheduled,
    Schedules,
    Work,
    lives_of,
    overwritable,
    use_of,
)
from tilewright.network.planning.arena import Life, place
from tilewright.network.planning.bordered import Bordered, JoinedPart, joined_parts, parts_written
from tilewright.network.planning.copies import (
    compose,
    copying_cycles,
    least_stage_cycles,
    pairs_of,
    without_copies,
)
from tilewright.network.planning.epilogues import Expressed, Read, expressed, saved_cycles
from tilewright.network.planning.form import Form, row_major
from tilewright.network.planning.forms import Forms
from tilewright.network.planning.layouts import Layouts, NodeChain, WholeNetwork, fastest_of_each
from tilewright.network.planning.lowering import lowered
from tilewright.network.planning.memory import (
    Draft,
    Heading,
    Located,
    PlannedMemory,
    given_form,
    unbordered,
)
from tilewright.network.planning.pieces import Beside, Pieces, Share
from tilewright.network.planning.planner import Planner
from tilewright.network.planning.products import (
    Ranked,
    answered,
    asked_products,
    one_group,
    products_of,
    refilled,
    steady,
)
from tilewright.network.planning.together import asked_shares, parts_of_all, shares_of
from tilewright.network.planning.variants import Variant
from tilewright.network.plans import BY_THE_MODEL, Search
from tilewright.network.requirements import (
    own_part,
    refuse_crowded,
    require_lowered,
    require_no_look_ups,
    require_room,
    within_memory,
)
from tilewright.network.results import LayoutChoice
from tilewright.network.waits import StageUse, cycles_before, meetings
from tilewright.ops import CONTRACTIONS, Op
from tilewright.seeds.space import operand_name
from tilewright.tune.candidate import Candidate
from tilewright.tune.refills import Refills


def build_plan(
    network: Network,
    machine: Machine,
    search: Search = BY_THE_MODEL,
    *,
    fuse: bool = True,
    ranked: Ranked | None = None,
    planner: Planner | None = None,
    progress: Progress = silent,
) -> Plan:
    """The plan of one group's part of the network, every stage with its schedule.

    `ranked` holds the products' candidates if already known; `planner` is the family's. Raises
    GraphError before any search for operators without a lowering and for mixed element types, and
    CapacityError where values exceed main memory or no schedule fits.
    """
    ranked = ranked or rank_network(network, machine, search, progress=progress)
    alone = ranked.images == 1
    part = within_memory(network, machine) if alone else own_part(network, machine)[0]
    options = [ranked.together(machine.groups.count), ranked] if ranked.shares else [ranked]
    drafts, known, refills = list[_Builder](), Schedules(), Refills(one_group(machine))
    planner = planner or Planner(machine)
    for own, variant in product(options, planner.variants(part, fuse=fuse)):
        # products alone may already take longer than a complete plan
        if all(own.least_cycles(part) < b.cycles(known, machine) for b in drafts):
            divide = bool(ranked.shares)
            found = _cheapest(
                variant, own, machine, planner, known, refills, progress, divide=divide
            )
            drafts.append(found)
    best = min(drafts, key=lambda builder: builder.cycles(known, machine))
    least = options[0].least_cycles(part) - max(builder.saved_cycles for builder in drafts)
    return best.plan(known, machine, ranked.images, least)


def _cheapest(
    variant: Variant,
    own: Ranked,
    machine: Machine,
    planner: Planner,
    known: Schedules,
    refills: Refills,
    progress: Progress,
    *,
    divide: bool,
) -> _Builder:
    """The cheaper of two drafts: the fastest candidate of every product, and layouts chosen for the
    whole network. `own` holds the products' candidates. With `divide`, groups may divide the other
    work. Schedules found are added to `known`.
    """
    part, chains, forms = variant.network, variant.chains, planner.forms
    requests = [chain.request for chain in chains if chain.request is not None]
    epilogues = planner.epilogues(requests, own)
    progress("lay out", 0, 3)
    found = [fastest_of_each(part, chains, own, epilogues, planner)]
    progress("lay out", 1, 3)
    whole = WholeNetwork(part, chains, own, epilogues, planner, machine, refills)
    found.append(whole.cheapest())
    progress("lay out", 2, 3)
    drafts = [drafted(variant, layouts, forms, planner) for layouts in found]
    progress("lay out", 3, 3)
    for builder in drafts:
        if not planner.views:
            builder.write_rows(planner)
            least = partial(copying_cycles, builder.memory, machine, own.groups)
            builder.without_copies(planner, least)
        if own.shared:
            builder.divide(machine)
    fastest, best = drafts
    scheduled = partial(_schedule, known=known, planner=planner, refills=refills, machine=machine)
    scheduled(best, progress=progress, divide=divide)
    cycles, groups = best.cycles(known, machine), machine.groups.count if divide else 1
    if planner.views or least_stage_cycles(fastest.memory, known, machine, groups) <= cycles:
        scheduled(fastest, progress=progress, divide=divide)
        best = min(drafts, key=lambda builder: builder.cycles(known, machine))
    best.saved_cycles = saved_cycles(requests, own, epilogues)
    if chosen := found[-1].choice:
        cost, bound = ceil(chosen.cost), ceil(chosen.bound)
        taken = cycles <= best.cycles(known, machine)
        best.choice = LayoutChoice(cost, bound, chosen.proven, taken)
    return best


def _schedule(
    builder: _Builder,
    known: Schedules,
    planner: Planner,
    refills: Refills,
    machine: Machine,
    progress: Progress,
    *,
    divide: bool,
) -> None:
    """Add to `known` the schedules of a draft's other work, and price its refills."""
    ops = {d.op: d.name for d in reversed(builder.memory.drafts) if d.scheduled is None}
    steps = partial(progress, "schedule")

    def own_cycles(draft: Draft) -> float:
        return (draft.scheduled or known[draft.op]).cycles

    while ops:
        if new := {op: name for op, name in ops.items() if op not in known}:
            known |= planner.scheduled(new, steps, divide=divide)
        builder.without_copies(planner, own_cycles)
        builder.compose(known)
        ops = {op: d.name for d, _, op in pairs_of(builder.memory) if op not in known}
    builder.refill(refills)
    if planner.alone:
        builder.leave_whole(known, planner.alone, machine)


def rank_network(
    network: Network,
    machine: Machine,
    search: Search = BY_THE_MODEL,
    *,
    progress: Progress = silent,
) -> Ranked:
    """Ranked candidates of all products: of the part that each group runs on its own images, or of
    the whole network where no group has several images and working together is faster. Raises as
    `build_plan` does.
    """
    require_lowered(network, machine)
    require_no_look_ups(network)
    part, used = own_part(network, machine)
    require_room(part, machine)
    groups, alone, choosing = machine.groups.count, used == 1, partial(progress, "choose")
    asked = [asked_products(part, machine, search, images=used)]
    if groups == 1 or not (alone or (batch_of(part) == 1 and _has_room(network, machine))):
        (rankings,) = answered(asked, machine, search.keep, choosing)
        ranked = products_of(part, machine, search, asked[0], rankings, images=used)
        return steady(ranked, machine)
    if not alone:
        asked.append(asked_products(network, machine, search, images=1))
    pieces, of_shares = asked_shares([op for _, op in network.layers()], machine, search)
    own, *others, shared = answered([*asked, of_shares], machine, search.keep, choosing)
    ranked = products_of(part, machine, search, asked[0], own, images=used)
    whole = ranked
    for rankings in others:
        whole = products_of(network, machine, search, asked[1], rankings, images=1)
    whole = steady(replace(whole, shares=shares_of(pieces, shared, machine)), machine)
    together = whole.together(groups).least_cycles(network)
    if alone or together < ranked.least_cycles(part):  # refills only add to the latter
        return whole
    ranked = steady(ranked, machine)
    return whole if together < ranked.least_cycles(part) else ranked


def _has_room(network: Network, machine: Machine) -> bool:
    """True if the tensors that live at the same time fit one group's memory."""
    try:
        require_room(network, machine)
    except CapacityError:
        return False
    return True


class _Builder:
    """Appends the draft stages of one fused node after the other, following `layouts`."""

    def __init__(self, variant: Variant, layouts: Layouts, forms: Forms, planner: Planner) -> None:
        network = variant.network
        self.types = {t.name: t.dtype for t in network.tensors.values()}
        self.network, self.layouts, self.forms = network, layouts, forms
        self.ahead = variant.ahead
        self.weights = {t.name: t for t in network.weights}
        kind = main_type(self.types.values())
        views, aligned = layouts.forms if planner.views else None, planner.gathers_channels
        self.memory = PlannedMemory(kind, views, self.types, aligned=aligned, fills=planner.fills)
        self.inputs, self._arranges = [], planner.arranges
        for t in network.inputs:
            form = given_form(t.shape, arranged=planner.arranges)
            located = self.memory.value(t.name, form, "input")
            self.memory.held[t.name] = [located]
            self.inputs.append((t.name, located.value))
        self.outputs: list[tuple[str, int, Form]] = []
        self.choice: LayoutChoice | None = None
        self.parts: list[JoinedPart] = []
        self.saved_cycles = 0.0  # by products that are faster than the best plain ones

    def cycles(self, schedules: Schedules, machine: Machine) -> float:
        """Modelled cycles of all stages, with the launch and waits before them."""
        drafts, before = self.memory.drafts, cycles_before(self.uses(schedules), machine.groups)
        own = ((d.scheduled or schedules[d.op]).cycles for d in drafts)
        return sum(own) + sum(sum(cycles.values()) for cycles in before)

    def leave_whole(self, schedules: Schedules, alone: Schedules, machine: Machine) -> None:
        """Leave to the first group `alone` what division saves less of than its meetings cost."""
        uses, meet_cycles = self.uses(schedules), machine.groups.meet_cycles
        meets = sum(meetings(uses))
        for number, draft in enumerate(self.memory.drafts):
            if draft.scheduled is not None or draft.op not in alone:
                continue
            found, before = alone[draft.op], uses[number]
            uses[number] = self._use(draft, found)
            fewer = meets - sum(meetings(uses))
            if found.cycles - schedules[draft.op].cycles < fewer * meet_cycles:
                self.memory.drafts[number] = replace(draft, scheduled=found)
                meets -= fewer
            else:
                uses[number] = before

    def refill(self, refills: Refills) -> None:
        """Price the cycles that products' routines add by evicting each other."""
        for number, draft in enumerate(self.memory.drafts):
            if draft.scheduled is not None:
                scheduled = refilled(draft.scheduled, refills)
                self.memory.drafts[number] = replace(draft, scheduled=scheduled)

    def uses(self, schedules: Schedules) -> list[StageUse]:
        """For each stage the values it reads and writes, and how many groups compute it."""
        return [self._use(d, d.scheduled or schedules[d.op]) for d in self.memory.drafts]

    def _use(self, draft: Draft, scheduled: Scheduled) -> StageUse:
        values, division = [value for _, value in draft.arguments], scheduled.division
        return use_of(self.memory.values, values, division.groups if division else 1)

    def add(self, chain: NodeChain) -> None:
        """Append the stages of a chain: its first node, and the elementwise nodes after it."""
        nodes, first, behind = chain.finishing, chain.first, chain.finishing[1:]
        if first.op.kind in CONTRACTIONS:
            if first.name in self.layouts.fused:
                self.memory.held[chain.output] = [self._product(chain.nodes, chain)]
                return
            made = self._product((first,))
            if chain.pool is not None:
                self.memory.held[first.output] = [made]
                first, made = chain.pool, self._other(chain.pool)
        elif is_elementwise(first.op):
            self._elementwise(nodes, None)
            return
        else:
            made = self._other(first)
        self.memory.held[first.output] = [made]
        if behind:
            self._elementwise(nodes, made)

    def _other(self, node: Node) -> Located:
        self._hold_weights(node.inputs)
        before = len(self.memory.values)
        self.memory.dtype = node.op.numerics.units.name
        made = lowered(self.memory, node, self.layouts.forms.get(node.output))
        if self.memory.views is not None and made.value >= before:
            self.memory.fill(node.output, made)
            held = [self.memory.held[name][0] for name in node.inputs]
            self.parts += joined_parts(node.op, held, made)
        return made

    def _hold_weights(self, names: Iterable[str]) -> None:
        """Place the named weights in memory as C arrays."""
        for name in names:
            if name in self.weights and name not in self.memory.held:
                self.memory.held[name] = [self._tensor(name, row_major(self.weights[name].shape))]

    def finish(self) -> None:
        """Give each output a value of its own: a C array unless the host accepts any form."""
        self._hold_weights(self.network.outputs)
        for name in self.network.outputs:
            form = row_major(self.network.tensors[name].shape)
            if self._arranges:
                form = self.memory.held[name][0].form
            located = self.memory.in_form(name, form)
            own = self.memory.values[located.value]
            if own.role == "scratch":
                self.memory.values[located.value] = replace(own, role="output")
            else:
                copy = self.memory.value(name, form, "output")
                self.memory.map(Heading(f"{name}_output", "layout"), "x0", copy, (located,))
                located = copy
            self.outputs.append((name, located.value, form))
        self._keep(self.network.states)

    def share(self) -> dict[int, Op]:
        """Mark the values that all groups see; returns the operators of their drafts, by number."""
        alike, values = alike_in_groups(self.network), self.memory.values
        for name, value in (*self.inputs, *((name, value) for name, value, _ in self.outputs)):
            if name in alike:
                values[value] = replace(values[value], shared=True)
        drafts = enumerate(self.memory.drafts)
        return {n: d.op for n, d in drafts if values[d.arguments[-1][1]].shared}

    def divide(self, machine: Machine) -> None:
        """Divide among the groups the drafts that write values which all groups see."""
        shared = self.share()
        schedules = parts_of_all([*shared.values()], machine)
        for number, op in shared.items():
            draft = self.memory.drafts[number]
            self.memory.drafts[number] = replace(draft, scheduled=schedules[op])

    def _keep(self, states: Iterable[State]) -> None:
        """Write a state's next value over the state where that is safe: the stage that computes it
        is a map that reads each element where it writes it, and no later stage reads the state.
        """
        values, drafts, kept = self.memory.values, self.memory.drafts, dict[int, int]()
        makers, last_readers = dict[int, list[int]](), dict[int, int]()
        for number, draft in enumerate(drafts):
            *read, written = (value for _, value in draft.arguments)
            makers.setdefault(written, []).append(number)
            last_readers.update(dict.fromkeys(read, number))
        given, made = dict(self.inputs), {name: value for name, value, _ in self.outputs}
        for state in states:
            before, after = given[state.tensor], made[state.next]
            last = last_readers.get(before)
            if makers.get(after) != [last] or values[before].form != values[after].form:
                continue
            maker = drafts[makers[after][0]]
            if before in overwritable(maker.op, [v for _, v in maker.arguments[:-1]]):
                values[before] = replace(values[before], role="state")
                kept[after] = before
        if kept:
            self._merged(kept)

    def take_arranged(self) -> None:
        """Let the host lay out an input as its only reader copies it, and drop the copy."""
        values, memory = self.memory.values, self.memory
        for name, _ in list(self.inputs):
            value = dict(self.inputs)[name]  # value numbers change with each merge
            match [d for d in memory.drafts if value in (v for _, v in d.arguments[:-1])]:
                case [Draft(arguments=(_, (_, copy)))]:
                    makers = [d for d in memory.drafts if d.arguments[-1][1] == copy]
                    alone = values[copy].role == "scratch"
                    if alone and all(d.work == "layout" for d in makers):
                        memory.drafts = [d for d in memory.drafts if d not in makers]
                        values[copy] = replace(values[copy], name=name, role="input")
                        self._merged({value: copy})

    def write_in_place(self, planner: Planner) -> None:
        """Let products write directly into tensors concatenated from their results."""
        self._merged(parts_written(self.memory, self.parts, planner.bordered))

    def write_rows(self, planner: Planner) -> None:
        """Let products write rows inside the borders of larger values."""
        self._merged(planner.rows_written(self.memory))

    def without_copies(self, planner: Planner, cycles: Callable[[Draft], float]) -> None:
        """Drop copies, priced by `cycles`, around products that can write or read in place."""
        for found in without_copies(self.memory, planner, cycles):
            self._merged(found)

    def compose(self, known: Schedules) -> None:
        """Fuse a map with the copy after it where `known` schedules show no loss."""
        while found := compose(self.memory, known):
            self._merged(found)

    def _merged(self, others: Mapping[int, int]) -> None:
        """Replace values by `others` in all stages, inputs and outputs."""
        moved = self.memory.merge(others)
        self.inputs = [(name, moved[v]) for name, v in self.inputs]
        self.outputs = [(name, moved[v], own) for name, v, own in self.outputs]

    def _tensor(self, name: str, form: Form) -> Located:
        """An activation or a weight in the given form."""
        if name in self.weights:
            return self.memory.constant(("x0", (name,)), form, tuple(range(len(form.shape))))
        return self.memory.in_form(name, form)

    def _product(self, nodes: Sequence[Node], fused: NodeChain | None = None) -> Located:
        """Append a product, with the rest of a `fused` chain as its epilogue."""
        node, *behind = nodes
        candidate = self.layouts.products[node.name]
        seed, forms = candidate.seed, self.forms.of(candidate)
        pairs = zip(seed.operands, node.inputs, strict=True)
        operands = [(tensor, self._tensor(name, forms[tensor]).value) for tensor, name in pairs]
        beside: tuple[Beside, ...] = ()
        if fused is not None and fused.request is not None:
            beside = fused.request[1].beside
            operands += self._operands_beside(fused, beside, candidate, forms[seed.result])
        y = self.memory.value(nodes[-1].output, forms[seed.result])
        pieces = candidate.pieces if isinstance(candidate, Share) else None
        made = self._parts_of(y, pieces) if pieces and pieces.partial else y
        label = " ".join((node.op.describe(), *(n.op.kind for n in behind)))
        names, flops = tuple(n.name for n in nodes), sum(n.op.flops for n in nodes)
        heading = Heading(node.name, "product", label, names, flops)
        arguments = (*operands, (seed.result, made.value))
        scheduled = self._scheduled(candidate, beside)
        self.memory.append(Draft(heading, node.op, arguments, scheduled))
        if pieces and pieces.partial:
            adding = Heading(f"{node.name}_sum", "elementwise")
            self.memory.mapped(adding, pieces.adding, y, [made] * pieces.count)
        self._fill(candidate, y)
        return y

    def _parts_of(self, y: Located, pieces: Pieces) -> Located:
        """New memory for the groups' partial results, one after the other."""
        own = self.memory.values[y.value]
        made = self.memory.value(f"{own.name}_parts", row_major(pieces.adding.input_shapes[0]))
        self.memory.values[made.value] = replace(self.memory.values[made.value], dtype=own.dtype)
        return made

    def _operands_beside(
        self, chain: NodeChain, beside: Sequence[Beside], candidate: Candidate, form: Form
    ) -> Iterator[tuple[str, int]]:
        """(tensor name, value) of each further operand of the epilogue, whose result has `form`."""
        reads = expressed(chain.finishing).reads[1:]
        for i, (read, (_, as_result)) in enumerate(zip(reads, beside, strict=True)):
            own = candidate.beside if isinstance(candidate, Bordered) else form
            place = self._tensor(read.tensors[0], own) if as_result else self._operand_of(read)
            yield operand_name(i), place.value

    def _fill(self, candidate: Candidate, y: Located) -> None:
        """Append the stage that fills the border around a product's result, if it has one."""
        if isinstance(candidate, Bordered):
            self.memory.fill(self.memory.values[y.value].name, y)

    def _scheduled(self, candidate: Candidate, beside: Sequence[Beside] = ()) -> Scheduled:
        if isinstance(candidate, Share):
            division = candidate.division(self.forms.of(candidate), beside)
            return Scheduled(candidate.cycles - candidate.adding_cycles, candidate, division)
        return Scheduled(candidate.cycles, candidate)

    def _elementwise(self, nodes: tuple[Node, ...], made: Located | None) -> None:
        """Append elementwise nodes as one stage that writes the form wanted next. `made` is the
        result of the chain's first node where that is not elementwise.
        """
        found, last = expressed(nodes), nodes[-1]
        self.memory.dtype = last.op.numerics.units.name
        operands = self._operands(found, made)
        shape = last.op.out_shape
        full = [o for o in operands if o.form.shape == shape]
        form = self.layouts.forms.get(last.output)
        own = unbordered(full[0].form) if full else row_major(shape)
        y = self.memory.value(last.output, form or own)
        work: Work = "layout" if found.scalar == Element(0) else "elementwise"
        nodes = nodes if made is None else nodes[1:]
        label, flops = " ".join(n.op.kind for n in nodes), sum(n.op.flops for n in nodes)
        heading = Heading(last.name, work, label, tuple(n.name for n in nodes), flops)
        self.memory.map(heading, str(found.scalar), y, operands)
        self.memory.held[last.output] = [y]

    def _operands(self, found: Expressed, made: Located | None) -> list[Located]:
        operands = []
        for i, read in enumerate(found.reads):
            if i == 0 and made is not None:
                operands.append(made)
            else:
                operands.append(self._operand_of(read))
        return operands

    def _operand_of(self, read: Read) -> Located:
        first = read.tensors[0]
        if self.weights.keys() >= set(read.tensors):
            made = (read.made or "x0", read.tensors)
            return self.memory.constant(made, row_major(self.weights[first].shape), read.axes)
        if read.made is None:
            return replace(self.memory.held[first][0], axes=read.axes)
        self._hold_weights(read.tensors)
        operands = [self.memory.held[name][0] for name in read.tensors]
        y = self.memory.value(f"{first}_made", row_major(operands[0].form.shape))
        self.memory.map(Heading(f"{first}_made", "elementwise"), read.made, y, operands)
        return replace(y, axes=read.axes)

    def plan(self, schedules: Schedules, machine: Machine, groups: int, least: float) -> Plan:
        """The plan of one of `groups` groups; its products take at least `least` cycles.

        Raises CapacityError where values that live at once exceed a group's memory.
        """
        self._require_room(schedules, machine)
        drafts = self.memory.drafts
        return Plan(
            self.network.name,
            machine,
            main_type(self.types.values()),
            groups,
            tuple(self.memory.values),
            tuple(d.stage(d.scheduled or schedules[d.op]) for d in drafts),
            tuple(self.inputs),
            tuple(self.outputs),
            least,
            self.choice,
            self.ahead,
        )

    def _require_room(self, schedules: Schedules, machine: Machine) -> None:
        """Raise CapacityError unless what lives at once fits a group's memory, gaps included."""
        values, uses = self.memory.values, self.uses(schedules)
        scratch = lives_of(values, uses)
        lasting = {
            number: Life(value.size_bytes, 0, len(uses))
            for number, value in enumerate(values)
            if value.role not in ("scratch", "elsewhere")
        }
        lives = [(values[number].name, life) for number, life in (lasting | scratch).items()]
        needed = place(scratch)[1] + sum(life.size_bytes for life in lasting.values())
        refuse_crowded(self.network, lives, machine, needed)


def drafted(variant: Variant, layouts: Layouts, forms: Forms, planner: Planner) -> _Builder:
    """All draft stages of one variant of the network."""
    builder = _Builder(variant, layouts, forms, planner)
    for chain in variant.chains:
        builder.add(chain)
    builder.finish()
    if planner.views:
        builder.write_in_place(planner)
    if planner.arranges:
        builder.take_arranged()
    return builder
