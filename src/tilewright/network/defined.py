"""Definitions without a product as stages: mappings and reductions whose accesses they are.

In: a definition in normal form (`ops.normal_form`) and what the plan has so far. Out: drafts,
appended. Where two operands run against each other along an axis, each step of it is a mapping of
its own; places of the result that no step reaches are filled first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from tilewright.common.errors import GraphError
from tilewright.graph.graph import Node
from tilewright.ir.primitives.maps import Gathering
from tilewright.network.access import Index, access_of, normalised_reduction
from tilewright.network.form import row_major
from tilewright.network.memory import Draft, Located, Memory, bordered, unbordered
from tilewright.ops.access import Access
from tilewright.ops.box import Box
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import Assembly
from tilewright.ops.mapping import Mapping, Reduction
from tilewright.ops.normal_form import is_whole
from tilewright.ops.op import Shape

_GATHERED: dict[str, tuple[Gathering, str]] = {
    "sum": ("sum", "{}"),
    "max": ("max", "{}"),
    "min": ("max", "-({})"),
    "prod": ("prod", "{}"),
}
"""The reduction's function, and a format for its body and finish."""
_MOST_STEPS = 64


def defined(memory: Memory, node: Node, op: Definition) -> Located:
    """A mapping, or a reduction of one operand."""
    y = memory.value(node.output, row_major(op.out_shape))
    if not is_whole(op.result, op.extents):
        _zeros(memory, node, op.out_shape, y)
    _written(memory, node, op, node.inputs, y)
    return y


def assembled(memory: Memory, node: Node, op: Assembly) -> Located:
    """Write each part into its places of one result."""
    y = memory.value(node.output, row_major(op.out_shape))
    written = sum(prod(part.extents[a] for a in part.kept) for part in op.parts)
    if written < prod(op.out_shape):
        _zeros(memory, node, op.out_shape, y)
    for part, numbers in zip(op.parts, op.reads, strict=True):
        _written(memory, node, part, tuple(node.inputs[i] for i in numbers), y)
    return y


def _written(memory: Memory, node: Node, op: Definition, inputs: Sequence[str], y: Located) -> None:
    """Append the stages that write the places of a definition's result."""
    operands = [
        _operand(memory, name, access, op.extents, as_array=op.has_look_ups)
        for name, access in zip(inputs, op.operands, strict=True)
    ]
    if op.has_look_ups:
        _looked_up(memory, node, op, (*operands, y))
        return
    for extents, result, accesses in _forwards(op):
        to = access_of(y.form, _index(result), extents)
        taken = [
            access_of(x.form, _index(access), extents)
            for x, access in zip(operands, accesses, strict=True)
        ]
        if op.gather is None:
            mapping = Mapping(extents, to, tuple(taken), op.body, op.dtype)
            memory.mapped(node.name, "layout" if op.body == "x0" else "elementwise", mapping, y,
                          operands, nodes=(node.name,), flops=op.flops)  # fmt: skip
        else:
            _reduced(memory, node, op, (operands[0], y), (extents, to, taken[0]))


def _looked_up(memory: Memory, node: Node, op: Definition, places: Sequence[Located]) -> None:
    """Append the mapping that reads places from operands; each tensor is a C array."""
    *operands, y = places
    mapping = Mapping(op.extents, op.result, op.operands, op.body, op.dtype)
    memory.mapped(node.name, "layout", mapping, y, operands, nodes=(node.name,), flops=op.flops)


def _operand(
    memory: Memory, name: str, access: Access, extents: Shape, *, as_array: bool
) -> Located:
    """The operand with as many places around it as are reached, or as a C array."""
    form, whole = memory.held[name][0].form, Box.whole(extents)
    if as_array:
        return memory.in_form(name, row_major(access.shape))
    if access.fill is None:
        return memory.in_form(name, unbordered(form))
    spans = [access.span(d, whole) for d in range(len(access.shape))]
    before = [max(0, -low) for low, _ in spans]
    after = [max(0, high - n) for (_, high), n in zip(spans, access.shape, strict=True)]
    if not any((*before, *after)):
        return memory.in_form(name, unbordered(form))
    return memory.in_form(name, bordered(form, before, after), access.fill)


def _index(access: Access) -> tuple[Index, ...]:
    return tuple(zip(access.terms, access.offsets, strict=True))


def _zeros(memory: Memory, node: Node, shape: Shape, y: Located) -> None:
    """Zeros in all places of the result."""
    places = Access(shape, tuple(((d, 1),) for d in range(len(shape))), (0,) * len(shape))
    zeros = Mapping(shape, places, (), "0.0", memory.values[y.value].dtype)
    memory.mapped(f"{node.name}_zeros", "layout", zeros, y, (), nodes=(node.name,))


def _reduced(
    memory: Memory,
    node: Node,
    op: Definition,
    places: tuple[Located, Located],
    loops: tuple[Shape, Access, Access],
) -> None:
    """The gathered axes behind the others."""
    (x, y), (extents, to, source) = places, loops
    order = (*op.kept, *op.gathered)
    number = {a: i for i, a in enumerate(order)}
    result, operand = (
        replace(a, terms=tuple(tuple((number[i], s) for i, s in place) for place in a.terms))
        for a in (to, source)
    )
    assert op.gather is not None
    if op.gather not in _GATHERED:
        raise GraphError(
            f"node {node.name}: no stage gathers by {op.gather!r}",
            fix="a sum of logarithms, or one product after the other",
        )
    function, around = _GATHERED[op.gather]
    found = normalised_reduction(
        Reduction(tuple(extents[a] for a in order), len(op.kept), result, operand, function,
                  around.format(op.body), _finish(op.finish, around), memory.dtype)
    )  # fmt: skip
    arguments = (("x0", x.value), ("y", y.value))
    memory.append(
        Draft(node.name, op.describe(), "window", found, arguments, (node.name,), op.flops)
    )


def _finish(finish: str, around: str) -> str:
    return finish.replace("x0", around.format("x0"))


def _forwards(op: Definition) -> Iterator[tuple[Shape, Access, Sequence[Access]]]:
    """The loops, with accesses whose steps all run forwards: loops that cannot are taken apart."""
    against = {a for x in op.operands for place in x.terms for a, s in place
               if s < 0 and op.extents[a] > 1}  # fmt: skip
    yield from _apart(op.extents, (op.result, *op.operands), sorted(against))


def _apart(
    extents: Shape, accesses: Sequence[Access], axes: Sequence[int]
) -> Iterator[tuple[Shape, Access, Sequence[Access]]]:
    if not axes:
        yield extents, accesses[0], accesses[1:]
        return
    axis, *others = axes
    if extents[axis] > _MOST_STEPS:
        raise GraphError(
            f"a tensor is read backwards along {extents[axis]} places, at most {_MOST_STEPS} are "
            f"copied one by one"
        )
    single = (*extents[:axis], 1, *extents[axis + 1 :])
    for step in range(extents[axis]):
        yield from _apart(single, [_at(x, axis, step) for x in accesses], others)


def _at(access: Access, axis: int, step: int) -> Access:
    """The access at one step of an axis."""
    offsets = tuple(
        offset + sum(s * step for a, s in place if a == axis)
        for place, offset in zip(access.terms, access.offsets, strict=True)
    )
    terms = tuple(tuple((a, s) for a, s in place if a != axis) for place in access.terms)
    return replace(access, terms=terms, offsets=offsets)
