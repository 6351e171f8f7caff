"""ONNX's reductions along axes, and operators on whole rows: normalisation, softmax variants,
cumulative sums, arg max.

Each is a sequence of definitions: gathers over a row, then maps over the row and their results.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import Importer, converting
from tilewright.ops import Reduce, global_average_pool2d
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition, Gather
from tilewright.ops.op import Op

_REDUCTIONS: dict[str, tuple[str, str, str]] = {
    "ReduceL1": ("sum", "abs(x0)", "x0"), "ReduceL2": ("sum", "x0 * x0", "sqrt(x0)"),
    "ReduceLogSum": ("sum", "x0", "log(x0)"), "ReduceMax": ("max", "x0", "x0"),
    "ReduceMean": ("mean", "x0", "x0"), "ReduceMin": ("min", "x0", "x0"),
    "ReduceProd": ("prod", "x0", "x0"), "ReduceSum": ("sum", "x0", "x0"),
    "ReduceSumSquare": ("sum", "x0 * x0", "x0"),
}  # fmt: skip
"""The gather, the expression over each element, and the expression over the gathered value."""


_GATHERS: dict[str, Gather] = {
    "sum": "sum", "mean": "sum", "max": "max", "min": "min", "prod": "prod",
}  # fmt: skip


def _axes(at: Importer) -> tuple[int, ...]:
    """The node's axes, sorted; all if it has none."""
    return tuple(sorted({at.axis(axis) for axis in at.axes() or range(len(at.shape(0)))}))


def _reduce(at: Importer, *, function: str, body: str, finish: str) -> None:
    """A reduction as a named operator on floats if there is one, else as a definition."""
    x, shape, axes = at.operand(0), at.shape(0), _axes(at)
    if at.node.flag("noop_with_empty_axes") and not at.axes():
        at.map(finish.replace("x0", f"({body})"), x)
    elif not at.is_float or function == "prod" or (body, finish) != ("x0", "x0"):
        extents = tuple(1 if a in axes else n for a, n in enumerate(shape))
        terms = tuple(() if a in axes else ((a, 1),) for a in range(len(shape)))
        y, types = Access(extents, terms, (0,) * len(shape)), at.dtype
        if function == "mean":
            finish, types = f"x0 / {prod(shape[a] for a in axes)}.0", f"{types}:f64:{types}"
        gather = _GATHERS[function]
        _reduced(at, axes, Definition(shape, y, (straight(shape),), body, gather, finish, types), x)
    elif function == "mean" and len(shape) == 4 and axes == (2, 3):
        _reduced(at, axes, global_average_pool2d(shape, dtype=at.dtype), x)
    else:
        _reduced(at, axes, Reduce(function, shape, axes, at.dtype), x)


def _reduced(at: Importer, axes: Sequence[int], op: Op, *names: str) -> None:
    """Append a reduction's result, with its axes of one element kept or dropped."""
    if at.node.flag("keepdims"):
        at.emit(op, *names)
    else:
        rest = tuple(n for axis, n in enumerate(at.shape(0)) if axis not in axes)
        at.reshape(at.step(op, *names), rest)


def _log_sum_exp(at: Importer) -> None:
    """The maximum, plus the logarithm of the sum of exponentials relative to it."""
    x, axes = at.operand(0), _axes(at)
    largest = _of_rows(at, "max", x, axes)
    total = _of_rows(at, "sum", at.each("exp(x0 - x1)", x, largest), axes)
    _reduced(at, axes, at.mapped("x1 + log(x0)", total, largest), total, largest)


def _of_rows(at: Importer, function: str, x: str, axes: Sequence[int]) -> str:
    """A reduction along axes that keeps them with one element."""
    op = Reduce(function, at.builder.shape(x), tuple(axes), at.dtype)
    return at.step(op, x, suffix=f"_{function}")


def _scale_and_bias(at: Importer, rank: int) -> tuple[str, str]:
    """The second and third operand, with trailing extents of 1 so that they match the channels."""
    names = at.operand(1), at.operand(2)
    wide = ((*at.builder.shape(n), *(1,) * (rank - 1 - len(at.builder.shape(n)))) for n in names)
    scale, bias = (at.reshaped(n, shape) for n, shape in zip(names, wide, strict=True))
    return scale, bias


def _standardised(at: Importer, x: str, axes: Sequence[int]) -> tuple[str, str, str]:
    """Standardised rows, their means, and the reciprocals of their standard deviations."""
    mean = _of_rows(at, "mean", x, axes)
    centred = at.each("x0 - x1", x, mean)
    variance = _of_rows(at, "mean", at.each("x0 * x0", centred), axes)
    inverse = at.each(f"1 / sqrt(x0 + {at.node.number('epsilon')!r})", variance)
    return at.each("x0 * x1", centred, inverse), mean, inverse


def _layer_norm(at: Importer) -> None:
    rows, mean, inverse = _standardised(at, at.operand(0), range(at.axis(), len(at.shape(0))))
    at.map("x0 * x1 + x2" if at.node.has_input(2) else "x0 * x1", rows, *at.operands()[1:])
    for output, name in zip(at.node.outputs[1:], (mean, inverse), strict=False):
        if output:
            at.give(output, at.mapped("x0", name), name, suffix="_kept")


def _rms_norm(at: Importer) -> None:
    x, axes = at.operand(0), range(at.axis(), len(at.shape(0)))
    mean = _of_rows(at, "mean", at.each("x0 * x0", x), axes)
    at.map(f"x0 / sqrt(x1 + {at.node.number('epsilon')!r}) * x2", x, mean, at.operand(1))


def _instance_norm(at: Importer) -> None:
    rank = len(at.shape(0))
    rows, *_ = _standardised(at, at.operand(0), range(2, rank))
    at.map("x0 * x1 + x2", rows, *_scale_and_bias(at, rank))


def _group_norm(at: Importer) -> None:
    """GroupNormalization; scale and bias are per channel, before version 21 per group."""
    shape, groups = at.shape(0), at.node.integer("num_groups")
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise at.wrong(f"{groups} groups do not divide the channels of {shape}")
    cut = (shape[0], groups, shape[1] // groups, *shape[2:])
    rows, *_ = _standardised(at, at.reshaped(at.operand(0), cut), range(2, len(cut)))
    if at.node.version < 21:
        rows = at.each("x0 * x1 + x2", rows, *_scale_and_bias(at, len(cut)))
        at.reshape(rows, shape)
    else:
        at.map("x0 * x1 + x2", at.reshaped(rows, shape), *_scale_and_bias(at, len(shape)))


def _mean_variance(at: Importer) -> None:
    x, axes = at.operand(0), [at.axis(axis) for axis in at.node.integers("axes")]
    centred = at.each("x0 - x1", x, _of_rows(at, "mean", x, axes))
    variance = _of_rows(at, "mean", at.each("x0 * x0", centred), axes)
    at.map("x0 / (sqrt(x1) + 1e-9)", centred, variance)


def _lp_norm(at: Importer) -> None:
    x, single = at.operand(0), at.node.integer("p") == 1
    each = at.each("abs(x0)" if single else "x0 * x0", x)
    total = _of_rows(at, "sum", each, (at.axis(),))
    at.map(f"0 if x1 == 0 else x0 / {'x1' if single else 'sqrt(x1)'}", x, total)


def _log_softmax(at: Importer) -> None:
    """LogSoftmax; up to operator set 12 a row covers all axes from the given one on."""
    x, first = at.operand(0), at.axis()
    axes = (first,) if at.node.version >= 13 else range(first, len(at.shape(0)))
    less = at.each("x0 - x1", x, _of_rows(at, "max", x, axes))
    at.map("x0 - log(x1)", less, _of_rows(at, "sum", at.each("exp(x0)", less), axes))


def _hardmax(at: Importer) -> None:
    first = _argument(at, at.axis(), "max", last=False)
    at.map("1 if x0 == x1 else 0", _along(at, at.axis()), first)


def _along(at: Importer, axis: int) -> str:
    """The indices of an axis as a constant that broadcasts to the shape."""
    shape = tuple(n if d == axis else 1 for d, n in enumerate(at.shape(0)))
    return at.held("places", at.numbered(shape[axis]).astype(float).reshape(shape))


def _argument(at: Importer, axis: int, function: str, *, last: bool) -> str:
    """The first or last index of each row's extreme element, as floats."""
    x, beyond = at.operand(0), -1 if last else at.shape(0)[axis]
    operands = x, _of_rows(at, function, x, (axis,)), _along(at, axis)
    hits = at.each(f"x2 if x0 == x1 else {beyond}", *operands)
    return _of_rows(at, "max" if last else "min", hits, (axis,))


def _arg(at: Importer, *, function: str) -> None:
    found = _argument(at, at.axis(), function, last=at.node.flag("select_last_index"))
    op = converting(at.builder.shape(found), at.dtype, "i64")
    _reduced(at, (at.axis(),), op, found)


def _running(at: Importer, *, gather: Gather) -> None:
    """CumSum or CumProd: a window that ends at each element, with a neutral fill."""
    x, shape, axis = at.operand(0), at.shape(0), at.axis(at.scalar(1))
    size, rank, apart = shape[axis], len(shape), at.node.flag("exclusive")
    neutral = 0.0 if gather == "sum" else 1.0
    if size == 1 and apart:
        at.map(f"0 * x0 + {neutral!r}", x)
        return
    terms = tuple(((d, 1), (rank, 1)) if d == axis else ((d, 1),) for d in range(rank))
    first = int(apart) if at.node.flag("reverse") else 1 - size
    window = Access(shape, terms, tuple(first * (d == axis) for d in range(rank)), neutral)
    y = straight(shape, tuple(range(rank)))
    at.emit(Definition((*shape, size - apart), y, (window,), "x0", gather, "x0", at.dtype), x)


READ = (
    *(
        Operator(
            kind, partial(_reduce, function=gather, body=body, finish=finish), "number",
            known="axes",
        )
        for kind, (gather, body, finish) in _REDUCTIONS.items()
    ),
    Operator("ArgMax", partial(_arg, function="max")),
    Operator("ArgMin", partial(_arg, function="min")),
    Operator("CumProd", partial(_running, gather="prod"), "number", known="axis"),
    Operator("CumSum", partial(_running, gather="sum"), "number", known="axis"),
    Operator("GroupNormalization", _group_norm),
    Operator("Hardmax", _hardmax),
    Operator("InstanceNormalization", _instance_norm),
    Operator("LayerNormalization", _layer_norm, many=True),
    Operator("LogSoftmax", _log_softmax),
    Operator("LpNormalization", _lp_norm, only={"p": (1, 2)}),
    Operator("MeanVarianceNormalization", _mean_variance),
    Operator("ReduceLogSumExp", _log_sum_exp, "number", known="axes"),
    Operator("RMSNormalization", _rms_norm),
)  # fmt: skip
