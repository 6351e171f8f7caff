"""Reading ONNX: results against the ONNX reference evaluator; names, batch, element type.

The evaluator normalises with batch statistics before operator set 14, and cuts the neighbours of
LRN at the batch size; the models keep clear of both.
"""

from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from support.onnx_models import IMAGE, floats, ints, model, node, saved
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.operators.resize import _coordinate, _strided_copies
from tilewright.ops import Conv2d, Gemm

CASES = {
    "reshape_by_parts_of_a_shape_one_without_elements": (
        [
            node("Shape", "x", "s"),
            node("Slice", ["s", "one", "one"], "e"),
            node("Slice", ["s", "one", "most"], "b"),
            node("Concat", ["e", "b", "minus"], "t", axis=0),
            node("Reshape", "xt", "y"),
        ],
        IMAGE,
        {"one": ints(1), "most": ints(3), "minus": ints(-1)},
    ),
    "conv": (
        [node("Conv", "xw", "y", strides=[2, 1], pads=[1, 0, 2, 1])],
        IMAGE,
        {"w": floats(6, 4, 3, 2)},
    ),
    "conv_bias_group_dilation": (
        [node("Conv", ["x", "w", "b"], "y", group=2, dilations=[2, 1], kernel_shape=[3, 3])],
        IMAGE,
        {"w": floats(6, 2, 3, 3), "b": floats(6)},
    ),
    "conv_of_lines": (
        [node("Conv", "xw", "y", strides=[2], pads=[1, 2], group=2)],
        {"x": (2, 4, 9)},
        {"w": floats(6, 2, 3)},
    ),
    "conv_of_lines_bias": (
        [node("Conv", ["x", "w", "b"], "y")],
        {"x": (2, 4, 9)},
        {"w": floats(6, 4, 3), "b": floats(6)},
    ),
    "conv_transpose_of_lines": (
        [node("ConvTranspose", "xw", "y", strides=[2], pads=[1, 0])],
        {"x": (1, 2, 5)},
        {"w": floats(2, 3, 3)},
    ),
    "conv_of_volumes": (
        [node("Conv", "xw", "y", pads=[0, 1, 0, 1, 0, 2])],
        {"x": (1, 2, 3, 4, 5)},
        {"w": floats(3, 2, 2, 3, 1)},
    ),
    "slices_of_a_condition": (
        [node("Compress", "xc", "y", axis=1)],
        IMAGE,
        {"c": np.array([True, False, False, True])},
    ),
    "elements_of_a_condition": (
        [node("Compress", "xc", "y")],
        IMAGE,
        {"c": np.arange(40) % 3 == 1},
    ),
    "one_hot_inside": (
        [node("OneHot", "idv", "h", axis=-2), node("Mul", "xh", "y")],
        {"x": (2, 5, 3)},
        {"i": ints([4, 0, -1], [2, 2, 1]), "d": np.array(5), "v": floats(2)},
    ),
    "one_hot_beside_a_constant_of_its_own_name": (
        [
            node("OneHot", "idv", "h", axis=-2),
            node("Mul", "xh", "z"),
            node("Mul", ["z", "h/places"], "y"),
        ],
        {"x": (2, 5, 3)},
        {
            "i": ints([4, 0, -1], [2, 2, 1]),
            "d": np.array(5),
            "v": floats(2),
            "h/places": floats(5, 1),
        },
    ),
    "conv_same_upper": (
        [node("Conv", "xw", "y", auto_pad="SAME_UPPER", strides=[2, 2])],
        IMAGE,
        {"w": floats(6, 4, 3, 3)},
    ),
    "conv_same_lower": (
        [node("Conv", "xw", "y", auto_pad="SAME_LOWER", strides=[2, 3])],
        IMAGE,
        {"w": floats(6, 4, 4, 4)},
    ),
    "places_of_a_constant_that_are_not_zero": (
        [node("NonZero", "m", "p"), node("Squeeze", "pa", "q"), node("Gather", "xq", "y", axis=1)],
        IMAGE,
        {"m": ints(0, 3, 0, -1), "a": ints(0)},
    ),
    "gemm": (
        [node("Gemm", "xwb", "y", transB=1)],
        {"x": (3, 5)},
        {"w": floats(4, 5), "b": floats(4)},
    ),
    "gemm_scaled": (
        [node("Gemm", "xwb", "y", transA=1, alpha=0.5, beta=2.0)],
        {"x": (5, 3)},
        {"w": floats(5, 4), "b": floats(4)},
    ),
    "gemm_scalar": ([node("Gemm", "xwb", "y")], {"x": (5, 3)}, {"w": floats(3, 4), "b": floats()}),
    "mat_mul": ([node("MatMul", "xw", "y")], {"x": (3, 5)}, {"w": floats(5, 4)}),
    "mat_mul_leading": ([node("MatMul", "xw", "y")], {"x": (2, 3, 5)}, {"w": floats(5, 4)}),
    "mat_mul_transposed": (
        [node("Transpose", "w", "v"), node("MatMul", "xv", "y")],
        {"x": (3, 5)},
        {"w": floats(4, 5)},
    ),
    "max_pool": (
        [node("MaxPool", "x", "y", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])],
        IMAGE,
        {},
    ),
    "average_pool": (
        [node("AveragePool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])],
        IMAGE,
        {},
    ),
    "average_pool_counting": (
        [
            node(
                "AveragePool", "x", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
            )
        ],
        IMAGE,
        {},
    ),
    "max_pool_ceil": (
        [node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)],
        IMAGE,
        {},
    ),
    "max_pool_of_windows_that_begin_inside": (
        [node("MaxPool", "x", "y", kernel_shape=[2], strides=[3], pads=[0, 1], ceil_mode=1)],
        {"x": (1, 2, 5)},
        {},
    ),
    "max_pool_of_a_window_in_part": (
        [node("MaxPool", "x", "y", kernel_shape=[2], strides=[3], ceil_mode=1)],
        {"x": (1, 2, 7)},
        {},
    ),
    "average_of_lines_at_a_border": (
        [node("AveragePool", "x", "y", kernel_shape=[3], strides=[2], pads=[1, 1])],
        {"x": (1, 2, 5)},
        {},
    ),
    "instance_norm": (
        [node("InstanceNormalization", "xab", "y")],
        IMAGE,
        {"a": floats(4), "b": floats(4, seed=3)},
    ),
    "global_average_pool": ([node("GlobalAveragePool", "x", "y")], IMAGE, {}),
    "global_max_pool": ([node("GlobalMaxPool", "x", "y")], IMAGE, {}),
    "global_average_of_lines": ([node("GlobalAveragePool", "x", "y")], {"x": (2, 3, 5)}, {}),
    "top": ([node("TopK", "xk", ["y", "i"], axis=1)], {"x": (2, 5, 3)}, {"k": ints(2)}),
    "spectrum": ([node("DFT", "x", "y", axis=1)], {"x": (2, 5, 2)}, {}),
    "reduce_mean": ([node("ReduceMean", "x", "y", axes=[-1, 2], keepdims=0)], IMAGE, {}),
    "batch_norm": (
        [node("BatchNormalization", "xabcd", "y", epsilon=1e-3)],
        IMAGE,
        {key: floats(4, seed=seed) + 5 for seed, key in enumerate("abcd")},
    ),
    "flatten": ([node("Flatten", "x", "y", axis=2)], IMAGE, {}),
    "reshape": ([node("Reshape", "xs", "y")], IMAGE, {"s": ints(0, -1, 2)}),
    "resize_cubic": (
        [node("Resize", ["x", "", "s"], "y", mode="cubic", cubic_coeff_a=-0.5)],
        {"x": (1, 2, 5, 6)},
        {"s": np.array([1, 1, 2.5, 0.5], np.float32)},
    ),
    "resize_cubic_inside": (
        [node("Resize", ["x", "", "s"], "y", mode="cubic", exclude_outside=1)],
        {"x": (1, 2, 5, 6)},
        {"s": np.array([1, 1, 2.5, 2], np.float32)},
    ),
    "resize_to_the_first": (
        [
            node(
                "Resize",
                ["x", "", "", "n"],
                "y",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
        ],
        {"x": (1, 2, 3, 4)},
        {"n": ints(1, 2, 2, 8)},
    ),
    "squeeze_unsqueeze": (
        [node("Unsqueeze", "xs", "z"), node("Squeeze", "zs", "y")],
        {"x": (3, 4)},
        {"s": ints(0, 2)},
    ),
    "softmax": ([node("Softmax", "x", "y")], IMAGE, {}),
    "softmax_axis": ([node("Softmax", "x", "y", axis=1)], IMAGE, {}),
    "split_unevenly": (
        [node("Split", "x", "abc", axis=1, num_outputs=3), node("Concat", "cab", "y", axis=1)],
        {"x": (2, 5)},
        {},
    ),
    "dropout_of_inference": (
        [node("Dropout", ["x", "", "t"], "y")],
        IMAGE,
        {"t": np.bool_(False)},
    ),
    "clip_by_an_input": (
        [node("ReduceMean", "x", "m", keepdims=0), node("Clip", ["x", "", "m"], "y")],
        IMAGE,
        {},
    ),
    "dropout": ([node("Dropout", "x", "y")], IMAGE, {}),
    "concat": ([node("Relu", "x", "z"), node("Concat", "xz", "y", axis=-3)], IMAGE, {}),
    "lrn": ([node("LRN", "x", "y", size=3, alpha=0.5, bias=2.0)], {"x": (4, 4, 3, 3)}, {}),
    "add_weight": ([node("Add", "xw", "y")], IMAGE, {"w": floats(4, 1, 1)}),
    "sum": ([node("Sum", "xwx", "y")], IMAGE, {"w": floats(8)}),
    "max": ([node("Max", "xw", "y")], IMAGE, {"w": floats(8)}),
    "one_operand": ([node("Min", "x", "y")], IMAGE, {}),
    "clip": ([node("Clip", ["x", "", "m"], "y")], IMAGE, {"m": np.float32(0.5)}),
    "leaky_relu": ([node("LeakyRelu", "x", "y")], IMAGE, {}),
    "hard_sigmoid": ([node("HardSigmoid", "x", "y")], IMAGE, {}),
    "elu": ([node("Elu", "x", "y")], IMAGE, {}),
    "sigmoid": ([node("Sigmoid", "x", "y")], IMAGE, {}),
    "prelu": ([node("PRelu", "xw", "y")], IMAGE, {"w": floats(8)}),
    "power": (
        [node("Abs", "x", "a"), node("Pow", "aw", "y")],
        IMAGE,
        {"w": np.float32(1.5)},
    ),
    "remainder": ([node("Mod", "xw", "y", fmod=1)], IMAGE, {"w": np.float32(0.3)}),
    "selu": ([node("Selu", "x", "y", gamma=0.5)], IMAGE, {}),
    "shrink": ([node("Shrink", "x", "y", lambd=0.25, bias=0.125)], IMAGE, {}),
    "space_to_depth": ([node("SpaceToDepth", "x", "y", blocksize=2)], {"x": (1, 3, 4, 6)}, {}),
    "constant": (
        [node("Constant", [], "c", value_float=2.5), node("Mul", "xc", "y")],
        IMAGE,
        {},
    ),
    "computed_shape": (
        [
            node("Shape", "x", "s"),
            node("Constant", [], "i", value=numpy_helper.from_array(np.array(0, np.int64))),
            node("Gather", "si", "n", axis=0),
            node("Constant", [], "a", value_ints=[0]),
            node("Unsqueeze", "na", "r"),
            node("Constant", [], "q", value_ints=[-1]),
            node("Concat", "rq", "t", axis=0),
            node("Reshape", "xt", "y"),
        ],
        IMAGE,
        {},
    ),
    "scatter_along_two_axes": (
        [node("ScatterND", "xiu", "y")],
        {"x": (3, 4, 5), "u": (2, 2, 5)},
        {"i": ints([[0, -1], [2, 1]], [[1, 0], [-1, 3]])},
    ),
}


OPSETS = {"batch_norm": 17, "spectrum": 17, "split_unevenly": 18}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_onnx_reference(tmp_path, name):
    nodes, inputs, weights = CASES[name]
    proto = model(nodes, inputs, weights, opset=OPSETS.get(name, 13))
    net = load_onnx(saved(tmp_path, proto))
    feeds = {key: floats(*shape, seed=7) for key, shape in inputs.items()}
    (expected,) = ReferenceEvaluator(proto).run(None, feeds)
    result = net.evaluate(feeds)["y"]
    assert result.dtype == np.float32
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)


def elements(cut):
    start, count, step, copies = cut
    return [start + step * (i // copies) for i in range(count * copies)]


@given(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(1, 3), st.integers(1, 4)))
def test_regular_places_are_a_slice_of_which_each_element_is_repeated(cut):
    assert elements(_strided_copies(elements(cut))) == elements(cut)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=7).map(sorted))
def test_places_that_are_no_such_slice_are_none(places):
    assert (found := _strided_copies(places)) is None or elements(found) == places


@pytest.mark.parametrize(
    ("index", "kinds"),
    [
        (ints(1), ["slice"]),
        (np.array(-1), ["slice", "reshape"]),
        (ints(0, 2), ["slice"]),
        (np.array([[-4, -3], [2, 3]]), ["slice", "reshape"]),
        (ints(0, 2, 3), ["map"]),
        (ints(2, 1), ["map"]),
        (ints(1, 1), ["map"]),
    ],
)
def test_known_indices_at_one_distance_are_a_slice(tmp_path, index, kinds):
    """No tensor of indices is left, and machines without look-ups compute it."""
    proto = model([node("Gather", "xi", "y", axis=1)], IMAGE, {"i": index})
    network = load_onnx(saved(tmp_path, proto))
    assert [made.op.kind for made in network.nodes] == kinds
    assert len(network.weights) == (kinds == ["map"])
    x = floats(*IMAGE["x"])
    np.testing.assert_array_equal(network.evaluate({"x": x})["y"], np.take(x, index, axis=1))


def test_slopes_before_operator_set_7_lie_along_channels(tmp_path):
    x, slope = floats(*IMAGE["x"]), floats(IMAGE["x"][1])
    proto = model([node("PRelu", "xw", "y")], IMAGE, {"w": slope}, opset=6)
    result = load_onnx(saved(tmp_path, proto)).evaluate({"x": x})["y"]
    expected = np.where(x < 0, slope[:, None, None] * x, x)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_bounds_may_be_infinite_other_numbers_not(tmp_path):
    x = floats(*IMAGE["x"])
    proto = model([node("Clip", "x", "y", min=-np.inf, max=0.5)], IMAGE, opset=6)
    result = load_onnx(saved(tmp_path, proto)).evaluate({"x": x})["y"]
    np.testing.assert_array_equal(result, np.minimum(x, np.float32(0.5)))
    proto = model([node("Elu", "x", "y", alpha=np.inf)], IMAGE, opset=6)
    with pytest.raises(GraphError, match="attribute alpha must be a finite number, found inf"):
        load_onnx(saved(tmp_path, proto))


@pytest.mark.parametrize(("approximate", "function"), [("none", "gelu"), ("tanh", "gelu_tanh")])
def test_gelu_by_the_error_function_or_by_tanh(tmp_path, approximate, function):
    proto = model([node("Gelu", "x", "y", approximate=approximate)], IMAGE, opset=20)
    (made,) = load_onnx(saved(tmp_path, proto)).nodes
    assert made.op.kind == function


def test_softmax_before_operator_set_13_takes_a_matrix(tmp_path):
    proto = model([node("Softmax", "x", "y", axis=2)], IMAGE, opset=12)
    x = floats(*IMAGE["x"])
    result = load_onnx(saved(tmp_path, proto)).evaluate({"x": x})["y"]
    powers = np.exp(x.reshape(8, 72).astype(float))
    expected = (powers / powers.sum(axis=1, keepdims=True)).reshape(x.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_layers_have_safe_unique_names(tmp_path):
    weights = {"w": floats(4, 4, 1, 1), "v": floats(5, 4 * 9 * 8)}
    nodes = [
        node("Conv", "xw", "a", name="../../Layer\n1"),
        node("Conv", "aw", "b", name="layer/1"),
        node("Flatten", "b", "c"),
        node("Gemm", "cv", "y", transB=1),
    ]
    layers = list(load_onnx(saved(tmp_path, model(nodes, IMAGE, weights))).layers())
    assert [name for name, _ in layers] == ["layer_1", "layer_1_2", "gemm"]
    assert [type(op) for _, op in layers] == [Conv2d, Conv2d, Gemm]


def test_batch_replaces_an_open_dimension(tmp_path):
    path = saved(tmp_path, model([node("Relu", "x", "y")], {"x": ("N", 4)}))
    assert load_onnx(path, batch=7).inputs[0].shape == (7, 4)


def test_batch_replaces_a_fixed_dimension_also_in_reshapes(tmp_path):
    proto = model([node("Reshape", "xs", "y")], {"x": (1, 4, 3, 3)}, {"s": ints(1, 36)})
    net = load_onnx(saved(tmp_path, proto), batch=5)
    assert net.tensors["y"].shape == (5, 36)


def test_batch_leaves_reshapes_alone_that_do_not_begin_with_it(tmp_path):
    proto = model([node("Reshape", "xs", "y")], {"x": (1, 4, 6)}, {"s": ints(-1, 8)})
    assert load_onnx(saved(tmp_path, proto), batch=5).tensors["y"].shape == (15, 8)


@pytest.mark.parametrize("opset", [11, 12, 13])
def test_pads_are_an_input_from_operator_set_11_on(tmp_path, opset):
    proto = model([node("Pad", "xp", "y")], {"x": (2, 3)}, {"p": ints(0, 1, 2, 0)}, opset=opset)
    assert load_onnx(saved(tmp_path, proto)).tensors["y"].shape == (4, 4)


def test_the_element_type_can_be_chosen(tmp_path):
    path = saved(tmp_path, model([node("Add", "xw", "y")], IMAGE, {"w": floats(8)}))
    net = load_onnx(path, dtype="f64")
    assert {tensor.dtype for tensor in net.tensors.values()} == {"f64"}
    assert net.values["w"].dtype == np.float64


@pytest.mark.parametrize(
    ("ends", "expected"),
    [({}, (2, 3, 4, 5)), ({"start": 1, "end": 3}, (3, 4)), ({"start": -2}, (4, 5)),
     ({"end": -1}, (2, 3, 4)), ({"start": -9, "end": 9}, (2, 3, 4, 5)),
     ({"start": 3, "end": 1}, ())],
)  # fmt: skip
def test_a_part_of_a_shape(tmp_path, ends, expected):
    nodes = [
        node("Shape", "x", "s", **ends),
        node("Concat", "st", "u", axis=0),
        node("Reshape", "xu", "y"),
    ]
    proto = model(nodes, {"x": (2, 3, 4, 5)}, {"t": ints(-1)}, opset=15)
    rest = 120 // int(np.prod(expected, dtype=int))
    assert load_onnx(saved(tmp_path, proto)).tensors["y"].shape == (*expected, rest)


@pytest.mark.parametrize(
    ("shape", "attributes", "along"),
    [((4,), {"axis": 1}, (4, 1, 1)), ((9, 8), {}, (9, 8)), ((4, 9), {"axis": 1}, (4, 9, 1)),
     ((2,), {"axis": 0}, (2, 1, 1, 1)), ((1, 1), {}, ()), ((), {}, ()),
     ((4, 1), {"axis": 1}, (4, 1, 1))],
)  # fmt: skip
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("opset", [5, 6])
def test_broadcasting_before_operator_set_7(tmp_path, shape, attributes, along, stored, opset):
    w, x = floats(*shape, seed=1), floats(*IMAGE["x"])
    inputs, weights = (IMAGE, {"w": w}) if stored else ({**IMAGE, "w": shape}, {})
    proto = model([node("Mul", "xw", "y", broadcast=1, **attributes)], inputs, weights, opset=opset)
    net = load_onnx(saved(tmp_path, proto))
    result = net.evaluate({"x": x} if stored else {"x": x, "w": w})["y"]
    assert np.array_equal(result, x * w.reshape(along))


def test_shapes_of_inputs_can_be_given(tmp_path):
    nodes = [node("Relu", "x", "r"), node("Add", "rw", "y")]
    path = saved(tmp_path, model(nodes, {"x": ("N", 3, None, "W"), "w": (1, 1, 4, 4)}))
    net = load_onnx(path, shapes={"x": (2, 3, 4, 4)})
    assert [tensor.shape for tensor in net.inputs] == [(2, 3, 4, 4), (1, 1, 4, 4)]


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        ((2, 4, 9, 8), None),
        ((2, "C", None, 0), None),
        (None, None),
        ((2, "C", None, 7), "2x?x?x7"),
        ((2, 4, 9), "2x4x9"),
        ((), "scalar"),
    ],
)
def test_a_declared_shape_of_an_output_is_compared(tmp_path, caplog, declared, shown):
    """Exporters leave old ones behind: what the nodes compute is right, and a warning says so."""
    proto = model([node("Relu", "x", "y")], IMAGE)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, declared))
    path = saved(tmp_path, proto)
    assert load_onnx(path).tensors["y"].shape == (2, 4, 9, 8)
    message = f"output 'y' is declared {shown}, its nodes compute 2x4x9x8"
    assert caplog.messages == ([] if shown is None else [message])
    load_onnx(path, batch=3)
    assert len(caplog.messages) == (shown is not None)


def test_a_product_without_its_addend(tmp_path):
    """A factor of 0 leaves it out, whatever it holds."""
    weights = {"w": floats(5, 4), "c": np.full(4, np.nan, np.float32)}
    proto = model([node("Gemm", "xwc", "y", beta=0.0)], {"x": (3, 5)}, weights)
    x = floats(3, 5, seed=2)
    assert np.array_equal(
        load_onnx(saved(tmp_path, proto)).evaluate({"x": x})["y"], x @ weights["w"]
    )


@pytest.mark.parametrize("n", [1, 4, 7])
@pytest.mark.parametrize("scale", [Fraction(8, 5), Fraction(2, 3), Fraction(3)])
def test_places_of_half_pixels_that_are_symmetric_are_the_same_from_both_ends(n, scale):
    """They are the half pixels where these are symmetric themselves."""
    size = max(1, int(n * scale))

    def places(mode):
        kind = node("Resize", "x", "y", coordinate_transformation_mode=mode)
        given = SimpleNamespace(attributes={a.name: a.s.decode() for a in kind.attribute})
        return [_coordinate(given, i, n, scale, size) for i in range(size)]

    found, plain = places("half_pixel_symmetric"), places("half_pixel")
    assert [a + b for a, b in zip(found, reversed(found), strict=True)] == [n - 1] * size
    assert (found == plain) == (size == n * scale)
    assert {b - a for a, b in pairwise(found)} <= {1 / scale}
