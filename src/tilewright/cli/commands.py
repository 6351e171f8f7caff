"""The commands of the `tilewright` program, and nothing else.

A command's module is imported when the command is called, so that the light commands do not wait
for the tuner and its compiled functions. It declares the options; a module named after what is done
with them (`explain_subject`) is imported when they are read, so that help does not wait either.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tilewright.cli.interrupts import interruptible
from tilewright.common.version import tool_version

COMMANDS = {
    "compile": "Choose the best schedules of a network or operator; generate and time its code.",
    "tune": "Search the schedules of every layer, and show the best ones.",
    "run": "Run an operator or a network on this computer, compare it, and time it.",
    "simulate": "Simulate a core group running a program or network, with a cause for each cycle.",
    "check": "Check that operators fit a machine, or that a program is legal on it.",
    "explain": "Explain the time of an operator, of a whole network, or of one layer of it.",
    "report": "Write a report of what `compile -o` wrote: one HTML page, or a table.",
    "calibrate": "Measure this computer and write a machine description with its numbers.",
    "machines": "List the machines, or show one with the source of each number.",
    "cache": "List, verify or clear what earlier commands compiled and computed.",
    "asm": "Assemble a file into an ELF object.",
    "objdump": "Show an object: sections, symbols, relocations, disassembly.",
    "pipeline": "Run a program on one core alone; show its pipeline, with a cause for every stall.",
    "debug": "Step through a program; `help` lists the commands.",
    "lsp": "Serve an editor: errors, hover and definitions of DLA-AL and assembly sources.",
    "reproduce": "Print published numbers, ours and the deviation; write figures, CSV and JSON.",
}
"""What `--help` says of each command without importing it: the first line of its docstring."""

_MODULES = {"asm": "assembly", "objdump": "assembly"}
"""Where a command lives that has no module of its own name."""


NETWORKS = ("alexnet", "lenet5", "mobilenet2", "resnet50", "vgg16", "yolov2")
"""The known networks, for help, which does without what reads them."""
OPERATORS = ("conv2d", "gemm", "batched_matmul", "lookup", "map")
"""What is compiled by its options, for help."""
_KNOWN = (
    f"Networks: {', '.join(NETWORKS)}, FILE.onnx. Operators: {', '.join(OPERATORS)}. "
    "Machines: as `tilewright machines` lists them; `-m bwdsp-56` divides a network over its cores."
)
_WORKLOADS = ("compile", "tune", "run", "simulate", "check", "explain")


class Command(TyperCommand):
    """A command that tells its help before it reads any option: what reads them loads longer than
    all that help needs.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments that are left over, as click has it."""
        options = args[: args.index("--")] if "--" in args else args
        if not set(options).isdisjoint(self.get_help_option_names(ctx)):
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)


def command(name: str) -> TyperCommand:
    """The command with its options."""
    flat = import_module("tilewright.cli.flatten").flat
    module = import_module(f"tilewright.cli.{_MODULES.get(name, name)}")
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    known = _KNOWN if name in _WORKLOADS else None
    single.command(name, cls=Command, epilog=known)(flat(getattr(module, f"{name}_command")))
    found = typer.main.get_command(single)
    assert isinstance(found, TyperCommand)
    return found


class Commands(TyperGroup):
    """All commands by name; the one that is called is imported."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=text) for name, text in COMMANDS.items()}

    def get_params(self, ctx: Any) -> list[Any]:
        """All options, flags with the default False: none at all is what pydantic, which takes
        longer to load than all else, reads into False.
        """
        found: list[Any] = super().get_params(ctx)
        for option in found:
            option.default = option.default or False
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """(name, command, other arguments), as click has it; UsageError suggests the nearest."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else command(name), rest

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """The parsed command line."""
        with interruptible():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Import the command and run it."""
        with interruptible():
            return super().invoke(ctx)


app = typer.Typer(
    name="tilewright",
    cls=Commands,
    help="Tile schedules, code and cycles for many-core machines with software-managed memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
