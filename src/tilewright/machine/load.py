"""Reading machine descriptions: TOML file + its bases + overrides in, checked `Machine` out.

A file may state `base = "NAME"` and only the differences. Each number needs an entry under
`[sources]`, keyed by its dotted path; a file inherits the sources of inherited numbers, and must
state one for each number that it sets.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Protocol, cast

import msgspec

from tilewright.common.errors import MachineError
from tilewright.common.files import read_file_text
from tilewright.machine.build import described_machine, usual_value
from tilewright.machine.check import NAME, check_sources, same_kind, shown, tree_leaves, unknown_key
from tilewright.machine.family import Capability, find_family, machine_files
from tilewright.machine.keys import document_key, shortened
from tilewright.machine.model import Leaf, Machine

OVERRIDE_SOURCE = "set by the user"

Table = dict[str, object]


class Locates(Protocol):
    """A family whose machine may be the computer at hand."""

    def locate(self, name: str) -> str:
        """The name of the machine, or the path of the description, that `name` denotes here."""


LOCATES: Capability[Locates] = Capability("location", ("locate",), "description of this computer")


def list_machines() -> list[str]:
    """The names of the machines of all registered families, sorted."""
    return list(machine_files())


def find_machine(name_or_path: str, overrides: Mapping[str, Leaf] | None = None) -> Machine:
    """As `load_machine`, but a name that denotes the computer at hand loads the user's calibration
    if there is one.
    """
    brought = machine_files().get(name_or_path) if isinstance(name_or_path, str) else None
    if brought is not None:
        location = LOCATES.of_family(find_family(brought[0]))
        if location is not None:
            name_or_path = location.locate(name_or_path)
    return load_machine(name_or_path, overrides)


def load_machine(name_or_path: str, overrides: Mapping[str, Leaf] | None = None) -> Machine:
    """The machine called `name_or_path`, or described by that `.toml` file, with `overrides` set.

    `overrides` maps dotted paths to numbers, or to their text as in `--set`:
    `{"memory.spm.capacity_bytes": 131072}`. Raises MachineError with file, key, what was expected
    and what was found.
    """
    path = _locate(name_or_path)
    tree = _read_with_bases(path, ())
    sources = cast(Table, tree.pop("sources"))
    for key, value in (overrides or {}).items():
        short = document_key(key)
        _override(tree, short, str(value))
        sources[short] = OVERRIDE_SOURCE
    where = str(path) if "/" in name_or_path else path.name
    return _build(where, tree, sources)


@cache
def fitted_variant(machine: Machine) -> Machine | None:
    """The description of `machine` with constants fitted to measured kernels. None if there is
    none, if `machine` is that description, or if its numbers were changed.
    """
    if machine.fitted in ("", machine.name) or machine.name not in list_machines():
        return None
    return load_machine(machine.fitted) if machine == load_machine(machine.name) else None


def _build(where: str, tree: Table, sources: Table) -> Machine:
    machine = described_machine(tree, where)
    check_sources(where, tree, sources)
    pairs = tuple(sorted((key, str(text)) for key, text in sources.items()))
    return msgspec.structs.replace(machine, sources=pairs)


def _locate(name_or_path: str) -> Path:
    if not isinstance(name_or_path, str):
        raise MachineError(
            "a machine is given by its name, the path of a .toml file as text, or as "
            f"`load_machine` returns it, found {shown(name_or_path)}"
        )
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        return Path(name_or_path)
    if name_or_path in machine_files():
        return machine_files()[name_or_path][1]
    raise MachineError(
        f"unknown machine {shown(name_or_path)}",
        fix=f"known machines: {', '.join(list_machines())}; or give the path of a .toml file",
    )


def _read_table(path: Path) -> Table:
    try:
        return tomllib.loads(read_file_text(path))
    except OSError as error:
        raise MachineError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise MachineError("is not UTF-8 text", where=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise MachineError(f"is not TOML: {error}", where=str(path)) from None
    except RecursionError:
        raise MachineError("is not TOML: it is nested too deeply", where=str(path)) from None


def _read_with_bases(path: Path, derived: tuple[Path, ...]) -> Table:
    """The tree of `path` merged over its base's, in short keys; `derived` lists the files that
    build on it.
    """
    if path.resolve() in derived:
        chain = " -> ".join(file.stem for file in (*derived, path))
        raise MachineError(f"base: the files build on each other: {chain}", where=path.name)
    tree = shortened(_read_table(path))
    sources = tree.setdefault("sources", {})
    if not isinstance(sources, dict):
        raise MachineError(f"sources: expected a table, found {shown(sources)}", where=path.name)
    sources = tree["sources"] = {document_key(key): text for key, text in sources.items()}
    if "base" not in tree:
        return tree
    base_path = _locate_base(path, tree.pop("base"))
    base = _read_with_bases(base_path, (*derived, path.resolve()))
    base_sources = cast(Table, base.pop("sources"))
    own = _numbers(tree, exclude="sources")
    inherited = {key: text for key, text in base_sources.items() if key not in own}
    del tree["sources"]
    return {**_merge(base, tree), "sources": {**inherited, **sources}}


def _locate_base(path: Path, name: object) -> Path:
    """The sibling file `name`.toml, otherwise the shipped machine of that name."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise MachineError(
            f"base: expected the name of a machine, found {shown(name)}", where=path.name
        )
    sibling = path.parent / f"{name}.toml"
    if sibling.exists() and sibling.resolve() != path.resolve():
        return sibling
    if name in machine_files():
        return machine_files()[name][1]
    raise MachineError(
        f"base: there is no machine {shown(name)}",
        where=path.name,
        fix=f"known machines: {', '.join(list_machines())}; or put {name}.toml beside the file",
    )


def _numbers(tree: Table, *, exclude: str = "", prefix: str = "") -> set[str]:
    """The dotted paths of all numbers in `tree`."""
    found: set[str] = set()
    for key, value in tree.items():
        if isinstance(value, dict) and key != exclude:
            found |= _numbers(value, prefix=f"{prefix}{key}.")
        elif isinstance(value, int | float):
            found.add(f"{prefix}{key}")
    return found


def _merge(base: Table, derived: Table) -> Table:
    merged = dict(base)
    for key, value in derived.items():
        below = merged.get(key)
        both_tables = isinstance(below, dict) and isinstance(value, dict)
        merged[key] = _merge(cast(Table, below), cast(Table, value)) if both_tables else value
    return merged


def _override(tree: Table, key: str, text: str) -> None:
    """Set the leaf at the dotted `key` to `text`, parsed as the leaf's type."""
    if key == "target" and text != tree.get(key):
        raise MachineError(
            f"target: the family of a machine is not set, found {shown(text)}",
            where="--set",
            fix="name a machine of that family",
        )
    *parents, last = key.split(".")
    table: object = tree
    for name in parents:
        table = table.get(name) if isinstance(table, dict) else None
    current = table.get(last, usual_value(tree, key, "--set")) if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(current, int | float | str):
        raise unknown_key("--set", key, sorted(key for key, _ in tree_leaves(tree)))
    table[last] = _parse(key, text, current)


def _parse(key: str, text: str, current: Leaf) -> Leaf:
    match current:
        case str():
            return text
        case bool():
            if text in ("true", "false"):
                return text == "true"
        case int():
            number = _number(text)
            if number is not None and number == int(number):
                return int(number)
        case float():
            number = _number(text)
            if number is not None:
                return float(number)
    raise MachineError(f"{key}: expected {same_kind(current)}, found {shown(text)}", where="--set")


def _number(text: str) -> int | float | None:
    """`text` as a finite number (131072, 128_000, 0x1000, 1.45e9); None if it is none."""
    for read in (lambda word: int(word, 0), float) if text.isascii() else ():
        try:
            number: int | float = read(text)
        except ValueError:
            continue
        return number if abs(number) < float("inf") else None
    return None
