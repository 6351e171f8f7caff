"""`check gemm --tile` and `machines FILE` on machines that no family generates code for."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "machines").glob("*.toml"))
GEMM = ("gemm", "--m", "1024", "--n", "1024", "--k", "1024")

each = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.output


@each
def test_every_example_is_shown_with_its_numbers_and_their_sources(file):
    text = run("machines", file)
    assert text.startswith(f"{file.stem}: example, not validated: ")
    shown = json.loads(run("machines", file, "--json"))
    assert shown["name"] == file.stem
    assert all(value["key"] in text and value["source"] in text for value in shown["values"])


@each
def test_a_tile_that_does_not_fit_is_refused_and_the_memory_named(file):
    large = "m=65536,n=65536,k=64"
    report = json.loads(run("check", *GEMM, "-m", file, "--tile", large, "--json", code=3))
    assert report["refused"] == 1
    (finding,) = report["findings"]
    memories = [name for name in ("l1", "scratchpad", "sbuf", "psum") if name in finding["message"]]
    assert finding["message"].startswith("tile m=65536, n=65536, k=64 needs ")
    assert len(memories) == 1


@each
def test_the_roofline_of_a_product(file):
    found = json.loads(run("check", *GEMM, "-m", file, "--tile", "m=64,n=64,k=64", "--json"))
    roofline = found["roofline"]
    assert roofline["flops"] == 2 * 1024**3
    assert roofline["levels"]
    assert 0 < roofline["flops_per_second"] <= roofline["peak_flops_per_second"]


def test_tiles_of_two_memories():
    xdna = next(file for file in EXAMPLES if file.stem == "xdna1")
    text = run(
        "check", *GEMM, "--dtype", "bf16", "-m", xdna,
        "--tile", "m=64,n=64,k=64", "--tile", "memory_tile:m=256,n=256,k=256",
    )  # fmt: skip
    assert text.splitlines()[:3] == [
        "ok       tile m=64, n=64, k=64: fits the memories of a core",
        "ok       tile m=256, n=256, k=256: fits memory 'memory_tile'",
        "compute                                 524,288 cycles, 4,096.0 Gop/s peak",
    ]
    assert "bound by dram: 1,920.0 Gop/s, 46.9 % of the peak" in text


@each
def test_what_needs_code_is_refused_by_name(file):
    for command, missing in (
        (("compile", *GEMM), "code generator"),
        (("check", "lenet5"), "code for whole networks"),
    ):
        text = run(*command, "-m", file, code=1)
        assert f"machine '{file.stem}' has no {missing}" in text


@pytest.mark.parametrize("tile", ["m=4", "m=4,n=4,k=0", "m=4,n=4,l=4", "../l1:m=4,n=4,k=4", "4x4"])
def test_a_tile_that_is_none(tile):
    text = run("check", *GEMM, "--tile", tile, code=2)
    assert "--tile takes [MEMORY:]m=M,n=N,k=K" in text


def test_tiles_are_those_of_a_product():
    assert "--tile goes with gemm" in run("check", "lenet5", "--tile", "m=4,n=4,k=4", code=2)
    text = run("check", *GEMM, "--beta", "1", "--tile", "m=4,n=4,k=4", code=2)
    assert "not with --beta" in text
