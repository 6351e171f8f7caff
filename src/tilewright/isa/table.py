"""Instruction tables: an instruction set as data (operands, encodings, units, timing, effects).

In: a TOML file, read and checked by `load`. Out: a frozen `InstructionTable`. Timing numbers name
their source, with its kind: published, a compiler's model, or an assumption. The issue rules follow
swDNN VI-A; other machines use the same fields.
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
    """One operand, in written order.

    `role` is the effect's argument. `field` holds the register number or the immediate,
    displacement or target. A `register_or_immediate` has its immediate in `immediate_field`, with
    `flag_field` set to 1; a `memory` operand `displacement(base)` has its base register in
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
    its operands, named by role.
    """

    memory: str
    address: str
    count: str
    access: Literal["read", "write"]


class InstructionSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One instruction. A result is usable `latency_cycles` after issue; a unit is free again after
    `occupancy_cycles` (1 = fully pipelined). `fixed` holds the constant fields (opcode, function).
    `memory` names the local memory that a load or store addresses; "" is the first. `syntax` is a
    template if the text form is no mnemonic with operands: `{role}` denotes an operand.

    An instruction with the effect `operation` is identified by its field `operation`; it works on
    `spans` and takes `cycles`, an expression over its operands and the machine's parameters, in
    place of the two numbers.
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

    `syntax` refers to the arguments as `{0}`, `{1}`.
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

    Up to `width` instructions at the front of the queue issue per cycle. `write_after_read`
    "same_cycle" lets an instruction overwrite a register in the cycle of its last reader,
    "next_cycle" does not. `write_after_write` "finished" waits for the earlier result, "ordered"
    only keeps the order of results. With `branch_ends_group`, no instruction issues after a branch
    in its cycle. With a delay slot, the instruction after a branch is always executed.
    `decoupled_window` is the number of instructions of look-ahead for units that run out of order
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

    A put with an index of at least `broadcast_from_index` goes to all other cores of the line.
    """

    transfer_buffer_entries: int
    transfer_latency_cycles: int
    bus_cycles_per_transfer: int
    sync_latency_cycles: int
    broadcast_from_index: int
    source: str = ""


class InstructionCache(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A core's own instruction cache. A missing line takes `miss_cycles` and replaces the least
    recently used of the `ways` of its set.
    """

    capacity_bytes: int
    line_bytes: int
    miss_cycles: int
    ways: int = 1
    source: str = ""

    @property
    def sets(self) -> int:
        """Number of sets."""
        return self.capacity_bytes // (self.line_bytes * self.ways)


class MemoryPorts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ports of one local memory, each with chips that keep lines open.

    Blocks of `block_bytes` are interleaved over the ports, then over the chips of a port. A chip
    keeps `open_lines` lines open, line i in slot i modulo their number. An access through one port
    takes its time for 0 bytes plus `byte_ns` per byte, in whole cycles of `cycle_ns`. The times
    are, for reads, then for writes: a hit in an open line, a miss, and a miss that first writes
    back a changed line. Every `refresh_interval_cycles` all ports are busy for `refresh_cycles`.
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
    """Source of a number; "fitted" means a fit to published measurements of whole programs."""

    evidence: Literal["published", "compiler", "secondary", "fitted", "assumption"]
    text: str


class InstructionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """An instruction set with its issue rules; the types of the fields document the parts.

    Tables that differ only in timing share `instruction_set`, the name of the table they are built
    on, and so programs and objects. `elf_machine` is the machine number in ELF files; the default
    is unofficial, for encodings that no real processor has. Addresses in operands count units of
    `address_bytes`. With a `vector_length`, vector instructions work on the number of elements in
    the vector length register, at most `vector_length`, and take that share of their cycles.
    Accesses through `ports` take the time of the ports. A file may state `local_memory_bytes` for a
    single memory called "local".
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
        """All mnemonics in sources, including aliases, sorted."""
        return tuple(sorted({*self.by_mnemonic, *(alias.mnemonic for alias in self.aliases)}))

    @cached_property
    def known_mnemonics(self) -> frozenset[str]:
        """`mnemonics` as a set, for membership tests."""
        return frozenset(self.mnemonics)

    @cached_property
    def register_count(self) -> int:
        """Number of registers in all files, which are numbered consecutively."""
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
        """Numbers of the registers that read as zero."""
        numbers = self.register_numbers
        return frozenset(
            numbers[f"{f.prefix}{f.zero}"] for f in self.register_files if f.zero is not None
        )

    def memory_of(self, spec: InstructionSpec) -> LocalMemory:
        """The memory that an instruction addresses."""
        return self.memory(spec.memory)

    def memory(self, name: str = "") -> LocalMemory:
        """A local memory by name, "" for the first; an empty one if the table has none."""
        if name == "":
            return self.memories[0] if self.memories else LocalMemory("local", 0)
        return next(memory for memory in self.memories if memory.name == name)

    def memory_title(self, memory: LocalMemory) -> str:
        """The name of a memory in messages."""
        return "local memory" if len(self.memories) < 2 else f"memory '{memory.name}'"

    @cached_property
    def memory_origins(self) -> dict[str, int]:
        """First byte of each memory in a core's layout, aligned at multiples of 64."""
        origins: dict[str, int] = {}
        end = 0
        for memory in self.memories:
            origins[memory.name] = end + -end % 64
            end = origins[memory.name] + memory.capacity_bytes
        return origins

    @property
    def local_memory_bytes(self) -> int:
        """Bytes of a core's memories in the layout of `memory_origins`."""
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
        """Lanes of an instruction: the most lanes of any register file among its data operands."""
        files = {file.name: file.lanes for file in self.register_files}
        first = self.register_files[0].name
        named = (o.file or first for o in self.operands_of(spec) if "register" in o.kind)
        return max((files[name] for name in named), default=1)

    def alignment_bytes(self, spec: InstructionSpec) -> int:
        """Alignment of a memory access: its own size unless the table overrides it."""
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
