"""Chapters 2, 4, 6 and 8: numbers that their text derives, from the functions of the closed form.

Each table is a function by its name in `TITLES`.
"""

from __future__ import annotations

from tilewright.machine import Machine
from tilewright.papers.cns1 import cases
from tilewright.papers.cns1 import recall as of_recall
from tilewright.papers.cns1 import training as of_training
from tilewright.papers.cns1.cases import TableCell, recall_share
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings
from tilewright.targets.cns1.sections import Hosts, Messages, NodeCaches, Rdram
from tilewright.targets.cns1.timing.forward import (
    VECTOR_CYCLES,
    Conditions,
    parameter_cycles,
    preload_cycles,
    product_cycles,
    sigmoid_cycles,
)
from tilewright.targets.cns1.timing.layers import (
    ELEMENT_BYTES,
    STRIPE,
    VECTOR_BYTES,
    WORD_BYTES,
    Layers,
    on_each_node,
    read_cycles,
    refresh_factor,
    write_cycles,
)
from tilewright.targets.cns1.timing.messages import (
    block_cycles,
    block_spacing_cycles,
    block_transfer_cycles,
    global_sum_processor_cycles,
    hidden_sum,
)
from tilewright.targets.cns1.timing.recall import startup_cycles, top_row_cycles, writing_cycles
from tilewright.targets.cns1.timing.training import (
    backward_times,
    error_pass_cycles,
    error_preload_cycles,
    local_cycles,
    update_cycles,
)

TITLES = {
    "chapter2": "cycles in the text of chapter 2",
    "chapter4_text": "cycles in the text of chapter 4",
    "chapter6": "cycles in the text of chapter 6",
    "chapter8": "the conclusions in numbers",
}
_LARGE_BLOCK = 128
_PATTERNS = {"best": cases.BEST, "worst": cases.SMALL_WORST}


def chapter2(lab: Lab) -> Findings:
    """The clock, interleaving, refreshes, and what transfers take beside their bytes."""
    machine = cases.MODEL.machine()
    rdram, message = machine.section(Rdram), block_cycles(machine)
    ours = {
        "a cycle [ns]": 1e9 / machine.clock_hz,
        "blocks from one to the next of the same port": rdram.ports,
        "blocks from one to the next of the same chip": rdram.ports * rdram.chips_per_port,
        "chips of a node": rdram.chips,
        "refresh interval [cycles]": rdram.refresh_interval_ns * machine.clock_hz / 1e9,
        "refresh [cycles]": rdram.refresh_ns * machine.clock_hz / 1e9,
        "refreshes, at worst [percent]": 100 * (refresh_factor(machine) - 1),
        "k of a multiple transfer, at most": machine.mesh.columns / 2,
        "a transfer beside hops and message": block_transfer_cycles(machine, 0) - message,
    }
    return reproduced(lab, "chapter2", ours)


def chapter4_text(lab: Lab) -> Findings:
    """Messages, blocks, sigmoid tables, parameters, and what too large vectors cost."""
    machine = cases.MODEL.machine()
    message, spacing = block_cycles(machine), block_spacing_cycles(machine)
    large = TableCell(128, "768M", "4.5 Mb")
    local = on_each_node(machine, large.layers)
    product = product_cycles(machine, local.inputs, local.hidden, 2)
    sharing, (ports, hits) = hidden_sum(machine), _block_accesses()
    slower = large.recall(cases.BEST).forward.hidden.product_cycles / product
    ours: dict[str, float] = {
        "m_length": message,
        "between two messages": spacing,
        "H_startup, at most": startup_cycles(machine),
        "H_startup beside the message": startup_cycles(machine) - message,
        "last arrival in the top row": top_row_cycles(machine),
        "last store": write_cycles(machine, VECTOR_BYTES).hit + VECTOR_CYCLES,
        "storing a block at worst": write_cycles(machine, _LARGE_BLOCK).clean_miss,
        "step 4 beside its messages": _writing(machine, TableCell(128, "192M", "4.5 Mb")),
        "activations in blocks: slower [percent]": 100 * (slower - 1),
        "between two messages, left for storing": message
        - machine.section(Messages).processor_receive_cycles,
        "processor in a round of a global sum": global_sum_processor_cycles(machine, sharing)
        / sharing.rounds,
        "a store with a miss of code, at most": machine.section(NodeCaches).instruction_miss_cycles
        + write_cycles(machine, VECTOR_BYTES).dirty_miss,
        "a block of activations: misses": ports,
        "a block of activations: hits": hits,
    }
    ours |= _transfers(machine)
    for chips in cases.CHIPS:
        own = {f"{chips}: {name}": cycles for name, cycles in _step23(chips).items()}
        ours |= own | _lookups(chips, 4)
    ours["4.5 Mb: preload of the table of 32K"] = _preload(machine, 32)
    return reproduced(lab, "chapter4_text", ours)


def _transfers(machine: Machine) -> dict[str, float]:
    """Time of the processors in steps 1 and 4 that ports, blocks and messages leave."""
    messages, hosts = machine.section(Messages), machine.section(Hosts)
    send, receive = messages.processor_send_cycles, messages.processor_receive_cycles
    spacing, reading = block_spacing_cycles(machine), 2 * hosts.block_cycles
    seconds = hosts.block_bytes / hosts.port_bytes_per_second
    return {
        "a block by the bandwidth of a port": seconds * machine.clock_hz,
        "reading two blocks": reading,
        "sending two blocks": 2 * send,
        "a pass of H_b beside its loop": reading + 3 * send + 1,
        "a block of instructions": machine.section(NodeCaches).instruction_miss_cycles + 1,
        "a store with a dirty miss": write_cycles(machine, VECTOR_BYTES).dirty_miss,
        "m_length, less what is left between two messages": block_cycles(machine)
        - (spacing - receive),
        "left of H_c between two messages": spacing - receive,
        "writing a block": hosts.block_cycles,
    }


def chapter6(lab: Lab) -> Findings:
    """Lookups, parameters, passes, and what too large vectors cost in training."""
    ours: dict[str, float] = {}
    for chips in cases.CHIPS:
        machine = TableCell(128, "192M", chips).machine()
        hidden = [
            TableCell(128, network, chips).training(cases.BEST).forward.hidden.sigmoid_cycles
            for network in ("192M", "1536M")
        ]
        numbers = {
            "parameters of steps 2 and 3": parameter_cycles(machine, 3),
            "a word at worst": read_cycles(machine, WORD_BYTES).dirty_miss,
            "too large hidden vectors, step 2": hidden[1] - hidden[0],
        }
        ours |= {f"{chips}: {name}": cycles for name, cycles in numbers.items()}
        ours |= _lookups(chips, 2)
    ours |= _training_terms()
    return reproduced(lab, "chapter6", ours)


def _training_terms() -> dict[str, float]:
    """Terms of the formulas of chapter 6 that do not depend on the memory chips."""
    machine = cases.MODEL.machine()
    read, write = read_cycles(machine, VECTOR_BYTES), write_cycles(machine, VECTOR_BYTES)
    hit, miss = error_pass_cycles(machine)
    columns = local_cycles(machine, Layers(0, 0, 0)) + 8 * read.hit
    scaling = backward_times(machine, on_each_node(machine, cases.MODEL.layers)).scaling_cycles
    parameter = read_cycles(machine, WORD_BYTES).dirty_miss
    preload = error_preload_cycles(machine, 0)
    hits = (error_preload_cycles(machine, 2048) - preload - read.dirty_miss) / read.hit
    return {
        "H_startup, at most": startup_cycles(machine),
        "last arrival in the top row": top_row_cycles(machine),
        "last store": write.hit + VECTOR_CYCLES,
        "w_h": write.hit,
        "r_h": read.hit,
        "t_hit": hit,
        "t_miss beside the access": miss - read.dirty_miss,
        "T_lc beside the accesses": columns - (read.dirty_miss - read.clean_miss),
        "scaling beside the store": scaling - write.clean_miss,
        "T_update beside the parameter": update_cycles(machine, 0, 0) - parameter,
        "T_preload beside the accesses": preload,
        "T_preload of 2048 errors: hits": hits,
        "a block of hidden units: hits": _block_accesses()[1],
    }


def _block_accesses() -> tuple[float, float]:
    """Dirty misses and hits of a block of 2 KB, from chips whose dirty misses differ."""
    machines = [TableCell(128, "192M", chips).machine() for chips in cases.CHIPS]
    reads = [read_cycles(machine, VECTOR_BYTES) for machine in machines]
    cycles = [preload_cycles(machine, 2048) for machine in machines]
    misses = (cycles[1] - cycles[0]) / (reads[1].dirty_miss - reads[0].dirty_miss)
    return misses, (cycles[0] - misses * reads[0].dirty_miss) / reads[0].hit


def _step23(chips: str) -> dict[str, float]:
    """Steps 2 to 4 of recall: what depends on the size of the memory chips."""
    small, large = TableCell(128, "192M", chips), TableCell(128, "768M", chips)
    machine = small.machine()
    sigmoid = [case.recall(cases.BEST).forward.hidden.sigmoid_cycles for case in (small, large)]
    return {
        "one byte of the open line": read_cycles(machine, ELEMENT_BYTES).hit,
        "preload of the table of 16K": _preload(machine, 16),
        "parameters of steps 2 and 3": parameter_cycles(machine, 5),
        "too large vectors, sigmoid": sigmoid[1] - sigmoid[0],
        "too large vectors, step 4": _writing(machine, large) - _writing(machine, small),
    }


def _writing(machine: Machine, case: TableCell) -> int:
    """Cycles of step 4 beside the spacing of its messages."""
    local = on_each_node(machine, case.layers)
    return writing_cycles(machine, local) - local.outputs // STRIPE * block_spacing_cycles(machine)


def _preload(machine: Machine, table_kilo: int) -> int:
    conditions = Conditions(table_kilo << 10)
    return sigmoid_cycles(machine, 0, conditions) - VECTOR_CYCLES


def _lookups(chips: str, vectors: int) -> dict[str, float]:
    """Cycles of the lookups of `vectors`, without the preload and the last store."""
    machine = TableCell(128, "192M", chips).machine()
    none = sigmoid_cycles(machine, 0, cases.SMALL_WORST)
    return {
        f"{chips}: lookups of {vectors} vectors, {name}": sigmoid_cycles(machine, vectors, c) - none
        for name, c in _PATTERNS.items()
    }


def chapter8(lab: Lab) -> Findings:
    """Chapter 8 and the abstract: rates, scaling, memory, what all optimizations are worth."""
    recall = {row.name: row.ours or 0.0 for row in of_recall.chapter5(Lab()).rows}
    training = {row.name: row.ours or 0.0 for row in of_training.chapter7(Lab()).rows}
    small = [case for case in cases.CASES if case.nodes == 128]
    rates = {case: of_recall.recall_rate_of(case) for case in small}
    read = read_cycles(cases.MODEL.machine(), VECTOR_BYTES)
    best = max(small, key=lambda case: rates[case])
    ours = {
        "recall [10^9 connections per second]": rates[best],
        "training [10^9 updates per second]": max(
            of_training.training_rate_of(c, cases.WORST) for c in small
        ),
        "recall of the peak [percent]": recall_share(best, rates[best]),
        "speedup of training by 1024 nodes": training["speedup by 1024 nodes, fixed local size"],
        "training with a faster memory [times]": training["a faster memory [times]"],
        "training with a faster memory, faster by [percent]": 100
        * (training["a faster memory [times]"] - 1),
        "a hit in an open line, faster than the RDRAM [times]": read.clean_miss / read.hit,
        "instruction misses in recall [percent]": recall[
            "instruction misses at worst: more time [percent]"
        ],
        "product with the transposed matrix, slower [percent]": training[
            "product with the transposed matrix, slower [percent]"
        ],
        "optimizations of recall [times]": recall["all optimizations, at least [times]"],
        "optimizations of training [times]": training["none of the optimizations [times]"],
        "optimizations of training, abstract [times]": training[
            "none of them and the matrix stored twice [times]"
        ],
        "recall over training, relative, abstract, least": training[
            "relative performance, recall over training, least"
        ],
        "recall over training, relative, abstract, most": training[
            "relative performance, recall over training, most"
        ],
    }
    notes = (
        "the abstract says 3 for all optimizations of training, this chapter and 7.2.2 say 2.5:"
        " 3 has the matrix stored twice besides",
    )
    return reproduced(lab, "chapter8", ours, notes=notes)
