"""The mesh against a plain model that steps every core in every cycle.

The simulator runs cores ahead between contacts; this model does not, so equal cycles and stalls
show that running ahead changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.isa import Instruction, load_table
from tilewright.isa.table import Communication
from tilewright.simulate.instruction_level import DeadlockError, simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.program import AssembledProgram

Assemble = Callable[..., AssembledProgram]
CPE = load_table("sw26010_cpe")
CORES = 3
QUICK = Communication(
    transfer_buffer_entries=2,
    transfer_latency_cycles=6,
    bus_cycles_per_transfer=1,
    sync_latency_cycles=3,
    broadcast_from_index=8,
)


@dataclass
class _Core:
    left: deque[Instruction]
    ready: dict[int, int] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CPE.units, 0))
    buffer: deque[int] = field(default_factory=deque)  # arrival cycles
    popped: list[int] = field(default_factory=list)  # cycles of the gets
    cycles: int = 0


def _receivers(core: int, instruction: Instruction) -> list[int]:
    place = instruction.by_role["b"]
    assert isinstance(place, int)
    return [c for c in range(CORES) if c != core and (place >= 8 or c == place)]


def _may_communicate(
    cores: list[_Core], c: int, head: Instruction, cycle: int, bus_free: int, depth: int
) -> bool:
    if head.mnemonic == "getr":
        return bool(cores[c].buffer) and cores[c].buffer[0] <= cycle
    if head.mnemonic == "putr":
        used = (len(cores[r].buffer) + cores[r].popped.count(cycle) for r in _receivers(c, head))
        return bus_free <= cycle and all(n < depth for n in used)
    return True


def _reference(
    programs: Sequence[AssembledProgram], communication: Communication
) -> list[int] | None:
    """Cycles of each core, or None for a deadlock."""
    cores = [_Core(deque(program.instructions)) for program in programs]
    cycle = bus_free = quiet = 0
    while any(core.left for core in cores) and quiet < 200:
        quiet += 1
        for c, core in enumerate(cores):
            for slot in range(2):
                if not core.left:
                    break
                head = core.left[0]
                following = core.left[1].units if len(core.left) > 1 and slot == 0 else ()
                units = [u for u in head.units if core.free[u] <= cycle]
                waits = any(core.ready.get(r, 0) > cycle for r in (*head.reads, *head.writes))
                depth = communication.transfer_buffer_entries
                if waits or not units:
                    break
                if not _may_communicate(cores, c, head, cycle, bus_free, depth):
                    break
                if head.mnemonic == "getr":
                    core.buffer.popleft()
                    core.popped.append(cycle)
                if head.mnemonic == "putr":
                    bus_free = cycle + communication.bus_cycles_per_transfer
                    for r in _receivers(c, head):
                        cores[r].buffer.append(cycle + communication.transfer_latency_cycles)
                unit = next((u for u in units if u not in following), units[0])
                core.free[unit] = cycle + head.spec.occupancy_cycles
                core.ready.update(dict.fromkeys(head.writes, cycle + head.latency_cycles))
                core.left.popleft()
                core.cycles, quiet = cycle + 1, 0
        cycle += 1
    return None if any(core.left for core in cores) else [core.cycles for core in cores]


registers = st.integers(1, 4).map(lambda n: f"${n}")
lines = st.one_of(
    st.builds("vaddd {}, {}, {}".format, registers, registers, registers),
    st.builds("mull {}, 3, {}".format, registers, registers),
    st.builds("addl {}, 3, {}".format, registers, registers),
    st.builds("getr {}".format, registers),
    st.builds("getr {}".format, registers),
    st.builds("putr {}, {{place}}".format, registers),
    st.builds("putr {}, 8".format, registers),
)
programs = st.lists(st.lists(lines, max_size=16), min_size=CORES, max_size=CORES)


@example(
    [[], ["putr $1, {place}"] * 2, ["mull $1, 3, $1", "putr $1, 8", "getr $1"]], 1, 3, 1
)  # a sender that an arriving transfer wakes late must still see the entry freed before
@examples(300)
@given(programs, st.integers(1, 4), st.integers(1, 9), st.integers(1, 3))
def test_cycles_and_deadlocks_equal_the_plain_model(
    assemble: Assemble, texts: list[list[str]], depth: int, latency: int, bus_cycles: int
) -> None:
    communication = msgspec.structs.replace(
        QUICK,
        transfer_buffer_entries=depth,
        transfer_latency_cycles=latency,
        bus_cycles_per_transfer=bus_cycles,
    )
    each = [assemble("\n".join(text).format(place=(c + 1) % CORES)) for c, text in enumerate(texts)]
    expected = _reference(each, communication)
    event("deadlock" if expected is None else "completed")
    if expected is None:
        with pytest.raises(DeadlockError) as error:
            simulate_mesh(each, SimulatedMesh(1, CORES, communication))
        assert error.value.report.cycle
        return
    run = simulate_mesh(each, SimulatedMesh(1, CORES, communication))
    assert [core.cycles for core in run.cores] == expected
    for core in run.cores:
        assert core.issue_cycles + sum(core.stalls.values()) == core.cycles
