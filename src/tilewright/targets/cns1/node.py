"""One node of a CNS-1, simulated: a Torrent program and the node's memories in, a `CoreRun` out.

It uses the instruction table `torrent` with the RDRAM, the caches and the vector unit of a machine.
The data cache is a memory of its own (`d[...]`) for the data that the report keeps in it; conflicts
of its lines are not simulated.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from tilewright.asm import assemble, link
from tilewright.common.errors import SimulationError
from tilewright.common.limits import MOST_CORE_CYCLES
from tilewright.isa import InstructionTable, load_table
from tilewright.isa.table import LocalMemory
from tilewright.machine import Machine
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.runs import CoreRun
from tilewright.targets.cns1.sections import NodeCaches, Rdram, Vectors

TABLE = "torrent"
Bytes = NDArray[np.uint8]


def node_table(machine: Machine) -> InstructionTable:
    """The table of a Torrent with the numbers of a machine."""
    table, rdram, caches = load_table(TABLE), machine.section(Rdram), machine.section(NodeCaches)
    assert table.ports is not None
    assert table.instruction_cache is not None
    cycles = machine.clock_hz / 1e9
    ports = msgspec.structs.replace(
        table.ports,
        ports=rdram.ports,
        chips_per_port=rdram.chips_per_port,
        open_lines=rdram.open_lines,
        line_bytes=rdram.line_bytes,
        block_bytes=rdram.port_block_bytes,
        cycle_ns=1 / cycles,
        byte_ns=rdram.byte_ns,
        read_ns=(rdram.read_hit_ns, rdram.read_clean_miss_ns, rdram.read_dirty_miss_ns),
        write_ns=(rdram.write_hit_ns, rdram.write_clean_miss_ns, rdram.write_dirty_miss_ns),
    )
    fetch = msgspec.structs.replace(
        table.instruction_cache,
        capacity_bytes=caches.instruction_bytes,
        line_bytes=caches.instruction_line_bytes,
        miss_cycles=caches.instruction_miss_cycles,
        ways=caches.instruction_ways,
    )
    memories = (
        LocalMemory("cache", machine.space("cache").capacity_bytes),
        LocalMemory("main", machine.main.capacity_bytes),
        table.memory("host"),
    )
    return msgspec.structs.replace(
        table,
        name=f"{TABLE} of {machine.name}",
        ports=ports,
        instruction_cache=fetch,
        memories=memories,
        vector_length=machine.section(Vectors).length,
    )


def with_refresh(table: InstructionTable, machine: Machine) -> InstructionTable:
    """The table of a node whose RDRAM is refreshed as late as allowed (section 2.1.4)."""
    rdram, cycles = machine.section(Rdram), machine.clock_hz / 1e9
    assert table.ports is not None
    ports = msgspec.structs.replace(
        table.ports,
        refresh_interval_cycles=round(rdram.refresh_interval_ns * cycles),
        refresh_cycles=round(rdram.refresh_ns * cycles),
    )
    return msgspec.structs.replace(table, ports=ports)


def assembled(text: str, table: InstructionTable, name: str = "node.s") -> AssembledProgram:
    """A source in register transfer notation, assembled and linked. Raises SourceErrors."""
    base = load_table(TABLE)
    return load_image(link([assemble(text, base, filename=name)], base), table).program


def run_node(
    program: AssembledProgram,
    *,
    main: Bytes,
    cache: Bytes | None = None,
    registers: Mapping[str, int] | None = None,
    interleaved: bool = False,
    trace: bool = False,
    max_cycles: int = MOST_CORE_CYCLES,
) -> CoreRun:
    """Run one node from the first instruction until it returns.

    `main` and `cache` are the first bytes of its memories. The instruction cache holds the program
    from the start, or what codes that ran `interleaved` have left of it. Errors: those of
    `simulate_mesh`.
    """
    table = program.table
    image = np.zeros(table.memory_origins["main"] + len(main), np.uint8)
    for name, given in (("main", main), ("cache", cache)):
        if given is None:
            continue
        room, origin = table.memory(name).capacity_bytes, table.memory_origins[name]
        if len(given) > room:
            raise SimulationError(f"{len(given)} bytes do not fit memory '{name}' of {room}")
        image[origin : origin + len(given)] = given
    found = simulate_mesh(
        program,
        SimulatedMesh(1, 1, ideal_communication=True, interleaved=interleaved),
        registers={**(registers or {})},
        local_memory=image[np.newaxis],
        traced_cores=(0,) if trace else (),
        max_cycles=max_cycles,
    )
    return found.cores[0]
