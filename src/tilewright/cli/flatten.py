"""Options that several commands share: frozen dataclasses whose fields become command options.

@flat                                          tilewright tune --machine M --records FILE
def tune(search: SearchOptions, ...): ...      ->  tune(SearchOptions(machine=M, records=FILE))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

from tilewright.cli.output import guarded


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each dataclass parameter replaced by its fields, and errors reported."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            parameters += _options(kind)
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    def run(**given: Any) -> None:
        grouped = {
            name: kind(**{f.name: given.pop(f.name) for f in fields(kind)})
            for name, kind in groups.items()
        }
        guarded(command, **given, **grouped)

    ordered = sorted(parameters, key=lambda p: p.default is not inspect.Parameter.empty)
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]  # read by typer
    run.__annotations__ = {p.name: p.annotation for p in ordered}
    return run


def _options(kind: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]
