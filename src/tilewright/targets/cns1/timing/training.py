"""Kernel 2, training: cycles of one pattern on one node (ICSI TR-93-046, chapter 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from tilewright.machine import Machine
from tilewright.targets.cns1.sections import Codes, Hosts, NodeCaches, Rdram, Runtime
from tilewright.targets.cns1.timing.forward import (
    VECTOR_CYCLES,
    Conditions,
    ForwardTimes,
    Misses,
    forward_times,
    parameter_cycles,
    preload_cycles,
)
from tilewright.targets.cns1.timing.layers import (
    STRIPE,
    VECTOR_BYTES,
    WORD_BYTES,
    Layers,
    on_each_node,
    read_cycles,
    write_cycles,
)
from tilewright.targets.cns1.timing.messages import (
    block_spacing_cycles,
    global_sum_cycles,
    global_sum_processor_cycles,
    hidden_sum,
)
from tilewright.targets.cns1.timing.recall import reading_misses, startup_cycles, top_row_cycles

PARAMETERS = 3
"""Parameters of the forward procedure, in main memory (6.1.2)."""
VECTOR = 32


@dataclass(frozen=True)
class BackwardTimes:
    """Steps 6 and 7 in rounds of 32 hidden nodes: local computation, global sum, scaling."""

    rounds: int
    local_cycles: int
    sum_cycles: int
    sum_processor_cycles: int
    scaling_cycles: int
    parameter_cycles: int

    @property
    def sum_network_cycles(self) -> int:
        """Cycles of one round's sums that the processor is not busy with."""
        return self.sum_cycles - self.sum_processor_cycles

    @property
    def total_cycles(self) -> int:
        """T_step6,7 without its procedure and threads."""
        beside = max(self.local_cycles + self.sum_processor_cycles, self.sum_cycles)
        return (
            self.parameter_cycles
            + self.rounds * self.scaling_cycles
            + self.local_cycles
            + (self.rounds - 1) * beside
            + self.sum_cycles
        )


@dataclass(frozen=True)
class TrainingTimes:
    """Cycles of one pattern, step by step; penalties are those of instruction misses."""

    reading_cycles: int
    forward: ForwardTimes
    error_cycles: int
    backward: BackwardTimes
    update_outputs_cycles: float
    update_hidden_cycles: float
    overhead_cycles: float
    penalty_cycles: int

    @property
    def total_cycles(self) -> float:
        """All steps, the overhead and the penalty."""
        return (
            self.reading_cycles
            + self.forward.hidden_cycles
            + self.forward.outputs_cycles
            + self.error_cycles
            + self.backward.total_cycles
            + self.update_outputs_cycles
            + self.update_hidden_cycles
            + self.overhead_cycles
            + self.penalty_cycles
        )


def training_times(machine: Machine, network: Layers, conditions: Conditions) -> TrainingTimes:
    """The closed form for a network on the whole machine. Raises ShapeError (`on_each_node`)."""
    local = on_each_node(machine, network)
    forward = forward_times(machine, local, 1, conditions)
    times = TrainingTimes(
        pattern_reading_cycles(machine, local),
        forward,
        error_cycles(machine, local),
        backward_times(machine, local),
        update_outputs_cycles(machine, local),
        update_hidden_cycles(machine, local),
        training_overhead_cycles(machine, local),
        0,
    )
    if not conditions.evicts_code(machine):
        return times
    return replace(times, penalty_cycles=forward.penalty_cycles + _penalty(machine, local))


def pattern_reading_cycles(machine: Machine, local: Layers) -> int:
    """T_step1 without its procedure: an input and a result pattern (6.1.1)."""
    spacing = block_spacing_cycles(machine)
    stores = write_cycles(machine, VECTOR_BYTES).hit + VECTOR_CYCLES
    passing = _messages(machine, local) * spacing
    return startup_cycles(machine) + passing + stores + top_row_cycles(machine)


def error_cycles(machine: Machine, local: Layers) -> int:
    """T_step5 without its procedure: results less outputs, scaled (6.2.1)."""
    line, ports = machine.section(Rdram).line_bytes, machine.section(Rdram).ports
    passes = local.outputs // (ports * VECTOR)
    missing = min(4, passes) + max(0, local.outputs // (4 * line) - 4)
    hit, miss = error_pass_cycles(machine)
    preload = preload_cycles(machine, local.outputs) if _hidden_overflow(machine, local) else 0
    parameter = read_cycles(machine, WORD_BYTES).dirty_miss + 2
    return parameter + hit * (passes - missing) + miss * missing + preload


def error_pass_cycles(machine: Machine) -> tuple[int, int]:
    """t_hit and t_miss: 128 elements of the error, by the report's diagrams 6.2 and 6.1."""
    return 53, read_cycles(machine, VECTOR_BYTES).dirty_miss + 35


def backward_times(machine: Machine, local: Layers) -> BackwardTimes:
    """Steps 6 and 7 (6.2.2): a hidden vector too large for the cache is read for scaling."""
    read, word = read_cycles(machine, VECTOR_BYTES), read_cycles(machine, WORD_BYTES)
    scaling = 13 + write_cycles(machine, VECTOR_BYTES).clean_miss
    if _hidden_overflow(machine, local):
        scaling += read.dirty_miss - 4
    sharing = hidden_sum(machine)
    return BackwardTimes(
        local.hidden // VECTOR,
        local_cycles(machine, local),
        global_sum_cycles(machine, sharing),
        global_sum_processor_cycles(machine, sharing),
        scaling,
        max(11, word.clean_miss) + max(7, word.hit),
    )


def local_cycles(machine: Machine, local: Layers) -> int:
    """T_lc: products of 32 columns of the transposed matrix, each summed to one element."""
    read = read_cycles(machine, VECTOR_BYTES)
    missing = 16 * local.outputs // machine.section(Rdram).line_bytes
    inner, reduction = 4 * max(8, read.hit), 5 * (4 * 2 + 4)
    columns = 8 * (local.outputs // STRIPE * inner - read.hit + 7 + reduction + 8) + 2
    return (
        columns
        + missing * (read.clean_miss - read.hit)
        + read.dirty_miss - read.clean_miss
    )  # fmt: skip


def update_cycles(machine: Machine, rows: int, columns: int) -> float:
    """T_update of one matrix without its procedure (6.2.3)."""
    read, write = read_cycles(machine, VECTOR_BYTES), write_cycles(machine, VECTOR_BYTES)
    missing = rows * columns // (2 * machine.section(Rdram).line_bytes)
    block = (
        7 * max(7, read.hit / 2)
        + 7 * max(2, write.hit / 2)
        + 2 * max(7, read.hit / 2, write.hit / 2)
    )
    parameter = max(11, read_cycles(machine, WORD_BYTES).dirty_miss) + 2
    return (
        parameter
        + missing * (read.dirty_miss - read.hit)
        + rows / 4 * (columns / STRIPE * block + write.hit / 2 - read.hit / 2)
    )


def update_outputs_cycles(machine: Machine, local: Layers) -> float:
    """T_step8: matrix B (6.2.3, 6.3.5)."""
    words = local.hidden // 4 if _hidden_overflow(machine, local) else 0
    own = update_cycles(machine, local.hidden, local.outputs)
    return own + words * read_cycles(machine, WORD_BYTES).dirty_miss


def update_hidden_cycles(machine: Machine, local: Layers) -> float:
    """T_step9: matrix A, its error vector brought into the data cache first (6.2.3, 6.3.5)."""
    cached = machine.memory["cache"].capacity_bytes // 2
    parts = ceil(local.hidden / cached)
    columns = local.hidden // parts
    words = local.inputs // 4 if 2 * local.hidden > cached else 0
    one = update_cycles(machine, local.inputs, columns)
    one += words * read_cycles(machine, WORD_BYTES).dirty_miss
    return parts * (one + error_preload_cycles(machine, columns))


def error_preload_cycles(machine: Machine, columns: int) -> float:
    """T_preload of `columns` errors of two bytes without its procedure."""
    read, line = read_cycles(machine, VECTOR_BYTES), machine.section(Rdram).line_bytes
    missing = columns / (2 * line)
    return 6 + columns // STRIPE * read.hit + 4 + missing * (read.dirty_miss - read.hit)


def training_overhead_cycles(machine: Machine, local: Layers) -> float:
    """Eight procedures, the parameters of two of them, three threads a round."""
    runtime = machine.section(Runtime)
    rounds = (local.hidden + local.outputs) // STRIPE + local.hidden // VECTOR
    return (
        8 * runtime.training_procedure_cycles
        + 2 * parameter_cycles(machine, PARAMETERS)
        + 3 * rounds * runtime.thread_cycles
    )


def _penalty(machine: Machine, local: Layers) -> int:
    """P_enalty of steps 1 and 5 to 9; steps 5 and the preload take a line of code each."""
    miss = machine.section(NodeCaches).instruction_miss_cycles
    read, missed = read_cycles(machine, VECTOR_BYTES), backward_misses(machine, local)
    reading = miss * reading_misses(machine, _messages(machine, local))
    backward = miss * missed.fetched + (read.clean_miss - read.hit) * missed.restored
    lines, longer = machine.section(Codes).update_lines, read.dirty_miss - read.hit
    update = lines * miss + (lines - 1) * longer
    preload = 2 * miss + longer
    return reading + miss + backward + update + preload


def backward_misses(machine: Machine, local: Layers) -> Misses:
    """Misses of steps 6 and 7 (6.2.2): as in the forward pass, with scaling for look-ups."""
    codes, rounds = machine.section(Codes), local.hidden // VECTOR - 1
    round_ = codes.handler_lines * hidden_sum(machine).rounds + codes.scaling_lines
    last = codes.handler_lines + codes.scaling_lines
    return Misses(codes.local_lines + rounds * 2 * round_ + last,
                  codes.local_lines - 1 + rounds * round_)  # fmt: skip


def _messages(machine: Machine, local: Layers) -> int:
    return (local.inputs + local.outputs) // machine.section(Hosts).block_bytes


def _hidden_overflow(machine: Machine, local: Layers) -> bool:
    return 2 * local.hidden > machine.memory["cache"].capacity_bytes
