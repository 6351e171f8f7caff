"""Programs for the instruction-level simulator: instructions and their encoding as integer rows.

In: parsed instructions with labels. Out: an `AssembledProgram`, whose `code` the compiled simulator
reads (columns: `units.layout`). Addresses count bytes from the program's first instruction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import isa
from tilewright.common.errors import AssemblyError, MachineError
from tilewright.simulate.units import codes, layout

_SPECIALS = {
    "id": layout.SPECIAL_ID,
    "row": layout.SPECIAL_ROW,
    "column": layout.SPECIAL_COLUMN,
    "cycle": layout.SPECIAL_CYCLE,
}
_KINDS = {
    layout.LANES: "insert_word extract_word insert_lane extract_lane shuffle_lanes",
    layout.NARROW_LOAD: "load_half vector_load_i16 vector_load_i32 scalar_extend_load_i16"
    " scalar_extend_load_i32",
    layout.NARROW_STORE: "store_half vector_store_i16 vector_store_i32",
    layout.INTEGER_LANES: "vector_add_i32 vector_subtract_i32 vector_multiply_i32"
    " vector_multiply_add_i32 vector_minimum_i32 vector_maximum_i32 vector_shift_right_i32"
    " vector_saturate_i16 vector_sum_i32 broadcast_lane",
    layout.LENGTHS: "vector_copy_i32 vector_scale_i32 vector_less_scalar_i32 vector_accumulate_i32"
    " vector_scale_accumulate_i32 vector_tail_i32 vector_add_clip_i16",
    layout.GATHER: "gather_i8",
    layout.STREAM_LOAD: "stream_load_i8 stream_load_i16 stream_load_i32",
    layout.STREAM_STORE: "stream_store_i8 stream_store_i16 stream_store_i32",
}
_KIND_OF = {isa.Effect(name): kind for kind, names in _KINDS.items() for name in names.split()}
"""Effects whose class follows from their name, not from their traits."""
_MESSAGES = {
    isa.Effect.MESSAGE_SEND: layout.SPECIAL_SEND,
    isa.Effect.MESSAGE_MULTICAST: layout.SPECIAL_MULTICAST,
    isa.Effect.MESSAGE_RECEIVE: layout.SPECIAL_RECEIVE,
    isa.Effect.MESSAGE_AWAIT: layout.SPECIAL_AWAIT,
    isa.Effect.MESSAGE_ACCEPT: layout.SPECIAL_ACCEPT,
    isa.Effect.MESSAGE_HANDLER: layout.SPECIAL_HANDLER,
    isa.Effect.MESSAGE_RESUME: layout.SPECIAL_RESUME,
}
_SET_SPECIALS = {
    **_MESSAGES,
    isa.Effect.HALT: layout.SPECIAL_HALT,
    isa.Effect.SET_VECTOR_LENGTH: layout.SPECIAL_LENGTH,
    isa.Effect.SET_VECTOR_SHIFT: layout.SPECIAL_SHIFT,
}
_INTEGER_PREFIXES = ("int_", "compare_", "address")


@dataclass(frozen=True, eq=False)
class AssembledProgram:
    """Instructions of one table, their labels (instruction numbers) and their encoded rows.

    `code_address` is the address of the first instruction, on which return addresses are based.
    """

    table: isa.InstructionTable
    instructions: tuple[isa.Instruction, ...]
    labels: Mapping[str, int]
    code: NDArray[Any] = field(repr=False)
    name: str = "program"
    code_address: int = 0

    def entry(self, where: str | int) -> int:
        """The instruction number of a label; a number stands for itself. Errors: AssemblyError."""
        if isinstance(where, int):
            return where
        if where not in self.labels:
            raise AssemblyError(f"program '{self.name}' has no label '{where}'")
        return self.labels[where]

    def number_at(self, address: int) -> int:
        """The number of the instruction at an address."""
        return (address - self.code_address) // (self.table.word_bits // 8)


def encode_program(
    instructions: Sequence[isa.Instruction],
    table: isa.InstructionTable,
    *,
    name: str = "program",
    code_address: int = 0,
) -> AssembledProgram:
    """Encode instructions as rows, with labels resolved and the timing of `table`.

    Errors: AssemblyError for an undefined label or one defined twice; MachineError for instructions
    of another set, or an effect that needs another number of lanes.
    """
    instructions = [instruction.on(table) for instruction in instructions]
    labels: dict[str, int] = {}
    for number, instruction in enumerate(instructions):
        for label in instruction.labels:
            if label in labels:
                raise AssemblyError(f"label '{label}' is defined twice", where=f"{name}")
            labels[label] = number
    code = np.zeros(len(instructions), layout.plain_dtype(layout.RowState))
    rows: dict[str, Any] = {}  # by mnemonic
    for number, instruction in enumerate(instructions):
        spec = instruction.spec
        if spec.mnemonic not in rows:
            _encode(code[number], table, spec)
            rows[spec.mnemonic] = code[number].copy()
        code[number] = rows[spec.mnemonic]
        _encode_operands(code[number], instruction, number, labels)
        if spec.effect is isa.Effect.READ_SPECIAL:
            code["special"][number] = _special(table, int(code["value"][number]))
    return AssembledProgram(table, tuple(instructions), labels, code, name, code_address)


def _encode(row: Any, table: isa.InstructionTable, spec: isa.InstructionSpec) -> None:
    """Fill in the fields that all instructions of one mnemonic share."""
    _check_lanes(table, spec.effect)
    row["effect"] = codes.OF[spec.effect]
    row["kind"] = _class_of(spec.effect)
    row["latency"] = spec.latency_cycles
    row["occupancy"] = spec.occupancy_cycles
    row["units"] = sum(1 << table.units.index(unit) for unit in spec.units)
    row["lanes"] = table.lanes_of(spec)
    memory = table.memory_of(spec)
    row["last"] = memory.capacity_bytes - _least_bytes(table, spec)
    row["origin"] = table.memory_origins.get(memory.name, 0)
    row["align"] = _alignment_mask(table, spec)
    row["channel"] = _channel_of(spec.effect)
    row["flags"] = _flags_of(spec.effect) | _timing_flags(table, spec)
    row["element"] = spec.effect.traits.element_bytes
    row["is_store"] = spec.effect.traits.store
    row["special"] = _SET_SPECIALS.get(spec.effect, 0)


def _least_bytes(table: isa.InstructionTable, spec: isa.InstructionSpec) -> int:
    """Least bytes that an access touches; a stream's length is only known at run time."""
    streams = spec.effect.value.startswith("stream_")
    return 1 if streams else table.access_bytes(spec)


def _encode_operands(
    row: Any, instruction: isa.Instruction, number: int, labels: Mapping[str, int]
) -> None:
    zero, sink = instruction.table.register_count, instruction.table.register_count + 1
    row["a"] = row["b"] = row["c"] = row["waits"] = zero
    row["d"] = sink
    for role, operand in instruction.by_role.items():
        match operand:
            case isa.Register(register):
                row[role] = _row_register(instruction, register, role)
            case isa.Memory(displacement, base):
                row["b"] = _row_register(instruction, base.number, "b")
                row["value"] = _value(displacement, instruction)
            case isa.SymbolReference(name) if role == "target" and name in labels:
                row["value"] = labels[name] + operand.addend - number - 1
            case isa.SymbolReference() | int():
                row["value"] = _value(operand, instruction)
    if row["d"] != sink:
        row["waits"] = row["d"]


def _row_register(instruction: isa.Instruction, number: int, role: str) -> int:
    if number in instruction.table.zero_registers:
        return instruction.table.register_count + (1 if role == "d" else 0)
    return number


def _value(operand: int | isa.SymbolReference, instruction: isa.Instruction) -> int:
    if isinstance(operand, int):
        return operand
    where = f"line {instruction.line}" if instruction.line else ""
    raise AssemblyError(f"'{operand.name}' is not defined", where=where)


def _class_of(effect: isa.Effect) -> int:
    traits = effect.traits
    if effect in _KIND_OF:
        return _KIND_OF[effect]
    if effect in _MESSAGES:
        return layout.MESSAGE
    if traits.load or traits.store:
        return layout.LOAD if traits.load else layout.STORE
    if effect in _SET_SPECIALS or effect is isa.Effect.READ_SPECIAL:
        return layout.SYSTEM
    if traits.branch is not isa.Branch.NONE:
        return layout.BRANCH
    if effect.value.startswith("vector_"):
        return layout.VECTOR
    return layout.INTEGER if effect.value.startswith(_INTEGER_PREFIXES) else layout.NOTHING


def _channel_of(effect: isa.Effect) -> int:
    traits = effect.traits
    put = {None: 0, isa.Bus.ROW: layout.PUTS_ROW, isa.Bus.COLUMN: layout.PUTS_COLUMN}[traits.put]
    get = {None: 0, isa.Bus.ROW: layout.GETS_ROW, isa.Bus.COLUMN: layout.GETS_COLUMN}[traits.get]
    return put | get


def _flags_of(effect: isa.Effect) -> int:
    traits = effect.traits
    return (
        layout.IS_LOAD * traits.load
        | layout.IS_STORE * traits.store
        | layout.IS_ORDERED * traits.ordered
        | layout.IS_CHANNEL * (traits.put is not None or traits.get is not None)
        | layout.IS_BRANCH * (traits.branch is not isa.Branch.NONE)
        | layout.SYNCS_ROW * (effect is isa.Effect.SYNC_ROW)
        | layout.SYNCS_COLUMN * (effect is isa.Effect.SYNC_COLUMN)
        | layout.SENDS * (effect in (isa.Effect.MESSAGE_SEND, isa.Effect.MESSAGE_MULTICAST))
        | layout.AWAITS * (effect in (isa.Effect.MESSAGE_RECEIVE, isa.Effect.MESSAGE_AWAIT))
        | layout.ACCEPTS * (effect is isa.Effect.MESSAGE_ACCEPT)
    )


def _timing_flags(table: isa.InstructionTable, spec: isa.InstructionSpec) -> int:
    """Flags of instructions whose timing depends on the vector length or on memory ports."""
    traits, ports = spec.effect.traits, table.ports
    reaches = traits.load or traits.store
    behind = reaches and ports is not None and table.memory_of(spec).name == ports.memory
    scaled = table.vector_length > 0 and table.lanes_of(spec) > 1 and spec.effect not in _MESSAGES
    return layout.SCALED * scaled | layout.PORTED * behind


def _special(table: isa.InstructionTable, number: int) -> int:
    for name, special in table.special_registers.items():
        if special == number and name in _SPECIALS:
            return _SPECIALS[name]
    known = ", ".join(f"{number} ({name})" for name, number in table.special_registers.items())
    raise AssemblyError(f"no special register {number} in {table.name}", fix=f"there are: {known}")


def _alignment_mask(table: isa.InstructionTable, spec: isa.InstructionSpec) -> int:
    alignment, element = table.alignment_bytes(spec), spec.effect.traits.element_bytes
    if alignment & (alignment - 1) or alignment < element:
        raise MachineError(
            f"{spec.mnemonic}: alignment {alignment} is not a power of two of at least {element}"
        )
    return max(alignment, 1) - 1


def _check_lanes(table: isa.InstructionTable, effect: isa.Effect) -> None:
    if effect is isa.Effect.SHUFFLE_LANES and table.lanes != 4:
        raise MachineError(
            f"effect '{effect}' needs 4 lanes, table '{table.name}' has {table.lanes}"
        )
