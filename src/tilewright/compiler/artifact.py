"""Folders of generated code and results: written whole or not at all, read back with suspicion.

A kernel's folder holds the target's files, `program.ir`, `schedule.txt` and `kernel.json`; that of
a network holds `network.json` and one kernel folder per distinct layer. A folder appears under its
name only when it is complete, and replaces only a folder that tilewright wrote.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from tilewright.common.errors import TilewrightError
from tilewright.common.version import tool_version
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.ir.verify import verify
from tilewright.machine import Machine
from tilewright.machine.check import check_machine
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.partition import Partition
from tilewright.report.view import Explanation, NetworkResult, to_json
from tilewright.targets.base import Artifact, write_artifact
from tilewright.targets.host.network.run import NetworkCode

KERNEL_FILE, NETWORK_FILE = "kernel.json", "network.json"
PROGRAM_FILE, SCHEDULE_FILE = "program.ir", "schedule.txt"
_KERNEL_FORMAT, _NETWORK_FORMAT = "tilewright kernel 1", "tilewright network 1"
_NATIVE_FORMAT = "tilewright native network 1"
_FOLDER_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OPS: dict[str, type[Conv2d] | type[Gemm]] = {"conv2d": Conv2d, "gemm": Gemm}

Interval = tuple[int | None, int | None]


class ArtifactError(TilewrightError):
    """A folder that cannot be written, or is not one that tilewright wrote."""

    code = "artifact"


class StoredPiece(Struct, frozen=True):
    """One core group's piece: its operator, and its regions of the operands and the result."""

    op: dict[str, Any]
    operands: tuple[tuple[Interval, ...], ...]
    result: tuple[Interval, ...]


class StoredKernel(Struct, frozen=True):
    """`kernel.json`."""

    format: str
    version: str
    op: dict[str, Any]
    machine: Machine
    pieces: tuple[StoredPiece, ...]
    files: tuple[str, ...]
    explanation: Explanation


class StoredNetwork(Struct, frozen=True):
    """`network.json`; `folders` gives each layer's kernel folder."""

    format: str
    version: str
    machine: Machine
    folders: dict[str, str]
    result: NetworkResult


class StoredNative(Struct, frozen=True):
    """`network.json` of a network that is one function on this computer; `files` are beside it."""

    format: str
    version: str
    machine: Machine
    files: tuple[str, ...]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]


Stored = TypeVar("Stored", StoredKernel, StoredNetwork)


def write_kernel(
    directory: Path,
    artifact: Artifact,
    program: Program,
    partition: Partition,
    machine: Machine,
    explanation: Explanation,
) -> None:
    """Write one kernel's files into an existing folder."""
    named = {
        PROGRAM_FILE: print_program(program),
        SCHEDULE_FILE: explanation.layer.schedule,
    }
    stored = StoredKernel(
        _KERNEL_FORMAT,
        tool_version(),
        _op_fields(partition.op),
        machine,
        tuple(
            StoredPiece(
                _op_fields(piece.op), tuple(map(_bounds, piece.operands)), _bounds(piece.result)
            )
            for piece in partition.pieces
        ),
        tuple(sorted(artifact.files)),
        explanation,
    )
    files = {**artifact.files, **named, KERNEL_FILE: to_json(stored)}
    write_artifact(dataclasses.replace(artifact, files=files), directory)


def write_network(
    directory: Path, machine: Machine, folders: dict[str, str], result: NetworkResult
) -> None:
    """Write the file that ties the kernel folders of a network together."""
    stored = StoredNetwork(_NETWORK_FORMAT, tool_version(), machine, folders, result)
    (directory / NETWORK_FILE).write_text(to_json(stored), encoding="utf-8")


def write_native(directory: Path, machine: Machine, code: NetworkCode, constants: bytes) -> None:
    """Write the code of a whole network and its constants into an existing folder."""
    names = (*sorted(code.files), f"{code.name}.bin")
    stored = StoredNative(_NATIVE_FORMAT, tool_version(), machine, names, code.inputs, code.outputs)
    files = {**code.files, NETWORK_FILE: to_json(stored)}
    write_artifact(Artifact(code.name, machine.target, files), directory)
    (directory / names[-1]).write_bytes(constants)


def read_kernel(directory: Path) -> tuple[StoredKernel, Program]:
    """What `write_kernel` wrote; raises ArtifactError, or ProgramError for a broken program."""
    stored = _read(directory / KERNEL_FILE, StoredKernel, _KERNEL_FORMAT)
    text = read_text(directory / PROGRAM_FILE)
    return stored, read_program(text, str(directory / PROGRAM_FILE))


def read_network(directory: Path) -> StoredNetwork:
    """What `write_network` wrote; raises ArtifactError."""
    stored = _read(directory / NETWORK_FILE, StoredNetwork, _NETWORK_FORMAT)
    for folder in stored.folders.values():
        if not _FOLDER_NAME.fullmatch(folder):
            raise ArtifactError(
                f"{folder!r} is not the name of a kernel folder",
                where=str(directory / NETWORK_FILE),
            )
    return stored


def read_program(text: str, where: str) -> Program:
    """A verified explicit-stage program of any machine; raises its errors with `where` in front."""
    try:
        program = parse(text)
        verify(program, "explicit", in_place=True)
    except TilewrightError as error:
        place = f"{where}, {error.where}" if error.where else where
        raise type(error)(error.message, where=place, fix=error.fix) from None
    return program


def stored_op(fields: dict[str, Any], where: str) -> Op:
    """The operator that `kernel.json` describes."""
    values = dict(fields)
    kind = _OPS.get(str(values.pop("kind", "")))
    if kind is None:
        raise ArtifactError(f"unknown operator {fields.get('kind')!r}", where=where)
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ArtifactError(f"operator: {error}", where=where) from None


def require_replaceable(directory: Path) -> None:
    """Raise ArtifactError unless `directory` is absent, empty, or one that tilewright wrote."""
    try:
        if not directory.exists():
            return
        if not directory.is_dir():
            raise ArtifactError("is a file, not a folder", where=str(directory))
        others = sorted(os.listdir(directory))
    except OSError as error:
        raise ArtifactError(f"cannot be read: {error.strerror}", where=str(directory)) from None
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
    """What of a folder's content was written by tilewright, or built from that."""
    built = {name for name in present if name.endswith((".o", ".a", ".so"))}
    fixed = {KERNEL_FILE, NETWORK_FILE, PROGRAM_FILE, SCHEDULE_FILE}
    listed: set[str] = set()
    for file in (KERNEL_FILE, NETWORK_FILE):
        if file in present:
            try:
                stored = msgspec.json.decode((directory / file).read_bytes(), type=dict[str, Any])
                names = stored.get("files", stored.get("folders", present))
                listed |= set(names.values() if isinstance(names, dict) else names)
            except (OSError, msgspec.MsgspecError, TypeError):
                return present  # damaged: its list is lost
    return built | fixed | listed


@contextmanager
def new_folder(directory: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `directory` when the block ends well."""
    require_replaceable(directory)
    target = directory.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        filling = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ArtifactError(f"cannot be written: {error.strerror}", where=str(directory)) from None
    try:
        yield filling
        filling.chmod(0o755)
        _take_place(filling, target)
    except OSError as error:
        raise ArtifactError(f"cannot be written: {error.strerror}", where=str(directory)) from None
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
    """A file's text; raises ArtifactError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ArtifactError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise ArtifactError("is not UTF-8 text", where=str(path)) from None


def write_text(path: Path, text: str) -> None:
    """Write one file; raises ArtifactError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArtifactError(f"cannot be written: {error.strerror}", where=str(path)) from None


def _read(path: Path, kind: type[Stored], expected: str) -> Stored:
    try:
        value = msgspec.json.decode(read_text(path), type=kind)
    except msgspec.MsgspecError as error:
        raise ArtifactError(f"is not what tilewright writes: {error}", where=str(path)) from None
    if value.format != expected:
        raise ArtifactError(f"has format {value.format!r}, expected {expected!r}", where=str(path))
    check_machine(str(path), value.machine)
    _check_texts(msgspec.to_builtins(value), str(path))
    return value


def _check_texts(value: object, where: str) -> None:
    """Nothing that is shown later may steer a terminal."""
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


def _op_fields(op: Op) -> dict[str, Any]:
    return {"kind": op.kind, **dataclasses.asdict(op)}  # type: ignore[call-overload]  # operators are dataclasses


def _bounds(region: tuple[slice, ...]) -> tuple[Interval, ...]:
    return tuple((s.start, s.stop) for s in region)
