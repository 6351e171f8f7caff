"""Files of operands and inputs: what is no archive of real numbers is told in one line."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from support.examples import examples
from support.onnx_models import floats, model, node, saved
from tilewright.cli.main import app
from tilewright.codegen.arrays import in_element_type, read_arrays
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ShapeError

PORTABLE = ["gemm", "--m", "4", "--n", "5", "--k", "6", "--dtype", "f32", "-m", "host_portable"]
A, B = np.ones((4, 6), np.float32), np.ones((6, 5), np.float32)
WAY_OUT = "\n  fix: write one with numpy.savez(FILE, NAME=ARRAY)\n"


def archive(**arrays: object) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def packed(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return stream.getvalue()


def single(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def changed(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


WHOLE = archive(a=A, b=B)
REFUSED = {
    b"": "is no .npz file of arrays: it is empty" + WAY_OUT,
    b"hello world": "is no .npz file of arrays: it is no zip archive" + WAY_OUT,
    WHOLE[: len(WHOLE) // 2]: "is no .npz file of arrays: File is not a zip file" + WAY_OUT,
    changed(WHOLE, 200): "is no .npz file of arrays: Bad CRC-32 for file 'a.npy'" + WAY_OUT,
    single(A): "is no .npz file of arrays: it is one array without a name" + WAY_OUT,
    packed(a=b"text"): "is no .npz file of arrays: it holds 'a', which is no array" + WAY_OUT,
    archive(a=np.array(["x", "y"]), b=B): "'a' holds <U1, no real numbers\n",
    archive(a=A + 1j, b=B): "'a' holds complex64, no real numbers\n",
    archive(a=np.full((4, 6), 1e300), b=B): "'a' holds 1e+300, which f32 has not\n",
    archive(a=A): "expected the arrays a, b, found a\n",
    archive(**{"a": A, "\x1b[31m": B}): "expected the arrays a, b, found a, '\\x1b[31m'\n",
    archive(): "expected the arrays a, b, found none\n",
}


@pytest.mark.parametrize("data", REFUSED, ids=range(len(REFUSED)))
def test_a_file_that_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    result = CliRunner().invoke(app, ["run", *PORTABLE, "--input", str(path)])
    assert (result.exit_code, result.stderr) == (1, f"error: {path}: {REFUSED[data]}")


def test_networks_read_the_same(tmp_path: Path) -> None:
    network = saved(tmp_path, model([node("Relu", "x", "y")], {"x": (2, 3)}))
    path = tmp_path / "x.npz"
    path.write_bytes(WHOLE[: len(WHOLE) // 2])
    command = ["run", str(network), "-m", "host_portable", "--input", str(path)]
    refused = CliRunner().invoke(app, command)
    message = f"error: {path}: is no .npz file of arrays: File is not a zip file{WAY_OUT}"
    assert (refused.exit_code, refused.stderr) == (1, message)
    np.savez(path, x=np.full((2, 3), -1e300))
    refused = CliRunner().invoke(app, command)
    message = f"error: {path}: 'x' holds -1e+300, which f32 has not\n"
    assert (refused.exit_code, refused.stderr) == (1, message)


@examples(150)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject, tmp_path_factory) -> None:
    """Bytes changed, ends cut off, of archives with and without compression."""
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.arange(24.0).reshape(4, 6), b=B)
    whole = data.draw(st.sampled_from([WHOLE, stream.getvalue()]))
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))] or whole)
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(damaged)
    try:
        found = read_arrays(path)
    except (ShapeError, MemoryError):
        return
    assert {array.dtype.kind for array in found.values()} <= set("biuf")


def test_numbers_that_no_type_lacks_are_converted() -> None:
    given = np.array([1.5, np.nan, -np.inf, 1e-300])
    found = in_element_type("x", given, dtype("f32"), Path("x.npz"))
    np.testing.assert_array_equal(found, np.array([1.5, np.nan, -np.inf, 0], np.float32))
    with pytest.raises(ShapeError) as caught:
        in_element_type("x", np.array([3, 300]), dtype("u8"), Path("x.npz"))
    assert str(caught.value) == "x.npz: 'x' holds 300, which u8 has not"


def test_what_is_no_finite_number_equals_the_same(tmp_path: Path) -> None:
    """NaN and infinities among the operands: the reference has the same ones in the result."""
    a = A.copy()
    a[1, 2], a[2, 3], a[3] = np.nan, np.inf, 3e38
    path = tmp_path / "x.npz"
    np.savez(path, a=a, b=B)
    result = CliRunner().invoke(app, ["run", *PORTABLE, "--input", str(path)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "result: exact, error 0.0e+00 of the largest value" in result.stdout
    weights = {"w": floats(6, 5)}
    network = saved(tmp_path, model([node("MatMul", ["a", "w"], "y")], {"a": (4, 6)}, weights))
    np.savez(path, a=np.where(a == np.float32(3e38), 1, a))
    command = ["run", str(network), "-m", "host_portable", "--input", str(path)]
    result = CliRunner().invoke(app, [*command, "--compare", "reference"])
    assert (result.exit_code, result.stderr) == (0, "")
