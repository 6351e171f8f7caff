"""A plan computes what its network computes, and its time is that of its stages."""

from dataclasses import replace
from math import inf
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from support.networks import TOLERANCE, networks, numbers_for
from support.plans import GROUP, ONE_WAY, lenet_plan, quick_search, steep_numbers
from tilewright.common.errors import CapacityError, GraphError, SimulationError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.images import fewer_images
from tilewright.graph.zoo import network
from tilewright.machine import load_machine
from tilewright.network import build
from tilewright.network.build import build_plan
from tilewright.network.explain import explained
from tilewright.network.interpret import interpret_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.planning.form import row_major
from tilewright.network.planning.layouts import WholeNetwork, fastest_of_each
from tilewright.network.requirements import require_lowered
from tilewright.network.results import NetworkRun
from tilewright.network.simulate import described, simulate_plan
from tilewright.ops import Binary, Softmax, gemm, max_pool2d, relu
from tilewright.report.network import network_explanation_text


@settings(max_examples=4, phases=[Phase.reuse, Phase.generate])
@given(networks(("f64",), moving=True))
def test_a_plan_computes_its_network(net):
    plan = build_plan(net, GROUP, quick_search(net))
    weights, inputs = numbers_for(net)
    found = interpret_plan(plan, inputs, weights)
    for name, expected in net.evaluate({**inputs, **weights}).items():
        scale = max(1.0, float(np.abs(expected).max()))
        assert np.abs(found[name] - expected).max() <= TOLERANCE["f64"] * scale


@settings(max_examples=4, phases=[Phase.reuse, Phase.generate])
@given(networks(("f64",), moving=True), st.booleans())
def test_a_draft_takes_no_less_than_its_bound(net, together):
    """So that one whose bound is above a whole plan is left without its schedules."""
    machine = load_machine("sw26010") if together else GROUP
    found, own = [], build._schedule

    def scheduled(builder, known, machine, divide, **others):
        groups = machine.groups.count if divide else 1
        least = build.least_stage_cycles(builder.memory, known, machine, groups)
        own(builder, known, machine=machine, divide=divide, **others)
        found.append((least, builder.cycles(known, machine)))

    with patch.object(build, "_schedule", scheduled):
        build_plan(net, machine, quick_search(net))
    assert found
    assert all(0 < least <= cycles for least, cycles in found)


def test_a_draft_whose_bound_is_above_a_whole_plan_is_left():
    """Where its bound allows for less, its schedules are searched for, too."""
    found, own = [], build._schedule

    def scheduled(builder, *arguments, **others):
        found[-1] += 1
        own(builder, *arguments, **others)

    for bound in (inf, 0.0):
        found.append(0)
        with (
            patch.object(build, "least_stage_cycles", lambda *_, own=bound: own),
            patch.object(build, "_schedule", scheduled),
        ):
            build_plan(network("lenet5", 1), GROUP, ONE_WAY, fuse=False)
    assert found == [1, 2]


@pytest.mark.parametrize("fuse", [True, False])
def test_lenet_is_exact_on_numbers_that_are(fuse):
    net = network("lenet5", 1)
    inputs, weights = steep_numbers(net)
    found = interpret_plan(lenet_plan(fuse=fuse), inputs, weights)
    for name, expected in net.evaluate({**inputs, **weights}).items():
        np.testing.assert_array_equal(found[name], expected)


def test_every_node_is_in_a_stage_and_every_cycle_has_a_cause():
    plan, net = lenet_plan(), network("lenet5", 1)
    computed = {name for stage in plan.stages for name in stage.nodes}
    assert {n.name for n in net.nodes} - computed == {"flatten"}, "a reshape moves nothing"
    stages = {stage.nodes for stage in plan.stages}
    assert ("output", "output_bias") in stages, "an epilogue"
    assert ("c3_bias", "c3_tanh") in stages, "tiles with padding would take the function more often"
    assert [s.label for s in plan.stages][-4:] == [
        f"{what} of softmax 1x10 along axis 1" for what in ("largest", "powers", "sum", "quotient")
    ]
    run = simulate_plan(plan)
    assert sum(run.by_cause().values()) == sum(run.by_work().values()) == run.cycles
    figures = described(run, net.flops)
    found = figures.stages
    done = sum(s.gflops * s.cycles for s in found if s.cycles) * 1e9 / GROUP.clock_hz
    assert done == pytest.approx(sum(s.flops for s in plan.stages)) == pytest.approx(net.flops)
    assert figures.gflops * figures.milliseconds * 1e6 == pytest.approx(net.flops)
    estimate = sum(s.estimate_milliseconds for s in found) * GROUP.clock_hz / 1e3
    assert estimate == pytest.approx(plan.estimate_cycles)
    assert [s.algorithm != "" for s in found] == [s.work == "product" for s in found]
    assert simulate_plan(lenet_plan(fuse=False)).cycles > run.cycles


def _fastest_of_each(whole):
    return fastest_of_each(
        whole.network, whole.chains, whole.ranked, whole.epilogues, whole.planner
    )


def test_an_explanation_names_every_change_of_layout_and_sums(monkeypatch):
    fused, unfused = lenet_plan(), lenet_plan(fuse=False)
    monkeypatch.setattr(WholeNetwork, "cheapest", _fastest_of_each)
    copying = build_plan(network("lenet5", 1), GROUP, ONE_WAY, fuse=False)
    runs = [simulate_plan(copying), simulate_plan(fused)]
    shown = structs.replace(described(runs[0], 1), unfused_cycles=runs[1].cycles)
    found = explained(shown, rewrites=("identities",))
    launch, barrier = GROUP.groups.launch_cycles, GROUP.groups.barrier_cycles
    assert launch > barrier > 0
    assert found.stages[0].causes["launch"] == launch, "one launch runs all stages"
    assert {s.causes["barrier"] for s in found.stages[1:]} == {barrier}
    assert [sum(s.causes.values()) for s in found.stages] == [
        own + r.cycles
        for own, r in zip([launch, *[barrier] * len(runs[0].runs)], runs[0].runs, strict=False)
    ]
    assert [(c.stage, c.tensor, c.before) for c in found.layouts] == [("s4_layout", "s4", "c h w")]
    assert sum(c.cycles for c in found.layouts) == runs[0].by_work()["layout"]
    assert max(found.lower_bound_compute_cycles, found.lower_bound_transfer_cycles) < runs[0].cycles
    taken = described(simulate_plan(unfused), 1).layout_choice
    assert taken is not None
    assert (taken.proven, taken.taken) == (True, True)
    assert 0 < taken.bound_cycles == taken.cycles
    text = network_explanation_text(found)
    assert "\n1 change of layout, " in text
    assert text.endswith("\nthe graph was rewritten by identities")


def test_a_run_without_bounds_is_explained_by_none():
    found = explained(NetworkRun("n", "machine", "f64", (), 0.0, 0, 0))
    bounds = found.lower_bound_compute_cycles, found.lower_bound_transfer_cycles
    assert (*bounds, found.estimate_cycles, found.lower_bound_product_cycles) == (0, 0, 0, 0)


def test_layouts_are_chosen_for_the_whole_network(monkeypatch):
    whole, layouts = lenet_plan(fuse=False), list[WholeNetwork]()

    def fastest(own):
        layouts.append(own)
        return _fastest_of_each(own)

    monkeypatch.setattr(WholeNetwork, "cheapest", fastest)
    plan = build_plan(network("lenet5", 1), GROUP, ONE_WAY, fuse=False)
    copies = [[s.name for s in p.stages if s.work == "layout"] for p in (plan, whole)]
    own = [sum(s.flops for s in p.stages) for p in (plan, whole)]
    assert own[0] == own[1], "a copy computes nothing"
    assert copies == [["s4_layout"], []], "c5 takes the layout of c3, and is hardly slower"
    assert whole.estimate_cycles < plan.estimate_cycles
    assert whole.lower_bound_cycles == plan.lower_bound_cycles < whole.estimate_cycles
    pool = max_pool2d((1, 6, 8, 8), 1)
    (own,), form = layouts, row_major(pool.out_shape)
    one_place = own._pass(form, read=pool.input_shapes[0])
    assert one_place == own._pass(form), "windows of one place are a pass"


def test_values_that_live_together_do_not_overlap():
    plan = lenet_plan()
    offsets, total = plan.arena
    lives = plan.lives
    for a, first in lives.items():
        assert offsets[a] + first.size_bytes <= total
        for b, second in lives.items():
            if a < b and first.meets(second):
                apart = offsets[a] + first.size_bytes <= offsets[b]
                assert apart or offsets[b] + second.size_bytes <= offsets[a]


def test_groups_divide_the_images():
    net = network("resnet50", 8)
    part = fewer_images(net, 2)
    assert {t.shape[0] for t in part.tensors.values() if t.name in net.outputs} == {2}
    assert [n.op.out_shape[1:] for n in part.nodes] == [n.op.out_shape[1:] for n in net.nodes]
    transposed = NetworkBuilder("t", "f64")
    x = transposed.input("x", (4, 3))
    w = transposed.weight("w", (4, 5))
    y = transposed.apply(gemm(3, 5, 4, transpose_a=True), x, w, name="y")
    whole = transposed.build((y,))
    assert fewer_images(whole, 2) is whole, "columns of x are no images"


@pytest.mark.parametrize(("axis", "groups"), [(0, 1), (1, 4)])
def test_groups_take_all_images_of_what_computes_across_them(axis, groups):
    net = NetworkBuilder("s", "f64")
    x = net.input("x", (8, 5))
    whole = net.build((net.apply(Softmax((8, 5), axis), x, name="y"),))
    plan = build_plan(whole, load_machine("sw26010"))
    assert plan.groups == groups
    assert [name for name, _ in plan.given] == ["x"]
    numbers = np.random.default_rng(0).standard_normal((8, 5))
    planned = PlannedNetwork(whole, plan)
    assert planned.images == tuple(slice(i, i + 2) for i in range(0, 8, 2) if groups == 4)
    found, expected = planned.run(numbers), whole.evaluate({"x": numbers})
    with pytest.raises(GraphError) as caught:
        planned.run(numbers, numbers)
    assert str(caught.value) == (
        f"{whole.name} takes the inputs x, found 2 in order and none by name"
    )
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-14)


def test_an_element_that_nothing_has_written_is_an_error():
    plan = lenet_plan()
    inputs, weights = steep_numbers(network("lenet5", 1))
    first = plan.stages[0]
    beheaded = replace(plan, stages=plan.stages[1:])
    with pytest.raises(SimulationError) as error:
        interpret_plan(beheaded, inputs, weights)
    value = plan.values[first.writes].name
    assert str(error.value) == f"{plan.stages[1].name}: nothing has written '{value}'"


def test_what_no_stage_computes_is_refused_by_name_before_any_search():
    net = network("lenet5", 1)

    odd = [replace(n, op=_renamed(n.op)) if n.op.kind == "tanh" else n for n in net.nodes]
    with pytest.raises(GraphError) as error:
        require_lowered(replace(net, nodes=tuple(odd)), GROUP)
    assert str(error.value) == (
        "no stage on sw26010_cg computes mystery (c1_tanh); stages compute products, elementwise "
        "operators, pooling, reductions, softmax, local response, concat, pad, reshape, resize, "
        "slice, space_to_depth and transpose"
    )


def test_products_in_fixed_point_have_stages_on_machines_that_compute_so_alone():
    net = NetworkBuilder("product", "f64")
    op = gemm(8, 8, 8, dtype="q8.8:q48.16:q8.8")
    a, b = op.input_shapes
    net.apply(op, net.input("a", a, "q8.8"), net.input("b", b, "q8.8"), name="c", output="c")
    product = net.build(("c",))
    require_lowered(product, load_machine("dla-al"))
    with pytest.raises(GraphError) as error:
        require_lowered(product, GROUP)
    assert str(error.value) == (
        "node c: no stage on sw26010_cg computes gemm of q8.8:q48.16:q8.8; products, windows and "
        "functions of elements take floats of one type; integers and truth values are computed by "
        "definitions and moved"
    )


def _renamed(op):
    class Mystery:
        kind, definitions = "mystery", ()

        def __getattr__(self, name):
            return getattr(op, name)

    return Mystery()


def test_a_network_beyond_main_memory_names_its_largest_tensors():
    small = load_machine("sw26010_cg", {"memory.main.capacity_bytes": 1_000_000})
    net = NetworkBuilder("big", "f64")
    x = net.input("x", (1, 1, 256, 256))
    y = net.apply(relu((1, 1, 256, 256)), x, name="y")
    z = net.apply(Binary("add", (1, 1, 256, 256), (1, 1, 256, 256)), x, y, name="z")
    with pytest.raises(CapacityError) as error:
        build_plan(net.build((z,)), small)
    assert str(error.value) == (
        "big needs 1,048,576 bytes of main memory, a group of sw26010_cg has 1,000,000; at the "
        "same time live 'x' 524,288 bytes, 'z' 524,288 bytes; --dtype f32, or "
        "--set memory.main.capacity_bytes=1048576"
    )


def test_integers_are_refused():
    net = NetworkBuilder("n", "i32")
    x = net.input("x", (4,))
    whole: Network = net.build((net.apply(relu((4,), dtype="i32"), x, name="y"),))
    with pytest.raises(GraphError) as error:
        build_plan(whole, GROUP)
    assert str(error.value) == (
        "node y: no stage on sw26010_cg computes relu of i32; products, windows and functions of "
        "elements take floats of one type; integers and truth values are computed by definitions "
        "and moved"
    )
