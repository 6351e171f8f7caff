"""The state of one import: the network being built and the constants known so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.onnx_model import Constant, OnnxNode
from tilewright.graph.names import quoted
from tilewright.ops.op import Array, Op, Shape


@dataclass
class Importer:
    """Tensors are known by the names that the file gives them."""

    builder: NetworkBuilder
    constants: dict[str, Constant]
    opset: int
    file_batch: int | None
    batch: int | None
    values: dict[str, Array] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """The element type of the network."""
        return self.builder.dtype

    def use(self, name: str, by: str) -> str:
        """The tensor `name`, declared as a weight when it is a constant used for the first time."""
        if self.builder.has(name):
            return name
        if name not in self.constants:
            raise GraphError(f"{by} reads {quoted(name)}, which nothing before it produces")
        constant = self.constants[name]
        if constant.dtype.kind != "f":
            raise GraphError(f"{by} computes with {quoted(name)}, which holds {constant.dtype}")
        self.values[name] = constant.astype(dtype(self.dtype).numpy, copy=False)
        return self.builder.weight(name, tuple(constant.shape))

    def operand(self, node: OnnxNode, index: int) -> str:
        """The tensor at the input `index` of `node`."""
        return self.use(node.input(index), node.title())

    def shape(self, node: OnnxNode, index: int) -> Shape:
        """The shape of the tensor at the input `index` of `node`."""
        return self.builder.shape(self.operand(node, index))

    def images(self, node: OnnxNode) -> Shape:
        """The shape of the first input, which must be batch x channels x height x width."""
        shape = self.shape(node, 0)
        if len(shape) != 4:
            raise GraphError(
                f"{node.title()}: only images of 4 dimensions are supported, found {len(shape)}"
            )
        return shape

    def constant(self, node: OnnxNode, index: int) -> Constant:
        """The numbers of an input that must be known before the network runs."""
        name = node.input(index)
        if name not in self.constants:
            raise GraphError(f"{node.title()}: input {index} ({quoted(name)}) must be a constant")
        return self.constants[name]

    def integers(self, node: OnnxNode, index: int) -> tuple[int, ...]:
        """A constant input that must hold integers, such as axes or a shape."""
        constant = self.constant(node, index)
        if constant.dtype.kind != "i" or constant.ndim > 1:
            raise GraphError(f"{node.title()}: input {index} must be a list of integers")
        return tuple(map(int, np.atleast_1d(constant)))

    def axis(self, node: OnnxNode, axis: int, rank: int) -> int:
        """`axis` counted from the front."""
        if not -rank <= axis < rank:
            raise GraphError(f"{node.title()}: axis {axis} is outside -{rank}..{rank - 1}")
        return axis % rank

    def emit(self, node: OnnxNode, op: Op, *inputs: str) -> None:
        """Append `op` as what `node` computes."""
        self.builder.apply(op, *inputs, name=node.name or node.kind, output=node.output())

    def step(self, node: OnnxNode, op: Op, *inputs: str, suffix: str = "") -> str:
        """Append `op` as one step towards what `node` computes; returns its result."""
        name = f"{node.name or node.kind}{suffix}"
        return self.builder.apply(
            op, *inputs, name=name, output=self.builder.fresh(f"{node.output()}/{op.kind}")
        )
