"""Matrix products of emulated code by its own assembly, on the instruction-level simulator.

In: an artifact and, from the emulated process, the local memories of all cores at each product.
Out: the memories as the routine of the artifact's `_gemm.S` leaves them, which is assembled, linked
and run on the simulated mesh. So a whole kernel is executed as it is emitted, C and assembly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.asm import assemble, link
from tilewright.codegen.artifact import Artifact
from tilewright.common.errors import SimulationError
from tilewright.isa import InstructionTable
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import Mesh
from tilewright.simulate.program import Program
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

SWITCH = "TW_PRODUCTS_ELSEWHERE"
"""The environment variable by which an emulated process leaves its products to the caller."""
_WORD_BYTES, _VECTOR_BYTES = 8, 32
_HEAD_WORDS, _PLACES = 12, 4
_ORDERS: tuple[Layout, Layout] = ("column", "row")


@dataclass
class SimulatedProducts:
    """Simulates the products of one emulated artifact; `cycles` lists those of each product that
    was run.
    """

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
            # The caller has its list on its stack.
            images, listed = images.copy(), pairs.shape[1] * _WORD_BYTES
            stack -= -(-listed // _VECTOR_BYTES) * _VECTOR_BYTES
            images[:, stack : stack + listed] = np.ascontiguousarray(pairs).view(np.uint8)
            places = np.stack([np.full(len(places), stack), places[:, 2]], axis=1)
        given = [
            {f"${16 + i}": int(place) for i, place in enumerate(core[:_PLACES])} | {"$30": stack}
            for core in places
        ]
        run = simulate_mesh(
            program, Mesh(*self.mesh), entries=symbol, registers=given, local_memory=images
        )
        self.cycles.append(run.cycles)
        return run.local_memory()

    @cached_property
    def _program(self) -> Program:
        text = self.artifact.files[f"{self.artifact.name}_gemm.S"]
        return load_image(link([assemble(text, self.table)], self.table), self.table).program


def _instance(head: Iterable[Any], mesh: int) -> GemmInstance:
    """The routine that a call of `spm_gemm` means, as `spm_gemm.c` finds it."""
    size, m, n, k, vector, lda, ldb, ldc, order_a, order_b, _, links = map(int, head)
    precision = F64 if size == F64.element_bytes else F32
    along: Dimension = "n" if vector else "m"
    variant = GemmVariant(along, _ORDERS[order_a], _ORDERS[order_b], precision)
    return GemmInstance(variant, GemmShape(m, n, k, lda, ldb, ldc, mesh=mesh, links=links))
