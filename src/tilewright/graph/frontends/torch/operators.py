"""Operators of torch in terms of ONNX's, by the name of the operator without its overload.

A translator takes the reader, the node and its arguments, appends nodes, and returns the name of
the result, or None where the arguments are not handled. What is not here is decomposed by torch
into what is, or refused by its name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from tilewright.graph.frontends.torch.reader import Reader, Result, Translator, shape_of

_UNARY = {
    "abs": "Abs", "acos": "Acos", "asin": "Asin", "atan": "Atan", "ceil": "Ceil", "cos": "Cos",
    "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "hardswish": "HardSwish",
    "isinf": "IsInf", "isnan": "IsNaN", "log": "Log", "logical_not": "Not", "mish": "Mish",
    "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round",
    "sigmoid": "Sigmoid", "sign": "Sign", "silu": "Swish", "sin": "Sin", "sinh": "Sinh",
    "softplus": "Softplus", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
_PAIRS = {
    "add": "Add", "div": "Div", "eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater",
    "le": "LessOrEqual", "lt": "Less", "maximum": "Max", "minimum": "Min", "mul": "Mul",
    "pow": "Pow", "sub": "Sub",
}  # fmt: skip
_TRUTH = {"bitwise_and": "And", "bitwise_not": "Not", "bitwise_or": "Or", "bitwise_xor": "Xor",
          "logical_and": "And", "logical_or": "Or"}  # fmt: skip
_SAME = ("alias", "clone", "contiguous", "detach", "dropout", "lift_fresh_copy", "_to_copy", "to",
         "type_as")  # fmt: skip
_SHAPED = ("view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "_unsafe_view")


def _unary(r: Reader, node: Any, x: Any, *rest: Any, kind: str) -> Result | None:
    """A function without parameters: others have values of their own, which are not read here."""
    asks = kind in ("IsInf", "IsNaN")
    return None if rest else r.onnx(kind, x if asks else r.cast(x, _kind(node)))


def _kind(node: Any) -> torch.dtype:
    found: torch.dtype = node.meta["val"].dtype
    return found


def _value(item: Any) -> Any:
    return item.meta["val"] if isinstance(item, torch.fx.Node) else item


def _pair(
    r: Reader, node: Any, a: Any, b: Any, *, kind: str, alpha: Any = 1, rounding_mode: Any = None
) -> Result | None:
    """Both operands in the type that torch computes in."""
    if rounding_mode is not None:
        return None
    truth = _kind(node) == torch.bool
    own = torch.result_type(_value(a), _value(b)) if truth else _kind(node)
    if own == torch.bool:
        return None
    second = r.cast(b, own) if alpha == 1 else r.onnx("Mul", r.cast(b, own), r.name(alpha, own))
    return r.onnx(kind, r.cast(a, own), second)


def _turned(r: Reader, node: Any, b: Any, a: Any) -> Result | None:
    return _pair(r, node, a, b, kind="Sub")


def _truth(r: Reader, node: Any, *operands: Any, kind: str) -> Result:
    if _kind(node) != torch.bool:
        return r.onnx(f"Bitwise{kind}", *(r.cast(x, _kind(node)) for x in operands))
    return r.onnx(kind, *(r.cast(x, torch.bool) for x in operands))


def _same(r: Reader, node: Any, x: Any, *_: Any, **__: Any) -> Result:
    return r.cast(x, _kind(node))


def _shaped(r: Reader, node: Any, x: Any, *_: Any, **__: Any) -> Result:
    return r.reshape(x, *shape_of(node))


def _expand(r: Reader, node: Any, x: Any, *_: Any, **__: Any) -> Result:
    return r.onnx("Expand", x, list(shape_of(node)))


def _copy(r: Reader, node: Any, to: Any, x: Any, *_: Any) -> Result:
    return r.onnx("Expand", r.cast(x, _kind(node)), list(shape_of(to)))


def _unequal(r: Reader, node: Any, a: Any, b: Any) -> Result | None:
    equal = _pair(r, node, a, b, kind="Equal")
    return equal and r.onnx("Not", equal)


def _permute(r: Reader, node: Any, x: Any, order: Sequence[int]) -> Result:
    rank = len(order)
    return r.onnx("Transpose", x, perm=tuple(axis % rank for axis in order))


def _transpose(r: Reader, node: Any, x: Any, a: int = 0, b: int = 1) -> Result:
    order = list(range(len(shape_of(node))))
    order[a], order[b] = order[b], order[a]
    return _permute(r, node, x, order)


def _slice(
    r: Reader, node: Any, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Result:
    ends = 2**63 - 1 if end is None else end
    return r.onnx("Slice", x, [start or 0], [ends], [dim], [step])


def _select(r: Reader, node: Any, x: Any, dim: int, index: int) -> Result:
    place = index % shape_of(x)[dim]
    return r.reshape(r.onnx("Slice", x, [place], [place + 1], [dim]), *shape_of(node))


def _split(r: Reader, node: Any, x: Any, _: Any, dim: int = 0) -> Result:
    sizes = [int(part.shape[dim]) for part in node.meta["val"]]
    return r.many(len(sizes), "Split", x, sizes, axis=dim % len(shape_of(x)))


def _unbind(r: Reader, node: Any, x: Any, dim: int = 0) -> Result:
    count = shape_of(x)[dim]
    parts = r.many(count, "Split", x, [1] * count, axis=dim % len(shape_of(x)))
    return tuple(r.reshape(part, *node.meta["val"][0].shape) for part in parts)


def _cat(r: Reader, node: Any, parts: Sequence[Any], dim: int = 0) -> Result:
    rank = len(shape_of(node))
    own = [r.cast(p, _kind(node)) for p in parts if math.prod(shape_of(p))]
    return r.onnx("Concat", *own, axis=dim % rank)


def _stack(r: Reader, node: Any, parts: Sequence[Any], dim: int = 0) -> Result:
    shape = list(shape_of(node))
    dim %= len(shape)
    shape[dim] = 1
    own = [r.reshape(r.cast(p, _kind(node)), *shape) for p in parts]
    return r.onnx("Concat", *own, axis=dim)


def _roll(
    r: Reader, node: Any, x: Any, shifts: Sequence[int], dims: Sequence[int] = ()
) -> Result | None:
    """Along each dimension its end before its beginning."""
    if not dims:
        return None
    for shift, dim in zip(shifts, dims, strict=True):
        size = shape_of(node)[dim]
        at = -shift % size
        if at:
            behind = r.onnx("Slice", x, [at], [size], [dim])
            x = r.onnx("Concat", behind, r.onnx("Slice", x, [0], [at], [dim]),
                       axis=dim % len(shape_of(node)))  # fmt: skip
    return r.name(x)


def _index(r: Reader, node: Any, x: Any, indices: Sequence[Any]) -> Result | None:
    """Places along one dimension, or along the first ones."""
    given = [place for place, item in enumerate(indices) if item is not None]
    if any(_value(indices[place]).dtype not in (torch.int64, torch.int32) for place in given):
        return None
    if len(given) == 1:
        return r.onnx("Gather", x, indices[given[0]], axis=given[0])
    if given != list(range(len(given))):
        return None
    shape = torch.broadcast_shapes(*(shape_of(indices[place]) for place in given))
    spread = [
        r.reshape(r.onnx("Expand", indices[place], list(shape)), *shape, 1) for place in given
    ]
    return r.onnx("GatherND", x, r.onnx("Concat", *spread, axis=len(shape)))


def _embedding(r: Reader, node: Any, table: Any, ids: Any, *_: Any) -> Result:
    return r.onnx("Gather", table, ids, axis=0)


def _gather(r: Reader, node: Any, x: Any, dim: int, index: Any) -> Result:
    return r.onnx("GatherElements", x, index, axis=dim)


def _index_select(r: Reader, node: Any, x: Any, dim: int, index: Any) -> Result:
    return r.onnx("Gather", x, index, axis=dim)


def _cumsum(r: Reader, node: Any, x: Any, dim: int, **_: Any) -> Result:
    return r.onnx("CumSum", r.cast(x, _kind(node)), np.int64(dim))


def _linear(r: Reader, node: Any, x: Any, weight: Any, bias: Any = None) -> Result:
    if len(shape_of(x)) == 2:
        return r.onnx("Gemm", x, weight, bias, transB=1)
    turned = r.known[weight].T if weight in r.known else r.onnx("Transpose", weight, perm=(1, 0))
    product = r.onnx("MatMul", x, turned)
    return product if bias is None else r.onnx("Add", product, bias)


def _addmm(
    r: Reader, node: Any, bias: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1
) -> Result:
    return r.onnx("Gemm", a, b, bias, alpha=float(alpha), beta=float(beta))


def _matmul(r: Reader, node: Any, a: Any, b: Any) -> Result:
    return r.onnx("MatMul", a, b)


def _attention(
    r: Reader, node: Any, q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0,
    causal: bool = False, *, scale: Any = None, enable_gqa: bool = False,
) -> Result:  # fmt: skip
    """Scores of queries and keys, a mask, soft maxima, and the values that these weigh."""
    *heads, rows, size = shape_of(q)
    columns, own = shape_of(k)[-2], _kind(node)
    keys, values = r.name(k), r.name(v)
    if enable_gqa and shape_of(k)[-3] != heads[-1]:
        keys, values = (_repeated(r, x, heads[-1]) for x in (k, v))
    order = (*range(len(heads)), len(heads) + 1, len(heads))
    by = r.name(size**-0.5 if scale is None else float(scale), own)
    scores = r.onnx("MatMul", r.onnx("Mul", q, by), r.onnx("Transpose", keys, perm=order))
    if causal:
        mask = torch.ones(rows, columns, dtype=torch.bool).tril()
    if mask is not None and _value(mask).dtype == torch.bool:
        scores = r.onnx("Where", mask, scores, r.name(-math.inf, own))
    elif mask is not None:
        scores = r.onnx("Add", scores, mask)
    return r.onnx("MatMul", r.onnx("Softmax", scores, axis=len(heads) + 1), values)


def _repeated(r: Reader, x: Any, count: int) -> str:
    """Heads of keys or values for as many of queries."""
    *batch, heads, rows, size = shape_of(x)
    apart = r.reshape(x, *batch, heads, 1, rows, size)
    spread = r.onnx("Expand", apart, [*batch, heads, count // heads, rows, size])
    return r.reshape(spread, *batch, count, rows, size)


def _softmax(r: Reader, node: Any, x: Any, dim: int, *_: Any, kind: str, **__: Any) -> Result:
    return r.onnx(kind, r.cast(x, _kind(node)), axis=dim)


def _layer_norm(
    r: Reader, node: Any, x: Any, sizes: Sequence[int], weight: Any = None, bias: Any = None,
    eps: float = 1e-5, *_: Any,
) -> Result:  # fmt: skip
    scale = torch.ones(list(sizes), dtype=_kind(node)) if weight is None else weight
    return r.onnx("LayerNormalization", x, scale, bias, axis=-len(sizes), epsilon=eps)


def _rms_norm(
    r: Reader, node: Any, x: Any, sizes: Sequence[int], weight: Any = None, eps: Any = None
) -> Result:
    own = torch.finfo(_kind(node)).eps if eps is None else eps
    scale = torch.ones(list(sizes), dtype=_kind(node)) if weight is None else weight
    return r.onnx("RMSNormalization", x, scale, axis=-len(sizes), epsilon=own)


def _group_norm(
    r: Reader, node: Any, x: Any, groups: int, weight: Any = None, bias: Any = None,
    eps: float = 1e-5, *_: Any,
) -> Result:  # fmt: skip
    channels = shape_of(x)[1]
    scale = torch.ones(channels, dtype=_kind(node)) if weight is None else weight
    offset = torch.zeros(channels, dtype=_kind(node)) if bias is None else bias
    return r.onnx("GroupNormalization", x, scale, offset, num_groups=groups, epsilon=eps)


def _batch_norm(
    r: Reader, node: Any, x: Any, weight: Any, bias: Any, mean: Any, variance: Any,
    momentum: float, eps: float,
) -> Result:  # fmt: skip
    """The first of three results: the others belong to training."""
    channels, own = shape_of(x)[1], node.meta["val"][0].dtype
    scale = torch.ones(channels, dtype=own) if weight is None else weight
    offset = torch.zeros(channels, dtype=own) if bias is None else bias
    return (r.onnx("BatchNormalization", x, scale, offset, mean, variance, epsilon=eps),)


def _convolution(
    r: Reader, node: Any, x: Any, weight: Any, bias: Any, strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int], transposed: bool, more: Sequence[int],
    groups: int,
) -> Result:  # fmt: skip
    rank = len(shape_of(x)) - 2
    strides, pads, dilations = (_each(v, rank) for v in (strides, pads, dilations))
    window = {"strides": strides, "dilations": dilations, "group": groups, "pads": pads * 2}
    if transposed:
        return r.onnx("ConvTranspose", x, weight, bias, output_padding=_each(more, rank), **window)
    return r.onnx("Conv", x, weight, bias, **window)


def _each(value: Any, rank: int) -> tuple[int, ...]:
    """A number for each dimension of a window."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * rank if len(numbers) == 1 else numbers


def _max_pool(
    r: Reader, node: Any, x: Any, size: Any, stride: Any = (), pads: Any = 0, dilation: Any = 1,
    ceil: bool = False,
) -> Result:  # fmt: skip
    rank = len(_each(size, len(shape_of(x)) - 2))
    window = {"strides": _each(stride or size, rank), "dilations": _each(dilation, rank)}
    return r.onnx("MaxPool", x, kernel_shape=_each(size, rank), pads=_each(pads, rank) * 2,
                  ceil_mode=int(ceil), **window)  # fmt: skip


def _average_pool(
    r: Reader, node: Any, x: Any, size: Any, stride: Any = (), pads: Any = 0, ceil: bool = False,
    padded: bool = True, divisor: Any = None,
) -> Result | None:  # fmt: skip
    rank = len(shape_of(x)) - 2
    if divisor is not None:
        return None
    return r.onnx("AveragePool", x, kernel_shape=_each(size, rank), pads=_each(pads, rank) * 2,
                  strides=_each(stride or size, rank), ceil_mode=int(ceil),
                  count_include_pad=int(padded))  # fmt: skip


def _adaptive_pool(r: Reader, node: Any, x: Any, *_: Any) -> Result | None:
    """Windows of one size, where the extents are multiples."""
    own, wanted = shape_of(x)[2:], shape_of(node)[2:]
    if any(a % b for a, b in zip(own, wanted, strict=True)):
        return None
    sizes = tuple(a // b for a, b in zip(own, wanted, strict=True))
    if set(wanted) == {1}:
        return r.onnx("GlobalAveragePool", x)
    return r.onnx("AveragePool", x, kernel_shape=sizes, strides=sizes)


def _resize(
    r: Reader, node: Any, x: Any, _: Any, align: Any = False, *__: Any, mode: str
) -> Result:
    if mode == "nearest":
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        pixels = "align_corners" if align is True else "half_pixel"
        how = {"coordinate_transformation_mode": pixels}
    return r.onnx("Resize", x, None, None, list(shape_of(node)), mode=mode, **how)


def _pad(
    r: Reader, node: Any, x: Any, pads: Sequence[int], mode: Any = "constant", value: Any = None
) -> Result:
    """Pads come from the last dimension on, before and behind it."""
    if not isinstance(mode, str):
        mode, value = "constant", mode
    name = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    rank, count = len(shape_of(x)), len(pads) // 2
    numbers = [0] * (2 * rank)
    for place in range(count):
        numbers[rank - 1 - place] = pads[2 * place]
        numbers[2 * rank - 1 - place] = pads[2 * place + 1]
    return r.onnx("Pad", x, numbers, r.name(value or 0, _kind(node)), mode=name)


def _reduced(
    r: Reader, node: Any, x: Any, dims: Any = None, keep: bool = False, *_: Any, kind: str,
    dtype: Any = None,
) -> Result:  # fmt: skip
    rank = len(shape_of(x))
    axes = [dims] if isinstance(dims, int) else list(dims or range(rank))
    return r.onnx(kind, r.cast(x, _kind(node)), axes, keepdims=int(keep))


def _where(r: Reader, node: Any, test: Any, a: Any, b: Any) -> Result:
    return r.onnx("Where", test, r.cast(a, _kind(node)), r.cast(b, _kind(node)))


def _masked_fill(r: Reader, node: Any, x: Any, mask: Any, value: Any) -> Result:
    return _where(r, node, mask, value, x)


def _clamp(r: Reader, node: Any, x: Any, low: Any = None, high: Any = None) -> Result:
    ends = (None if end is None else r.cast(end, _kind(node)) for end in (low, high))
    return r.onnx("Clip", r.cast(x, _kind(node)), *ends)


def _hardtanh(r: Reader, node: Any, x: Any, low: float = -1.0, high: float = 1.0) -> Result:
    return _clamp(r, node, x, low, high)


def _gelu(r: Reader, node: Any, x: Any, *, approximate: str = "none") -> Result:
    return r.onnx("Gelu", x, approximate=approximate)


def _hard_sigmoid(r: Reader, node: Any, x: Any) -> Result:
    return r.onnx("HardSigmoid", x, alpha=1 / 6, beta=0.5)


def _leaky(r: Reader, node: Any, x: Any, alpha: float = 0.01) -> Result:
    return r.onnx("LeakyRelu", x, alpha=float(alpha))


def _elu(r: Reader, node: Any, x: Any, alpha: float = 1.0, *rest: Any) -> Result | None:
    return None if rest else r.onnx("Elu", x, alpha=float(alpha))


def _rsqrt(r: Reader, node: Any, x: Any) -> Result:
    return r.onnx("Reciprocal", r.onnx("Sqrt", r.cast(x, _kind(node))))


def _lstm(
    r: Reader, node: Any, x: Any, states: Sequence[Any], weights: Sequence[Any], biased: bool,
    layers: int, dropout: float, training: bool, both: bool, batch_first: bool,
) -> Result | None:  # fmt: skip
    """Layer by layer; torch's gates are i, f, g, o, those of ONNX i, o, f, c."""
    ways, each = 1 + both, 4 if biased else 2
    if len(weights) != layers * ways * each or not all(w in r.known for w in weights):
        return None
    numbers = [_gates(r.known[w]) for w in weights]
    x = r.onnx("Transpose", x, perm=(1, 0, 2)) if batch_first else r.name(x)
    steps, batch = [int(n) for n in node.args[0].meta["val"].shape[:2]][:: -1 if batch_first else 1]
    size, ends = numbers[1].shape[1], []
    for layer in range(layers):
        own = numbers[layer * ways * each : (layer + 1) * ways * each]
        parts = [torch.stack(own[place::each]) for place in range(each)]
        bias = torch.cat(parts[2:], 1) if biased else None
        first = [r.onnx("Slice", s, [layer * ways], [(layer + 1) * ways], [0]) for s in states]
        direction = "bidirectional" if both else "forward"
        y, *last = r.many(3, "LSTM", x, *parts[:2], bias, None, *first, hidden_size=size,
                          direction=direction)  # fmt: skip
        turned = r.onnx("Transpose", y, perm=(0, 2, 1, 3))
        x = r.reshape(turned, steps, batch, ways * size)
        ends.append(last)
    x = r.onnx("Transpose", x, perm=(1, 0, 2)) if batch_first else x
    return x, *(r.onnx("Concat", *own, axis=0) for own in zip(*ends, strict=True))


def _gates(weight: Any) -> Any:
    i, f, g, o = weight.chunk(4)
    return torch.cat((i, o, f, g))


OPERATORS: dict[str, Translator] = {
    **{name: partial(_unary, kind=kind) for name, kind in _UNARY.items()},
    **{name: partial(_pair, kind=kind) for name, kind in _PAIRS.items()},
    **{name: partial(_truth, kind=kind) for name, kind in _TRUTH.items()},
    **dict.fromkeys(_SAME, _same), **dict.fromkeys(_SHAPED, _shaped),
    **{name: partial(_reduced, kind=kind) for name, kind in (
        ("mean", "ReduceMean"), ("sum", "ReduceSum"), ("amax", "ReduceMax"), ("amin", "ReduceMin"),
        ("prod", "ReduceProd"))},
    **{f"upsample_{name}": partial(_resize, mode=mode) for name, mode in (
        ("nearest2d", "nearest"), ("bilinear2d", "linear"), ("nearest1d", "nearest"))},
    "rsub": _turned, "copy": _copy, "ne": _unequal,
    "rsqrt": _rsqrt, "expand": _expand, "permute": _permute,
    "transpose": _transpose, "t": _transpose, "slice": _slice, "select": _select,
    "split": _split, "split_with_sizes": _split, "chunk": _split, "unbind": _unbind, "cat": _cat,
    "stack": _stack, "roll": _roll, "index": _index, "embedding": _embedding, "gather": _gather,
    "index_select": _index_select, "cumsum": _cumsum, "linear": _linear, "addmm": _addmm,
    "mm": _matmul, "bmm": _matmul, "matmul": _matmul,
    "scaled_dot_product_attention": _attention, "layer_norm": _layer_norm, "rms_norm": _rms_norm,
    "group_norm": _group_norm, "_native_batch_norm_legit_no_training": _batch_norm,
    "convolution": _convolution,
    "softmax": partial(_softmax, kind="Softmax"), "_softmax": partial(_softmax, kind="Softmax"),
    "log_softmax": partial(_softmax, kind="LogSoftmax"),
    "_log_softmax": partial(_softmax, kind="LogSoftmax"),
    "max_pool1d": _max_pool, "max_pool2d": _max_pool, "avg_pool1d": _average_pool,
    "avg_pool2d": _average_pool, "adaptive_avg_pool1d": _adaptive_pool,
    "adaptive_avg_pool2d": _adaptive_pool, "pad": _pad, "constant_pad_nd": _pad, "where": _where,
    "masked_fill": _masked_fill, "clamp": _clamp, "hardtanh": _hardtanh,
    "gelu": _gelu, "hardsigmoid": _hard_sigmoid, "leaky_relu": _leaky, "elu": _elu, "lstm": _lstm,
}  # fmt: skip
"""By the name of torch's operator."""
