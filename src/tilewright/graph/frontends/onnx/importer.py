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
from tilewright.ops.access import Access, broadcast, straight
from tilewright.ops.definition import Definition, Gather
from tilewright.ops.op import Array, Op, Shape, show_shape

if TYPE_CHECKING:
    from tilewright.graph.frontends.onnx.declare import Operator

_NAMES = {kind.numpy: kind.name for kind in DTYPES}
_FLOATING = tuple(kind.name for kind in (*FLOATS, *HALVES))
_NONE = OnnxNode("", "", "", (), (), {})
EVERY_TYPE = tuple(kind.name for kind in DTYPES)
MOST_ELEMENTS = 1 << 28
"""Most elements of a constant that is created while the file is read."""


def _types_text(kinds: Sequence[str], computed: str, result: str) -> str:
    """The `dtype` of a definition with these types, in which integers wrap."""
    if {*kinds, result} <= {computed}:
        return computed
    wraps = not dtype(computed).is_float and result not in (computed, BOOL.name)
    return f"{','.join(kinds) or computed}:{computed}:{result}{':even:wrap' * wraps}"


def converting(shape: Shape, kind: str, to: str) -> Definition:
    """A conversion to another type, computed in the wider of two floats, or in a float that holds
    the integer's values.
    """
    own, new = dtype(kind), dtype(to)
    wide = max((own, new), key=lambda k: k.size_bytes)
    if own.is_float or new.is_float:
        integer = new if own.is_float else own
        wide = F64 if not integer.is_float and integer.size_bytes > 2 else wide
        floats = [k for k in (own, new) if k.is_float]
        wide = wide if wide.is_float else max(floats, key=lambda k: k.size_bytes)
        wide = wide.computed
    place = straight(shape)
    types = _types_text([kind], wide.name, to)
    return Definition(shape, place, (place,), "x0", None, "x0", types)


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """The common shape that all `shapes` broadcast to; raises ShapeError if there is none."""
    try:
        return np.broadcast_shapes(*shapes)
    except (ValueError, OverflowError):
        shown = " and ".join(map(show_shape, shapes))
        raise ShapeError(f"{shown} cannot be broadcast together") from None


@dataclass
class Importer:
    """The state of an import at one node; tensors keep the names of the file."""

    builder: NetworkBuilder
    constants: dict[str, Constant]
    file_dtype: str
    file_batch: int | None
    batch: int | None
    values: dict[str, Array] = field(default_factory=dict)
    node: OnnxNode = _NONE
    """The current node."""
    dtype: str = ""
    """The element type that the node computes in."""
    outer: NetworkBuilder | None = None
    imported: Callable[[Importer, OnnxNode], None] = lambda _, __: None
    """Translates one node."""
    narrow: DType | None = None
    """The 16-bit float type of a node that computes in f32."""

    def at(self, node: OnnxNode, operator: Operator) -> Importer:
        """This import at another node, with its element type derived from the operands.

        Raises GraphError for an operand of a type that the operator does not accept.
        """
        own, declared, kinds = replace(self, node=node), operator.inputs_of(node.version), []
        for index, name in enumerate(node.inputs):
            if own.builder.has(name) or name in own.constants:
                kinds.append(own.element_type(name))
                types = declared[min(index, len(declared) - 1)].types
                if kinds[-1] not in types:
                    raise own._holds_another_type(name, types)
        own.dtype = next((k for k in kinds if k in _FLOATING), own.builder.dtype)
        if operator.elements != "float" and kinds:
            own.dtype = kinds[0]
        kind = dtype(own.dtype)
        own.narrow = kind if kind in HALVES and operator.elements != "any" else None
        own.dtype = F32.name if own.narrow else own.dtype
        return own

    def _holds_another_type(self, name: str, types: Container[str]) -> GraphError:
        """The error that the elements of an operand have none of `types`."""
        taken = ", ".join(kind.name for kind in DTYPES if kind.name in types)
        return GraphError(
            f"{self._title} takes {quoted(name)}, which holds {self._element_type(name)}",
            fix=f"it takes {taken}",
        )

    def wrong(self, reason: str, fix: str = "") -> GraphError:
        """The error that the current node cannot be read for `reason`."""
        return GraphError(f"{self.node.title()}: {reason}", fix=fix)

    def apart(self) -> Importer:
        """An importer with the same constants into a separate network."""
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
        """True if the current node computes floats."""
        return dtype(self.dtype).is_float

    @property
    def _title(self) -> str:
        return self.node.title() if self.node.kind else "the model's output list"

    def use(self, name: str, types: Container[str] = ()) -> str:
        """The tensor `name`; a constant is declared as a weight on first use.

        Raises GraphError unless the elements have the node's type or one of `types`.
        """
        kind = self.element_type(name)
        if self.narrow and kind == self.narrow.name and kind not in types:
            return self._widened(name, kind)
        if kind not in (types or (self.dtype,)):
            raise self._holds_another_type(name, types or (self.dtype,))
        return self._declared(name, kind)

    def _declared(self, name: str, kind: str) -> str:
        if not self.builder.has(name):
            self.values[name] = np.asarray(self.constants[name], dtype(kind).numpy)
            self.builder.weight(name, tuple(self.constants[name].shape), kind)
        return name

    def _widened(self, name: str, kind: str) -> str:
        """A tensor of 16-bit floats converted to f32."""
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
        return self.use(name, EVERY_TYPE)

    def element_type(self, name: str) -> str:
        """Element type of a tensor; for an unused constant, its type once in the network."""
        if self.builder.has(name):
            return self.builder.element_type(name)
        if self.outer is not None and self.outer.has(name):
            return self.outer.element_type(name)
        if name not in self.constants:
            raise GraphError(
                f"{self._title} reads {quoted(name)}, which nothing before it produces"
            )
        held = self.constants[name].dtype
        own = held == dtype(self.file_dtype).numpy
        return self.builder.dtype if own else _NAMES.get(held, str(held))

    def _element_type(self, name: str) -> str:
        """Name of a tensor's element type; for a constant, as the file stores it."""
        constant = self.constants.get(name)
        return self.builder.element_type(name) if constant is None else str(constant.dtype)

    def operand(self, index: int, types: Container[str] = ()) -> str:
        """The tensor at the input `index` of the node."""
        return self.use(self.node.input(index), types)

    def operands(self, types: Container[str] = ()) -> list[str]:
        """The tensors at all inputs."""
        return [self.use(name, types) for name in self.node.inputs if name]

    def shape(self, index: int, types: Container[str] = ()) -> Shape:
        """The shape of the tensor at the input `index` of the node."""
        return self.builder.shape(self.operand(index, types))

    def images(self, types: Container[str] = ()) -> tuple[int, int, int, int]:
        """The shape of the first input, which must be batch x channels x height x width."""
        if len(shape := self.shape(0, types)) != 4:
            raise self.wrong(f"only images of 4 dimensions are supported, found {len(shape)}")
        return shape[0], shape[1], shape[2], shape[3]

    def constant(self, index: int) -> Constant:
        """The numbers of an input that must be known before the network runs."""
        name = self.node.input(index)
        if name not in self.constants:
            raise self.wrong(f"input {index} ({quoted(name)}) must be a constant")
        return self.constants[name]

    def scalar(self, index: int, otherwise: int = 0) -> int:
        """A constant input that must hold one integer; `otherwise` if the input is missing."""
        if not self.node.has_input(index):
            return otherwise
        if self.constant(index).size != 1 or self.constant(index).dtype.kind not in "iu":
            raise self.wrong(f"input {index} must be one integer")
        return int(self.constant(index).item())

    def integers(self, index: int) -> tuple[int, ...]:
        """A constant input that must hold integers, such as axes; empty if the input is missing."""
        if not self.node.has_input(index):
            return ()
        integers = integers_of(self.constant(index))
        if integers is None:
            raise self.wrong(f"input {index} must be a list of integers")
        return integers

    def axes(self) -> tuple[int, ...]:
        """The axes: a constant second input in newer versions, an attribute in older ones."""
        return self.integers(1) or self.node.integers("axes")

    def new_constant(self, name: str, numbers: Constant) -> str:
        """Add a constant that the file does not contain; returns its name, derived from `name`."""
        fresh = self.builder.fresh(name, self.constants)
        self.constants[fresh] = numbers
        return fresh

    def held(self, name: str, numbers: Constant) -> str:
        """A tensor of constants that the node introduces; floats take the type it computes in."""
        if numbers.dtype.kind == "f":
            others = self.is_float and not self.narrow and self.dtype != self.builder.dtype
            numbers = numbers.astype(dtype(self.dtype if others else self.file_dtype).numpy)
        return self.use(self.new_constant(f"{self.node.output()}/{name}", numbers), EVERY_TYPE)

    def numbered(self, size: int) -> Constant:
        """The indices 0, 1, ... of an axis. Raises GraphError for more than `MOST_ELEMENTS`."""
        if size > MOST_ELEMENTS:
            raise self.wrong(f"an axis of {size} places, at most {MOST_ELEMENTS} are numbered")
        return np.arange(size)

    def define(
        self, extents: Shape, places: Sequence[Access], *names: str, result: Access | None = None,
        body: str = "x0", gather: Gather | None = None, computed: str = "", to: str = "",
    ) -> Definition:  # fmt: skip
        """A definition over the tensors `names`, read at `places`, with types derived from them."""
        kinds = [self.builder.element_type(name) for name in names]
        computed = computed or self.dtype
        types = _types_text(kinds, computed, to or computed)
        y = result or straight(extents)
        return Definition(extents, y, tuple(places), body, gather, "x0", types)

    def axis(self, axis: int | None = None, rank: int | None = None) -> int:
        """An axis counted from the front; defaults to the attribute `axis`, of the first input."""
        axis = self.node.integer("axis") if axis is None else axis
        rank = len(self.shape(0)) if rank is None else rank
        if not -rank <= axis < rank:
            raise self.wrong(f"axis {axis} is outside -{rank}..{rank - 1}")
        return axis % rank

    def emit(self, op: Op, *inputs: str) -> None:
        """Append `op` as the result of the node."""
        self.give(self.node.output(), op, *inputs)

    def give(self, output: str, op: Op, *inputs: str, suffix: str = "") -> None:
        """Append `op` as an output of the node; for 16-bit floats, round the f32 result."""
        name = f"{self.node.name or self.node.kind}{suffix}"
        if not (self.narrow and op.out_dtype == F32.name):
            self.builder.apply(op, *inputs, name=name, output=output)
            return
        wide = self.builder.fresh(f"{output}/{F32}", self.constants)
        made = self.builder.apply(op, *inputs, name=name, output=wide)
        rounding = converting(op.out_shape, F32.name, self.narrow.name)
        self.builder.apply(rounding, made, name=f"{name}_rounded", output=output)

    def map(self, body: str, *names: str, computed: str = "", result: str = "") -> None:
        """Append an expression over broadcast tensors as the result of the node."""
        self.emit(self.mapped(body, *names, computed=computed, result=result), *names)

    def each(self, body: str, *names: str, suffix: str = "_each", computed: str = "") -> str:
        """Append an expression over tensors as an intermediate step; returns its result."""
        return self.step(self.mapped(body, *names, computed=computed), *names, suffix=suffix)

    def mapped(
        self, body: str, *names: str, computed: str = "", result: str = ""
    ) -> Definition:  # fmt: skip
        """The definition of an expression over broadcast tensors."""
        shapes = [self.builder.shape(name) for name in names]
        shape = broadcast_shape(shapes)
        places = [broadcast(own, shape) for own in shapes]
        return self.define(shape, places, *names, body=body, computed=computed, to=result)

    def reshape(self, x: str, shape: Shape) -> None:
        """Append a reshape of `x` as the result of the node."""
        self.emit(Reshape(self.builder.shape(x), shape, self.builder.element_type(x)), x)

    def reshaped(self, x: str, shape: Shape, suffix: str = "_shaped") -> str:
        """A tensor in another shape, by an intermediate reshape if needed."""
        own = self.builder.shape(x)
        if own == shape:
            return x
        return self.step(Reshape(own, shape, self.builder.element_type(x)), x, suffix=suffix)

    def step(self, op: Op, *inputs: str, suffix: str = "") -> str:
        """Append `op` as an intermediate step of the node; returns its result."""
        name = f"{self.node.name or self.node.kind}{suffix}"
        return self.builder.apply(
            op, *inputs, name=name, output=self.builder.fresh(f"{self.node.output()}/{op.kind}")
        )
