"""ONNX files that are wrong, hostile or damaged: each refusal is one message, tested whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from support.onnx_models import IMAGE, floats, ints, model, node, refusal, saved
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx_import import SUPPORTED

# --- external data ---------------------------------------------------------------------------


def external(location, **entries):
    proto = model([node("Add", "xw", "y")], IMAGE, {"w": floats(8)})
    stored = proto.graph.initializer[0]
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        stored.external_data.add(key=key, value=str(value))
    return proto


def test_external_data_beside_the_model(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"skip" + floats(8).tobytes() + b"more")
    path = saved(tmp_path, external("w.bin", offset=4, length=32))
    assert np.array_equal(load_onnx(path).values["w"], floats(8))


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret"])
def test_external_data_outside_the_folder(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(floats(8).tobytes())
    path = saved(folder, external(location))
    assert refusal(path) == (
        f"{path}: the stored tensor 'w' keeps its data in '{location}', outside the model's "
        "folder; move the data beside the model"
    )


def test_external_data_behind_a_link(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(floats(8).tobytes())
    (folder / "w.bin").symlink_to(tmp_path / "secret")
    assert "outside the model's folder" in refusal(saved(folder, external("w.bin")))


def test_external_data_that_is_missing(tmp_path):
    path = saved(tmp_path, external("none.bin"))
    assert refusal(path) == (
        f"{path}: the stored tensor 'w' keeps its data in 'none.bin', which cannot be read"
    )


def test_external_data_that_is_short(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"1234")
    path = saved(tmp_path, external("w.bin"))
    assert refusal(path) == (
        f"{path}: the stored tensor 'w' does not hold the numbers of a 8 f32 tensor"
    )


# --- refusals --------------------------------------------------------------------------------

WEIGHT = {"w": floats(6, 4, 3, 3)}
CONV = node("Conv", "xw", "y", name="c")


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (
            model([node("Relu", "x", "y")], {"x": ("N", 4)}),
            "input 'x' leaves dimension 0 'N' open; give --batch",
        ),
        (
            model([node("Relu", "x", "y")], {"x": (1, None)}),
            "input 'x' leaves dimension 1 open; export the model with a fixed size",
        ),
        (
            model([node("Relu", "x", "y")], {"x": (1, 0)}),
            "input 'x' has the extent 0 at dimension 1",
        ),
        (
            model([node("Relu", "q", "y", name="act")], IMAGE),
            "node 'act' (Relu) reads 'q', which nothing before it produces",
        ),
        (
            model([node("Relu", "x", "y")], IMAGE, outputs=("z",)),
            "the model's outputs reads 'z', which nothing before it produces",
        ),
        (
            model([CONV], IMAGE, {"w": floats(6, 3, 3, 3)}),
            "node c: conv2d takes 6x4x3x3 f32, but 'w' is 6x3x3x3 f32",
        ),
        (
            model([CONV], IMAGE, {"w": floats(6, 4, 3)}),
            "node 'c' (Conv): weights of 3 dimensions",
        ),
        (
            model([CONV], {"x": (2, 4, 9)}, {"w": floats(6, 4, 3)}),
            "node 'c' (Conv): only images of 4 dimensions are supported, found 3",
        ),
        (
            model([CONV], IMAGE, {"w": floats(6, 4, 11, 3)}),
            "node 'c' (Conv): conv2d: kernel height 11 is larger than the padded input height "
            "9 = 9 + 0 + 0",
        ),
        (
            model([node("Conv", "xw", "y", name="c", strides=[1])], IMAGE, WEIGHT),
            "node 'c' (Conv): attribute strides must be 2 integers, found (1,)",
        ),
        (
            model([node("Conv", "xw", "y", name="c", group=1.5)], IMAGE, WEIGHT),
            "node 'c' (Conv): attribute group must be an integer, found 1.5",
        ),
        (
            model([node("Conv", "xw", "y", name="c", auto_pad="AUTO")], IMAGE, WEIGHT),
            "node 'c' (Conv): auto_pad must not be 'AUTO'",
        ),
        (
            model([node("Conv", ["x"], "y", name="c")], IMAGE),
            "node 'c' (Conv): input 1 is missing",
        ),
        (
            model([node("Gemm", "xw", "y", name="fc")], {"x": (3, 5)}, {"w": floats(4, 5)}),
            "node fc: gemm takes 5x5 f32, but 'w' is 4x5 f32",
        ),
        (
            model([node("MatMul", "xw", "y", name="fc")], {"x": (3, 5)}, {"w": floats(2, 5, 4)}),
            "node 'fc' (MatMul): takes a matrix as second operand, found 2 and 3 dimensions",
        ),
        (
            model([node("Reshape", "xs", "y", name="r")], IMAGE, {"s": ints(7, -1)}),
            "node 'r' (Reshape): reshape: 2x4x9x8 has 576 elements, 7x82 has 574",
        ),
        (
            model([node("Reshape", "xs", "y", name="r")], {**IMAGE, "s": (2,)}),
            "node 'r' (Reshape): input 1 ('s') must be a constant",
        ),
        (
            model([node("Reshape", "xs", "y", name="r")], IMAGE, {"s": ints(-1, -1)}),
            "node 'r' (Reshape): (-1, -1) is not a shape",
        ),
        (
            model(
                [node("BatchNormalization", "xaaaa", "y", name="n", training_mode=1)],
                IMAGE,
                {"a": floats(4)},
                opset=14,
            ),
            "node 'n' (BatchNormalization): training_mode = 1 is not supported, only 0",
        ),
        (
            model([node("MaxPool", "x", "y", name="p")], IMAGE),
            "node 'p' (MaxPool): attribute kernel_shape is missing",
        ),
        (
            model([node("ReduceMean", "x", "y", name="m", axes=[1])], IMAGE),
            "node 'm' (ReduceMean): only the mean over axes 2 and 3 is supported",
        ),
        (
            model([node("Transpose", "x", "y", name="t")], IMAGE),
            "node 't' (Transpose): is supported only where its operands are constants, as in the "
            "computation of a shape",
        ),
        (
            model([node("Add", "xw", "y", name="a")], IMAGE, {"w": ints(1)}),
            "node 'a' (Add) computes with 'w', which holds int64",
        ),
        (
            model([node("Softmax", "x", "y", name="s", axis=4)], IMAGE),
            "node 's' (Softmax): axis 4 is outside -4..3",
        ),
        (
            model([node("Relu", "x", "y"), node("Relu", "x", "y")], IMAGE),
            "the tensor 'y' is defined a second time",
        ),
    ],
)
def test_a_model_that_cannot_be_imported(tmp_path, proto, message):
    path = saved(tmp_path, proto)
    assert refusal(path) == f"{path}: {message}"


def test_an_unknown_operator_is_named_with_those_that_are_known(tmp_path):
    name = "evil\n\x1b[31m" + "x" * 100
    path = saved(tmp_path, model([node("Einsum", "x", "y", name=name, equation="a")], IMAGE))
    shown = "'evil\\n\\x1b[31m" + "x" * 22 + "..."
    assert refusal(path) == (
        f"{path}: operator 'Einsum' is not supported (node {shown} (Einsum)); "
        f"supported operators: {', '.join(SUPPORTED)}"
    )


def test_an_operator_of_another_domain(tmp_path):
    path = saved(tmp_path, model([node("Relu", "x", "y", name="r", domain="my.own")], IMAGE))
    assert refusal(path).startswith(
        f"{path}: operator 'Relu' of domain 'my.own' is not supported (node 'r' (Relu)); supported"
    )


def test_batch_below_one(tmp_path):
    path = saved(tmp_path, model([node("Relu", "x", "y")], IMAGE))
    assert refusal(path, batch=0) == f"{path}: batch must be a positive integer, found 0"


def test_half_precision_is_refused(tmp_path):
    proto = model([node("Relu", "x", "y")], IMAGE)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    path = saved(tmp_path, proto)
    assert refusal(path) == (
        f"{path}: input 'x' has the element type FLOAT16; supported are FLOAT and DOUBLE, and "
        "INT32, INT64 and BOOL for shapes and flags"
    )


def test_missing_file(tmp_path):
    path = tmp_path / "none.onnx"
    assert refusal(path) == f"{path}: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an ONNX model: it has no nodes"),
        (b"\x89PNG\r\n\x1a\n", "is not an ONNX model: its bytes cannot be decoded"),
    ],
)
def test_not_a_model(tmp_path, content, message):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert refusal(path) == f"{path}: {message}"


def test_numbers_that_do_not_fill_their_shape(tmp_path):
    proto = model([node("Add", "xw", "y")], IMAGE, {"w": floats(8)})
    proto.graph.initializer[0].dims[0] = 9
    path = saved(tmp_path, proto)
    assert refusal(path) == (
        f"{path}: the stored tensor 'w' does not hold the numbers of a 9 f32 tensor"
    )


# --- damaged files ---------------------------------------------------------------------------

SOUND = [
    proto.SerializeToString()
    for proto in (
        model([CONV, node("Relu", "y", "z")], IMAGE, WEIGHT, ("z",)),
        model([node("Gemm", "xwb", "y")], {"x": (3, 5)}, {"w": floats(5, 4), "b": floats(4)}),
        model([node("Reshape", "xs", "y")], IMAGE, {"s": ints(0, -1)}),
        model([node("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2])], IMAGE),
        model([node("Shape", "x", "s"), node("Reshape", "xs", "y")], IMAGE),
    )
]


@given(
    content=st.sampled_from(SOUND),
    edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=6),
    cut=st.none() | st.integers(0, 2**16),
)
def test_a_damaged_file_loads_or_is_refused_in_words(tmp_path, content, edits, cut):
    damaged = bytearray(content)
    for position, value in edits:
        damaged[position % len(damaged)] = value
    path = tmp_path / "m.onnx"
    path.write_bytes(damaged if cut is None else damaged[: cut % len(damaged)])
    try:
        load_onnx(path)
    except GraphError as error:
        refused = error
    else:
        return
    assert refused.where == str(path)
    assert len(refused.message) < 400


INTEGER = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 7, 2**31, 2**63 - 1])
INTEGERS = st.lists(INTEGER, max_size=5)
NAMES = [
    "axes", "axis", "block", "blocksize", "ceil_mode", "dilations", "ends", "group", "keepdims",
    "kernel_shape", "pads", "perm", "size", "starts", "strides", "to", "transA", "transB",
    "value", "value_ints",
]  # fmt: skip


@given(
    kind=st.sampled_from(SUPPORTED),
    inputs=st.lists(st.sampled_from(["x", "m", "w", "b", "i", "j", "", "none"]), max_size=4),
    attributes=st.dictionaries(
        st.sampled_from(NAMES), INTEGER | INTEGERS | st.floats() | st.text(max_size=4), max_size=4
    ),
    integers=INTEGERS,
    batch=st.none() | INTEGER,
)
def test_a_node_of_any_attributes_loads_or_is_refused_in_words(
    tmp_path, kind, inputs, attributes, integers, batch
):
    proto = model(
        [node(kind, inputs, ["y"], **{k: v for k, v in attributes.items() if v != []})],
        {**IMAGE, "m": (3, 4)},
        {**WEIGHT, "b": floats(4), "i": np.array(integers, np.int64), "j": ints(2)},
    )
    path = saved(tmp_path, proto)
    try:
        load_onnx(path, batch=batch)
    except GraphError as error:
        refused = error
    else:
        return
    assert refused.where == str(path)
    assert len(refused.message) < 400


@pytest.mark.parametrize("name", ["node_name", "image_x", "weight_w", "result_y", "strides"])
def test_names_that_are_no_text(tmp_path, name):
    """Each name of the file in turn, with a byte in it that is no UTF-8."""
    proto = model(
        [node("Conv", ["image_x", "weight_w"], ["result_y"], name="node_name", strides=[1, 1])],
        {"image_x": (2, 4, 9, 8)},
        {"weight_w": floats(6, 4, 3, 3)},
        outputs=("result_y",),
    )
    path = saved(tmp_path, proto)
    data = path.read_bytes()
    assert name.encode() in data
    path.write_bytes(data.replace(name.encode(), b"\xff" + name.encode()[1:]))
    assert refusal(path) == f"{path}: is not an ONNX model: a name is not UTF-8 text"


def test_texts_are_shown_without_control_characters(tmp_path):
    proto = model([node("größe\x1b[31m\u202e", ["x"], ["y"])], IMAGE)
    shown = "operator 'größe\\x1b[31m\\u202e' is not supported (node 'y' (größe\\x1b[31m\\u202e))"
    assert refusal(saved(tmp_path, proto)).split(";")[0].endswith(shown)
