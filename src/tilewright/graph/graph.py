"""A network as a value: tensors, and nodes in the order in which they can run.

In: the tensors and nodes of a front end or the zoo. Out: `Network`, checked on construction: each
node reads tensors that exist before it, of the shapes and element types that its operator requires.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tilewright.common.errors import GraphError, ShapeError
from tilewright.graph.names import quoted
from tilewright.ops import CONTRACTIONS
from tilewright.ops.op import Array, Arrays, Op, Shape, show_shape


@dataclass(frozen=True)
class Tensor:
    """A tensor's name, shape and element type."""

    name: str
    shape: Shape
    dtype: str


@dataclass(frozen=True)
class Node:
    """One operator applied to named tensors; `name` is safe and unique in its network."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class State:
    """An input that the next run takes from an output of this one, such as a trained weight."""

    tensor: str
    next: str


@dataclass(frozen=True)
class Case:
    """One of the networks that a network with cases consists of. `inputs` and `outputs` pair the
    names in that network alone with the names in the whole; `name` is unique among the cases.
    """

    name: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Network:
    """Nodes in topological order. `values` holds the weights whose numbers are known; `source`
    names the model file; `bound` holds inputs of the file that became constants; `states` are
    inputs that outputs replace after a run; `cases` are networks for several input shapes that this
    network unites.

    Names of tensors may be any text of a model file: they are keys and never part of a path. Raises
    GraphError if a node does not fit the tensors that it names.
    """

    name: str
    inputs: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    values: Arrays = field(default_factory=dict, compare=False, repr=False)
    source: str = field(default="", compare=False)
    states: tuple[State, ...] = ()
    bound: Arrays = field(default_factory=dict, compare=False, repr=False)
    cases: tuple[Case, ...] = ()

    def __post_init__(self) -> None:
        known: dict[str, Tensor] = {}
        for tensor in (*self.inputs, *self.weights):
            _define(known, tensor, "the network")
        names: set[str] = set()
        for node in self.nodes:
            if node.name in names:
                raise GraphError(f"two nodes are called {quoted(node.name)}")
            names.add(node.name)
            _check_inputs(known, node)
            _define(known, Tensor(node.output, node.op.out_shape, node.op.out_dtype), node.name)
        for place, output in enumerate(self.outputs):
            _look_up(known, output, "the network's outputs")
            if output in self.outputs[:place]:
                raise GraphError(
                    f"the network's outputs name the tensor {quoted(output)} a second time"
                )
        self._check_states(known)

    def _check_states(self, known: Mapping[str, Tensor]) -> None:
        """Require each state to pair an input with an output of the same shape and type."""
        inputs = {tensor.name for tensor in self.inputs}
        for state in self.states:
            if state.tensor not in inputs or state.next not in self.outputs:
                raise GraphError(
                    "a state is an input that an output replaces, found "
                    f"{quoted(state.tensor)} and {quoted(state.next)}"
                )
            before, after = known[state.tensor], known[state.next]
            if (before.shape, before.dtype) != (after.shape, after.dtype):
                raise GraphError(
                    f"the state {quoted(state.tensor)} is {show_shape(before.shape)} "
                    f"{before.dtype}, its next value {show_shape(after.shape)} {after.dtype}"
                )

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Every tensor by name: inputs, weights and results of nodes."""
        produced = (
            Tensor(node.output, node.op.out_shape, node.op.out_dtype) for node in self.nodes
        )
        return {tensor.name: tensor for tensor in (*self.inputs, *self.weights, *produced)}

    @cached_property
    def makers(self) -> Mapping[str, Node]:
        """The node that computes each tensor, by the tensor's name."""
        return {node.output: node for node in self.nodes}

    @cached_property
    def uses(self) -> Mapping[str, int]:
        """Number of reads of each tensor by nodes; being an output counts as one more."""
        found = Counter(name for node in self.nodes for name in node.inputs)
        found.update(self.outputs)
        return found

    def readers(self, tensor: str) -> Sequence[Node]:
        """The nodes that read a tensor."""
        return self._readers.get(tensor, ())

    @cached_property
    def _readers(self) -> Mapping[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return found

    @property
    def flops(self) -> int:
        """Floating-point operations of one pass, multiply-accumulates of the direct form as two."""
        return sum(node.op.flops for node in self.nodes)

    def layers(self) -> Iterator[tuple[str, Op]]:
        """The node's name and the operator of each convolution and matrix product."""
        for node in self.nodes:
            if node.op.kind in CONTRACTIONS:
                yield node.name, node.op

    def evaluate(self, feeds: Arrays) -> dict[str, Array]:
        """The outputs by name, with each operator computed by its reference.

        `feeds` holds the inputs, and the weights missing in `values`. Tensors are dropped after
        their last use. Raises GraphError for a missing tensor, ShapeError for a wrong shape.
        """
        held: dict[str, Array] = {**self.values, **feeds}
        for tensor in (*self.inputs, *self.weights):
            if tensor.name not in held:
                raise GraphError(
                    f"no numbers are given for {quoted(tensor.name)}, "
                    f"{show_shape(tensor.shape)} {tensor.dtype}"
                )
        last_use = {name: node.name for node in self.nodes for name in node.inputs}
        for node in self.nodes:
            with np.errstate(all="ignore"):  # infinities and NaN are results, too
                try:
                    held[node.output] = node.op.reference(*(held[name] for name in node.inputs))
                except ShapeError as error:
                    raise ShapeError(f"node {node.name}: {error.message}") from None
            for name in set(node.inputs) - set(self.outputs):
                if last_use[name] == node.name:
                    del held[name]
        return {name: held[name] for name in self.outputs}


def _define(known: dict[str, Tensor], tensor: Tensor, by: str) -> None:
    if tensor.name in known:
        raise GraphError(f"{by} defines the tensor {quoted(tensor.name)} a second time")
    known[tensor.name] = tensor


def _look_up(known: Mapping[str, Tensor], name: str, by: str) -> Tensor:
    if name not in known:
        raise GraphError(f"{by} names the tensor {quoted(name)}, which nothing before it produces")
    return known[name]


def _check_inputs(known: Mapping[str, Tensor], node: Node) -> None:
    found = [_look_up(known, name, f"node {node.name}") for name in node.inputs]
    expected = node.op.input_shapes
    if len(found) != len(expected):
        raise GraphError(
            f"node {node.name}: {node.op.kind} takes {len(expected)} tensors, found {len(found)}"
        )
    kinds = node.op.operand_dtypes
    for tensor, shape, kind in zip(found, expected, kinds, strict=True):
        if (tensor.shape, tensor.dtype) != (shape, kind):
            raise GraphError(
                f"node {node.name}: {node.op.kind} takes {show_shape(shape)} {kind}, "
                f"but {quoted(tensor.name)} is {show_shape(tensor.shape)} {tensor.dtype}"
            )


def with_cases(parts: Sequence[Network]) -> Network:
    """One network with the given networks as its cases. Tensors of a part are prefixed with the
    shapes of its inputs; a weight that the first part has, too, with equal numbers keeps its name.
    """
    first, tags = parts[0], ["_".join(show_shape(t.shape) for t in p.inputs) for p in parts]
    common = [_common(first, part) for part in parts]
    names = [
        {n: n if n in shared else f"{tag}/{n}" for n in part.tensors}
        for part, tag, shared in zip(parts, tags, common, strict=True)
    ]
    whole = merged_network(first.name, parts, names, tags)
    cases = tuple(
        Case(tag, tuple((t.name, own[t.name]) for t in part.inputs),
             tuple((name, own[name]) for name in part.outputs))
        for part, own, tag in zip(parts, names, tags, strict=True)
    )  # fmt: skip
    return replace(whole, cases=cases)


def merged_network(
    name: str, parts: Sequence[Network], names: Sequence[Mapping[str, str]], tags: Sequence[str]
) -> Network:
    """One network of all nodes; `names` renames each part's tensors, `tags` prefixes its nodes."""
    weights, values = dict[str, Tensor](), dict[str, Array]()
    for part, own in zip(parts, names, strict=True):
        weights |= {own[t.name]: replace(t, name=own[t.name]) for t in part.weights}
        values |= {own[n]: array for n, array in part.values.items()}
    pairs = list(zip(parts, names, tags, strict=True))
    return Network(
        name,
        tuple(replace(t, name=own[t.name]) for part, own, _ in pairs for t in part.inputs),
        tuple(weights.values()),
        tuple(
            replace(node, name=f"{tag}/{node.name}", output=own[node.output],
                    inputs=tuple(own[n] for n in node.inputs))
            for part, own, tag in pairs for node in part.nodes
        ),
        tuple(own[n] for part, own, _ in pairs for n in part.outputs),
        values,
    )  # fmt: skip


def _common(first: Network, part: Network) -> set[str]:
    """The names of a part's weights that the first part has, too, with equal numbers."""
    known = {t.name: t for t in first.weights}
    return {
        t.name
        for t in part.weights
        if known.get(t.name) == t and np.array_equal(part.values[t.name], first.values[t.name])
    }
