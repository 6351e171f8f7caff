"""One core of a BWDSP as a machine that programs run on.

Its three rotating buffers are two memories: what is read and what comes next lie in the one, of two
buffers, results in the other. Both are joined to all that lies outside by a port of their own, of
the grid's rate: the regions of other cores, and main memory.
"""

from __future__ import annotations

from functools import cache

from msgspec import structs

from tilewright.machine import Machine
from tilewright.machine.model import Mesh
from tilewright.machine.parts import Direction, Engine

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
