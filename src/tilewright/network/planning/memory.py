"""Memory of a plan under construction: values, where each tensor lies, and the stages that write
them.

In: forms and expressions from `network.build`. Out: draft stages. A tensor wanted in another form
gets a stage that copies it, and places without an element are filled. Where stages work on `views`,
those that gather or move elements read a tensor as it lies and write the form wanted next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.codegen.artifact import Array
from tilewright.graph.names import fresh, safe_name
from tilewright.network.plan import Role, Scheduled, Stage, Value, Work
from tilewright.network.planning.access import access_of, blocked_loops, normalised, run_together
from tilewright.network.planning.form import (
    Form,
    StoredDim,
    canonical,
    permuted,
    row_major,
    same_memory,
)
from tilewright.ops import Op
from tilewright.ops.access import Access
from tilewright.ops.mapping import InMemory
from tilewright.ops.numerics import real_types
from tilewright.ops.op import Shape


@dataclass(frozen=True)
class Located:
    """A tensor, or a constant, in memory."""

    value: int
    form: Form
    axes: tuple[int, ...] = ()
    """Axes of a stage's result along which the tensor's own dimensions lie."""


@dataclass(frozen=True)
class Heading:
    """The name of a stage, its work, label, nodes and operations."""

    name: str
    work: Work
    label: str = ""
    nodes: tuple[str, ...] = ()
    flops: int = 0


@dataclass(frozen=True)
class Draft:
    """A stage whose schedule is not chosen yet, unless it came with one."""

    heading: Heading
    op: Op
    arguments: tuple[tuple[str, int], ...]
    scheduled: Scheduled | None = None

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.heading.name

    @property
    def work(self) -> Work:
        """The stage's kind of work."""
        return self.heading.work

    @property
    def in_memory(self) -> InMemory | None:
        """The stage's operator, if it computes elements where they lie."""
        return self.op if isinstance(self.op, InMemory) else None

    def stage(self, scheduled: Scheduled) -> Stage:
        """The stage with this schedule."""
        own = self.heading
        return Stage(own.name, own.label, own.work, self.op, scheduled, self.arguments, own.nodes,
                     own.flops)  # fmt: skip


class PlannedMemory:
    """Values and drafts under construction.

    `held` lists where each tensor lies, by name. `transposed` names the tensor whose memory another
    one shares, with its dimension order there. `views` are the forms in which tensors are wanted,
    None where stages do not work on views. Named tensors have their `types`; intermediate values
    have the `dtype` of the current node. With `aligned`, maps read all operands in one dimension
    order, and windows read the channels of a pixel contiguously. With `fills`, stages fill places
    without an element; otherwise these are filled ahead of the first stage.
    """

    def __init__(
        self,
        dtype: str,
        views: Mapping[str, Form] | None = None,
        types: Mapping[str, str] | None = None,
        *,
        aligned: bool = False,
        fills: bool = True,
    ) -> None:
        self.dtype, self.views, self._types = dtype, views, types or {}
        self.aligned, self.fills = aligned, fills
        self.values: list[Value] = []
        self.drafts: list[Draft] = []
        self.held: dict[str, list[Located]] = {}
        self.transposed: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._constants: dict[tuple[object, ...], int] = {}
        self._elsewhere: dict[tuple[int, int], int] = {}
        self._names: set[str] = set()

    def value(self, name: str, form: Form, role: Role = "scratch", filled: float = 0.0) -> Located:
        """New, unwritten memory."""
        kind = self._types.get(name, self.dtype)
        self.values.append(Value(name, form, kind, role, filled=filled))
        return Located(len(self.values) - 1, form, tuple(range(len(form.shape))))

    def elsewhere(self, located: Located, group: int) -> Located:
        """The part of a value that `group` owns, as every group sees it."""
        origin = located.value, group
        if origin not in self._elsewhere:
            seen = replace(self.values[located.value], role="elsewhere", origin=origin)
            self._elsewhere[origin] = len(self.values)
            self.values.append(seen)
        return replace(located, value=self._elsewhere[origin])

    def constant(
        self, made: tuple[str, tuple[str, ...]], form: Form, axes: tuple[int, ...]
    ) -> Located:
        """The constant `made` of weights in `form`, created once for all uses."""
        key = (made, form)
        if key not in self._constants:
            kind = self._types.get(made[1][0], self.dtype)
            self.values.append(Value(made[1][0], form, kind, "constant", made))
            self._constants[key] = len(self.values) - 1
        return Located(self._constants[key], form, axes)

    def numbers(self, name: str, numbers: Array, axes: tuple[int, ...]) -> Located:
        """A constant of known numbers."""
        form = row_major(numbers.shape)
        self.values.append(Value(name, form, self.dtype, "constant", numbers=numbers))
        return Located(len(self.values) - 1, form, axes)

    def in_form(self, tensor: str, form: Form, filled: float = 0.0) -> Located:
        """The tensor in that form, copied if it is not held in it. A `transposed` tensor is copied
        by way of the tensor whose memory it shares.
        """
        if tensor in self.transposed:
            of, order = self.transposed[tensor]
            back = tuple(map(order.index, range(len(order))))
            return replace(self.in_form(of, permuted(form, back), filled), form=form)
        for located in self.held[tensor]:
            own = self.values[located.value]
            if same_memory(located.form, form) and (not form.has_zeros or own.filled == filled):
                return replace(located, form=form)
        made = self.value(tensor, form, filled=filled)
        self.map(_copy(tensor), "x0", made, (self.held[tensor][0],))
        self.held[tensor].append(made)
        return made

    def inside(
        self, tensor: str, form: Form, before: Sequence[int], after: Sequence[int], filled: float
    ) -> Located:
        """The tensor in the dimension order of a form, inside a border at least as wide."""
        wanted = with_border(form, before, after)
        for located in self.held[tensor]:
            own, value = located.form, self.values[located.value]
            alike = [d.axis for d in own.dims] == [d.axis for d in wanted.dims]
            if alike and value.filled == filled and _is_wider(own, wanted):
                return located
        return self.in_form(tensor, wanted, filled)

    def as_it_lies(self, tensor: str) -> Located:
        """The tensor with each axis along one dimension, with or without a border."""
        held = self.held[tensor][0]
        return held if is_unblocked(held.form) else self.in_form(tensor, unbordered(held.form))

    def outermost(self, tensor: str, axes: Sequence[int]) -> Located:
        """The tensor with some axes outside all others: slices along them are contiguous."""
        for located in self.held[tensor]:
            outer = [d.axis for d in located.form.dims[: len(axes)]]
            if sorted(outer) == sorted(axes) and not located.form.has_zeros:
                return located
        form = self.held[tensor][0].form
        order = dict.fromkeys((*axes, *(d.axis for d in form.dims)))
        return self.in_form(tensor, in_order(form.shape, [*order]))

    def source(self, tensor: str) -> Located:
        """The tensor as operand of a gather or move: as it lies, or copied without a border."""
        held = self.held[tensor][0]
        if self.views is not None and is_unblocked(held.form):
            return held
        return self.in_form(tensor, unbordered(held.form))

    def around(
        self, tensor: str, before: Sequence[int], after: Sequence[int], filled: float
    ) -> tuple[Located, float | None]:
        """The tensor for windows that reach `before` and `after` beyond it, and the number they
        read there; None if it was copied inside a border.
        """
        form = self.held[tensor][0].form
        if self.views is None or not is_unblocked(form):
            own = unbordered(form) if self.aligned else form
            return self.in_form(tensor, with_border(own, before, after), filled), None
        reaches = any(before) or any(after)
        if reaches and filled and form.has_zeros:
            return self.in_form(tensor, unbordered(form)), filled
        held = self.held[tensor][0]
        stored = {d.axis for d in form.dims}
        missing = [a for a, sides in enumerate(zip(before, after, strict=True))
                   if any(sides) and a not in stored]  # fmt: skip
        # A dimension of extent 1 is stored only where windows reach beyond it.
        dims = (*(StoredDim(a, 1, 1) for a in missing), *form.dims)
        held = replace(held, form=Form(form.shape, dims, form.before))
        return held, filled if reaches else None

    def result(self, tensor: str, form: Form) -> Located:
        """New memory for a tensor that is gathered or moved: in the form wanted of it where stages
        may write any, else in `form`.
        """
        wanted = (self.views or {}).get(tensor, form)
        return self.value(tensor, wanted if is_unblocked(wanted) else form)

    def map(
        self, heading: Heading, expression: str, result: Located, operands: Sequence[Located]
    ) -> None:
        """Append the expression over all elements of the result, and fill its border."""
        shape = result.form.shape
        if self.aligned and (len(operands), expression) != (1, "x0"):
            operands = [self._in_order(heading.name, result.form, o) for o in operands]
        operands = self._side_by_side(heading.name, result.form, operands)
        full = [o.form for o in operands if o.form.shape == shape]
        extents, index = blocked_loops(shape, [result.form, *full])
        accesses = []
        for operand in operands:
            own = [
                ((), 0) if size == 1 else index[axis]
                for size, axis in zip(operand.form.shape, operand.axes, strict=True)
            ]
            accesses.append(access_of(operand.form, own, extents))
        to = access_of(result.form, index, extents)
        kinds = [self.values[x.value].dtype for x in operands]
        types = _types_text(kinds, self.dtype, self.values[result.value].dtype)
        op = InMemory(extents, to, tuple(accesses), expression, dtype=types)
        self.mapped(heading, op, result, operands)
        self.fill(heading.name, result)

    def _side_by_side(self, name: str, form: Form, operands: Sequence[Located]) -> list[Located]:
        """The operands, readable along common loops. One whose blocks do not fit the others', such
        as six channels beside four, is first copied out of its blocks.
        """
        forms, found = [form], list[Located]()
        for operand in operands:
            own, plain = operand.form, unbordered(operand.form)
            if own.shape == form.shape:
                copied = run_together(own.shape, [plain, own])
                if copied and not run_together(own.shape, [*forms, own]):
                    made = self._copy_of(operand, f"{name}_unblocked", plain)
                    self.map(_copy(name), "x0", made, (operand,))
                    operand = replace(made, axes=operand.axes)
                forms.append(operand.form)
            found.append(operand)
        return found

    def _in_order(self, name: str, form: Form, operand: Located) -> Located:
        """A full-size operand with the innermost axis of `form`, copied if it differs."""
        own, order = operand.form, [d.axis for d in form.dims]
        alone = prod(form.shape) == 1
        if alone or own.shape != form.shape or own.dims[-1].axis == order[-1]:
            return operand
        made = self._copy_of(operand, f"{name}_ordered", in_order(own.shape, order))
        self.map(_copy(name), "x0", made, (operand,))
        return replace(made, axes=operand.axes)

    def _copy_of(self, operand: Located, name: str, form: Form) -> Located:
        """New memory for a copy of an operand, of the operand's type."""
        made, kind = self.value(name, form), self.values[operand.value].dtype
        self.values[made.value] = replace(self.values[made.value], dtype=kind)
        return made

    def mapped(
        self, heading: Heading, op: InMemory, result: Located, operands: Sequence[Located]
    ) -> None:
        """Append a map unchanged, labelled by its description unless it has a label."""
        arguments = tuple((f"x{i}", operand.value) for i, operand in enumerate(operands))
        found = normalised(op)
        heading = replace(heading, label=heading.label or found.describe())
        self.append(Draft(heading, found, (*arguments, ("y", result.value))))

    def append(self, draft: Draft) -> None:
        """Append a stage under a unique name."""
        name = fresh(safe_name(draft.name), self._names)
        self.drafts.append(replace(draft, heading=replace(draft.heading, name=name)))

    def merge(self, others: Mapping[int, int]) -> list[int]:
        """Replace values by `others`, which may be replaced in turn, and drop them; returns the new
        number of each value by its old one.
        """
        kept = [number for number in range(len(self.values)) if number not in others]
        numbers, moved = {number: new for new, number in enumerate(kept)}, list[int]()
        for number in range(len(self.values)):
            while number in others:
                number = others[number]
            moved.append(numbers[number])
        self.values[:] = [self.values[number] for number in kept]
        for number, own in enumerate(self.values):
            if own.origin is not None:
                origin = (moved[own.origin[0]], own.origin[1])
                self.values[number] = replace(own, origin=origin)
        for number, draft in enumerate(self.drafts):
            arguments = tuple((name, moved[v]) for name, v in draft.arguments)
            self.drafts[number] = replace(draft, arguments=arguments)
        return moved

    def fill(self, name: str, result: Located) -> None:
        """Fill the places of a value without an element, by stages or ahead of the first one."""
        own = self.values[result.value]
        if not self.fills:
            self.values[result.value] = replace(own, ahead=result.form.has_zeros)
            return
        form, filled, kind = result.form, own.filled, own.dtype
        for axis, size in enumerate(form.shape):
            dims = [d for d, stored in enumerate(form.dims) if stored.axis == axis]
            if len(dims) != 1:
                continue
            before, extent = form.before[axis], form.dims[dims[0]].extent
            for part in ((0, before), (before + size, extent)):
                if part[0] < part[1]:
                    op = _strip(form, dims[0], part, filled, kind)
                    self.mapped(Heading(f"{name}_border", "layout"), op, result, ())


def _copy(name: str) -> Heading:
    """The heading of a layout change."""
    return Heading(f"{name}_layout", "layout")


def _types_text(operands: Sequence[str], computed: str, result: str) -> str:
    """The text of a map's element types; copies compute in the type that they copy."""
    distinct = {*operands, result}
    if len(distinct) == 1:
        return real_types(result)
    return f"{','.join(operands)}:{computed}:{result}"


def _is_wider(a: Form, b: Form) -> bool:
    """True if the border of `a` is as wide as that of `b`, in one order, on every side."""
    return all(
        a.before[x.axis] >= b.before[y.axis]
        and x.extent - a.before[x.axis] >= y.extent - b.before[y.axis]
        for x, y in zip(a.dims, b.dims, strict=True)
    )


def is_unblocked(form: Form) -> bool:
    """True if each axis lies along one dimension."""
    return len({d.axis for d in form.dims}) == len(form.dims)


def _strip(form: Form, d: int, part: tuple[int, int], filled: float, dtype: str) -> InMemory:
    """A map that fills all places whose index along dimension `d` lies in `part`."""
    shape = tuple(stored.extent for stored in form.dims)
    extents = (*shape[:d], part[1] - part[0], *shape[d + 1 :])
    offsets = tuple(part[0] if i == d else 0 for i in range(len(shape)))
    terms = tuple(((i, 1),) for i in range(len(shape)))
    kind = real_types(dtype)
    return InMemory(extents, Access(shape, terms, offsets), (), repr(filled), dtype=kind)


def in_order(
    shape: Shape, order: Sequence[int], before: Sequence[int] = (), after: Sequence[int] = ()
) -> Form:
    """Each axis in one dimension, in this order (missing ones outermost), with a border around."""
    first, behind = before or (0,) * len(shape), after or (0,) * len(shape)
    named = list(dict.fromkeys(order))
    missing = [axis for axis in range(len(shape)) if axis not in named]
    dims = [
        StoredDim(axis, 1, first[axis] + shape[axis] + behind[axis]) for axis in (*missing, *named)
    ]
    return canonical(shape, dims, tuple(first))


def given_form(shape: Shape, *, arranged: bool) -> Form:
    """The form of an input: a C array, or channels-last for images that the host arranges."""
    return in_order(shape, (0, 2, 3, 1)) if arranged and len(shape) == 4 else row_major(shape)


def with_border(form: Form, before: Sequence[int], after: Sequence[int]) -> Form:
    """`form` with its axis order, one dimension per axis, and a border around the elements."""
    return in_order(form.shape, [d.axis for d in form.dims], before, after)


def ordered_like(form: Form, shape: Shape) -> Form:
    """A form of `shape` in the dimension order of `form`, without a border."""
    return in_order(shape, [d.axis for d in form.dims])


def unbordered(form: Form) -> Form:
    """`form` with its axis order, one dimension per axis, without a border; a blocked axis takes
    the place of its innermost dimension.
    """
    inwards = dict.fromkeys(d.axis for d in reversed(form.dims))
    return in_order(form.shape, [*reversed(inwards)])
