"""The commands of the `tilewright` program: options from arguments, execution on demand.

A command's arguments are declared in `arguments`. Its module, which loads the tuner and compiled
functions, is imported only when it runs, so that help and light commands are fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from tilewright.cli.arguments import COMMANDS, NETWORKS, OPERATORS
from tilewright.cli.options import Knob
from tilewright.cli.output import guarded
from tilewright.common.interrupts import interruptible
from tilewright.common.version import tool_version

HELP = {name: (kind.__doc__ or "").splitlines()[0] for name, kind in COMMANDS.items()}
_OTHERS = ("tune", "check")
_KNOWN = (
    f"Networks: {', '.join(NETWORKS)}, FILE.onnx. Operators: {', '.join(OPERATORS)}. "
    "Machines: as `tilewright machines` lists them; with `compile -m bwdsp-56 -o DIR` DIR is the "
    "folder of a network divided over cores."
)


class Command(TyperCommand):
    """A command that prints help before it parses options, since their parser is slow to load."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The remaining arguments, as click defines them."""
        options = args[: args.index("--")] if "--" in args else args
        if not set(options).isdisjoint(self.get_help_option_names(ctx)):
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        """The option that asks for help; it has a value, which nothing has to read."""
        found: Any = super().get_help_option(ctx)
        found.default = False
        return found


def command(name: str) -> TyperCommand:
    """The command with its options."""
    declared = COMMANDS[name]
    takes_workload = any(field.name == "division" for field in fields(declared)) or name in _OTHERS
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name, cls=Command, epilog=_KNOWN if takes_workload else None)(
        _function(name, declared)
    )
    found = typer.main.get_command(single)
    assert isinstance(found, TyperCommand)
    own = {parameter.name: parameter for parameter in _parameters(declared)}
    for option in found.params:
        option.process_value = partial(_read, own[option.name], option.process_value)  # type: ignore[method-assign]  # typer makes the options
    return found


OTHERWISE = object()
"""In place of a value that typer has to read."""


def _read(parameter: Parameter, usual: Callable[[Any, Any], Any], context: Any, given: Any) -> Any:
    """The value of an option, read by typer unless it is plain."""
    found = plain_value(parameter, given)
    return usual(context, given) if found is OTHERWISE else found


def plain_value(parameter: Parameter, given: Any) -> Any:
    """The value of what is missing, a default, a flag, a text, a path or a number within its
    limits, as declared: none of them needs pydantic, by which typer reads all values, and which
    takes longer to load than all else. `OTHERWISE` for anything else, right or wrong.
    """
    declared, details = get_args(parameter.annotation)
    kinds = {*get_args(declared)} if isinstance(declared, UnionType) else {declared}
    if given is None and parameter.default is None:
        return () if any(get_origin(kind) is list for kind in kinds) else None
    if given is parameter.default or (bool in kinds and isinstance(given, bool)):
        return given
    if isinstance(given, str):
        if kinds & {str, Path}:
            return Path(given) if Path in kinds else given
        if int in kinds and given.isascii() and given.isdecimal():
            low, high = details.min, details.max
            if (low is None or low <= int(given)) and (high is None or int(given) <= high):
                return int(given)
    return OTHERWISE


def _function(name: str, declared: type[Any]) -> Callable[..., None]:
    """A function whose parameters are a command's options, those in groups included."""

    def run(**given: Any) -> None:
        guarded(partial(_run, name), _value(declared, given))

    parameters = sorted(_parameters(declared), key=lambda p: p.default is not Parameter.empty)
    run.__name__, run.__doc__ = name, declared.__doc__
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _run(name: str, asked: object) -> None:
    """Run the command's module, imported here only."""
    import_module(f"tilewright.cli.{name}").run(asked)


def _parameters(declared: type[Any]) -> Iterator[Parameter]:
    """A parameter for each field, and for each field of a group."""
    hints = get_type_hints(declared, include_extras=True)
    for field in fields(declared):
        hint, default = hints[field.name], field.default
        if isinstance(hint, type):
            yield from _parameters(hint)
        else:
            usual = Parameter.empty if default is MISSING else default
            base, details = get_args(hint)
            if isinstance(details, Knob):
                hint = Annotated[base, details.declared(field.name)]
            kind = Parameter.POSITIONAL_OR_KEYWORD
            yield Parameter(field.name, kind, default=usual, annotation=hint)


def _value(declared: type[Any], given: Mapping[str, Any]) -> Any:
    """The arguments of a command, or of a group, picked from all given options."""
    hints = get_type_hints(declared)
    return declared(
        **{
            f.name: _value(hints[f.name], given) if is_dataclass(hints[f.name]) else given[f.name]
            for f in fields(declared)
        }
    )


class Commands(TyperGroup):
    """All commands by name; only the invoked one is imported."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=text) for name, text in HELP.items()}

    def get_params(self, ctx: Any) -> list[Any]:
        """All options, with flags that have no default set to False, as pydantic would; loading
        pydantic is slower than everything else.
        """
        found: list[Any] = super().get_params(ctx)
        for option in found:
            option.default = option.default or False
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """(name, command, remaining arguments); UsageError suggests the nearest name."""
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
