"""The plan of a network on any machine with explicit programs: nodes in, stages out.

A tensor is held in one form; who needs another gets a copy. Elementwise operators and changes of
layout are one kind of stage, so that what follows a product writes at once in the form that the
next product reads. Operators without a lowering are refused before anything is searched for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from math import ceil

from tilewright.common.errors import CapacityError
from tilewright.common.progress import Progress, silent
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.images import batch_of
from tilewright.machine import Machine
from tilewright.network.plan import Plan, Schedules
from tilewright.network.planning.builder import Builder, drafted
from tilewright.network.planning.epilogues import saved_cycles
from tilewright.network.planning.layouts import WholeNetwork, nearest
from tilewright.network.planning.planner import Planner, Programs
from tilewright.network.planning.products import Ranked, one_group, ranked_products
from tilewright.network.planning.together import ranked_shares
from tilewright.network.planning.variants import Variant
from tilewright.network.requirements import (
    own_part,
    require_lowered,
    require_room,
    within_memory,
)
from tilewright.network.results import LayoutChoice
from tilewright.network.search import BY_THE_MODEL, Search


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
    """The plan of one group's part of the network, every stage with its schedule; `ranked` are its
    products where they are known, `planner` is what the family adds.

    Raises GraphError for operators without a lowering and for mixed element types, before any
    search, CapacityError where values exceed main memory or no schedule fits.
    """
    ranked = ranked or rank_network(network, machine, search, progress=progress)
    alone = ranked.images == 1
    part = within_memory(network, machine) if alone else own_part(network, machine)[0]
    options = [ranked.together(machine.groups.count), ranked] if ranked.shares else [ranked]
    drafts, known = list[Builder](), Schedules()
    planner = planner or Programs(machine)
    for own, variant in product(options, planner.variants(part, fuse=fuse)):
        # products alone may already take longer than a whole plan
        if all(own.least_cycles(part) < b.cycles(known, machine) for b in drafts):
            divide = bool(ranked.shares)
            found = _cheapest(variant, own, machine, planner, known, progress, divide=divide)
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
    progress: Progress,
    *,
    divide: bool,
) -> Builder:
    """The cheaper plan of that with the fastest candidate of every product and of that with layouts
    chosen for the whole; `own` are the products to choose from. Other work is divided over the
    groups if they may `divide` it; what is found out is added to what is `known`.
    """
    part, chains, forms = variant.network, variant.chains, planner.forms
    requests = [chain.request for chain in chains if chain.request is not None]
    epilogues = planner.epilogues(requests, own)
    progress("lay out", 0, 3)
    found = [nearest(part, chains, own, epilogues, planner)]
    progress("lay out", 1, 3)
    whole = WholeNetwork(part, chains, own, epilogues, planner, machine)
    found.append(whole.cheapest())
    progress("lay out", 2, 3)
    drafts = [drafted(variant, layouts, forms, planner) for layouts in found]
    progress("lay out", 3, 3)
    for builder in drafts:
        if not planner.views:
            builder.read_inside(one_group(machine))
        if own.shared:
            builder.divide(machine)
    ops = [d.op for builder in drafts for d in builder.memory.drafts if d.scheduled is None]
    new, steps = [op for op in ops if op not in known], partial(progress, "schedule")
    known |= planner.scheduled(new, steps, divide=divide)
    cycles = [builder.cycles(known, machine) for builder in drafts]
    best = drafts[cycles.index(min(cycles))]
    best.saved_cycles = saved_cycles(requests, own, epilogues)
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
    """True if the tensors that live at the same time fit one group's memory."""
    try:
        require_room(network, machine)
    except CapacityError:
        return False
    return True
