"""Set up a program on a machine with a window: rules, registers and memories.

In: instructions of the machine's table, initial memories. Out: an `Executor`, ready to run. The
machine's `issue` says how many long operations may be in flight, the table how instructions issue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import MachineError
from tilewright.common.limits import MOST_WINDOW_CYCLES
from tilewright.isa import Instruction, InstructionTable
from tilewright.machine import Machine
from tilewright.simulate.window.decode import decode_steps
from tilewright.simulate.window.execute import Executor
from tilewright.simulate.window.memories import ElementRange, Memories
from tilewright.simulate.window.run import OPERATIONS

_ELEMENTS = {1: np.int8, 2: np.int16, 4: np.int32}


def window_executor(
    instructions: Sequence[Instruction],
    table: InstructionTable,
    machine: Machine,
    *,
    registers: Mapping[str, int] | None = None,
    memories: Mapping[str, NDArray[Any]] | None = None,
    read_only: Sequence[ElementRange] = (),
    values: bool = True,
    max_cycles: int = MOST_WINDOW_CYCLES,
    code_address: int = 0,
) -> Executor:
    """An executor of linked instructions. `registers` sets some by name, the others start at zero.

    `memories` holds the elements of whole memories; the others are zeros of the machine's sizes.
    Without `values` operations are timed and not computed. `code_address` is that of the first
    instruction, in the table's units of address. Running raises SimulationError for a span outside
    its memory, a write to a `read_only` range, a branch out of the program, or more than
    `max_cycles`. Raises MachineError for a machine whose cores have no window.
    """
    rules = machine.issue
    if rules is None or rules.rule != "window":
        raise MachineError(
            f"machine {machine.name!r} has no window of long operations",
            fix='give issue.rule = "window" and issue.in_flight',
        )
    given, family = dict(memories or {}), OPERATIONS.required(machine)
    return Executor(
        steps=decode_steps(instructions, family.meanings(machine), family.parameters(machine)),
        rules=table.issue,
        window=rules,
        registers=_registers(table, registers or {}),
        zero_registers=table.zero_registers,
        memories=_memories(table, machine, given, tuple(read_only), values),
        with_values=values,
        max_cycles=max_cycles,
        code_address=code_address,
        parameters=family.parameters(machine),
    )


def _registers(table: InstructionTable, values: Mapping[str, int]) -> list[int]:
    found = [0] * table.register_count
    for name, value in values.items():
        found[table.register_numbers[name]] = value
    return found


def _memories(
    table: InstructionTable,
    machine: Machine,
    given: Mapping[str, NDArray[Any]],
    read_only: tuple[ElementRange, ...],
    values: bool,
) -> Memories:
    """The given memories at their lengths, the others as zeros of the machine's sizes."""
    kind, unit = _ELEMENTS[table.address_bytes], table.address_bytes
    sizes = {m.name: machine.space(m.name).capacity_bytes // unit for m in table.memories}
    sizes |= {name: len(array) for name, array in given.items()}
    arrays = {}
    for name, size in sizes.items() if values else ():
        arrays[name] = np.array(given[name], kind) if name in given else np.zeros(size, kind)
    return Memories(sizes, arrays, read_only)
