"""ONNX files that are hostile or damaged: external data, pipes, bytes that are no model."""

import hashlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from support.onnx_models import IMAGE, floats, ints, model, node, refusal, saved
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.operators import OPERATORS

WEIGHT = {"w": floats(6, 4, 3, 3)}
CONV = node("Conv", "xw", "y", name="c")

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


@pytest.mark.parametrize(("offset", "length"), [(0, 10**14), (8, 32), (33, 0)])
def test_external_data_beyond_its_file(tmp_path, offset, length):
    (tmp_path / "w.bin").write_bytes(floats(8).tobytes())
    path = saved(tmp_path, external("w.bin", offset=offset, length=length))
    assert refusal(path) == (
        f"{path}: the stored tensor 'w' keeps its data in 'w.bin': {length} bytes from byte "
        f"{offset} on, but it has 32"
    )


def test_external_data_of_the_checksum_that_the_model_says(tmp_path):
    (tmp_path / "w.bin").write_bytes(floats(8).tobytes())
    digest = hashlib.sha1(floats(8).tobytes(), usedforsecurity=False).hexdigest()
    path = saved(tmp_path, external("w.bin", checksum=digest.upper()))
    assert np.array_equal(load_onnx(path).values["w"], floats(8))
    path = saved(tmp_path, external("w.bin", checksum="0" * 40))
    assert refusal(path) == (
        f"{path}: the stored tensor 'w' keeps its data in 'w.bin', whose SHA-1 is {digest}, "
        "the model says another"
    )


def test_external_data_with_an_unknown_entry(tmp_path, caplog, recwarn):
    (tmp_path / "w.bin").write_bytes(floats(8).tobytes())
    path = saved(tmp_path, external("w.bin", **{"colour\x1b": "red"}))
    assert np.array_equal(load_onnx(path).values["w"], floats(8))
    assert caplog.messages == [
        "the stored tensor 'w': its external data have an unknown entry 'colour\\x1b'"
    ]
    assert list(recwarn) == []


def test_external_data_in_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "w.bin")
    path = saved(tmp_path, external("w.bin", length=32))
    assert refusal(path) == (
        f"{path}: the stored tensor 'w' keeps its data in 'w.bin', which is not a regular file"
    )


def test_a_model_in_a_pipe(tmp_path):
    os.mkfifo(path := tmp_path / "m.onnx")
    assert refusal(path) == f"{path}: cannot be read: it is not a regular file"


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
    assert len(refused.message) < 800


INTEGER = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 7, 2**31, 2**63 - 1])
INTEGERS = st.lists(INTEGER, max_size=5)
NAMES = [
    "axes", "axis", "block", "blocksize", "ceil_mode", "dilations", "ends", "group", "keepdims",
    "kernel_shape", "pads", "perm", "size", "starts", "strides", "to", "transA", "transB",
    "value", "value_ints",
]  # fmt: skip


@given(
    kind=st.sampled_from(list(OPERATORS)),
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
    assert len(refused.message) < 800


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
    shown = "node 'y' (größe\\x1b[31m\\u202e): is not an operator that is read"
    assert refusal(saved(tmp_path, proto)).split(";")[0].endswith(shown)
