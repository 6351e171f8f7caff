"""Folders of generated code: written as a whole or not at all, and replaced only if tilewright
wrote them.

A folder appears under its name only when complete.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import TilewrightError
from tilewright.common.files import new_file, read_file_text

KERNEL_FILE, NETWORK_FILE = "kernel.json", "network.json"
PROGRAM_FILE, SCHEDULE_FILE, SUMS_FILE = "program.ir", "schedule.txt", "sums.ir"


class ArtifactError(TilewrightError):
    """A folder that cannot be written, or that tilewright did not write."""

    code = "artifact"


def require_replaceable(directory: Path) -> None:
    """Raise ArtifactError unless `directory` is absent, empty, or written by tilewright."""
    with failing(directory, "read"):
        if not directory.exists():
            return
        if not directory.is_dir():
            raise ArtifactError("is a file, not a folder", where=str(directory))
        others = sorted(os.listdir(directory))
    fix = "give a new folder, or empty this one"
    if others and not {KERNEL_FILE, NETWORK_FILE} & set(others):
        raise ArtifactError(
            f"holds {others[0]!r} and is not a folder that tilewright wrote",
            where=str(directory),
            fix=fix,
        )
    for name in sorted(set(others) - _written_names(directory, set(others))):
        raise ArtifactError(
            f"holds {name!r}, which tilewright did not write and would remove",
            where=str(directory),
            fix=fix,
        )


def _written_names(directory: Path, present: set[str]) -> set[str]:
    """The files of a folder that tilewright wrote, or that were built from those."""
    built = {name for name in present if name.endswith((".o", ".a", ".so"))}
    fixed = {KERNEL_FILE, NETWORK_FILE, PROGRAM_FILE, SCHEDULE_FILE, SUMS_FILE}
    listed: set[str] = set()
    for file in (KERNEL_FILE, NETWORK_FILE):
        if file in present:
            try:
                stored = msgspec.json.decode((directory / file).read_bytes(), type=dict[str, Any])
                names = stored.get("files", stored.get("folders", present))
                listed |= set(names.values() if isinstance(names, dict) else names)
            except (OSError, msgspec.MsgspecError, TypeError):
                return present  # damaged: the list is lost
    return built | fixed | listed


@contextmanager
def failing(path: Path, done: str) -> Iterator[None]:
    """Turn an OSError into an ArtifactError: `path` cannot be `done`."""
    try:
        yield
    except OSError as error:
        raise ArtifactError(f"cannot be {done}: {error.strerror}", where=str(path)) from None


@contextmanager
def new_folder(directory: Path) -> Iterator[Path]:
    """A folder to fill, which replaces `directory` if the block succeeds."""
    require_replaceable(directory)
    target = directory.resolve()
    with failing(directory, "written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        filling = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            yield filling
            filling.chmod(0o755)
            _take_place(filling, target)
        finally:
            shutil.rmtree(filling, ignore_errors=True)


def _take_place(filling: Path, target: Path) -> None:
    if not target.exists():
        filling.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    target.rename(old / "old")
    filling.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def read_text(path: Path) -> str:
    """A file's text. Raises ArtifactError."""
    try:
        with failing(path, "read"):
            return read_file_text(path)
    except UnicodeDecodeError:
        raise ArtifactError("is not UTF-8 text", where=str(path)) from None


def write_bytes(path: Path, content: bytes) -> None:
    """Write one file atomically. Raises ArtifactError."""
    with failing(path, "written"), new_file(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Write one file atomically. Raises ArtifactError."""
    write_bytes(path, text.encode())


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an .npz file under exactly the given name. Raises ArtifactError."""
    with failing(path, "written"), new_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)
