"""A whole-mesh matrix product in CPE instructions, for exercising the instruction-level simulator.

C += A B on an 8 x 8 mesh as in swDNN V-A: at step s the cores of column s broadcast their A along
the rows and the cores of row s their B along the columns. Register blocks have 4 vectors x 4
scalars (swDNN V-B). Each core has A[k, m], B[k, n], C[n, m], in this order, in local memory. The
loop is not software-pipelined.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa import (
    Instruction,
    InstructionTable,
    Memory,
    Operand,
    Register,
    SymbolReference,
    make_instruction,
)
from tilewright.simulate.program import AssembledProgram, encode_program
from tilewright.simulate.runs import MeshRun

A_REGISTERS = (1, 2, 3, 4)
B_REGISTERS = (7, 8, 9, 10)
C_REGISTERS = (*range(11, 19), *range(20, 28))
SCRATCH, POINTER_A, POINTER_B, COLUMNS_LEFT, POINTER_C, STEP, START_B = 0, 5, 6, 19, 28, 29, 30
ZERO = Register(31)
VECTOR_BYTES, DOUBLE_BYTES = 32, 8


class Writer:
    """Collects instructions with their labels."""

    def __init__(self, table: InstructionTable) -> None:
        self.table = table
        self.instructions: list[Instruction] = []
        self._labels: tuple[str, ...] = ()

    def label(self, name: str) -> None:
        self._labels += (name,)

    def emit(self, mnemonic: str, *operands: Operand) -> None:
        made = make_instruction(self.table, mnemonic, operands, labels=self._labels)
        self.instructions.append(made)
        self._labels = ()


def mesh_gemm(
    table: InstructionTable, m: int, n: int, k: int, mesh_size: int = 8
) -> AssembledProgram:
    """The program of every core for an m x n x k product (m multiple of 128, n of 32)."""
    rows, columns, depth = m // mesh_size, n // mesh_size, k // mesh_size
    w = Writer(table)
    w.emit("ldi", Register(STEP), Memory(0, ZERO))
    w.label("step")
    w.emit("rcsr", Register(SCRATCH), 2)
    w.emit("cmpeq", Register(SCRATCH), Register(STEP), Register(SCRATCH))
    w.emit("rcsr", Register(COLUMNS_LEFT), 1)
    w.emit("cmpeq", Register(COLUMNS_LEFT), Register(STEP), Register(COLUMNS_LEFT))
    w.emit("s4addl", Register(SCRATCH), Register(COLUMNS_LEFT), Register(SCRATCH))
    for role in (5, 4, 1):  # 4 * sends A + sends B
        w.emit("cmpeq", Register(SCRATCH), role, Register(COLUMNS_LEFT))
        w.emit("bne", Register(COLUMNS_LEFT), SymbolReference(f"role{role}"))
    for role in (0, 5, 4, 1):
        _emit_role(w, role, rows, columns, depth)
    w.label("next")
    w.emit("addl", Register(STEP), 1, Register(STEP))
    w.emit("cmplt", Register(STEP), mesh_size, Register(SCRATCH))
    w.emit("bne", Register(SCRATCH), SymbolReference("step"))
    w.emit("halt")
    return encode_program(w.instructions, table, name="mesh_gemm")


def _emit_role(w: Writer, role: int, rows: int, columns: int, depth: int) -> None:
    start_b = depth * rows * DOUBLE_BYTES
    start_c = start_b + depth * columns * DOUBLE_BYTES
    w.label(f"role{role}")
    for block in range(0, rows, 16):
        name = f"role{role}_block{block}"
        w.emit("ldi", Register(POINTER_C), Memory(start_c + block * DOUBLE_BYTES, ZERO))
        w.emit("ldi", Register(START_B), Memory(start_b, ZERO))
        w.emit("ldi", Register(COLUMNS_LEFT), Memory(columns // 4, ZERO))
        w.label(name)
        _emit_c(w, "vldd", rows)
        w.emit("ldi", Register(POINTER_A), Memory(block * DOUBLE_BYTES, ZERO))
        w.emit("ldi", Register(POINTER_B), Memory(0, Register(START_B)))
        w.emit("ldi", Register(SCRATCH), Memory(depth, ZERO))
        _emit_k_loop(w, role, rows, columns, f"{name}_k")
        _emit_c(w, "vstd", rows)
        w.emit("ldi", Register(POINTER_C), Memory(4 * rows * DOUBLE_BYTES, Register(POINTER_C)))
        w.emit("addl", Register(START_B), 4 * DOUBLE_BYTES, Register(START_B))
        w.emit("subl", Register(COLUMNS_LEFT), 1, Register(COLUMNS_LEFT))
        w.emit("bne", Register(COLUMNS_LEFT), SymbolReference(name))
    w.emit("br", SymbolReference("next"))


def _emit_c(w: Writer, mnemonic: str, rows: int) -> None:
    for number, register in enumerate(C_REGISTERS):
        column, vector = divmod(number, 4)
        displacement = column * rows * DOUBLE_BYTES + vector * VECTOR_BYTES
        w.emit(mnemonic, Register(register), Memory(displacement, Register(POINTER_C)))


def _emit_k_loop(w: Writer, role: int, rows: int, columns: int, name: str) -> None:
    w.label(name)
    for i, register in enumerate(A_REGISTERS):
        if role & 4:
            w.emit("vldr", Register(register), Memory(i * VECTOR_BYTES, Register(POINTER_A)))
        else:
            w.emit("getr", Register(register))
    for i, register in enumerate(B_REGISTERS):
        if role & 1:
            w.emit("lddec", Register(register), Memory(i * DOUBLE_BYTES, Register(POINTER_B)))
        else:
            w.emit("getc", Register(register))
    for column, b in enumerate(B_REGISTERS):
        for vector, a in enumerate(A_REGISTERS):
            c = C_REGISTERS[4 * column + vector]
            w.emit("vmad", Register(a), Register(b), Register(c), Register(c))
    w.emit("ldi", Register(POINTER_A), Memory(rows * DOUBLE_BYTES, Register(POINTER_A)))
    w.emit("ldi", Register(POINTER_B), Memory(columns * DOUBLE_BYTES, Register(POINTER_B)))
    w.emit("subl", Register(SCRATCH), 1, Register(SCRATCH))
    w.emit("bne", Register(SCRATCH), SymbolReference(name))


def mesh_images(
    a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64], mesh_size: int = 8
) -> list[NDArray[np.float64]]:
    """Local memories for C[m, n] += A[m, k] B[k, n]: core (i, j) holds block (i, j) of each."""

    def tiles(matrix: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        rows, columns = matrix.shape[0] // mesh_size, matrix.shape[1] // mesh_size
        return [
            matrix[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            for i in range(mesh_size)
            for j in range(mesh_size)
        ]

    return [
        np.concatenate([ta.T.ravel(), tb.ravel(), tc.T.ravel()])
        for ta, tb, tc in zip(tiles(a), tiles(b), tiles(c), strict=True)
    ]


def mesh_result(run: MeshRun, m: int, n: int, k: int, mesh_size: int = 8) -> NDArray[np.float64]:
    """C[m, n] from the cores' final local memories."""
    rows, columns, depth = m // mesh_size, n // mesh_size, k // mesh_size
    start = depth * (rows + columns)
    result = np.empty((m, n))
    for core in run.cores:
        i, j = divmod(core.core, mesh_size)
        tile = core.local_memory.view(np.float64)[start : start + rows * columns]
        place = np.s_[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        result[place] = tile.reshape(columns, rows).T
    return result
