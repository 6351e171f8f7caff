"""Well-known networks by name, built for any batch size, without numbers for their weights.

Sources of the shapes: VGG-16 (Simonyan and Zisserman 2014, configuration D), ResNet-50 (He et al.
2015; the stride of a stage stands in its first 1x1 convolution), MobileNet v2 (Sandler et al. 2018,
width 1), YOLOv2 (Redmon and Farhadi 2016,
416 x 416, 80 classes), AlexNet (Krizhevsky et al. 2012, two groups), LeNet-5 (LeCun et al. 1998).
The perceptron has the proportions of the first network of ICSI TR-93-046, Table 3.1, a sixteenth of
each layer.
swATOP measures the convolutions of the first three.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from itertools import pairwise

from tilewright import ops
from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.names import quoted
from tilewright.graph.rewrites.fixed_point import FixedPoint, is_fixed
from tilewright.ops.lookup import Lookup
from tilewright.ops.numerics import Numerics
from tilewright.ops.op import IntOrPair


def network(name: str, batch: int, *, dtype: str = "f64") -> Network:
    """The network called `name` for `batch` images; fixed-point element types apply to its
    products. Raises GraphError for unknown names.
    """
    if name not in _NETWORKS:
        close = difflib.get_close_matches(name, _NETWORKS, 1)
        known = ", ".join(list_networks())
        fix = f"did you mean {close[0]}?" if close else f"known networks: {known}"
        raise GraphError(f"unknown network {quoted(name)}", fix=fix)
    if batch < 1:
        raise GraphError(f"batch must be a positive integer, found {batch}")
    if is_fixed(dtype):
        return FixedPoint(dtype).apply(_NETWORKS[name](batch, "f64"))
    return _NETWORKS[name](batch, dtype)


def list_networks() -> list[str]:
    """The names of the networks, sorted."""
    return sorted(_NETWORKS)


_PARAMETERS = {"leaky_relu": (0.1, 0.0), "clip": (0.0, 6.0)}
"""Alpha and beta of activations that have some; the clip is a rectifier that ends at 6."""


class _Layers(NetworkBuilder):
    """Layers in the order of a network's description; each appends nodes and returns its result."""

    def conv(
        self,
        x: str,
        name: str,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        normalise: bool = False,
        activation: str = "relu",
    ) -> str:
        """Convolution, then batch normalisation or bias, then the activation, if any."""
        batch, in_channels, height, width = self.shape(x)
        op = ops.conv2d(
            batch=batch,
            in_channels=in_channels,
            out_channels=channels,
            height=height,
            width=width,
            kernel=kernel,
            stride=stride,
            padding=padding,
            groups=groups,
            dtype=self.dtype,
        )
        x = self.apply(op, x, self.weight(f"{name}_weight", op.input_shapes[1]), name=name)
        x = self._normalise(x, name) if normalise else self._bias(x, name)
        return self.activate(x, name, activation)

    def dense(self, x: str, name: str, features: int, activation: str = "relu") -> str:
        """Fully connected layer with bias; the weights are stored features x inputs."""
        batch, inputs = self.shape(x)
        op = ops.gemm(batch, features, inputs, transpose_b=True, dtype=self.dtype)
        x = self.apply(op, x, self.weight(f"{name}_weight", (features, inputs)), name=name)
        return self.activate(self._bias(x, name), name, activation)

    def activate(self, x: str, name: str, activation: str) -> str:
        """The activation function, unless its name is empty."""
        if not activation:
            return x
        alpha, beta = _PARAMETERS.get(activation, (0.0, 0.0))
        op = ops.Unary(activation, self.shape(x), alpha, beta, self.dtype)
        return self.apply(op, x, name=f"{name}_{activation}")

    def pool(self, x: str, name: str, kernel: IntOrPair, stride: int, padding: int = 0) -> str:
        """Maximum pooling."""
        op = ops.max_pool2d(self.shape(x), kernel, stride=stride, padding=padding, dtype=self.dtype)
        return self.apply(op, x, name=name)

    def flatten(self, x: str) -> str:
        """A row per image."""
        return self.apply(ops.flatten(self.shape(x), dtype=self.dtype), x, name="flatten")

    def softmax(self, x: str) -> Network:
        """Class probabilities, and the end of the network."""
        return self.build(
            (self.apply(ops.Softmax(self.shape(x), dtype=self.dtype), x, name="prob"),)
        )

    def _bias(self, x: str, name: str) -> str:
        shape = self.shape(x)
        bias = self.weight(f"{name}_bias_values", (shape[1],))
        return self.apply(ops.Bias(shape, dtype=self.dtype), x, bias, name=f"{name}_bias")

    def _normalise(self, x: str, name: str) -> str:
        op = ops.BatchNorm(self.shape(x), dtype=self.dtype)
        statistics = [
            self.weight(f"{name}_{word}", op.input_shapes[1])
            for word in ("scale", "shift", "mean", "variance")
        ]
        return self.apply(op, x, *statistics, name=f"{name}_norm")


def _digits(batch: int, dtype: str) -> Network:
    net = _Layers("digits", dtype)
    x = net.input("images", (batch, 1, 8, 8))
    x = net.conv(x, "c1", 16, 3, padding=1)
    x = net.pool(net.conv(x, "c2", 16, 3, padding=1), "p2", 2, 2)
    return net.softmax(net.dense(net.flatten(x), "output", 10, ""))


def _lenet5(batch: int, dtype: str) -> Network:
    net = _Layers("lenet5", dtype)
    x = net.input("images", (batch, 1, 32, 32))
    x = net.conv(x, "c1", 6, 5, activation="tanh")
    x = net.apply(ops.average_pool2d(net.shape(x), 2, dtype=dtype), x, name="s2")
    x = net.conv(x, "c3", 16, 5, activation="tanh")
    x = net.apply(ops.average_pool2d(net.shape(x), 2, dtype=dtype), x, name="s4")
    x = net.conv(x, "c5", 120, 5, activation="tanh")
    x = net.dense(net.flatten(x), "f6", 84, "tanh")
    return net.softmax(net.dense(x, "output", 10, ""))


def _alexnet(batch: int, dtype: str) -> Network:
    net = _Layers("alexnet", dtype)
    x = net.input("images", (batch, 3, 227, 227))
    x = net.conv(x, "conv1", 96, 11, stride=4)
    x = _respond_and_pool(net, x, 1)
    x = net.conv(x, "conv2", 256, 5, padding=2, groups=2)
    x = _respond_and_pool(net, x, 2)
    x = net.conv(x, "conv3", 384, 3, padding=1)
    x = net.conv(x, "conv4", 384, 3, padding=1, groups=2)
    x = net.conv(x, "conv5", 256, 3, padding=1, groups=2)
    x = net.flatten(net.pool(x, "pool5", 3, 2))
    x = net.dense(net.dense(x, "fc6", 4096), "fc7", 4096)
    return net.softmax(net.dense(x, "fc8", 1000, ""))


def _respond_and_pool(net: _Layers, x: str, number: int) -> str:
    op = ops.LocalResponseNorm(net.shape(x), 5, alpha=5e-4, beta=0.75, bias=2.0, dtype=net.dtype)
    return net.pool(net.apply(op, x, name=f"norm{number}"), f"pool{number}", 3, 2)


def _perceptron(batch: int, dtype: str) -> Network:
    """Dense layers with sigmoid functions; of integers, tables for activations of 8 bits."""
    sizes = (512, 1024, 256)
    integers = Numerics.of(dtype).result.kind == "integer"
    net = _Layers("perceptron", "i8" if integers else dtype)
    x = net.input("patterns", (batch, sizes[0]))
    for name, (inputs, features) in zip(("hidden", "outputs"), pairwise(sizes), strict=True):
        types = "i8,i16:i32" if integers else dtype
        weight = net.weight(f"{name}_weight", (inputs, features), "i16" if integers else dtype)
        op = ops.gemm(batch, features, inputs, dtype=types)
        x = net.apply(op, x, weight, name=name)
        if integers:
            table = "sigmoid" if net.has("sigmoid") else net.weight("sigmoid", (1 << 15,))
            look_up = Lookup((batch, features), shift=8)
            x = net.apply(look_up, x, table, name=f"{name}_sigmoid")
        else:
            x = net.activate(x, name, "sigmoid")
    return net.build((x,))


def _vgg16(batch: int, dtype: str) -> Network:
    net = _Layers("vgg16", dtype)
    x = net.input("images", (batch, 3, 224, 224))
    stages = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
    for stage, (channels, layers) in enumerate(stages, start=1):
        for layer in range(1, layers + 1):
            x = net.conv(x, f"conv{stage}_{layer}", channels, 3, padding=1)
        x = net.pool(x, f"pool{stage}", 2, 2)
    x = net.dense(net.dense(net.flatten(x), "fc6", 4096), "fc7", 4096)
    return net.softmax(net.dense(x, "fc8", 1000, ""))


def _resnet50(batch: int, dtype: str) -> Network:
    net = _Layers("resnet50", dtype)
    x = net.input("images", (batch, 3, 224, 224))
    x = net.conv(x, "conv1", 64, 7, stride=2, padding=3, normalise=True)
    x = net.pool(x, "pool1", 3, 2, padding=1)
    for stage, blocks in enumerate((3, 4, 6, 3), start=2):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 2 else 1
            x = _bottleneck(net, x, f"res{stage}{'abcdef'[block]}", 2 ** (stage + 4), stride)
    x = net.apply(ops.global_average_pool2d(net.shape(x), dtype=dtype), x, name="pool5")
    return net.softmax(net.dense(net.flatten(x), "fc1000", 1000, ""))


def _bottleneck(net: _Layers, x: str, name: str, channels: int, stride: int) -> str:
    """1x1, 3x3, 1x1, plus the input, which is projected if its channels or size differ."""
    y = net.conv(x, f"{name}_branch2a", channels, 1, stride=stride, normalise=True)
    y = net.conv(y, f"{name}_branch2b", channels, 3, padding=1, normalise=True)
    y = net.conv(y, f"{name}_branch2c", 4 * channels, 1, normalise=True, activation="")
    if net.shape(x) != net.shape(y):
        x = net.conv(
            x, f"{name}_branch1", 4 * channels, 1, stride=stride, normalise=True, activation=""
        )
    x = net.apply(ops.add(net.shape(x), dtype=net.dtype), x, y, name=f"{name}_sum")
    return net.activate(x, name, "relu")


def _mobilenet2(batch: int, dtype: str) -> Network:
    net = _Layers("mobilenet2", dtype)
    x = net.input("images", (batch, 3, 224, 224))
    x = net.conv(x, "conv1", 32, 3, stride=2, padding=1, normalise=True, activation="clip")
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
    for stage, (expansion, channels, blocks, stride) in enumerate(stages, start=2):
        for block in range(blocks):
            name = f"block{stage}{'abcd'[block]}"
            x = _inverted(net, x, name, expansion, channels, 1 if block else stride)
    x = net.conv(x, "conv9", 1280, 1, normalise=True, activation="clip")
    x = net.apply(ops.global_average_pool2d(net.shape(x), dtype=dtype), x, name="pool9")
    return net.softmax(net.dense(net.flatten(x), "fc1000", 1000, ""))


def _inverted(net: _Layers, x: str, name: str, expansion: int, channels: int, stride: int) -> str:
    """1x1 to more channels, depthwise 3x3, plain 1x1; plus the input if shapes agree."""
    y, wide = x, expansion * net.shape(x)[1]
    if expansion > 1:
        y = net.conv(y, f"{name}_expand", wide, 1, normalise=True, activation="clip")
    y = net.conv(y, f"{name}_depthwise", wide, 3, stride=stride, padding=1, groups=wide,
                 normalise=True, activation="clip")  # fmt: skip
    y = net.conv(y, f"{name}_project", channels, 1, normalise=True, activation="")
    if net.shape(x) != net.shape(y):
        return y
    return net.apply(ops.add(net.shape(x), dtype=net.dtype), x, y, name=f"{name}_sum")


def _yolov2(batch: int, dtype: str) -> Network:
    net = _Layers("yolov2", dtype)
    x = net.input("images", (batch, 3, 416, 416))
    stages = ((1, 32), (2, 64), (3, 128, 64, 128), (6, 256, 128, 256))
    for stage, (first, *channels) in enumerate(stages, start=1):
        x = net.pool(_yolo_stack(net, x, first, *channels), f"pool{stage}", 2, 2)
    fine = _yolo_stack(net, x, 9, 512, 256, 512, 256, 512)
    x = _yolo_stack(net, net.pool(fine, "pool5", 2, 2), 14, 1024, 512, 1024, 512, 1024)
    x = _yolo_stack(net, _yolo_stack(net, x, 19, 1024), 20, 1024)
    passed = _yolo_conv(net, fine, 21, 64, 1)
    _, channels_passed, height, width = net.shape(passed)
    reorganise = ops.SpaceToDepth(batch, channels_passed, height, width, 2, dtype)
    passed = net.apply(reorganise, passed, name="passthrough")
    route = ops.Concat((net.shape(passed), net.shape(x)), dtype=dtype)
    x = _yolo_conv(net, net.apply(route, passed, x, name="route"), 22, 1024, 3)
    return net.build((net.conv(x, "conv23", 425, 1, activation=""),))


def _yolo_stack(net: _Layers, x: str, first: int, *channels: int) -> str:
    """Convolutions numbered from `first`, alternately 3x3 and 1x1."""
    for index, count in enumerate(channels):
        x = _yolo_conv(net, x, first + index, count, 1 if index % 2 else 3)
    return x


def _yolo_conv(net: _Layers, x: str, number: int, channels: int, kernel: int) -> str:
    return net.conv(
        x,
        f"conv{number}",
        channels,
        kernel,
        padding=kernel // 2,
        normalise=True,
        activation="leaky_relu",
    )


_NETWORKS: dict[str, Callable[[int, str], Network]] = {
    "alexnet": _alexnet,
    "digits": _digits,
    "lenet5": _lenet5,
    "mobilenet2": _mobilenet2,
    "perceptron": _perceptron,
    "resnet50": _resnet50,
    "vgg16": _vgg16,
    "yolov2": _yolov2,
}
