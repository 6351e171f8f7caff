"""Sections of a CNS-1 description beyond every machine's: RDRAM, caches, vectors, messages.

The keys follow ICSI TR-93-046, section 2. Times of the RDRAM are those of its data sheets, in
nanoseconds; all others are cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta

from tilewright.machine import parts
from tilewright.machine.model import Contradiction, Machine, Section
from tilewright.machine.sections import Sections

AccessNs = Annotated[float, Meta(ge=0, le=10_000)]
"""Time of an access. Scheduling loops around longer ones, cycle by cycle, would take minutes."""

MOST_PATTERNS = 3
"""Patterns that a loop can take together; more would leave a node no registers."""
_LENGTH, _LANES, _REGISTERS = 32, 8, 32
"""Elements of a vector, lanes of a pipe, registers of each file, as in the table `torrent`."""


class Rdram(Section, frozen=True, forbid_unknown_fields=True):
    """The main memory of a node: `ports`, each with chips that keep `open_lines` lines open.

    An access of x bytes through one port takes its `_ns` plus x times `byte_ns`: a hit in an open
    line, a miss, or a miss that first writes back a line that was written (section 2.1.3). Blocks
    of `port_block_bytes` go to the ports in turn, blocks of `chip_block_bytes` to the chips of
    all ports together.
    """

    key: ClassVar[str] = "memory.rdram"

    ports: parts.PositiveInt
    chips_per_port: parts.PositiveInt
    open_lines: parts.PositiveInt
    line_bytes: parts.PositiveInt
    port_block_bytes: parts.PositiveInt
    chip_block_bytes: parts.PositiveInt
    byte_ns: parts.PositiveFloat
    read_hit_ns: AccessNs
    read_clean_miss_ns: AccessNs
    read_dirty_miss_ns: AccessNs
    write_hit_ns: AccessNs
    write_clean_miss_ns: AccessNs
    write_dirty_miss_ns: AccessNs
    refresh_interval_ns: parts.PositiveFloat
    refresh_ns: parts.NonNegativeFloat

    @property
    def chips(self) -> int:
        """Chips of all ports."""
        return self.ports * self.chips_per_port

    @property
    def open_bytes(self) -> int:
        """Bytes of consecutive addresses that one open line of every chip holds."""
        return self.chips * self.line_bytes

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """Blocks, lines and ports that do not match."""
        stripe = self.ports * self.port_block_bytes
        if self.chip_block_bytes != stripe:
            wanted = f"ports * port_block_bytes = {stripe}"
            yield f"{self.key}.chip_block_bytes", wanted, self.chip_block_bytes
        if self.line_bytes % self.port_block_bytes:
            wanted = f"a multiple of port_block_bytes = {self.port_block_bytes}"
            yield f"{self.key}.line_bytes", wanted, self.line_bytes
        if self.refresh_ns >= self.refresh_interval_ns:
            wanted = f"less than refresh_interval_ns = {self.refresh_interval_ns:g}"
            yield f"{self.key}.refresh_ns", wanted, f"{self.refresh_ns:g}"
        if machine.main.banks != self.ports:
            yield "memory.main.banks", f"{self.key}.ports = {self.ports}", machine.main.banks


class NodeCaches(Section, frozen=True, forbid_unknown_fields=True):
    """The instruction cache of a node, and the lines of the data cache, which is `memory.cache`.

    A miss of the instruction cache adds `instruction_miss_cycles` to the fetch.
    """

    key: ClassVar[str] = "memory.caches"

    instruction_bytes: parts.PositiveInt
    instruction_line_bytes: parts.PositiveInt
    instruction_ways: parts.PositiveInt
    instruction_miss_cycles: parts.NonNegativeInt
    data_line_bytes: parts.PositiveInt

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """Ways that do not divide the lines; lines of two sizes."""
        lines = self.instruction_bytes // self.instruction_line_bytes
        if not lines or lines % self.instruction_ways:
            wanted = f"a divisor of the {lines} lines"
            yield f"{self.key}.instruction_ways", wanted, self.instruction_ways
        aligned = machine.space("cache").alignment_bytes
        if self.data_line_bytes != aligned:
            wanted = f"memory.cache.alignment_bytes = {aligned}"
            yield f"{self.key}.data_line_bytes", wanted, self.data_line_bytes


class Vectors(Section, frozen=True, forbid_unknown_fields=True):
    """The vector unit: `length` elements of a register, 32 as everywhere in the report.

    `multiply_accumulate` is 1 if one instruction of the first pipe multiplies and adds, 0 if the
    second pipe adds. `scalar_registers` of the vector unit hold the scalars of vector instructions;
    with 0 they are read from the scalar unit.
    """

    key: ClassVar[str] = "core.vectors"

    length: parts.PositiveInt
    registers: parts.PositiveInt
    multiply_accumulate: parts.NonNegativeInt
    scalar_registers: parts.NonNegativeInt

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """Numbers that a Torrent's instructions do not support."""
        given = machine.core.arithmetic
        wanted = (
            (f"{self.key}.length", self.length, (_LENGTH,)),
            (f"{self.key}.registers", self.registers, (_REGISTERS,)),
            (f"{self.key}.multiply_accumulate", self.multiply_accumulate, (0, 1)),
            (f"{self.key}.scalar_registers", self.scalar_registers, (0, _REGISTERS)),
            ("core.registers", machine.core.registers, (_REGISTERS,)),
            *(
                (f"core.arithmetic.{n}.vector_lanes", r.vector_lanes, (_LANES,))
                for n, r in given.items()
            ),
        )
        for name, found, allowed in wanted:
            if found not in allowed:
                known = " or ".join(map(str, allowed))
                yield name, f"{known}, as the instructions of a Torrent have it", found


class KernelStripes(Section, frozen=True, forbid_unknown_fields=True):
    """How kernels traverse a matrix: `stripe_columns` together, of one or two vectors, for
    `patterns` vectors of activations or errors at a time, up to `MOST_PATTERNS`.
    """

    key: ClassVar[str] = "kernels"

    stripe_columns: parts.PositiveInt
    patterns: parts.PositiveInt

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """Stripes or patterns without a loop."""
        length = machine.section(Vectors).length
        if self.stripe_columns not in (length, 2 * length):
            wanted = f"{length} or {2 * length}, one or two vectors"
            yield f"{self.key}.stripe_columns", wanted, self.stripe_columns
        if self.patterns > MOST_PATTERNS:
            yield f"{self.key}.patterns", f"1 to {MOST_PATTERNS}", self.patterns


class Messages(Section, frozen=True, forbid_unknown_fields=True):
    """Cost of active messages on the processors, and grouping of nodes for global sums.

    Of the send and receive cycles of the fabric, the processor itself is busy for
    `processor_send_cycles` and `processor_receive_cycles`. One round of a global sum takes
    `sum_cycles` beside its transfers. `hidden_sharers` nodes of a ring hold parts of the same
    hidden vector; it divides the columns of the network.
    """

    key: ClassVar[str] = "messages"

    processor_send_cycles: parts.NonNegativeInt
    processor_receive_cycles: parts.NonNegativeInt
    sum_cycles: parts.NonNegativeInt
    hidden_sharers: parts.PositiveInt

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """A missing network, or groups that do not divide a ring."""
        if "torrents" not in machine.fabrics:
            yield "fabrics.torrents", "the network of the nodes", "none"
        fabric, key = machine.fabrics["torrents"], "fabrics.torrents"
        if fabric.columns % self.hidden_sharers:
            wanted = f"a divisor of {key}.columns = {fabric.columns}"
            yield f"{self.key}.hidden_sharers", wanted, self.hidden_sharers
        if fabric.topology not in ("mesh", "ring_mesh", "torus"):
            wanted = "mesh, ring_mesh or torus, which have links between neighbours"
            yield f"{key}.topology", wanted, fabric.topology
        for name in ("rows", "columns"):
            own, found = getattr(machine.mesh, name), getattr(fabric, name)
            if found < own:
                yield f"{key}.{name}", f"mesh.{name} = {own} at least", found
        yield from self._cycles_problems(fabric, key)

    def _cycles_problems(self, fabric: parts.Fabric, key: str) -> Iterator[Contradiction]:
        """Fractions of cycles, and interfaces that finish before their processors."""
        for name in ("hop_cycles", "gap_cycles", "send_cycles", "receive_cycles"):
            found = getattr(fabric, name)
            own = f"processor_{name}"
            if found != int(found):
                yield f"{key}.{name}", "a whole number of cycles", f"{found:g}"
            if found < getattr(self, own, 0):
                wanted = f"{self.key}.{own} = {getattr(self, own)} at least"
                yield f"{key}.{name}", wanted, f"{found:g}"


class Hosts(Section, frozen=True, forbid_unknown_fields=True):
    """The I/O nodes below the mesh: a quarter of them have ports to the outside world.

    A port takes `block_cycles` to read or write `block_bytes`, the most that a message carries.
    """

    key: ClassVar[str] = "hosts"

    ports: parts.PositiveInt
    port_bytes_per_second: parts.PositiveFloat
    block_bytes: parts.PositiveInt
    block_cycles: parts.PositiveInt


class Runtime(Section, frozen=True, forbid_unknown_fields=True):
    """Cost of calling a procedure and of handling a thread.

    The report gives no numbers; these are derived from its tables, which do not agree on a single
    cost of a procedure.
    """

    key: ClassVar[str] = "runtime"

    recall_procedure_cycles: parts.NonNegativeFloat
    training_procedure_cycles: parts.NonNegativeFloat
    thread_cycles: parts.NonNegativeFloat


class Codes(Section, frozen=True, forbid_unknown_fields=True):
    """Lines of the instruction cache that the report's codes take: products, look-ups, handlers
    that send and receive, products with the transposed matrix, scaling, updates; and for the I/O
    node with a port: all of its code, its loop, its handlers.
    """

    key: ClassVar[str] = "codes"

    product_lines: parts.PositiveInt
    sigmoid_lines: parts.PositiveInt
    send_lines: parts.PositiveInt
    receive_lines: parts.PositiveInt
    local_lines: parts.PositiveInt
    scaling_lines: parts.PositiveInt
    update_lines: parts.PositiveInt
    host_lines: parts.PositiveInt
    host_loop_lines: parts.PositiveInt
    host_handler_lines: parts.PositiveInt

    @property
    def handler_lines(self) -> int:
        """Lines of both handlers of a global sum."""
        return self.send_lines + self.receive_lines


SECTIONS = Sections(
    required=(Rdram, NodeCaches, Vectors, KernelStripes, Messages, Hosts, Runtime, Codes),
    needs=("mesh", "memory.main", "memory.cache", "fabrics.torrents"),
)
