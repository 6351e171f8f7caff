"""Sections that host descriptions have besides those of every machine: caches, processors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from tilewright.common.dtypes import dtype
from tilewright.machine.model import Contradiction, Machine, Section
from tilewright.machine.parts import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Text,
)
from tilewright.machine.sections import GemmPrimitive, Sections, VectorPrimitive

_HALVED_BYTES = 64
"""Bytes of the vectors of AVX-512, which some processors carry out in halves, or by two units of
half as many.
"""
_RANGE = re.compile(r"[0-9]{1,5}-[0-9]{1,5}", re.ASCII)


class CoreCache(Struct, frozen=True, forbid_unknown_fields=True):
    """A cache of one core."""

    capacity_bytes: PositiveInt
    exposed_cycles_per_byte: NonNegativeFloat
    """Cycles that a byte from the next level costs the core beyond those that computing hides."""
    fill_bytes_per_cycle: PositiveFloat
    """Most bytes that arrive from the next level per cycle."""
    ways: PositiveInt
    """Lines in a set."""

    @property
    def way_bytes(self) -> int:
        """Distance of addresses that share a set."""
        return self.capacity_bytes // self.ways


class Pages(Struct, frozen=True, forbid_unknown_fields=True):
    """Address translation: the first-level TLB holds `count` pages of `page_bytes`. If loops touch
    more, each page that they return to costs `miss_cycles`; a page with a row of a factor that a
    product loads by vectors costs `row_miss_cycles`, as the core loads such rows early.
    """

    count: PositiveInt
    page_bytes: PositiveInt
    miss_cycles: NonNegativeFloat
    row_miss_cycles: NonNegativeFloat


class Caches(Section, frozen=True, forbid_unknown_fields=True):
    """The caches between a core and main memory, nearest first.

    Cores with caches address main memory themselves: an operand may be used in place.
    """

    key: ClassVar[str] = "memory.caches"

    l1: CoreCache
    l2: CoreCache
    l3: CoreCache
    pages: Pages
    streams: PositiveInt
    """Sequences of lines that the hardware prefetches into the first cache side by side."""
    lines_followed: NonNegativeInt
    """Most lines of a block that the hardware prefetches when a loop reads blocks of rows in
    sequence."""
    lines_at_once: PositiveInt
    """Prefetches into the first cache in flight beside a loop's loads."""
    lines_ahead: PositiveInt
    """Lines by which products prefetch rows of a far operand that they load in place."""
    steps_ahead: PositiveInt
    """Steps of k by which products prefetch packed panels."""
    latency_steps: PositiveInt
    """Steps of k within which main memory delivers a line."""
    rows_ahead: PositiveInt
    """Rows by which copies into panels prefetch the rows that they read."""
    squares_ahead: PositiveInt
    """Squares, a line on each side, by which transposing loops prefetch the lines they write."""
    handed_cycles_per_byte: NonNegativeFloat
    """Cycles of two cores together for a byte that one stores and the other reads."""
    walks: PositiveInt = 1
    """Parts of a panel of far constants that a product of one row reads side by side."""
    fetched_bytes: PositiveInt = 1
    """Aligned block in which data from beyond the second cache arrives."""

    @property
    def levels(self) -> tuple[CoreCache, ...]:
        """The caches, nearest first."""
        return self.l1, self.l2, self.l3

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """A cache with more ways than bytes."""
        for name, cache in zip(("l1", "l2", "l3"), self.levels, strict=True):
            if cache.ways > cache.capacity_bytes:
                wanted = f"at most capacity_bytes = {cache.capacity_bytes}"
                yield f"{self.key}.{name}.ways", wanted, cache.ways


class Processor(Section, frozen=True, forbid_unknown_fields=True):
    """The processors that a description was measured on, in the terms of /proc/cpuinfo: `vendor`,
    `family`, and model numbers in one of the ranges `models`, such as 16-31.
    """

    key: ClassVar[str] = "processor"

    vendor: Text
    family: NonNegativeInt
    models: tuple[Text, ...]

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """A malformed range of models."""
        for text in self.models:
            if not _RANGE.fullmatch(text):
                yield f"{self.key}.models", "ranges such as 16-31", repr(text)

    def has(self, model: int) -> bool:
        """True if the model number lies in one of the ranges."""
        ends = (text.split("-") for text in self.models)
        return any(int(first) <= model <= int(last) for first, last in ends)


SECTIONS = Sections(
    required=(GemmPrimitive, VectorPrimitive),
    optional=(Caches, Processor),
    needs=("memory.spm", "memory.main", "dma.get", "dma.put"),
)


def multiply_adds(machine: Machine) -> float:
    """Vector multiply-adds that start in one cycle."""
    return machine.core.flops_per_cycle / (2 * machine.core.vector_lanes)


def has_halves(machine: Machine, kind: str) -> bool:
    """True if a multiply-add of half a vector takes half the time of a whole one: for vectors of 64
    bytes and a peak of one multiply-add per cycle.
    """
    core, element = machine.core, dtype(kind)
    lanes = core.lanes(kind)
    long = element.is_float and lanes * element.size_bytes == _HALVED_BYTES
    return long and core.peak_flops_per_cycle(kind) == 2 * lanes
