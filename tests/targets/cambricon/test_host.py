"""The host's program: stored in the executable, checked, and done by `simulate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from support.cambricon import TABLE
from tilewright.asm import SourceErrors, assemble, elf_bytes, link, object_summary, read_elf
from tilewright.cli.main import app
from tilewright.targets.cambricon.dla.host import HostStep, host_program

DATA = """
.code
@fc_fp y, x, w, b
.static_rw
@neuron x, 1, 1, 1, 4
@neuron y, 1, 1, 1, 2
.static_ro
@synapse w, 2, 1, 1, 4
@neuron b, 1, 1, 1, 2
"""
HOST = """
.host
@upload x ; an array of the input
@initialise w, #256
@initialise b, #-256
@launch
@download y
"""


def test_one_executable_holds_both_programs() -> None:
    image = link([assemble(DATA + HOST, TABLE)], TABLE)
    again = read_elf(elf_bytes(image), TABLE)
    assert host_program(again, ("q",)) == (
        HostStep("upload", "x"),
        HostStep("initialise", "w", 256), HostStep("initialise", "b", -256),
        HostStep("launch"), HostStep("download", "y"),
    )  # fmt: skip
    assert object_summary(again).endswith(
        "host program\n  @upload x\n  @initialise w, #256\n  @initialise b, #-256\n  @launch\n"
        "  @download y\n"
    )


def test_without_one_the_host_uploads_what_is_given_and_fetches_what_is_written() -> None:
    image = link([assemble(DATA, TABLE)], TABLE)
    steps = [(step.action, step.name) for step in host_program(image, ("x", "w"))]
    fetched = [("download", "x"), ("download", "y")]
    assert steps == [("upload", "x"), ("upload", "w"), ("launch", ""), *fetched]


def test_an_executable_is_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.dla").write_text(DATA + HOST)
    np.savez("x.npz", x=np.arange(4.0))
    np.savez("q.npz", x=np.arange(4.0), w=np.ones((2, 4)))

    def invoke(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, list(arguments))
        return result.exit_code, result.stdout + result.stderr

    assert invoke("asm", "p.dla", "-o", "p", "--executable")[0] == 0
    run = ("simulate", "p", "--machine", "dla-al")
    assert invoke(*run, "--input", "x.npz", "--output", "y.npz")[0] == 0
    with np.load("y.npz") as outputs:
        assert outputs.files == ["y"]
        assert outputs["y"].reshape(-1).tolist() == [5 * 256, 5 * 256]
    assert invoke(*run, "--timing")[0] == 0
    code, text = invoke(*run)
    assert (code, text) == (
        1,
        "error: the host's program uploads 'x', and no array is given for it\n"
        "  fix: give it with --input, or count cycles alone with --timing\n",
    )
    code, text = invoke(*run, "--input", "q.npz")
    assert (code, text) == (
        1, "error: the host's program does not upload 'w'\n  fix: leave it out\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("@uplaod x", "the host's program has no @uplaod; did you mean 'upload'?"),
        ("@upload", "@upload is written @upload name"),
        ("@initialise x, y", "@initialise is written @initialise name, #element"),
        ("@initialise x, #40000\n@launch", "the element 40000 is outside -32768 .. 32767"),
        ("@launch\n@launch", "a second @launch: the host launches once"),
        ("@launch\n@upload x", "@upload x behind @launch has no effect"),
        ("@download y", "@download y before @launch; write @launch before"),
        ("@launch\n@download w", "@download w, which no program writes"),
        ("@upload x", "the host program has no @launch; write @launch"),
    ],
)
def test_what_is_refused(host: str, message: str) -> None:
    with pytest.raises(SourceErrors) as error:
        assemble(f"{DATA}.host\n{host}\n", TABLE)
    first = error.value.diagnostics[0]
    assert "; ".join(part for part in (first.message, first.fix) if part) == message
    assert first.error_code.number in ("D103", "D601")
