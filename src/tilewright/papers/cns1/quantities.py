"""Quantities that formulas of the report's tables use beside the closed form's functions.

Rates and penalties of a cell of Table 3.1; coefficients of a formula, as differences of its own
function at two arguments; times of changed machines and programs. Nothing here is printed except
other arithmetic of columns, marked as a reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from msgspec import structs

from tilewright.graph.tables import table_step
from tilewright.machine import Machine
from tilewright.machine.build import changed
from tilewright.machine.messages import exchange_cycles, send_cycles
from tilewright.papers.cns1.cases import (
    BEST,
    CASES,
    CHIPS,
    MODEL,
    WORST,
    TableCell,
    recall_rate,
    training_rate,
)
from tilewright.papers.cns1.plans import perceptron_of
from tilewright.papers.cns1.printed import printed_numbers
from tilewright.targets.cns1.sections import Codes, Messages, Rdram
from tilewright.targets.cns1.timing.forward import (
    VECTOR_CYCLES,
    VECTORS_OF_STRIPE,
    Conditions,
    forward_times,
    preload_cycles,
    product_cycles,
    step_misses,
)
from tilewright.targets.cns1.timing.layers import (
    ROWS_AT_ONCE,
    STRIPE,
    VECTOR_BYTES,
    Layers,
    on_each_node,
    read_cycles,
    write_cycles,
)
from tilewright.targets.cns1.timing.messages import GlobalSum, block_spacing_cycles
from tilewright.targets.cns1.timing.recall import (
    PATTERNS,
    RecallTimes,
    recall_times,
    writing_cycles,
)
from tilewright.targets.cns1.timing.training import (
    VECTOR,
    TrainingTimes,
    backward_misses,
    local_cycles,
)

KILO = 1024
SUBCLASSES = 64
"""Output units per class (section 3.1)."""
LARGE = TableCell(128, "768M", "4.5 Mb")
"""The smallest network whose activations exceed the data cache."""
PROCEDURES = ("feedforward A", "feedforward B", "backpropagation B", "update A", "update B")
PATTERN_COLUMNS = tuple(f"{kind} pattern, {size}K" for kind in ("best", "worst")
                        for size in (16, 32))  # fmt: skip
FIRST_BLOCK = 138 + 14
"""Cycles of the first block's transfer and the last one's store, which Table 5.3's I/O omits."""
ACCESSES_OF_UPDATE, ACCESSES_OF_PRODUCT = 2, 1
"""Accesses per multiplication: an update reads and writes a weight, a product reads it."""
TOTAL_SHORT = 14
"""Cycles by which Table 5.3's totals fall short of the sum of their parts."""


# Rates and penalties.


def every_local() -> list[Layers]:
    """The layers on each node, for all networks of Table 3.1."""
    return [on_each_node(case.machine(), case.layers) for case in CASES]


def evicting(conditions: Conditions) -> Conditions:
    """The conditions with interleaved codes that evict each other."""
    return replace(conditions, worst_instruction_misses=True)


def recall_rate_of(case: TableCell) -> float:
    """Giga connections per second, with worst look-ups and refreshes (Table 5.5)."""
    return recall_rate(case, case.recall(WORST).total_cycles)


def training_rate_of(case: TableCell, conditions: Conditions = WORST) -> float:
    """Giga connection updates per second."""
    return training_rate(case, case.training(conditions).total_cycles)


def penalty(
    times: Callable[[Conditions], RecallTimes | TrainingTimes], conditions: Conditions
) -> float:
    """Worst-case time of instruction misses in recall or training, in percent of the run time."""
    return 100 * times(evicting(conditions)).penalty_cycles / times(conditions).total_cycles


def tabulated_penalty(case: TableCell) -> float:
    """Penalty with the best look-ups in percent, with Table 5.3's I/O: a reading."""
    worst = case.recall(evicting(BEST))
    less = worst.writing_penalty_cycles / 2
    return 100 * (worst.penalty_cycles - less) / (case.recall(BEST).total_cycles - FIRST_BLOCK)


def spread_percent(rates: Iterable[float]) -> float:
    """Percent by which the largest exceeds the smallest."""
    found = [*rates]
    return 100 * (max(found) / min(found) - 1)


def one_pattern_cycles() -> int:
    """Steps 2 and 3 of recall for two patterns, one after the other."""
    local = on_each_node(MODEL.machine(), MODEL.layers)
    forward = forward_times(MODEL.machine(), local, 1, BEST)
    return 2 * (forward.hidden_cycles + forward.outputs_cycles)


def one_pattern_total() -> float:
    """Whole recall of two patterns, one after the other."""
    times = MODEL.recall(BEST)
    return one_pattern_cycles() + times.io_cycles + 2 * times.overhead_cycles


def sum_of_parts(name: str) -> float:
    """A total of Table 5.3 as the sum of its printed parts: a reading."""
    parts = printed_numbers("table5_3")
    own = [n for part, n in parts.items() if part.startswith(name) and not part.endswith("total")]
    return sum(own) - TOTAL_SHORT


def weighted_percent(what: str) -> float:
    """A column of Table 7.7 weighted by run times, as section 7.2.2 does: a reading."""
    table = printed_numbers("table7_7")
    return sum(table[f"{n}: run time"] * table[f"{n}: {what}"] for n in PROCEDURES) / 100


# Messages.


def sum_terms(machine: Machine, sharing: GlobalSum) -> dict[str, float]:
    """Table 4.6: the factor of the message length, the constant, and the factor of the rounds."""
    fabric = structs.replace(machine.fabrics["torrents"], gap_cycles=0.0)
    empty, one = (
        sum(exchange_cycles(fabric, distance, length) for distance in sharing.distances)
        for length in (-fabric.header_bytes, 1 - fabric.header_bytes)
    )
    fixed = send_cycles(fabric, 0, -fabric.header_bytes)
    extra = machine.section(Messages).sum_cycles
    return {"a": one - empty, "b": empty - fixed * sharing.rounds, "c": fixed + extra}


def writing_beside_messages(machine: Machine, local: Layers) -> int:
    """Cycles of step 4 beyond the spacing of its messages."""
    return writing_cycles(machine, local) - local.outputs // STRIPE * block_spacing_cycles(machine)


def block_accesses() -> tuple[float, float]:
    """(dirty misses, hits) of a block of 2 KB, from two chips with different miss times."""
    machines = [replace(MODEL, chips=chips).machine() for chips in CHIPS]
    reads = [read_cycles(machine, VECTOR_BYTES) for machine in machines]
    cycles = [preload_cycles(machine, 2048) for machine in machines]
    misses = (cycles[1] - cycles[0]) / (reads[1].dirty_miss - reads[0].dirty_miss)
    return misses, (cycles[0] - misses * reads[0].dirty_miss) / reads[0].hit


# Products.


def product_constant(machine: Machine, local: Layers) -> int:
    """The constant by which T_MVM is less than its rows, misses and first access."""
    read, row = read_cycles(machine, VECTOR_BYTES), PATTERNS * VECTORS_OF_STRIPE * VECTOR_CYCLES
    opened = local.inputs * local.hidden // (8 * machine.section(Rdram).line_bytes)
    own = product_cycles(machine, local.inputs, local.hidden, PATTERNS)
    return read.dirty_miss + row * local.inputs - own + opened * (read.clean_miss - row)


def overflow_percent() -> float:
    """Percent by which vectors that exceed the data cache slow recall."""
    cache = LARGE.machine().memory["cache"].capacity_bytes
    roomy = changed(LARGE.machine(), {"memory.cache.capacity_bytes": 8 * cache})
    held = recall_times(roomy, LARGE.layers, WORST).total_cycles
    return 100 * (LARGE.recall(WORST).total_cycles / held - 1)


def products_of_weight(matrix: str) -> int:
    """Products and updates of a training step that use each weight of the matrix."""
    step = table_step(perceptron_of((256, 256, 256), 1), scaling=None)
    products = [node.inputs for node in step.nodes if node.op.matrix_product is not None]
    updates = {state.next: state.tensor for state in step.states}
    updated = [updates[n.output] for n in step.nodes if n.output in updates]
    return sum(matrix in own for own in products) + updated.count(matrix)


def gradient_misses(machine: Machine) -> float:
    """n_miss of step 6, times n_po / l."""
    rdram, read = machine.section(Rdram), read_cycles(machine, VECTOR_BYTES)
    outputs = 16 * rdram.line_bytes
    longer = local_cycles(machine, Layers(0, 0, outputs)) - local_cycles(machine, Layers(0, 0, 0))
    longer -= VECTOR // ROWS_AT_ONCE * outputs // STRIPE * ROWS_AT_ONCE * max(8, read.hit)
    return longer / (read.clean_miss - read.hit) / 16


# Instruction misses: the coefficients of N_Im in rounds and exchanges.


def summed_up(machine: Machine, patterns: int, what: str) -> dict[str, float]:
    """Coefficients of N_Im (`fetched`) or N_Im(MVM) (`restored`) in steps 2 and 3."""
    vectors = patterns * VECTORS_OF_STRIPE

    def count(hidden: int, outputs: int, log_pi: int, log_ph: int) -> int:
        second = step_misses(machine, hidden, vectors * log_pi, first=True)
        third = step_misses(machine, outputs, vectors * log_ph, first=False)
        return int(getattr(second + third, what))

    return terms({key: count(*key) for key in product((0, 1), repeat=4)})


def terms(counted: Mapping[tuple[int, ...], int]) -> dict[str, float]:
    """Coefficients of c + h (a log p_i + b) + o (d log p_h + e) - f log p_h, from its values at (h,
    o, log p_i, log p_h) in {0, 1}.
    """
    constant = counted[0, 0, 0, 0]
    hidden, outputs = counted[1, 0, 0, 0] - constant, counted[0, 1, 0, 0] - constant
    less = constant - counted[0, 0, 0, 1]
    return {
        "constant": constant,
        "a hidden round, times log p_i": counted[1, 0, 1, 0] - constant - hidden,
        "a hidden round": hidden,
        "an output round, times log p_h": counted[0, 1, 0, 1] - constant - outputs + less,
        "an output round": outputs,
        "less, times log p_h": less,
    }


def step_6_misses(machine: Machine) -> float:
    """N_Im of step 6 per round, times log p_i."""
    one, two = (backward_misses(machine, Layers(0, VECTOR * n, 0)) for n in (1, 2))
    codes = machine.section(Codes)
    sums = (two.restored - one.restored - codes.scaling_lines) / codes.handler_lines
    return (two.fetched - one.fetched - 2 * codes.scaling_lines) / sums


# Optimizations of training (section 7.2.2).


def fast_memory_cycles(needs: Sequence[float], took: Sequence[float]) -> float:
    """Cycles of training if products and updates took only their arithmetic's time, in the order of
    `PROCEDURES`; global sums of the error backpropagation are then exposed.
    """
    times = MODEL.training(BEST)
    backward = times.backward
    need = needs[2] / backward.rounds + backward.sum_processor_cycles
    shown = (backward.rounds - 1) * max(0.0, backward.sum_cycles - need)
    return times.total_cycles - (sum(took) - sum(needs)) + shown


def scaling_apart_cycles() -> int:
    """Extra cycles of steps 6 and 7 in sequence: errors go to memory and back."""
    machine = MODEL.machine()
    local = on_each_node(machine, MODEL.layers)
    read, write = read_cycles(machine, VECTOR_BYTES), write_cycles(machine, VECTOR_BYTES)
    lines = max(4, local.hidden // (4 * KILO)) * (read.clean_miss - read.hit)
    return local.hidden // VECTOR * (write.dirty_miss + read.hit) + lines
