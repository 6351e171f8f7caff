"""The folder of a whole network: `explain` shows it again, `check` finds what changed in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.onnx_models import floats, model, node, saved
from tilewright.cli.main import app


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """(the folder of a small network, what compiling it printed)."""
    nodes = [node("Gemm", ["x", "w"], ["y"], "only")]
    path = saved(tmp_path_factory.mktemp("network"), model(nodes, {"x": (8, 16)}, {"w": WEIGHTS}))
    out = tmp_path_factory.mktemp("out") / "net"
    return out, run("compile", path, "--machine", "sw26010", "-o", out)


WEIGHTS = floats(16, 32, seed=1)


def test_explain_shows_what_compile_printed_and_why(written: tuple[Path, str]) -> None:
    folder, printed = written
    table, _, totals = printed.replace(f"written to {folder}\n", "").rpartition("total ")
    text = run("explain", folder)
    assert text.startswith(table.rstrip(" \n"))
    assert text.endswith(f"\n\nno stage changes a layout\n\ntotal {totals}")
    assert "\nthe stage, the slowest first, and what takes their time:\n  only  100.0 %: " in text
    assert run("explain", folder, "--layer", "only", code=2) == (
        f"error: {folder} holds a whole network: leave --layer and --roofline\n"
    )


def test_tables_of_stages_keep_to_a_page_or_to_what_columns_says(
    written: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed(columns: str) -> str:
        monkeypatch.setenv("COLUMNS", columns)
        return "".join(f"{line.rstrip()}\n" for line in run("explain", written[0]).splitlines())

    one_line = " only   gemm m2 n32 k16  product  gemm       launch "
    assert max(map(len, printed("").splitlines())) <= 100
    assert one_line in printed("")
    assert one_line in printed("as many as there are")
    assert "\n only               product    launch " in printed("70")
    assert "\n   gemm m2 n32 k16  gemm\n" in printed("70")


def test_the_folder_keeps_the_causes_of_each_stage(written: tuple[Path, str]) -> None:
    """`network.json` has all that `explain` of the network says, but what fusing saves."""
    folder, _ = written
    kept = json.loads((folder / "network.json").read_text())["result"]
    found = json.loads(run("explain", folder, "--json"))
    assert found["run"] == kept
    assert [(s["stage"], s["cycles"], s["causes"]) for s in found["stages"]] == [
        (s["name"], s["cycles"], s["causes"]) for s in kept["stages"]
    ]
    for stage in kept["stages"]:
        assert sum(stage["causes"].values()) == stage["cycles"]
        assert (stage["nodes"], stage["causes"].keys() >= {"launch"}) == (["only"], True)
        assert stage["moved_bytes"] >= 4 * (8 * 16 + 16 * 32 + 8 * 32) / 4
    bounds = kept["bounds"]
    assert max(bounds["compute_cycles"], bounds["transfer_cycles"]) < kept["cycles"]
    assert bounds["product_cycles"] <= bounds["estimate_cycles"]
    choice = kept["layout_choice"]
    assert (choice["proven"], choice["bound_cycles"]) == (True, choice["cycles"])


def test_a_folder_without_causes_is_shown_as_it_was(
    written: tuple[Path, str], tmp_path: Path
) -> None:
    stored = json.loads((written[0] / "network.json").read_text())
    for key in ("layouts", "bounds", "layout_choice"):
        del stored["result"][key]
    for stage in stored["result"]["stages"]:
        del stage["causes"], stage["nodes"], stage["moved_bytes"]
    (tmp_path / "network.json").write_text(json.dumps(stored))
    assert " only  100.0 %: causes are not known\n" in run("explain", tmp_path)


def test_a_folder_keeps_its_machine(written: tuple[Path, str]) -> None:
    folder, _ = written
    assert run("check", folder, "-m", "host", code=2) == (
        f"error: {folder} holds a network for its own machine: leave --machine\n"
    )
    assert run("explain", folder, "-m", "host", "--batch", 2, code=2) == (
        f"error: {folder} was compiled for its own machine: leave --machine, --batch, or explain "
        "what it was compiled from\n"
    )


def test_check_names_the_files_that_changed(written: tuple[Path, str]) -> None:
    folder, _ = written
    assert run("check", folder).endswith("checks on sw26010, 0 refused\n")
    header, makefile = sorted(folder.glob("*.h"))[0], folder / "Makefile"
    texts = header.read_text(), makefile.read_text()
    header.write_text(texts[0] + "\n")
    makefile.unlink()
    refused = [line for line in run("check", folder, code=3).splitlines() if "refused " in line]
    header.write_text(texts[0])
    makefile.write_text(texts[1])
    assert refused == [
        f"refused  {makefile}: as it was written: is missing",
        f"refused  {header}: as it was written: has changed since it was written",
    ]


def test_a_report_shows_the_stages(written: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = written
    assert run("report", folder, "-o", tmp_path / "r.html") == f"written to {tmp_path / 'r.html'}\n"
    assert ">only</span>" in (tmp_path / "r.html").read_text()


def test_commands_on_kernels_say_what_the_folder_holds(written: tuple[Path, str]) -> None:
    folder, _ = written
    assert run("simulate", folder, code=1) == (
        f"error: {folder}: holds a whole network, not the kernels of its layers\n"
        "  fix: `tilewright explain` shows it; compile with --layers writes the kernels\n"
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "native network 2", "native network 1",
            "has format 'tilewright native network 1', expected 'tilewright native network 2'\n"
            "  fix: compile it with this version of tilewright\n",
        ),
        ('"Makefile"', '"../Makefile"', "'../Makefile' is not the name of a generated file\n"),
        ('"Makefile",', "", "lists {} files and {} digests\n"),
    ],
)  # fmt: skip
def test_a_description_is_read_with_suspicion(
    written: tuple[Path, str], tmp_path: Path, before: str, after: str, message: str
) -> None:
    text = (written[0] / "network.json").read_text()
    files = len(list(written[0].iterdir())) - 1
    path = tmp_path / "network.json"
    path.write_text(text.replace(before, after))
    assert run("check", tmp_path, code=1) == f"error: {path}: {message.format(files - 1, files)}"


def test_a_divided_network_is_shown_again(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    printed = run("compile", "lenet5", "--machine", "bwdsp-56", "-o", folder)
    table = printed.replace(f"written to {folder}\n", "")
    explained = run("explain", folder)
    assert explained.startswith(table)
    assert explained == run("explain", "lenet5", "--machine", "bwdsp-56")
    for command in ("report", "simulate", "check"):
        assert run(command, folder, code=1) == (
            f"error: {folder}: holds the plan of a divided network, not the kernels of its layers\n"
            "  fix: `tilewright explain` shows it\n"
        )
