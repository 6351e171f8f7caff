"""The code of a node of the CNS-1: an explicit program in, one source of the Torrent out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.codegen.artifact import Array, Artifact, BuildPlan, BuildStep, TensorInfo
from tilewright.codegen.c.names import buffer_infos, name_program, tensor_infos
from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError, ProgramError, ShapeError
from tilewright.ir.nodes import Program
from tilewright.ir.visit import instantiate
from tilewright.machine import Machine
from tilewright.simulate.runs import CoreRun
from tilewright.targets.cns1.emit.program import ARGUMENTS, program_text
from tilewright.targets.cns1.node import TABLE, assembled, node_table, run_node, with_refresh
from tilewright.targets.cns1.rules import CACHE
from tilewright.targets.cns1.sections import Rdram

_ONE_CORE = {"mesh_rows": 1, "mesh_columns": 1, "rid": 0, "cid": 0}


@dataclass(frozen=True)
class Cns1Code:
    """Generates text in register transfer notation, and runs it on a simulated node."""

    def emit(self, program: Program, machine: Machine) -> Artifact:
        """The source of an explicit program without parameters.

        Raises ProgramError for what there is no code for, CapacityError where buffers do not fit
        the data cache.
        """
        if program.parameters:
            raise ProgramError(
                f"program {program.name!r} still has parameters: {', '.join(program.parameters)}",
                fix="instantiate it before code is generated",
            )
        program = instantiate(program, _ONE_CORE)
        naming = name_program(program)
        tensors = tensor_infos(program, naming)
        space = machine.space(CACHE)
        buffers = buffer_infos(program, {CACHE: space.available_bytes})
        source = f"{naming.artifact}.s"
        assembler = ("tilewright", "asm", source, "--table", TABLE, "-o", f"{naming.artifact}.o")
        return Artifact(
            naming.artifact,
            machine.target,
            {source: program_text(program, machine, tensors)},
            BuildPlan((BuildStep(f"{naming.artifact}.o", (source,), assembler),)),
            tensors,
            buffers,
            space.capacity_bytes,
            space.alignment_bytes,
        )

    def run(
        self, artifact: Artifact, machine: Machine, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run the code on a simulated node; raises ShapeError for inputs that do not fit."""
        run = run_artifact(artifact, machine, inputs)
        places, _ = _places(artifact.tensors, machine)
        found = {}
        for info in (t for t in artifact.tensors if t.is_result):
            kind, start = dtype(info.dtype), places[info.name]
            size = int(np.prod(info.shape)) * kind.size_bytes
            raw = run.memory("main")[start : start + size]
            found[info.name] = raw.view(kind.numpy).reshape(info.shape).copy()
        return found


def run_artifact(
    artifact: Artifact,
    machine: Machine,
    inputs: Mapping[str, Array] | None = None,
    *,
    interleaved: bool = False,
) -> CoreRun:
    """The code on a simulated node, whose memory is refreshed as late as allowed, on zeros where no
    `inputs` are given; `interleaved`: other codes have run since the last time.

    Raises ShapeError for inputs that do not fit, CapacityError for tensors that do not fit its
    memory.
    """
    table = with_refresh(node_table(machine), machine)
    places, end = _places(artifact.tensors, machine)
    room = table.memory("main").capacity_bytes
    if end > room:
        raise CapacityError(
            f"the tensors take {end} bytes of memory 'main', which has {room}",
            fix="divide the operator over more nodes",
        )
    main = np.zeros(end, np.uint8)
    for info in artifact.tensors:
        kind, start = dtype(info.dtype), places[info.name]
        size = int(np.prod(info.shape)) * kind.size_bytes
        if not info.is_given and info.kind != "updated":
            main[start : start + size] = 0x5A  # nobody has computed it yet
        elif inputs is not None:
            main[start : start + size] = _bytes(info, inputs)
    (text,) = artifact.files.values()
    registers = {r: places[t.name] for r, t in zip(ARGUMENTS, artifact.tensors, strict=False)}
    program = assembled(text, table, f"{artifact.name}.s")
    return run_node(program, main=main, registers=registers, interleaved=interleaved)


def _places(tensors: tuple[TensorInfo, ...], machine: Machine) -> tuple[dict[str, int], int]:
    """Where the tensors lie, each from a new line of all chips on, and where they end."""
    lines, end = machine.section(Rdram).open_bytes, 0
    places = {}
    for info in tensors:
        places[info.name] = end
        size = int(np.prod(info.shape)) * dtype(info.dtype).size_bytes
        end += -(-size // lines) * lines
    return places, end


def _bytes(info: TensorInfo, inputs: Mapping[str, Array]) -> Array:
    kind = dtype(info.dtype)
    if info.name not in inputs or inputs[info.name].shape != info.shape:
        raise ShapeError(f"input tensor {info.name!r} of shape {info.shape} is missing")
    return np.ascontiguousarray(inputs[info.name], kind.numpy).view(np.uint8).ravel()


CODE = Cns1Code()
