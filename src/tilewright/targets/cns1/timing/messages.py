"""Times of messages and global sums in cycles (ICSI TR-93-046, sections 2.2 and 4.2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from tilewright.machine import Machine
from tilewright.machine.messages import exchange_cycles, message_cycles, send_cycles, spacing_cycles
from tilewright.machine.parts import Fabric
from tilewright.targets.cns1.sections import Hosts, Messages


@dataclass(frozen=True)
class Spell:
    """Part of a transfer: the busy unit, its first cycle and the number of cycles."""

    part: str
    start_cycle: int
    cycles: int


def block_bytes(machine: Machine) -> int:
    """Data of a message with a whole vector of 32 words, the longest message."""
    return machine.section(Hosts).block_bytes


def block_cycles(machine: Machine) -> int:
    """m_length of such a message, in cycles of a link."""
    return int(message_cycles(_fabric(machine), block_bytes(machine)))


def block_transfer_cycles(machine: Machine, hops: int) -> int:
    """T_ST of a block."""
    return int(send_cycles(_fabric(machine), hops, block_bytes(machine)))


def block_spacing_cycles(machine: Machine) -> int:
    """Cycles between two blocks of one sender to one receiver (section 4.1.1)."""
    return int(spacing_cycles(_fabric(machine), block_bytes(machine)))


def block_exchange_cycles(machine: Machine, distance: int) -> int:
    """T_MT of a block: messages that share a link follow each other without a gap, as in section
    2.2.3; sections 2.2.1 and 4.1 keep a cycle between two.
    """
    fabric = structs.replace(_fabric(machine), gap_cycles=0.0)
    return int(exchange_cycles(fabric, distance, block_bytes(machine)))


def _fabric(machine: Machine) -> Fabric:
    return machine.fabrics["torrents"]


def transfer_spells(machine: Machine, hops: int, data_bytes: int) -> list[Spell]:
    """Figure 2.1: the parts of a single transfer in time, sender first."""
    fabric, messages = machine.fabrics["torrents"], machine.section(Messages)
    length = int(message_cycles(fabric, data_bytes))
    send, receive = messages.processor_send_cycles, messages.processor_receive_cycles
    on_wire = int(fabric.send_cycles)
    found = [
        Spell("processor of p sends", 0, send),
        Spell("interface of p sends", send, on_wire - send),
    ]
    for hop in range(hops):
        start = on_wire + hop * int(fabric.hop_cycles)
        found.append(Spell(f"link {hop + 1}", start, length))
    arrived = on_wire + hops * int(fabric.hop_cycles) + length
    interface = int(fabric.receive_cycles) - receive
    found.append(Spell("interface of q receives", arrived, interface))
    found.append(Spell("processor of q receives", arrived + interface, receive))
    return found


@dataclass(frozen=True)
class GlobalSum:
    """How the nodes that share a vector sum it: one exchange per round over these distances, the
    first `in_ring` of them along the ring and the others along the column.
    """

    distances: tuple[int, ...]
    in_ring: int

    @property
    def rounds(self) -> int:
        """log p of the p nodes that share the vector."""
        return len(self.distances)

    def axis(self, round_: int) -> Literal["ring", "column"]:
        """The axis along which the partner of a round lies."""
        return "ring" if round_ < self.in_ring else "column"


def hidden_sum(machine: Machine) -> GlobalSum:
    """The sum of a hidden vector over p_i nodes of a ring, every (columns / p_i)th of it."""
    sharers = machine.section(Messages).hidden_sharers
    distances = _doubling(sharers, machine.mesh.columns // sharers)
    return GlobalSum(distances, len(distances))


def output_sum(machine: Machine) -> GlobalSum:
    """The sum of an output vector over p_h nodes: neighbouring columns with all their rows."""
    columns = machine.mesh.columns // machine.section(Messages).hidden_sharers
    ring = _doubling(columns, 1)
    return GlobalSum((*ring, *_doubling(machine.mesh.rows, 1)), len(ring))


def global_sum_cycles(machine: Machine, sharing: GlobalSum) -> int:
    """T_gsum of one vector of 32 words (Table 4.6)."""
    extra = machine.section(Messages).sum_cycles
    return sum(block_exchange_cycles(machine, d) + extra for d in sharing.distances)


def global_sum_processor_cycles(machine: Machine, sharing: GlobalSum) -> int:
    """Cycles of `global_sum_cycles` in which the processor itself is busy: 40 log p."""
    messages = machine.section(Messages)
    own = messages.processor_send_cycles + messages.processor_receive_cycles
    return (own + messages.sum_cycles) * sharing.rounds


def _doubling(count: int, first: int) -> tuple[int, ...]:
    """first, 2 first, ... : the distances at which `count` nodes, `first` apart, exchange."""
    return tuple(first << i for i in range(count.bit_length() - 1))
