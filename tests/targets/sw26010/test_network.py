"""The code of a whole network on emulated cores."""

from dataclasses import replace

import numpy as np
import pytest

from support.plans import GROUP, lenet_plan, steep_numbers
from tilewright.common.progress import silent
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.zoo import network
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.plans import Search
from tilewright.ops import (
    BatchNorm,
    Binary,
    Pad,
    Reduce,
    Resize,
    Slice,
    Transpose,
    conv2d,
    gemm,
    max_pool2d,
    relu,
)
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.network.code import constant_block, emit_network
from tilewright.targets.sw26010.networks import NETWORKS


def emulated(plan, inputs, weights, edit=lambda slave: slave):
    artifact = emit_network(plan, GROUP)
    (stages,) = (name for name in artifact.files if name.endswith("_stages_slave.c"))
    files = {**artifact.files, stages: edit(artifact.files[stages])}
    artifact = replace(artifact, files=files)
    return run_emulated(artifact, {**inputs, artifact.block: constant_block(plan, weights)})


def test_the_code_of_lenet_is_exact_on_emulated_cores():
    net, plan = network("lenet5", 1), lenet_plan()
    inputs, weights = steep_numbers(net)
    found = emulated(plan, inputs, weights)
    for name, expected in net.evaluate({**inputs, **weights}).items():
        np.testing.assert_array_equal(found[name], expected)


def residual_block():
    """Two convolutions with normalisation beside a shortcut, as in ResNet."""
    net = NetworkBuilder("block", "f32")
    shape = (1, 16, 8, 8)
    x = net.input("x", shape)
    y = x
    for number in (1, 2):
        op = conv2d(
            batch=1, in_channels=16, out_channels=16, height=8, width=8, kernel=3, padding=1,
            dtype="f32",
        )  # fmt: skip
        y = net.apply(op, y, net.weight(f"w{number}", op.input_shapes[1]), name=f"conv{number}")
        norm = BatchNorm(shape, 0.0, "f32")
        words = ("scale", "shift", "mean", "variance")
        weights = [net.weight(f"{word}{number}", (16,)) for word in words]
        y = net.apply(norm, y, *weights, name=f"norm{number}")
        if number == 1:
            y = net.apply(relu(shape, dtype="f32"), y, name="relu1")
    y = net.apply(Binary("add", shape, shape, "f32"), y, x, name="sum")
    return net.build((net.apply(relu(shape, dtype="f32"), y, name="relu2"),))


def test_the_code_of_a_residual_block_is_exact_on_emulated_cores():
    net = residual_block()
    plan = build_plan(net, GROUP, Search(keep=1))
    rng = np.random.default_rng(0)
    inputs = {"x": rng.integers(-3, 4, (1, 16, 8, 8)).astype(np.float32)}
    weights = {
        t.name: rng.integers(-1, 2, t.shape).astype(np.float32)
        if not t.name.startswith("variance")
        else np.full(t.shape, 4, np.float32)
        for t in net.weights
    }
    found = emulated(plan, inputs, weights)
    for name, expected in net.evaluate({**inputs, **weights}).items():
        np.testing.assert_array_equal(found[name], expected)


def test_a_missing_barrier_between_stages_is_seen():
    net, plan = network("lenet5", 1), lenet_plan()
    inputs, weights = steep_numbers(net)
    barrier = "    athread_syn(ARRAY_SCOPE, 0xffff);\n"
    found = emulated(plan, inputs, weights, lambda slave: slave.replace(barrier, ""))
    expected = net.evaluate({**inputs, **weights})
    assert any(not np.array_equal(found[name], y) for name, y in expected.items())


def test_one_launch_runs_every_stage_and_one_makefile_builds_all():
    plan = lenet_plan()
    artifact = emit_network(plan, GROUP)
    host = artifact.files["lenet5_host.c"]
    assert host.count("athread_spawn(") == 1
    slave = artifact.files["lenet5_stages_slave.c"]
    assert slave.count("_kernel(&parameters->stage") == len(plan.stages)
    assert slave.count("athread_syn(ARRAY_SCOPE, 0xffff);") == len(plan.stages) - 1
    kernels = {f"{k.name}_slave.c" for k in (*artifact.kernels, artifact.stages)}
    assert kernels == {name for name in artifact.files if name.endswith("_slave.c")}
    assert all(f"-c {name} " in artifact.files["Makefile"] for name in kernels)


def test_names_of_a_model_never_meet_those_of_the_code():
    net = NetworkBuilder("exp", "f64")
    x = net.input("constants", (2, 3))
    y = net.apply(Binary("add", (2, 3), (3,)), x, net.weight("arena", (3,)), name="memory")
    whole = net.build((net.apply(relu((2, 3)), y, name="parameters"),))
    plan = build_plan(whole, GROUP)
    inputs = {"constants": np.arange(6.0).reshape(2, 3) - 3}
    weights = {"arena": np.array([-1.0, 0.0, 1.0])}
    found = emulated(plan, inputs, weights)
    for name, expected in whole.evaluate({**inputs, **weights}).items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize(
    "op",
    [
        max_pool2d((1, 2, 4, 4), 3, stride=1, padding=1, dtype="f32"),
        Reduce("max", (1, 2, 4, 4), (2, 3), "f32"),
        Reduce("min", (1, 2, 4, 4), (1, 3), "f32"),
    ],
    ids=lambda op: op.kind,
)
def test_the_largest_of_what_is_not_finite_is_infinite(op):
    net = NetworkBuilder("n", "f32")
    whole = net.build((net.apply(op, net.input("x", (1, 2, 4, 4)), name="y"),))
    x = np.full((1, 2, 4, 4), -np.inf, np.float32)
    x[0, 1], x[0, 1, 3, 3] = np.nan, 2
    expected = whole.evaluate({"x": x})["y"]
    assert np.isinf(expected).any()
    found = emulated(build_plan(whole, GROUP), {"x": x}, {})
    np.testing.assert_array_equal(found["y"], expected)


def test_moves_and_reductions_are_exact():
    net = NetworkBuilder("moves", "f64")
    x, w = net.input("x", (2, 3, 4, 6)), net.weight("w", (2, 3, 4, 6))
    y = net.apply(Transpose((2, 3, 4, 6), (0, 2, 3, 1)), x, name="t")
    y = net.apply(Pad((2, 4, 6, 3), (0, 1, 0, 2), (0, 0, 2, 1), 1.5), y, name="p")
    y = net.apply(Slice((2, 5, 8, 6), (0, 1, 0, 1), (2, 2, 8, 3), (1, 2, 1, 2)), y, name="s")
    y = net.apply(Resize((2, 2, 8, 3), (1, 2, 1, 3)), y, name="r")
    reduced = [
        net.apply(Reduce(function, (2, 4, 8, 9), (1, 3)), y, name=function)
        for function in ("max", "mean", "min", "sum")
    ]
    z = net.apply(Transpose((2, 3, 4, 6), (0, 1, 3, 2)), w, name="wt")
    whole = net.build((y, *reduced, net.apply(relu((2, 3, 6, 4)), z, name="wr")))
    plan = build_plan(whole, GROUP)
    moves = [s.name for s in plan.stages if s.work == "layout" and "border" not in s.name]
    assert moves == ["x_layout", "s", "r", "r_layout"], "a transpose alone moves nothing"
    rng = np.random.default_rng(0)
    inputs, weights = ({n: rng.integers(-4, 5, (2, 3, 4, 6)).astype(float)} for n in "xw")
    found, run = emulated(plan, inputs, weights), interpret_plan(plan, inputs, weights)
    for name, expected in whole.evaluate({**inputs, **weights}).items():
        np.testing.assert_array_equal(found[name], expected)
        np.testing.assert_array_equal(run[name], expected)


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (2, 3)])
def test_a_network_is_emulated_on_the_mesh_that_it_was_planned_for(rows, columns):
    net = NetworkBuilder("small", "f64")
    y = net.input("x", (9, 20))
    if rows == columns:
        y = net.apply(gemm(9, 12, 20), y, net.weight("w", (20, 12)), name="product")
    whole = net.build((net.apply(relu(net.shape(y)), y, name="relu"),))
    mesh = {"mesh.rows": rows, "mesh.columns": columns}
    machine = load_machine("sw26010_cg", mesh)
    planned = NETWORKS.compile(whole, machine, Search(keep=1), progress=silent)
    rng = np.random.default_rng(0)
    inputs = {"x": rng.integers(-3, 4, (9, 20)).astype(float)}
    weights = {t.name: rng.integers(-3, 4, t.shape).astype(float) for t in whole.weights}
    found = planned.computed(weights)(inputs)
    for name, expected in whole.evaluate({**inputs, **weights}).items():
        np.testing.assert_array_equal(found[name], expected)
