"""Operators that gather elements: pooling, reductions, softmax and local response as stages.

In: the operator and what the plan has so far. Out: drafts, appended: reductions over windows or
rows of tensors as they lie, and the elementwise work around them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from tilewright.graph.graph import Node
from tilewright.ir.primitives.maps import Gathering
from tilewright.network.access import Index, access_of, normalised_reduction, plain
from tilewright.network.memory import (
    Draft,
    Located,
    Memory,
    bordered,
    in_order,
    unbordered,
    without_axis,
)
from tilewright.ops import LocalResponseNorm, Pool2d, Reduce, Softmax
from tilewright.ops.mapping import Reduction

_ROWS, _COLUMNS = 2, 3


def pool(memory: Memory, node: Node, op: Pool2d) -> Located:
    """Windows of images; what an average counts differs at a border that is not counted."""
    (name,) = node.inputs
    filled = -inf if op.reduction == "max" else 0.0
    form = memory.held[name][0].form
    _, _, rows, columns = op.out_shape
    before, after = [0, 0, 0, 0], [0, 0, 0, 0]
    for axis, count in ((_ROWS, rows), (_COLUMNS, columns)):
        i = axis - _ROWS
        before[axis] = op.padding[i]
        reach = (count - 1) * op.stride[i] + op.kernel[i] - op.padding[i]
        after[axis] = max(0, reach - form.shape[axis])
    x = memory.in_form(name, bordered(form, before, after), filled)
    y = memory.value(node.output, in_order(op.out_shape, [d.axis for d in x.form.dims]))
    loops = _pool_loops(op)
    if op.reduction == "max":
        _reduce(memory, node, (x, y), loops, "max")
        return y
    counts = op.counts()
    if (counts == counts.flat[0]).all():
        finish = f"x0 / {float(counts.flat[0])!r}"
        _reduce(memory, node, (x, y), loops, "sum", finish=finish)
        return y
    total = memory.value(f"{node.output}_sum", y.form)
    _reduce(memory, node, (x, total), loops, "sum")
    divisors = memory.numbers(f"{node.name}_counts", counts.astype(float), (_ROWS, _COLUMNS))
    memory.map(node.name, "elementwise", "x0 / x1", y, (total, divisors), nodes=(node.name,))
    return y


def _pool_loops(op: Pool2d) -> _Loops:
    """One for each axis of the result, then the taps."""
    windows: tuple[Index, ...] = (
        (((2, op.stride[0]), (4, 1)), -op.padding[0]),
        (((3, op.stride[1]), (5, 1)), -op.padding[1]),
    )
    return _Loops((*op.out_shape, *op.kernel), 4, (*plain(2), *windows), plain(4))


def softmax(memory: Memory, node: Node, op: Softmax) -> Located:
    """Largest, powers, sum, quotient."""
    x = memory.in_form(node.inputs[0], unbordered(memory.held[node.inputs[0]][0].form))
    single = without_axis(x.form, op.axis)
    largest, total = (memory.value(f"{node.output}_{n}", single) for n in ("largest", "sum"))
    powers, y = (memory.value(n, x.form) for n in (f"{node.output}_powers", node.output))
    rank = len(op.shape)
    others = [axis for axis in range(rank) if axis != op.axis]
    extents = (*(op.shape[a] for a in others), op.shape[op.axis])
    loops = {axis: i for i, axis in enumerate((*others, op.axis))}
    index: tuple[Index, ...] = tuple((((loops[a], 1),), 0) for a in range(rank))
    single_index = tuple(((), 0) if a == op.axis else index[a] for a in range(rank))
    rows = _Loops(extents, rank - 1, index, single_index)
    of = f" of {op.describe()}"
    _reduce(memory, node, (x, largest), rows, "max", label=f"largest{of}")
    memory.map(
        node.name,
        "elementwise",
        "exp(x0 - x1)",
        powers,
        (x, largest),
        nodes=(node.name,),
        label=f"powers{of}",
    )
    _reduce(memory, node, (powers, total), rows, "sum", label=f"sum{of}")
    memory.map(
        node.name,
        "elementwise",
        "x0 / x1",
        y,
        (powers, total),
        nodes=(node.name,),
        label=f"quotient{of}",
        flops=2 * prod(op.shape),
    )
    return y


def reduced(memory: Memory, node: Node, op: Reduce) -> Located:
    """The axes as loops that gather."""
    x = memory.in_form(node.inputs[0], unbordered(memory.held[node.inputs[0]][0].form))
    y = memory.value(node.output, in_order(op.out_shape, [d.axis for d in x.form.dims]))
    rank = len(op.shape)
    others = [axis for axis in range(rank) if axis not in op.axes]
    ordered = (*others, *op.axes)
    loops = {axis: i for i, axis in enumerate(ordered)}
    index: tuple[Index, ...] = tuple((((loops[a], 1),), 0) for a in range(rank))
    kept_index = tuple(((), 0) if a in op.axes else index[a] for a in range(rank))
    extents = tuple(op.shape[axis] for axis in ordered)
    rows = _Loops(extents, len(others), index, kept_index)
    count = prod(op.shape[axis] for axis in op.axes)
    match op.function:
        case "min":
            _reduce(memory, node, (x, y), rows, "max", expression="-x0", finish="-x0")
        case "max":
            _reduce(memory, node, (x, y), rows, "max")
        case "mean":
            _reduce(memory, node, (x, y), rows, "sum", finish=f"x0 / {float(count)!r}")
        case _:
            _reduce(memory, node, (x, y), rows, "sum")
    return y


def local_response(memory: Memory, node: Node, op: LocalResponseNorm) -> Located:
    """The sum of squares over neighbouring channels, then the power."""
    (name,) = node.inputs
    form = memory.held[name][0].form
    first = (op.size - 1) // 2
    before = tuple(first if axis == 1 else 0 for axis in range(len(op.shape)))
    after = tuple(op.size - 1 - first if axis == 1 else 0 for axis in range(len(op.shape)))
    x = memory.in_form(name, bordered(form, before, after))
    squares = memory.value(f"{node.output}_squares", unbordered(x.form))
    rank = len(op.shape)
    index = tuple(
        (((axis, 1), (rank, 1)), -first) if axis == 1 else (((axis, 1),), 0) for axis in range(rank)
    )
    rows = _Loops((*op.shape, op.size), rank, index, plain(rank))
    _reduce(memory, node, (x, squares), rows, "sum", expression="x0 * x0")
    y = memory.value(node.output, squares.form)
    scale = op.alpha / op.size
    expression = f"x0 / pow({op.bias!r} + {scale!r} * x1, {op.beta!r})"
    operands = (memory.held[name][0], squares)
    memory.map(
        node.name,
        "elementwise",
        expression,
        y,
        operands,
        nodes=(node.name,),
        flops=4 * prod(op.shape),
    )
    return y


@dataclass(frozen=True)
class _Loops:
    """Loops of which the first `kept` are the result's, and the index of an element of the operand
    and of the result along each of their axes.
    """

    extents: tuple[int, ...]
    kept: int
    operand: tuple[Index, ...]
    result: tuple[Index, ...]


def _reduce(
    memory: Memory,
    node: Node,
    places: tuple[Located, Located],
    loops: _Loops,
    function: Gathering,
    *,
    expression: str = "x0",
    finish: str = "x0",
    label: str = "",
) -> None:
    """Append a reduction of the first place into the second."""
    x, y = places
    op = Reduction(
        loops.extents,
        loops.kept,
        access_of(y.form, loops.result, loops.extents),
        access_of(x.form, loops.operand, loops.extents),
        function,
        expression,
        finish,
        memory.dtype,
    )
    found, label = normalised_reduction(op), label or node.op.describe()
    arguments = (("x0", x.value), ("y", y.value))
    memory.append(Draft(node.name, label, "window", found, arguments, (node.name,), found.flops))
