"""Models of one meaning each: attributes off their defaults, borders of operator sets, edge values.

Each is a model with inputs that onnxruntime runs as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from support.onnx_models import ints, model, node
from tilewright.graph.frontends.onnx.operators import OPERATORS

OLDEST = 7
"""The first operator set that onnxruntime runs."""
RECENT = 21
"""One that it runs and that is newer than most changes."""

EDGES = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, 0.25, -0.25, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 3.0,
     -3.0, 6.0, 7.0, 88.0, -88.0, 104.0, -104.0, 3e38, -3e38, np.inf, -np.inf, np.nan],
    np.float32,
)  # fmt: skip
"""Where functions change, and what is no finite number."""


@dataclass(frozen=True)
class Case:
    """A model with its inputs; `bound` is the relative difference that rounding may make. Generated
    code computes it on this computer unless it is `elsewhere` alone.
    """

    name: str
    proto: Any
    inputs: dict[str, np.ndarray]
    bound: float = 2e-6
    elsewhere: bool = False


def case(name, nodes, inputs, weights=None, opset=RECENT, bound=2e-6):
    """Inputs are arrays, or shapes to be filled."""
    given = {k: v if isinstance(v, np.ndarray) else spread(*v) for k, v in inputs.items()}
    shapes = {k: v.shape for k, v in given.items()}
    return Case(name, model(nodes, shapes, weights, opset=opset), given, bound)


def spread(*shape: int) -> np.ndarray:
    """Numbers with fractions, of both signs."""
    return np.random.default_rng(3).uniform(-2, 2, shape).astype(np.float32)


def every_case() -> list[Case]:
    """All of them; their names differ."""
    found = [
        *unary(), *edges(), *binary(), *variadic(), *clips(), *windows(), *convolutions(),
        *products(), *normalisations(), *shapes(), *folded(), *moved(), *borders(),
        *reductions(), *resizes(),
    ]  # fmt: skip
    assert len({item.name for item in found}) == len(found)
    return found


def unary() -> Iterator[Case]:
    """Parameters off their defaults; functions at inputs of their domain."""
    variants = {
        "Elu": [{}, {"alpha": 2.5}, {"alpha": 0.0}],
        "LeakyRelu": [{}, {"alpha": 0.3}, {"alpha": 1.5}, {"alpha": -0.5}, {"alpha": 0.0}],
        "HardSigmoid": [{}, {"alpha": 0.5}, {"beta": 0.1}, {"alpha": -1.0, "beta": 2.0}],
    }
    plain = ("Abs", "Ceil", "Exp", "Floor", "Identity", "Neg", "Reciprocal", "Relu", "Sigmoid",
             "Softplus", "Tanh")  # fmt: skip
    for kind, given in [*variants.items(), *((kind, [{}]) for kind in plain)]:
        for number, attributes in enumerate(given):
            yield case(f"{kind}_{number}", [node(kind, "x", "y", **attributes)], {"x": (2, 3, 5)})
    for kind in ("Log", "Sqrt"):
        yield case(kind, [node(kind, "x", "y")], {"x": abs(spread(2, 3, 5)) + 0.1})


def edges() -> Iterator[Case]:
    """Infinities, zeros of both signs, denormals and what is no number."""
    for kind in ("Abs", "Ceil", "Elu", "Exp", "Floor", "Identity", "LeakyRelu", "Log", "Neg",
                 "Reciprocal", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh"):  # fmt: skip
        yield case(f"{kind}_edges", [node(kind, "x", "y")], {"x": EDGES})
    pairs = np.array(list(product(EDGES, EDGES)), np.float32)
    for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        given = {"a": pairs[:, 0].copy(), "b": pairs[:, 1].copy()}
        yield case(f"{kind}_edges", [node(kind, "ab", "y")], given)
    yield case("HardSigmoid_edges", [node("HardSigmoid", "x", "y")], {"x": EDGES})
    for number, ends in enumerate([(), (0, 6), (6, 0), (-np.inf, np.inf)]):
        weights = dict(zip("lm", map(np.float32, ends), strict=False))
        nodes = [node("Clip", ["x", *weights], "y")]
        yield case(f"Clip_edges_{number}", nodes, {"x": EDGES}, weights)
    for axis in (0, 1):
        rows = np.array([EDGES[:-3], np.full(24, -np.inf), np.full(24, 3e38), np.full(24, np.nan)])
        rows = rows.astype(np.float32)
        yield case(f"Softmax_edges_{axis}", [node("Softmax", "x", "y", axis=axis)], {"x": rows})
    moderate = EDGES[np.isinf(EDGES) | (abs(EDGES) < 200)]
    for kind in ("MaxPool", "AveragePool"):
        nodes = [node(kind, "x", "y", kernel_shape=[2, 2], strides=[2, 2])]
        yield case(f"{kind}_infinities", nodes, {"x": np.resize(moderate, (1, 2, 6, 6))})


def binary() -> Iterator[Case]:
    """Each side broadcast, stored or computed."""
    shapes = [((2, 3, 4), (4,)), ((2, 3, 4), (3, 1)), ((4,), (2, 3, 4)), ((2, 1, 4), (3, 1)),
              ((2, 3), ()), ((1,), (5, 1))]  # fmt: skip
    for (a, b), kind in product(shapes, ("Add", "Sub", "Mul", "Div")):
        name = f"{kind}_{a}_{b}"
        yield case(f"{name}_inputs", [node(kind, "ab", "y")], {"a": a, "b": b})
        if kind in ("Sub", "Div"):
            yield case(f"{name}_left", [node(kind, "wa", "y")], {"a": a}, {"w": spread(*b)})
            yield case(f"{name}_right", [node(kind, "aw", "y")], {"a": a}, {"w": spread(*b)})


def variadic() -> Iterator[Case]:
    """One to four operands, of several shapes."""
    for kind in ("Max", "Min", "Sum"):
        yield case(f"{kind}_one", [node(kind, "a", "y")], {"a": (2, 3)})
        yield case(f"{kind}_twice", [node(kind, "aa", "y")], {"a": (2, 3)})
        given = {"a": (2, 3), "b": (3,), "c": (4, 1, 1)}
        yield case(f"{kind}_three", [node(kind, "abc", "y")], given)
        yield case(f"{kind}_old", [node(kind, "abc", "y")], given, opset=8)
        yield case(f"{kind}_four", [node(kind, "abwa", "y")], {"a": (2, 3), "b": (2, 1)},
                   {"w": spread(3)})  # fmt: skip


def clips() -> Iterator[Case]:
    """Bounds missing, crossed, infinite."""
    x = {"x": np.linspace(-9, 9, 37, dtype=np.float32)}
    ends = {"both": (-1.5, 2.5), "crossed": (3.0, -1.0), "equal": (2.0, 2.0),
            "infinite": (-np.inf, np.inf), "no_most": (0.5, None), "no_least": (None, 0.5),
            "none": (None, None)}  # fmt: skip
    for name, (least, most) in ends.items():
        given = {"l": least, "m": most}
        weights = {k: np.float32(v) for k, v in given.items() if v is not None}
        inputs = ["x", *(k if v is not None else "" for k, v in given.items())]
        for opset in (11, 12, 13):
            if name == "crossed" and opset < 13:
                continue
            yield case(f"Clip_{name}_{opset}", [node("Clip", inputs, ["y"])], x, weights, opset)
        old = {k: float(v) for k, v in {"min": least, "max": most}.items() if v is not None}
        if name != "crossed":
            yield case(f"Clip_{name}_old", [node("Clip", "x", "y", **old)], x, None, 10)


def windows() -> Iterator[Case]:
    """Pooling: strides, pads, ceil_mode, auto_pad, padding that counts."""
    pads = ([0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1], [0, 1, 2, 0])
    image = {"x": (1, 2, 9, 8)}
    for kind, pad, ceil in product(("MaxPool", "AveragePool"), pads, (0, 1)):
        given = {"kernel_shape": [3, 2 + pad[1]], "strides": [2, 3], "pads": pad}
        yield case(f"{kind}_{pad}_{ceil}", [node(kind, "x", "y", ceil_mode=ceil, **given)], image)
        if kind == "AveragePool":
            nodes = [node(kind, "x", "y", ceil_mode=ceil, count_include_pad=1, **given)]
            yield case(f"{kind}_counted_{pad}_{ceil}", nodes, image)
    for kind, mode, stride in product(
        ("MaxPool", "AveragePool"), ("VALID", "SAME_UPPER", "SAME_LOWER"), (1, 2)
    ):
        given = {"kernel_shape": [3, 4], "strides": [stride, stride], "auto_pad": mode}
        yield case(f"{kind}_{mode}_{stride}", [node(kind, "x", "y", **given)], image)
    yield case("MaxPool_storage", [node("MaxPool", "x", "y", kernel_shape=[2, 3],
                                        storage_order=1)], image)  # fmt: skip
    for kind in ("GlobalMaxPool", "GlobalAveragePool"):
        yield case(kind, [node(kind, "x", "y")], image)
    for keep, axes in product((0, 1), ([2, 3], [-1, -2])):
        nodes = [node("ReduceMean", "x", "y", axes=axes, keepdims=keep)]
        yield case(f"ReduceMean_{keep}_{axes}", nodes, image, opset=13)
        nodes = [node("ReduceMean", "xa", "y", keepdims=keep)]
        yield case(f"ReduceMean_input_{keep}_{axes}", nodes, image, {"a": ints(*axes)}, 18)


def reductions() -> Iterator[Case]:
    """Each reduction along an axis, two and all, with and without the axes that are gone."""
    for kind, (keep, axes) in product(
        ("L1", "L2", "LogSum", "Max", "Mean", "Min", "Sum", "SumSquare"),
        ((0, [1]), (1, [-1, 0]), (0, None)),
    ):
        given = {} if axes is None else {"axes": axes}
        positive = node("Abs", "x", "p")
        nodes = [positive, node(f"Reduce{kind}", "p", "y", keepdims=keep, **given)]
        found = case(f"Reduced_{kind}_{keep}_{axes}", nodes, {"x": (2, 3, 4)}, opset=11)
        yield replace(found, elsewhere=True)


def resizes() -> Iterator[Case]:
    """Copies of each element, elements a step apart, both."""
    for number, (sizes, given) in enumerate((
        ([1, 2, 8, 18], {}),
        ([1, 2, 8, 3], {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        ([1, 4, 4, 6], {"nearest_mode": "round_prefer_ceil"}),
        ([1, 2, 2, 2], {"coordinate_transformation_mode": "align_corners"}),
        ([1, 2, 4, 1], {"coordinate_transformation_mode": "pytorch_half_pixel"}),
    )):  # fmt: skip
        nodes = [node("Resize", ["x", "", "", "n"], ["y"], mode="nearest", **given)]
        found = case(f"Resize_{number}", nodes, {"x": (1, 2, 4, 6)}, {"n": ints(*sizes)}, 13)
        yield replace(found, elsewhere=min(sizes[2:]) < 4)
    scales = {"s": np.array([1, 1, 2, 3], np.float32)}
    yield case("Resize_old", [node("Resize", "xs", "y")], {"x": (1, 2, 4, 6)}, scales, 10)


def convolutions() -> Iterator[Case]:
    """Strides, dilations, groups, pads on one side, auto_pad."""
    image, w = {"x": (2, 4, 9, 8)}, {"w": spread(6, 4, 3, 2)}
    variants = {
        "strides": {"strides": [2, 1]}, "pads": {"pads": [1, 0, 2, 1]},
        "dilations": {"dilations": [2, 3]}, "kernel": {"kernel_shape": [3, 2]},
        "upper": {"auto_pad": "SAME_UPPER"}, "lower": {"auto_pad": "SAME_LOWER"},
        "valid": {"auto_pad": "VALID"},
        "upper_strides": {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
        "lower_strides": {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
    }  # fmt: skip
    for name, attributes in variants.items():
        yield case(f"Conv_{name}", [node("Conv", "xw", "y", **attributes)], image, w)
    b = {"b": spread(6)}
    yield case("Conv_bias", [node("Conv", "xwb", "y")], image, w | b)
    for groups in (2, 4):
        weights = {"w": spread(8, 4 // groups, 3, 3)}
        yield case(f"Conv_{groups}", [node("Conv", "xw", "y", group=groups)], image, weights)


def products() -> Iterator[Case]:
    """Gemm and MatMul: transposed, scaled, each shape of C."""
    for a, b in product((0, 1), (0, 1)):
        weights = {"w": spread(*((4, 5) if b else (5, 4))), "c": spread(4)}
        x = {"x": (5, 3) if a else (3, 5)}
        nodes = [node("Gemm", "xwc", "y", transA=a, transB=b, alpha=0.5, beta=-2.0)]
        yield case(f"Gemm_{a}_{b}", nodes, x, weights)
        yield case(f"Gemm_without_{a}_{b}", [node("Gemm", "xw", "y", transA=a, transB=b)], x,
                   weights)  # fmt: skip
    for shape, beta in product(((), (1,), (4,), (1, 4), (3, 1), (3, 4)), (1.0, 0.5)):
        weights = {"w": spread(5, 4), "c": spread(*shape)}
        nodes = [node("Gemm", "xwc", "y", beta=beta)]
        yield case(f"Gemm_C_{shape}_{beta}", nodes, {"x": (3, 5)}, weights)
    nodes = [node("Gemm", "xwc", "y", beta=0.5)]
    yield case("Gemm_C_input", nodes, {"x": (3, 5), "c": (3, 4)}, {"w": spread(5, 4)})
    for shape in ((3, 5), (2, 3, 5), (2, 1, 3, 5)):
        yield case(f"MatMul_{shape}", [node("MatMul", "xw", "y")], {"x": shape},
                   {"w": spread(5, 4)})  # fmt: skip


def normalisations() -> Iterator[Case]:
    """Batch and local response normalisation, softmax in both meanings."""
    image = {"x": (2, 5, 4, 3)}
    statistics = {k: abs(spread(5)) + i for i, k in enumerate("sbmv")}
    for opset in (7, 9, 14, 15):
        nodes = [node("BatchNormalization", "xsbmv", "y", epsilon=0.01, momentum=0.3)]
        yield case(f"BatchNormalization_{opset}", nodes, image, statistics, opset)
    nodes = [node("BatchNormalization", "xsbmv", "y")]
    yield case("BatchNormalization_matrix", nodes, {"x": (4, 5)}, statistics)
    for size, beta in product((1, 3, 5), (0.75, 0.5)):
        nodes = [node("LRN", "x", "y", size=size, alpha=0.5, beta=beta, bias=2.0)]
        yield case(f"LRN_{size}_{beta}", nodes, image)
    for axis, opset in product((0, 1, 2, 3, -1, -2), (11, 12, 13)):
        nodes = [node("Softmax", "x", "y", axis=axis)]
        yield case(f"Softmax_{axis}_{opset}", nodes, image, opset=opset)
    for opset in (8, 11, 13):
        yield case(f"Softmax_{opset}", [node("Softmax", "x", "y")], image, opset=opset)


def shapes() -> Iterator[Case]:
    """Reshapes, flattening, axes of one, concatenation, blocks of pixels."""
    for axis in (-3, -1, 0, 1, 2, 3):
        yield case(f"Flatten_{axis}", [node("Flatten", "x", "y", axis=axis)], {"x": (2, 3, 4)})
    for wanted in ((0, -1), (-1,), (4, 0, 2), (0, 0, 2, -1), (6, -1, 1), (2, 3, 4)):
        nodes = [node("Reshape", "xs", "y")]
        yield case(f"Reshape_{wanted}", nodes, {"x": (2, 3, 4)}, {"s": ints(*wanted)})
    for axes in ((0,), (2, 0), (-1,), ()):
        nodes = [node("Squeeze", "xs", "y")] if axes else [node("Squeeze", "x", "y")]
        weights = {"s": ints(*axes)} if axes else None
        yield case(f"Squeeze_{axes}", nodes, {"x": (1, 3, 1, 1)}, weights)
        if axes and min(axes) >= 0:
            old = [node("Squeeze", "x", "y", axes=list(axes))]
            yield case(f"Squeeze_{axes}_old", old, {"x": (1, 3, 1, 1)}, opset=11)
    for axes in ((0,), (3, 0), (-1, 1)):
        nodes = [node("Unsqueeze", "xs", "y")]
        yield case(f"Unsqueeze_{axes}", nodes, {"x": (3, 4)}, {"s": ints(*axes)})
    for axis in (0, 1, -1):
        nodes = [node("Relu", "x", "z"), node("Concat", "xzx", "y", axis=axis)]
        yield case(f"Concat_{axis}", nodes, {"x": (2, 3, 4)})
    for block in (1, 2, 3):
        nodes = [node("SpaceToDepth", "x", "y", blocksize=block)]
        yield case(f"SpaceToDepth_{block}", nodes, {"x": (2, 3, 6, 12)}, opset=13)
    for training in (None, False):
        inputs = ["x", "r"] if training is None else ["x", "r", "t"]
        weights = {"r": np.float32(0.7)} | ({} if training is None else {"t": np.array(training)})
        yield case(f"Dropout_{training}", [node("Dropout", inputs, "y")], {"x": (2, 3)}, weights)
    yield case("Dropout_old", [node("Dropout", "x", "y", ratio=0.9)], {"x": (2, 3)}, opset=10)


def moved() -> Iterator[Case]:
    """Elements of tensors at other places; this computer takes them from one another."""
    for perm in ([1, 0, 2], [2, 0, 1], None):
        attributes = {} if perm is None else {"perm": perm}
        yield case(
            f"Transposed_{perm}", [node("Transpose", "x", "y", **attributes)], {"x": (2, 3, 4)}
        )
    cuts = [((1, -3), (99, -1), (0, -1)), ((-2,), (3,), (1,))]
    for number, cut in enumerate(cuts):
        weights = dict(zip("bea", (ints(*item) for item in cut), strict=True))
        yield case(f"Sliced_{number}", [node("Slice", "xbea", "y")], {"x": (3, 3, 4)}, weights)
    yield case(
        "Sliced_old", [node("Slice", "x", "y", starts=[1], ends=[3])], {"x": (3, 2)}, opset=9
    )
    weights = {"p": ints(0, 1, 2, 0, 3, 1), "v": np.float32(0)}
    yield case("Padded", [node("Pad", "xpv", "y")], {"x": (2, 3, 4)}, weights)
    weights = {"p": ints(1, 2), "a": ints(-1)}
    yield case("Padded_axes", [node("Pad", ["x", "p", "", "a"], ["y"])], {"x": (2, 3)}, weights)
    yield case("Padded_old", [node("Pad", "x", "y", pads=[0, 1, 1, 0])], {"x": (2, 3)}, opset=9)


def folded() -> Iterator[Case]:
    """Shapes that nodes compute, from parts of another."""
    ends = [{}, {"start": 1}, {"end": 2}, {"start": -2}, {"end": -1}, {"start": 1, "end": 3},
            {"start": -9, "end": 9}]  # fmt: skip
    for number, attributes in enumerate(ends):
        nodes = [node("Shape", "x", "s", **attributes), node("Concat", "sm", "t", axis=0),
                 node("Reshape", "xt", "y")]  # fmt: skip
        yield case(f"Shape_{number}", nodes, {"x": (2, 3, 4, 5)}, {"m": ints(-1)})
    cuts = [((0,), (2,), (0,), (1,)), ((-1,), (-9,), (0,), (-1,)), ((1,), (99,), (0,), (2,)),
            ((-3,), (-1,), (-1,), (1,))]  # fmt: skip
    for number, cut in enumerate(cuts):
        weights = dict(zip("bedp", (ints(*item) for item in cut), strict=True))
        nodes = [node("Slice", "wbedp", "v"), node("Add", "xv", "y")]
        weights["w"] = spread(4)
        size = len(spread(4)[slice(cut[0][0], cut[1][0], cut[3][0])])
        yield case(f"Slice_{number}", nodes, {"x": (3, size)}, weights)
    nodes = [node("Slice", ["w", "b", "e", "", "p"], ["v"]), node("Add", "xv", "y")]
    weights = {"w": spread(6), "b": ints(0), "e": ints(6), "p": ints(2)}
    yield case("Slice_without_axes", nodes, {"x": (2, 3)}, weights)
    nodes = [node("Slice", "w", "v", starts=[1], ends=[3], axes=[0]), node("Add", "xv", "y")]
    yield case("Slice_old", nodes, {"x": (3, 2)}, {"w": spread(4)}, 9)
    arithmetic = {"Add": (7, 5), "Sub": (17, 5), "Mul": (3, 4), "Div": (25, 2), "neg": (-25, -2)}
    for kind, (a, b) in arithmetic.items():
        nodes = [node("Div" if kind == "neg" else kind, "ab", "s"), node("Reshape", "xs", "y")]
        weights = {"a": ints(a), "b": ints(b)}
        yield case(f"folded_{kind}", nodes, {"x": (3, 4)}, weights)
    for axis in (0, 1):
        nodes = [node("Gather", "wi", "v", axis=axis), node("Add", "xv", "y")]
        weights = {"w": spread(3, 3), "i": ints(2, -3)}
        yield case(f"Gather_{axis}", nodes, {"x": (2, 3) if axis == 0 else (3, 2)}, weights)
    for perm in ([1, 0, 2], [2, 1, 0], None):
        attributes = {} if perm is None else {"perm": perm}
        nodes = [node("Transpose", "w", "v", **attributes), node("Add", "xv", "y")]
        shape = np.transpose(spread(2, 3, 4), perm).shape
        yield case(f"Transpose_{perm}", nodes, {"x": shape}, {"w": spread(2, 3, 4)})
    nodes = [node("Cast", "w", "v", to=1), node("Add", "xv", "y")]
    yield case("Cast_float", nodes, {"x": (2, 3)}, {"w": ints(4, -5, 6)})
    nodes = [node("Cast", "w", "v", to=7), node("Reshape", "xv", "y")]
    yield case("Cast_integer", nodes, {"x": (2, 3)}, {"w": np.array([3.7, 2.2], np.float32)})
    for number, given in enumerate([{"value_float": 2.5}, {"value_floats": [1.0, -2.0, 3.0]}]):
        nodes = [node("Constant", [], "c", **given), node("Mul", "xc", "y")]
        yield case(f"Constant_{number}", nodes, {"x": (2, 3)})


def borders() -> Iterator[Case]:
    """Every operator that takes one tensor, in the first and last operator set of each version."""
    plain = ("Abs", "Ceil", "Elu", "Exp", "Flatten", "Floor", "HardSigmoid", "Identity",
             "LeakyRelu", "Neg", "Reciprocal", "Relu", "Sigmoid", "Softmax", "Softplus", "Tanh",
             "GlobalAveragePool", "GlobalMaxPool")  # fmt: skip
    for kind in plain:
        versions = OPERATORS[kind].versions
        sets = {*versions, *(v - 1 for v in versions)}
        for opset in sorted(o for o in sets if OLDEST <= o <= RECENT):
            yield case(f"{kind}_set_{opset}", [node(kind, "x", "y")], {"x": (2, 3, 4, 5)},
                       opset=opset)  # fmt: skip
