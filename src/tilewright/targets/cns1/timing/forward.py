"""Computing the next layer: steps 2 and 3 of recall and training, in cycles.

In: a machine, the local layers, the number of patterns that pass at once, the conditions. Out:
`ForwardTimes`, round by round (ICSI TR-93-046, sections 4.2, 4.4.2, 6.1.2 and 6.3.2).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Literal

from tilewright.machine import Machine
from tilewright.targets.cns1.sections import Codes, NodeCaches, Rdram
from tilewright.targets.cns1.timing import messages
from tilewright.targets.cns1.timing.layers import (
    ELEMENT_BYTES,
    STRIPE,
    VECTOR_BYTES,
    WORD_BYTES,
    Layers,
    read_cycles,
    write_cycles,
)

VECTORS_OF_STRIPE = 2
VECTOR_CYCLES = 4
"""Cycles that a vector of 32 elements occupies an arithmetic pipe or the data cache."""


@dataclass(frozen=True)
class Conditions:
    """Conditions that the report varies: the size of the sigmoid table, how look-ups fall on the
    ports, and whether interleaved codes evict each other from the instruction cache.
    """

    table_elements: int = 32768
    worst_lookups: bool = True
    worst_instruction_misses: bool = False

    def evicts_code(self, machine: Machine) -> bool:
        """True if codes evict each other; an instruction cache of several ways keeps them apart."""
        return self.worst_instruction_misses and machine.section(NodeCaches).instruction_ways == 1


@dataclass(frozen=True)
class LayerTimes:
    """One layer in rounds of 64 columns; the sums of a round run beside the next product. The
    global sums of a round take `sum_cycles` in total; the processor is busy for
    `sum_processor_cycles` of them.
    """

    rounds: int
    product_cycles: int
    sigmoid_cycles: int
    sum_cycles: int
    sum_processor_cycles: int

    @property
    def sum_network_cycles(self) -> int:
        """Cycles of one round's sums that the processor is not busy with: those of the network."""
        return self.sum_cycles - self.sum_processor_cycles

    @property
    def in_all(self) -> LayerTimes:
        """The layer as one round that takes as long as all of them."""
        return LayerTimes(1, *(self.rounds * cycles for cycles in astuple(self)[1:]))


@dataclass(frozen=True)
class ForwardTimes:
    """Steps 2 and 3, and what instruction misses add to them."""

    hidden: LayerTimes
    outputs: LayerTimes
    transfer_cycles: int
    hidden_penalty_cycles: int
    outputs_penalty_cycles: int

    @property
    def in_all(self) -> LayerTimes:
        """Both layers as one round, which takes as long as all of theirs."""
        both = (astuple(layer.in_all) for layer in (self.hidden, self.outputs))
        return LayerTimes(1, *map(sum, [*zip(*both, strict=True)][1:]))

    @property
    def hidden_cycles(self) -> int:
        """Step 2, plus the excess of its last sums over the first product of step 3."""
        layer, following = self.hidden, self.outputs.product_cycles
        inside = (layer.rounds - 1) * _beside(layer, layer.product_cycles)
        own = layer.rounds * layer.sigmoid_cycles + layer.product_cycles
        return own + inside + _beside(layer, following) - following

    @property
    def outputs_cycles(self) -> int:
        """Step 3; nothing is left to run beside its last sums."""
        layer = self.outputs
        inside = (layer.rounds - 1) * _beside(layer, layer.product_cycles)
        own = layer.rounds * layer.sigmoid_cycles + layer.product_cycles
        return own + inside + layer.sum_cycles + self.transfer_cycles

    @property
    def penalty_cycles(self) -> int:
        """P_enalty of both steps."""
        return self.hidden_penalty_cycles + self.outputs_penalty_cycles


def _beside(layer: LayerTimes, product_cycles: int) -> int:
    """A product with the sums of the round before: max(T_MVM + 40 log p, T_gsum)."""
    return max(product_cycles + layer.sum_processor_cycles, layer.sum_cycles)


@dataclass(frozen=True)
class Round:
    """An action of the processor or the network during one round of a step."""

    where: Literal["processor", "network"]
    what: Literal["product", "sums", "sigmoid"]
    step: int
    number: int
    start_cycle: int
    end_cycle: int


def interleaving(times: ForwardTimes) -> list[Round]:
    """Figure 4.1: the sums of a round run beside the next product, its sigmoid follows both.

    The processor's part of the sums is taken from the product that runs beside them.
    """
    layers = ((2, times.hidden), (3, times.outputs))
    rounds = [(step, i, layer) for step, layer in layers for i in range(1, layer.rounds + 1)]
    found: list[Round] = []
    clock = 0
    for (step, i, layer), before in zip(rounds, (None, *rounds), strict=False):
        busy = layer.product_cycles + (before[2].sum_processor_cycles if before else 0)
        found.append(Round("processor", "product", step, i, clock, clock + busy))
        clock = _after(before, clock, clock + busy, found)
    _after(rounds[-1], clock, clock, found)
    return found


def _after(
    before: tuple[int, int, LayerTimes] | None, start: int, end: int, found: list[Round]
) -> int:
    """The sums that began at `start`, and their sigmoid once the processor is free at `end`."""
    if before is None:
        return end
    step, number, layer = before
    summed = start + layer.sum_cycles
    found.append(Round("network", "sums", step, number, start, summed))
    end = max(end, summed)
    found.append(Round("processor", "sigmoid", step, number, end, end + layer.sigmoid_cycles))
    return end + layer.sigmoid_cycles


def forward_times(
    machine: Machine, local: Layers, patterns: int, conditions: Conditions
) -> ForwardTimes:
    """T_step2,3 in parts, without the cost of procedures and threads."""
    vectors = patterns * VECTORS_OF_STRIPE
    limit = machine.memory["cache"].capacity_bytes // (2 * patterns)
    blocks = patterns * limit
    small_inputs, small_hidden = local.inputs <= limit, local.hidden <= limit
    sums = messages.hidden_sum(machine), messages.output_sum(machine)
    hidden = _layer(
        machine, local.inputs, local.hidden, patterns, sums[0], conditions,
        fits=small_inputs, stored=not (small_inputs and small_hidden), blocks=blocks,
    )  # fmt: skip
    outputs = _layer(
        machine, local.hidden, local.outputs, patterns, sums[1], conditions,
        fits=small_hidden, stored=not (small_hidden and local.outputs <= limit), blocks=blocks,
    )  # fmt: skip
    moved = small_hidden and not small_inputs
    penalties = [
        _penalty(machine, layer, vectors, sharing, conditions, first=sharing is sums[0])
        for layer, sharing in ((hidden, sums[0]), (outputs, sums[1]))
    ]
    transfer = preload_cycles(machine, patterns * local.hidden) if moved else 0
    return ForwardTimes(hidden, outputs, transfer, *penalties)


def preload_cycles(machine: Machine, size_bytes: int) -> int:
    """4 r_m,d + (bytes / 128 - 4) r_h: consecutive bytes from main memory to the data cache."""
    read = read_cycles(machine, VECTOR_BYTES)
    ports = machine.section(Rdram).ports
    accesses = size_bytes // (ports * VECTOR_BYTES)
    return ports * read.dirty_miss + (accesses - ports) * read.hit


def product_cycles(machine: Machine, rows: int, columns: int, patterns: int) -> int:
    """T_MVM: one stripe of 64 columns of a matrix with `rows` rows of `columns` weights."""
    read, rdram = read_cycles(machine, VECTOR_BYTES), machine.section(Rdram)
    arithmetic = 16 if patterns == 2 else 10
    row = max(arithmetic, read.hit)
    leaving = 20 if patterns == 2 else 16
    banks = banks_of_stripe(columns, rdram)
    misses = banks * rows * columns // (8 * rdram.line_bytes)
    longer = read.dirty_miss - read.clean_miss
    return (
        read.dirty_miss + (rows - 2) * row + leaving
        + misses * (read.clean_miss - row)
        + min(2 * banks - 1, misses - 1) * longer
    )  # fmt: skip


def banks_of_stripe(columns: int, rdram: Rdram) -> int:
    """beta: the number of banks that the stripe of consecutive rows touches (section 4.2.1)."""
    blocks = columns * 2 // rdram.chip_block_bytes
    return next(b for b in (1, 2, 4) if b == rdram.chips_per_port or not blocks * b % 4)


def sigmoid_cycles(machine: Machine, vectors: int, conditions: Conditions) -> int:
    """T_sig: the table is brought into the open lines, then each vector is looked up (4.2.3)."""
    rdram = machine.section(Rdram)
    lines = -(-conditions.table_elements // rdram.open_bytes)
    load = rdram.chips_per_port * lines * read_cycles(machine, VECTOR_BYTES).clean_miss
    one, ports = read_cycles(machine, ELEMENT_BYTES).hit, 1 if conditions.worst_lookups else 4
    filling = 0 if conditions.worst_lookups else ports - 1
    return load + vectors * (32 // ports) * one + filling + VECTOR_CYCLES


def _layer(
    machine: Machine,
    rows: int,
    columns: int,
    patterns: int,
    sharing: messages.GlobalSum,
    conditions: Conditions,
    *,
    fits: bool,
    stored: bool,
    blocks: int,
) -> LayerTimes:
    """`fits`: the data cache keeps the activations; otherwise they come in blocks of bytes.
    `stored`: results go to main memory.
    """
    vectors = patterns * VECTORS_OF_STRIPE
    product = product_cycles(machine, rows, columns, patterns)
    if not fits:
        product += rows * patterns // blocks * preload_cycles(machine, blocks)
    sigmoid = sigmoid_cycles(machine, vectors, conditions)
    if stored:
        write = write_cycles(machine, VECTOR_BYTES).dirty_miss
        sigmoid += write + (vectors - 1) * VECTOR_CYCLES
    return LayerTimes(
        columns // STRIPE,
        product,
        sigmoid,
        vectors * messages.global_sum_cycles(machine, sharing),
        vectors * messages.global_sum_processor_cycles(machine, sharing),
    )


def _penalty(
    machine: Machine,
    layer: LayerTimes,
    vectors: int,
    sharing: messages.GlobalSum,
    conditions: Conditions,
    *,
    first: bool,
) -> int:
    """P_enalty of one step (4.2.5): fetches, and the weights and sigmoid table that they evict."""
    if not conditions.evicts_code(machine):
        return 0
    word, one = read_cycles(machine, VECTOR_BYTES), read_cycles(machine, ELEMENT_BYTES)
    missed = step_misses(machine, layer.rounds, vectors * sharing.rounds, first=first)
    table = 4 if conditions.worst_lookups else 1
    row = max(16 if vectors == 4 else 10, word.hit)
    return (
        machine.section(NodeCaches).instruction_miss_cycles * missed.fetched
        + (word.clean_miss - row) * missed.restored
        + table * (one.clean_miss - one.hit) * layer.rounds
    )


@dataclass(frozen=True)
class Misses:
    """Worst-case fetches of lines of code, and the lines of weights that these evict: N_Im and its
    part that disturbs products.
    """

    fetched: int
    restored: int

    def __add__(self, other: Misses) -> Misses:
        """The misses of two steps."""
        return Misses(self.fetched + other.fetched, self.restored + other.restored)


def step_misses(machine: Machine, rounds: int, exchanges: int, *, first: bool) -> Misses:
    """Misses of step 2, the `first`, or 3 (4.2.5): in each round the handlers of each of
    `exchanges`, a look-up, and the product that they evict; beside the last sums there is no
    product.
    """
    codes = machine.section(Codes)
    round_ = codes.handler_lines * exchanges + codes.sigmoid_lines
    if first:
        product = codes.product_lines
        return Misses(product + rounds * 2 * round_, product - 1 + rounds * round_)
    last = codes.handler_lines + codes.sigmoid_lines
    return Misses((rounds - 1) * 2 * round_ + last, (rounds - 1) * round_)


def parameter_cycles(machine: Machine, parameters: int) -> int:
    """t_par: the parameters that are passed in memory; the first access is a miss (4.2.4)."""
    read = read_cycles(machine, WORD_BYTES)
    return read.dirty_miss + (parameters - 1) * read.hit
