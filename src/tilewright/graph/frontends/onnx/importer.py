"""The state of one import: the network being built and the constants known so far."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.common.dtypes import BOOL, DTYPES, F32, F64, FLOATS, HALVES, DType, dtype
from tilewright.common.errors import GraphError, ShapeError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.onnx.model import Constant, OnnxNode, Subgraph, integers_of
from tilewright.graph.names import quoted
from tilewright.ops import Reshape
from tilewright.ops.access import broadcast, straight
from tilewright.ops.definition import Definition
from tilewright.ops.op import Array, Op, Shape, show_shape

if TYPE_CHECKING:
    from tilewright.graph.frontends.onnx.declare import Operator

_NAMES = {kind.numpy: kind.name for kind in DTYPES}
_FLOATING = tuple(kind.name for kind in (*FLOATS, *HALVES))
EVERY_TYPE = tuple(kind.name for kind in DTYPES)


def types_text(kinds: Sequence[str], computed: str, result: str) -> str:
    """The text of element types, where integers wrap."""
    if {*kinds, result} <= {computed}:
        return computed
    wraps = not dtype(computed).is_float and result not in (computed, BOOL.name)
    return f"{','.join(kinds) or computed}:{computed}:{result}{':even:wrap' * wraps}"


def converting(shape: Shape, kind: str, to: str) -> Definition:
    """A tensor's elements in another type: floats in the wider of both, integers in doubles."""
    own, new = dtype(kind), dtype(to)
    wide = max((own, new), key=lambda k: k.size_bytes)
    if own.is_float or new.is_float:
        integer = new if own.is_float else own
        wide = F64 if not integer.is_float and integer.size_bytes > 2 else wide
        floats = [k for k in (own, new) if k.is_float]
        wide = wide if wide.is_float else max(floats, key=lambda k: k.size_bytes)
        wide = wide.computed
    place = straight(shape)
    types = types_text([kind], wide.name, to)
    return Definition(shape, place, (place,), "x0", None, "x0", types)


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """The shape that all are broadcast to; raises ShapeError where there is none."""
    try:
        return np.broadcast_shapes(*shapes)
    except (ValueError, OverflowError):
        shown = " and ".join(map(show_shape, shapes))
        raise ShapeError(f"{shown} cannot be broadcast together") from None


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
    dtype: str = ""
    """The element type that the node at hand computes in."""
    outer: NetworkBuilder | None = None
    imported: Callable[[Importer, OnnxNode], None] = lambda _, __: None
    """Appends one node."""
    narrow: DType | None = None
    """The floats of 16 bits that the node at hand computes in f32."""

    def begin(self, node: OnnxNode, operator: Operator) -> None:
        """Take the element type from the operands of a node."""
        names = [n for n in node.inputs if self.builder.has(n) or n in self.constants]
        kinds = [self.element_type(name, node.title()) for name in names]
        declared = operator.inputs_of(node.version)
        floats = (k for k in kinds if k in _FLOATING)
        if declared and declared[0].elements in ("any", "number") and kinds:
            self.dtype = kinds[0]
        else:
            self.dtype = next(floats, self.builder.dtype)
        moves = bool(declared) and declared[0].elements == "any"
        own = dtype(self.dtype)
        self.narrow = own if own in HALVES and not moves else None
        self.dtype = F32.name if self.narrow else self.dtype

    def apart(self) -> Importer:
        """An importer of the same constants into a network of its own."""
        builder = NetworkBuilder("folded", self.builder.dtype)
        constants = dict(self.constants)
        return replace(self, builder=builder, values={}, constants=constants, outer=self.builder)

    def run(self, graph: Subgraph) -> tuple[str, ...]:
        """Append the nodes of a graph; returns the names of its outputs."""
        self.constants |= dict(graph.constants)
        for node in graph.nodes:
            self.imported(self, node)
        return graph.outputs

    @property
    def is_float(self) -> bool:
        """True if the node at hand computes floats."""
        return dtype(self.dtype).is_float

    def use(self, name: str, by: str, types: Container[str] = ()) -> str:
        """The tensor `name`, declared as a weight when it is a constant used for the first time.

        Raises GraphError unless its elements are of the network's type or of one of `types`.
        """
        kind = self.element_type(name, by)
        if self.narrow and kind == self.narrow.name and kind not in types:
            return self._widened(name, kind)
        if kind not in (types or (self.dtype,)):
            raise GraphError(f"{by} takes {quoted(name)}, which holds {self._held(name)}")
        return self._declared(name, kind)

    def _declared(self, name: str, kind: str) -> str:
        if not self.builder.has(name):
            self.values[name] = self.constants[name].astype(dtype(kind).numpy, copy=False)
            self.builder.weight(name, tuple(self.constants[name].shape), kind)
        return name

    def _widened(self, name: str, kind: str) -> str:
        """Floats of 16 bits as singles."""
        wide = f"{name}/{F32}"
        if not self.builder.has(wide):
            self._declared(name, kind)
            self.builder.apply(converting(self.builder.shape(name), kind, F32.name), name,
                               name=wide, output=wide)  # fmt: skip
        return wide

    def output(self, name: str) -> str:
        """An output of the network, of any element type. Raises GraphError for an empty one."""
        if name in self.constants and not self.constants[name].size:
            shown = show_shape(self.constants[name].shape)
            raise GraphError(f"output {quoted(name)} is {shown}: it has no element")
        return self.use(name, "the model's output list", EVERY_TYPE)

    def element_type(self, name: str, by: str) -> str:
        """Element type of a tensor; of an unused constant, the type it gets in the network."""
        if self.builder.has(name):
            return self.builder.element_type(name)
        if self.outer is not None and self.outer.has(name):
            return self.outer.element_type(name)
        if name not in self.constants:
            raise GraphError(f"{by} reads {quoted(name)}, which nothing before it produces")
        held = self.constants[name].dtype
        own = held == dtype(self.file_dtype).numpy
        return self.builder.dtype if own else _NAMES.get(held, str(held))

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
        self.give(node.output(), node, op, *inputs)

    def give(self, output: str, node: OnnxNode, op: Op, *inputs: str, suffix: str = "") -> None:
        """Append `op` as an output of `node`; floats of 16 bits are rounded from singles."""
        name = f"{node.name or node.kind}{suffix}"
        if not (self.narrow and op.out_dtype == F32.name):
            self.builder.apply(op, *inputs, name=name, output=output)
            return
        wide = self.builder.fresh(f"{output}/{F32}", self.constants)
        made = self.builder.apply(op, *inputs, name=name, output=wide)
        rounding = converting(op.out_shape, F32.name, self.narrow.name)
        self.builder.apply(rounding, made, name=f"{name}_rounded", output=output)

    def mapped(
        self,
        body: str,
        *names: str,
        computed: str = "",
        result: str = "",
    ) -> Definition:
        """The definition of an expression over tensors that are broadcast against each other."""
        shapes = [self.builder.shape(name) for name in names]
        shape = broadcast_shape(shapes)
        kinds = [self.builder.element_type(name) for name in names]
        computed = computed or self.dtype
        types = types_text(kinds, computed, result or computed)
        places = tuple(broadcast(own, shape) for own in shapes)
        return Definition(shape, straight(shape), places, body, None, "x0", types)

    def reshape(self, node: OnnxNode, x: str, shape: Shape) -> None:
        """Append a reshape of `x` as the result of `node`."""
        op = Reshape(self.builder.shape(x), shape, self.builder.element_type(x))
        self.emit(node, op, x)

    def step(self, node: OnnxNode, op: Op, *inputs: str, suffix: str = "") -> str:
        """Append `op` as an intermediate step of `node`; returns its result."""
        name = f"{node.name or node.kind}{suffix}"
        return self.builder.apply(
            op, *inputs, name=name, output=self.builder.fresh(f"{node.output()}/{op.kind}")
        )
