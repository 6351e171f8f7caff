"""The `tilewright` program: every command, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from tilewright.cli.assembly import asm_command, objdump_command
from tilewright.cli.check import check_command
from tilewright.cli.compile import compile_command
from tilewright.cli.explain import explain_command
from tilewright.cli.flatten import flat
from tilewright.cli.machines import machines_command
from tilewright.cli.pipeline import pipeline_command
from tilewright.cli.simulate import simulate_command
from tilewright.cli.tune import tune_command
from tilewright.tune.records import tool_version

app = typer.Typer(
    name="tilewright",
    help="Tile schedules, code and cycles for many-core machines with software-managed memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "compile": compile_command,
    "tune": tune_command,
    "simulate": simulate_command,
    "check": check_command,
    "explain": explain_command,
    "machines": machines_command,
    "asm": asm_command,
    "objdump": objdump_command,
    "pipeline": pipeline_command,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(flat(_command))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tilewright {tool_version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Tile schedules, code and cycles for many-core machines with software-managed memory."""


def app_main() -> None:
    """The entry point of the installed program."""
    app()
