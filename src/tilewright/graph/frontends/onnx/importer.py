"""The state of one import: the network being built and the constants known so far."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from tilewright.common.dtypes import DTYPES, dtype
from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.onnx.model import Constant, OnnxNode, integers_of
from tilewright.graph.names import quoted
from tilewright.ops import Reshape
from tilewright.ops.op import Array, Op, Shape, show_shape

_NAMES = {kind.numpy: kind.name for kind in DTYPES}
EVERY_TYPE = tuple(kind.name for kind in DTYPES)


def require_images(node: OnnxNode, shape: Shape) -> Shape:
    """The shape; raises GraphError unless it is batch x channels x height x width."""
    if len(shape) != 4:
        raise GraphError(
            f"{node.title()}: only images of 4 dimensions are supported, found {len(shape)}"
        )
    return shape


@dataclass
class Importer:
    """Tensors are known by the names that the file gives them."""

    builder: NetworkBuilder
    constants: dict[str, Constant]
    file_dtype: str
    file_batch: int | None
    batch: int | None
    values: dict[str, Array] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """The element type of the network."""
        return self.builder.dtype

    def use(self, name: str, by: str, types: Container[str] = ()) -> str:
        """The tensor `name`, declared as a weight when it is a constant used for the first time.

        Raises GraphError unless its elements are of the network's type or of one of `types`.
        """
        kind = self.element_type(name, by)
        if kind not in (types or (self.dtype,)):
            raise GraphError(f"{by} takes {quoted(name)}, which holds {self._held(name)}")
        if not self.builder.has(name):
            self.values[name] = self.constants[name].astype(dtype(kind).numpy, copy=False)
            self.builder.weight(name, tuple(self.constants[name].shape), kind)
        return name

    def output(self, name: str) -> str:
        """An output of the network, of any element type."""
        return self.use(name, "the model's output list", EVERY_TYPE)

    def element_type(self, name: str, by: str) -> str:
        """Element type of a tensor; of an unused constant, the type it gets in the network."""
        if self.builder.has(name):
            return self.builder.element_type(name)
        if name not in self.constants:
            raise GraphError(f"{by} reads {quoted(name)}, which nothing before it produces")
        held = self.constants[name].dtype
        return self.dtype if held == dtype(self.file_dtype).numpy else _NAMES.get(held, str(held))

    def _held(self, name: str) -> str:
        """Name of a tensor's element type; of a constant, as the file stores it."""
        constant = self.constants.get(name)
        return self.builder.element_type(name) if constant is None else str(constant.dtype)

    def operand(self, node: OnnxNode, index: int, types: Container[str] = ()) -> str:
        """The tensor at the input `index` of `node`."""
        return self.use(node.input(index), node.title(), types)

    def shape(self, node: OnnxNode, index: int, types: Container[str] = ()) -> Shape:
        """The shape of the tensor at the input `index` of `node`."""
        return self.builder.shape(self.operand(node, index, types))

    def images(self, node: OnnxNode) -> Shape:
        """The shape of the first input, which must be batch x channels x height x width."""
        return require_images(node, self.shape(node, 0))

    def constant(self, node: OnnxNode, index: int) -> Constant:
        """The numbers of an input that must be known before the network runs."""
        name = node.input(index)
        if name not in self.constants:
            raise GraphError(f"{node.title()}: input {index} ({quoted(name)}) must be a constant")
        return self.constants[name]

    def integers(self, node: OnnxNode, index: int) -> tuple[int, ...]:
        """A constant input that must hold integers, such as axes or a shape."""
        integers = integers_of(self.constant(node, index))
        if integers is None:
            raise GraphError(f"{node.title()}: input {index} must be a list of integers")
        return integers

    def axes(self, node: OnnxNode) -> tuple[int, ...]:
        """The axes, an attribute of older versions and a constant second input of newer ones."""
        if node.has_input(1):
            return self.integers(node, 1)
        return node.integers("axes") if "axes" in node.attributes else ()

    def reshaped_constant(self, name: str, shape: Shape) -> str:
        """Another constant with the numbers of `name` under another shape."""
        return self.new_constant(f"{name}/{show_shape(shape)}", self.constants[name].reshape(shape))

    def new_constant(self, name: str, numbers: Constant) -> str:
        """A constant that the file does not hold itself, called like `name`."""
        fresh = self.builder.fresh(name, self.constants)
        self.constants[fresh] = numbers
        return fresh

    def axis(self, node: OnnxNode, axis: int, rank: int) -> int:
        """`axis` counted from the front."""
        if not -rank <= axis < rank:
            raise GraphError(f"{node.title()}: axis {axis} is outside -{rank}..{rank - 1}")
        return axis % rank

    def emit(self, node: OnnxNode, op: Op, *inputs: str) -> None:
        """Append `op` as the result of `node`."""
        self.builder.apply(op, *inputs, name=node.name or node.kind, output=node.output())

    def reshape(self, node: OnnxNode, x: str, shape: Shape) -> None:
        """Append a reshape of `x` as the result of `node`."""
        op = Reshape(self.builder.shape(x), shape, self.dtype)
        self.builder.apply(op, x, name=node.name or node.kind, output=node.output())

    def step(self, node: OnnxNode, op: Op, *inputs: str, suffix: str = "") -> str:
        """Append `op` as an intermediate step of `node`; returns its result."""
        name = f"{node.name or node.kind}{suffix}"
        return self.builder.apply(
            op, *inputs, name=name, output=self.builder.fresh(f"{node.output()}/{op.kind}")
        )
