"""The machine as a value: cores and their mesh, memories, the DMA engine, the primitives.

In: nothing (the loader builds these). Out: `Machine`, which every stage reads and none changes.
The DMA and primitive models follow swDNN section III (Table II) and swATOP section IV-C.
Every leaf carries its unit in its name; `Machine.sources` says where each number comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tilewright.common.digest import digest

PositiveInt = Annotated[int, Meta(gt=0)]
MeshExtent = Annotated[int, Meta(gt=0, le=1024)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
Text = Annotated[str, Meta(min_length=1)]
Leaf = int | float | str


class Groups(Struct, frozen=True, forbid_unknown_fields=True):
    """Core groups, each with a main memory and a DMA engine of its own."""

    count: PositiveInt


class Threads(Struct, frozen=True, forbid_unknown_fields=True):
    """Cores that share one main memory and whatever else a group has, each with caches of its own.

    They divide loops among them (`ir.threads`). `meet_cycles` pass until all know that all are at a
    barrier; `saturating` of them get all that main memory delivers.
    """

    count: MeshExtent
    meet_cycles: NonNegativeFloat
    saturating: PositiveFloat


class Mesh(Struct, frozen=True, forbid_unknown_fields=True):
    """The mesh of cores inside one group, joined by row and column buses."""

    rows: MeshExtent
    columns: MeshExtent


class Arithmetic(Struct, frozen=True, forbid_unknown_fields=True):
    """The vector unit for one element type."""

    vector_lanes: PositiveInt
    flops_per_cycle: PositiveInt


class Core(Struct, frozen=True, forbid_unknown_fields=True):
    """One core: its vector unit, its registers and the table that times its instructions.

    `f32` is given where single precision has other lanes and another peak. Cores that are not
    simulated instruction by instruction have no `instruction_table`.
    """

    vector_lanes: PositiveInt
    flops_per_cycle: PositiveInt
    registers: PositiveInt
    instruction_cache_bytes: PositiveInt
    instruction_table: Text | None = None
    f32: Arithmetic | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """The element types that it computes with."""
        return ("f64", "f32")

    def lanes(self, dtype: str) -> int:
        """Elements of one vector."""
        return self.f32.vector_lanes if self.f32 and dtype == "f32" else self.vector_lanes

    def peak_flops_per_cycle(self, dtype: str) -> int:
        """Floating-point operations of one core in a cycle."""
        return self.f32.flops_per_cycle if self.f32 and dtype == "f32" else self.flops_per_cycle


class ScratchpadMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """The software-managed memory of one core; `reserved_bytes` hold its stack and scalars."""

    capacity_bytes: PositiveInt
    reserved_bytes: NonNegativeInt
    alignment_bytes: PositiveInt


class MainMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """The main memory of one group; transfers are fastest at `alignment_bytes`.

    `direct_bytes_per_second` is what the cores of a group together get by loads and stores of their
    own, without the DMA engine.
    """

    capacity_bytes: PositiveInt
    alignment_bytes: PositiveInt
    direct_bytes_per_second: PositiveFloat


class Cache(Struct, frozen=True, forbid_unknown_fields=True):
    """A cache of one core: `exposed_cycles_per_byte` is what a byte that comes from behind it costs
    the core beyond what overlaps with computing; no more than `fill_bytes_per_cycle` come at all.
    Addresses a multiple of `capacity_bytes / ways` apart share a set.
    """

    capacity_bytes: PositiveInt
    exposed_cycles_per_byte: NonNegativeFloat
    fill_bytes_per_cycle: PositiveFloat
    ways: PositiveInt


class Caches(Struct, frozen=True, forbid_unknown_fields=True):
    """The caches between a core and main memory, nearest first."""

    l1: Cache
    l2: Cache
    l3: Cache

    @property
    def levels(self) -> tuple[Cache, ...]:
        """Nearest first."""
        return self.l1, self.l2, self.l3


class Memory(Struct, frozen=True, forbid_unknown_fields=True):
    """The memory spaces by the names that programs use for them.

    Where there are `caches`, cores address main memory themselves: an operand may be used where it
    lies.
    """

    spm: ScratchpadMemory
    main: MainMemory
    caches: Caches | None = None


class DmaDirection(Struct, frozen=True, forbid_unknown_fields=True):
    """One direction of a group's DMA engine.

    A contiguous block of s bytes counts as `ceil(s / transaction_bytes)` transactions plus
    `block_overhead_transactions`; each occupies the memory for `transaction_bytes / peak`.
    """

    peak_bytes_per_second: PositiveFloat
    block_overhead_transactions: NonNegativeFloat


class DmaLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """The largest values that the fields of one DMA descriptor hold."""

    size_bytes: PositiveInt
    block_bytes: PositiveInt
    stride_bytes: PositiveInt


class Dma(Struct, frozen=True, forbid_unknown_fields=True):
    """The DMA engine of one group: start-up, cost of issuing, bandwidth rule, descriptor limits.

    `latency_cycles` is the time from a request to its first data; `issue_cycles` is what the core
    itself spends to build and issue one descriptor. `shared_block_overhead_transactions` takes the
    place of a get's block overhead where all groups read the same data at the same time. Where
    transfers are `synchronous` the core itself copies: it computes nothing meanwhile, and a second
    buffer is of no use. Without `limits` a request may have any size.
    """

    transaction_bytes: PositiveInt
    latency_cycles: NonNegativeInt
    issue_cycles: NonNegativeInt
    shared_block_overhead_transactions: NonNegativeFloat
    get: DmaDirection
    put: DmaDirection
    limits: DmaLimits | None = None
    synchronous: bool = False


class GemmTiming(Struct, frozen=True, forbid_unknown_fields=True):
    """Calibrated cycles of the matrix-multiply primitive for one element type.

    With V and S the register blocks of one core's part along the vectorised and the other
    dimension, one call on per-core extents with k takes `call_cycles + V * row_cycles + V * S *
    mesh.columns * (k * cycles_per_k + block_cycles + switch_cycles)`; where the vectorised operand
    is strided, packing adds `ceil(k / lanes) * (sweep_cycles + V * row_sweep_cycles)`.
    """

    call_cycles: NonNegativeFloat
    row_cycles: float
    block_cycles: NonNegativeFloat
    cycles_per_k: PositiveFloat
    sweep_cycles: NonNegativeFloat
    row_sweep_cycles: NonNegativeFloat


class GemmPrimitive(Struct, frozen=True, forbid_unknown_fields=True):
    """The matrix-multiply primitive that a whole group executes.

    Per core the vectorised extent is a multiple of `lanes * register_block_vectors`, the other a
    multiple of `register_block_scalars`, unless `partial_blocks` are taken. `chains` of products
    that add into one C are one call where the machine says so. `switch_cycles` is what
    a change of roles costs beyond what the instruction-level simulation sees.
    """

    lanes: PositiveInt
    register_block_vectors: PositiveInt
    register_block_scalars: PositiveInt
    switch_cycles: NonNegativeFloat
    f64: GemmTiming
    f32: GemmTiming
    partial_blocks: bool = False
    chains: bool = False

    def timing(self, dtype: str) -> GemmTiming:
        """The cycles for one element type."""
        return self.f32 if dtype == "f32" else self.f64


class VectorPrimitive(Struct, frozen=True, forbid_unknown_fields=True):
    """Cycles per vector of the elementwise and transform primitives: loads, operations, loop."""

    load_cycles: NonNegativeFloat
    arithmetic_cycles: NonNegativeFloat
    loop_cycles: NonNegativeFloat


class Primitives(Struct, frozen=True, forbid_unknown_fields=True):
    """What a tile program may call."""

    gemm: GemmPrimitive
    vector: VectorPrimitive


class Machine(Struct, frozen=True, forbid_unknown_fields=True):
    """One machine. `sources` pairs the dotted path of each number with where it comes from."""

    name: Text
    description: str
    target: Text
    clock_hz: PositiveInt
    groups: Groups
    mesh: Mesh
    core: Core
    memory: Memory
    dma: Dma
    primitives: Primitives
    sources: tuple[tuple[str, str], ...]
    threads: Threads | None = None

    @property
    def thread_count(self) -> int:
        """Threads that a program of one group is divided among."""
        return self.threads.count if self.threads else 1

    @property
    def cores(self) -> int:
        """Cores of one group."""
        return self.mesh.rows * self.mesh.columns

    @property
    def peak_flops(self) -> float:
        """Double-precision operations per second of all groups together."""
        return self.peak_flops_of("f64")

    def peak_flops_of(self, dtype: str) -> float:
        """Floating-point operations of one element type per second, of all groups together."""
        per_cycle = self.core.peak_flops_per_cycle(dtype)
        cores = self.groups.count * self.cores * self.thread_count
        return float(cores * per_cycle * self.clock_hz)

    @property
    def spm_available_bytes(self) -> int:
        """Bytes of one core's scratchpad that buffers may take."""
        return self.memory.spm.capacity_bytes - self.memory.spm.reserved_bytes

    def content_hash(self) -> str:
        """A stable digest of everything that can change a result: all but name and prose."""
        prose = ("name", "description", "sources")
        lines = [
            f"{path}={value!r}" for path, value in leaves(self) if path.split(".")[0] not in prose
        ]
        return digest("\n".join(sorted(lines)))[:16]


def leaves(value: Struct, prefix: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield the dotted path and value of each number and text below `value`, in field order."""
    for field in msgspec.structs.fields(value):
        child = getattr(value, field.name)
        if isinstance(child, Struct):
            yield from leaves(child, f"{prefix}{field.name}.")
        elif isinstance(child, int | float | str):
            yield f"{prefix}{field.name}", child


def describe(machine: Machine) -> list[tuple[str, Leaf, str]]:
    """Each leaf of `machine` as (dotted path, value, source); texts may have an empty source."""
    sources = dict(machine.sources)
    return [(path, value, sources.get(path, "")) for path, value in leaves(machine)]
