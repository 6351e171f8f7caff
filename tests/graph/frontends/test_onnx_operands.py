"""Nodes of ONNX whose operands and attributes contradict each other: each refusal tested whole."""

import numpy as np
import pytest

from support.onnx_models import floats, ints, model, node, refusal, saved
from tilewright.graph.frontends.onnx.importer import MOST_ELEMENTS


def numbers(*values):
    return np.array(values, np.float32)


KERNEL = {"w": floats(6, 4, 3, 3)}


@pytest.mark.parametrize(
    ("operator", "attributes", "values", "message"),
    [
        ("Squeeze", {}, {"a": ints(1)}, "an axis of (1, 4, 6, 6) to drop is longer than 1"),
        *(
            (
                "Compress",
                {"axis": 1},
                {"c": np.array(condition)},
                "takes no element, or others than the 4 of its axis",
            )
            for condition in ([False] * 4, [True, False, False, False, True])
        ),
        ("Unsqueeze", {}, {"a": ints(1, -5)}, "the axes (1, -5) are not different ones"),
        ("Unsqueeze", {}, {"a": ints(0, 0)}, "the axes (0, 0) are not different ones"),
        ("DepthToSpace", {"blocksize": 3}, {}, "4 channels are no blocks of 3 x 3"),
        (
            "SpaceToDepth",
            {"blocksize": 4},
            {},
            "space_to_depth: block = 4 does not divide height = 6",
        ),
        ("Tile", {}, {"r": ints(1, 2)}, "(1, 2) repeats of 4 dimensions"),
        (
            "Slice",
            {},
            {"b": ints(0, 1), "e": ints(2), "a": ints(0)},
            "starts, ends, axes and steps differ in their number",
        ),
        (
            "Pad",
            {},
            {"p": ints(*[0] * 8), "v": floats(2)},
            "constant_value must be a single number",
        ),
        ("Pad", {}, {"p": ints(1, 1)}, "2 pads do not fit 4 dimensions"),
        (
            "MaxPool",
            {"kernel_shape": [2, 2], "strides": [0, 1]},
            {},
            "strides, dilations and kernels must be positive",
        ),
        (
            "MaxPool",
            {"kernel_shape": [7, 2]},
            {},
            "pool2d: kernel height 7 is larger than the padded input height 6 = 6 + 0 + 0",
        ),
        (
            "AveragePool",
            {"kernel_shape": [2, 2, 2]},
            {},
            "kernel_shape must be 2 integers, found (2, 2, 2)",
        ),
        ("Conv", {"kernel_shape": [5, 5]}, KERNEL, "kernel_shape contradicts its (3, 3) weights"),
        (
            "Conv",
            {"dilations": [0, 1]},
            KERNEL,
            "strides, dilations and kernels must be positive",
        ),
        (
            "Conv",
            {"dilations": [3, 1]},
            KERNEL,
            "conv2d: kernel height 3 (dilated by 3: 7) is larger than the padded input height 6 = 6"
            " + 0 + 0",
        ),
        ("Gemm", {}, {"w": floats(6, 4)}, "takes matrices, found 4 and 2 dimensions"),
        ("MatMul", {}, {"w": np.float32(2)}, "a single number is no matrix"),
        (
            "Dropout",
            {},
            {"r": np.float32(0.5), "t": np.array(True)},
            "training_mode = True is not supported, only False",
        ),
        (
            "Reshape",
            {},
            {"s": ints(0, 0, 0, 0, 0)},
            "(0, 0, 0, 0, 0) keeps an extent that (1, 4, 6, 6) lacks",
        ),
        (
            "Reshape",
            {},
            {"s": ints(-1, 5)},
            "reshape: 1x4x6x6 has 144 elements, 28x5 has 140",
        ),
        ("Resize", {}, {"": None, "s": numbers(1, 1, 0, 2)}, "scales and sizes must be positive"),
        ("Resize", {}, {"": None, "s": numbers(1, 1, 0.1, 2)}, "leaves no element"),
        (
            "GroupNormalization",
            {"num_groups": 3},
            {"a": floats(4), "b": floats(4)},
            "3 groups do not divide the channels of (1, 4, 6, 6)",
        ),
        (
            "Transpose",
            {"perm": [0, 1, 1, 2]},
            {},
            "perm = (0, 1, 1, 2) does not order 4 dimensions",
        ),
        (
            "Concat",
            {"axis": 1},
            {"w": floats(1, 4, 6, 5)},
            "concat: shapes 1x4x6x6, 1x4x6x5 differ in more than axis 1",
        ),
        (
            "LRN",
            {"size": 0},
            {},
            "local_response_norm: size must be a positive integer, found 0",
        ),
        (
            "Clip",
            {},
            {"l": floats(2), "h": np.float32(1)},
            "min must be one number that is not nan",
        ),
    ],
)
def test_an_operator_of_images(tmp_path, operator, attributes, values, message):
    one = node(operator, ["x", *values], "y", name="n", **attributes)
    given = {name: value for name, value in values.items() if name}
    opset = 21 if operator == "GroupNormalization" else 13
    path = saved(tmp_path, model([one], {"x": (1, 4, 6, 6)}, given, opset=opset))
    assert refusal(path) == f"{path}: node 'n' ({operator}): {message}"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((1, 2), "parts of (1, 2) are not the 4 elements of axis 1"),
        ((3, 2), "parts of (3, 2) are not the 4 elements of axis 1"),
    ],
)
def test_parts_of_another_length(tmp_path, sizes, message):
    one = node("Split", "xs", "yz", name="n", axis=1)
    split = model([one], {"x": (1, 4)}, {"s": ints(*sizes)}, outputs=("y", "z"))
    path = saved(tmp_path, split)
    assert refusal(path) == f"{path}: node 'n' (Split): {message}"


def test_more_of_the_largest_than_there_are(tmp_path):
    one = node("TopK", "xk", "yz", name="n")
    path = saved(tmp_path, model([one], {"x": (1, 6)}, {"k": ints(7)}, outputs=("y",)))
    assert refusal(path) == f"{path}: node 'n' (TopK): k = 7 of 6 elements"


@pytest.mark.parametrize("extents", [(-1, 2), (1 << 20, 1 << 20)])
def test_a_constant_has_a_shape_that_memory_has_room_for(tmp_path, extents):
    nodes = [node("ConstantOfShape", "s", "c", name="n"), node("Add", "xc", "y")]
    path = saved(tmp_path, model(nodes, {"x": (2,)}, {"s": ints(*extents)}))
    assert refusal(path) == (
        f"{path}: node 'n' (ConstantOfShape): one value of the shape {extents}, "
        f"at most {MOST_ELEMENTS} elements"
    )
