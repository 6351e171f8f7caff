"""Running generated SW26010 code on the host: artifact and input tensors in, output tensors out.

The C for the machine is compiled against an emulated tool chain and run in a process of its own
(`emulation/`): cores with an LDM each, DMA that delivers at the wait, and a report where the
machine would trap, hang or compute garbage. Tensors travel in one file that both sides map, an
in-memory file if the system has them.

Matrix products of emulated code can run by its own assembly, on the instruction-level simulator.

In: an artifact and, from the emulated process, the local memories of all cores at each product.
Out: the memories after the routine of the artifact's `_gemm.S`, which is assembled, linked and run
on the simulated mesh. So a whole kernel is executed as it is emitted, C and assembly.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.asm import assemble, link
from tilewright.codegen.artifact import Array, Arrays, Artifact, TensorInfo
from tilewright.common.dtypes import dtype
from tilewright.common.errors import SimulationError, ToolError
from tilewright.isa import InstructionTable
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.program import AssembledProgram
from tilewright.targets.sw26010.emit.launch import tensor_bytes
from tilewright.targets.sw26010.emulation.build import build_cases
from tilewright.targets.sw26010.gemm.assembly import routine_name
from tilewright.targets.sw26010.gemm.instances import GemmInstance
from tilewright.targets.sw26010.gemm.shape import (
    F32,
    F64,
    Dimension,
    GemmShape,
    GemmVariant,
    Layout,
)

Outputs: TypeAlias = dict[str, Array]
Case: TypeAlias = tuple[Artifact, Arrays]

MESH = (8, 8)
"""Rows and columns of the real machine."""

_WORD_BYTES = 8
_ALIGNMENT_BYTES = 128
_REPORT_BYTES = 4096
_LEAST_GAP_BYTES = 65536
_PORTION_BYTES = 1 << 20
_ENDED_WELL, _REPORTED, _TIME_RAN_OUT = 0, 1, 2
_REPORT, _RESULT, _SIGNAL, _TENSORS = 2, 4, 5, 7
_TENSOR_WORDS = 2


def run_emulated(
    artifact: Artifact,
    inputs: Arrays,
    *,
    seconds: int = 300,
    mesh: tuple[int, int] = MESH,
    products: SimulatedProducts | None = None,
) -> Outputs:
    """Run an SW26010 artifact on the host and return its output tensors, shaped as declared.

    The code is that of a `mesh` of so many rows and columns. Its matrix products are computed by
    the host, or with `products` by the artifact's own assembly on simulated cores.

    `inputs` holds an array for each input tensor, in the program's storage order. Raises
    SimulationError with the report of what the code does wrong (a missing wait, a slot used too
    early, an address out of bounds, a deadlock, unwritten results, more than `seconds`), ToolError
    where it cannot be built.
    """
    cases = [(artifact, inputs)]
    (result,) = run_emulated_many(cases, seconds=seconds, mesh=mesh, products=products)
    if isinstance(result, SimulationError):
        raise result
    return result


def run_emulated_many(
    cases: Sequence[Case],
    *,
    seconds: int = 60,
    mesh: tuple[int, int] = MESH,
    products: SimulatedProducts | None = None,
) -> list[Outputs | SimulationError]:
    """Run many cases with one build, each in its own process; equal artifacts are compiled once.

    A case that fails has its SimulationError as result. `seconds` bounds each case.
    """
    if not cases:
        return []
    distinct: list[Artifact] = []
    numbers: dict[int, int] = {}
    for artifact, _ in cases:
        if id(artifact) not in numbers:
            numbers[id(artifact)] = len(distinct)
            distinct.append(artifact)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        executable = build_cases(distinct, Path(folder), mesh)
        with _shared_file(Path(folder)) as file:
            data = _Data(cases, [numbers[id(a)] for a, _ in cases], seconds, file)
            command = [str(executable), f"/dev/fd/{file.fileno()}"]
            if products is None:
                _execute(command, file, seconds * len(cases) + 60)
            else:
                _execute_with(products, command, file)
        return [data.result(i) for i in range(len(cases))]


def _shared_file(folder: Path) -> BinaryIO:
    """A file that two processes map: in memory, so that no disk slows it down, or in `folder`."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("tilewright"), "w+b")
    return (folder / "data").open("w+b")


def _execute(command: list[str], file: BinaryIO, seconds: int) -> None:
    shared = (file.fileno(),)
    try:
        done = subprocess.run(
            command, pass_fds=shared, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise SimulationError(f"the emulation did not end within {seconds} s") from None
    if done.returncode:
        raise ToolError(f"the emulation ended with status {done.returncode}: {done.stderr.strip()}")


def _execute_with(products: SimulatedProducts, command: list[str], file: BinaryIO) -> None:
    """Run the process and serve its products; each case stops itself after its seconds."""
    environment, pipe = {**os.environ, SWITCH: "1"}, subprocess.PIPE
    shared = (file.fileno(),)
    with subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=pipe, pass_fds=shared
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        products.serve(process.stdout, process.stdin)
    if process.returncode:
        raise ToolError(f"the emulation ended with status {process.returncode}")


class _Data:
    """The file that both sides map: words of `tw_main.c`, reports, tensors."""

    def __init__(
        self, cases: Sequence[Case], numbers: list[int], seconds: int, file: BinaryIO
    ) -> None:
        self._cases = cases
        self._records: list[int] = []
        self._places: list[list[int]] = []
        words = [len(cases), *([0] * len(cases))]
        for i, (artifact, _) in enumerate(cases):
            words[1 + i] = len(words)
            self._records.append(len(words))
            public = _public(artifact)
            words += [
                numbers[i],
                seconds,
                0,
                _REPORT_BYTES,
                0,
                0,
                len(public),
                *([0] * _TENSOR_WORDS * len(public)),
            ]
        end = self._place(words)
        self._file = file
        self._memory = np.memmap(file, np.uint8, "w+", shape=(end,))
        self._words = self._memory[: len(words) * _WORD_BYTES].view(np.int64)
        self._words[:] = words
        for i, (artifact, inputs) in enumerate(cases):
            self._write(i, artifact, inputs)

    def _place(self, words: list[int]) -> int:
        """Assign every report and tensor its offset; returns the file's size."""
        end = len(words) * _WORD_BYTES
        for (artifact, _), record in zip(self._cases, self._records, strict=True):
            words[record + _REPORT], end = end, end + _REPORT_BYTES
            places = []
            for number, t in enumerate(_public(artifact)):
                end = -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
                first = record + _TENSORS + _TENSOR_WORDS * number
                words[first : first + _TENSOR_WORDS] = end, tensor_bytes(t)
                places.append(end)
                # As much again stays free (the file is sparse), so that an address behind one
                # tensor does not fall into the next.
                end += 2 * max(tensor_bytes(t), _LEAST_GAP_BYTES)
            self._places.append(places)
        return end

    def _tensor(self, place: int, t: TensorInfo) -> Array:
        flat = self._memory[place : place + tensor_bytes(t)]
        return flat.view(dtype(t.dtype).numpy).reshape(t.shape)

    def _write(self, i: int, artifact: Artifact, inputs: Arrays) -> None:
        for place, t in zip(self._places[i], _public(artifact), strict=True):
            if t.is_given or t.kind == "updated":
                self._tensor(place, t)[...] = t.among(inputs)
            else:
                self._fill(place, t)

    def _fill(self, place: int, t: TensorInfo) -> None:
        """Mark everything in the file as not yet computed; in memory, pages are cleared before."""
        kind, size = dtype(t.dtype), tensor_bytes(t)
        portion = np.full(_PORTION_BYTES // kind.size_bytes, kind.nothing, kind.numpy)
        self._file.seek(place)
        for done in range(0, size, _PORTION_BYTES):
            self._file.write(portion.view(np.uint8)[: size - done].data)
        self._file.flush()

    def result(self, i: int) -> Outputs | SimulationError:
        """The outputs of case `i` as arrays in the file, which they keep alive, or its error."""
        artifact, record = self._cases[i][0], self._records[i]
        status = int(self._words[record + _RESULT])
        if status != _ENDED_WELL:
            return self._failure(artifact, record, status)
        placed = zip(self._places[i], _public(artifact), strict=True)
        return {t.name: np.asarray(self._tensor(p, t)) for p, t in placed if t.is_result}

    def _failure(self, artifact: Artifact, record: int, status: int) -> SimulationError:
        if status == _TIME_RAN_OUT:
            seconds = int(self._words[record + 1])
            return SimulationError(f"{artifact.name} did not end within {seconds} s")
        if status != _REPORTED:
            number = int(self._words[record + _SIGNAL])
            name = signal.Signals(number).name if number else "no signal"
            return SimulationError(f"{artifact.name} was stopped by {name}")
        start = int(self._words[record + _REPORT])
        raw = bytes(self._memory[start : start + _REPORT_BYTES])
        report = raw.split(b"\0", 1)[0].decode("ascii", "replace").rstrip("\n")
        return SimulationError(report, fix=_statement(report, artifact))


def _public(artifact: Artifact) -> tuple[TensorInfo, ...]:
    return tuple(t for t in artifact.tensors if t.kind != "scratch")


def _statement(report: str, artifact: Artifact) -> str:
    """The text of the statement that a report names by file and line."""
    match = re.match(r"([A-Za-z0-9_]+\.c):(\d+): ", report)
    lines = artifact.files.get(match[1], "").splitlines() if match else []
    if match is None or not 0 < int(match[2]) <= len(lines):
        return ""
    first = last = int(match[2]) - 1
    while first > 0 and not _starts_statement(lines[first - 1]):
        first -= 1
    while last < len(lines) - 1 and not lines[last].rstrip().endswith((";", "{", "}")):
        last += 1
    return "the statement is " + " ".join(line.strip() for line in lines[first : last + 1])


def _starts_statement(previous: str) -> bool:
    """True if a new statement begins after the line `previous`."""
    return previous.rstrip().endswith((";", "{", "}", "*/", ")")) or not previous.strip()


SWITCH = "TW_PRODUCTS_ELSEWHERE"
"""The environment variable by which an emulated process leaves its products to the caller."""
_VECTOR_BYTES = 32
_HEAD_WORDS, _PLACES = 12, 4
_ORDERS: tuple[Layout, Layout] = ("column", "row")


@dataclass
class SimulatedProducts:
    """Simulates the products of an emulated artifact; `cycles` lists those of each product run."""

    artifact: Artifact
    table: InstructionTable
    mesh: tuple[int, int]
    cycles: list[int] = field(default_factory=list)

    def serve(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        """Run every product that the process asks for, until it ends."""
        rows, columns = self.mesh
        cores, memory_bytes = rows * columns, self.artifact.scratchpad_bytes
        while head := requests.read(_HEAD_WORDS * _WORD_BYTES):
            instance = _instance(np.frombuffer(head, np.int64), rows)
            links = instance.shape.links
            width = _PLACES + (2 * links if links > 1 else 0)
            places = requests.read(cores * width * _WORD_BYTES)
            memories = requests.read(cores * memory_bytes)
            images = np.frombuffer(memories, np.uint8).reshape(cores, memory_bytes)
            numbers = np.frombuffer(places, np.int64).reshape(cores, width)
            symbol = routine_name(self.artifact.name, instance)
            answers.write(self._run(symbol, numbers, images).tobytes())
            answers.flush()

    def _run(
        self, symbol: str, places: NDArray[np.int64], images: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        program = self._program
        if symbol not in program.labels:
            raise SimulationError(f"{self.artifact.name}_gemm.S has no routine {symbol}")
        stack = self.table.local_memory_bytes
        pairs = places[:, _PLACES:]
        if pairs.size:
            # The caller keeps its list on its stack.
            images, listed = images.copy(), pairs.shape[1] * _WORD_BYTES
            stack -= -(-listed // _VECTOR_BYTES) * _VECTOR_BYTES
            images[:, stack : stack + listed] = np.ascontiguousarray(pairs).view(np.uint8)
            places = np.stack([np.full(len(places), stack), places[:, 2]], axis=1)
        given = [
            {f"${16 + i}": int(place) for i, place in enumerate(core[:_PLACES])} | {"$30": stack}
            for core in places
        ]
        run = simulate_mesh(
            program, SimulatedMesh(*self.mesh), entries=symbol, registers=given, local_memory=images
        )
        self.cycles.append(run.cycles)
        return run.local_memory()

    @cached_property
    def _program(self) -> AssembledProgram:
        text = self.artifact.files[f"{self.artifact.name}_gemm.S"]
        return load_image(link([assemble(text, self.table)], self.table), self.table).program


def _instance(head: Iterable[Any], mesh: int) -> GemmInstance:
    """The routine that a call of `spm_gemm` selects, as `spm_gemm.c` finds it."""
    size, m, n, k, vector, lda, ldb, ldc, order_a, order_b, _, links = map(int, head)
    precision = F64 if size == F64.element_bytes else F32
    along: Dimension = "n" if vector else "m"
    variant = GemmVariant(along, _ORDERS[order_a], _ORDERS[order_b], precision)
    return GemmInstance(variant, GemmShape(m, n, k, lda, ldb, ldc, mesh=mesh, links=links))
