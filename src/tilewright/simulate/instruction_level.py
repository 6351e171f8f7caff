"""The instruction-level simulator: what each core computes and when, cycle by cycle.

In: programs (one for all cores or one each), a mesh, local memory images and initial registers.
Out: a `CoreRun` or `MeshRun`: cycles, every cycle without issue charged to one cause, final
memories and registers, and the issue trace of chosen cores. Pipeline: swDNN VI-A; mesh: swDNN V-A.
Every number comes from the instruction table. Main memory and DMA are not part of this level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.common.errors import MachineError
from tilewright.common.limits import MOST_CORE_CYCLES
from tilewright.simulate.launch import Core, Mesh, Registers, UnitOrder, launch, per_core
from tilewright.simulate.program import Program
from tilewright.simulate.runs import CoreRun, MeshRun, collect
from tilewright.simulate.stopped import raise_if_stopped
from tilewright.simulate.units.layout import Arrays
from tilewright.simulate.units.mesh import run_decoupled, run_in_order


def simulate_core(
    program: Program,
    *,
    entry: str | int = 0,
    registers: Registers | None = None,
    local_memory: ArrayLike | None = None,
    unit_order: UnitOrder = "in_order",
    ideal_communication: bool = False,
    trace: bool = True,
    trace_limit: int = 100_000,
    max_cycles: int = MOST_CORE_CYCLES,
) -> CoreRun:
    """One core alone, which receives nothing; arguments and errors as in `simulate_mesh`.

    With `ideal_communication` every get finds a zero at once.
    """
    run_ = simulate_mesh(
        program,
        Mesh(1, 1, ideal_communication=ideal_communication),
        entries=entry,
        registers=registers,
        local_memory=None if local_memory is None else [local_memory],
        unit_order=unit_order,
        traced_cores=(0,) if trace else (),
        trace_limit=trace_limit,
        max_cycles=max_cycles,
    )
    return run_.cores[0]


def simulate_mesh(
    programs: Program | Sequence[Program],
    mesh: Mesh,
    *,
    entries: str | int | Sequence[str | int] = 0,
    registers: Registers | Sequence[Registers] | None = None,
    local_memory: Sequence[ArrayLike] | NDArray[np.uint8] | None = None,
    unit_order: UnitOrder = "in_order",
    traced_cores: Collection[int] = (),
    trace_limit: int = 100_000,
    max_cycles: int = MOST_CORE_CYCLES,
) -> MeshRun:
    """All cores of a mesh until each one halts or runs off its program's end.

    `programs`, `entries` (label or instruction number) and `registers` (by name: an integer, a
    float, or the lanes) are one for all cores or one each. `local_memory` holds one image per core,
    arrays or bytes; shorter ones are filled up with zeros. The register named `ra`, if the table
    has one, starts with the address behind the program, so that a return from the entry point ends
    the core.

    Errors: SimulationError for a misaligned or out-of-range access, a branch out of the program, a
    put to nobody, or more than `max_cycles`; DeadlockError with a report; MachineError for what the
    table cannot do.
    """
    cores = [
        Core(program, program.entry(entry), given, core in traced_cores)
        for core, (program, entry, given) in enumerate(
            zip(
                per_core(programs, mesh.cores, "programs"),
                per_core(entries, mesh.cores, "entries"),  # type: ignore[arg-type]
                per_core(registers or {}, mesh.cores, "register sets"),
                strict=True,
            )
        )
    ]
    limit = trace_limit if traced_cores else 0
    state, bases = launch(cores, mesh, local_memory, max_cycles, limit)
    _runner(mesh, unit_order)(state)
    each = [core.program for core in cores]
    raise_if_stopped(state, each, bases)
    return collect(state, each, bases)


def _runner(mesh: Mesh, unit_order: UnitOrder) -> Callable[[Arrays], None]:
    if unit_order == "decoupled" and mesh.fabric is not None:
        raise MachineError("cores that exchange messages issue in order")
    return run_decoupled if unit_order == "decoupled" else run_in_order


def core_after(
    program: Program,
    cycles: int,
    *,
    entry: str | int = 0,
    registers: Registers | None = None,
    local_memory: ArrayLike | None = None,
    ideal_communication: bool = False,
) -> CoreRun:
    """One core alone as it is once everything of the first `cycles` cycles has issued, whether the
    program has ended or not. Arguments and errors as in `simulate_core`.
    """
    mesh = Mesh(1, 1, ideal_communication=ideal_communication)
    cores = [Core(program, program.entry(entry), registers or {}, False)]
    images = None if local_memory is None else [local_memory]
    state, bases = launch(cores, mesh, images, cycles - 1, 0)
    run_in_order(state)
    return collect(state, [program], bases).cores[0]
