"""Networks that this computer cannot run: each refusal is one message, tested whole."""

from __future__ import annotations

import pytest

from support.native import NATIVE_HOSTS
from tilewright.common.errors import CapacityError, GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.network.search import Search
from tilewright.ops import BatchNorm, Op, Pad, Reduce, Slice, conv2d, relu
from tilewright.targets.host.network.generate import generated
from tilewright.targets.host.network.native import compile_network

pytestmark = pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor")


def refusal(net: NetworkBuilder, output: str) -> str:
    with pytest.raises(GraphError) as caught:
        generated(net.build((output,)), NATIVE_HOSTS[0], Search(keep=1))
    return str(caught.value)


def test_a_convolution_by_weights_that_are_an_input() -> None:
    net = NetworkBuilder("net", "f32")
    op = conv2d(
        batch=2, in_channels=4, out_channels=6, height=9, width=8, kernel=3, dtype="f32"
    )  # fmt: skip
    inputs = [net.input(n, shape) for n, shape in zip("xw", op.input_shapes, strict=True)]
    assert refusal(net, net.apply(op, *inputs, name="c")) == (
        "node c: conv2d 2x4x9x8 -> 6, 3x3 s1 p0 cannot be run on this computer, since its weights "
        "'w' are not known before the network runs; store them in the model"
    )


def test_a_normalisation_by_statistics_that_are_inputs() -> None:
    net = NetworkBuilder("net", "f32")
    op = BatchNorm((2, 4, 9, 8), dtype="f32")
    inputs = [net.input(n, shape) for n, shape in zip("xsbmv", op.input_shapes, strict=True)]
    assert refusal(net, net.apply(op, *inputs, name="n")) == (
        "node n: batch_norm 2x4x9x8 cannot be run on this computer, since what it takes are not "
        "weights per channel"
    )


def test_a_tensor_that_no_process_addresses() -> None:
    net = NetworkBuilder("net", "f32")
    shape = (2**23, 2**23)
    y = net.apply(relu(shape, dtype="f32"), net.input("x", shape), name="r")
    with pytest.raises(CapacityError) as caught:
        compile_network(net.build((y,)), NATIVE_HOSTS[0])
    assert str(caught.value) == (
        "net: the tensor 'x', 8388608x8388608, takes 281,474,976,710,656 bytes, more than a "
        "process addresses; a smaller --batch or --shape"
    )


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            Pad((2, 4), (0, 1), (0, 0), 1.5),
            "node n: pad 2x4 -> 2x5 with 1.5 cannot be run on this computer, which pads with "
            "zeros; another --machine",
        ),
        (
            Slice((2, 4), (0, 0), (2, 2), (1, 2)),
            "node n: slice 2x4 -> 2x2 cannot be run on this computer, which takes slices of "
            "elements that follow each other; another --machine",
        ),
        (
            Reduce("sum", (2, 4), (1,)),
            "node n: reduce_sum 2x4 along 1 cannot be run on this computer, which reduces the "
            "pixels of images by pooling; another --machine",
        ),
    ],
)
def test_moves_that_no_copy_between_views_computes(op: Op, message: str) -> None:
    net = NetworkBuilder("net", "f64")
    y = net.apply(op, net.input("x", (2, 4)), name="n")
    with pytest.raises(GraphError) as caught:
        compile_network(net.build((y,)), NATIVE_HOSTS[0])
    assert str(caught.value) == message
