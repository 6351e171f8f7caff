"""Chapters 2 and 3: the numbers that describe machines and networks, and what follows from them.

Each table is a function by its name in `TITLES`. A number that a machine file or `cases` has is
compared with its key there: it is an input, which no row of another table is evidence for.
"""

from __future__ import annotations

from tilewright.isa import load_table
from tilewright.machine import Machine
from tilewright.papers.cns1.cases import CHIPS, MODEL, NETWORKS, SHAPES, TableCell
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings
from tilewright.targets.cns1.emit.calls import SUM_BYTES, WEIGHT_BYTES
from tilewright.targets.cns1.node import TABLE
from tilewright.targets.cns1.sections import Messages, NodeCaches, Rdram
from tilewright.targets.cns1.timing.layers import ELEMENT_BYTES, ROWS_AT_ONCE, STRIPE, on_each_node

TITLES = {
    "table2_1": "capacity of the caches",
    "table2_2": "access times of the main memory",
    "table3_1": "sizes of the networks and of their parts on each node",
    "chapter3": "sizes and shares in the text of chapter 3",
}
_KILO, _SUBCLASSES = 1024, 64


def _machines() -> dict[str, Machine]:
    return {chips: TableCell(MODEL.nodes, MODEL.network, chips).machine() for chips in CHIPS}


def table2_1(lab: Lab) -> Findings:
    """Sizes and lines; an RDRAM chip is a cache of its open lines."""
    machine = MODEL.machine()
    caches, data = machine.section(NodeCaches), machine.space("cache").capacity_bytes
    line, word = caches.instruction_line_bytes, load_table(TABLE).word_bits // 8
    ours: dict[str, float] = {
        "I-cache: KB": caches.instruction_bytes / _KILO,
        "I-cache: line [B]": line,
        "I-cache: lines": caches.instruction_bytes / line,
        "I-cache: instructions of a line": line / word,
        "I-cache: bytes of an instruction": word,
        "D-cache: KB": data / _KILO,
        "D-cache: line [B]": caches.data_line_bytes,
        "D-cache: lines": data / caches.data_line_bytes,
    }
    for chips, one in _machines().items():
        rdram = one.section(Rdram)
        ours |= {
            f"{chips} chip: KB": rdram.open_lines * rdram.line_bytes / _KILO,
            f"{chips} chip: line [KB]": rdram.line_bytes / _KILO,
            f"{chips} chip: lines": rdram.open_lines,
        }
    return reproduced(lab, "table2_1", ours, kind="exact")


def table2_2(lab: Lab) -> Findings:
    """Nanoseconds of an access of x bytes: what it takes beside x, and for each byte."""
    ours: dict[str, float] = {}
    for chips, machine in _machines().items():
        rdram = machine.section(Rdram)
        times = {
            "read hit": rdram.read_hit_ns,
            "read clean miss": rdram.read_clean_miss_ns,
            "read dirty miss": rdram.read_dirty_miss_ns,
            "write hit": rdram.write_hit_ns,
            "write clean miss": rdram.write_clean_miss_ns,
            "write dirty miss": rdram.write_dirty_miss_ns,
        }
        for name, own in times.items():
            ours[f"{chips}, {name}"] = own
            ours[f"{chips}, {name}: a byte"] = rdram.byte_ns
    return reproduced(lab, "table2_2", ours, kind="exact")


def table3_1(lab: Lab) -> Findings:
    """Layers, their parts, and nodes; p_h is the nodes over p_i."""
    ours: dict[str, float] = {}
    for nodes, network in SHAPES:
        case = TableCell(nodes, network, MODEL.chips)
        machine, layers = case.machine(), case.layers
        local, shared = on_each_node(machine, layers), machine.section(Messages).hidden_sharers
        numbers = {
            "M connections": layers.connections / _KILO**2,
            "K inputs": layers.inputs / _KILO,
            "K hidden": layers.hidden / _KILO,
            "K outputs": layers.outputs / _KILO,
            "inputs of a node": local.inputs,
            "hidden of a node": local.hidden,
            "outputs of a node": local.outputs,
            "p_i": shared,
            "p_h": machine.cores / shared,
            "nodes": machine.cores,
            "classes": layers.outputs / _SUBCLASSES,
            "subclasses of a class": _SUBCLASSES,
        }
        ours |= {f"{network} on {nodes} nodes: {name}": own for name, own in numbers.items()}
    return reproduced(lab, "table3_1", ours, kind="exact")


def chapter3(lab: Lab) -> Findings:
    """Connections of Table 3.1's networks; half of the nodes idle when training is pipelined."""
    sizes = [network.connections for network in NETWORKS.values()]
    ours = {
        "connections of the smallest network [million]": min(sizes) / 1e6,
        "connections of the largest network [billion]": max(sizes) / 1e9,
        "training time that the pipelined distribution idles [percent]": 50.0,
        "subclasses of a class": _SUBCLASSES,
        "bytes of an activation": ELEMENT_BYTES,
        "bytes of a weight": WEIGHT_BYTES,
        "bytes of a sum": SUM_BYTES,
        "inputs of a node are a multiple of": ROWS_AT_ONCE,
        "hidden and output units of a node are a multiple of": STRIPE,
    }
    notes = (
        "n_po is n_o / p_i: section 3.2.1 prints n_o / p_h, and p_i and p_h change places once",
        "half of the nodes wait for the other half when one pattern is trained at a time: the"
        " row restates the text",
        "no network of Table 3.1 has 1.34 billion connections: 20K x 64K would",
    )
    return reproduced(lab, "chapter3", ours, notes=notes)
