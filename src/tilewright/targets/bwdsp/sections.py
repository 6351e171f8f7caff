"""Sections of a BWDSP's description beyond those of every machine: cycles of its primitives. And
one of its cores as a machine that programs run on.

A core's three rotating buffers are two memories: the current and the next input share one, of two
buffers, and results are in the other. Each is connected to everything outside, the regions of other
cores and main memory, by its own port at the grid's rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import ClassVar

from msgspec import structs

from tilewright.machine import Machine, Section, Sections, VectorPrimitive
from tilewright.machine.model import Contradiction, Mesh
from tilewright.machine.parts import Direction, Engine, Fabric, NonNegativeFloat

_BUFFERS = 3
"""One buffer is read, one receives the next data, one collects results."""
_UNCOUNTED = ("gap_cycles", "header_bytes", "receive_cycles")
"""Costs of messages that neither the planner nor its clocks count."""


class ProductRates(Section, frozen=True, forbid_unknown_fields=True):
    """A product takes `start_cycles`. Each vector of its sums takes `sums_cycles` to read and
    write, plus one cycle per multiply-add.
    """

    key: ClassVar[str] = "primitives.product"

    start_cycles: NonNegativeFloat
    sums_cycles: NonNegativeFloat

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """Properties of the machine that planner and programs do not support: they assume one grid
        of links, three buffers, and one multiply-add per lane and cycle.
        """
        if len(machine.fabrics) != 1:
            yield "fabrics", "one, the grid of the cores", ", ".join(machine.fabrics) or "none"
            return
        ((name, fabric),) = machine.fabrics.items()
        yield from _fabric_problems(f"fabrics.{name}", fabric, machine)
        banks = machine.space("buffers").banks
        if banks != _BUFFERS:
            yield "memory.buffers.banks", _BUFFERS, banks
        for element, rate in machine.core.arithmetic.items():
            peak, path = 2 * rate.vector_lanes, f"core.arithmetic.{element}.flops_per_cycle"
            if rate.flops_per_cycle != peak:
                yield path, f"2 * vector_lanes = {peak}", f"{rate.flops_per_cycle:g}"


def _fabric_problems(path: str, fabric: Fabric, machine: Machine) -> Iterator[Contradiction]:
    if fabric.topology != "mesh":
        yield f"{path}.topology", "mesh", fabric.topology
    if fabric.multicast == "line":
        yield f"{path}.multicast", "none or path", "line"
    for extent in ("rows", "columns"):
        own, wanted = getattr(fabric, extent), getattr(machine.mesh, extent)
        if own != wanted:
            yield f"{path}.{extent}", f"mesh.{extent} = {wanted}", own
    for key in _UNCOUNTED:
        if found := getattr(fabric, key):
            yield f"{path}.{key}", "0, which is what is counted", found


SECTIONS = Sections(
    required=(ProductRates, VectorPrimitive), needs=("memory.buffers", "memory.main")
)


READ, RESULTS = "read", "results"
"""The memories of a core's buffers."""


@cache
def core_machine(machine: Machine) -> Machine:
    """One core of `machine` as a machine, with a memory for reads and one for results."""
    whole, (fabric,) = machine.space("buffers"), machine.fabrics.values()
    buffer = whole.available_bytes // whole.banks
    rate = fabric.bytes_per_cycle * machine.clock_hz
    memory = {
        READ: structs.replace(whole, capacity_bytes=buffer * (whole.banks - 1), reserved_bytes=0),
        RESULTS: structs.replace(whole, capacity_bytes=buffer, reserved_bytes=0),
        "main": structs.replace(machine.main, scope="core"),
    }
    engines = {
        port: Engine(
            transaction_bytes=whole.alignment_bytes,
            latency_cycles=round(fabric.send_cycles + fabric.hop_cycles),
            scope="core",
            directions={"get": Direction("main", name, rate), "put": Direction(name, "main", rate)},
        )
        for port, name in (("dma", READ), ("results", RESULTS))
    }
    return structs.replace(
        machine, name=f"{machine.name} core", mesh=Mesh(1, 1), memory=memory, engines=engines
    )
