"""A network whose stages all core groups compute together, or each for images of its own."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import tilewright as tw
from support.onnx_models import floats, model, node, saved
from support.plans import GROUP, steep_numbers
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.zoo import network
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.plan import Plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.plans import Search
from tilewright.network.simulate import described, simulate_plan
from tilewright.ops import relu
from tilewright.ops.piece import intervals
from tilewright.report.network import plan_totals
from tilewright.targets.sw26010.emulation.run import run_emulated, run_emulated_many
from tilewright.targets.sw26010.network.code import constant_block, emit_network

MACHINE = load_machine("sw26010")
LENET = network("lenet5", 1)
SEARCH = Search(algorithm="direct_vectors", keep=3)
LATE = """    struct lenet5_stages_parameters parameters;
    volatile long late;
    for (late = group ? 0 : 400000000; late > 0; late--)
        ;
"""
HEAD = LATE.splitlines(keepends=True)[0]


@cache
def plan_on(groups: int) -> Plan:
    return build_plan(LENET, MACHINE if groups > 1 else GROUP, SEARCH)


def emulated(late: bool = False, edit=lambda text: text):
    artifact = emit_network(plan_on(4), MACHINE)
    files = dict(artifact.files)
    if late:
        assert HEAD in files["lenet5_host.c"]
        files["lenet5_host.c"] = files["lenet5_host.c"].replace(HEAD, LATE)
    files["lenet5_stages_slave.c"] = edit(files["lenet5_stages_slave.c"])
    changed = replace(artifact, files=files)
    inputs, weights = steep_numbers(LENET)
    block = constant_block(plan_on(4), weights)
    return run_emulated(changed, {**inputs, artifact.block: block})


def expected():
    inputs, weights = steep_numbers(LENET)
    return LENET.evaluate({**inputs, **weights})


def test_groups_together_are_exact_by_the_meaning_of_the_plan():
    for name, y in expected().items():
        np.testing.assert_array_equal(interpret_plan(plan_on(4), *steep_numbers(LENET))[name], y)


def test_all_groups_are_faster_than_one_and_every_cycle_has_a_cause():
    run, alone = simulate_plan(plan_on(4)), simulate_plan(plan_on(1))
    assert run.cycles < 0.97 * alone.cycles
    assert sum(run.by_cause().values()) == run.cycles == sum(run.by_work().values())


def test_a_stage_says_how_many_groups_compute_it_and_how_it_is_divided():
    found = described(simulate_plan(plan_on(4)), 1)
    stages = {s.name: (s.groups, s.divided) for s in found.stages}
    assert stages["c1"] == (4, "rows")
    assert stages["c3"] == (2, "rows"), "ten rows come out even on two groups"
    assert stages["c5"] == (4, "out_channels")
    assert stages["s2"] == (4, "elements")
    assert stages["prob"] == (1, "")
    (line,) = (x for x in plan_totals(found).splitlines() if x.startswith("by core groups"))
    assert line.startswith("by core groups that compute, the others wait: 4 ")


@pytest.mark.parametrize("late", [False, True], ids=["on time", "a group that is late"])
def test_the_code_is_exact_on_emulated_groups(late: bool):
    found = emulated(late)
    for name, y in expected().items():
        np.testing.assert_array_equal(found[name], y)


def test_groups_that_do_not_wait_for_each_other_are_seen():
    found = emulated(late=True, edit=lambda slave: slave.replace("behind |=", "behind &="))
    assert any(not np.array_equal(found[name], y) for name, y in expected().items())


def test_groups_wait_where_one_needs_what_another_computes():
    plan = plan_on(4)
    waits = dict(zip((s.name for s in plan.stages), plan.meetings, strict=True))
    assert not waits["c1"], "nothing is before it"
    assert waits["s2"]
    assert waits["prob"], "half of its operand is another group's"
    assert not waits["prob_2"], "the first group computes it after prob, alone"
    slave = emit_network(plan, MACHINE).files["lenet5_stages_slave.c"]
    assert slave.count("lenet5_stages_meet(parameters,") == sum(plan.meetings)
    before = dict(zip((s.name for s in plan.stages), plan.before, strict=True))
    groups = MACHINE.groups
    assert before["c1"] == {"launch": groups.launch_cycles}
    assert before["s2"] == {"barrier": groups.barrier_cycles, "meeting": groups.meet_cycles}
    assert before["prob_2"] == {"barrier": groups.barrier_cycles}


def of_seven_images(edit=lambda text: text):
    """(what the emulated code of all groups computes, what it should)"""
    net = network("lenet5", 7)
    plan = build_plan(net, MACHINE, SEARCH)
    groups = tuple(slice(*part) for part in intervals(7, plan.groups))
    artifact = emit_network(plan, MACHINE, groups)
    host = edit(artifact.files["lenet5_host.c"])
    inputs, weights = steep_numbers(net)
    block = constant_block(plan, weights)
    changed = replace(artifact, files={**artifact.files, "lenet5_host.c": host})
    found = run_emulated(changed, {**inputs, artifact.block: block})
    return found, net.evaluate({**inputs, **weights})


def test_groups_with_images_of_their_own_run_at_the_same_time_and_are_exact():
    found, expected = of_seven_images()
    assert found["prob"].shape == (7, 10)
    np.testing.assert_array_equal(found["prob"], expected["prob"])


def test_images_that_no_group_takes_are_seen():
    found, expected = of_seven_images(lambda host: host.replace("{0, 1, 3, 5}", "{0, 1, 3, 3}"))
    alike = [np.array_equal(*pair) for pair in zip(found["prob"], expected["prob"], strict=True)]
    assert alike == [True] * 5 + [False] * 2


def test_code_of_two_networks_is_linked_into_one_program():
    cases, expected = [], []
    for name in ("first", "second"):
        net = NetworkBuilder(name, "f64")
        y = net.apply(relu((8, 3)), net.input("x", (8, 3)), name="y")
        whole = net.build((y,))
        plan = build_plan(whole, MACHINE)
        images = PlannedNetwork(whole, plan).images
        assert len(images) == 4
        artifact = emit_network(plan, MACHINE, images)
        x = np.random.default_rng(len(cases)).standard_normal((8, 3))
        cases.append((artifact, {"x": x, artifact.block: constant_block(plan, {})}))
        expected.append(np.maximum(x, 0))
    for found, wanted in zip(run_emulated_many(cases), expected, strict=True):
        np.testing.assert_array_equal(found["y"], wanted)


@pytest.mark.parametrize("images", [1, 5])
def test_an_output_has_its_shape_whatever_computes_it(tmp_path, images):
    """Images that grow by interpolation are rows and columns of one matrix to their stages."""
    scales = {"s": np.array([1, 1, 2, 2], np.float32)}
    grow = node("Resize", ["x", "", "s"], ["y"], mode="linear")
    path = saved(tmp_path, model([grow], {"x": (images, 2, 3, 4)}, scales))
    x = floats(images, 2, 3, 4)
    found = tw.compile(path, machine="sw26010").run(x)["y"]
    expected = tw.load(path).evaluate({"x": x})["y"]
    assert found.shape == expected.shape == (images, 2, 6, 8)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
