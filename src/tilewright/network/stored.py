"""The folder of a network that is one function: its code, its constants and `network.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from tilewright.codegen.artifact import Artifact, write_artifact
from tilewright.codegen.folder import NETWORK_FILE
from tilewright.common.json import to_json
from tilewright.common.version import tool_version
from tilewright.machine import Machine
from tilewright.machine.model import document_of

_FORMAT = "tilewright native network 1"

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""Names of tensors with their shapes."""


class StoredNative(Struct, frozen=True):
    """`network.json` of a network that is one function on this computer; `files` are beside it."""

    format: str
    version: str
    machine: dict[str, object]
    files: tuple[str, ...]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]


def write_native(
    folder: Path,
    machine: Machine,
    name: str,
    files: Mapping[str, str],
    constants: bytes,
    inputs: Shapes,
    outputs: Shapes,
) -> None:
    """Write the code of a whole network and its constants into an existing folder."""
    names = (*sorted(files), f"{name}.bin")
    stored = StoredNative(_FORMAT, tool_version(), document_of(machine), names, inputs, outputs)
    texts = {**files, NETWORK_FILE: to_json(stored)}
    write_artifact(Artifact(name, machine.target, texts), folder)
    (folder / names[-1]).write_bytes(constants)
