"""Whole networks on this computer compute what the network's reference says."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import HOSTS, Machines
from support.examples import examples
from support.native import NATIVE_HOSTS, THREADED_HOSTS
from support.networks import (
    ANY,
    TOLERANCE,
    compiled_networks,
    joined_networks,
    numbers_for,
    quickly_loaded,
    ranked_networks,
    small_integers,
)
from tilewright.common.dtypes import F32
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import network_of
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.constants import without_ahead
from tilewright.graph.rewrites.definitions import lines_of_images, with_shuffles
from tilewright.graph.rewrites.normalisation import folded_normalisation
from tilewright.graph.rewriting import simplified
from tilewright.graph.zoo import network
from tilewright.machine import Machine, load_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.planning.products import Ranked
from tilewright.network.plans import Search
from tilewright.ops import (
    Bias,
    Binary,
    Concat,
    LocalResponseNorm,
    Pad,
    Reshape,
    Resize,
    Slice,
    Transpose,
    Unary,
    conv2d,
    relu,
)
from tilewright.ops.notation import operator_of
from tilewright.ops.op import Shape
from tilewright.targets.host.emit.products import instruction_set_of
from tilewright.targets.host.network.emit import Emitted
from tilewright.targets.host.network.generate import generated
from tilewright.targets.host.network.planner import HostPlanner
from tilewright.targets.host.network.run import NetworkCode, load_network

pytestmark = pytest.mark.hypothesis

DIRECT = Search("direct")


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
@pytest.mark.parametrize(("hosts", "count"), [(NATIVE_HOSTS, 10), (THREADED_HOSTS, 4)])
def test_random_networks_compute_their_reference(hosts: Machines, count: int) -> None:
    @examples(count)
    @given(compiled_networks(hosts))
    def check(pair: tuple[Network, NetworkCode]) -> None:
        network, code = pair
        weights, inputs = numbers_for(network)
        loaded = quickly_loaded(code)
        bound = loaded.bind(loaded.constants(weights))
        bound.give(inputs)
        bound.repeat(2)
        expected = network.evaluate({**weights, **inputs})
        for name, found in bound.outputs().items():
            scale = max(1.0, float(np.abs(expected[name]).max()))
            error = float(np.abs(found - expected[name]).max())
            assert error <= TOLERANCE[code.dtype] * scale, (name, network)

    check()


@pytest.mark.parametrize("networks", [ANY, joined_networks()], ids=["any", "joined"])
def test_plans_of_random_networks_mean_their_reference(
    networks: st.SearchStrategy[Network],
) -> None:
    @examples(8)
    @given(ranked_networks(HOSTS, networks))
    def check(found: tuple[Network, Machine, Ranked]) -> None:
        network, machine, ranked = found
        plan = build_plan(network, machine, ranked=ranked, planner=HostPlanner(machine))
        assert plan.layout_choice is None or plan.layout_choice.proven
        emitted = Emitted("net", plan, cast(Any, None), 1, instruction_set_of(machine))
        for first, *others in emitted.functions:  # what fills around a result is no stage apart
            assert all(not plan.stages[number].reads for number in others)
            assert {plan.stages[number].writes for number in others} <= {plan.stages[first].writes}
        weights, inputs = numbers_for(network)
        outputs = interpret_plan(plan, inputs, weights)
        for name, expected in network.evaluate({**weights, **inputs}).items():
            scale = max(1.0, float(np.abs(expected).max()))
            error = float(np.abs(outputs[name] - expected).max())
            assert error <= TOLERANCE[plan.dtype] * scale, (name, network)

    check()


def test_windows_reach_beyond_the_only_index_of_a_dimension() -> None:
    host = HOSTS[0]
    net = NetworkBuilder("norm", "f32")
    x = net.input("x", (1, 1, 4, 4))
    net.apply(LocalResponseNorm((1, 1, 4, 4), 3, dtype="f32"), x, name="y", output="y")
    norm = net.build(("y",))
    plan = build_plan(norm, host, ranked=Ranked({}, 1, {}, 1), planner=HostPlanner(host))
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 1, 4, 4)).astype("f4")}
    found = interpret_plan(plan, feeds, {})["y"]
    assert np.allclose(found, norm.evaluate(feeds)["y"], rtol=1e-6)


def residual_block() -> Network:
    net, shape = NetworkBuilder("block", "f32"), (1, 32, 12, 12)
    x = net.input("x", shape)

    def layer(name: str, x: str, kernel: int) -> str:
        op = conv2d(
            batch=1, in_channels=32, out_channels=32, height=12, width=12, kernel=kernel,
            padding=kernel // 2, dtype="f32",
        )  # fmt: skip
        y = net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)
        bias = net.weight(f"{name}_b", (32,))
        return net.apply(Bias(shape, 1, dtype="f32"), y, bias, name=f"{name}_bias")

    def then(function: str, y: str) -> str:
        return net.apply(Unary(function, shape, 0.1, dtype="f32"), y, name=f"{y}_{function}")

    first = then("leaky_relu", layer("first", x, 3))
    second = then("relu", layer("second", first, 3))
    third = layer("third", second, 3)
    total = net.apply(Binary("add", shape, shape, "f32"), third, first, name="sum")
    return net.build((then("tanh", layer("last", then("relu", total), 1)),))


def test_kernels_finish_what_follows_them_where_they_can() -> None:
    code = generated(residual_block(), load_machine("host"), DIRECT)
    conv = "conv2d 1x32x12x12 -> 32"
    assert [(s.name, s.label) for s in code.stages][1:] == [
        ("first", f"{conv}, 3x3 s1 p1 bias leaky_relu"),
        ("second", f"{conv}, 3x3 s1 p1 bias relu"),
        ("first_bias_leaky_relu_layout", "copy 12x384"),
        ("third", f"{conv}, 3x3 s1 p1 bias add relu"),
        ("last", f"{conv}, 1x1 s1 p0 bias tanh"),
        ("last_bias_tanh_layout", "copy 32x144"),
    ]


def test_what_several_nodes_make_of_one_result_is_part_of_its_kernel() -> None:
    net, shape = NetworkBuilder("gated", "f32"), (1, 32, 12, 12)
    op = conv2d(batch=1, in_channels=32, out_channels=32, height=12, width=12, kernel=3,
                padding=1, dtype="f32")  # fmt: skip
    y = net.apply(op, net.input("x", shape), net.weight("w", op.input_shapes[1]), name="conv")
    gate = net.apply(Unary("sigmoid", shape, dtype="f32"), y, name="gate")
    z = net.apply(Binary("mul", shape, shape, "f32"), y, gate, name="gated")
    last = net.apply(op, z, net.weight("v", op.input_shapes[1]), name="last")
    code = generated(net.build((last,)), load_machine("host_avx2"), DIRECT)
    layer = "conv2d 1x32x12x12 -> 32, 3x3 s1 p1"
    assert [s.label for s in code.stages if s.work != "layout"] == [f"{layer} sigmoid mul", layer]


@pytest.mark.parametrize(("groups", "search", "fills"), [(32, Search(), 0), (1, DIRECT, 4)])
def test_borders_are_filled_unless_sums_of_windows_alone_read_them(
    groups: int, search: Search, fills: int
) -> None:
    net, shape = NetworkBuilder("bordered", "f32"), (1, 32, 14, 14)
    point = conv2d(batch=1, in_channels=32, out_channels=32, height=14, width=14, kernel=1,
                   dtype="f32")  # fmt: skip
    window = replace(point, kernel=(3, 3), padding=(1, 1, 1, 1), groups=groups)
    y = net.apply(point, net.input("x", shape), net.weight("v", point.input_shapes[1]), name="y")
    last = net.apply(window, y, net.weight("w", window.input_shapes[1]), name="last")
    code = generated(net.build((last,)), load_machine("host_avx2"), search)
    assert code.files["bordered.c"].count("= 0.0f;") == fills


@pytest.mark.parametrize(
    ("pixels", "channels", "fetches"),
    [(1, (960, 1280), "3 * part * 16 + y0"), (196, (64, 384), "y + beyond + 64, 0, 2"),
     (196, (16, 32), "")],
)  # fmt: skip
def test_constants_from_afar_come_in_walks_of_one_row_or_at_the_start_of_blocks(
    pixels: int, channels: tuple[int, int], fetches: str
) -> None:
    """Panels that the first cache holds are not fetched."""
    net, (inputs, outputs) = NetworkBuilder("far", "f32"), channels
    op = conv2d(batch=1, in_channels=inputs, out_channels=outputs, height=1, width=pixels,
                kernel=1, dtype="f32")  # fmt: skip
    x, w = net.input("x", op.input_shapes[0]), net.weight("w", op.input_shapes[1])
    far = net.build((net.apply(op, x, w, name="y"),))
    files = generated(far, load_machine("host_avx2"), Search("pointwise")).files
    found = [way for way in ("3 * part * 16 + y0", "y + beyond + 64, 0, 2")
             if way in files["far_y.c"]]  # fmt: skip
    assert found == [fetches] * bool(fetches)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_shuffled_channels_stay_in_the_order_of_what_is_shuffled() -> None:
    net, half, whole = NetworkBuilder("shuffled", "f32"), (1, 16, 7, 7), (1, 32, 7, 7)

    def layer(name: str, x: str) -> str:
        op = conv2d(batch=1, in_channels=16, out_channels=16, height=7, width=7, kernel=1,
                    dtype="f32")  # fmt: skip
        return net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)

    x = net.input("x", half)
    x = net.apply(Concat((half, half), 1, "f32"), layer("a", x), layer("b", x), name="both")
    x = net.apply(Reshape(whole, (1, 2, 16, 7, 7), "f32"), x, name="cut")
    x = net.apply(Transpose((1, 2, 16, 7, 7), (0, 2, 1, 3, 4), "f32"), x, name="turn")
    x = net.apply(Reshape((1, 16, 2, 7, 7), whole, "f32"), x, name="join")
    start, step = (0, 16, 0, 0), (1, 1, 1, 1)
    some = net.apply(Slice(whole, start, half, step, "f32"), x, name="some")
    shuffled = with_shuffles(net.build((layer("last", some),)))
    code = generated(shuffled, load_machine("host_avx2"), Search())
    names = [s.name for s in code.stages if not s.name.startswith("x_")]
    assert names == ["a", "b", "some", "last", "last_layout"]
    assert_exact(shuffled)


def test_constants_take_little_more_memory_than_weights() -> None:
    given = folded_normalisation(network("mobilenet2", 1, dtype="f32"))
    own, _ = without_ahead(given)
    code = generated(own, load_machine("host_avx2"), Search())
    assert not any("winograd" in stage.algorithm for stage in code.stages)
    weights = sum(prod(t.shape) * F32.size_bytes for t in own.weights)
    assert code.constant_bytes < 1.15 * weights


def test_equal_stages_all_run_where_the_compiler_optimises() -> None:
    """Each copy into the next concatenation is that of the one before it."""
    net, half, whole = NetworkBuilder("ghosts", "f32"), (1, 8, 28, 28), (1, 16, 28, 28)

    def layer(name: str, x: str, shape: Shape, kernel: int, groups: int = 1) -> str:
        op = conv2d(
            batch=1, in_channels=shape[1], out_channels=8, height=28, width=28, kernel=kernel,
            padding=kernel // 2, groups=groups, dtype="f32",
        )  # fmt: skip
        return net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)

    x = net.input("x", whole)
    for number in range(3):
        point = layer(f"point_{number}", x, whole, 1)
        depth = layer(f"depth_{number}", point, half, 3, groups=8)
        x = net.apply(Concat((half, half), 1, dtype="f32"), point, depth, name=f"both_{number}")
    ghosts = net.build((layer("last", x, whole, 1),))
    code = generated(ghosts, NATIVE_HOSTS[0], Search())
    assert [s.label for s in code.stages].count("copy 28x28x8") == 3
    weights, inputs = numbers_for(ghosts)
    loaded = load_network(code)
    bound = loaded.bind(loaded.constants(weights))
    bound.give(inputs)
    bound.repeat(1)
    expected = ghosts.evaluate({**weights, **inputs})["last"]
    error = float(np.abs(bound.outputs()["last"] - expected).max())
    assert error <= TOLERANCE["f32"] * float(np.abs(expected).max())


def test_kernels_write_their_parts_of_a_tensor_in_the_form_that_the_next_one_reads() -> None:
    net, half, whole = NetworkBuilder("joined", "f32"), (1, 16, 12, 12), (1, 32, 12, 12)

    def layer(name: str, x: str, shape: Shape) -> str:
        op = conv2d(
            batch=1, in_channels=shape[1], out_channels=16, height=12, width=12, kernel=3,
            padding=1, dtype="f32",
        )  # fmt: skip
        return net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)

    parts = [layer(name, net.input(f"x_{name}", half), half) for name in "ab"]
    joined = net.apply(Concat((half, half), 1, "f32"), *parts, name="joined")
    code = generated(net.build((layer("c", joined, whole),)), load_machine("host_avx2"), DIRECT)
    names = [s.name for s in code.stages if not s.name.startswith("x_")]
    assert names == ["a", "b", "c", "c_layout"]


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_parts_of_other_products_stay_as_they_are() -> None:
    net, shape = NetworkBuilder("parts", "f32"), (1, 8, 11, 9)
    x, parts = net.input("x", shape), list[str]()
    for number, (out, kernel) in enumerate(((20, 1), (5, 3), (17, 1))):
        op = conv2d(batch=1, in_channels=8, out_channels=out, height=11, width=9, kernel=kernel,
                    padding=kernel // 2, dtype="f32")  # fmt: skip
        y = net.apply(op, x, net.weight(f"w{number}", op.input_shapes[1]), name=f"p{number}")
        bias = net.weight(f"b{number}", (out,))
        y = net.apply(Bias(op.out_shape, dtype="f32"), y, bias, name=f"a{number}")
        parts.append(net.apply(relu(op.out_shape, dtype="f32"), y, name=f"r{number}"))
    parts.append(x)
    joined = Concat(tuple(map(net.shape, parts)), 1, "f32")
    op = conv2d(batch=1, in_channels=50, out_channels=32, height=11, width=9, kernel=1, dtype="f32")
    y = net.apply(joined, *parts, name="joined")
    y = net.apply(op, y, net.weight("last_w", op.input_shapes[1]), name="last")
    network = net.build((y,))
    weights, inputs = small_integers(network)
    vectors_of_sixteen = generated(network, load_machine("host"), DIRECT)
    assert [s.name for s in vectors_of_sixteen.stages if "joined" in s.nodes] == ["joined_4"]
    loaded = quickly_loaded(generated(network, NATIVE_HOSTS[0], DIRECT))
    bound = loaded.bind(loaded.constants(weights))
    bound.give(inputs)
    bound.repeat(2)
    expected = network.evaluate({**weights, **inputs})["last"]
    np.testing.assert_array_equal(bound.outputs()["last"], expected)


def assert_exact(network: Network) -> None:
    """The last result of a network of integers, computed here, equals the reference."""
    weights, inputs = small_integers(network)
    loaded = quickly_loaded(generated(network, NATIVE_HOSTS[0], Search()))
    bound = loaded.bind(loaded.constants(weights))
    bound.give(inputs)
    bound.repeat(1)
    expected = network.evaluate({**weights, **inputs})["last"]
    np.testing.assert_array_equal(bound.outputs()["last"], expected)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_part_with_a_summand_that_lies_elsewhere_is_copied(axis: int) -> None:
    net, shape = NetworkBuilder("parts", "f32"), (1, 16, 8, 8)

    def layer(name: str, x: str, out: int) -> str:
        batch, channels, height, width = net.shape(x)
        op = conv2d(
            batch=batch, in_channels=channels, out_channels=out, height=height, width=width,
            kernel=1, dtype="f32",
        )  # fmt: skip
        return net.apply(op, x, net.weight(f"{name}_w", op.input_shapes[1]), name=name)

    stem = layer("stem", net.input("x", (1, 3, 8, 8)), 16)
    added = net.apply(Binary("add", shape, shape, "f32"), stem, layer("a", stem, 16), name="s")
    parts = (layer("b", stem, 16), added)
    joined = net.apply(Concat((shape, shape), axis, "f32"), *parts, name="joined")
    network = net.build((layer("last", joined, 16),))
    assert_exact(network)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
@pytest.mark.parametrize(
    ("step", "kernel", "size", "batch"), [(2, 3, 14, 3), (2, 4, 7, 2), (3, 5, 8, 2), (2, 3, 6, 1)]
)
def test_phases_of_a_transposed_convolution_write_between_each_other(
    step: int, kernel: int, size: int, batch: int
) -> None:
    op = operator_of(
        f"y[n,o,{step}*r+u,{step}*c+v] += x[n,i,r,c] * w[i,o,u,v]", dtype="f32",
        n=batch, o=64, i=16, r=size, c=size, u=kernel, v=kernel,
    )  # fmt: skip
    given = simplified(network_of(op))
    network = lines_of_images(given)
    weights, inputs = small_integers(network)
    np.testing.assert_array_equal(
        *(own.evaluate({**weights, **inputs})["y"] for own in (given, network))
    )
    images = {n.op.convolution.batch for n in network.nodes if n.op.convolution}
    assert images == {batch} or batch == 1
    code = generated(network, NATIVE_HOSTS[0], DIRECT)
    copied = [s for s in code.stages if "y" in s.nodes and s.work == "layout"]
    assert len(copied) <= 1 or batch == 1
    loaded = quickly_loaded(code)
    bound = loaded.bind(loaded.constants(weights))
    bound.give(inputs)
    bound.repeat(2)
    expected = network.evaluate({**weights, **inputs})["y"]
    np.testing.assert_array_equal(bound.outputs()["y"], expected)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_a_product_is_reshaped_to_extents_that_have_no_parts_in_common_with_its_own() -> None:
    net, shape = NetworkBuilder("reshaped", "f32"), (1, 2, 2, 24)
    op = conv2d(batch=1, in_channels=16, out_channels=6, height=4, width=4, kernel=1, dtype="f32")
    x = net.input("x", op.input_shapes[0])
    y = net.apply(op, x, net.weight("w", op.input_shapes[1]), name="product")
    y = net.apply(Reshape(op.out_shape, shape, "f32"), y, name="reshaped")
    network = net.build((net.apply(relu(shape, dtype="f32"), y, name="last"),))
    assert_exact(network)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor is known")
def test_moves_are_copies_between_views() -> None:
    net, shape = NetworkBuilder("moves", "f32"), (2, 3, 4, 6)
    x, w = net.input("x", shape), net.weight("w", shape)
    y = net.apply(Transpose(shape, (0, 2, 3, 1), "f32"), x, name="t")
    y = net.apply(Pad((2, 4, 6, 3), (0, 1, 0, 2), (0, 0, 2, 1), 0.0, "f32"), y, name="p")
    one = (1, 1, 1, 1)
    y = net.apply(Slice((2, 5, 8, 6), (0, 1, 0, 1), (2, 3, 8, 4), one, "f32"), y, name="s")
    y = net.apply(Resize((2, 3, 8, 4), (1, 2, 1, 3), "f32"), y, name="r")
    z = net.apply(Transpose(shape, (3, 1, 0, 2), "f32"), w, name="wt")
    network = net.build((y, net.apply(relu((6, 3, 2, 4), dtype="f32"), z, name="wr")))
    rng = np.random.default_rng(0)
    inputs, weights = ({n: rng.integers(-4, 5, shape).astype(np.float32)} for n in "xw")
    loaded = quickly_loaded(generated(network, NATIVE_HOSTS[0], DIRECT))
    bound = loaded.bind(loaded.constants(weights))
    bound.give(inputs)
    bound.repeat(1)
    for name, expected in network.evaluate({**weights, **inputs}).items():
        np.testing.assert_array_equal(bound.outputs()[name], expected)
