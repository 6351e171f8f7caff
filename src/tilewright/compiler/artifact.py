"""Folders of generated code and results: written as a whole or not at all, validated when read
back.

A kernel's folder holds the target's files, `program.ir`, `schedule.txt` and `kernel.json`; a
network's holds `network.json` and one kernel folder per distinct layer. A folder appears under its
name only when complete, and replaces only a folder that tilewright wrote.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from tilewright.codegen.artifact import Artifact, write_artifact
from tilewright.codegen.folder import (
    KERNEL_FILE,
    NETWORK_FILE,
    PROGRAM_FILE,
    SCHEDULE_FILE,
    SUMS_FILE,
    ArtifactError,
    read_text,
)
from tilewright.codegen.stored import Stored, network_kind, read_stored, require_file_names
from tilewright.common.digest import digest
from tilewright.common.errors import TilewrightError
from tilewright.common.json import to_json
from tilewright.common.version import tool_version
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.ir.verify import verify
from tilewright.machine import Machine
from tilewright.machine.model import document_of
from tilewright.network.stored import read_native
from tilewright.ops import OPERATORS, Op, Shape
from tilewright.ops.box import Box
from tilewright.ops.numerics import sums_called
from tilewright.partition import TERMS, Partition
from tilewright.report.subject import Subject, subject_of_layers, subject_of_stages
from tilewright.report.table import total_lines
from tilewright.report.view import Explanation, NetworkResult

_KERNEL_FORMAT, _NETWORK_FORMAT = "tilewright kernel 1", "tilewright network 1"
_FOLDER_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")

Interval = tuple[int | None, int | None]


class StoredPiece(Struct, frozen=True):
    """One core group's piece: its operator, and its regions of the operands and the result."""

    op: dict[str, Any]
    operands: tuple[tuple[Interval, ...], ...]
    result: tuple[Interval, ...]


class StoredKernel(Stored, frozen=True):
    """`kernel.json`; `digests` maps files beside it to SHA-256, empty in older versions."""

    op: dict[str, Any]
    pieces: tuple[StoredPiece, ...]
    files: tuple[str, ...]
    explanation: Explanation
    digests: dict[str, str] = field(default_factory=dict)


class StoredNetwork(Stored, frozen=True):
    """`network.json`; `folders` maps each layer to its kernel folder."""

    folders: dict[str, str]
    result: NetworkResult


def write_kernel(
    directory: Path,
    artifact: Artifact,
    programs: Sequence[Program],
    partition: Partition,
    machine: Machine,
    explanation: Explanation,
) -> None:
    """Write one kernel's files into an existing folder."""
    texts = zip((PROGRAM_FILE, SUMS_FILE), programs, strict=False)
    named = {file: print_program(program) for file, program in texts}
    named[SCHEDULE_FILE] = explanation.layer.schedule
    written = {**artifact.files, **named}
    stored = StoredKernel(
        _KERNEL_FORMAT,
        tool_version(),
        document_of(machine),
        _op_fields(partition.op),
        tuple(
            StoredPiece(
                _op_fields(piece.op),
                tuple(map(_bounds, piece.operands, partition.op.input_shapes)),
                _bounds(piece.result, partition.op.out_shape),
            )
            for piece in partition.pieces
        ),
        tuple(sorted(artifact.files)),
        explanation,
        {file: digest(written[file]) for file in sorted(written)},
    )
    files = {**written, KERNEL_FILE: to_json(stored)}
    write_artifact(dataclasses.replace(artifact, files=files), directory)


def write_network(
    directory: Path, machine: Machine, folders: dict[str, str], result: NetworkResult
) -> None:
    """Write the file that maps a network's layers to their kernel folders."""
    stored = StoredNetwork(_NETWORK_FORMAT, tool_version(), document_of(machine), folders, result)
    (directory / NETWORK_FILE).write_text(to_json(stored), encoding="utf-8")


def read_kernel(directory: Path) -> tuple[StoredKernel, tuple[Program, ...]]:
    """Read the files of `write_kernel`. Raises ArtifactError, or ProgramError for a bad program."""
    stored = read_stored(directory / KERNEL_FILE, StoredKernel, _KERNEL_FORMAT)
    require_file_names(stored.digests, str(directory / KERNEL_FILE))
    partial = stored.explanation.layer.partition == TERMS
    paths = [directory / f for f in (PROGRAM_FILE, *((SUMS_FILE,) if partial else ()))]
    return stored, tuple(read_program(read_text(path), str(path)) for path in paths)


def read_network(directory: Path) -> StoredNetwork:
    """Read the file of `write_network`. Raises ArtifactError."""
    if not (directory / NETWORK_FILE).exists():
        raise ArtifactError(
            f"has neither {KERNEL_FILE} nor {NETWORK_FILE}",
            where=str(directory),
            fix="give a folder that `tilewright compile -o` wrote",
        )
    kind = network_kind(directory)
    if kind == "native":
        raise ArtifactError(
            "holds a whole network, not the kernels of its layers",
            where=str(directory),
            fix="`tilewright explain` shows it; compile with --layers writes the kernels",
        )
    if kind == "divided":
        raise ArtifactError(
            "holds the plan of a divided network, not the kernels of its layers",
            where=str(directory),
            fix="`tilewright explain` shows it",
        )
    stored = read_stored(directory / NETWORK_FILE, StoredNetwork, _NETWORK_FORMAT)
    for folder in stored.folders.values():
        if not _FOLDER_NAME.fullmatch(folder):
            raise ArtifactError(
                f"{folder!r} is not the name of a kernel folder",
                where=str(directory / NETWORK_FILE),
            )
    return stored


def read_compiled(directory: Path) -> Subject:
    """Read a written folder as reports show it. Raises ArtifactError."""
    if (directory / KERNEL_FILE).exists():
        found = read_kernel(directory)[0].explanation
        layer = found.layer
        kernels = {layer.artifact or "": found}
        return subject_of_layers(
            layer.name, found.machine, (), (layer,), layer.milliseconds, kernels
        )
    if network_kind(directory) == "native":
        return subject_of_stages(read_native(directory).result)
    network = read_network(directory)
    result = network.result
    return subject_of_layers(
        directory.resolve().name,
        result.machine,
        (*([f"batch {result.batch}"] if result.batch is not None else []), result.dtype),
        [replace(x, artifact=network.folders[x.name]) for x in result.layers],
        result.total_milliseconds,
        {
            name: read_kernel(directory / name)[0].explanation
            for name in dict.fromkeys(network.folders.values())
        },
        total_lines(result, network.machine.peak_flops_of(sums_called(result.dtype))),
    )


def read_program(text: str, where: str) -> Program:
    """A verified explicit-stage program of any machine; `where` leads its errors."""
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
    kind = OPERATORS.get(str(values.pop("kind", "")))
    if kind is None:
        raise ArtifactError(f"unknown operator {fields.get('kind')!r}", where=where)
    try:
        return msgspec.convert(values, kind.operator)
    except msgspec.ValidationError as error:
        raise ArtifactError(f"operator: {error}", where=where) from None


def _op_fields(op: Op) -> dict[str, Any]:
    return {"kind": op.kind, **dataclasses.asdict(op)}  # type: ignore[call-overload]  # operators are dataclasses


def _bounds(region: Box, shape: Shape) -> tuple[Interval, ...]:
    """The interval along each dimension; (None, None) where it is the whole extent."""
    pairs = zip(region.sides, shape, strict=True)
    return tuple((None, None) if side == (0, extent) else side for side, extent in pairs)
