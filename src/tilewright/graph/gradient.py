"""Gradients of networks: reverse-mode differentiation, with the backward nodes appended.

In: a network, the name of a loss, and tensors. Out: the network with one more tensor for the
gradient with respect to each of these. Every node reduces to definitions (`ops.definitions`), whose
gradients are definitions again, so gradients of gradients are networks, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from math import prod

import numpy as np

from tilewright.common.errors import GraphError, TilewrightError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network, Node
from tilewright.graph.names import quoted
from tilewright.ir.scalar import expanded, parse_scalar
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Addend, Computed, Definition
from tilewright.ops.definitions import are_apart, put_together
from tilewright.ops.elementwise import Binary
from tilewright.ops.gradient import extremes_of_few, gradient
from tilewright.ops.moves import Reshape
from tilewright.ops.op import Op, Shape

_FEW_TAPS = 4
"""Most elements of a window whose first maximum is found by comparing all with each other."""
_MOST_TAPS = 64
"""Most elements of a maximum computed in one stage; larger ones are computed in stages."""
_MOST_COMPARED, _MOST_ADDED = 6, 3
"""Most elements, and windows, that one map reads: at most eight tensors with other operands."""


def with_gradients(
    network: Network, loss: str | Mapping[str, str], of: Sequence[str], constant: Sequence[str] = ()
) -> tuple[Network, dict[str, str]]:
    """The network that also computes the gradients of the sum of `loss` with respect to the tensors
    `of`, and the name of each gradient by its tensor. Tensors in `constant` are not differentiated.
    If `loss` is a mapping, differentiation starts from several tensors with known gradients, each
    mapped to the tensor that holds its gradient.

    Raises GraphError for unknown tensors, tensors that the loss does not depend on, and operators
    on the path that have no gradient.
    """
    ends = {loss: ""} if isinstance(loss, str) else loss
    for name in (*ends, *filter(None, ends.values()), *of):
        if name not in network.tensors:
            raise GraphError(f"{network.name} has no tensor {quoted(name)}")
    backward = _Backward(network, ends, of, constant)
    found = {name: backward.total(name) for name in of}
    missing = [name for name, made in found.items() if made is None]
    if missing:
        raise GraphError(f"{quoted(next(iter(ends)))} does not depend on {quoted(missing[0])}")
    named = {name: made for name, made in found.items() if made is not None}
    outputs = tuple(dict.fromkeys((*network.outputs, *named.values())))
    return backward.builder.build(outputs, network.values), named


_BY_RESULT = {
    str(expanded(parse_scalar(function))): body
    for function, body in {
        "relu(x0)": "x0 if x1 > 0.0 else 0.0",
        "tanh(x0)": "x0 * (1.0 - x1 * x1)",
        "sigmoid(x0)": "x0 * (x1 * (1.0 - x1))",
        "exp(x0)": "x0 * x1",
    }.items()
}
"""Gradients of functions in terms of the result x1 and its gradient x0. With these, the operand
need not be kept, and the function can be fused into the node that computes the operand.
"""


@dataclass(frozen=True)
class _Record:
    """A forward node to differentiate; `addends` are definitions with the tensors they read."""

    name: str
    op: Op
    output: str
    addends: tuple[tuple[Definition, tuple[str, ...]], ...]
    constant: bool = False
    source: str = ""
    """The operand of a reshape, which has no definition."""


@dataclass
class _Backward:
    """Appends forward nodes, then backward nodes from the `ends`, which map a tensor to that of its
    gradient, "" for ones. `parts` collects the addends of each tensor's gradient.
    """

    network: Network
    ends: Mapping[str, str]
    of: Sequence[str]
    constant: Sequence[str]
    builder: NetworkBuilder = field(init=False)
    parts: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        network = self.network
        first = next(iter(self.ends))
        self.builder = NetworkBuilder(network.name, network.tensors[first].dtype)
        for tensor in network.inputs:
            self.builder.input(tensor.name, tensor.shape, tensor.dtype)
        for tensor in network.weights:
            self.builder.weight(tensor.name, tensor.shape, tensor.dtype)
        moved = set(self.of)
        records: list[_Record] = []
        for node in network.nodes:
            if moved.isdisjoint(node.inputs) or node.output in self.constant:
                self.builder.apply(node.op, *node.inputs, name=node.name, output=node.output)
            else:
                records += self._forward(node)
                moved.add(node.output)
        moved |= {record.output for record in records}
        for name, held in self.ends.items():
            if name in moved:
                self._add(name, held or self._ones(name))
        for record in reversed(records):
            if record.output in self.parts and not record.constant:
                self._back(record, moved)

    def _ones(self, name: str) -> str:
        """Ones: the gradient of a tensor's sum with respect to the tensor."""
        shape = self._shape(name)
        one = Definition(shape, straight(shape), (), "1", None, "x0", self.builder.dtype)
        return self.builder.apply(one, name=f"d_{name}")

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.network.tensors[name].shape

    def _forward(self, node: Node) -> list[_Record]:
        """Append a node, or several if its definitions compute several tensors."""
        if node.op.reshapes:
            self.builder.apply(node.op, *node.inputs, name=node.name, output=node.output)
            return [_Record(node.name, node.op, node.output, (), source=node.inputs[0])]
        try:
            tensors = node.op.definitions
        except TilewrightError as error:
            raise GraphError(f"node {node.name}: {error.message}, so it has no gradient") from error
        if len(tensors) == 1:
            names = (node.name, node.output)
            return self._computed(node.op, node.inputs, tensors[0], node.inputs, names)
        records: list[_Record] = []
        held = list(node.inputs)
        for number, tensor in enumerate(tensors):
            last = number == len(tensors) - 1
            (addend,) = tensor.addends
            read = [held[i] for i in addend.reads]
            names = (node.name, node.output) if last else (f"{node.name}_{number}", "")
            records += self._computed(addend.definition, read, tensor, held, names)
            held.append(records[-1].output)
        return records

    def _computed(
        self,
        op: Op,
        read: Sequence[str],
        tensor: Computed,
        held: Sequence[str],
        names: tuple[str, str],
    ) -> list[_Record]:
        """Append the node that computes one tensor, in stages for a maximum over many elements.
        `names` are the names of the node and of its output.
        """
        name, output = names
        (first, *others) = tensor.addends
        if first.definition.gather in ("max", "min") and not (others or tensor.constant):
            stages = extremes_of_few(first.definition, _MOST_TAPS)
            if len(stages) > 1:
                return self._in_stages(stages, [held[i] for i in first.reads], names)
        made = self.builder.apply(op, *read, name=name, output=output)
        return [_record(name, op, made, tensor, held)]

    def _in_stages(
        self, stages: Sequence[Definition], read: Sequence[str], names: tuple[str, str]
    ) -> list[_Record]:
        """Append a chain of nodes, each of which reads the result of the one before."""
        name, output = names
        records: list[_Record] = []
        for number, op in enumerate(stages):
            own = (name, output) if op is stages[-1] else (f"{name}_{number}", "")
            made = self.builder.apply(op, *read, name=own[0], output=own[1])
            records.append(_Record(own[0], op, made, ((op, tuple(read)),)))
            read = [made]
        return records

    def total(self, name: str) -> str | None:
        """The gradient with respect to a tensor, its parts added up; None if it is zero."""
        parts = self.parts.get(name, [])
        while len(parts) > 1:
            shape = self.builder.shape(parts[0])
            add = Binary("add", shape, shape, self.builder.dtype)
            parts = [*parts[2:], self.builder.apply(add, *parts[:2], name=f"d_{name}_sum")]
        self.parts[name] = parts
        return parts[0] if parts else None

    def _add(self, name: str, part: str) -> None:
        self.parts.setdefault(name, []).append(part)

    def _back(self, record: _Record, moved: set[str]) -> None:
        """Append the gradients with respect to a node's operands."""
        dy = self.total(record.output)
        assert dy is not None
        if record.op.reshapes:
            back, name = record.op, record.source
            back = Reshape(back.out_shape, back.input_shapes[0], back.dtype)
            self._add(name, self.builder.apply(back, dy, name=f"d_{name}"))
            return
        for definition, reads in record.addends:
            for number, name in enumerate(reads):
                if name not in moved:
                    continue
                if definition.gather in ("max", "min"):
                    self._by_first(record, definition, (reads[0], dy))
                else:
                    self._by_definitions(record, definition, number, reads, dy)

    def _by_definitions(
        self, record: _Record, definition: Definition, number: int, reads: Sequence[str], dy: str
    ) -> None:
        name = reads[number]
        if (body := _BY_RESULT.get(definition.body)) and _is_elementwise(definition):
            places = (definition.result, definition.result)
            plain = replace(definition, operands=places, body=body, tensors=())
            self._add_parts(name, [(plain, (dy, record.output))])
            return
        try:
            found = gradient(definition, number)
        except TilewrightError as error:
            raise GraphError(f"node {record.name}: {error.message}", fix=error.fix) from error
        parts = [(g.definition, (dy, *(reads[i] for i in g.operands))) for g in found]
        self._add_parts(name, parts)

    def _add_parts(self, name: str, parts: Sequence[tuple[Definition, tuple[str, ...]]]) -> None:
        """Append parts of a gradient, as one tensor if no two write the same element."""
        if parts and are_apart([definition for definition, _ in parts]):
            self._add(name, self._assembled(f"d_{name}", parts))
        else:
            for part in parts:
                self._add(name, self._assembled(f"d_{name}", [part]))

    def _assembled(self, name: str, parts: Sequence[tuple[Definition, tuple[str, ...]]]) -> str:
        """Append one node that computes the sum of `parts`; returns its result."""
        whole, names = put_together(parts, self.builder.dtype)
        return self.builder.apply(whole, *names, name=name)

    def _by_first(self, record: _Record, definition: Definition, tensors: tuple[str, str]) -> None:
        """Append the gradient of a maximum (or minimum), which goes to the first of equal elements.
        Few elements are compared with each other; for more, the number of the first is stored.
        """
        x, dy = tensors
        gathered = [a for a in definition.gathered if definition.extents[a] > 1]
        taps = prod(definition.extents[a] for a in gathered)
        if taps <= _FEW_TAPS and definition.operands[0].is_inside(definition.extents):
            self._add_parts(x, self._by_comparison(definition, tensors, gathered))
            return
        numbers = self._numbers(record, definition, x, gathered)
        kept = [a for a in range(len(definition.extents)) if a not in gathered]
        order = (*kept, *gathered)
        chosen = straight(tuple(definition.extents[a] for a in order), order)
        selection = replace(
            definition, operands=(*definition.operands, chosen), body="x0 * x1", gather="sum",
            tensors=(),
        )  # fmt: skip
        parts = (g.definition for g in gradient(selection, 0))
        found = (self._chosen(own, len(gathered), (dy, numbers)) for own in parts)
        self._add_parts(x, [*chain.from_iterable(found)])

    def _by_comparison(
        self, definition: Definition, tensors: tuple[str, str], gathered: Sequence[int]
    ) -> list[tuple[Definition, tuple[str, ...]]]:
        """A map for each element of a small window that compares it with all others. The maximum
        itself, as large as dy, need not be read.
        """
        x, dy = tensors
        kept = [a for a in range(len(definition.extents)) if a not in gathered]
        shape = tuple(definition.extents[a] for a in kept)
        numbers = {axis: place for place, axis in enumerate(kept)}
        result = _moved(definition.result, numbers, {})
        every = product(*(range(definition.extents[a]) for a in gathered))
        fixed = (dict(zip(gathered, taps, strict=True)) for taps in every)
        moved = (_moved(definition.operands[0], numbers, taps) for taps in fixed)
        sources = [replace(source, fill=None) for source in moved]
        parts = []
        for number, source in enumerate(sources):
            body = first_of_equals(number, len(sources), definition.gather)
            places, reads = (result, *sources), (dy, *[x] * len(sources))
            part = Definition(shape, source, places, body, None, "x0", self.builder.dtype)
            parts.append((part, reads))
        return parts

    def _numbers(
        self, record: _Record, definition: Definition, x: str, gathered: Sequence[int]
    ) -> str:
        """The number of each window's first maximum, divided by `_MOST_TAPS` so that narrow types
        represent it; -1 where there is none.
        """
        kept = [a for a in range(len(definition.extents)) if a not in gathered]
        shape = tuple(definition.extents[a] for a in kept)
        plain, numbers = straight(shape), {axis: place for place, axis in enumerate(kept)}
        result = _moved(definition.result, numbers, {})
        every = [*enumerate(product(*(range(definition.extents[a]) for a in gathered)))]
        found = ""
        for first in range(0, len(every), _MOST_COMPARED):
            taps = every[first : first + _MOST_COMPARED]
            read = [(record.output, result), *([(found, plain)] if found else [])]
            body = "-1.0"
            for operand, (number, _) in reversed([*enumerate(taps, len(read))]):
                body = f"{number / _MOST_TAPS} if x{operand} == x0 else ({body})"
            if found:
                body = f"x1 if x1 >= 0.0 else ({body})"
            fixed = (dict(zip(gathered, steps, strict=True)) for _, steps in taps)
            read += [(x, _moved(definition.operands[0], numbers, own)) for own in fixed]
            found = self._mapped(f"{record.output}_first", shape, body, read)
        return found

    def _chosen(
        self, op: Definition, windows: int, tensors: tuple[str, str]
    ) -> Iterator[tuple[Definition, tuple[str, ...]]]:
        """Parts of the gradient, and the tensors that they read. An element receives the gradient
        of each window that `op` gathers and whose stored number names the element. The sum over
        many windows is split into several maps.
        """
        hit = op.operands[1]
        own = sorted({a for place in hit.terms[-windows:] for a, _ in place} - {*op.gathered})
        kept = [a for a in op.kept if a not in own]
        numbers = {axis: place for place, axis in enumerate(kept)}
        shape = tuple(op.extents[a] for a in kept)
        for here in product(*(range(op.extents[a]) for a in own)):
            terms, read = list[str](), list[tuple[str, Access]]()
            at = dict(zip(own, here, strict=True))
            for steps in product(*(range(op.extents[a]) for a in op.gathered)):
                fixed = at | dict(zip(op.gathered, steps, strict=True))
                dy, hit = (_moved(access, numbers, fixed) for access in op.operands)
                offsets, extents = hit.offsets[-windows:], hit.shape[-windows:]
                if not all(0 <= i < n for i, n in zip(offsets, extents, strict=True)):
                    continue
                if len(terms) >= _MOST_ADDED:
                    total = self._mapped(f"{tensors[0]}_added", shape, " + ".join(terms), read)
                    read, terms = [(total, straight(shape))], ["x0"]
                number = np.ravel_multi_index(offsets, extents)
                terms.append(f"(x{len(read)} if x{len(read) + 1} == {number / _MOST_TAPS} else 0)")
                read += zip(tensors, (dy, _numbered(hit, windows)), strict=True)
            if not terms:
                continue
            result, places = _moved(op.result, numbers, at), tuple(place for _, place in read)
            body, kind = " + ".join(terms), self.builder.dtype
            part = Definition(shape, result, places, body, None, "x0", kind)
            yield part, tuple(name for name, _ in read)

    def _mapped(
        self, name: str, shape: Shape, body: str, read: Sequence[tuple[str, Access]]
    ) -> str:
        """Append a map of `body` over tensors; returns its result."""
        places = tuple(place for _, place in read)
        op = Definition(shape, straight(shape), places, body, None, "x0", self.builder.dtype)
        return self.builder.apply(op, *(tensor for tensor, _ in read), name=name)


def first_of_equals(number: int, count: int, gather: str | None = "max") -> str:
    """The gradient x0 if element `number` of x1, x2, ... (`count` of them) is the first maximum, or
    minimum by `gather`, else 0.

    >>> first_of_equals(1, 2)
    '0 if x1 >= x2 else (x0 if x2 == x2 else 0)'
    """
    further, own = "<" if gather == "min" else ">", f"x{1 + number}"
    body = f"x0 if {own} == {own} else 0"
    for other in reversed([n for n in range(count) if n != number]):
        beats = f"{further}=" if other < number else further
        body = f"0 if x{1 + other} {beats} {own} else ({body})"
    return body


def _numbered(access: Access, windows: int) -> Access:
    """The access without its last `windows` dimensions, with a fill of -1."""
    places = (access.shape, access.terms, access.offsets)
    shape, terms, offsets = (own[:-windows] for own in places)
    return Access(shape, terms, offsets, None if access.fill is None else -1.0)  # type: ignore[arg-type]


def _is_elementwise(definition: Definition) -> bool:
    """True if the definition maps each element of a single operand."""
    (operand,) = definition.operands
    plain = definition.gather is None and definition.finish == "x0"
    return plain and operand == definition.result == straight(definition.extents)


def _record(name: str, op: Op, output: str, tensor: Computed, held: Sequence[str]) -> _Record:
    def named(addend: Addend) -> tuple[Definition, tuple[str, ...]]:
        return addend.definition, tuple(held[i] for i in addend.reads)

    return _Record(name, op, output, tuple(map(named, tensor.addends)), tensor.constant)


def _moved(access: Access, numbers: Mapping[int, int], fixed: Mapping[int, int]) -> Access:
    """The access with the axes of `fixed` at these steps and all others renumbered."""
    terms, offsets = [], []
    for place, offset in zip(access.terms, access.offsets, strict=True):
        terms.append(tuple((numbers[a], s) for a, s in place if a in numbers))
        offsets.append(offset + sum(s * fixed[a] for a, s in place if a not in numbers))
    return replace(access, terms=tuple(terms), offsets=tuple(offsets))
