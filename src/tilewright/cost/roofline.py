"""swDNN's three-level model: bandwidth required and available, registers to scratchpad to memory.

In: an instantiated staged program and a machine. Out: a `Roofline` of one core group. At each level
RBW is the bandwidth at which the cores would run at their peak, from the bytes and operations of
the program's own transfers and calls; MBW is the bandwidth that the machine provides at the
program's own block sizes; EE is the fraction of their time in which the primitives compute at the
peak. swDNN III-D models the performance as peak * EE * min(1, MBW / RBW)^2 (Fig. 2, Eqs. 1, 2, 4,
5); the plain roofline, without the square, stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.cost.timing import asked_bytes, moved_bytes, of_all_cores, transfer_cycles
from tilewright.cost.totals import CallGroup, TransferGroup, cycles_of, executed
from tilewright.ir.nodes import Program
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.machine.sections import VectorPrimitive
from tilewright.passes.lowering import lowering_of

MEMORY, REGISTERS, DIRECT = "main <-> scratchpad", "scratchpad <-> registers", "main <-> registers"
_VECTORS_PER_MULTIPLY_ADD = 3
"""Vectors that a multiply-add moves without reuse: two factors, one sum (swDNN's 139.2 GB/s)."""


class Stream(Struct, frozen=True):
    """One kind of traffic of all cores of a group.

    Required is RBW, available MBW. `block_bytes` is the mean contiguous block in main memory (0 for
    registers); `moved_bytes` counts whole memory transactions.
    """

    name: str
    bytes: int
    moved_bytes: int
    block_bytes: float
    required_bytes_per_second: float
    available_bytes_per_second: float


class Level(Struct, frozen=True):
    """The streams of one level, which share its bandwidth, and the performance that they allow.

    `share` is MBW / RBW. `squared_flops` is swDNN's peak * EE * min(1, share)^2 and
    `roofline_flops` peak * min(1, share), both in operations per second.
    """

    name: str
    streams: tuple[Stream, ...]
    required_bytes_per_second: float
    available_bytes_per_second: float
    share: float
    squared_flops: float
    roofline_flops: float


class Roofline(Struct, frozen=True):
    """One program on one core group.

    `flops` are the operations of its matrix products, padding included; the fraction
    `useful_fraction` of them is asked for. The two performances count only operations asked for:
    `squared_flops` is the minimum over levels of swDNN's formula, `roofline_flops` the minimum of
    peak * EE and the levels' rooflines. Neither includes the level of `direct` accesses, which the
    program does not use.
    """

    machine: str
    peak_flops: float
    flops: int
    useful_fraction: float
    execution_efficiency: float
    levels: tuple[Level, ...]
    direct: Level
    squared_flops: float
    roofline_flops: float

    def level(self, name: str, streams: Iterable[Stream]) -> Level:
        """A level of some streams alone: swDNN's Eqs. 1 and 2 count only gets."""
        return _level(self, name, tuple(streams))


@dataclass(frozen=True)
class _Work:
    """Work of all cores of the group in matrix products, on vectors of `lanes` elements."""

    peak_flops: float
    flops: int
    execution_efficiency: float
    lanes: int
    vector_bytes: int

    def stream(
        self, name: str, size: int, seconds: float, moved: int = 0, blocks: int = 0
    ) -> Stream:
        required = size / self.flops * self.peak_flops
        block = size / blocks if blocks else 0.0
        return Stream(name, size, moved or size, block, required, size / seconds)


def _level(work: _Work | Roofline, name: str, streams: tuple[Stream, ...]) -> Level:
    """The level of streams that share one path: their times add up."""
    required = sum(s.required_bytes_per_second for s in streams)
    seconds = sum(s.bytes / s.available_bytes_per_second for s in streams)
    available = sum(s.bytes for s in streams) / seconds if seconds else math.inf
    share = available / required if required else math.inf
    roof = work.peak_flops * min(1.0, share)
    squared = roof * work.execution_efficiency * min(1.0, share)
    return Level(name, streams, required, available, share, squared, roof)


def roofline(program: Program, machine: Machine, useful_flops: int | None = None) -> Roofline:
    """The three levels of an instantiated program.

    `useful_flops` are the operations asked for, where tiles are padded. Raises ProgramError for a
    program without a matrix product, or with free parameters.
    """
    transfers, calls = executed(program, machine)
    work = _work(program, machine, calls)
    levels = (
        _level(work, MEMORY, _memory_streams(work, transfers, program, machine)),
        _level(work, REGISTERS, _register_streams(work, calls, machine)),
    )
    useful = 1.0 if useful_flops is None else min(1.0, useful_flops / work.flops)
    least = min(level.roofline_flops for level in levels)
    return Roofline(
        machine=machine.name,
        peak_flops=work.peak_flops,
        flops=work.flops,
        useful_fraction=useful,
        execution_efficiency=work.execution_efficiency,
        levels=levels,
        direct=_level(work, DIRECT, (_direct_stream(work, machine),)),
        squared_flops=useful * min(level.squared_flops for level in levels),
        roofline_flops=useful * min(work.peak_flops * work.execution_efficiency, least),
    )


def _work(program: Program, machine: Machine, calls: Iterable[CallGroup]) -> _Work:
    flops, cycles, kind = 0, 0.0, "f64"
    for group in calls:
        primitive = group.stmt.primitive
        if isinstance(primitive, MatrixProduct):
            kind = primitive.dtype or kind
        each = primitive.flops(group.dims, machine.mesh.columns)
        flops += group.count * machine.cores * int(each)
        cycles += group.count * cycles_of(group, program, machine)
    if not flops:
        raise ProgramError(f"program {program.name!r} has no matrix product to set a roof over")
    per_cycle = machine.cores * machine.core.peak_flops_per_cycle(kind)
    lanes = machine.core.lanes(kind)
    peak = float(per_cycle * machine.clock_hz)
    return _Work(peak, flops, flops / per_cycle / cycles, lanes, lanes * dtype(kind).size_bytes)


def _memory_streams(
    work: _Work, transfers: Sequence[TransferGroup], program: Program, machine: Machine
) -> tuple[Stream, ...]:
    """One stream per tensor and direction, through the DMA engine at the program's block sizes."""
    names = dict.fromkeys((g.stmt.tensor, g.stmt.direction) for g in transfers)
    streams = []
    for tensor, direction in names:
        shared = program.tensor(tensor).shared
        size = moved = blocks = 0
        cycles = 0.0
        for group in transfers:
            if (group.stmt.tensor, group.stmt.direction) == (tensor, direction):
                size += round(group.count * float(asked_bytes(machine, group.shape)))
                moved += round(group.count * float(moved_bytes(machine, group.shape)))
                each = of_all_cores(machine, group.shape, lambda own: own.blocks)
                blocks += round(group.count * float(each))
                service = transfer_cycles(machine, direction, group.shape, shared=shared)
                cycles += group.count * float(service)
        if size:
            seconds = cycles / machine.clock_hz
            streams.append(work.stream(f"{tensor} {direction}", size, seconds, moved, blocks))
    return tuple(streams)


def _register_streams(
    work: _Work, calls: Iterable[CallGroup], machine: Machine
) -> tuple[Stream, ...]:
    """Loads of factors, and loads and stores of results, one vector slot each (swDNN Eq. 5).

    A scalar replicated over a vector occupies a vector's slot, and a vector received over a bus
    occupies a load's slot. Results are loaded and stored once per step of the mesh.
    """
    factors = results = 0
    for group in calls:
        if isinstance(group.stmt.primitive, MatrixProduct):
            blocks = group.count * machine.cores * machine.mesh.columns
            height, width = lowering_of(machine).block
            blocks *= _blocks(group, group.stmt.primitive, (work.lanes * height, width))
            factors += blocks * group.dims["k"] * (height + width) * work.vector_bytes
            results += blocks * 2 * height * width * work.vector_bytes
    loads_per_second = (
        machine.cores * machine.clock_hz / machine.section(VectorPrimitive).load_cycles
    )
    rate = loads_per_second * work.vector_bytes
    return (
        work.stream("factors", factors, factors / rate),
        work.stream("results", results, results / rate),
    )


def _blocks(group: CallGroup, product: MatrixProduct, block: tuple[int, int]) -> int:
    """Register blocks in one core's part of a product; `block` is (elements along, across)."""
    along, across = group.dims[product.along], group.dims[product.across]
    return -(-along // block[0]) * -(-across // block[1])


def _direct_stream(work: _Work, machine: Machine) -> Stream:
    """The traffic if every multiply-add fetched its factors and its sum from main memory."""
    multiply_adds = work.flops // (2 * work.lanes)
    size = multiply_adds * _VECTORS_PER_MULTIPLY_ADD * work.vector_bytes
    return work.stream("multiply-adds", size, size / machine.direct_bytes_per_second)
