"""Times of messages and global sums in cycles (ICSI TR-93-046, sections 2.2 and 4.2.2)."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.machine import Machine
from tilewright.targets.cns1.sections import Hosts, Messages


@dataclass(frozen=True)
class Spell:
    """Part of a transfer: what is busy, from which cycle, for how many."""

    part: str
    start_cycle: int
    cycles: int


def message_bytes(machine: Machine, data_bytes: int) -> int:
    """m_length: the data and the header."""
    return data_bytes + machine.fabrics["torrents"].header_bytes


def block_message_bytes(machine: Machine) -> int:
    """m_length of a message with a whole vector of 32 words, the longest that is sent."""
    return message_bytes(machine, machine.section(Hosts).block_bytes)


def transfer_cycles(machine: Machine, hops: int, length_bytes: int) -> int:
    """T_ST: one message, or a multicast whose farthest receiver is `hops` away."""
    fabric = machine.fabrics["torrents"]
    fixed = fabric.send_cycles + fabric.receive_cycles + fabric.hop_cycles * hops
    return int(fixed + length_bytes / fabric.bytes_per_cycle)


def exchange_cycles(machine: Machine, distance: int, length_bytes: int) -> int:
    """T_MT: `distance` neighbours send to as many others `distance` away, and these to them.

    The messages that share a link follow each other without a gap, as in section 2.2.3; sections
    2.2.1 and 4.1 keep a cycle between two messages of one sender.
    """
    busy = length_bytes / machine.fabrics["torrents"].bytes_per_cycle
    return transfer_cycles(machine, distance, length_bytes) + int((distance - 1) * busy)


def spacing_cycles(machine: Machine, length_bytes: int) -> int:
    """Cycles between two messages of one sender to one receiver (section 4.1.1)."""
    fabric = machine.fabrics["torrents"]
    return int(length_bytes / fabric.bytes_per_cycle + fabric.gap_cycles)


def transfer_spells(machine: Machine, hops: int, data_bytes: int) -> list[Spell]:
    """Figure 2.1: the parts of a single transfer in time, sender first."""
    fabric, messages = machine.fabrics["torrents"], machine.section(Messages)
    length = int(message_bytes(machine, data_bytes) / fabric.bytes_per_cycle)
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
    """How the nodes that share a vector sum it: exchanges over these distances, one a round."""

    distances: tuple[int, ...]

    @property
    def rounds(self) -> int:
        """log p of the p nodes that share the vector."""
        return len(self.distances)


def hidden_sum(machine: Machine) -> GlobalSum:
    """The sum of a hidden vector over p_i nodes of a ring, every (columns / p_i)th of it."""
    sharers = machine.section(Messages).hidden_sharers
    return GlobalSum(_doubling(sharers, machine.mesh.columns // sharers))


def output_sum(machine: Machine) -> GlobalSum:
    """The sum of an output vector over p_h nodes: neighbouring columns with all their rows."""
    columns = machine.mesh.columns // machine.section(Messages).hidden_sharers
    return GlobalSum((*_doubling(columns, 1), *_doubling(machine.mesh.rows, 1)))


def global_sum_cycles(machine: Machine, sharing: GlobalSum) -> int:
    """T_gsum of one vector of 32 words (Table 4.6)."""
    length, extra = block_message_bytes(machine), machine.section(Messages).sum_cycles
    return sum(exchange_cycles(machine, d, length) + extra for d in sharing.distances)


def global_sum_processor_cycles(machine: Machine, sharing: GlobalSum) -> int:
    """Cycles of `global_sum_cycles` that the processor itself is busy: 40 log p."""
    messages = machine.section(Messages)
    own = messages.processor_send_cycles + messages.processor_receive_cycles
    return (own + messages.sum_cycles) * sharing.rounds


def _doubling(count: int, first: int) -> tuple[int, ...]:
    """first, 2 first, ... : the distances at which `count` nodes, `first` apart, exchange."""
    return tuple(first << i for i in range(count.bit_length() - 1))
