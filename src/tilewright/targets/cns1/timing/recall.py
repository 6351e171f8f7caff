"""Kernel 1, recall: cycles of two patterns on one node (ICSI TR-93-046, chapter 4)."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.machine import Machine
from tilewright.targets.cns1.sections import Codes, Hosts, Messages, NodeCaches, Runtime
from tilewright.targets.cns1.timing.forward import (
    VECTOR_CYCLES,
    Conditions,
    ForwardTimes,
    forward_times,
    parameter_cycles,
)
from tilewright.targets.cns1.timing.layers import (
    STRIPE,
    VECTOR_BYTES,
    Layers,
    on_each_node,
    read_cycles,
    write_cycles,
)
from tilewright.targets.cns1.timing.messages import (
    block_cycles,
    block_spacing_cycles,
    block_transfer_cycles,
)

PATTERNS = 2
"""Patterns that pass through the network at a time."""
PARAMETERS = 5
"""Parameters of the forward procedure, in main memory."""
_TOP_ROW = 32
"""Hops to the top row from the Hydrants; the report uses those of 1024 nodes for 128, too."""


@dataclass(frozen=True)
class RecallTimes:
    """Cycles of two patterns, step by step."""

    reading_cycles: int
    forward: ForwardTimes
    writing_cycles: int
    overhead_cycles: float
    reading_penalty_cycles: int
    writing_penalty_cycles: float

    @property
    def hidden_cycles(self) -> int:
        """Step 2 with its instruction misses."""
        return self.forward.hidden_cycles + self.forward.hidden_penalty_cycles

    @property
    def outputs_cycles(self) -> int:
        """Step 3 with its instruction misses."""
        return self.forward.outputs_cycles + self.forward.outputs_penalty_cycles

    @property
    def io_cycles(self) -> float:
        """Steps 1 and 4 with their instruction misses."""
        own = self.reading_cycles + self.writing_cycles
        return own + self.reading_penalty_cycles + self.writing_penalty_cycles

    @property
    def penalty_cycles(self) -> float:
        """Cycles that instruction misses add over all steps."""
        reading_and_writing = self.reading_penalty_cycles + self.writing_penalty_cycles
        return self.forward.penalty_cycles + reading_and_writing

    @property
    def total_cycles(self) -> float:
        """All steps and the overhead of procedures and threads."""
        return self.hidden_cycles + self.outputs_cycles + self.io_cycles + self.overhead_cycles


def recall_times(machine: Machine, network: Layers, conditions: Conditions) -> RecallTimes:
    """The closed form for a network on the whole machine. Raises ShapeError (`on_each_node`)."""
    local = on_each_node(machine, network)
    forward = forward_times(machine, local, PATTERNS, conditions)
    miss = machine.section(NodeCaches).instruction_miss_cycles
    worst = conditions.evicts_code(machine)
    messages = PATTERNS * local.inputs // machine.section(Hosts).block_bytes
    return RecallTimes(
        reading_cycles(machine, messages, local),
        forward,
        writing_cycles(machine, local),
        overhead_cycles(machine, local),
        miss * reading_misses(machine, messages) if worst else 0,
        2 * miss * local.outputs / STRIPE if worst else 0,
    )


def reading_cycles(machine: Machine, messages: int, local: Layers) -> int:
    """T_step1 without its procedure: messages that follow each other up the columns (4.1)."""
    spacing = block_spacing_cycles(machine)
    stores = write_cycles(machine, VECTOR_BYTES).hit
    stores += VECTOR_CYCLES if fits_the_cache(machine, local) else 0
    return startup_cycles(machine) + messages * spacing + stores + top_row_cycles(machine)


def reading_misses(machine: Machine, messages: int) -> int:
    """Lines of code that the I/O node with a port fetches at worst: for each message its loop and
    its handlers; the two additional ones are the report's (4.1.1).
    """
    codes = machine.section(Codes)
    return 2 + (codes.host_loop_lines + codes.host_handler_lines) * messages


def top_row_cycles(machine: Machine) -> int:
    """Delay of the last arrival in the top row, from when the next message may start (4.1)."""
    return block_transfer_cycles(machine, _TOP_ROW) - block_spacing_cycles(machine)


def startup_cycles(machine: Machine) -> int:
    """H_startup, at most: until the last of four I/O nodes sends its first vector up (4.1)."""
    hosts, messages = machine.section(Hosts), machine.section(Messages)
    transfer, fabric = block_transfer_cycles(machine, 1), machine.fabrics["torrents"]
    if machine.mesh.columns // messages.hidden_sharers == 4:
        own = 2 * hosts.block_cycles + messages.processor_send_cycles
        return own + transfer + 1
    return hosts.block_cycles + transfer + int(2 * fabric.hop_cycles)


def writing_cycles(machine: Machine, local: Layers) -> int:
    """T_step4: the bottom ring sends the results to the I/O nodes below (4.3.1, 4.4.1)."""
    hop = block_transfer_cycles(machine, 1) - block_cycles(machine)
    spacing = block_spacing_cycles(machine)
    late = 0 if fits_the_cache(machine, local) else read_cycles(machine, VECTOR_BYTES).dirty_miss
    return local.outputs // STRIPE * spacing + hop + late


def overhead_cycles(machine: Machine, local: Layers) -> float:
    """Three procedures, the parameters of two of them, three threads a round (4.2.4)."""
    runtime = machine.section(Runtime)
    threads = 3 * (local.hidden + local.outputs) // STRIPE
    return (
        3 * runtime.recall_procedure_cycles
        + 2 * parameter_cycles(machine, PARAMETERS)
        + threads * runtime.thread_cycles
    )


def fits_the_cache(machine: Machine, local: Layers) -> bool:
    """True if the data cache holds two activation and two result vectors (section 4.4)."""
    limit = machine.memory["cache"].capacity_bytes // (2 * PATTERNS)
    return max(local.inputs, local.hidden, local.outputs) <= limit
