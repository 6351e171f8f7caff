"""Training steps in fixed point as one program of DLA-AL, equal to its meaning bit for bit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from support.cambricon_operators import KINDS, MACHINE
from tilewright.codegen.artifact import Array
from tilewright.common.errors import GraphError, ScheduleError
from tilewright.compiler.checking import program_inputs
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.fixed_point import FixedPoint
from tilewright.graph.training import Optimiser, training_step
from tilewright.ir.printer import print_program
from tilewright.machine.load import find_machine
from tilewright.network.interpret import interpret_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.ops import Bias, LocalResponseNorm, Unary, conv2d, flatten, gemm
from tilewright.ops.access import straight
from tilewright.ops.mapping import InMemory
from tilewright.targets.cambricon.code import CODE
from tilewright.targets.cambricon.host_windows import with_windows
from tilewright.tune.choose import choose


def layers(images: int = 4) -> Network:
    """Two products with biases and a rectifier between them."""
    net = NetworkBuilder("layers", "f64")
    x, w, b = net.input("x", (images, 8)), net.weight("w", (6, 8)), net.weight("b", (6,))
    y = net.apply(gemm(images, 6, 8, transpose_b=True), x, w, name="first")
    y = net.apply(Bias((images, 6), 1), y, b, name="bias")
    y = net.apply(Unary("relu", (images, 6)), y, name="relu")
    y = net.apply(gemm(images, 3, 6, transpose_b=True), y, net.weight("v", (3, 6)), name="scores")
    return FixedPoint(KINDS).apply(net.build((y,)))


def given(step: Network) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and states of a step."""
    rng = np.random.default_rng(1)
    shapes = {name: t.shape for name, t in step.tensors.items()}
    states = {s.tensor: rng.integers(-128, 129, shapes[s.tensor]) for s in step.states}
    images, classes = shapes["labels"]
    labels = np.eye(classes, dtype=np.int16)[rng.integers(0, classes, images)] << 8
    others = {t.name: t.shape for t in step.inputs if t.name not in {*states, "labels"}}
    inputs = {name: rng.integers(0, 257, shape) for name, shape in others.items()}
    found = {name: x.astype(np.int16) for name, x in (inputs | {"labels": labels}).items()}
    return found, {name: x.astype(np.int16) for name, x in states.items()}


def compiled(step: Network) -> PlannedNetwork:
    made = tw.compile(step, machine="dla-al").plan
    assert isinstance(made, PlannedNetwork)
    return made


def test_a_step_is_one_program_with_the_bits_of_its_plan():
    """Weights change where they lie; sums over the images are rounded once, so that gradients of
    weights are those of the reference, which rounds each operator once.
    """
    step = training_step(layers(), Optimiser("sgd", rate=0.5))
    made, (inputs, states) = compiled(step), given(step)
    found = made.run(**inputs, **states)
    meant = interpret_plan(made.plan, {**inputs, **states}, {})
    assert all(np.array_equal(found[name], meant[name]) for name in step.outputs)
    assert dict(made.plan.states) == {s.tensor: s.next for s in step.states}
    wanted = step.evaluate({**inputs, **states})
    assert max(np.abs(found[name].astype(int) - wanted[name]).max() for name in found) <= 1


def test_a_step_of_one_image_has_the_bits_of_its_plan():
    """Its loss is one number, without an axis that another value's order could have."""
    net = NetworkBuilder("scores", "f64")
    x, w = net.input("x", (1, 8)), net.weight("w", (3, 8))
    x = net.apply(Unary("relu", (1, 8)), x, name="function")
    y = net.apply(gemm(1, 3, 8, transpose_b=True), x, w, name="product")
    y = net.apply(Bias((1, 3), 1), y, net.weight("b", (3,)), name="scores")
    network = FixedPoint(KINDS).apply(net.build((y,)))
    step = training_step(network, Optimiser("momentum", rate=0.5))
    made, (values, weights) = compiled(step), given(step)
    found = made.run(**values, **weights)
    meant = interpret_plan(made.plan, {**values, **weights}, made.weights)
    for name in found:
        np.testing.assert_array_equal(found[name], meant[name], strict=True)


def test_one_element_has_the_bits_of_its_plan():
    """No dimension of one element lies along memory."""
    net = NetworkBuilder("one", "f64")
    y = net.apply(Unary("sigmoid", (1, 1)), net.input("x", (1, 1)), name="squashed")
    y = net.apply(gemm(1, 3, 1, transpose_b=True), y, net.weight("w", (3, 1)), name="product")
    y = net.apply(Bias((1, 3), 1), y, net.weight("b", (3,)), name="scores")
    network = FixedPoint(KINDS).apply(net.build((y,)))
    step = training_step(network, Optimiser("momentum", rate=0.5))
    inputs, states = given(step)
    made = compiled(step)
    found, meant = made.run(**inputs, **states), interpret_plan(made.plan, inputs | states, {})
    assert found.keys() == meant.keys()
    assert all(np.array_equal(found[name], meant[name]) for name in found)


def test_gradients_of_a_sum_are_divided_by_the_images_in_the_update():
    """Rates are: a gradient of each image's loss over many has hardly a bit left."""
    step = training_step(layers(), Optimiser("momentum", rate=0.5))
    expressions = [n.op.describe() for n in step.nodes if n.name in ("next_w", "next_w_velocity")]
    assert expressions == [
        "next[i0,i1] = 0.9 * velocity[i0,i1] + g[i0,i1]; i0=6, i1=8",
        "next[i0,i1] = w[i0,i1] - 0.125 * velocity[i0,i1]; i0=6, i1=8",
    ]


@pytest.mark.parametrize(
    ("optimiser", "message"),
    [
        (
            Optimiser("sgd", rate=0.005),
            "sgd, next w: 0.00125 is zero in q8.8, whose smallest number is 0.00390625; a rate of "
            "at least 0.015625, decays of at most 0.996094 and an epsilon of at least 0.00390625",
        ),
        (
            Optimiser("adam", rate=0.1),
            "adam, next square: 0.001 is zero in q8.8, whose smallest number is 0.00390625; a rate "
            "of at least 0.00390625, decays of at most 0.996094 and an epsilon of at least "
            "0.00390625",
        ),
    ],
)
def test_factors_that_are_zero_in_fixed_point_are_refused(optimiser: Optimiser, message: str):
    with pytest.raises(GraphError) as caught:
        training_step(layers(), optimiser)
    assert str(caught.value) == message


def test_gradients_of_kernels_are_sums_over_all_pixels():
    """Pixels, borders and dilations as they come: with the bits of the operator, at the cycles of
    the model.
    """
    op = conv2d(batch=5, in_channels=2, out_channels=6, height=9, width=7, kernel=(5, 4),
                padding=1, dilation=2, dtype=KINDS)  # fmt: skip
    kernel = tw.compile(op, machine="dla-al", algorithm="whole_sums").plan.only
    assert kernel.check() == "exact"
    assert abs(kernel.cycles - kernel.estimate_cycles) <= 0.02 * kernel.cycles


@pytest.mark.parametrize(("padding", "stride"), [(0, 1), (1, 2), (2, 4)])
def test_the_host_lays_out_what_the_first_kernels_gradient_sums(padding: int, stride: int):
    """No stage gathers pixels: the gradient is one product, and every result the same."""
    net, side = NetworkBuilder("first", "f64"), 5 + 4 * stride - 2 * padding
    x = net.input("x", (3, 2, side, side))
    conv = conv2d(batch=3, in_channels=2, out_channels=4, height=side, width=side, kernel=5,
                  padding=padding, stride=stride)  # fmt: skip
    y = net.apply(conv, x, net.weight("w", conv.input_shapes[1]), name="conv")
    y = net.apply(flatten(conv.out_shape), y, name="flat")
    y = net.apply(gemm(3, 3, 100, transpose_b=True), y, net.weight("v", (3, 100)), name="scores")
    step = training_step(FixedPoint(KINDS).apply(net.build((y,))), Optimiser("sgd", rate=0.5))
    own, (windows,) = with_windows(step, find_machine("dla-al"))
    assert windows.by_taps in own.inputs
    (product,) = (n for n in own.nodes if windows.by_taps and windows.by_taps.name in n.inputs)
    assert product.op.describe() == "gemm m4 n50 k75 transpose_b"
    inputs, states = given(step)
    wanted = step.evaluate({**inputs, **states})
    found = own.evaluate({**inputs, **states, **windows.arranged(inputs["x"])})
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_sums_over_channels_are_products_backwards_too():
    """A step of a response norm has no map over windows of channels: its sums are products with a
    band of ones.
    """
    net = NetworkBuilder("norm", "f64")
    x = net.input("x", (2, 3, 6, 6))
    conv = conv2d(batch=2, in_channels=3, out_channels=12, height=6, width=6, kernel=3, padding=1)
    y = net.apply(conv, x, net.weight("w", conv.input_shapes[1]), name="conv")
    y = net.apply(LocalResponseNorm(conv.out_shape, 5), y, name="norm")
    y = net.apply(flatten(conv.out_shape), y, name="flat")
    scores = gemm(2, 3, 432, transpose_b=True)
    y = net.apply(scores, y, net.weight("v", (3, 432)), name="scores")
    step = training_step(FixedPoint(KINDS).apply(net.build((y,))), Optimiser("sgd", rate=0.5))
    made = tw.compile(step, machine=MACHINE).plan
    assert isinstance(made, PlannedNetwork)
    bands = [s for s in made.plan.stages if "12x6x6 -> 12, 1x1" in s.label]
    assert len(bands) == 2
    assert not any("x5:" in s.label for s in made.plan.stages)
    rng = np.random.default_rng(3)
    given = {t.name: rng.integers(-200, 201, t.shape).astype(np.int16) for t in step.inputs}
    given["labels"] = (np.eye(3)[[0, 2]] * 256).astype(np.int16)
    found = made.run(**given)
    arranged = given if made.arranged is None else made.arranged(given)
    meant = interpret_plan(made.plan, arranged, made.weights)
    assert all(np.array_equal(found[name], meant[name]) for name in found)


def test_a_copy_that_turns_dimensions_is_products_with_unit_vectors():
    """The matrix unit moves each element exactly, of several images too."""
    shape = (3, 5, 8)
    x = straight((3, 8, 5), (0, 2, 1))
    op = InMemory(shape, straight(shape), (x,), "x0", dtype="q8.8:f64:q8.8")
    (choice,) = choose([op], MACHINE)
    candidate = choice.best.candidate
    program = candidate.program(MACHINE)
    assert 'roles="pmn"' in print_program(program)
    numbers = np.random.default_rng(0).integers(-(2**15), 2**15, x.shape).astype(np.int16)
    inputs = program_inputs(op, candidate.seed, program, (numbers,))
    found = CODE.run(CODE.emit(program, MACHINE), MACHINE, inputs)["y"]
    assert np.array_equal(found, numbers.transpose(0, 2, 1))
    assert CODE.simulate(program, MACHINE).cycles == pytest.approx(candidate.cycles, rel=0.02)


def test_elements_that_saturate_are_counted_by_stage():
    step = training_step(layers(), Optimiser("sgd", rate=0.5))
    inputs, states = given(step)
    states["v"][:] = 32767
    inputs["x"][:], states["w"][:] = 2560, 256
    found = compiled(step).run(**inputs, **states)
    assert found.saturated["scores"] == found["scores"].size == 12


def test_roundings_are_limited():
    """A vector of so many terms does not fit: it is cut, and each part rounded."""
    op = gemm(1, 4, 40_000, transpose_b=True, dtype=KINDS)
    assert choose([op], MACHINE, algorithm="gemm", max_roundings=40)
    with pytest.raises(ScheduleError) as caught:
        choose([op], MACHINE, algorithm="gemm", max_roundings=1)
    assert str(caught.value) == (
        "gemm m1 n4 k40000 transpose_b: the fastest schedules on dla-al round a sum 40 times or "
        "more, --max-roundings allows 1; --max-roundings 40, or larger scratchpads"
    )


def test_digits_learn_in_16_bits_with_the_bits_of_the_device():
    script = Path(__file__).resolve().parents[3] / "tools" / "train_fixed.py"
    command = [sys.executable, str(script), "mlp", "--epochs", "2"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert "1 of 88 steps equal on the device bit for bit; saturated {}" in found.stdout
