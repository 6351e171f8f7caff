"""Networks in fixed point as one program of DLA-AL: the device has the bits of the plan."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import tilewright as tw
from support.examples import examples
from tilewright.cli.compile import require_unsaturated
from tilewright.common.errors import CapacityError, GraphError, SimulationError
from tilewright.common.progress import silent
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.rewriting import simplified
from tilewright.graph.weights import random_inputs, random_weights
from tilewright.graph.zoo import network as known
from tilewright.ir.printer import print_program
from tilewright.machine import Machine, load_machine
from tilewright.network.interpret import interpret_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.plans import BY_THE_MODEL
from tilewright.ops import (
    Bias,
    LocalResponseNorm,
    Reduce,
    Softmax,
    Unary,
    average_pool2d,
    conv2d,
    flatten,
    gemm,
    max_pool2d,
)
from tilewright.targets.cambricon.networks import NETWORKS, DeviceNetwork, dla_source
from tilewright.targets.cambricon.primitives import RoundedMap, RoundedReduce
from tilewright.targets.cambricon.vector_steps import vector_steps_of, with_constants

MACHINE = load_machine("dla-al")
KINDS = "q8.8:q48.16:q8.8"


def small() -> Network:
    """A convolution of an image, a response norm, both poolings, a product and a softmax."""
    net = NetworkBuilder("small", "f64")
    x = net.input("image", (1, 3, 11, 11))
    w = net.weight("w", (8, 3, 3, 3))
    conv = conv2d(batch=1, in_channels=3, out_channels=8, height=11, width=11, kernel=3, stride=2,
                  padding=1)  # fmt: skip
    x = net.apply(conv, x, w, name="conv")
    x = net.apply(Bias(net.shape(x)), x, net.weight("b", (8,)), name="bias")
    x = net.apply(Unary("relu", net.shape(x)), x, name="relu")
    x = net.apply(LocalResponseNorm(net.shape(x), 5, alpha=1.0, bias=2.0), x, name="norm")
    x = net.apply(max_pool2d(net.shape(x), 3, stride=1, padding=1), x, name="most")
    x = net.apply(average_pool2d(net.shape(x), 3), x, name="mean")
    x = net.apply(flatten(net.shape(x)), x, name="flat")
    x = net.apply(gemm(1, 10, 32, transpose_b=True), x, net.weight("v", (10, 32)), name="dense")
    x = net.apply(Unary("tanh", net.shape(x)), x, name="tanh")
    return net.build((net.apply(Softmax(net.shape(x)), x, name="prob"),))


def planned(network: Network, machine: Machine = MACHINE) -> PlannedNetwork:
    return NETWORKS.compile(simplified(network), machine, BY_THE_MODEL, progress=silent)


@pytest.fixture(scope="module")
def made() -> PlannedNetwork:
    return planned(FixedPoint(KINDS).apply(small()))


def test_the_device_has_the_bits_of_the_plan(made: PlannedNetwork):
    """Every kind of stage; its cycles are those of the model within 2 %. The probabilities differ
    from the reference, which rounds each operator once, by a few units of 1 / 256.
    """
    network = FixedPoint(KINDS).apply(small())
    inputs = random_inputs(network)
    weights = {**random_weights(network), **made.weights}
    device = DeviceNetwork(made.plan)
    arranged = made.arranged(inputs)
    found, run = device.run(arranged, weights)
    meant = interpret_plan(made.plan, arranged, weights)
    assert np.array_equal(found["prob"], meant["prob"])
    assert np.array_equal(made.run(*inputs.values(), weights=weights)["prob"], meant["prob"])
    wanted = network.evaluate({**weights, **inputs})["prob"]
    assert np.abs(found["prob"].astype(int) - wanted).max() <= 3
    assert run.cycles == pytest.approx(made.plan.estimate_cycles, rel=0.02)


@pytest.mark.parametrize("order", ["m,k", "k,m"])
def test_statements_are_products_and_maps(order: str):
    """A product that is no operator by name rounds its sums once, too."""
    text = f"h[m,n] += x[{order}] * w[n,k]; y[m,n] = max(h[m,n], 0.0)"
    network = tw.define(text, dtype=KINDS, m=2, n=16, k=24)
    assert isinstance(network, Network)
    made = tw.compile(network, machine="dla-al")
    given = random_inputs(network)
    found = made.run(given["x"], given["w"])["y"]
    assert np.array_equal(found, network.evaluate(given)["y"])


def test_the_text_names_the_stages(made: PlannedNetwork):
    """The first product takes six pixels at once."""
    (text,) = dla_source(made.plan).files.values()
    stages = [line.strip() for line in text.splitlines() if line.startswith("  ; stage")]
    assert stages[0] == "; stage conv: conv2d 1x117x6x1 -> 48, 1x1 s1 p0 bias relu"


@pytest.mark.parametrize(
    ("expression", "x", "y"),
    [
        ("0.0 if x0 < 0.0 else x0", [-300, 300], [0, 300]),
        ("tanh(x0)", [-32768, -256, 0, 256], [-256, -194, 0, 194]),
        ("x0 / 3.0", [1, 2, -2], [0, 1, -1]),
        ("x0 + x0", [20000, -20000], [32767, -32768]),
        ("sqrt(x0)", [0, 256, 1024], [0, 256, 513]),
        ("min(x0, 1.0)", [100, 300], [100, 256]),
    ],
)
def test_steps_round_and_saturate(expression: str, x: list[int], y: list[int]):
    """In units of 1 / 256; a function in several steps is a unit off, as tanh(1) is."""
    given = np.array(x, np.int16).reshape(1, 1, -1)
    found = RoundedMap(expression, 8).meaning((np.zeros_like(given), given))
    assert found.ravel().tolist() == y


def test_sums_saturate_in_order():
    y, x = np.zeros((1, 1, 1), np.int16), np.array([30000, 30000, -30000], np.int16)
    found = RoundedReduce("x0 + x1", 8).meaning((y, x.reshape(1, 1, 3, 1)))
    assert found.item() == 2767


def test_constants_are_made_once():
    """They are operands; a rectifier is one instruction for each tile."""
    expression, numbers = with_constants("0.0 if x0 + x1 < 0.0 else x0 + x1", 2)
    assert (expression, numbers) == ("max(x0 + x1, x2)", (0.0,))
    assert [s.mnemonic for s in vector_steps_of(expression, 3, 8).steps] == ["vav", "vgtm"]


@given(st.data())
@examples(6)
def test_pools_have_the_bits_of_the_operator(data: st.DataObject):
    """Windows that overlap, that touch and that leave gaps, with and without padding, as large as
    an image too; the model is right within 2 % or by the addresses of a few dozen operations.
    """
    kernel = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    shape = (1, data.draw(st.integers(1, 40)), *(k + data.draw(st.integers(0, 8)) for k in kernel))
    padding = data.draw(st.integers(0, min(kernel) // 2))
    net = NetworkBuilder("pool", "f64")
    op = max_pool2d(shape, kernel, stride=stride, padding=padding)
    net = FixedPoint(KINDS).apply(net.build((net.apply(op, net.input("x", shape), name="y"),)))
    made, inputs = planned(net), random_inputs(net)
    found, run = DeviceNetwork(made.plan).run(made.arranged(inputs), {})
    (wanted,) = net.evaluate(inputs).values()
    assert np.array_equal(*(next(iter(x)) for x in (found.values(), [wanted])))
    assert run.cycles == pytest.approx(made.plan.estimate_cycles, rel=0.02, abs=40)


def test_the_next_rows_of_a_pool_are_fetched_behind_its_first_step():
    """Two operations are in flight: behind two fetches the second step would wait for both."""
    net, shape = NetworkBuilder("pool", "f64"), (1, 128, 28, 28)
    y = net.apply(max_pool2d(shape, 2, stride=2), net.input("x", shape), name="y")
    plan = planned(FixedPoint(KINDS).apply(net.build((y,)))).plan
    (text,) = dla_source(plan).files.values()
    lines = [line.split() for line in text.splitlines()]
    titles = [words[1] for words in lines if words[0] == ";"]
    first = titles.index("rounded_step")
    assert titles[first - 1 : first + 3] == ["get", "rounded_step", "get", "rounded_step"]


def test_a_bias_and_a_rectifier_stand_behind_the_product():
    """In the vector scratchpad, on two rows of the tile while the next one is made."""
    net = NetworkBuilder("layer", "f64")
    op = gemm(8, 64, 32, transpose_b=True)
    x = net.apply(op, net.input("x", (8, 32)), net.weight("w", (64, 32)), name="product")
    x = net.apply(Bias((8, 64), 1), x, net.weight("b", (64,)), name="bias")
    x = net.apply(Unary("relu", (8, 64)), x, name="relu")
    plan = planned(FixedPoint(KINDS).apply(net.build((x,)))).plan
    assert [s.label for s in plan.stages] == ["gemm m8 n64 k32 transpose_b bias relu"]
    (text,) = dla_source(plan).files.values()
    calls = [
        s.split()[1] for s in text.splitlines() if s.strip().startswith(("; rounded", "; put"))
    ]
    products = [number for number, call in enumerate(calls) if call == "rounded_product"]
    maps = [number for number, call in enumerate(calls) if call == "rounded_map"]
    assert any(products[0] < number < products[-1] for number in maps)
    assert calls[-1] == "put"


@pytest.mark.parametrize("function", ["mean", "max", "min", "sum"])
def test_reductions_are_of_reals_and_rounded_once(function: str):
    net = NetworkBuilder("reduced", "f64")
    op = Reduce(function, (3, 6, 5), (0, 2))
    network = FixedPoint(KINDS).apply(
        net.build((net.apply(op, net.input("x", op.shape), name="y"),))
    )
    inputs = random_inputs(network)
    found = planned(network).run(inputs["x"])["y"]
    reals = getattr(np, function)(inputs["x"] / 256, axis=(0, 2), keepdims=True)
    assert np.array_equal(found, np.clip(np.rint(reals * 256), -(2**15), 2**15 - 1))


def test_elements_that_saturate_are_counted_by_layer():
    """100 times 1.5 twice over: 300 is more than 127.996."""
    net = NetworkBuilder("scores", "f64")
    x, op = net.input("x", (1, 2)), gemm(1, 4, 2, transpose_b=True)
    x = net.apply(op, x, net.weight("w", (4, 2)), name="product")
    network = FixedPoint(KINDS).apply(net.build((net.apply(Unary("relu", (1, 4)), x, name="y"),)))
    weights = {"w": np.array([[384, 384], [1, 1], [384, 384], [1, 1]], np.int16)}
    made = planned(network)
    (name,) = (stage.name for stage in made.plan.stages)
    found = made.run(np.array([[25600, 25600]], np.int16), weights=weights)
    assert found["y"].tolist() == [[32767, 200, 32767, 200]]
    assert found.saturated == {name: 2}
    figures = structs.replace(made.described(0.0), saturated=dict(found.saturated))
    with pytest.raises(SimulationError) as caught:
        require_unsaturated(figures)
    assert str(caught.value) == (
        f"scores: 2 elements saturated, 2 elements in {name}; smaller weights and inputs, or "
        "leave --strict"
    )


def refusal(machine: Machine) -> str:
    """Why a machine has no room for the small network."""
    network = simplified(FixedPoint(KINDS).apply(small()))
    with pytest.raises(CapacityError) as caught:
        NETWORKS.compile(network, machine, BY_THE_MODEL, progress=silent)
    return str(caught.value)


def test_a_network_that_does_not_fit_names_the_least_main_memory():
    text = refusal(load_machine("dla-al", {"memory.main.capacity_bytes": 1024}))
    assert text == (
        "small needs 25,104 bytes of main memory, a group of dla-al has 1,024; at the same time "
        "live 'w.beside' 11,232 bytes, 'w.at_0' 1,872 bytes, 'w.at_1' 1,872 bytes, 'w.at_2' 1,872 "
        "bytes, 'w.at_3' 1,872 bytes and 8 smaller ones; --set memory.main.capacity_bytes=25104"
    )


def test_a_stage_that_does_not_fit_names_the_least_scratchpad():
    for too_few in (320, 382):
        text = refusal(load_machine("dla-al", {"memory.vector.capacity_bytes": too_few}))
        assert text == (
            "tanh: no tile of map 10: tanh(x0) fits: the smallest tiles of 'map' take 384 bytes of "
            "memory 'vector', 32 of them for 'y', the limit is "
            f"{too_few}; --set memory.vector.capacity_bytes=384"
        )
    enough = load_machine("dla-al", {"memory.vector.capacity_bytes": 384})
    assert planned(FixedPoint(KINDS).apply(small()), enough).plan.stages


def test_functions_that_no_instructions_compute_are_refused_before_any_search():
    net = NetworkBuilder("angles", "f64")
    x = net.input("x", (1, 4))
    network = net.build((net.apply(Unary("sin", (1, 4)), x, name="wave"),))
    with pytest.raises(GraphError) as caught:
        planned(FixedPoint(KINDS).apply(network))
    assert str(caught.value).startswith("node wave: no vector instructions compute sin; they")


def test_floats_are_refused_with_the_way_out():
    with pytest.raises(GraphError) as caught:
        planned(known("lenet5", 1, dtype="f64"))
    assert str(caught.value) == (
        "dla-al computes in fixed point, 'images' of lenet5 is of f64; --dtype q8.8:q48.16:q8.8"
    )


def test_mixed_types_have_no_fixed_point():
    net = NetworkBuilder("mixed", "f32")
    x = net.input("x", (2,), "i32")
    network = net.build((x,))
    with pytest.raises(GraphError) as caught:
        FixedPoint(KINDS).apply(network)
    assert str(caught.value) == (
        "mixed has tensors of i32, fixed point takes the place of one type of floats"
    )


def layers(channels: int, features: int, height: int, width: int) -> Network:
    """A convolution behind another one, with a bias and a rectifier."""
    net = NetworkBuilder("layers", "f64")
    x = net.input("x", (1, 24, height, width))
    for name, taken, made in (("pre", 24, channels), ("conv", channels, features)):
        op = conv2d(batch=1, in_channels=taken, out_channels=made, height=height, width=width,
                    kernel=3, padding=1)  # fmt: skip
        x = net.apply(op, x, net.weight(f"w_{name}", op.input_shapes[1]), name=name)
    x = net.apply(Bias(net.shape(x), 1), x, net.weight("b", (features,)), name="bias")
    x = net.apply(Unary("relu", net.shape(x)), x, name="relu")
    return FixedPoint(KINDS).apply(net.build((x,)))


@pytest.mark.parametrize("sizes", [(96, 128, 15, 12), (64, 96, 17, 20), (32, 320, 8, 9)])
def test_a_bias_and_a_rectifier_run_beside_the_products(sizes: tuple[int, int, int, int]):
    """One vector instruction for each product, on two pixels, or where windows are copied beside
    products, too, one every fourth turn on eight; those that are left come behind.
    """
    network = layers(*sizes)
    made, inputs, weights = planned(network), random_inputs(network), random_weights(network)
    arranged = made.arranged(inputs)
    found, run = DeviceNetwork(made.plan).run(arranged, {**weights, **made.weights})
    meant = interpret_plan(made.plan, arranged, weights)
    assert np.array_equal(found["relu"], meant["relu"])
    assert run.cycles == pytest.approx(made.plan.estimate_cycles, rel=0.01)
    stage = made.plan.stages[-1]
    assert stage.label.endswith("bias relu")
    text = print_program(made.plan.program(stage))
    turns = ("% 8 == 0", "% 8 == 4") if "copy(" in text else ("% 2 == 0", "% 2 == 1")
    assert [text.count(f"{turn}):\n") for turn in turns] == [1, 1]


@pytest.mark.parametrize("shape", [(1, 256, 27, 27), (1, 192, 13, 20)])
def test_a_response_norm_runs_beside_its_sums(shape: tuple[int, int, int, int]):
    """An instruction on as many pixels as there are instructions beside each product, and each of
    these turns has its price; squares and sums keep the order of the image.
    """
    net = NetworkBuilder("norm", "f64")
    x = net.input("x", shape)
    x = net.apply(LocalResponseNorm(shape, 5, alpha=1.0, bias=2.0), x, name="y")
    network = FixedPoint(KINDS).apply(net.build((x,)))
    made = planned(network)
    arranged = made.arranged(random_inputs(network))
    found, run = DeviceNetwork(made.plan).run(arranged, made.weights)
    meant = interpret_plan(made.plan, arranged, made.weights)
    assert np.array_equal(found["y"], meant["y"])
    assert run.cycles == pytest.approx(made.plan.estimate_cycles, rel=6e-3)
    _, sums = made.plan.stages
    text = print_program(made.plan.program(sums))
    assert [text.count(f" % 6 == {turn}):\n") for turn in range(7)] == [1] * 6 + [0]
    assert run.cycles < 45 * prod(shape) / MACHINE.core.lanes("i16") + 3000


@pytest.mark.parametrize(("channels", "features", "width"), [(3, 64, 16), (1, 8, 15), (4, 20, 14)])
def test_a_first_product_takes_pixels_side_by_side(channels: int, features: int, width: int):
    """The kernel stands at the place of each of them: the same sums, in fewer products; bias and
    rectifier run beside these.
    """
    net = NetworkBuilder("first", "f64")
    op = conv2d(batch=2, in_channels=channels, out_channels=features, height=9, width=width,
                kernel=3, padding=1)  # fmt: skip
    x = net.input("x", op.input_shapes[0])
    x = net.apply(op, x, net.weight("w", op.input_shapes[1]), name="product")
    x = net.apply(Bias(op.out_shape, 1), x, net.weight("b", (features,)), name="bias")
    x = net.apply(Unary("relu", op.out_shape), x, name="y")
    network = FixedPoint(KINDS).apply(net.build((x,)))
    made, inputs, weights = planned(network), random_inputs(network), random_weights(network)
    found = made.run(*inputs.values(), weights={**weights, **made.weights})["y"]
    (wanted,) = network.evaluate({**inputs, **weights}).values()
    assert np.array_equal(found, wanted)
    (stage,) = made.plan.stages
    assert stage.label.endswith("bias relu")
    products = stage.op
    assert products.out_shape[1] > features
    assert products.out_shape[1] * products.out_shape[3] == features * width
