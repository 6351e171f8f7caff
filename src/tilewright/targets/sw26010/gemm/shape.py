"""Shapes and variants of the SW26010 GEMM primitive, and the rules for shapes.

In: a variant (layouts of A and B, the vectorised dimension; swATOP appendix lists the eight) and
the extents per core. Out: a `GemmPlan`: the product seen as a vector operand times a scalar
operand, with strides in bytes. Unsupported shapes are refused with the rule and the numbers.

Also: offsets in the primitive's memory tables, for values that do not fit its registers.

The first two tables hold the jump targets at the end of each step of a block: the first for a block
followed by another in its row of blocks, the second for the last one of a row. Words and the
targets by role follow, from which a core fills the first two.

A chain has one table for the ends of steps and, in place of the second, targets for the end of a
block, one of which is written to the table's last word for the block to come. After all other
tables come the distances from the operand of a link to that of the next. A core reads them, through
the pointer that walks the table, in the step in which it sends that operand, so they start as many
words later as that step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from tilewright.common.errors import CapacityError, ScheduleError
from tilewright.common.expr import Value

LARGEST_MESH = 16
"""Most steps that the tables have room for: the mesh is square, and each column sends once."""

_WORD = 8
ROW_TABLE_SHIFT = 7
FOLLOWED_TABLE, LAST_TABLE = 0, _WORD * LARGEST_MESH
LIMIT, BLOCKS_LEFT, START, SAVED, PACKED_ADDRESS = 256, 264, 272, 280, 304
STEP_TARGETS = 312
BLOCK_TARGETS = STEP_TARGETS + 16 * _WORD
DRAIN_TARGETS = BLOCK_TARGETS + 16 * _WORD
START_TARGETS = DRAIN_TARGETS + 4 * _WORD
TABLE_BYTES = 640

LARGEST_LINKS = 49
"""The taps of a 7 x 7 kernel: their pairs and distances take half the room left to the stack."""
END_TARGETS = LAST_TABLE
VECTOR_REWIND, SCALAR_REWIND = LAST_TABLE + 2 * _WORD, LAST_TABLE + 3 * _WORD
RESULT_ADDRESS = PACKED_ADDRESS
VECTOR_DISTANCES = TABLE_BYTES


def scalar_distances(links: int, mesh: int) -> int:
    """Offset of the scalar operand's distances."""
    return VECTOR_DISTANCES + _WORD * (links + mesh)


def table_bytes(links: int, mesh: int) -> int:
    """Bytes of all tables, in whole vectors."""
    if links == 1:
        return TABLE_BYTES
    return -(-(scalar_distances(links, mesh) + _WORD * (links + mesh)) // 32) * 32


VECTOR_LANES = 4
VECTOR_BLOCK = 16
SCALAR_BLOCK = 4
MESH_STEPS = 8
LOCAL_MEMORY_BYTES = 64 * 1024
LARGEST_DISPLACEMENT = (1 << 15) - 1

Layout = Literal["row", "column"]
Dimension = Literal["m", "n"]


@dataclass(frozen=True)
class Precision:
    """An element type and its instructions. A `fused` load also broadcasts what it loads; without
    it a put follows (there is no single-precision load-and-broadcast).
    """

    name: str
    prefix: str
    element_bytes: int
    multiply_add: str
    vector_load: str
    vector_store: str
    scalar_load: str
    fused: bool

    @property
    def vector_bytes(self) -> int:
        """A vector in memory."""
        return VECTOR_LANES * self.element_bytes


F64 = Precision("f64", "d", 8, "vmad", "vldd", "vstd", "ldde", fused=True)
F32 = Precision("f32", "s", 4, "vmas", "vlds", "vsts", "ldse", fused=False)
PRECISIONS = {"f64": F64, "f32": F32}


@dataclass(frozen=True)
class GemmVariant:
    """One of the eight primitives: `vectorised` dimension of C, storage order of A (m x k) and of B
    (k x n).

    C has its vectorised dimension contiguous: column-major for "m", row-major for "n".
    """

    vectorised: Dimension = "m"
    a_layout: Layout = "column"
    b_layout: Layout = "row"
    precision: Precision = F64

    @property
    def name(self) -> str:
        """For instance `dgemm_m_acolumn_brow`."""
        layouts = f"a{self.a_layout}_b{self.b_layout}"
        return f"{self.precision.prefix}gemm_{self.vectorised}_{layouts}"


_LAYOUTS: tuple[Layout, ...] = ("column", "row")
_DIMENSIONS: tuple[Dimension, ...] = ("m", "n")
VARIANTS = tuple(GemmVariant(*choice) for choice in product(_DIMENSIONS, _LAYOUTS, _LAYOUTS))
SINGLE_VARIANTS = tuple(replace(variant, precision=F32) for variant in VARIANTS)


@dataclass(frozen=True)
class GemmShape:
    """Extents per core: A is m x k, B is k x n, C is m x n elements; leading dimensions in
    elements.

    A leading dimension of 0 stands for the smallest legal one. Operands, tables and workspace must
    fit `local_memory_bytes`. The mesh has `mesh` x `mesh` cores, and the product as many steps. A
    chain adds the products of `links` pairs of such A and B into one C.
    """

    m: int
    n: int
    k: int
    lda: int = 0
    ldb: int = 0
    ldc: int = 0
    local_memory_bytes: int = LOCAL_MEMORY_BYTES
    mesh: int = MESH_STEPS
    links: int = 1

    @property
    def multiply_adds(self) -> int:
        """Vector multiply-adds of one core, all steps and links: its cycles at peak."""
        return self.links * self.mesh * self.m * self.n * self.k // VECTOR_LANES


@dataclass(frozen=True)
class GemmPlan:
    """The product as (vector operand) x (scalar operand), strides and sizes in bytes.

    `vector_step` and `scalar_step` lead to the next k, `scalar_stride` and `result_stride` to the
    next element of the scalar dimension; the vector dimension is contiguous in C and, after
    packing, in its operand.
    """

    variant: GemmVariant
    shape: GemmShape
    vector_blocks: int
    scalar_blocks: int
    vector_step: int
    scalar_step: int
    scalar_stride: int
    result_stride: int
    packs_vector: bool
    vector_leading_bytes: int
    operand_bytes: tuple[int, int, int]
    workspace_bytes: int

    @property
    def vector_bytes(self) -> int:
        """A vector of four elements in memory."""
        return self.variant.precision.vector_bytes

    @property
    def table_bytes(self) -> int:
        """The tables, of a chain with the distances between its operands."""
        return table_bytes(self.shape.links, self.shape.mesh)

    @property
    def local_memory_bytes(self) -> int:
        """A and B of one product, C, the workspace and the tables."""
        return sum(self.operand_bytes) + self.workspace_bytes + self.table_bytes


def plan_gemm(variant: GemmVariant, shape: GemmShape) -> GemmPlan:
    """Check a shape, derive the strides. Errors: ScheduleError (rules), CapacityError (limits)."""
    by_m = variant.vectorised == "m"
    if not 1 <= shape.mesh <= LARGEST_MESH:
        raise ScheduleError(
            f"{variant.name}: a mesh of {shape.mesh} x {shape.mesh} cores",
            fix=f"use 1 to {LARGEST_MESH} rows and as many columns",
        )
    vector, scalar = (shape.m, shape.n) if by_m else (shape.n, shape.m)
    _check_multiples(variant, vector, scalar, shape.k)
    leading_a = _leading("lda", shape.lda, *_extents(variant.a_layout, shape.m, shape.k))
    leading_b = _leading("ldb", shape.ldb, *_extents(variant.b_layout, shape.k, shape.n))
    leading_c = _leading("ldc", shape.ldc, vector, scalar)
    vector_leading, scalar_leading = (leading_a, leading_b) if by_m else (leading_b, leading_a)
    contiguous = variant.a_layout == "column" if by_m else variant.b_layout == "row"
    _check_links(variant, shape.links, contiguous)
    scalar_fast = variant.b_layout == "row" if by_m else variant.a_layout == "column"
    size = variant.precision.element_bytes
    _check_aligned("lda" if by_m else "ldb", vector_leading, size)
    _check_aligned("ldc", leading_c, size)
    sizes = (
        size * leading_a * (shape.k if variant.a_layout == "column" else shape.m),
        size * leading_b * (shape.n if variant.b_layout == "column" else shape.k),
        size * leading_c * scalar,
    )
    plan = GemmPlan(
        variant=variant,
        shape=shape,
        vector_blocks=vector // VECTOR_BLOCK,
        scalar_blocks=scalar // SCALAR_BLOCK,
        vector_step=(vector_leading if contiguous else vector) * size,
        scalar_step=(scalar_leading if scalar_fast else 1) * size,
        scalar_stride=(1 if scalar_fast else scalar_leading) * size,
        result_stride=leading_c * size,
        packs_vector=not contiguous,
        vector_leading_bytes=vector_leading * size,
        operand_bytes=sizes,
        workspace_bytes=0 if contiguous else vector * shape.k * size,
    )
    _check_limits(plan)
    return plan


def _extents(layout: Layout, rows: int, columns: int) -> tuple[int, int]:
    """(contiguous, other) extent of a matrix."""
    return (rows, columns) if layout == "column" else (columns, rows)


def _leading(name: str, given: int, contiguous: int, _other: int) -> int:
    smallest = -(-contiguous // VECTOR_LANES) * VECTOR_LANES
    if given and given < contiguous:
        raise ScheduleError(
            f"{name} = {given} is smaller than the contiguous extent {contiguous}",
            fix=f"use {name} >= {smallest}",
        )
    return given or smallest


def _check_multiples(variant: GemmVariant, vector: int, scalar: int, k: int) -> None:
    other = "n" if variant.vectorised == "m" else "m"
    rules = (
        (variant.vectorised, vector, VECTOR_BLOCK, "4 vectors of 4 lanes"),
        (other, scalar, SCALAR_BLOCK, "4 scalars"),
        ("k", k, 1, "the reduction"),
    )
    for name, extent, multiple, why in rules:
        if extent < 1 or extent % multiple:
            raise ScheduleError(
                f"{variant.name}: {name} = {extent} per core is not a positive multiple of "
                f"{multiple} ({why})",
                fix=f"pad {name} to {max(1, -(-extent // multiple)) * multiple}",
            )


def _check_links(variant: GemmVariant, links: int, contiguous: bool) -> None:
    if not 1 <= links <= LARGEST_LINKS:
        raise ScheduleError(
            f"{variant.name}: a chain of {links} products", fix=f"use 1 to {LARGEST_LINKS}"
        )
    if links > 1 and not contiguous:
        raise ScheduleError(
            f"{variant.name} packs the operand that it loads by vectors, and takes one product a "
            f"call, not a chain of {links}",
            fix="store that operand along the vectors",
        )


def _check_aligned(name: str, leading: int, element_bytes: int) -> None:
    if leading % VECTOR_LANES:
        raise ScheduleError(
            f"{name} = {leading} elements of {element_bytes} bytes breaks the "
            f"{VECTOR_LANES * element_bytes}-byte alignment of vectors",
            fix=f"use {name} = {-(-leading // VECTOR_LANES) * VECTOR_LANES}",
        )


def block_reaches(
    scalar_stride: Value,
    scalar_step: Value,
    vector_leading: Value,
    vector_step: Value,
    result_stride: Value,
    vector: Value,
) -> tuple[Value, Value, Value, Value]:
    """Largest distances from the pointers of a block at which it reads the scalar operand, updates
    the result, packs the vector operand (rows `vector_leading` apart; 0 if it is not packed) and
    reads the vector operand, in the unit of the strides and of `vector`.
    """
    last = SCALAR_BLOCK - 1
    return (
        last * scalar_stride + scalar_step,
        last * result_stride + last * vector,
        last * vector_leading,
        last * vector + vector_step,
    )


def _check_limits(plan: GemmPlan) -> None:
    total = plan.local_memory_bytes
    if total > plan.shape.local_memory_bytes:
        a, b, c = plan.operand_bytes
        raise CapacityError(
            f"A {a} + B {b} + C {c} + workspace {plan.workspace_bytes} + "
            f"tables {plan.table_bytes} = {total} bytes "
            f"exceed the {plan.shape.local_memory_bytes} bytes of local memory",
            fix="use smaller extents per core",
        )
    reach = max(
        block_reaches(
            plan.scalar_stride,
            plan.scalar_step,
            plan.vector_leading_bytes if plan.packs_vector else 0,
            plan.vector_step,
            plan.result_stride,
            plan.vector_bytes,
        )
    )
    if reach > LARGEST_DISPLACEMENT:
        raise CapacityError(
            f"the block reaches {reach} bytes from its pointer, a displacement at most "
            f"{LARGEST_DISPLACEMENT}",
            fix="use a smaller leading dimension",
        )
