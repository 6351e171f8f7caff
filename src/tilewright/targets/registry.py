"""Finding targets: the entry-point group `tilewright.targets` in, `Target` values out.

The shipped targets register exactly as a stranger's do; a target is one folder and one line of
package metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from tilewright.common.errors import ToolError
from tilewright.targets.base import Target

GROUP = "tilewright.targets"


def target_names() -> tuple[str, ...]:
    """The names of all registered targets, sorted."""
    return tuple(sorted(_unique(entry_points(group=GROUP))))


def find_target(name: str) -> Target:
    """The target registered as `name`.

    Raises ToolError when no package registers it, when two packages register different targets
    under one name, or when what is registered is not a target.
    """
    found = _unique(entry_points(group=GROUP))
    if name not in found:
        known = (
            ", ".join(sorted(found))
            or "none; install the package, `pip install -e .` in a checkout"
        )
        raise ToolError(f"unknown target {name!r}", fix=f"known targets: {known}")
    return _load(found[name])


def _unique(registered: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    """One entry point per name: the same line seen twice (twice installed) is no clash."""
    found: dict[str, EntryPoint] = {}
    for entry in registered:
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise ToolError(
                f"two targets are called {entry.name!r}: {other.value} and {entry.value}",
                fix="uninstall one of the two packages",
            )
    return found


@cache
def _load(entry: EntryPoint) -> Target:
    try:
        target = entry.load()
    except (ImportError, AttributeError) as error:
        raise ToolError(
            f"target {entry.name!r} cannot be loaded from {entry.value}: {error}",
            fix="reinstall the package that registers it",
        ) from error
    if not isinstance(target, Target):
        raise ToolError(
            f"target {entry.name!r}: {entry.value} is not a target",
            fix="register an object with `name` and `emit(program, machine)`",
        )
    if target.name != entry.name:
        raise ToolError(
            f"target {entry.name!r}: {entry.value} calls itself {target.name!r}",
            fix="register it under its own name",
        )
    return target
