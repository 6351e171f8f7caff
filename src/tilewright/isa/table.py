"""Instruction tables: an instruction set as data (operands, encodings, units, timing, effects).

In: a TOML file, read and checked by `load`. Out: a frozen `InstructionTable`. Timing
numbers name their source; a source says whether it is published, a compiler's own model, or an
assumption. The issue rules follow swDNN VI-A; other machines state theirs in the same fields.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from tilewright.common.errors import MachineError
from tilewright.isa.dialect import Dialect
from tilewright.isa.effects import Effect

OperandKind = Literal["register", "immediate", "register_or_immediate", "memory", "target"]
Access = Literal["read", "write", "read_write", "none"]
UNOFFICIAL_ELF_MACHINE = 0x7477


class BitField(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Bits `low_bit` .. `low_bit + width_bits - 1` of the instruction word."""

    low_bit: int
    width_bits: int


class OperandSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One operand, in the order it is written.

    `role` is the effect's argument. `field` holds the register number or the immediate,
    displacement or target; a `register_or_immediate` puts its immediate into `immediate_field` and
    sets `flag_field` to 1; a `memory` operand `displacement(base)` puts the base register into
    `base_field`. A target counts instruction words from the following instruction.
    """

    role: str
    kind: OperandKind
    field: str
    access: Access = "none"
    file: str = ""
    immediate_field: str = ""
    flag_field: str = ""
    base_field: str = ""
    signed: bool = False
    minimum: int | None = None
    maximum: int | None = None


class EncodingFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An encoding format with its operands; bits that no field covers are zero."""

    fields: dict[str, BitField]
    operands: tuple[OperandSpec, ...]


class _Span(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A range of a memory that an instruction reads or writes while it runs.

    `address` and `count`, in address units of the table, are integer expressions over the values of
    its operands, which are called by their roles.
    """

    memory: str
    address: str
    count: str
    access: Literal["read", "write"]


class InstructionSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One instruction. A result is usable `latency_cycles` after issue; a unit is free again after
    `occupancy_cycles` (1 = fully pipelined). `fixed` gives the constant fields (opcode, function).
    `memory` names the local memory that a load or store addresses; "" is the first. `syntax` is how
    it is written where that is no mnemonic with operands: `{role}` stands for an operand.

    The effect `operation` goes by the name `operation`; it works on `spans` and takes `cycles`, an
    expression over its operands and the machine's parameters, in place of the two numbers.
    """

    mnemonic: str
    form: str
    effect: Effect
    units: tuple[str, ...]
    latency_cycles: int
    source: str
    fixed: dict[str, int] = msgspec.field(default_factory=dict)
    occupancy_cycles: int = 1
    alignment_bytes: int | None = None
    memory: str = ""
    syntax: str = ""
    operation: str = ""
    cycles: str = ""
    spans: tuple[_Span, ...] = ()

    def __hash__(self) -> int:
        return hash(self.mnemonic)


class Alias(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another way to write `instruction`: arguments by position, or fixed operands as text.

    In its `syntax` the arguments are called `{0}`, `{1}`.
    """

    mnemonic: str
    instruction: str
    operands: tuple[int | str, ...]
    arguments: int
    syntax: str = ""


class RegisterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Registers `prefix0 .. prefix(count-1)`; `zero` reads as zero and ignores writes."""

    name: str
    prefix: str
    count: int
    zero: int | None = None
    lanes: int = 1
    lane_bits: int = 64
    aliases: dict[str, int] = msgspec.field(default_factory=dict)


class LocalMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A memory of each core that loads and stores address, from 0 to its capacity."""

    name: str
    capacity_bytes: int


class IssueRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Issue rules of the pipeline.

    `width` instructions at the front of the queue are looked at per cycle. `write_after_read`
    "same_cycle" lets a register be overwritten by an instruction issued together with its last
    reader, "next_cycle" does not. `write_after_write` "finished" waits for the earlier result,
    "ordered" only keeps the order of results. `branch_ends_group`: nothing is issued after a branch
    in its cycle. With a delay slot, the instruction behind a branch is executed in any case.
    `decoupled_window` is how many instructions the units may look ahead when they run out of order
    relative to each other.
    """

    width: int
    write_after_read: Literal["same_cycle", "next_cycle"] = "same_cycle"
    write_after_write: Literal["finished", "ordered"] = "finished"
    branch_ends_group: bool = True
    taken_branch_penalty_cycles: int = 0
    delay_slots: Literal[0, 1] = 0
    decoupled_window: int = 16
    source: str = ""


class Communication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Register communication: depth of receive buffers, bus latency and rate, cost of a sync.

    A put with an index from `broadcast_from_index` on goes to all other cores of the line.
    """

    transfer_buffer_entries: int
    transfer_latency_cycles: int
    bus_cycles_per_transfer: int
    sync_latency_cycles: int
    broadcast_from_index: int
    source: str = ""


class InstructionCache(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A core's own instruction cache; a line that it lacks takes `miss_cycles`, and the place of
    the one that was used longest ago among the `ways` of its set.
    """

    capacity_bytes: int
    line_bytes: int
    miss_cycles: int
    ways: int = 1
    source: str = ""

    @property
    def sets(self) -> int:
        """Places of a line, by its address: each has all ways."""
        return self.capacity_bytes // (self.line_bytes * self.ways)


class MemoryPorts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ports of one local memory, each with chips that keep lines open.

    Blocks of `block_bytes` go to the ports in turn, and then to the chips of a port. A chip keeps
    `open_lines` lines open, line i in place i modulo their number. An access through one port takes
    its time for 0 bytes and `byte_ns` for each byte, in whole cycles of `cycle_ns`: first of reads,
    then of writes, a hit in an open line, a miss, and a miss that writes a changed line back first.
    Every `refresh_interval_cycles` all ports are busy for `refresh_cycles`.
    """

    memory: str
    ports: int
    chips_per_port: int
    open_lines: int
    line_bytes: int
    block_bytes: int
    cycle_ns: float
    byte_ns: float
    read_ns: tuple[float, float, float]
    write_ns: tuple[float, float, float]
    refresh_interval_cycles: int = 0
    refresh_cycles: int = 0
    source: str = ""


class _Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Origin of a number; "fitted" is a fit to published measurements of whole programs."""

    evidence: Literal["published", "compiler", "secondary", "fitted", "assumption"]
    text: str


class InstructionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """An instruction set with its issue rules. See the fields' own types.

    Tables that differ in timing alone share their `instruction_set`, the name of the table that
    they are built on, and with it programs and objects. `elf_machine` is the machine number of its
    ELF files; the default is unofficial and for encodings that no real processor has. Addresses in
    operands count units of `address_bytes`. With a `vector_length`, instructions on vectors work on
    as many elements as the vector length register says, that at most, and take that share of their
    cycles. Accesses to a memory behind `ports` take what these need. A file may say
    `local_memory_bytes` for one memory called "local".
    """

    name: str
    description: str
    word_bits: int
    byte_order: Literal["little", "big"]
    units: tuple[str, ...]
    register_files: tuple[RegisterFile, ...]
    issue: IssueRules
    sources: dict[str, _Source]
    forms: dict[str, EncodingFormat]
    instructions: tuple[InstructionSpec, ...]
    aliases: tuple[Alias, ...] = ()
    special_registers: dict[str, int] = msgspec.field(default_factory=dict)
    memories: tuple[LocalMemory, ...] = ()
    communication: Communication | None = None
    instruction_cache: InstructionCache | None = None
    instruction_set: str = ""
    dialect: Dialect = Dialect()
    elf_machine: int = UNOFFICIAL_ELF_MACHINE
    address_bytes: int = 1
    vector_length: int = 0
    ports: MemoryPorts | None = None

    @cached_property
    def by_mnemonic(self) -> dict[str, InstructionSpec]:
        """The instructions by mnemonic, without aliases."""
        return {spec.mnemonic: spec for spec in self.instructions}

    @cached_property
    def alias_by_mnemonic(self) -> dict[tuple[str, int], Alias]:
        """The aliases by (mnemonic, number of arguments)."""
        return {(alias.mnemonic, alias.arguments): alias for alias in self.aliases}

    @cached_property
    def mnemonics(self) -> tuple[str, ...]:
        """Every mnemonic that a source may use, aliases included, sorted."""
        return tuple(sorted({*self.by_mnemonic, *(alias.mnemonic for alias in self.aliases)}))

    @cached_property
    def known_mnemonics(self) -> frozenset[str]:
        """`mnemonics` as a set, for membership tests."""
        return frozenset(self.mnemonics)

    @cached_property
    def register_count(self) -> int:
        """Registers of all files; they are numbered through, file after file."""
        return sum(file.count for file in self.register_files)

    @cached_property
    def register_names(self) -> tuple[str, ...]:
        """The printed name of each register number."""
        return tuple(f"{f.prefix}{i}" for f in self.register_files for i in range(f.count))

    @cached_property
    def register_numbers(self) -> dict[str, int]:
        """Register number by name, with the aliases (`$sp`)."""
        numbers = {name: number for number, name in enumerate(self.register_names)}
        for file in self.register_files:
            base = numbers[f"{file.prefix}0"]
            numbers |= {f"{file.prefix}{alias}": base + i for alias, i in file.aliases.items()}
        return numbers

    @cached_property
    def zero_registers(self) -> frozenset[int]:
        """Numbers of the registers that always read as zero."""
        numbers = self.register_numbers
        return frozenset(
            numbers[f"{f.prefix}{f.zero}"] for f in self.register_files if f.zero is not None
        )

    def memory_of(self, spec: InstructionSpec) -> LocalMemory:
        """The memory that an instruction's address is in."""
        return self.memory(spec.memory)

    def memory(self, name: str = "") -> LocalMemory:
        """A local memory, the first for ""; one of no bytes where the table has none."""
        if name == "":
            return self.memories[0] if self.memories else LocalMemory("local", 0)
        return next(memory for memory in self.memories if memory.name == name)

    def memory_title(self, memory: LocalMemory) -> str:
        """The name of a memory in messages."""
        return "local memory" if len(self.memories) < 2 else f"memory '{memory.name}'"

    @cached_property
    def memory_origins(self) -> dict[str, int]:
        """First byte of each memory among a core's, which follow each other at multiples of 64."""
        origins: dict[str, int] = {}
        end = 0
        for memory in self.memories:
            origins[memory.name] = end + -end % 64
            end = origins[memory.name] + memory.capacity_bytes
        return origins

    @property
    def local_memory_bytes(self) -> int:
        """Bytes of a core's memories, laid out as `memory_origins` says."""
        if not self.memories:
            return 0
        last = self.memories[-1]
        return self.memory_origins[last.name] + last.capacity_bytes

    @property
    def lanes(self) -> int:
        """Lanes of the widest register file."""
        return max(file.lanes for file in self.register_files)

    def file_base(self, name: str) -> int:
        """Number of the first register of a file ("" = the first file)."""
        base = 0
        for file in self.register_files:
            if name in ("", file.name):
                return base
            base += file.count
        raise MachineError(f"register file '{name}' does not exist in table '{self.name}'")

    def operands_of(self, spec: InstructionSpec) -> tuple[OperandSpec, ...]:
        """The operands of an instruction in written order."""
        return self.forms[spec.form].operands

    def fields_of(self, spec: InstructionSpec) -> dict[str, BitField]:
        """The bit fields of an instruction's word."""
        return self.forms[spec.form].fields

    def access_bytes(self, spec: InstructionSpec) -> int:
        """Bytes of local memory that the instruction reads or writes; 0 for none."""
        traits = spec.effect.traits
        return traits.element_bytes * (traits.elements or self.lanes_of(spec))

    def lanes_of(self, spec: InstructionSpec) -> int:
        """Lanes of an instruction: those of the widest register file among its data operands."""
        files = {file.name: file.lanes for file in self.register_files}
        first = self.register_files[0].name
        named = (o.file or first for o in self.operands_of(spec) if "register" in o.kind)
        return max((files[name] for name in named), default=1)

    def alignment_bytes(self, spec: InstructionSpec) -> int:
        """Alignment that a memory access needs: its own size unless the table says otherwise."""
        return spec.alignment_bytes or self.access_bytes(spec)

    def __hash__(self) -> int:
        return hash(self.name)


def fixed_bits(table: InstructionTable, spec: InstructionSpec) -> tuple[int, int]:
    """(mask, value) of the constant bits: a word is this instruction iff word & mask == value."""
    mask = value = 0
    for name, constant in spec.fixed.items():
        field = table.fields_of(spec)[name]
        mask |= ((1 << field.width_bits) - 1) << field.low_bit
        value |= constant << field.low_bit
    return mask, value
