"""Operators of torch in terms of ONNX's, by the name of the operator without its overload.

A translator takes the reader, at its node, and the node's arguments, appends nodes, and returns the
name of the result, or None where the arguments are not handled. What is not here is decomposed by
torch into what is, or refused by its name.
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
_REDUCED = {"mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin",
            "prod": "ReduceProd"}  # fmt: skip
_SAME = ("alias", "clone", "contiguous", "detach", "dropout", "lift_fresh_copy", "_to_copy", "to",
         "type_as")  # fmt: skip
_SHAPED = ("view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "_unsafe_view")


def _unary(r: Reader, x: Any, *rest: Any, to: str) -> Result | None:
    """A function without parameters: others have values of their own, which are not read here."""
    return None if rest else r.onnx(to, x if to in ("IsInf", "IsNaN") else r.cast(x))


def _value(item: Any) -> Any:
    return item.meta["val"] if isinstance(item, torch.fx.Node) else item


def _pair(
    r: Reader, a: Any, b: Any, *, to: str, alpha: Any = 1, rounding_mode: Any = None
) -> Result | None:
    """Both operands in the type that torch computes in."""
    own = torch.result_type(_value(a), _value(b)) if r.kind == torch.bool else r.kind
    if rounding_mode is not None or own == torch.bool:
        return None
    second = r.cast(b, own) if alpha == 1 else r.onnx("Mul", r.cast(b, own), r.name(alpha, own))
    return r.onnx(to, r.cast(a, own), second)


def _unequal(r: Reader, a: Any, b: Any) -> Result | None:
    equal = _pair(r, a, b, to="Equal")
    return equal and r.onnx("Not", equal)


def _truth(r: Reader, *operands: Any, to: str) -> Result:
    return r.onnx(to if r.kind == torch.bool else f"Bitwise{to}", *map(r.cast, operands))


def _transpose(r: Reader, x: Any, a: int = 0, b: int = 1) -> Result:
    order = list(range(len(r.shape)))
    order[a], order[b] = order[b], order[a]
    return r.onnx("Transpose", x, perm=tuple(order))


def _slice(
    r: Reader, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Result:
    return r.onnx("Slice", x, [start or 0], [2**63 - 1 if end is None else end], [dim], [step])


def _select(r: Reader, x: Any, dim: int, index: int) -> Result:
    place = index % shape_of(x)[dim]
    return r.reshape(r.onnx("Slice", x, [place], [place + 1], [dim]), *r.shape)


def _split(r: Reader, x: Any, _: Any, dim: int = 0) -> Result:
    sizes = [int(part.shape[dim]) for part in r.value]
    return r.many(len(sizes), "Split", x, sizes, axis=dim % len(shape_of(x)))


def _unbind(r: Reader, x: Any, dim: int = 0) -> Result:
    parts = _split(r, x, None, dim) if len(r.value) else ()
    return tuple(r.reshape(part, *r.value[0].shape) for part in parts)


def _stack(r: Reader, parts: Sequence[Any], dim: int = 0) -> Result:
    shape = [1 if d == dim % len(r.shape) else n for d, n in enumerate(r.shape)]
    own = [r.reshape(r.cast(p), *shape) for p in parts]
    return r.onnx("Concat", *own, axis=dim % len(shape))


def _roll(r: Reader, x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Result | None:
    """Along each dimension its end before its beginning."""
    for shift, dim in zip(shifts, dims, strict=bool(dims)):
        if place := -shift % r.shape[dim]:
            behind = r.onnx("Slice", x, [place], [r.shape[dim]], [dim])
            before = r.onnx("Slice", x, [0], [place], [dim])
            x = r.onnx("Concat", behind, before, axis=dim % len(r.shape))
    return r.name(x) if dims else None


def _index(r: Reader, x: Any, indices: Sequence[Any]) -> Result | None:
    """Places along one dimension, or along the first ones."""
    given = [place for place, item in enumerate(indices) if item is not None]
    if any(_value(indices[place]).dtype not in (torch.int64, torch.int32) for place in given):
        return None
    if len(given) == 1:
        return r.onnx("Gather", x, indices[given[0]], axis=given[0])
    if given != list(range(len(given))):
        return None
    shape = torch.broadcast_shapes(*(shape_of(indices[place]) for place in given))
    wide = (r.onnx("Expand", indices[place], list(shape)) for place in given)
    spread = [r.reshape(name, *shape, 1) for name in wide]
    return r.onnx("GatherND", x, r.onnx("Concat", *spread, axis=len(shape)))


def _linear(r: Reader, x: Any, weight: Any, bias: Any = None) -> Result:
    if len(shape_of(x)) == 2:
        return r.onnx("Gemm", x, weight, bias, transB=1)
    turned = r.known[weight].T if weight in r.known else r.onnx("Transpose", weight, perm=(1, 0))
    product = r.onnx("MatMul", x, turned)
    return product if bias is None else r.onnx("Add", product, bias)


def _attention(
    r: Reader, q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0,
    causal: bool = False, *, scale: Any = None, enable_gqa: bool = False,
) -> Result:  # fmt: skip
    """Scores of queries and keys, a mask, soft maxima, and the values that these weigh."""
    *heads, rows, size = shape_of(q)
    keys, values = r.name(k), r.name(v)
    if enable_gqa and shape_of(k)[-3] != heads[-1]:
        keys, values = (_repeated(r, x, heads[-1]) for x in (k, v))
    order = (*range(len(heads)), len(heads) + 1, len(heads))
    by = r.name(size**-0.5 if scale is None else float(scale), r.kind)
    scores = r.onnx("MatMul", r.onnx("Mul", q, by), r.onnx("Transpose", keys, perm=order))
    if causal:
        mask = torch.ones(rows, shape_of(k)[-2], dtype=torch.bool).tril()
    if mask is not None and _value(mask).dtype == torch.bool:
        scores = r.onnx("Where", mask, scores, r.name(-math.inf, r.kind))
    elif mask is not None:
        scores = r.onnx("Add", scores, mask)
    return r.onnx("MatMul", r.onnx("Softmax", scores, axis=len(heads) + 1), values)


def _repeated(r: Reader, x: Any, count: int) -> str:
    """Heads of keys or values for as many of queries."""
    *batch, heads, rows, size = shape_of(x)
    apart = r.reshape(x, *batch, heads, 1, rows, size)
    spread = r.onnx("Expand", apart, [*batch, heads, count // heads, rows, size])
    return r.reshape(spread, *batch, count, rows, size)


def _norm(
    r: Reader, x: Any, sizes: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5,
    *_: Any, to: str,
) -> Result:  # fmt: skip
    """Of the last dimensions, or of groups of channels."""
    groups = isinstance(sizes, int)
    shape = shape_of(x)[1:2] if groups else tuple(sizes)
    scale = torch.ones(shape, dtype=r.kind) if weight is None else weight
    if groups:
        offset = torch.zeros(shape, dtype=r.kind) if bias is None else bias
        return r.onnx(to, x, scale, offset, num_groups=sizes, epsilon=eps)
    eps = torch.finfo(r.kind).eps if eps is None else eps
    offsets = () if bias is None else (bias,)
    return r.onnx(to, x, scale, *offsets, axis=-len(sizes), epsilon=eps)


def _rms_norm(r: Reader, x: Any, sizes: Any, weight: Any = None, eps: Any = None) -> Result:
    return _norm(r, x, sizes, weight, None, eps, to="RMSNormalization")


def _batch_norm(
    r: Reader, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, _: float, eps: float
) -> Result:
    """The first of three results: the others belong to training."""
    channels, own = shape_of(x)[1], r.value[0].dtype
    scale = torch.ones(channels, dtype=own) if weight is None else weight
    offset = torch.zeros(channels, dtype=own) if bias is None else bias
    return (r.onnx("BatchNormalization", x, scale, offset, mean, variance, epsilon=eps),)


def _convolution(
    r: Reader, x: Any, weight: Any, bias: Any, strides: Any, pads: Any, dilations: Any,
    transposed: bool, more: Any, groups: int,
) -> Result:  # fmt: skip
    rank = len(shape_of(x)) - 2
    window = {"strides": _each(strides, rank), "dilations": _each(dilations, rank),
              "group": groups, "pads": _each(pads, rank) * 2}  # fmt: skip
    if transposed:
        return r.onnx("ConvTranspose", x, weight, bias, output_padding=_each(more, rank), **window)
    return r.onnx("Conv", x, weight, bias, **window)


def _each(value: Any, rank: int) -> tuple[int, ...]:
    """A number for each dimension of a window."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * rank if len(numbers) == 1 else numbers


def _pool(
    r: Reader, x: Any, size: Any, stride: Any = (), pads: Any = 0, *more: Any, to: str,
    names: tuple[str, ...] = ("ceil_mode", "count_include_pad", "divisor_override"), **given: Any,
) -> Result | None:  # fmt: skip
    """Pool; `names` are those of the arguments behind the pads."""
    rank = len(shape_of(x)) - 2
    asked = {**dict(zip(names, more, strict=False)), **given}
    if asked.get("divisor_override") is not None:
        return None
    special: dict[str, Any] = {"count_include_pad": int(asked.get("count_include_pad", True))}
    if "dilation" in names:
        special = {"dilations": _each(asked.get("dilation", 1), rank)}
    return r.onnx(to, x, kernel_shape=_each(size, rank), pads=_each(pads, rank) * 2,
                  strides=_each(stride or size, rank), ceil_mode=int(asked.get("ceil_mode", False)),
                  **special)  # fmt: skip


def _adaptive_pool(r: Reader, x: Any, *_: Any) -> Result | None:
    """Windows of one size, where the extents are multiples."""
    own, wanted = shape_of(x)[2:], r.shape[2:]
    if any(a % b for a, b in zip(own, wanted, strict=True)):
        return None
    sizes = tuple(a // b for a, b in zip(own, wanted, strict=True))
    if set(wanted) == {1}:
        return r.onnx("GlobalAveragePool", x)
    return r.onnx("AveragePool", x, kernel_shape=sizes, strides=sizes)


def _resize(r: Reader, x: Any, _: Any, align: Any = False, *__: Any, mode: str) -> Result:
    how = {"coordinate_transformation_mode": "align_corners" if align is True else "half_pixel"}
    if mode == "nearest":
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return r.onnx("Resize", x, None, None, list(r.shape), mode=mode, **how)


def _pad(
    r: Reader, x: Any, pads: Sequence[int], mode: Any = "constant", value: Any = None
) -> Result:
    """Pads come from the last dimension on, before and behind it."""
    if not isinstance(mode, str):
        mode, value = "constant", mode
    name = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    left = [0] * (len(r.shape) - len(pads) // 2)
    numbers = [*left, *pads[-2::-2], *left, *pads[::-2]]
    return r.onnx("Pad", x, numbers, r.name(value or 0, r.kind), mode=name)


def _reduced(
    r: Reader, x: Any, dims: Any = None, keep: bool = False, *_: Any, to: str, dtype: Any = None
) -> Result:
    axes = [dims] if isinstance(dims, int) else list(dims or range(len(shape_of(x))))
    return r.onnx(to, r.cast(x), axes, keepdims=int(keep))


def _clamp(r: Reader, x: Any, low: Any = None, high: Any = None) -> Result:
    return r.onnx("Clip", r.cast(x), *(None if end is None else r.cast(end) for end in (low, high)))


def _lstm(
    r: Reader, x: Any, states: Sequence[Any], weights: Sequence[Any], biased: bool,
    layers: int, dropout: float, training: bool, both: bool, batch_first: bool,
) -> Result | None:  # fmt: skip
    """Layer by layer; torch's gates are i, f, g, o, those of ONNX i, o, f, c."""
    ways, each = 1 + both, 4 if biased else 2
    if len(weights) != layers * ways * each or not all(w in r.known for w in weights):
        return None
    steps, batch = shape_of(x)[:2][:: -1 if batch_first else 1]
    numbers = [torch.cat([r.known[w].chunk(4)[gate] for gate in (0, 3, 1, 2)]) for w in weights]
    x = r.onnx("Transpose", x, perm=(1, 0, 2)) if batch_first else r.name(x)
    size, ends = numbers[1].shape[1], []
    for layer in range(layers):
        own = numbers[layer * ways * each : (layer + 1) * ways * each]
        parts = [torch.stack(own[place::each]) for place in range(each)]
        bias = torch.cat(parts[2:], 1) if biased else None
        first = [r.onnx("Slice", s, [layer * ways], [(layer + 1) * ways], [0]) for s in states]
        y, *last = r.many(3, "LSTM", x, *parts[:2], bias, None, *first, hidden_size=size,
                          direction="bidirectional" if both else "forward")  # fmt: skip
        turned = r.onnx("Transpose", y, perm=(0, 2, 1, 3))
        x = r.reshape(turned, steps, batch, ways * size)
        ends.append(last)
    x = r.onnx("Transpose", x, perm=(1, 0, 2)) if batch_first else x
    return x, *(r.onnx("Concat", *own, axis=0) for own in zip(*ends, strict=True))


def _all(translate: Any, to: dict[str, str]) -> dict[str, Translator]:
    return {name: partial(translate, to=kind) for name, kind in to.items()}


OPERATORS: dict[str, Translator] = {
    **_all(_unary, _UNARY), **_all(_pair, _PAIRS), **_all(_truth, _TRUTH),
    **_all(_reduced, _REDUCED),
    **_all(_norm, {"layer_norm": "LayerNormalization", "group_norm": "GroupNormalization"}),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d"), partial(_pool, to="AveragePool")),
    **dict.fromkeys(("max_pool1d", "max_pool2d"),
                    partial(_pool, to="MaxPool", names=("dilation", "ceil_mode"))),
    **dict.fromkeys(_SAME, lambda r, x, *_, **__: r.cast(x)),
    **dict.fromkeys(_SHAPED, lambda r, x, *_, **__: r.reshape(x, *r.shape)),
    **dict.fromkeys(("softmax", "_softmax"),
                    lambda r, x, dim, *_, **__: r.onnx("Softmax", r.cast(x), axis=dim)),
    **dict.fromkeys(("log_softmax", "_log_softmax"),
                    lambda r, x, dim, *_, **__: r.onnx("LogSoftmax", r.cast(x), axis=dim)),
    **dict.fromkeys(("mm", "bmm", "matmul"), lambda r, a, b: r.onnx("MatMul", a, b)),
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), _split),
    **dict.fromkeys(("transpose", "t"), _transpose),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), _adaptive_pool),
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d"), partial(_resize, mode="nearest")),
    "upsample_bilinear2d": partial(_resize, mode="linear"),
    "rsub": lambda r, b, a: _pair(r, a, b, to="Sub"), "ne": _unequal, "roll": _roll,
    "copy": lambda r, to, x, *_: r.onnx("Expand", r.cast(x), list(shape_of(to))),
    "expand": lambda r, x, *_, **__: r.onnx("Expand", x, list(r.shape)),
    "permute": lambda r, x, axes: r.onnx("Transpose", x, perm=tuple(a % len(axes) for a in axes)),
    "cat": lambda r, parts, dim=0: r.onnx(
        "Concat", *(r.cast(p) for p in parts if math.prod(shape_of(p))), axis=dim % len(r.shape)),
    "slice": _slice, "select": _select, "unbind": _unbind, "stack": _stack, "index": _index,
    "embedding": lambda r, table, ids, *_: r.onnx("Gather", table, ids, axis=0),
    "gather": lambda r, x, dim, index: r.onnx("GatherElements", x, index, axis=dim),
    "index_select": lambda r, x, dim, index: r.onnx("Gather", x, index, axis=dim),
    "cumsum": lambda r, x, dim, **_: r.onnx("CumSum", r.cast(x), np.int64(dim)),
    "linear": _linear, "scaled_dot_product_attention": _attention, "rms_norm": _rms_norm,
    "addmm": lambda r, bias, a, b, *, beta=1, alpha=1: r.onnx(
        "Gemm", a, b, bias, alpha=float(alpha), beta=float(beta)),
    "_native_batch_norm_legit_no_training": _batch_norm, "convolution": _convolution,
    "where": lambda r, test, a, b: r.onnx("Where", test, r.cast(a), r.cast(b)),
    "masked_fill": lambda r, x, test, a: r.onnx("Where", test, r.cast(a), r.cast(x)),
    "clamp": _clamp, "hardtanh": lambda r, x, low=-1.0, high=1.0: _clamp(r, x, low, high),
    "gelu": lambda r, x, *, approximate="none": r.onnx("Gelu", x, approximate=approximate),
    "hardsigmoid": lambda r, x: r.onnx("HardSigmoid", x, alpha=1 / 6, beta=0.5),
    "leaky_relu": lambda r, x, alpha=0.01: r.onnx("LeakyRelu", x, alpha=float(alpha)),
    "elu": lambda r, x, alpha=1.0, *rest: None if rest else r.onnx("Elu", x, alpha=float(alpha)),
    "rsqrt": lambda r, x: r.onnx("Reciprocal", r.onnx("Sqrt", r.cast(x))), "lstm": _lstm,
}  # fmt: skip
"""By the name of torch's operator."""
