"""The zoo against the published facts of its networks."""

import numpy as np
import pytest

from tilewright.common.errors import GraphError
from tilewright.graph import list_networks, network
from tilewright.ops import Conv2d


def convolutions(name):
    return [op for _, op in network(name, 1).layers() if isinstance(op, Conv2d)]


def parameters(name):
    return sum(int(np.prod(weight.shape)) for weight in network(name, 1).weights)


@pytest.mark.parametrize(
    ("name", "layers", "different"),
    [("vgg16", 13, 9), ("resnet50", 53, 20), ("yolov2", 23, 14)],
)
def test_convolution_counts_agree_with_swatop_table_3(name, layers, different):
    """swATOP tunes 9, 20 and 14 different layers: 4068/452.0, 7064/353.2, 5112/365.1."""
    assert len(convolutions(name)) == layers
    assert len(set(convolutions(name))) == different


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("vgg16", 138_357_544),
        ("alexnet", 60_965_224),
        ("resnet50", 25_557_032 + 2 * 26_560),
        ("mobilenet2", 3_504_872 + 2 * 17_056),
        ("lenet5", 61_706 - 10 * 6 * 25 + 60 * 25),
        ("perceptron", (8192 * 16384 + 16384 * 4096) // 256),
    ],
)
def test_parameter_counts(name, count):
    """Published counts; ResNet-50 and MobileNet v2 hold mean and variance too (26,560 and 17,056
    channels).

    LeNet-5's third layer is fully connected across channels, as in most implementations.
    """
    assert parameters(name) == count


@pytest.mark.parametrize(
    ("name", "giga_multiply_accumulates"),
    [
        ("vgg16", 15.47),
        ("resnet50", 3.86),
        ("yolov2", 14.72),
        ("alexnet", 0.724),
        ("mobilenet2", 0.300),
    ],
)
def test_work_of_the_layers(name, giga_multiply_accumulates):
    work = sum(op.flops for _, op in network(name, 1).layers()) / 2e9
    assert work == pytest.approx(giga_multiply_accumulates, rel=0.003)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("vgg16", (3, 1000)),
        ("resnet50", (3, 1000)),
        ("alexnet", (3, 1000)),
        ("yolov2", (3, 425, 13, 13)),
        ("lenet5", (3, 10)),
        ("mobilenet2", (3, 1000)),
    ],
)
def test_output_shapes_scale_with_the_batch(name, shape):
    net = network(name, 3)
    assert net.tensors[net.outputs[0]].shape == shape


@pytest.mark.parametrize("name", list_networks())
def test_a_network_is_equal_to_itself_built_again_and_keeps_its_element_type(name):
    assert network(name, 2) == network(name, 2)
    single = network(name, 2, dtype="f32")
    assert {tensor.dtype for tensor in single.tensors.values()} == {"f32"}


def test_vgg_layers_carry_the_names_of_the_paper():
    names = [name for name, _ in network("vgg16", 1).layers()]
    assert names[:3] == ["conv1_1", "conv1_2", "conv2_1"]
    assert names[-4:] == ["conv5_3", "fc6", "fc7", "fc8"]


def test_lenet_gives_probabilities():
    net = network("lenet5", 2)
    generator = np.random.default_rng(0)
    feeds = {t.name: generator.normal(size=t.shape) for t in (*net.inputs, *net.weights)}
    (probabilities,) = net.evaluate(feeds).values()
    assert np.allclose(probabilities.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vgg61", "unknown network 'vgg61'; did you mean vgg16?"),
        (
            "bert",
            "unknown network 'bert'; known networks: alexnet, digits, lenet5, mobilenet2, "
            "perceptron, resnet50, vgg16, yolov2",
        ),
    ],
)
def test_unknown_network(name, message):
    with pytest.raises(GraphError) as refusal:
        network(name, 1)
    assert str(refusal.value) == message


def test_batch_below_one():
    with pytest.raises(GraphError) as refusal:
        network("vgg16", 0)
    assert str(refusal.value) == "batch must be a positive integer, found 0"
