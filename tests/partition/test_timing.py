"""Time of plans, by busiest links and on one clock, and tiles that do not fit."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.routes import route
from tilewright.common.errors import PartitionError
from tilewright.graph import network
from tilewright.machine import load_machine
from tilewright.machine.messages import hops_to
from tilewright.machine.parts import Fabric
from tilewright.ops.box import Box
from tilewright.partition.clock import finish_cycles
from tilewright.partition.compiled import _hops, arrivals, busiest_links, busiest_sums
from tilewright.partition.grids import Grids, balanced, parts_in
from tilewright.partition.layers import layers_of
from tilewright.partition.moves import Move, held, moves_to, needs
from tilewright.partition.objective import TIME, Weights, core_model
from tilewright.partition.plan import fixed_plan, given_plan, space
from tilewright.partition.strategies import find_strategy
from tilewright.partition.timing import layer_times, layer_traffic, link_loads

MACHINE = load_machine("bwdsp-56")
MODEL = core_model(MACHINE, "f32")
MULTICAST = core_model(load_machine("bwdsp-56", {"fabrics.grid.multicast": "path"}), "f32")
VGG = layers_of(network("vgg16", 1, dtype="f32"))
LENET = layers_of(network("lenet5", 1, dtype="f32"))


@pytest.mark.parametrize(
    ("source", "target", "links"),
    [
        (0, 3, ((0, 1), (1, 2), (2, 3))),
        (17, 8, ((17, 16), (16, 8))),
        (9, 9, ()),
    ],
)
def test_messages_go_along_rows_first(source, target, links):
    assert route(MODEL.fabric, source, target) == links


def test_a_way_passes_places_without_a_core_in_use():
    """Core 14 of 15 in rows of eight sends its two values to core 7: over place 15."""
    owned = np.zeros((1, 15, 1, 2), np.int64)
    need = owned.copy()
    owned[0, 14, 0], need[0, 7, 0] = (0, 2), (0, 2)
    busiest, farthest = busiest_links(owned, owned, need, (7, 8, 0), False)
    assert (busiest.item(), farthest.item()) == (2, len(route(MODEL.fabric, 14, 7)))


@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize("number", [3, 4])
def test_partial_sums_pass_the_links_of_messages(number, multicast):
    """Each grid's are those of an exchange of it alone, however its cells are turned."""
    layer, cores = VGG[number], 56
    counts = [[1], [1, 2, 5], [1, 3], [1], [2, 3, 8], [1, 3], [1]]
    extents = (*layer.shape, *layer.op.terms)
    cuts = [[balanced(n, k) for k in own] for n, own in zip(extents, counts, strict=True)]
    grids = Grids.products(len(layer.shape), cuts, cores, turned=True)
    assert grids.turned.any()
    parts = parts_in(grids)
    have, finish = np.zeros((2, len(grids), cores, len(layer.shape), 2), np.int64)
    have[parts.grid, parts.core], finish[parts.grid, parts.core] = parts.region, parts.kept
    sizes = (7, 8, 0)
    found = busiest_sums(have, finish, sizes, multicast)
    for one, (busiest, farthest) in enumerate(zip(*found, strict=True)):
        own, to = have[one : one + 1], finish[one : one + 1]
        assert (busiest, farthest) == busiest_links(own, np.zeros_like(to), to, sizes, multicast)


@given(
    st.lists(
        st.tuples(st.integers(0, 55), st.sets(st.integers(0, 55), min_size=1), st.integers(1, 99)),
        max_size=5,
    ),
    st.sampled_from([MODEL, MULTICAST]),
)
@settings(max_examples=40)
def test_loads_of_links_are_what_each_message_carries_over_its_route(sent, model):
    """Out of its core's port, into its target's; what several take goes once over each."""
    loads, longest = Counter(), 0
    for source, targets, values in sent:
        ways = [route(model.fabric, source, target) for target in targets]
        passed = [[(source, source), *way, (t, -1)] for t, way in zip(targets, ways, strict=True)]
        one = Counter(link for way in passed for link in way)
        loads.update({link: values * (1 if model.multicasts else n) for link, n in one.items()})
        longest = max(longest, *map(len, ways))
    moves = [Move(source, tuple(to), Box.whole((n,))) for source, to, n in sent]
    assert link_loads(model, moves) == (loads, longest)


def test_the_time_of_a_layer_by_hand():
    """conv1_2 in strips of four rows: both halos of a core, 2 x 224 x 64 values of 4 bytes, go
    through its port at 8 bytes a cycle; strips of neighbouring rows of cores are 8 links apart.
    """
    plan = fixed_plan(VGG[:2], 56, "output_tiles")
    _, second = layer_times(plan, MODEL)
    assert second.compute_cycles == 2 * 64 * 64 * 9 * 4 * 224 / 32
    assert second.busiest_link_bytes == 2 * 224 * 64 * 4
    assert second.exchange_cycles == 20 + 8 * 2 + second.busiest_link_bytes / 8
    assert second.weights_cycles == 200 + 56 * (64 * 64 * 9 + 64) * 4 / 16
    assert second.messages == 110
    assert second.steps_cycles == 2064384 + 14372 + 517192


@pytest.mark.parametrize("strategy", ["input_rows", "output_tiles"])
def test_the_traffic_of_a_layer_is_what_its_messages_carry_and_its_cores_do(strategy):
    """A layer of pools in the rows of what it reads has work and no traffic."""
    plan = fixed_plan(LENET, 5, strategy, MODEL)
    for planned, exchanges, found in zip(
        plan.layers, plan.exchanges, layer_traffic(plan, MODEL), strict=True
    ):
        sent, received = Counter(), Counter()
        for move in (move for moves in exchanges.each for move in moves):
            sent[move.source] += MODEL.value_bytes * move.values
            received.update(dict.fromkeys(move.targets, MODEL.value_bytes * move.box.size))
        work = dict(zip(planned.cores, planned.shares, strict=True))
        busy = sorted({*(core for core in work if work[core]), *sent, *received})
        assert [
            (one.core, one.work, one.sent_bytes, one.received_bytes) for one in found.cores
        ] == [(core, work.get(core, 0.0), sent[core], received[core]) for core in busy]
        loaded = planned.volume.inputs + planned.volume.weights
        assert sum(one.loaded_bytes for one in found.cores) == MODEL.value_bytes * loaded


GRIDS = [[*find_strategy("products").grids(layer, 15)] for layer in LENET[:6]]


@settings(max_examples=8)
@given(data=st.data(), model=st.sampled_from([MODEL, MULTICAST]))
def test_the_planner_counts_the_cycles_and_values_of_the_messages(data, model):
    choices = [("products", data.draw(st.sampled_from(grids))) for grids in GRIDS]
    plan = given_plan(LENET[:6], 15, choices, model, TIME)
    assert plan.cost == pytest.approx(sum(t.steps_cycles for t in layer_times(plan, model)))
    made, sent = {}, 0
    for planned in plan.layers:
        for name, wanted in needs(planned.layer, planned.division).items():
            for move in moves_to(made[name], wanted) if name in made else ():
                sent += move.box.size if model.multicasts else move.values
        made[planned.layer.output] = held(planned.division)
    assert plan.volume.activations == sent


def test_the_fastest_plan_is_between_its_bound_and_the_plan_of_least_traffic():
    traffic = space(LENET, 15, model=MODEL).best()
    fastest = space(LENET, 15, TIME, model=MODEL).best()
    both = space(LENET, 15, Weights(cycles=4.0), model=MODEL).best()
    cycles = [sum(t.steps_cycles for t in layer_times(p, MODEL)) for p in (fastest, both, traffic)]
    assert fastest.bound <= fastest.cost == pytest.approx(cycles[0])
    assert cycles[0] < cycles[1] < cycles[2]
    values = [p.volume.activations + p.volume.weights + p.volume.sums for p in (both, traffic)]
    assert both.cost == pytest.approx(values[0] + 4 * cycles[1])
    assert traffic.cost == values[1] < values[0]
    for plan in (fastest, both):
        assert plan.cost <= 1.011 * plan.bound


def test_multicast_sends_what_several_take_once():
    unicast, multicast = (fixed_plan(VGG[-4:], 56, "output_tiles", m) for m in (MODEL, MULTICAST))
    fc7 = unicast.layers[1].volume, multicast.layers[1].volume
    assert [volume.activations for volume in fc7] == [55 * 4096, 4096]
    assert [volume.weights for volume in fc7] == [4096 * 4096 + 4096] * 2


@pytest.mark.parametrize("layer", [LENET[0], LENET[-1]], ids=["computes", "loads"])
def test_a_core_computes_from_when_its_first_values_come_and_ends_when_it_has_all(layer):
    plan = fixed_plan([layer], 1, "whole")
    (time,) = layer_times(plan, MODEL)
    volume = plan.layers[0].volume
    loaded = (volume.inputs + volume.weights) / MODEL.load_values_per_cycle
    assert finish_cycles(plan, MODEL, overlapped=True) == pytest.approx(
        [MODEL.load_latency_cycles + max(time.compute_cycles, loaded)]
    )


def test_one_core_is_never_faster_overlapped_than_it_computes_and_loads():
    plan = fixed_plan(LENET, 1, "whole")
    times = layer_times(plan, MODEL)
    steps = finish_cycles(plan, MODEL, overlapped=False)
    assert steps[-1] == pytest.approx(sum(time.steps_cycles for time in times))
    last = finish_cycles(plan, MODEL, overlapped=True)[-1]
    assert sum(time.compute_cycles for time in times) < last < steps[-1]


def test_on_the_clock_links_are_shared_and_barriers_cost():
    plan = fixed_plan(VGG[:4], 56, "output_tiles")
    by_links = sum(time.steps_cycles for time in layer_times(plan, MODEL))
    steps = finish_cycles(plan, MODEL, overlapped=False)
    overlapped = finish_cycles(plan, MODEL, overlapped=True)
    assert steps == sorted(steps)
    assert overlapped == sorted(overlapped)
    assert overlapped[-1] < steps[-1]
    assert steps[-1] == pytest.approx(by_links, rel=0.02)


def test_a_message_waits_for_its_links():
    """Cores 1 and 2 of a row send all of theirs to core 0: the second finds the link taken."""
    (layer,) = (layer for layer in LENET if layer.name == "s4")
    grids = {grid.cells: grid for grid in find_strategy("rows").grids(layer, 5)}
    before = [LENET[2]]
    three = next(g for g in find_strategy("rows").grids(before[0], 3) if g.cells == 3)
    plan = given_plan([*before, layer], 56, [("rows", three), ("rows", grids[1])], MODEL)
    first, last = finish_cycles(plan, MODEL, overlapped=False)
    sent = [part.kept.size for part in plan.layers[0].division.parts[1:]]
    link = MODEL.link_values_per_cycle
    assert last - first > sum(sent) / link + layer.op.flops / MODEL.flops_per_cycle


def test_a_tile_that_does_not_fit_is_refused_with_the_smallest_grid_that_does():
    fixed_plan(VGG, 56, "output_tiles", MODEL)
    with pytest.raises(
        PartitionError,
        match=r"^layer conv1_1: a core's part of a 1x1x56x1 grid takes 229376 bytes, a buffer has "
        r"131072; the smallest grid that fits is 1x2x7x7: 98 cores$",
    ):
        fixed_plan(VGG, 56, "output_tiles", replace(MODEL, buffer_values=32_768))


def test_weights_of_two_output_channels_lie_beside_the_input():
    """fc6 on 56 cores: 25 088 inputs, and as many weights for each of two outputs."""
    (fc6,) = (layer for layer in VGG if layer.name == "fc6")
    enough = replace(MODEL, buffer_values=3 * 25_088)
    fixed_plan([fc6], 56, "output_tiles", enough)
    with pytest.raises(
        PartitionError,
        match=r"^layer fc6: a core's part of a 1x56 grid takes 301056 bytes, a buffer has 301052; "
        r"the smallest grid that fits is 1x1 sums 2x1x1: 2 cores; take another strategy, or let "
        r"the planner choose$",
    ):
        fixed_plan([fc6], 56, "output_tiles", replace(MODEL, buffer_values=3 * 25_088 - 1))


def test_the_planner_takes_only_what_fits():
    """Sums that are divided need less of the input in one place."""
    (fc6,) = (layer for layer in VGG if layer.name == "fc6")
    plan = space([fc6], 56, model=replace(MODEL, buffer_values=3 * 25_088 - 1)).best()
    assert plan.layers[0].division.partial


def test_what_a_core_keeps_itself_is_not_sent_to_it():
    owned, kept, need = np.zeros((3, 1, 2, 1, 2), np.int64)
    owned[0, 0, 0], kept[0, 1, 0], need[0, 1, 0] = (0, 4), (2, 5), (0, 4)
    busiest, _ = busiest_links(owned, kept, need, (1, 2, 0), False)
    assert busiest.item() == 2


@pytest.mark.parametrize(("topology", "rings"), [("mesh", 0), ("ring_mesh", 1), ("torus", 3)])
@pytest.mark.parametrize(("rows", "columns"), [(1, 6), (4, 4), (2, 3)])
def test_links_of_messages_are_those_of_their_routes(topology, rings, rows, columns):
    """Each core sends its value to the one as far behind as the last is from the first."""
    fabric, cores = Fabric(topology, 1.0, rows=rows, columns=columns), rows * columns
    owned = np.stack([np.arange(cores), np.arange(1, cores + 1)], -1)[None, :, None]
    for away in range(1, cores):
        need = np.roll(owned, away, axis=1)
        routes = [route(fabric, (core - away) % cores, core) for core in range(cores)]
        loads = Counter(link for one in routes for link in one)
        found = busiest_links(owned, owned, need, (rows, columns, rings), False)
        assert [n.item() for n in found] == [max(loads.values()), max(map(len, routes))]


@pytest.mark.parametrize(("topology", "ring"), [("mesh", False), ("torus", True)])
@pytest.mark.parametrize("length", [1, 2, 5, 6])
def test_steps_along_a_column_are_those_of_the_fabric(topology, ring, length):
    fabric = Fabric(topology, 1.0, rows=length, columns=1)
    for source, target in np.ndindex(length, length):
        assert _hops.py_func(source, target, length, ring) == hops_to(fabric, source, target)[1]


MESSAGES = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.lists(st.sampled_from(range(6)), min_size=1, max_size=4, unique=True),
        st.integers(1, 9),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(MESSAGES)
def test_a_message_takes_its_hops_and_who_comes_first_takes_a_link_first(messages):
    """Against lists of who has held each link; hops of link number n take 2^n cycles."""
    links = [link for _, path, _, _ in messages for link in path]
    found = arrivals(
        np.array([leaves for leaves, *_ in messages], float),
        np.cumsum([len(path) for _, path, _, _ in messages]),
        np.array(links), 2.0 ** np.array(links), np.arange(len(links)),
        np.array([spacing for *_, spacing, _ in messages], float),
        np.array([lasting for *_, lasting in messages], float),
        np.zeros(6),
    )  # fmt: skip
    free, expected = dict.fromkeys(range(6), 0), {}
    under_way = [(leaves, n, tuple(path)) for n, (leaves, path, *_) in enumerate(messages)]
    while under_way:
        first = min(under_way, key=lambda own: own[:2])
        under_way.remove(first)
        asked, n, (link, *beyond) = first
        *_, spacing, lasting = messages[n]
        entered = asked if asked >= free[link] else free[link] + 2**link
        free[link] = entered + spacing
        if beyond:
            under_way.append((entered + 2 ** beyond[0], n, tuple(beyond)))
        else:
            expected[n] = entered + lasting
    assert found.tolist() == [expected[n] for n in range(len(messages))]
