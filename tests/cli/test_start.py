"""Starting is cheap: nothing heavy is imported before it is needed, and help is complete."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest
import typer

from tilewright.cli import commands
from tilewright.graph.zoo import list_networks
from tilewright.ops import OPERATORS

SOURCES = Path(commands.__file__).parents[2]
HEAVY = {"lark", "matplotlib", "numba", "onnx", "ortools", "pandas"}


def imported(statement: str) -> set[str]:
    """The top-level modules there are after the statement, in a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(run.stdout.splitlines()[-1].split())


def test_importing_tilewright_imports_nothing_heavy() -> None:
    assert imported("import tilewright") & (HEAVY | {"numpy"}) == set()
    assert imported("import tilewright as tw; tw.load_machine('sw26010')") & HEAVY == set()


def test_networks_need_no_cost_model_in_the_process_that_runs_them() -> None:
    assert imported("import tilewright; tilewright.compile") & HEAVY == set()
    assert imported("import tilewright.cli.run, tilewright.compiler.whole") & HEAVY == set()


def test_compiling_needs_no_solver_before_it_emits() -> None:
    assert imported("import tilewright.compiler.alone") & HEAVY == set()


def test_commands_that_only_plan_need_no_solver() -> None:
    modules = ("simulate", "explain", "check")
    names = ", ".join(f"tilewright.cli.{module}" for module in modules)
    assert imported(f"import {names}") & HEAVY == {"lark", "numba"}


def test_planning_networks_for_meshes_loads_what_compiles_and_assembles_when_it_is_needed() -> None:
    assert imported("import tilewright.targets.sw26010.networks") & HEAVY == set()
    assert imported("import tilewright.targets.sw26010.code") & HEAVY == set()


def test_help_needs_no_arrays() -> None:
    made = "from tilewright.cli.commands import COMMANDS, command\nfor n in COMMANDS: command(n)"
    assert imported(made) & (HEAVY | {"numpy"}) == set()


def test_help_of_a_command_reads_no_options(capsys: pytest.CaptureFixture[str]) -> None:
    call = "from tilewright.cli.commands import app; app(['compile', '-h'], standalone_mode=False)"
    assert imported(call) & (HEAVY | {"numpy", "pydantic"}) == set()
    for arguments in (["--help"], ["-h"], ["vgg16", "--batch", "no number", "--help"]):
        with pytest.raises(SystemExit) as caught:
            commands.app(["compile", *arguments])
        assert caught.value.code == 0
        assert "compile [OPTIONS] {NETWORK}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        commands.app(["compile", "--", "--help"])
    assert caught.value.code == 1
    assert "'--help'" in capsys.readouterr().err


def test_plain_options_are_read_without_pydantic() -> None:
    made = "from tilewright.cli.commands import command\n"
    read = "command('compile').make_context('compile', [{}])"
    plain = "'lenet5', '--batch', '2', '-m', 'sw26010', '-o', 'out', '--check'"
    assert "pydantic" not in imported(made + read.format(plain))
    assert "pydantic" in imported(made + read.format("'lenet5', '--max-error', '1e-3'"))


GIVEN = (None, True, False, "", "0", "7", "07", "-1", "4294967296", "3.5", "a/b", "true", "\u0663")


@pytest.mark.parametrize("name", list(commands.COMMANDS))
def test_what_is_read_without_typer_is_what_typer_reads(name: str) -> None:
    """Defaults, too. What typer refuses is left to it."""
    found = commands.command(name)
    context, seen = typer.Context(found), 0
    for option in found.params:
        parameter, typer_reads = option.process_value.args
        default = [parameter.default] if parameter.default is not parameter.empty else []
        for given in (*GIVEN, *default):
            value = commands.plain_value(parameter, given)
            if value is not commands.OTHERWISE:
                assert value == typer_reads(context, given), (option.name, given)
                seen += 1
    assert seen >= len(found.params)


@pytest.mark.parametrize("arguments", [["--help"], ["machines"], ["--version"]])
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    call = (
        f"import sys; sys.argv = {['tilewright', *arguments]!r}\n"
        "from tilewright.cli.main import app_main\n"
        "try:\n    app_main()\nexcept SystemExit:\n    pass"
    )
    assert imported(call) & HEAVY == set()


@pytest.mark.parametrize("name", list(commands.COMMANDS))
def test_help_says_of_each_command_what_its_docstring_says(name: str) -> None:
    found = commands.command(name)
    assert found.help is not None
    assert found.help.splitlines()[0] == commands.HELP[name]


def test_each_command_is_done_by_a_module_of_its_name() -> None:
    for name, declared in commands.COMMANDS.items():
        run = import_module(f"tilewright.cli.{name}").run
        (parameter,) = signature(run, eval_str=True).parameters.values()
        assert parameter.annotation is declared


def test_help_lists_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(commands.NETWORKS) == list_networks()
    assert list(commands.OPERATORS) == list(OPERATORS)
    for name in ("compile", "tune", "run", "simulate", "check", "explain"):
        with pytest.raises(SystemExit):
            commands.app([name, "--help"])
        told = " ".join(capsys.readouterr().out.split())
        assert told.endswith(
            f"Networks: {', '.join(list_networks())}, FILE.onnx. "
            f"Operators: {', '.join(OPERATORS)}. "
            "Machines: as `tilewright machines` lists them; with `compile -m bwdsp-56 -o DIR` DIR "
            "is the folder of a network divided over cores."
        )


def test_a_name_that_is_nearly_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        commands.app(["objdum"])
    assert caught.value.code == 2
    assert "No such command 'objdum'. Did you mean 'objdump'?" in capsys.readouterr().err


def test_the_module_is_the_program() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tilewright", "--version"],
        env={"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith("tilewright ")
