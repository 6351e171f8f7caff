"""Conversion of instructions to the schedulers' operations, and back with corrected displacements.

In: checked `Instruction`s. Out: `Operation`s with registers, units, latency, memory access and
channels read from the instruction table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.isa.dependence import MemoryAccess, Operation
from tilewright.isa.effects import Branch, Effect
from tilewright.isa.instruction import Instruction, Memory, Register
from tilewright.isa.operand_rules import immediate_range


def operations_of(instructions: Sequence[Instruction]) -> tuple[Operation, ...]:
    """One operation for each instruction, in the same order."""
    return tuple(operation_of(instruction) for instruction in instructions)


def operation_of(instruction: Instruction) -> Operation:
    """The scheduler's view of an instruction.

    The row and column buses are one channel each for puts and one each for gets, first in first
    out.
    """
    traits = instruction.traits
    access = _memory_access(instruction)
    puts = (f"put {traits.put}",) if traits.put is not None else ()
    gets = (f"get {traits.get}",) if traits.get is not None else ()
    conditional = traits.branch is Branch.CONDITIONAL
    # An address that only the linker knows may be any address.
    unplaced = instruction.memory is not None and access is None
    return Operation(
        name=instruction.text(),
        reads=_reads(instruction, access),
        writes=instruction.writes,
        units=instruction.units,
        latency_cycles=instruction.latency_cycles,
        occupancy_cycles=instruction.spec.occupancy_cycles,
        memory=access,
        channels=puts + gets,
        increment_bytes=_increment(instruction),
        address_writes=_address_writes(instruction),
        barrier=traits.ordered or unplaced or (instruction.is_branch and not conditional),
        branch=conditional,
    )


def is_stream(instruction: Instruction) -> bool:
    """True for a memory access that advances its address register by another register."""
    traits = instruction.traits
    return (traits.load or traits.store) and {"b", "c"} <= set(traits.roles)


def _reads(instruction: Instruction, access: MemoryAccess | None) -> tuple[int, ...]:
    """The registers read; the base of an access is listed twice if it is also data."""
    if access is None or is_stream(instruction):
        return instruction.reads
    specs = instruction.table.operands_of(instruction.spec)
    as_data = any(
        isinstance(operand, Register)
        and operand.number == access.base
        and spec.access in ("read", "read_write")
        for spec, operand in zip(specs, instruction.operands, strict=True)
    )
    return (*instruction.reads, access.base) if as_data else instruction.reads


def _address_writes(instruction: Instruction) -> tuple[int, ...]:
    """The address register that a stream advances."""
    base = instruction.by_role["b"] if is_stream(instruction) else None
    return (
        (base.number,) if isinstance(base, Register) and base.number in instruction.writes else ()
    )


def _memory_access(instruction: Instruction) -> MemoryAccess | None:
    table, spec, memory = instruction.table, instruction.spec, instruction.memory
    if is_stream(instruction):
        base = instruction.by_role["b"]
        assert isinstance(base, Register)
        size, store = table.access_bytes(spec), instruction.traits.store
        return MemoryAccess(base.number, 0, size, store, memory=table.memory_of(spec).name)
    if memory is None or not isinstance(memory.displacement, int):
        return None
    operand = next(o for o in table.operands_of(spec) if o.kind == "memory")
    lowest, highest = immediate_range(table, spec, operand)
    return MemoryAccess(
        base=memory.base.number,
        displacement_bytes=memory.displacement,
        size_bytes=table.access_bytes(spec),
        is_store=instruction.traits.store,
        smallest_displacement=lowest,
        largest_displacement=highest,
        memory=table.memory_of(spec).name,
    )


def _increment(instruction: Instruction) -> int | None:
    """The constant that the instruction adds to its only written register; None otherwise."""
    roles = instruction.by_role
    match instruction.spec.effect:
        case Effect.INT_ADD | Effect.INT_ADD_WORD | Effect.INT_SUBTRACT as effect:
            amount = roles["b"]
            if roles["a"] == roles["d"] and isinstance(amount, int):
                return -amount if effect is Effect.INT_SUBTRACT else amount
        case Effect.ADDRESS:
            memory = roles["memory"]
            if isinstance(memory, Memory) and isinstance(memory.displacement, int):
                return memory.displacement if memory.base == roles["d"] else None
        case _:
            pass
    return None


def with_displacement(instruction: Instruction, added_bytes: int) -> Instruction:
    """The memory access with `added_bytes` added to its displacement."""
    if added_bytes == 0:
        return instruction
    operands = tuple(
        Memory(operand.displacement + added_bytes, operand.base)
        if isinstance(operand, Memory) and isinstance(operand.displacement, int)
        else operand
        for operand in instruction.operands
    )
    return replace(instruction, operands=operands)
