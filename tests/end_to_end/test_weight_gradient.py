"""Convolutions with an image for a kernel, as gradients by weights are: programs and code."""

import pytest

from tilewright.compiler.entry import compile
from tilewright.machine import load_machine
from tilewright.ops import conv2d
from tilewright.partition import TERMS
from tilewright.seeds.space import seeds_for
from tilewright.seeds.steps import Fuse
from tilewright.tune.choose import choose

NAME, TAPS = "weight_gradient", "weight_gradient_taps"


def gradient(in_channels, out_channels, images, size, **others):
    """The gradient by 3x3 weights with a border."""
    channels = {"batch": in_channels, "in_channels": images, "out_channels": out_channels}
    return conv2d(**channels, height=size, width=size, kernel=size, padding=1, **others)


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(gradient(32, 64, 16, 5), id="whole tiles"),
        pytest.param(gradient(20, 36, 6, 6), id="tiles that end early"),
        pytest.param(
            conv2d(batch=8, in_channels=5, out_channels=12, height=12, width=12, kernel=6,
                   padding=(1, 1, 0, 0), dilation=2),
            id="of a stride",
        ),
    ],
)  # fmt: skip
def test_generated_code_computes_the_operator_in_the_time_it_estimates(op):
    kernel = compile(op, "sw26010_cg", algorithm=NAME).plan.only
    assert kernel.check() == "exact"
    assert kernel.option.cycles == pytest.approx(kernel.simulate().cycles, rel=0.05)


@pytest.mark.parametrize(("name", "share"), [("sw26010", 0.93), ("sw26010_measured", 0.88)])
def test_groups_divide_images_and_columns_are_one_sum(name, share):
    machine = load_machine(name)
    (found,) = choose([gradient(128, 256, 128, 32)], machine, algorithm=NAME)
    assert found.best.partition.kind == TERMS
    (nest,) = found.best.candidate.nests
    assert Fuse("kernel_col", "k") in nest.structure.steps
    seconds = found.best.cycles / machine.clock_hz
    assert found.op.flops / seconds > share * machine.peak_flops


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(gradient(64, 64, 16, 5), id="a block for each core"),
        pytest.param(gradient(72, 36, 6, 6), id="two blocks for some"),
        pytest.param(
            conv2d(batch=8, in_channels=5, out_channels=12, height=12, width=12, kernel=6,
                   padding=(1, 1, 0, 0), dilation=2),
            id="of a stride",
        ),
    ],
)  # fmt: skip
def test_joined_taps_are_exact_in_the_time_that_is_estimated(op):
    kernel = compile(op, "sw26010_cg", algorithm=TAPS).plan.only
    assert kernel.check() == "exact"
    assert kernel.option.cycles == pytest.approx(kernel.simulate().cycles, rel=0.02)


@pytest.mark.parametrize(("name", "share"), [("sw26010", 0.74), ("sw26010_measured", 0.66)])
def test_taps_of_few_channels_fill_the_registers(name, share):
    machine, op = load_machine(name), gradient(64, 64, 128, 128)
    joined, others = (choose([op], machine, algorithm=a)[0].best for a in (TAPS, NAME))
    assert joined.partition.kind == TERMS
    assert op.flops / (joined.cycles / machine.clock_hz) > share * machine.peak_flops
    assert joined.cycles < 0.7 * others.cycles


def test_forward_convolutions_do_not_have_it():
    forward = conv2d(batch=8, in_channels=8, out_channels=8, height=9, width=9, kernel=3)
    assert NAME not in [seed.name for seed in seeds_for(forward)]
    assert NAME in [seed.name for seed in seeds_for(gradient(8, 8, 8, 9))]
