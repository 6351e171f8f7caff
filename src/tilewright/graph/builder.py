"""Builder of networks node by node, shared by the zoo and the front ends.

Operators infer shapes: a node's result has its operator's output shape.
"""

from __future__ import annotations

from collections.abc import Container

from tilewright.common.errors import GraphError, ShapeError
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.graph.names import quoted, safe_name, unused
from tilewright.ops.definition import MOST_EXTENT
from tilewright.ops.op import Arrays, Op, Shape, show_shape


class NetworkBuilder:
    """Collects tensors and nodes; `build` returns the checked network."""

    def __init__(self, name: str, dtype: str) -> None:
        self.name = name
        self.dtype = dtype
        self._inputs: list[Tensor] = []
        self._weights: list[Tensor] = []
        self._nodes: list[Node] = []
        self._tensors: dict[str, Tensor] = {}
        self._node_names: dict[str, int] = {}

    def input(self, name: str, shape: Shape, dtype: str = "") -> str:
        """Declare an input, of the network's element type unless another is given."""
        self._inputs.append(self._define(name, shape, dtype or self.dtype))
        return name

    def weight(self, name: str, shape: Shape, dtype: str = "") -> str:
        """Declare a weight, of the network's element type unless another is given."""
        self._weights.append(self._define(name, shape, dtype or self.dtype))
        return name

    def apply(self, op: Op, *inputs: str, name: str, output: str = "") -> str:
        """Append a node; its result is named `output` or like the node. Returns that name."""
        node_name = self._unique(name)
        result = output or node_name
        self._nodes.append(Node(node_name, op, inputs, result))
        self._define(result, op.out_shape, op.out_dtype)
        return result

    def has(self, name: str) -> bool:
        """True if a tensor of that name exists."""
        return name in self._tensors

    def shape(self, name: str) -> Shape:
        """The shape of an existing tensor."""
        return self._tensors[name].shape

    def element_type(self, name: str) -> str:
        """The element type of an existing tensor."""
        return self._tensors[name].dtype

    def fresh(self, name: str, taken: Container[str] = ()) -> str:
        """A tensor name that starts with `name` and is neither in use nor among `taken`."""
        return unused(name, self._tensors, taken)

    def build(self, outputs: tuple[str, ...], values: Arrays | None = None) -> Network:
        """The checked network; raises GraphError if it contradicts itself."""
        parts = (tuple(self._inputs), tuple(self._weights), tuple(self._nodes))
        return Network(self.name, *parts, outputs, values or {})

    def _define(self, name: str, shape: Shape, dtype: str) -> Tensor:
        if name in self._tensors:
            raise GraphError(f"the tensor {quoted(name)} is defined a second time")
        if max(shape, default=1) >= MOST_EXTENT:
            raise ShapeError(
                f"the tensor {quoted(name)}, {show_shape(shape)}: a dimension has less than "
                f"{MOST_EXTENT:,} elements"
            )
        tensor = self._tensors[name] = Tensor(name, shape, dtype)
        return tensor

    def _unique(self, text: str) -> str:
        """A safe node name; numbering of equal texts continues after the last one."""
        base = safe_name(text)
        name, number = base, self._node_names.get(base, 1)
        while name in self._node_names:
            number += 1
            name = safe_name(f"{base[:33]}_{number}")
        self._node_names[base] = number
        self._node_names.setdefault(name, 1)
        return name
