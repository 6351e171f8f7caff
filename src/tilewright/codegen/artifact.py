"""Generated code as a value, and the protocols of families that emit, run or load code.

In: an instantiated program at the explicit stage and a machine. Out: an `Artifact`, which holds
every file as text together with the plan that builds them; nothing touches the disk before
`write_artifact`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from tilewright.common.errors import ProgramError, ShapeError, ToolError
from tilewright.ir.nodes import SCRATCHPAD, Program, TensorKind
from tilewright.machine import Capability, Machine

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]
"""Arrays by name."""

_SAFE_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class BuildStep:
    """One command of the target's tool chain, which builds `output` from `inputs`."""

    output: str
    inputs: tuple[str, ...]
    command: tuple[str, ...]


@dataclass(frozen=True)
class BuildPlan:
    """The commands that build an artifact, in order; `requires` names files the user supplies."""

    steps: tuple[BuildStep, ...] = ()
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class Panels:
    """Packed layout of a tensor for a matrix kernel: panels of `width` indices along `across`, each
    cut into blocks of `block` indices along `depth` (0: uncut), each block row after row along
    `depth`.

    `across` and `depth` number dimensions of the tensor. The others lie inside a block, in order,
    and inside them lie `together` panels, so that everything one product or chain of products reads
    is contiguous. Padding is zero across and unused along the depth.
    """

    across: int
    depth: int
    width: int
    block: int = 0
    together: int = 1

    @property
    def columns(self) -> int:
        """Indices along `across` that one group of contiguous panels covers."""
        return self.width * self.together


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of the generated code, in the order of the entry function's arguments.

    `shape` is its shape before packing. With `panels`, the code expects it packed so. With `made`,
    the code expects that tensor instead, computed from this one once.
    """

    name: str
    identifier: str
    dtype: str
    kind: TensorKind
    shape: tuple[int, ...]
    panels: Panels | None = None
    made: TensorInfo | None = None

    @property
    def is_packed(self) -> bool:
        """True if the code expects the tensor in another form than the caller's."""
        return self.panels is not None or self.made is not None

    @property
    def is_given(self) -> bool:
        """True if the code reads the tensor and does not compute it."""
        return self.kind in ("input", "constant")

    @property
    def is_result(self) -> bool:
        """True if the tensor holds a result of the code."""
        return self.kind in ("output", "updated")

    def among(self, inputs: Arrays) -> Array:
        """The tensor's array. Raises ShapeError if missing or of another shape."""
        if self.name not in inputs:
            raise ShapeError(f"input tensor {self.name!r} is missing")
        given = inputs[self.name]
        if given.shape != self.shape:
            raise ShapeError(
                f"input tensor {self.name!r} has shape {given.shape}, expected {self.shape}"
            )
        return given


@dataclass(frozen=True)
class BufferInfo:
    """One buffer: its place in the generated code's allocation of memory `space`."""

    name: str
    dtype: str
    elements: int
    copies: int
    offset_bytes: int
    space: str = SCRATCHPAD


@dataclass(frozen=True)
class Artifact:
    """Generated code as a value: `files` maps safe relative names to texts. `inside` names tensors
    with borders of zeros that the code does not read.

    `name` is an identifier of the target's language and the name of the entry point. Raises
    ToolError for a file name that escapes the artifact's folder.
    """

    name: str
    target: str
    files: Mapping[str, str]
    build: BuildPlan = BuildPlan()
    tensors: tuple[TensorInfo, ...] = ()
    buffers: tuple[BufferInfo, ...] = ()
    scratchpad_bytes: int = 0
    scratchpad_alignment_bytes: int = 1
    inside: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in self.files:
            check_file_name(name)
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))


@dataclass(frozen=True)
class RoutineCycles:
    """One distinct call of a generated routine: its price, the cycles of its code (None if not
    simulated), and how often a core makes it (None if the entry is the whole).
    """

    name: str
    call: str
    priced_cycles: int
    simulated_cycles: int | None = None
    calls: int | None = None

    @property
    def times(self) -> int:
        """How often a core makes the call; 1 if the entry is the whole."""
        return self.calls or 1


class Routines(Protocol):
    """Lists the routines behind the primitives of a program."""

    def routines(
        self, program: Program, machine: Machine, *, simulated: bool
    ) -> tuple[RoutineCycles, ...]:
        """One entry per distinct call of a routine, in order; `simulated` runs its code."""


class Emits(Protocol):
    """Generates code for a family's machines."""

    def emit(self, program: Program, machine: Machine) -> Artifact:
        """Generate code. Raises CapacityError where a limit of the machine is exceeded."""


class _Runs(Protocol):
    """Runs generated code on this computer, natively or by emulation."""

    def run(self, artifact: Artifact, machine: Machine, inputs: Arrays) -> dict[str, Array]:
        """The output tensors, shaped as declared, for inputs in the program's storage order.

        Raises SimulationError for an illegal operation of the code, ToolError where it cannot run.
        """


class Readies(Protocol):
    """Prepares what every run of generated code needs, such as a compiled runtime."""

    def make_ready(self, machine: Machine) -> None:
        """Prepare it ahead of the runs. Raises ToolError as a run does."""


def require_bound(program: Program) -> None:
    """Raise ProgramError if the program still has unbound parameters."""
    if program.parameters:
        raise ProgramError(
            f"program {program.name!r} still has parameters: {', '.join(program.parameters)}",
            fix="instantiate it before code is generated",
        )


class BoundKernel(Protocol):
    """A kernel of this computer, bound to its arrays."""

    def repeat(self, calls: int) -> None:
        """Compute the outputs `calls` times."""

    def outputs(self) -> dict[str, Array]:
        """Copies of the output tensors, shaped as declared."""


class NativeKernel(Protocol):
    """Generated code loaded into this process."""

    def bind(self, inputs: Arrays) -> BoundKernel:
        """Place the inputs where the kernel reads them, constants packed. Raises ShapeError."""


class Loads(Protocol):
    """Loads generated code into this process: on this computer, time is measured, not simulated."""

    def load(self, artifact: Artifact, machine: Machine) -> NativeKernel:
        """Compile and load. Raises ToolError without a suitable compiler."""


ROUTINES: Capability[Routines] = Capability("routines", ("routines",), "routines by name")
EMITS: Capability[Emits] = Capability("code", ("emit",), "code generator")
RUNS: Capability[_Runs] = Capability("code", ("run",), "way to run its code on this computer")
READIES: Capability[Readies] = Capability("code", ("make_ready",), "runtime to make ready")
LOADS: Capability[Loads] = Capability("code", ("load",), "code for this computer")


def check_file_name(name: str) -> str:
    """Return a relative file name of plain parts. Raises ToolError for anything else.

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
