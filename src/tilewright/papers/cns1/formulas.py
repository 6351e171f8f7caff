"""Coefficients inside the formulas of chapters 2 to 7, from the functions of the closed form.

In: nothing that is printed. Out: each coefficient from what the formula counts (vectors, rounds,
lines of code, ports), or as the difference of the formula's own function at two arguments. Each
table is a function by its name in `TITLES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from tilewright.graph.tables import table_step
from tilewright.machine import Machine
from tilewright.machine.build import changed
from tilewright.papers.cns1.cases import BEST, CASES, CHIPS, MODEL, WORST, TableCell
from tilewright.papers.cns1.plans import perceptron_of
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings
from tilewright.targets.cns1.node import node_table
from tilewright.targets.cns1.sections import Codes, Hosts, Messages, NodeCaches, Rdram, Vectors
from tilewright.targets.cns1.timing.forward import (
    VECTOR_CYCLES,
    VECTORS_OF_STRIPE,
    banks_of_stripe,
    interleaving,
    product_cycles,
    sigmoid_cycles,
    step_misses,
)
from tilewright.targets.cns1.timing.layers import (
    ELEMENT_BYTES,
    ROWS_AT_ONCE,
    STRIPE,
    VECTOR_BYTES,
    WORD_BYTES,
    Layers,
    on_each_node,
    read_cycles,
)
from tilewright.targets.cns1.timing.messages import block_cycles, block_transfer_cycles
from tilewright.targets.cns1.timing.recall import PATTERNS, reading_cycles, recall_times
from tilewright.targets.cns1.timing.training import VECTOR, backward_misses, local_cycles

TITLES = {
    "chapter4_formulas": "coefficients of the formulas of chapters 2 to 5",
    "chapter6_formulas": "coefficients of the formulas of chapters 6 and 7",
}
_WEIGHT_BYTES, _KILO = 2, 1024
_LARGE = TableCell(128, "768M", "4.5 Mb")


def chapter4_formulas(lab: Lab) -> Findings:
    """Recall: messages, products, look-ups, instruction misses, vectors that the cache holds."""
    machine = MODEL.machine()
    parts = (_messages(machine), _products(machine), _around(machine), _memories(machine),
             _code_lines(machine), _forward_misses(machine, PATTERNS))  # fmt: skip
    ours = {name: number for part in parts for name, number in part.items()}
    notes = (
        "sections 4.1.1 and 4.3.2 have two columns that share activations on 128 nodes and four on"
        " 1024, where Table 4.6 has four and two",
        "section 4.1.1 loads four lines of code a pass, its formula five: two of the loop and three"
        " of handlers. Three others of the procedure, the handlers of the first block and five for"
        " each later one are 1 + 5 n_pi / 64, printed is 2 + 5 n_pi / 64",
        "section 4.3.1 has 44/64 n_po in the text, one of two codes, and 11/8 in the formula",
    )
    return reproduced(lab, "chapter4_formulas", ours, notes=notes)


def chapter6_formulas(lab: Lab) -> Findings:
    """Training: products, instruction misses, errors, gradients, updates."""
    machine = MODEL.machine()
    parts = (_training_steps(machine), _gradients(machine), _updates(machine),
             _forward_misses(machine, 1), _backward_misses(machine))  # fmt: skip
    ours = {name: number for part in parts for name, number in part.items()}
    return reproduced(lab, "chapter6_formulas", ours)


# Recall.


def _messages(machine: Machine) -> dict[str, float]:
    """Transfers, the columns of a port, and what a pass of the I/O node with it loads of code."""
    messages, hosts, codes = (
        machine.section(Messages),
        machine.section(Hosts),
        machine.section(Codes),
    )
    fabric, passing = machine.fabrics["torrents"], codes.host_loop_lines + codes.host_handler_lines
    at_first = codes.host_lines - codes.host_loop_lines + codes.host_handler_lines
    larger = TableCell(1024, "768M", "4.5 Mb").machine()
    shared = {
        machine.cores: machine.mesh.columns / messages.hidden_sharers,
        larger.cores: larger.mesh.columns / larger.section(Messages).hidden_sharers,
    }
    small = on_each_node(machine, MODEL.layers)
    return {
        "T_ST(k) beside message and 2 k - 1": fabric.send_cycles + fabric.receive_cycles + 1,
        "T_ST(32) beside the message": block_transfer_cycles(machine, 32) - block_cycles(machine),
        "columns of a port": machine.mesh.columns / hosts.ports,
        **{f"{nodes} nodes: columns that share activations{where}": columns
           for nodes, columns in shared.items() for where in ("", ", results")},
        "bits of a port's transfer": 8 * hosts.port_bytes_per_second * 20e-9,
        "a port's transfer [ns]": 64 / 8 / hosts.port_bytes_per_second * 1e9,
        "n_pi of a pass in step 1": hosts.block_bytes / PATTERNS,
        "passes of step 1": PATTERNS * small.inputs / hosts.block_bytes,
        "messages of step 4": PATTERNS * small.outputs / hosts.block_bytes,
        "code of the main procedure of H_b [lines]": codes.host_lines,
        "code of its loop [lines]": codes.host_loop_lines,
        "code of its handlers [lines]": codes.host_handler_lines,
        "lines that a pass of H_b loads, text": passing,
        "lines that a pass of H_b loads, formula": passing,
        "lines that H_b loads beside its passes": at_first - passing,
        "instructions of a handler, at most": _instructions_of_line(machine),
    }  # fmt: skip


def _instructions_of_line(machine: Machine) -> float:
    return 8 * machine.section(NodeCaches).instruction_line_bytes / node_table(machine).word_bits


def _products(machine: Machine) -> dict[str, float]:
    """T_MVM of two patterns, and the lines of memory that it reads."""
    rdram, read = machine.section(Rdram), read_cycles(machine, VECTOR_BYTES)
    hit, row = read.hit, PATTERNS * VECTORS_OF_STRIPE * VECTOR_CYCLES
    shapes = [on_each_node(case.machine(), case.layers) for case in CASES]
    rows = [size for own in shapes for size in (own.inputs, own.hidden)]
    columns = [size for own in shapes for size in (own.hidden, own.outputs)]
    one = max(VECTORS_OF_STRIPE * VECTOR_CYCLES, hit)
    opened = rows[0] * columns[0] // (8 * rdram.line_bytes)
    without_misses = product_cycles(machine, rows[0], columns[0], PATTERNS)
    without_misses -= opened * (read.clean_miss - row)
    return {
        "activations of a word": WORD_BYTES / ELEMENT_BYTES,
        "weights from bank to bank": rdram.chip_block_bytes / _WEIGHT_BYTES,
        "ports of a load": VECTOR * _WEIGHT_BYTES / rdram.port_block_bytes,
        "loads that overlap": rdram.ports * rdram.port_block_bytes / (VECTOR * _WEIGHT_BYTES),
        "alpha": rdram.chips / _WEIGHT_BYTES,
        "beta, at best": banks_of_stripe(4 * STRIPE, rdram),
        "beta, a multiple of two": banks_of_stripe(2 * STRIPE, rdram),
        "beta, else": banks_of_stripe(STRIPE, rdram),
        "beta of all networks": max(banks_of_stripe(own, rdram) for own in columns),
        "n_p1 of all networks, at least": min(rows),
        "T_MVM: a row": row,
        "T_MVM: cycles less": read.dirty_miss + row * rows[0] - without_misses,
        "two weight vectors, two patterns": row,
        "two weight vectors, at most": max(row, hit),
        "two weight vectors, one pattern": row / PATTERNS,
        "two weight vectors, one pattern, memory": one,
        "an instruction that multiplies and accumulates": _vector_cycles(machine),
    }


def _vector_cycles(machine: Machine) -> float:
    return machine.section(Vectors).length / machine.core.arithmetic["i16"].vector_lanes


def _around(machine: Machine) -> dict[str, float]:
    """Look-ups, global sums, threads and steps 1 and 4."""
    sums, miss = PATTERNS * VECTORS_OF_STRIPE, machine.section(NodeCaches).instruction_miss_cycles
    none, four = (sigmoid_cycles(machine, vectors, BEST) for vectors in (0, sums))
    byte = {chips: read_cycles(TableCell(128, "192M", chips).machine(), ELEMENT_BYTES)
            for chips in CHIPS}  # fmt: skip
    looked_up = sums * VECTOR / machine.section(Rdram).ports * byte["4.5 Mb"].hit
    filling = none - sigmoid_cycles(machine, 0, replace(BEST, worst_lookups=True))
    rounds = interleaving(MODEL.recall(BEST).forward)
    found = {
        "storing the last vector of a look-up": VECTOR_CYCLES,
        "look-ups at best, beside the accesses": four - none + filling - looked_up,
        "interrupts of a product, times log p": 2 * sums,
        "threads of a round": len({one.what for one in rounds}),
        "global sums of a round": sums,
        "step 4: a miss of one code, times n_po, text": 2 * miss / STRIPE,
        "step 4: P_enalty, times n_po": 2 * miss / STRIPE,
        "look-up restored, accesses at worst": machine.section(Rdram).ports,
        "an addition apart delays the last store": VECTOR_CYCLES,
        "too large activations: step 1 is faster by": _step1_saved(machine),
    }
    for chips, cycles in byte.items():
        found[f"{chips}: a byte, clean miss"] = cycles.clean_miss
        word = read_cycles(TableCell(128, "192M", chips).machine(), WORD_BYTES)
        found[f"{chips}: a word of the open line"] = word.hit
    return found


def _step1_saved(machine: Machine) -> int:
    """Cycles that step 1 saves where activations do not go to the data cache."""
    small, large = (on_each_node(machine, case.layers) for case in (MODEL, _LARGE))
    return reading_cycles(machine, 16, small) - reading_cycles(machine, 16, large)


def _memories(machine: Machine) -> dict[str, float]:
    """The data cache, the open lines and a scalar access."""
    table, cache = node_table(machine), machine.memory["cache"].capacity_bytes
    local = [on_each_node(case.machine(), case.layers) for case in CASES]
    found = {
        "a scalar access of the data cache": table.by_mnemonic["load_cached"].occupancy_cycles,
        "an instruction miss, at least": read_cycles(machine, VECTOR_BYTES).hit,
        "an instruction miss, at most": machine.section(NodeCaches).instruction_miss_cycles + 1,
        "elements of a local vector, at most": cache / (2 * PATTERNS),
        "elements of a local vector of all networks": max(
            size for own in local for size in (own.inputs, own.hidden, own.outputs)
        ),
        "bytes of an activation vector in the cache": cache / (2 * PATTERNS),
        "n_p1 whose vectors are too large": min(
            own.inputs for own in local if own.inputs > cache / (2 * PATTERNS)
        ),
    }
    for chips in CHIPS:
        rdram = TableCell(128, "192M", chips).machine().section(Rdram)
        found[f"{chips}: open line of all chips [KB]"] = rdram.open_bytes / _KILO
    return found


# Instruction misses: the coefficients of N_Im in rounds and exchanges.


def _code_lines(machine: Machine) -> dict[str, float]:
    """Lines of the codes of steps 2 and 3; the send handlers of both differ."""
    codes = machine.section(Codes)
    every = codes.product_lines + codes.sigmoid_lines + 2 * codes.send_lines + codes.receive_lines
    return {
        "code of the send handler [lines]": codes.send_lines,
        "code of the receive handler [lines]": codes.receive_lines,
        "code of steps 2 and 3, at most [lines]": every,
    }


def _forward_misses(machine: Machine, patterns: int) -> dict[str, float]:
    """N_Im and N_Im(MVM) of steps 2 and 3 as both lines of the formulas have them."""
    codes, vectors = machine.section(Codes), patterns * VECTORS_OF_STRIPE
    first: dict[str, float] = {
        "N_Im: at first": codes.product_lines,
        "N_Im: a round, times log p": vectors * codes.handler_lines,
        "N_Im: a round": codes.sigmoid_lines,
        "N_Im: code and what it evicts": 2,
        "N_Im: at last, handlers": codes.handler_lines,
        "N_Im: at last, look-up": codes.sigmoid_lines,
        "N_Im(MVM): at first": codes.product_lines - 1,
    }
    if patterns == 1:
        first["misses of a sum, times log p"] = 2 * codes.handler_lines

    def counts(hidden: int, outputs: int, log_pi: int, log_ph: int) -> tuple[int, int]:
        both = [step_misses(machine, rounds, vectors * log, first=step == 2)
                for step, rounds, log in ((2, hidden, log_pi), (3, outputs, log_ph))]  # fmt: skip
        return sum(one.fetched for one in both), sum(one.restored for one in both)

    names = ("N_Im, summed up", "N_Im(MVM), summed up")
    terms = [_terms({key: counts(*key)[i] for key in product((0, 1), repeat=4)}) for i in (0, 1)]
    second = {f"{name}: {term}": number for name, own in zip(names, terms, strict=True)
              for term, number in own.items()}  # fmt: skip
    return first | second


def _terms(counted: Mapping[tuple[int, ...], int]) -> dict[str, float]:
    """Coefficients of c + h (a log p_i + b) + o (d log p_h + e) - f log p_h from its values, by
    (h, o, log p_i, log p_h).
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


def _backward_misses(machine: Machine) -> dict[str, float]:
    """N_Im and N_Im(lc) of steps 6 and 7."""
    codes = machine.section(Codes)
    rounds = [backward_misses(machine, Layers(0, VECTOR * n, 0)) for n in (1, 2)]
    sums = (rounds[1].restored - rounds[0].restored - codes.scaling_lines) / codes.handler_lines
    again = rounds[1].fetched - rounds[0].fetched
    return {
        "N_Im of step 6: at first": codes.local_lines,
        "N_Im of step 6: handlers, times log p_i": codes.handler_lines,
        "N_Im of step 6: scaling": codes.scaling_lines,
        "N_Im of step 6, summed up: a round, times log p_i": (again - 2 * codes.scaling_lines)
        / sums,
        "N_Im of step 6, summed up: a round": 2 * codes.scaling_lines,
        "N_Im of step 6, summed up: constant": rounds[0].fetched,
        "N_Im(lc): at first": rounds[0].restored,
        "N_Im(lc): a round, times log p_i": codes.handler_lines,
        "N_Im(lc): a round": codes.scaling_lines,
    }


# Training.


def _training_steps(machine: Machine) -> dict[str, float]:
    """Steps 1 to 5, and what is too large for the data cache."""
    cache, hosts = machine.memory["cache"].capacity_bytes, machine.section(Hosts)
    codes, rdram = machine.section(Codes), machine.section(Rdram)
    passing = codes.host_loop_lines + codes.host_handler_lines
    roomy = changed(_LARGE.machine(), {"memory.cache.capacity_bytes": 8 * cache})
    large, held = (
        recall_times(one, _LARGE.layers, WORST).total_cycles for one in (_LARGE.machine(), roomy)
    )
    step = table_step(perceptron_of((256, 256, 256), 1), scaling=None)
    products = [node.inputs for node in step.nodes if node.op.matrix_product is not None]
    updates = {state.next: state.tensor for state in step.states}
    updated = [updates[n.output] for n in step.nodes if n.output in updates]
    return {
        "elements of a message of step 1": hosts.block_bytes,
        "passes of step 1 against recall": PATTERNS,
        "step 1: lines that a pass loads": passing,
        "step 1: lines beside its passes": codes.host_lines
        - codes.host_loop_lines
        + codes.host_handler_lines
        - passing,
        "an instruction miss with its fetch": machine.section(NodeCaches).instruction_miss_cycles
        + 1,
        "step 5: visible misses of an open line": rdram.chips_per_port,
        "step 5: elements of a pass": rdram.ports * VECTOR,
        "step 5: from load to load of the cache": VECTOR_CYCLES,
        "step 5: from load to load of the memory": 1 + VECTOR_CYCLES,
        "too large vectors: slower at most [percent]": 100 * (large / held - 1),
        "elements of a vector, at most": cache / 2,
        "errors that take the whole cache": cache / _WEIGHT_BYTES / 2,
        "errors in the cache at a time [KB]": cache / _KILO,
        "products of a weight of A": sum("w0" in own for own in products) + updated.count("w0"),
        "products of a weight of B": sum("w1" in own for own in products) + updated.count("w1"),
    }


def _gradients(machine: Machine) -> dict[str, float]:
    """T_lc and the misses of steps 6 and 7."""
    rdram, hit = machine.section(Rdram), read_cycles(machine, VECTOR_BYTES)
    columns = VECTOR // ROWS_AT_ONCE
    outputs = 16 * rdram.line_bytes
    missing = local_cycles(machine, Layers(0, 0, outputs)) - local_cycles(machine, Layers(0, 0, 0))
    missing -= columns * outputs // STRIPE * ROWS_AT_ONCE * max(8, hit.hit)
    pair = VECTORS_OF_STRIPE * VECTOR_CYCLES
    lines = VECTOR * _WEIGHT_BYTES / rdram.chips
    return {
        "misses of an open line": rdram.chips,
        "lines that a round opens, times n_po / l": lines,
        "n_miss of step 6, times n_po / l": missing / (hit.clean_miss - hit.hit) / 16,
        "T_inner: loads that do not overlap": ROWS_AT_ONCE,
        "T_inner: arithmetic beside two loads": pair,
        "T_inner, last: accesses": ROWS_AT_ONCE - 1,
        "T_lc: passes of the outer loop": columns,
        "T_lc, summed up: constant beside reductions": local_cycles(machine, Layers(0, 0, 0))
        + columns * (hit.hit - 60)
        - hit.dirty_miss
        + hit.clean_miss,
    }


def _updates(machine: Machine) -> dict[str, float]:
    """T_hit, and the misses of steps 8 and 9."""
    rdram, vectors = machine.section(Rdram), ROWS_AT_ONCE * VECTORS_OF_STRIPE
    beside = vectors - 1
    codes = machine.section(Codes)
    row = max(on_each_node(c.machine(), c.layers).hidden for c in CASES) * _WEIGHT_BYTES
    visible = rdram.chips / rdram.ports
    return {
        "T_hit, standard, times r_h": (beside + 2) / 2,
        "T_hit, standard, times w_h": beside / 2,
        "T_hit, last, times r_h": (beside + 1) / 2,
        "T_hit, last, times w_h": vectors / 2,
        "step 8: misses of an open line": rdram.chips,
        "step 8: visible misses of an open line": visible,
        "step 8: n_miss, l over weights": rdram.chips / _WEIGHT_BYTES / visible,
        "four rows of weights, at most [KB]": ROWS_AT_ONCE * row / _KILO,
        "step 8: misses of code that disturb weights": codes.update_lines - 1,
        "T_preload: storing the last vector": VECTOR_CYCLES,
        "step 7: a vector of the cache": VECTOR_CYCLES,
    }
