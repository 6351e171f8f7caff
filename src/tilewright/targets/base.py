"""What a target is and what it makes.

In: an instantiated program at the explicit stage and a machine. Out: an `Artifact`, a value that
holds every file as text together with the plan that builds them; nothing touches the disk before
`write_artifact`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

from tilewright.common.errors import ToolError
from tilewright.ir.nodes import Program
from tilewright.machine import Machine

_SAFE_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class BuildStep:
    """One command of the target's own tool chain: makes `output` from `inputs`."""

    output: str
    inputs: tuple[str, ...]
    command: tuple[str, ...]


@dataclass(frozen=True)
class BuildPlan:
    """The commands that build an artifact, in order; `requires`: files that the user brings."""

    steps: tuple[BuildStep, ...] = ()
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of the generated code, in the order of the entry function's arguments."""

    name: str
    identifier: str
    dtype: str
    kind: Literal["input", "output", "scratch"]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class BufferInfo:
    """One scratchpad buffer: its place in the region that the generated code allocates."""

    name: str
    dtype: str
    elements: int
    copies: int
    offset_bytes: int


@dataclass(frozen=True)
class Artifact:
    """Generated code as a value: `files` maps safe relative names to texts.

    `name` is an identifier of the target's language and the name of the entry point. Raises
    ToolError for a file name that leaves the artifact's folder.
    """

    name: str
    target: str
    files: Mapping[str, str]
    build: BuildPlan = BuildPlan()
    tensors: tuple[TensorInfo, ...] = ()
    buffers: tuple[BufferInfo, ...] = ()
    scratchpad_bytes: int = 0
    scratchpad_alignment_bytes: int = 1

    def __post_init__(self) -> None:
        for name in self.files:
            check_file_name(name)
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))


@runtime_checkable
class Target(Protocol):
    """A machine family that programs are emitted for: a name and one function."""

    @property
    def name(self) -> str:
        """The name that machines use to say which target emits for them."""

    def emit(self, program: Program, machine: Machine) -> Artifact:
        """Generate code; raises CapacityError where a limit of the machine is exceeded."""


def check_file_name(name: str) -> str:
    """Return a relative file name of plain parts; raises ToolError for anything else.

    >>> check_file_name("src/conv_slave.c")
    'src/conv_slave.c'
    """
    if not all(_SAFE_PART.fullmatch(part) for part in name.split("/")):
        raise ToolError(
            f"{name!r} is not a safe file name for generated code",
            fix="use relative names of letters, digits, '_', '-' and '.'",
        )
    return name


def write_artifact(artifact: Artifact, directory: Path) -> tuple[Path, ...]:
    """Write every file of `artifact` below `directory`; returns their paths, sorted."""
    paths = []
    for name, text in sorted(artifact.files.items()):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return tuple(paths)
