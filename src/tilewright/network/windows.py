"""Operators that gather elements: pooling, reductions, softmax and local response as stages.

In: the operator and what the plan has so far. Out: drafts, appended: reductions over windows or
rows of tensors as they lie, and the elementwise work around them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, prod

from tilewright.graph.graph import Node
from tilewright.ir.primitives.maps import Gathering
from tilewright.network.access import Index, access_of, normalised_reduction, plain
from tilewright.network.memory import (
    Draft,
    Located,
    Memory,
    in_order,
    unbordered,
    without_axis,
)
from tilewright.ops import LocalResponseNorm, Pool2d, Reduce, Softmax
from tilewright.ops.mapping import Reduction

_ROWS, _COLUMNS = 2, 3


def pool(memory: Memory, node: Node, op: Pool2d) -> Located:
    """Pooling over windows; averages without padding are divided by their own counts at borders."""
    (name,) = node.inputs
    filled = -inf if op.reduction == "max" else 0.0
    shape = op.input_shapes[0]
    _, _, rows, columns = op.out_shape
    before, after = [0, 0, 0, 0], [0, 0, 0, 0]
    for axis, count in ((_ROWS, rows), (_COLUMNS, columns)):
        i = axis - _ROWS
        before[axis] = op.padding[i]
        reach = (count - 1) * op.stride[i] + op.kernel[i] - op.padding[i]
        after[axis] = max(0, reach - shape[axis])
    x, beyond = memory.around(name, before, after, filled)
    y = memory.result(node.output, in_order(op.out_shape, [d.axis for d in x.form.dims]))
    loops = _pool_loops(op, beyond)
    if op.reduction == "max":
        _reduce(memory, node, (x, y), loops, "max")
        return y
    counts = op.counts()
    if (counts == counts.flat[0]).all():
        finish = f"x0 / {float(counts.flat[0])!r}"
        _reduce(memory, node, (x, y), loops, "sum", finish=finish)
        return y
    total = memory.value(f"{node.output}_sum", unbordered(y.form))
    _reduce(memory, node, (x, total), loops, "sum")
    divisors = memory.numbers(f"{node.name}_counts", counts.astype(float), (_ROWS, _COLUMNS))
    memory.map(node.name, "elementwise", "x0 / x1", y, (total, divisors), nodes=(node.name,))
    return y


def _pool_loops(op: Pool2d, beyond: float | None) -> _Loops:
    """One for each axis of the result, then the taps."""
    windows: tuple[Index, ...] = (
        (((2, op.stride[0]), (4, 1)), -op.padding[0]),
        (((3, op.stride[1]), (5, 1)), -op.padding[1]),
    )
    return _Loops((*op.out_shape, *op.kernel), 4, (*plain(2), *windows), plain(4), beyond)


def softmax(memory: Memory, node: Node, op: Softmax) -> Located:
    """Largest, powers, sum, quotient."""
    x = memory.source(node.inputs[0])
    single, whole = without_axis(x.form, op.axis), unbordered(x.form)
    largest, total = (memory.value(f"{node.output}_{n}", single) for n in ("largest", "sum"))
    powers, y = (memory.value(n, whole) for n in (f"{node.output}_powers", node.output))
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
    x = memory.source(node.inputs[0])
    y = memory.result(node.output, in_order(op.out_shape, [d.axis for d in x.form.dims]))
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
    first = (op.size - 1) // 2
    before = tuple(first if axis == 1 else 0 for axis in range(len(op.shape)))
    after = tuple(op.size - 1 - first if axis == 1 else 0 for axis in range(len(op.shape)))
    x, beyond = memory.around(name, before, after, 0.0)
    squares = memory.value(f"{node.output}_squares", unbordered(x.form))
    rank = len(op.shape)
    index = tuple(
        (((axis, 1), (rank, 1)), -first) if axis == 1 else (((axis, 1),), 0) for axis in range(rank)
    )
    rows = _Loops((*op.shape, op.size), rank, index, plain(rank), beyond)
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
    and of the result along each of their axes; the operand reads `beyond` around its elements.
    """

    extents: tuple[int, ...]
    kept: int
    operand: tuple[Index, ...]
    result: tuple[Index, ...]
    beyond: float | None = None


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
        replace(access_of(x.form, loops.operand, loops.extents), fill=loops.beyond),
        function,
        expression,
        finish,
        memory.dtype,
    )
    found, label = normalised_reduction(op), label or node.op.describe()
    arguments = (("x0", x.value), ("y", y.value))
    memory.append(Draft(node.name, label, "window", found, arguments, (node.name,), found.flops))
