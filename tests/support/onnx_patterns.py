"""Small networks as exporters write them, with random weights: what real models are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Arrays = dict[str, Any]
_KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}


class Graph:
    """A graph that grows node by node: operands are names or arrays, which become initializers."""

    def __init__(self, opset: int = 17, seed: int = 0) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.stored: list[Any] = []
        self.chance = np.random.default_rng(seed)

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        """A node of an operator: `outputs` of them, one by default."""

        def make(*operands: Any, outputs: int = 1, **attributes: Any) -> Any:
            names = [self._name(operand) for operand in operands]
            made = [f"{kind.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
            self.nodes.append(helper.make_node(kind, names, made, **attributes))
            return made[0] if outputs == 1 else made

        return make

    def _name(self, operand: Any) -> str:
        if isinstance(operand, str):
            return operand
        if isinstance(operand, float):
            operand = np.float32(operand)
        elif isinstance(operand, int | list | tuple):
            operand = np.array(operand, np.int64)
        name = f"stored_{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(operand), name))
        return name

    def input(self, name: str, *shape: int, kind: str = "f") -> str:
        self.inputs.append(helper.make_tensor_value_info(name, _KINDS[kind], shape))
        return name

    def weights(self, *shape: int) -> Any:
        """Random numbers that keep the size of activations."""
        terms = max(1, int(np.prod(shape[1:] if len(shape) > 2 else shape[:1])))
        return (self.chance.standard_normal(shape) / np.sqrt(terms)).astype(np.float32)

    def linear(self, x: Any, inputs: int, outputs: int) -> Any:
        """A product and a bias as exporters of linear layers on any rank write them."""
        return self.Add(self.MatMul(x, self.weights(inputs, outputs)), self.weights(outputs))

    def normalised(self, x: Any, size: int) -> Any:
        """Layer normalisation by its steps, as before operator set 17."""
        mean = self.ReduceMean(x, axes=[-1])
        less = self.Sub(x, mean)
        variance = self.ReduceMean(self.Pow(less, 2.0), axes=[-1])
        whole = self.Div(less, self.Sqrt(self.Add(variance, 1e-5)))
        return self.Add(self.Mul(whole, 1 + self.weights(size)), self.weights(size))

    def gelu(self, x: Any) -> Any:
        """By the error function, as exporters write it."""
        return self.Mul(self.Mul(x, self.Add(self.Erf(self.Div(x, 1.4142135)), 1.0)), 0.5)

    def silu(self, x: Any) -> Any:
        return self.Mul(x, self.Sigmoid(x))

    def heads(self, x: Any, batch: int, length: int, count: int, size: int) -> Any:
        return self.Transpose(self.Reshape(x, [batch, length, count, size]), perm=[0, 2, 1, 3])

    def attention(self, q: Any, k: Any, v: Any, size: int, mask: Any = None) -> Any:
        scores = self.Div(self.MatMul(q, self.Transpose(k, perm=[0, 1, 3, 2])), float(size**0.5))
        if mask is not None:
            scores = self.Add(scores, mask)
        return self.MatMul(self.Softmax(scores, axis=-1), v)

    def model(self, *outputs: str, kind: str = "f") -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes, "pattern", self.inputs,
            [helper.make_tensor_value_info(name, _KINDS[kind], None) for name in outputs],
            self.stored,
        )  # fmt: skip
        sets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=sets, ir_version=8)


BATCH, LENGTH, WIDTH, HEADS = 2, 6, 16, 2
SIZE = WIDTH // HEADS


def shapes() -> onnx.ModelProto:
    """A shape that the graph computes, and the presence of `allowzero`."""
    g = Graph()
    x = g.input("x", 2, 3, 4)
    shape = g.Shape(x)
    rows = g.Unsqueeze(g.Gather(shape, 0, axis=0), [0])
    rest = g.Unsqueeze(g.Mul(g.Gather(shape, 1, axis=0), g.Gather(shape, 2, axis=0)), [0])
    flat = g.Reshape(x, g.Concat(rows, rest, axis=0), allowzero=1)
    ones = g.ConstantOfShape(g.Concat(rest, [5], axis=0), value=numpy_helper.from_array(
        np.array([0.5], np.float32)))  # fmt: skip
    return g.model(g.MatMul(flat, ones))


def bert() -> onnx.ModelProto:
    g = Graph(seed=1)
    ids, mask = g.input("ids", BATCH, LENGTH, kind="i"), g.input("mask", BATCH, LENGTH, kind="i")
    x = g.Add(g.Gather(g.weights(10, WIDTH), ids), g.weights(1, LENGTH, WIDTH))
    x = g.normalised(x, WIDTH)
    open_ = g.Cast(g.Unsqueeze(mask, [1, 2]), to=1)
    hidden = g.Mul(g.Sub(1.0, open_), -10000.0)
    for _ in range(2):
        q, k, v = (g.heads(g.linear(x, WIDTH, WIDTH), BATCH, LENGTH, HEADS, SIZE) for _ in "qkv")
        seen = g.Transpose(g.attention(q, k, v, SIZE, hidden), perm=[0, 2, 1, 3])
        seen = g.linear(g.Reshape(seen, [0, 0, WIDTH]), WIDTH, WIDTH)
        x = g.normalised(g.Add(x, seen), WIDTH)
        inner = g.linear(g.gelu(g.linear(x, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH)
        x = g.normalised(g.Add(x, inner), WIDTH)
    pooled = g.Tanh(g.Gemm(g.Gather(x, 0, axis=1), g.weights(WIDTH, WIDTH), g.weights(WIDTH),
                           transB=1))  # fmt: skip
    return g.model(x, pooled)


def gpt2() -> onnx.ModelProto:
    g = Graph(seed=2)
    ids = g.input("ids", BATCH, LENGTH, kind="i")
    places = g.Range(0, g.Gather(g.Shape(ids), 1), 1)
    x = g.Add(g.Gather(g.weights(10, WIDTH), ids), g.Gather(g.weights(9, WIDTH), places))
    causal = g.Cast(g.Trilu(g.ConstantOfShape([LENGTH, LENGTH], value=numpy_helper.from_array(
        np.array([1], np.float32))), upper=0), to=9)  # fmt: skip
    for _ in range(2):
        inner = g.LayerNormalization(x, 1 + g.weights(WIDTH), g.weights(WIDTH), axis=-1)
        flat = g.Reshape(inner, [-1, WIDTH])
        qkv = g.Gemm(flat, g.weights(WIDTH, 3 * WIDTH), g.weights(3 * WIDTH))
        parts = g.Split(g.Reshape(qkv, [BATCH, LENGTH, 3 * WIDTH]), [WIDTH] * 3, axis=2, outputs=3)
        q, k, v = (g.heads(p, BATCH, LENGTH, HEADS, SIZE) for p in parts)
        scores = g.Div(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), float(SIZE**0.5))
        scores = g.Where(causal, scores, np.float32(-3.4e38))
        seen = g.MatMul(g.Softmax(scores, axis=-1), v)
        seen = g.Reshape(g.Transpose(seen, perm=[0, 2, 1, 3]), [BATCH, LENGTH, WIDTH])
        x = g.Add(x, g.linear(seen, WIDTH, WIDTH))
        inner = g.LayerNormalization(x, 1 + g.weights(WIDTH), g.weights(WIDTH), axis=-1)
        inner = g.linear(inner, WIDTH, 4 * WIDTH)
        cubed = g.Add(inner, g.Mul(g.Pow(inner, 3.0), 0.044715))
        inner = g.Mul(g.Mul(inner, 0.5), g.Add(g.Tanh(g.Mul(cubed, 0.7978846)), 1.0))
        x = g.Add(x, g.linear(inner, 4 * WIDTH, WIDTH))
    return g.model(g.MatMul(x, g.weights(WIDTH, 10)))


def llama() -> onnx.ModelProto:
    """Root mean squares, rotated places, one head of keys for two of queries, a gated layer."""
    g = Graph(seed=3)
    ids = g.input("ids", BATCH, LENGTH, kind="i")
    x = g.Gather(g.weights(10, WIDTH), ids)
    places = g.Cast(g.Unsqueeze(g.Range(0, LENGTH, 1), [1]), to=1)
    turns = g.MatMul(places, (10000.0 ** -(np.arange(0, SIZE, 2) / SIZE)).astype("f")[None])
    angles = g.Concat(turns, turns, axis=-1)
    cos, sin = (g.Unsqueeze(f(angles), [0, 1]) for f in (g.Cos, g.Sin))

    def normal(x: Any) -> Any:
        mean = g.ReduceMean(g.Pow(x, 2.0), axes=[-1])
        return g.Mul(g.Mul(x, g.Reciprocal(g.Sqrt(g.Add(mean, 1e-6)))), 1 + g.weights(WIDTH))

    def rotated(x: Any) -> Any:
        first = g.Slice(x, [0], [SIZE // 2], [3])
        second = g.Slice(x, [SIZE // 2], [2**63 - 1], [3])
        return g.Add(g.Mul(x, cos), g.Mul(g.Concat(g.Neg(second), first, axis=-1), sin))

    causal = np.triu(np.full((1, 1, LENGTH, LENGTH), -1e9, np.float32), 1)
    for _ in range(2):
        inner = normal(x)
        q = rotated(g.heads(g.MatMul(inner, g.weights(WIDTH, WIDTH)), BATCH, LENGTH, HEADS, SIZE))
        k = rotated(g.heads(g.MatMul(inner, g.weights(WIDTH, SIZE)), BATCH, LENGTH, 1, SIZE))
        v = g.heads(g.MatMul(inner, g.weights(WIDTH, SIZE)), BATCH, LENGTH, 1, SIZE)
        k, v = (g.Reshape(g.Expand(g.Unsqueeze(t, [2]), [BATCH, 1, HEADS, LENGTH, SIZE]),
                          [BATCH, HEADS, LENGTH, SIZE]) for t in (k, v))  # fmt: skip
        seen = g.Transpose(g.attention(q, k, v, SIZE, causal), perm=[0, 2, 1, 3])
        x = g.Add(x, g.MatMul(g.Reshape(seen, [0, 0, -1]), g.weights(WIDTH, WIDTH)))
        inner = normal(x)
        gate = g.silu(g.MatMul(inner, g.weights(WIDTH, 24)))
        gated = g.Mul(gate, g.MatMul(inner, g.weights(WIDTH, 24)))
        x = g.Add(x, g.MatMul(gated, g.weights(24, WIDTH)))
    return g.model(g.MatMul(normal(x), g.weights(WIDTH, 10)))


def vit() -> onnx.ModelProto:
    g = Graph(seed=4)
    x = g.input("x", BATCH, 3, 8, 8)
    x = g.Conv(x, g.weights(WIDTH, 3, 4, 4), g.weights(WIDTH), strides=[4, 4])
    x = g.Transpose(g.Reshape(x, [0, WIDTH, -1]), perm=[0, 2, 1])
    x = g.Concat(g.Expand(g.weights(1, 1, WIDTH), [BATCH, 1, 1]), x, axis=1)
    x = g.Add(x, g.weights(1, 5, WIDTH))
    inner = g.LayerNormalization(x, 1 + g.weights(WIDTH), g.weights(WIDTH), axis=-1)
    qkv = g.Reshape(g.linear(inner, WIDTH, 3 * WIDTH), [BATCH, 5, 3, HEADS, SIZE])
    parts = g.Split(g.Transpose(qkv, perm=[2, 0, 3, 1, 4]), axis=0, outputs=3)
    q, k, v = (g.Squeeze(part, [0]) for part in parts)
    seen = g.Transpose(g.attention(q, k, v, SIZE), perm=[0, 2, 1, 3])
    x = g.Add(x, g.linear(g.Reshape(seen, [BATCH, 5, WIDTH]), WIDTH, WIDTH))
    x = g.LayerNormalization(x, 1 + g.weights(WIDTH), g.weights(WIDTH), axis=-1)
    return g.model(g.linear(g.Gather(x, 0, axis=1), WIDTH, 10))


def swin() -> onnx.ModelProto:
    """Windows of a shifted image, a bias of relative places, patches that merge."""
    g, side, window, width = Graph(seed=5), 4, 2, 8
    x = g.input("x", 1, side, side, width)
    far = 2**63 - 1
    shifted = x
    for axis in (1, 2):
        shifted = g.Concat(g.Slice(shifted, [1], [far], [axis]), g.Slice(shifted, [0], [1], [axis]),
                           axis=axis)  # fmt: skip
    cut = g.Reshape(shifted, [1, 2, window, 2, window, width])
    tokens = g.Reshape(g.Transpose(cut, perm=[0, 1, 3, 2, 4, 5]), [4, 4, width])
    q, k, v = (g.heads(g.linear(tokens, width, width), 4, 4, 2, 4) for _ in "qkv")
    index = np.arange(16).reshape(4, 4) % 9
    bias = g.Transpose(g.Reshape(g.Gather(g.weights(9, 2), index.reshape(-1)), [4, 4, 2]),
                       perm=[2, 0, 1])  # fmt: skip
    scores = g.Add(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.Unsqueeze(bias, [0]))
    mask = np.where(g.chance.random((1, 4, 1, 4, 4)) < 0.3, -100, 0).astype(np.float32)
    scores = g.Reshape(g.Add(g.Reshape(scores, [1, 4, 2, 4, 4]), mask), [-1, 2, 4, 4])
    seen = g.MatMul(g.Softmax(scores, axis=-1), v)
    seen = g.Reshape(g.Transpose(seen, perm=[0, 2, 1, 3]), [1, 2, 2, window, window, width])
    x = g.Add(x, g.Reshape(g.Transpose(seen, perm=[0, 1, 3, 2, 4, 5]), [1, side, side, width]))
    parts = [g.Slice(x, [i, j], [far, far], [1, 2], [2, 2]) for j in (0, 1) for i in (0, 1)]
    x = g.normalised(g.Concat(*parts, axis=-1), 4 * width)
    return g.model(g.ReduceMean(g.MatMul(x, g.weights(4 * width, 16)), axes=[1, 2], keepdims=0))


def convnext() -> onnx.ModelProto:
    g, width = Graph(seed=6), 8
    x = g.input("x", 1, 3, 16, 16)
    x = g.Conv(x, g.weights(width, 3, 4, 4), g.weights(width), strides=[4, 4])
    inner = g.Conv(x, g.weights(width, 1, 7, 7), g.weights(width), group=width, pads=[3, 3, 3, 3])
    inner = g.normalised(g.Transpose(inner, perm=[0, 2, 3, 1]), width)
    inner = g.linear(g.gelu(g.linear(inner, width, 4 * width)), 4 * width, width)
    inner = g.Mul(g.Transpose(inner, perm=[0, 3, 1, 2]), g.weights(width, 1, 1))
    x = g.Flatten(g.GlobalAveragePool(g.Add(x, inner)))
    return g.model(g.Gemm(x, g.weights(5, width), g.weights(5), transB=1))


def unet() -> onnx.ModelProto:
    """Group norms as exporters write them, down, up by a resize and a transposed convolution."""
    g = Graph(seed=7)

    def block(x: Any, inputs: int, outputs: int, side: int) -> Any:
        x = g.Conv(x, g.weights(outputs, inputs, 3, 3), g.weights(outputs), pads=[1] * 4)
        rows = g.InstanceNormalization(
            g.Reshape(x, [0, 2, -1]), np.ones(2, np.float32), np.zeros(2, np.float32)
        )
        x = g.Reshape(rows, [1, outputs, side, side])
        x = g.Mul(x, 1 + g.weights(outputs, 1, 1))
        return g.silu(g.Add(x, g.weights(outputs, 1, 1)))

    first = block(g.input("x", 1, 3, 8, 8), 3, 4, 8)
    down = g.Conv(first, g.weights(8, 4, 3, 3), g.weights(8), strides=[2, 2], pads=[1] * 4)
    down = block(down, 8, 8, 4)
    up = g.Resize(down, "", np.array([1, 1, 2, 2], np.float32), mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    again = g.ConvTranspose(down, g.weights(8, 4, 2, 2), g.weights(4), strides=[2, 2])
    x = block(g.Concat(first, up, again, axis=1), 16, 4, 8)
    return g.model(g.Conv(x, g.weights(2, 4, 1, 1), g.weights(2)))


def crnn() -> onnx.ModelProto:
    """Convolutions, then two layers of recurrence in both directions over the columns."""
    g = Graph(seed=8)
    x = g.input("x", 1, 1, 8, 16)
    x = g.Relu(g.Conv(x, g.weights(4, 1, 3, 3), g.weights(4), pads=[1] * 4))
    x = g.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.Relu(g.Conv(x, g.weights(8, 4, 4, 3), g.weights(8), pads=[0, 1, 0, 1]))
    x = g.Transpose(g.Squeeze(x, [2]), perm=[2, 0, 1])
    for depth in (8, 12):
        zero = np.zeros((2, 1, 6), np.float32)
        y, *_ = g.LSTM(x, g.weights(2, 24, depth), g.weights(2, 24, 6), g.weights(2, 48), "",
                       zero, zero, hidden_size=6, direction="bidirectional", outputs=3)  # fmt: skip
        x = g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
    return g.model(g.LogSoftmax(g.linear(x, 12, 7), axis=2))


def voice() -> onnx.ModelProto:
    """A spectrum by a convolution, encoders of one dimension, one step with its state handed on."""
    g = Graph(seed=9)
    x, h, c = g.input("x", 1, 64), g.input("h", 1, 1, 8), g.input("c", 1, 1, 8)
    padded = g.Pad(g.Unsqueeze(x, [1]), [0, 0, 8, 0, 0, 8], mode="reflect")
    both = g.Conv(padded, g.weights(18, 1, 16), strides=[8])
    real, imaginary = g.Slice(both, [0], [9], [1]), g.Slice(both, [9], [18], [1])
    size = g.Sqrt(g.Add(g.Pow(real, 2.0), g.Pow(imaginary, 2.0)))
    for inputs, outputs, step in ((9, 12, 1), (12, 8, 2)):
        size = g.Relu(g.Conv(size, g.weights(outputs, inputs, 3), g.weights(outputs),
                             strides=[step], pads=[1, 1]))  # fmt: skip
    steps = g.Transpose(size, perm=[2, 0, 1])
    y, h, c = g.LSTM(steps, g.weights(1, 32, 8), g.weights(1, 32, 8), g.weights(1, 64), "", h, c,
                     hidden_size=8, outputs=3)  # fmt: skip
    last = g.Transpose(g.Squeeze(y, [1]), perm=[1, 2, 0])
    told = g.Sigmoid(g.Conv(g.Relu(last), g.weights(1, 8, 1), g.weights(1)))
    return g.model(g.ReduceMean(told, axes=[2], keepdims=0), h, c)


def detection() -> onnx.ModelProto:
    """Split and joined channels, a pyramid of pools, distances as expectations over places."""
    g = Graph(seed=10)
    x = g.silu(g.Conv(g.input("x", 1, 3, 16, 16), g.weights(8, 3, 3, 3), g.weights(8),
                      strides=[2, 2], pads=[1] * 4))  # fmt: skip
    first, second = g.Split(x, [4, 4], axis=1, outputs=2)
    third = g.Add(g.silu(g.Conv(second, g.weights(4, 4, 3, 3), g.weights(4), pads=[1] * 4)), second)
    x = g.Concat(first, second, third, axis=1)
    pools = [x]
    for _ in range(2):
        pools.append(g.MaxPool(pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    x = g.Conv(g.Concat(*pools, axis=1), g.weights(20, 36, 1, 1), g.weights(20))
    x = g.Resize(x, "", np.array([1, 1, 0.5, 0.5], np.float32), mode="linear")
    boxes, classes = g.Split(g.Reshape(x, [1, 20, -1]), [16, 4], axis=1, outputs=2)
    places = g.Softmax(g.Transpose(g.Reshape(boxes, [1, 4, 4, 16]), perm=[0, 2, 1, 3]), axis=1)
    far = g.Conv(places, np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1))
    start, end = g.Split(g.Reshape(far, [1, 4, 16]), axis=1, outputs=2)
    anchors = g.weights(1, 2, 16)
    start, end = g.Sub(anchors, start), g.Add(end, anchors)
    centre, size = g.Div(g.Add(start, end), 2.0), g.Sub(end, start)
    strides = np.full((1, 1, 16), 8, np.float32)
    boxes = g.Mul(g.Concat(centre, size, axis=1), strides)
    return g.model(g.Concat(boxes, g.Sigmoid(classes), axis=1))


def segmentation() -> onnx.ModelProto:
    """Dilated windows, a mean of the whole image, resizing by known sizes, the largest class."""
    g = Graph(seed=11)
    x = g.HardSwish(g.Conv(g.input("x", 1, 3, 8, 8), g.weights(6, 3, 3, 3), g.weights(6),
                           strides=[2, 2], pads=[1] * 4))  # fmt: skip
    wide = g.Conv(x, g.weights(6, 6, 3, 3), g.weights(6), pads=[2] * 4, dilations=[2, 2])
    mean = g.Clip(g.GlobalAveragePool(x), np.float32(0), np.float32(6))
    mean = g.Resize(mean, "", "", [1, 6, 4, 4], mode="linear",
                    coordinate_transformation_mode="align_corners")  # fmt: skip
    x = g.Conv(g.Concat(g.Relu(wide), mean, axis=1), g.weights(5, 12, 1, 1), g.weights(5))
    sizes = g.Concat(g.Slice(g.Shape(x), [0], [2]), [8, 8], axis=0)
    x = g.Resize(x, "", "", sizes, mode="linear")
    return g.model(x, g.Cast(g.ArgMax(x, axis=1, keepdims=0), to=1))


PATTERNS: dict[str, Callable[[], onnx.ModelProto]] = {
    make.__name__: make
    for make in (
        shapes, bert, gpt2, llama, vit, swin, convnext, unet, crnn, voice, detection, segmentation,
    )
}  # fmt: skip


def feeds(proto: onnx.ModelProto, seed: int = 0) -> Arrays:
    """Random inputs of a model; integers are small, ones in masks."""
    chance = np.random.default_rng(seed)
    found: Arrays = {}
    for value in proto.graph.input:
        shape: Sequence[int] = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == TensorProto.INT64:
            most = 2 if "mask" in value.name else 10
            found[value.name] = chance.integers(0, most, shape)
        else:
            found[value.name] = chance.standard_normal(shape).astype(np.float32)
    return found
