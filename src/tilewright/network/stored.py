"""The folder of a network compiled to one function: its code, its constants and `network.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from tilewright.codegen.artifact import Array, Artifact, write_artifact
from tilewright.codegen.folder import NETWORK_FILE, ArtifactError
from tilewright.codegen.stored import Stored, read_stored, require_file_names
from tilewright.common.digest import digest
from tilewright.common.json import to_json
from tilewright.common.version import tool_version
from tilewright.machine import Machine
from tilewright.machine.model import document_of
from tilewright.network.results import NetworkRun

_FORMAT = "tilewright native network 2"

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""Names of tensors with their shapes."""


class StoredNative(Stored, frozen=True):
    """`network.json` of a network compiled to one function; `files` are beside it.

    `digests` are the SHA-256 of the files, `result` what the compilation printed.
    """

    files: tuple[str, ...]
    digests: tuple[str, ...]
    inputs: Shapes
    outputs: Shapes
    result: NetworkRun


def write_native(
    folder: Path,
    machine: Machine,
    artifact: Artifact,
    constants: Iterable[Array],
    inputs: Shapes,
    outputs: Shapes,
    result: NetworkRun,
) -> None:
    """Write a whole network's code, and its constants part by part, into an existing folder."""
    block, sources = f"{artifact.name}.bin", dict(sorted(artifact.files.items()))
    found = hashlib.sha256()
    with (folder / block).open("wb") as file:
        for part in constants:
            written = np.ascontiguousarray(part).view(np.uint8).data
            file.write(written)
            found.update(written)
    stored = StoredNative(
        _FORMAT,
        tool_version(),
        document_of(machine),
        (*sources, block),
        (*map(digest, sources.values()), found.hexdigest()),
        inputs,
        outputs,
        result,
    )
    files = {**artifact.files, NETWORK_FILE: to_json(stored)}
    write_artifact(replace(artifact, files=files), folder)


def read_native(directory: Path) -> StoredNative:
    """Read a network written by `write_native`. Raises ArtifactError."""
    path = directory / NETWORK_FILE
    stored = read_stored(path, StoredNative, _FORMAT)
    if len(stored.files) != len(stored.digests):
        raise ArtifactError(
            f"lists {len(stored.files)} files and {len(stored.digests)} digests", where=str(path)
        )
    require_file_names(stored.files, str(path))
    return stored
