"""`tilewright train`: a model and examples from files, through checkpoint, curve and weights."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from support.onnx_models import model, node, saved
from support.training import blobs
from tilewright.cli.main import app


@pytest.fixture
def files(tmp_path):
    """A product with a bias for three classes, and examples."""
    start = 0.1 * np.random.default_rng(3).standard_normal((3, 4))
    weights = {"w": start.astype("f4"), "b": np.zeros(3, "f4")}
    nodes = [node("Gemm", ["x", "w", "b"], ["y"], transB=1)]
    saved(tmp_path, model(nodes, {"x": (16, 4)}, weights))
    examples = blobs(80, 0)
    np.savez(tmp_path / "examples.npz", images=examples.images, labels=examples.labels)
    return tmp_path


def invoked(path, *options):
    return CliRunner().invoke(app, ["train", str(path / "m.onnx"), "--batch", "16", *options])


def test_training_goes_on_from_its_checkpoint_and_writes_curve_and_weights(files):
    folder = files
    data = ("--data", str(folder / "examples.npz"), "--checkpoint", str(folder / "kept.npz"))
    first = invoked(folder, *data, "--epochs", "2", "--rate", "0.1")
    assert first.exit_code == 0, first.output
    more = (*data, "--resume", "--epochs", "5", "--rate", "0.1", "--json")
    more = (*more, "--curve", str(folder / "curve.svg"), "-o", str(folder / "weights.npz"))
    second = invoked(folder, *more)
    assert second.exit_code == 0, second.output
    found = json.loads(second.stdout)
    assert [epoch["number"] for epoch in found["epochs"]] == [1, 2, 3, 4, 5]
    assert found["epochs"][4]["test_accuracy"] == 1.0
    assert (folder / "curve.svg").read_text().startswith("<?xml")
    with np.load(folder / "weights.npz") as arrays:
        assert {name: arrays[name].shape for name in arrays.files} == {"w": (3, 4), "b": (3,)}


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (("--resume",), 2, "error: --resume goes on from a --checkpoint, found none\n"),
        (("--curve", "a.pdf"), 2, "error: --curve takes a file .png or .svg, found a.pdf\n"),
        (
            ("--optimiser", "newton"),
            1,
            "error: unknown optimiser 'newton'\n  fix: sgd, momentum or adam\n",
        ),
        (
            ("--micro-batches", "3"),
            1,
            "error: m: 3 micro-batches do not divide a batch of 16\n",
        ),
    ],
)
def test_what_is_refused_before_anything_is_compiled(files, options, status, message):
    folder = files
    found = invoked(folder, "--data", str(folder / "examples.npz"), *options)
    assert (found.exit_code, found.stderr) == (status, message)
