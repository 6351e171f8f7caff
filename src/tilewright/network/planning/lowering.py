"""Lowering of operators that are no products: their definitions become stages on tensors as they
lie.

In: an operator with its definitions, and the plan's memory so far. Out: drafts, appended for each
definition; its accesses say where elements come from and go to. Transposes and reshapes move
nothing, and the border of a pad belongs to the result. Places of the result that no step reaches
are filled first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.graph import Node
from tilewright.ir.scalar import Apply, Element, Number, Scalar, renumbered
from tilewright.network.plan import Work
from tilewright.network.planning.access import (
    access_of,
    along_blocks,
    forwards_gathered,
    index_of,
    normalised,
)
from tilewright.network.planning.form import Form, canonical, permuted, row_major
from tilewright.network.planning.memory import (
    Heading,
    Located,
    PlannedMemory,
    in_order,
    is_unblocked,
    ordered_like,
    unbordered,
    with_border,
)
from tilewright.ops import Op
from tilewright.ops.access import Access, straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Addend, Computed, Definition, Gather
from tilewright.ops.definitions import definitions_in, is_view, moves
from tilewright.ops.mapping import InMemory
from tilewright.ops.numerics import real_types
from tilewright.ops.op import Array, Shape
from tilewright.seeds.mapping import cut_axes

_GATHERED: dict[str, tuple[Gather, str]] = {
    "sum": ("sum", ""),
    "max": ("max", ""),
    "min": ("max", "-"),
    "prod": ("prod", ""),
}
"""The reduction's function, and the sign applied to its operand and result."""
_LEAST_OF_BLOCK = 1024
"""Fewest elements per place of a block for which interleaved steps of one block each pay."""
_MOST_OPERANDS = 8
"""Tensors that a map of interleaved parts may read; routines have as many pointers."""
_FEW_RESULTS = 512
"""Up to this many results, 64 bytes for each of 64 cores, sums are first split into parts."""


def is_lowered(op: Op) -> bool:
    """True if an operator other than a product has stages."""
    every = definitions_in(op)
    return is_view(op) or (every != [] and all(own.kind != "contraction" for own in every))


def writes_any_form(op: Op) -> bool:
    """True if the operator's maps together write every place of its result once."""
    if op.is_named or is_view(op) or moves(op) or not is_lowered(op):
        return False
    every = definitions_in(op)
    maps = all(own.gather is None and not own.has_look_ups for own in every)
    return maps and sum(prod(own.extents) for own in every) == prod(op.out_shape)


def lowered(memory: PlannedMemory, node: Node, form: Form | None = None) -> Located:
    """The result of a node, whose stages are appended; in `form` if its stages can write it."""
    if is_view(node.op):
        return _viewed(memory, node)
    if node.op.border is not None:
        return _padded(memory, node, *node.op.border)
    if form is None or not is_unblocked(form) or not _writes(memory, node, form):
        return _Stages(memory, node).all()
    return _Stages(memory, node, form).all()


def writes_inside(op: Op, own: Form, form: Form) -> bool:
    """True for windows whose result, else in its `own` form, may lie inside a border."""
    return op.pooling is not None and form.has_zeros and unbordered(form) == own


def _writes(memory: PlannedMemory, node: Node, form: Form) -> bool:
    """True if the node's stages can write `form`."""
    if writes_any_form(node.op):
        return True
    if memory.views is not None or node.op.pooling is None:
        return False
    order = [d.axis for d in memory.held[node.inputs[0]][0].form.dims]
    return writes_inside(node.op, in_order(node.op.out_shape, order), form)


def _viewed(memory: PlannedMemory, node: Node) -> Located:
    """The operand's memory with permuted dimensions, or in C order with new extents."""
    (name,), order, shape = node.inputs, node.op.permutation, node.op.out_shape
    if order is not None:
        x = memory.held[name][0]
        if node.op.of_group is not None and memory.values[x.value].role == "scratch":
            x = memory.elsewhere(x, node.op.of_group)
        else:
            memory.transposed[node.output] = name, order
        return Located(x.value, permuted(x.form, order), tuple(range(len(order))))
    x = memory.in_form(name, row_major(node.op.input_shapes[0]))
    return Located(x.value, row_major(shape), tuple(range(len(shape))))


def _padded(
    memory: PlannedMemory, node: Node, before: Shape, after: Shape, value: float
) -> Located:
    """A copy inside a border that belongs to the result."""
    (name,), shape = node.inputs, node.op.out_shape
    wider = with_border(memory.held[name][0].form, before, after)
    x = memory.in_form(name, wider, value)
    form = canonical(shape, wider.dims, (0,) * len(shape))
    return Located(x.value, form, tuple(range(len(shape))))


@dataclass(frozen=True)
class _Source:
    """An operand in memory, and the number read beyond its elements."""

    place: Located
    beyond: float | None = None


class _Stages:
    """Lowers a node's definitions in order. `held` lists its operands by name, then the tensors
    computed before: in memory, or known numbers that depend on no operand.
    """

    def __init__(self, memory: PlannedMemory, node: Node, form: Form | None = None) -> None:
        self.memory, self.node, self.form, self.gathered_flops = memory, node, form, 0
        self.order: tuple[int, ...] = ()
        self.together: Form | None = None
        self.held: list[str | Located | Array] = [*node.inputs]

    def all(self) -> Located:
        """Lower every definition; returns the last tensor."""
        for tensor in self.node.op.definitions:
            reads = {n for addend in tensor.addends for n in addend.reads}
            known = all(isinstance(self.held[n], np.ndarray) for n in reads)
            self.held.append(self._constant_sum(tensor) if known else self._computed(tensor))
        found = self.held[-1]
        if isinstance(found, np.ndarray):
            found = self._numbers(self.node.output, found, tuple(range(found.ndim)))
        assert isinstance(found, Located)
        return found

    def _constant_sum(self, tensor: Computed) -> Array:
        parts = []
        for addend in tensor.addends:
            own = [x for n in addend.reads if isinstance(x := self.held[n], np.ndarray)]
            parts.append(addend.definition.reference(*own))
        total: Array = sum(parts[1:], parts[0])
        return total

    def _computed(self, tensor: Computed) -> Located:
        """Append the stages that write a tensor."""
        mapped, given = self._is_mapped(tensor), tensor
        if self.memory.views is None and not self.memory.aligned:
            tensor = self._interleaved(tensor)
        self.order = self._common_order(tensor)
        joined = tensor is not given
        self.together = (self.form or self._followed_form(tensor)) if joined else None
        sources = [
            [self._source(tensor, n, a.definition, i, mapped=mapped) for i, n in enumerate(a.reads)]
            for a in tensor.addends
        ]
        y = self._result(tensor, sources[0])
        written = sum(prod(a.definition.extents[k] for k in a.definition.kept)
                      for a in tensor.addends)  # fmt: skip
        if written < prod(y.form.shape) or tensor.addends[0].definition.result.read_from:
            self._zeros(y)
        for addend, own in zip(tensor.addends, sources, strict=True):
            if mapped:
                self._map(addend.definition, own, y)
            else:
                self._write(addend.definition, own, y)
        if self.form is not None and not mapped:
            self.memory.fill(self.node.output, y)
        return y

    def _interleaved(self, tensor: Computed) -> Computed:
        """One map in place of several that each write one place of every block. Axes count the
        places within a block, and a further operand holds their number, so shared operands are read
        once.
        """
        parts, first = tensor.addends, tensor.addends[0].definition
        firsts = [addend.definition.result.offsets for addend in parts]
        least = tuple(map(min, zip(*firsts, strict=True)))
        block = tuple(max(own) + 1 - low for own, low in zip(zip(*firsts, strict=True), least,
                                                             strict=True))  # fmt: skip
        moving = {a for d in _longer(block) for a, _ in first.result.terms[d]}
        few = prod(n for a, n in enumerate(first.extents) if a not in moving) < _LEAST_OF_BLOCK
        apart = prod(block) != len(parts) or not all(_alike(first, a) for a in parts)
        if len(parts) == 1 or few or apart:
            return tensor
        axes = {d: len(first.extents) + i for i, d in enumerate(_longer(block))}
        reads = list(dict.fromkeys((n, x) for a in parts for n, x in zip(
            a.reads, a.definition.operands, strict=True)))  # fmt: skip
        if len(reads) >= _MOST_OPERANDS:
            return tensor
        body: Scalar | None = None
        for addend in parts:
            pairs = zip(addend.reads, addend.definition.operands, strict=True)
            own = renumbered(addend.definition.scalar, [Element(reads.index(p)) for p in pairs])
            at = [o - low for o, low in zip(addend.definition.result.offsets, least, strict=True)]
            number = Number(float(np.ravel_multi_index(at, block)))
            here = Apply("==", (Element(len(reads)), number))
            body = own if body is None else Apply("if", (here, own, body))
        shape = tuple(block[d] for d in axes)
        terms = tuple((*own, *(((axes[d], 1),) if d in axes else ()))
                      for d, own in enumerate(first.result.terms))  # fmt: skip
        whole = Definition(
            (*first.extents, *shape), replace(first.result, terms=terms, offsets=least),
            (*(x for _, x in reads), straight(shape, tuple(axes.values()))), str(body),
            dtype=self.node.op.dtype,
        )  # fmt: skip
        self.held.append(np.arange(len(parts), dtype=np.float64).reshape(shape))
        return Computed((Addend(whole, (*(n for n, _ in reads), len(self.held) - 1)),))

    def _is_mapped(self, tensor: Computed) -> bool:
        """True if a named operator computes each element from operands at the same place."""
        own = tensor.addends[0].definition
        plain = own.gather is None and own.body != "x0" and len(tensor.addends) == 1
        return self.node.op.is_named and plain

    def _common_order(self, tensor: Computed) -> tuple[int, ...]:
        """The dimension order of the largest operand, where all operands of the result's rank and
        the result have the same moving axes; else ().
        """
        own, memory = tensor.addends[0].definition, self.memory
        if not memory.aligned or self.node.op.is_named or own.gather is not None:
            return ()
        names = [self.held[n] for n in tensor.addends[0].reads]
        found: list[tuple[int, tuple[int, ...]]] = []
        for name, x in zip(names, own.operands, strict=True):
            if len(x.shape) == len(own.out_shape):
                if not isinstance(name, str) or _moving(x) != _moving(own.result):
                    return ()
                named = dict.fromkeys(d.axis for d in memory.held[name][0].form.dims)
                missing = dict.fromkeys(a for a in range(len(x.shape)) if a not in named)
                found.append((prod(x.shape), (*missing, *named)))
        orders = [order for _, order in sorted(found, key=lambda pair: -pair[0])]
        return orders[0] if len(orders) > 1 else ()

    def _followed_form(self, tensor: Computed) -> Form | None:
        """The form of the operand whose dimension order the result follows."""
        number = _followed(tensor)
        held = None if number is None else self.held[tensor.addends[0].reads[number]]
        return self.memory.held[held][0].form if isinstance(held, str) else None

    def _source(
        self, tensor: Computed, number: int, op: Definition, operand: int, *, mapped: bool
    ) -> _Source:
        """An operand of a definition as its stage reads it."""
        memory, held, access = self.memory, self.held[number], op.operands[operand]
        if isinstance(held, np.ndarray):
            axes = tuple(place[0][0] for place in access.terms)
            return _Source(self._numbers(f"{self.node.name}_{self._name(number)}", held, axes))
        if isinstance(held, Located):
            return _Source(held)
        if mapped:
            return _Source(memory.held[held][0])
        before, after = self._border(tensor, number, access)
        if self.node.op.is_named:
            if access.fill is None:
                return _Source(memory.source(held))
            return _Source(*memory.around(held, before, after, access.fill))
        if op.has_look_ups:
            return _Source(memory.in_form(held, row_major(access.shape)))
        form, ordered = memory.held[held][0].form, len(access.shape) == len(self.order)
        if ordered:
            form = in_order(access.shape, self.order)
        if access.fill is not None and not access.is_inside(op.extents):
            return _Source(memory.inside(held, form, before, after, access.fill))
        if ordered:
            return _Source(memory.in_form(held, form))
        turned = {a for a in op.kept for place in access.terms if dict(place).get(a, 0) < 0}
        if turned and memory.views is None:
            return _Source(memory.outermost(held, [d for d, place in enumerate(access.terms)
                                                   if turned & {a for a, _ in place}]))  # fmt: skip
        if self.together and form.dims[-1].axis != self.together.dims[-1].axis:
            return _Source(memory.in_form(held, ordered_like(self.together, form.shape)))
        if runs_along_blocks(op, form):
            return _Source(memory.held[held][0])
        return _Source(memory.as_it_lies(held))

    def _border(self, tensor: Computed, number: int, access: Access) -> tuple[list[int], list[int]]:
        """Places before and after an operand that the tensor's parts read with one fill value."""
        spans = [
            [x.span(d, Box.whole(a.definition.extents)) for d in range(len(x.shape))]
            for a in tensor.addends
            for n, x in zip(a.reads, a.definition.operands, strict=True)
            if isinstance(self.held[n], str)
            and self.held[n] == self.held[number]
            and x.fill == access.fill
        ]
        sides = [*zip(access.shape, zip(*spans, strict=True), strict=True)]
        before = [max(0, *(-low for low, _ in own)) for _, own in sides]
        return before, [max(0, *(high - n for _, high in own)) for n, own in sides]

    def _name(self, number: int) -> str:
        """The name of a tensor computed by an earlier definition."""
        tensor = self.node.op.definitions[number - len(self.node.inputs)]
        return tensor.addends[0].definition.tensor_name(0)

    def _numbers(self, name: str, numbers: Array, axes: tuple[int, ...]) -> Located:
        one = 1 << dtype(self.memory.dtype).fraction_bits
        return self.memory.numbers(name, np.asarray(numbers, np.float64) / one, axes)

    def _result(self, tensor: Computed, sources: Sequence[_Source]) -> Located:
        """New memory for the tensor: in the node's `form`, in the order of an operand, or as a C
        array. The order is the common one of all operands, else that of the followed operand. Only
        the last tensor may have a border.
        """
        output, count = self.node.output, len(self.held)
        is_last = count + 1 >= len(self.node.inputs) + len(self.node.op.definitions)
        name = output if is_last else f"{output}_{self._name(count)}"
        shape = tensor.addends[0].definition.out_shape
        if self.form is not None:
            own = self.form
            apart = own.dims and self.order and own.dims[-1].axis != self.order[-1]
            if apart and is_unblocked(own):
                own = in_order(shape, self.order)
            return self.memory.value(name, own if is_last else unbordered(own))
        form = row_major(shape)
        if self.order:
            form = in_order(shape, self.order)
        elif (number := 0 if self.node.op.is_named else _followed(tensor)) is not None:
            own = sources[number].place.form
            form = ordered_like(own if self.node.op.is_named else unbordered(own), shape)
        if self.memory.views is not None:
            form = _of_whole_steps(form, tensor)
        if not is_last:
            return self.memory.value(name, form)
        keeps = self.node.op.is_named
        return self.memory.result(output, form) if keeps else self.memory.value(output, form)

    def _label(self, op: Definition) -> str:
        every = self.node.op.definitions
        text = self.node.op.describe()
        return text if len(every) == 1 else f"{op.tensor_name(0)} of {text}"

    def _zeros(self, y: Located) -> None:
        """Fill all places of the result with zeros."""
        shape, kind = y.form.shape, self.memory.values[y.value].dtype
        zeros = InMemory(shape, straight(shape), (), "0.0", dtype=real_types(kind))
        heading = Heading(f"{self.node.name}_zeros", "layout", nodes=(self.node.name,))
        self.memory.mapped(heading, zeros, y, ())

    def _map(self, op: Definition, sources: Sequence[_Source], y: Located) -> None:
        """Append a map over all elements; the last definition gets the operations left to count."""
        operands = []
        for source, access in zip(sources, op.operands, strict=True):
            axes = tuple(p[0][0] if p else d for d, p in enumerate(access.terms))
            operands.append(replace(source.place, axes=axes))
        name, label = self.node.name, self._label(op)
        heading = Heading(name, "elementwise", label, (name,), self._counted(op))
        self.memory.map(heading, op.body, y, operands)

    def _write(self, op: Definition, sources: Sequence[_Source], y: Located) -> None:
        """Append the stages that write a definition's part of the result."""
        found, places = self._in_memory(op, sources, y), [s.place for s in sources]
        flops = self._counted(op)
        work: Work = "elementwise"
        if op.gather is not None:
            work, outer = "window", self._outermost(found)
            if outer is not None:
                found, places, flops = self._parted(op, found, outer, places, flops)
        elif op.body == "x0" or op.has_look_ups:
            work = "layout"
        self._mapped(op, work, found, y, places, flops)

    def _counted(self, op: Definition) -> int:
        """The operations to report for a definition: its own if it gathers; for the last one, all
        that the operator has left.
        """
        own = self.node.op
        if op is own.definitions[-1].addends[-1].definition:
            return own.flops - self.gathered_flops
        flops = op.flops if op.gather is not None else 0
        self.gathered_flops += flops
        return flops

    def _mapped(
        self,
        op: Definition,
        work: Work,
        found: InMemory,
        y: Located,
        places: Sequence[Located],
        flops: int,
    ) -> None:
        """Append a stage, after the copies that it needs."""
        if not op.has_look_ups:
            found, places = self._apart(self._gathered_forwards(found), places)
        name, label = self.node.name, self._label(op) if op.gather is not None else ""
        self.memory.mapped(Heading(name, work, label, (name,), flops), found, y, places)

    def _gathered_forwards(self, op: InMemory) -> InMemory:
        """The work with the fewest loops, gathered axes running forwards."""
        found = forwards_gathered(normalised(op))
        terms = (term for x in found.operands for place in x.terms for term in place)
        if self.memory.views is None and any(a >= found.outer and s < 0 for a, s in terms):
            raise GraphError(f"node {self.node.name}: operands are gathered in opposite directions")
        return found

    def _apart(self, op: InMemory, places: Sequence[Located]) -> tuple[InMemory, Sequence[Located]]:
        """The map and its operands. Where they leave no axis to tile, operands moved by several
        axes together or backwards are first copied to one element per step.
        """
        plain = op.gather is not None or not op.operands or op.body == "x0"
        if plain or self.memory.views is not None or cut_axes(op):
            return op, places
        operands, given = list(op.operands), list(places)
        for number, access in enumerate(operands):
            if all(len(place) < 2 and all(s > 0 for _, s in place) for place in access.terms):
                continue
            axes = sorted(access.axes)
            shape = tuple(op.extents[a] for a in axes)
            between = self.memory.value(f"{self.node.output}_steps{number}", row_major(shape))
            own = access.renamed({a: i for i, a in enumerate(axes)})
            kind = op.numerics.operands[number].name
            copy = InMemory(shape, straight(shape), (own,), dtype=kind)
            self._mapped(op, "layout", copy, between, [places[number]], 0)
            operands[number] = straight(shape, tuple(axes))
            given[number] = between
        return replace(op, operands=tuple(operands)), given

    def _outermost(self, op: InMemory) -> int | None:
        """The axis of an operand's outermost dimension, where few results lie along its innermost
        one and are gathered over several axes; else None.

        Dividing such results would leave each core a few bytes.
        """
        gathered = len(op.extents) - op.outer
        few = prod(op.extents[: op.outer]) <= _FEW_RESULTS
        if self.memory.views is not None or len(op.operands) != 1 or not few or gathered < 2:
            return None
        if dtype(self.memory.dtype).kind == "fixed":
            return None  # sums of parts would be rounded once more
        axes = [place[0][0] for place in op.operands[0].terms if len(place) == 1]
        return axes[0] if axes and axes[0] >= op.outer > axes[-1] else None

    def _parted(
        self, op: Definition, found: InMemory, outer: int, places: list[Located], flops: int
    ) -> tuple[InMemory, list[Located], int]:
        """Append a stage that gathers partial results for each step of axis `outer`. Returns the
        definition that gathers those, where they lie, and the operations left of `flops`.
        """
        order = (outer, *(a for a in range(len(found.extents)) if a != outer))
        number, kept = {a: i for i, a in enumerate(order)}, found.outer
        extents = tuple(found.extents[a] for a in order)
        shape = extents[: kept + 1]
        between = self.memory.value(f"{self.node.output}_parts", row_major(shape))
        (source,) = found.operands
        first = replace(
            found,
            extents=extents,
            result=straight(shape),
            operands=(source.renamed(number),),
            finish="x0",
        )
        last = replace(
            found,
            extents=(*shape[1:], shape[0]),
            operands=(straight(shape, (kept, *range(kept))),),
            body="x0",
        )
        own = min(flops, first.flops)
        self._mapped(op, "window", first, between, places, own)
        return last, [between], flops - own

    def _in_memory(self, op: Definition, sources: Sequence[_Source], y: Located) -> InMemory:
        """The definition in terms of memory, with gathered axes last."""
        if op.has_look_ups:
            return InMemory(op.extents, op.result, op.operands, op.body, dtype=op.dtype)
        for source in sources:
            if not is_unblocked(source.place.form):
                op = along_blocks(op, source.place.form)
        order = (*op.kept, *op.gathered)
        number, extents = {a: i for i, a in enumerate(order)}, tuple(op.extents[a] for a in order)
        result, *operands = (
            access_of(place.form, index_of(access, number), extents)
            for place, access in zip(
                (y, *(s.place for s in sources)), (op.result, *op.operands), strict=True
            )
        )
        given = (replace(x, fill=s.beyond) for x, s in zip(operands, sources, strict=True))
        if op.gather is None:
            kind = op.numerics.result  # fixed point that moves is what is computed in reals, too
            types = real_types(kind.name) if kind.kind == "fixed" else op.dtype
            return InMemory(extents, result, tuple(given), op.body, dtype=types)
        if op.gather not in _GATHERED:
            raise GraphError(
                f"node {self.node.name}: no stage gathers by {op.gather!r}",
                fix="a sum of logarithms, or one product after the other",
            )
        gather, sign = _GATHERED[op.gather]
        body = f"-({op.body})" if sign and op.body != "x0" else sign + op.body
        finish = op.finish.replace("x0", f"{sign}x0")
        dtype = real_types(self.memory.dtype)
        return InMemory(extents, result, tuple(given), body, gather, finish, dtype)


def runs_along_blocks(op: Definition, form: Form) -> bool:
    """True if a copy has an axis for the indices along each blocked dimension."""
    if is_unblocked(form) or form.has_zeros or op.gather is not None or len(op.operands) > 1:
        return False
    (access,) = op.operands
    blocked = [d for d in range(len(form.shape)) if len(form.along(d)) > 1]
    return all(len(access.terms[d]) == 1 and access.runs_through(d, op.extents) for d in blocked)


def _longer(block: Shape) -> list[int]:
    """The dimensions of extent above 1."""
    return [d for d, n in enumerate(block) if n > 1]


def _alike(first: Definition, addend: Addend) -> bool:
    """True for a float map over the steps of `first` whose result differs only in its offset."""
    own = addend.definition
    same = (own.extents, own.result.terms) == (first.extents, first.result.terms)
    plain = (own.gather, own.finish, own.has_look_ups) == (None, "x0", False)
    return same and plain and own.numerics.is_float


def _of_whole_steps(form: Form, tensor: Computed) -> Form:
    """`form` with padding after the elements, so that interleaved parts have equally long rows;
    each then lies in it as a tensor of its own would inside a border.
    """
    results = [addend.definition.result for addend in tensor.addends]
    steps = [
        max((s for x in results for _, s in x.terms[axis]), default=1)
        for axis in range(len(form.shape))
    ]
    if len(results) == 1 or not is_unblocked(form) or not form.dims or min(steps) < 1:
        return form
    if steps[form.dims[-1].axis] > 1:
        return form
    behind = [-n % step for n, step in zip(form.shape, steps, strict=True)]
    return in_order(form.shape, [d.axis for d in form.dims], (), behind)


def _followed(tensor: Computed) -> int | None:
    """The number of the largest operand whose axes along each dimension are a subset of the
    result's: it may lie in the same order. None if there is none.
    """
    own = tensor.addends[0].definition
    if own.has_look_ups or own.gather is not None:
        return None
    alike = [
        (prod(x.shape), -number)
        for number, x in enumerate(own.operands)
        if len(x.shape) == len(own.out_shape)
        and all(
            b <= a and bool(a) == bool(b)
            for a, b in zip(_moving(own.result), _moving(x), strict=True)
        )
    ]
    return -max(alike)[1] if alike else None


def _moving(access: Access) -> list[set[int]]:
    """The axes that move along each dimension."""
    return [{a for a, _ in place} for place in access.terms]
