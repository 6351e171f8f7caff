"""Files that describe a folder of generated code, validated when read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from tilewright.codegen.folder import NETWORK_FILE, ArtifactError, failing, read_text
from tilewright.common.digest import digest_of_file
from tilewright.machine import Machine
from tilewright.machine.build import stored_machine

_FILE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z]+)?")


class _Header(Struct, frozen=True):
    format: str


class Stored(_Header, frozen=True):
    """The first fields of every stored file: its format, the version that wrote it, and the
    document of the machine that the code is for.
    """

    version: str
    description: dict[str, Any] = field(name="machine")

    @property
    def machine(self) -> Machine:
        """The machine that the code was generated for."""
        return stored_machine(self.description)


Kind = TypeVar("Kind", bound=Stored)


def network_kind(directory: Path) -> Literal["", "layers", "native", "divided"]:
    """The kind of network in a folder: kernels of layers ("layers"), one function of the whole
    ("native"), or the plan of a network divided over cores ("divided"); "" without `network.json`.
    Raises ArtifactError.
    """
    path = directory / NETWORK_FILE
    if not path.exists():
        return ""
    match _format(path).removeprefix("tilewright ").split():
        case ["native" | "divided" as kind, "network", _]:
            return kind
        case _:
            return "layers"


def _format(path: Path) -> str:
    try:
        return msgspec.json.decode(read_text(path), type=_Header).format
    except msgspec.MsgspecError as error:
        raise ArtifactError(f"is not what tilewright writes: {error}", where=str(path)) from None


def require_file_names(names: Iterable[str], where: str) -> None:
    """Raise ArtifactError for a name that no file of tilewright has."""
    for name in names:
        if not _FILE_NAME.fullmatch(name):
            raise ArtifactError(f"{name!r} is not the name of a generated file", where=where)


def file_states(directory: Path, digests: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """(file, problem or "") for each file and its SHA-256. Raises ArtifactError."""
    for name, expected in digests:
        path = directory / name
        if not path.is_file():
            yield name, "is missing"
            continue
        with failing(path, "read"):
            found = digest_of_file(path)
        yield name, "" if found == expected else "has changed since it was written"


def read_stored(path: Path, kind: type[Kind], expected: str) -> Kind:
    """A stored value of this format. Raises ArtifactError, or MachineError for a broken machine."""
    found = _format(path)
    if found != expected:
        raise ArtifactError(
            f"has format {found!r}, expected {expected!r}",
            where=str(path),
            fix="compile it with this version of tilewright",
        )
    try:
        value = msgspec.json.decode(read_text(path), type=kind)
    except msgspec.MsgspecError as error:
        raise ArtifactError(f"is not what tilewright writes: {error}", where=str(path)) from None
    stored_machine(value.description, str(path))
    _check_texts(msgspec.to_builtins(value), str(path))
    return value


def _check_texts(value: object, where: str) -> None:
    """Raise ArtifactError for text that could control a terminal when shown."""
    match value:
        case str() if not value.replace("\n", "").isprintable():
            raise ArtifactError(
                f"holds the text {value[:40]!r}, which cannot be shown", where=where
            )
        case dict():
            for key, item in value.items():
                _check_texts(key, where)
                _check_texts(item, where)
        case list() | tuple():
            for item in value:
                _check_texts(item, where)
        case _:
            pass
