"""Folders of results: complete or not there, read back as written, distrusted otherwise."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from support.compiled import kernel_of
from tilewright.codegen.folder import ArtifactError, new_folder
from tilewright.common.errors import MachineError, ProgramError
from tilewright.compiler.alone import compile_layers
from tilewright.compiler.artifact import (
    read_compiled,
    read_kernel,
    read_network,
    stored_op,
)
from tilewright.compiler.settings import Settings
from tilewright.compiler.written import Written
from tilewright.machine import load_machine
from tilewright.ops import gemm

OP = gemm(100, 64, 64)
MACHINE = load_machine("sw26010")


@pytest.fixture(scope="module")
def kernel():
    return kernel_of(OP, MACHINE)


@pytest.fixture
def written(kernel, tmp_path) -> Path:
    return kernel.write(tmp_path / "out")


def test_reports_show_the_kernel_of_a_folder(written):
    layer = read_kernel(written)[0].explanation.layer
    found = read_compiled(written)
    assert (found.name, found.machine, len(found.lines)) == (layer.name, MACHINE.name, 1)


@pytest.mark.parametrize(
    ("kernels", "explained", "layers"), [("", None, False), ("a", None, True), ("a", "all", False)]
)
def test_layers_of_a_folder_have_names(kernels, explained, layers, tmp_path):
    folder = Written(tmp_path, MACHINE, {kernels: tmp_path}, explained=explained)
    assert folder.is_layers is layers


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_kernel_folder_holds_code_program_schedule_and_results(written, kernel):
    assert names(written) == sorted(
        {*kernel.driven.files, "program.ir", "schedule.txt", "kernel.json"}
    )
    assert (written / "schedule.txt").read_text().startswith("algorithm gemm\nnest gemm\n")


def test_what_is_read_is_what_was_written(written, kernel):
    stored, programs = read_kernel(written)
    assert programs == (kernel.program,)
    assert stored.machine == MACHINE
    found = kernel.explanation(what_if=False)
    assert stored.explanation == structs.replace(found, routines=kernel.priced_routines)
    named = {r.name for r in kernel.priced_routines}
    assert {f"{name}.S" for name in named if name.startswith("tw_")} == {
        f for f in stored.files if f.startswith("tw_") and f.endswith(".S")
    }
    assert stored_op(stored.op, "") == OP
    pieces = kernel.option.partition.pieces
    assert [stored_op(piece.op, "") for piece in stored.pieces] == [p.op for p in pieces]
    assert stored.pieces[1].result == ((25, 50), (None, None))


def made_again(*_: object, **__: object) -> None:
    pytest.fail("what a folder holds is made again")


def test_what_a_folder_holds_is_made_while_the_code_is_checked(tmp_path, kernel, monkeypatch):
    settings = Settings(check="each layer", writes=True)
    found = compile_layers("gemm", [("gemm", OP)], MACHINE, settings).only
    for maker in ("arranged_by_cores", "routines_of"):
        monkeypatch.setattr(f"tilewright.compiler.kernel.{maker}", made_again)
    stored, _ = read_kernel(found.write(tmp_path / "checked"))
    assert stored.explanation.layer.check == "exact"
    monkeypatch.undo()
    assert stored.explanation.routines == kernel.priced_routines


def test_a_network_folder_ties_the_kernels_together(tmp_path):
    layers = [("first", OP), ("again", OP)]
    compiled = compile_layers("net", layers, MACHINE, Settings())
    steps = []
    folder = compiled.write(tmp_path / "net", lambda *step: steps.append(step))
    assert steps == [("write", 0, 1), ("write", 1, 1)]
    assert names(folder) == ["first", "network.json"]
    stored = read_network(folder)
    assert stored.folders == {"first": "first", "again": "first"}
    assert [layer.artifact for layer in stored.result.layers] == ["first", "first"]


def test_a_folder_appears_only_when_it_is_complete(tmp_path):
    def fail_half_way():
        with new_folder(tmp_path / "out") as folder:
            (folder / "half").write_text("")
            assert names(tmp_path) == [folder.name]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert names(tmp_path) == []


def test_a_written_folder_is_replaced_whole(written, kernel):
    (written / "kernel.json").write_text("{}")
    (written / "old.o").write_text("")
    kernel.write(written)
    assert "old.o" not in names(written)
    assert read_kernel(written)[1] == (kernel.program,)
    assert names(written.parent) == ["out"]


def refusal(action, *arguments):
    with pytest.raises(ArtifactError) as caught:
        action(*arguments)
    return str(caught.value)


def test_folders_of_others_are_left_alone(kernel, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    assert refusal(kernel.write, tmp_path) == (
        f"{tmp_path}: holds 'thesis.tex' and is not a folder that tilewright wrote; "
        "give a new folder, or empty this one"
    )
    assert refusal(kernel.write, tmp_path / "thesis.tex") == (
        f"{tmp_path / 'thesis.tex'}: is a file, not a folder"
    )
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_files_that_were_added_to_a_folder_are_not_removed(written, kernel):
    (written / "main.c").write_text("mine")
    assert refusal(kernel.write, written) == (
        f"{written}: holds 'main.c', which tilewright did not write and would remove; "
        "give a new folder, or empty this one"
    )
    assert (written / "main.c").read_text() == "mine"
    (written / "main.c").unlink()
    (written / "libgemm.a").write_text("built by the Makefile")
    kernel.write(written)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../x"}, "name: expected a name of letters, digits, - and _, found '../x'"),
        ({"clock_hz": 10**18}, f"clock_hz: expected 0 or 1e-12 to 1e+15, found {10**18}"),
    ],
)
def test_a_stored_machine_is_checked_like_a_file(written, change, message):
    stored = json.loads((written / "kernel.json").read_text())
    stored["machine"] |= change
    (written / "kernel.json").write_text(json.dumps(stored))
    with pytest.raises(MachineError) as caught:
        read_kernel(written)
    assert str(caught.value) == f"{written / 'kernel.json'}: {message}"


def test_stored_texts_do_not_steer_a_terminal(written):
    path = written / "kernel.json"
    stored = json.loads(path.read_text())
    stored["explanation"]["causes"][0]["subject"] = "\x1b[31mred"
    path.write_text(json.dumps(stored))
    assert refusal(read_kernel, written) == (
        f"{path}: holds the text '\\x1b[31mred', which cannot be shown"
    )


def test_a_folder_below_a_file_cannot_be_made(kernel, tmp_path):
    (tmp_path / "file").write_text("")
    assert refusal(kernel.write, tmp_path / "file" / "out").startswith(
        f"{tmp_path / 'file' / 'out'}: cannot be "
    )


def test_damaged_results_are_refused(written):
    path = written / "kernel.json"
    path.write_text("{")
    assert refusal(read_kernel, written) == (
        f"{path}: is not what tilewright writes: Input data was truncated"
    )
    path.unlink()
    assert refusal(read_kernel, written) == f"{path}: cannot be read: No such file or directory"


def test_results_of_another_format_are_refused(written):
    path = written / "kernel.json"
    path.write_text(path.read_text().replace("tilewright kernel 1", "tilewright kernel 9"))
    assert refusal(read_kernel, written) == (
        f"{path}: has format 'tilewright kernel 9', expected 'tilewright kernel 1'; "
        "compile it with this version of tilewright"
    )


def test_a_damaged_program_is_refused_with_file_and_line(written):
    path = written / "program.ir"
    path.write_text("def p():\n    for i in range(m):\n        barrier()\n")
    with pytest.raises(ProgramError) as caught:
        read_kernel(written)
    assert str(caught.value) == (
        f"{path}, p > for i in range(m): symbol 'm' is not defined here; known: rid, cid, "
        "mesh_rows, mesh_columns"
    )


def test_folders_named_outside_the_network_are_refused(tmp_path):
    compiled = compile_layers("net", [("first", OP)], MACHINE, Settings())
    path = compiled.write(tmp_path / "net") / "network.json"
    stored = json.loads(path.read_text())
    stored["folders"]["first"] = "../../etc"
    path.write_text(json.dumps(stored))
    assert refusal(read_network, tmp_path / "net") == (
        f"{path}: '../../etc' is not the name of a kernel folder"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "fft"}, "here: unknown operator 'fft'"),
        (
            {"kind": "gemm", "m": 1, "n": "x", "k": 1},
            "here: operator: Expected `int`, got `str` - at `$.n`",
        ),
    ],
)
def test_operators_that_are_none_are_refused(fields, message):
    assert refusal(stored_op, fields, "here") == message
