"""A network as a torch module: the graph's operators as the layers that a user would write.

A bias after a convolution or product becomes that layer's own bias if nothing else reads the sum.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from tilewright.codegen.artifact import Array
from tilewright.graph.graph import Network, Node
from tilewright.ops import (
    BatchNorm,
    Bias,
    Binary,
    Concat,
    Conv2d,
    Gemm,
    LocalResponseNorm,
    Pool2d,
    Reshape,
    Softmax,
    SpaceToDepth,
    Unary,
)

_UNARY = {
    "abs": torch.abs, "ceil": torch.ceil, "elu": functional.elu, "exp": torch.exp,
    "floor": torch.floor, "leaky_relu": functional.leaky_relu, "log": torch.log,
    "neg": torch.neg, "reciprocal": torch.reciprocal, "relu": functional.relu,
    "sigmoid": torch.sigmoid, "softplus": functional.softplus, "sqrt": torch.sqrt,
    "tanh": torch.tanh, "clip": torch.clamp,
}  # fmt: skip
_PARAMETERS = {"elu": 1, "leaky_relu": 1, "clip": 2}
_BINARY = {
    "add": operator.add, "div": operator.truediv, "max": torch.maximum, "min": torch.minimum,
    "mul": operator.mul, "sub": operator.sub,
}  # fmt: skip


def torch_module(network: Network, weights: Mapping[str, Array]) -> torch.fx.GraphModule:
    """Module of the network for inference, with these weights and the network's own values; it
    returns a tuple of the outputs. Raises NotImplementedError for an untranslated operator.
    """
    made = _Builder(network, {**network.values, **weights})
    return made.built().eval()


def space_to_depth(x: Any, block: int) -> Any:
    """Blocks of pixels as channels; the pixel of the block is the outer index of the channels."""
    batch, channels, height, width = x.shape
    squares = x.reshape(batch, channels, height // block, block, width // block, block)
    shape = (batch, channels * block * block, height // block, width // block)
    return squares.permute(0, 3, 5, 1, 2, 4).reshape(shape)


class _Builder:
    """Builds the module's graph, one call per node."""

    def __init__(self, network: Network, numbers: Mapping[str, Array]) -> None:
        self.network, self.numbers = network, numbers
        self.root, self.graph = torch.nn.Module(), torch.fx.Graph()
        self.found: dict[str, Any] = {}
        self.readers: dict[str, list[Node]] = {name: [] for name in network.tensors}
        for node in network.nodes:
            for name in node.inputs:
                self.readers[name].append(node)

    def built(self) -> torch.fx.GraphModule:
        for number, tensor in enumerate(self.network.inputs):
            self.found[tensor.name] = self.graph.placeholder(f"x{number}")
        for node in self.network.nodes:
            if node.output not in self.found:
                self.found[node.output] = self.called(node)
        self.graph.output(tuple(self.found[name] for name in self.network.outputs))
        return torch.fx.GraphModule(self.root, self.graph)

    def tensor(self, name: str) -> Any:
        return torch.from_numpy(self.numbers[name])

    def value(self, name: str) -> Any:
        """Operand of a node: another node's result, or a constant of the module."""
        if name not in self.found:
            place = f"constant{len(self.found)}"
            self.root.register_buffer(place, self.tensor(name))
            self.found[name] = self.graph.get_attr(place)
        return self.found[name]

    def layer(self, module: torch.nn.Module, node: Node, **numbers: Any) -> Any:
        """Add a module for the node, with these parameters; returns its call on the first input."""
        for name, value in numbers.items():
            getattr(module, name).data = value
        self.root.add_module(node.name, module)
        return self.graph.call_module(node.name, (self.value(node.inputs[0]),))

    def own_bias(self, node: Node) -> dict[str, Any]:
        """The bias after a layer, if the layer can add it itself; otherwise empty."""
        readers = self.readers[node.output]
        if len(readers) != 1 or node.output in self.network.outputs:
            return {}
        (after,) = readers
        if not isinstance(after.op, Bias) or after.op.axis != 1 or after.inputs[0] != node.output:
            return {}
        return {"bias": after.op.scale * self.tensor(after.inputs[1])}

    def with_bias(self, node: Node, bias: Mapping[str, Any], result: Any) -> Any:
        if bias:
            self.found[self.readers[node.output][0].output] = result
        return result

    def called(self, node: Node) -> Any:
        op, call = node.op, self.graph.call_function
        match op:
            case Conv2d():
                return self.convolution(node, op)
            case Gemm():
                return self.product(node, op)
            case BatchNorm():
                names = ("weight", "bias", "running_mean", "running_var")
                numbers = dict(zip(names, map(self.tensor, node.inputs[1:]), strict=True))
                module = torch.nn.BatchNorm2d(op.shape[1], eps=op.epsilon)
                return self.layer(module, node, **numbers)
            case Pool2d():
                return self.pool(node, op)
            case Bias():
                along = [-1 if axis == op.axis else 1 for axis in range(len(op.shape))]
                self.root.register_buffer(
                    node.name, op.scale * self.tensor(node.inputs[1]).reshape(along)
                )
                bias = self.graph.get_attr(node.name)
                return call(operator.add, (self.value(node.inputs[0]), bias))
            case _:
                return self.anything(node)

    def anything(self, node: Node) -> Any:
        op, call = node.op, self.graph.call_function
        operands = tuple(self.value(name) for name in node.inputs)
        match op:
            case Unary() if op.function in _UNARY:
                factors = (op.alpha, op.beta)[: _PARAMETERS.get(op.function, 0)]
                return call(_UNARY[op.function], (*operands, *factors))
            case Binary():
                return call(_BINARY[op.function], operands)
            case Softmax():
                return call(torch.softmax, (*operands, op.axis))
            case LocalResponseNorm():
                factors = (op.size, op.alpha, op.beta, op.bias)
                return call(functional.local_response_norm, (*operands, *factors))
            case Reshape():
                return call(torch.reshape, (*operands, op.out_shape))
            case Concat():
                return call(torch.cat, (operands, op.axis))
            case SpaceToDepth():
                return call(space_to_depth, (*operands, op.block))
            case _:
                raise NotImplementedError(f"{op.describe()} in torch")

    def convolution(self, node: Node, op: Conv2d) -> Any:
        top, left, bottom, right = op.padding
        if (top, left) != (bottom, right):
            raise NotImplementedError(f"{op.describe()} with other padding at its end in torch")
        bias = self.own_bias(node)
        module = torch.nn.Conv2d(
            op.in_channels, op.out_channels, op.kernel, op.stride, (top, left), op.dilation,
            op.groups, bias=bool(bias),
        )  # fmt: skip
        result = self.layer(module, node, weight=self.tensor(node.inputs[1]), **bias)
        return self.with_bias(node, bias, result)

    def product(self, node: Node, op: Gemm) -> Any:
        if op.transpose_a or op.alpha != 1 or op.beta or node.inputs[1] not in self.numbers:
            raise NotImplementedError(f"{op.describe()} in torch")
        bias = self.own_bias(node)
        weight = self.tensor(node.inputs[1])
        weight = weight if op.transpose_b else weight.T.contiguous()
        module = torch.nn.Linear(op.k, op.n, bias=bool(bias))
        return self.with_bias(node, bias, self.layer(module, node, weight=weight, **bias))

    def pool(self, node: Node, op: Pool2d) -> Any:
        top, left, bottom, right = op.padding
        if (top, left) != (bottom, right):
            raise NotImplementedError(f"{op.describe()} with other padding at its end in torch")
        x, window = self.value(node.inputs[0]), (op.kernel, op.stride, (top, left))
        if op.reduction == "max":
            given = (x, *window, 1, op.ceil_mode)
            return self.graph.call_function(functional.max_pool2d, given)
        given = (x, *window, op.ceil_mode, op.count_padding)
        return self.graph.call_function(functional.avg_pool2d, given)
