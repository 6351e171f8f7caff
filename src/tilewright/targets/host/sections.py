"""Sections of a host processor's description beyond every machine's: caches, primitives."""

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
_RANGE = re.compile(r"[0-9]{1,5}-[0-9]{1,5}", re.ASCII)


class CoreCache(Struct, frozen=True, forbid_unknown_fields=True):
    """A cache of one core: `exposed_cycles_per_byte` is all that a byte from the level behind it
    costs the core beyond what overlaps with computing, in nearer caches too; no more than
    `fill_bytes_per_cycle` come at all. Addresses a multiple of `capacity_bytes / ways` apart share
    a set.
    """

    capacity_bytes: PositiveInt
    exposed_cycles_per_byte: NonNegativeFloat
    fill_bytes_per_cycle: PositiveFloat
    ways: PositiveInt


class Pages(Struct, frozen=True, forbid_unknown_fields=True):
    """Pages of `page_bytes` whose addresses the nearest level of translation holds: `count`. Where
    loops touch more, each that they come back to costs `miss_cycles`, and each with a row of what a
    product loads by vectors `row_miss_cycles`, for the core loads those early.
    """

    count: PositiveInt
    page_bytes: PositiveInt
    miss_cycles: NonNegativeFloat
    row_miss_cycles: NonNegativeFloat


class Caches(Section, frozen=True, forbid_unknown_fields=True):
    """The caches between a core and main memory, nearest first.

    Cores that have them address main memory themselves: an operand may be used where it lies. Of
    lines that a loop reads side by side, so many `streams` are fetched into the first one ahead,
    and of rows one after the other blocks of at most `lines_followed`; `lines_at_once` come into it
    beside what is loaded. Products fetch rows of a far operand in place `lines_ahead` of what they
    load, packed panels `steps_ahead` of k; main memory delivers within `latency_steps` of k. A
    product of one row reads a panel of far constants in so many `walks` side by side. What a core
    touches comes from beyond its second cache in aligned blocks of `fetched_bytes`. A byte that one
    core stores and another one reads costs both together `handed_cycles_per_byte`.
    """

    key: ClassVar[str] = "memory.caches"

    l1: CoreCache
    l2: CoreCache
    l3: CoreCache
    pages: Pages
    streams: PositiveInt
    lines_followed: NonNegativeInt
    lines_at_once: PositiveInt
    lines_ahead: PositiveInt
    steps_ahead: PositiveInt
    latency_steps: PositiveInt
    handed_cycles_per_byte: NonNegativeFloat
    walks: PositiveInt = 1
    fetched_bytes: PositiveInt = 1

    @property
    def levels(self) -> tuple[CoreCache, ...]:
        """The caches, nearest first."""
        return self.l1, self.l2, self.l3

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """Ways without a byte."""
        for name, cache in zip(("l1", "l2", "l3"), self.levels, strict=True):
            if cache.ways > cache.capacity_bytes:
                wanted = f"at most capacity_bytes = {cache.capacity_bytes}"
                yield f"{self.key}.{name}.ways", wanted, cache.ways


class Processor(Section, frozen=True, forbid_unknown_fields=True):
    """The processors that a description was measured on, as /proc/cpuinfo names them: those of
    `vendor` and `family` with a model number in one of the ranges `models`, such as 16-31.
    """

    key: ClassVar[str] = "processor"

    vendor: Text
    family: NonNegativeInt
    models: tuple[Text, ...]

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """A range that is none."""
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
    """True if a multiply-add of half a vector takes half the time of a whole one: with vectors of
    64 bytes where the peak is one a cycle.
    """
    core, element = machine.core, dtype(kind)
    lanes = core.lanes(kind)
    long = element.is_float and lanes * element.size_bytes == _HALVED_BYTES
    return long and core.peak_flops_per_cycle(kind) == 2 * lanes
