"""The report's listings (appendix A) beside our kernels, on a simulated node.

The report has no such table. For each inner loop: the interval with its bound and whether it is
proven, beside the count of chapters 4 and 6. For each kernel: cycles of the repaired listing and of
ours, on the same random numbers. For the codes, beside the text's statements: instructions and
lines between labels, and cycles of traced runs, on a node with free memory accesses where the
report assumes a processor without memory. Each table is a function by its name in `TITLES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tilewright.machine import Machine, load_machine
from tilewright.machine.model import Leaf
from tilewright.papers.cns1.cases import simulated_row
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.cns1.repaired import IN_REGISTERS, in_bytes, repaired_listing, run_listing
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.targets.cns1.emit.calls import write_get
from tilewright.targets.cns1.kernels import run as kernels
from tilewright.targets.cns1.kernels.bodies import (
    backward_body,
    errors_body,
    forward_body,
    update_body,
)
from tilewright.targets.cns1.kernels.pipelining import port_cycles, scheduled_loop
from tilewright.targets.cns1.kernels.run import NodeResult
from tilewright.targets.cns1.node import node_table
from tilewright.targets.cns1.prices import finished, started
from tilewright.targets.cns1.sections import NodeCaches, Rdram
from tilewright.targets.cns1.timing.forward import VECTOR_CYCLES
from tilewright.targets.cns1.timing.layers import ROWS_AT_ONCE, STRIPE, VECTOR_BYTES, read_cycles

# The report's listings on a simulated node: arrays in, results and cycles out.

Array = NDArray[Any]


def listed_forward(weights: Array, inputs: Array, table: Array, shift: int) -> NodeResult:
    """The next layer by the listing of recall for two patterns, or of training for one."""
    rows, columns = weights.shape
    patterns = len(inputs)
    start = -(-weights.nbytes // len(table)) * len(table)
    main = np.zeros(start + len(table), np.uint8)
    main[: weights.nbytes], main[start:] = in_bytes(weights), in_bytes(table)
    first = patterns * rows
    outputs = [first + i * columns for i in range(patterns)]
    others = [rows, *outputs] if patterns == 2 else outputs
    stack = [*others, shift, start + len(table) // 2]
    name = "recall" if patterns == 2 else "forward"
    run = run_listing(name, main, [inputs], stack, (0, rows, columns, 0))
    values = run.memory("cache")[first : first + patterns * columns].view(np.int8)
    return NodeResult(values.reshape(patterns, columns), weights.shape, run)


def listed_errors(results: Array, outputs: Array, factor: int) -> NodeResult:
    """factor * (results - outputs)."""
    count, place = len(results), 1024
    run = run_listing("errors", in_bytes(results), [outputs], [factor], (0, count, 0, place))
    values = run.memory("cache")[place : place + 2 * count].view("<i2")
    return NodeResult(values, (count,), run)


def listed_update(weights: Array, error: Array, data: Array) -> NodeResult:
    """weights + data x error^T."""
    rows, columns = weights.shape
    run = run_listing("update", in_bytes(weights), [data, error], [rows], (0, rows, columns, 0))
    values = run.memory("main")[: weights.nbytes].view("<i2").reshape(rows, columns)
    return NodeResult(values, weights.shape, run)


def listed_backward(weights: Array, error: Array, hidden: Array) -> NodeResult:
    """hidden * (hidden - 1) * (weights x error)."""
    rows, columns = weights.shape
    main = np.zeros(weights.nbytes + 2 * rows, np.uint8)
    main[: weights.nbytes] = in_bytes(weights)
    stack = [rows, weights.nbytes]
    run = run_listing("backward", main, [hidden, error], stack, (0, rows, columns, 0))
    values = run.memory("main")[weights.nbytes : weights.nbytes + 2 * rows].view("<i2")
    return NodeResult(values, weights.shape, run)


TITLES = {
    "listings": "the report's listings beside our kernels, on a simulated node",
    "code_sizes": "the report's codes: lines of their listings, and cycles on a node",
}
LOOPS = {
    "recall": (forward_body(2), 64),
    "forward pass": (forward_body(1), 56),
    "error": (errors_body(), 53),
    "back-propagation": (backward_body(), 56),
    "weight update": (update_body(), 98),
}
"""Inner loops, and the report's cycle counts for them."""
_SHIFT, _FACTOR = 6, 5


class _Kernel(Struct, frozen=True):
    """One kernel on weights of `rows` x `columns`; errors have only columns."""

    name: str
    rows: int
    columns: int

    @property
    def size(self) -> str:
        """The size as it appears in the row's name."""
        if self.name == "error":
            return f"{self.columns} elements"
        return f"{self.rows} x {self.columns} weights"


class Cycles(Struct, frozen=True):
    """Cycles of the listing and of our kernel, and True if their results are equal."""

    listing: int
    ours: int
    alike: bool


KERNELS = (
    _Kernel("recall", 1024, 256),
    _Kernel("recall", 1024, 1024),
    _Kernel("forward pass", 1024, 256),
    _Kernel("error", 1, 1024),
    _Kernel("back-propagation", 1024, 512),
    _Kernel("weight update", 1024, 512),
)


def listings(lab: Lab) -> Findings:
    """Loops, then whole kernels."""
    found = zip(KERNELS, lab.map(_simulate, KERNELS), strict=True)
    rows = [*_loops(), *(_row(kernel, cycles) for kernel, cycles in found)]
    notes = (
        "published: of a loop what chapters 4 and 6 count, of a kernel the repaired listing on a"
        " simulated node",
    )
    proven = sum("proven minimum" in row.note for row in rows)
    summary: dict[str, float | str] = {"loops": len(LOOPS), "loops at a proven least": proven}
    return Findings(tuple(rows), summary, notes)


def _loops() -> list[Row]:
    found, ports = [], port_cycles(load_machine("cns1-128"))
    for name, (body, report) in LOOPS.items():
        schedule = scheduled_loop(body, ports)
        ours, note = schedule.interval_cycles, schedule.statement()
        row = compare(f"{name}: a pass", report, ours, "exact", note=note, unit="cycles")
        found.append(row)
    return found


def _row(kernel: _Kernel, cycles: Cycles) -> Row:
    note = "the same numbers to the bit" if cycles.alike else "the numbers differ"
    return simulated_row(f"{kernel.name}: {kernel.size}", cycles.listing, cycles.ours, note)


def _simulate(kernel: _Kernel) -> Cycles:
    """The listing and our kernel on one node, on the same random numbers."""
    listed, ours = _runs(kernel)
    return Cycles(listed.cycles, ours.cycles, bool(np.array_equal(listed.values, ours.values)))


def _runs(kernel: _Kernel) -> tuple[NodeResult, NodeResult]:
    random, machine = np.random.default_rng(1), load_machine("cns1-128")

    def of_bytes(*shape: int) -> NDArray[np.int8]:
        return random.integers(-128, 128, shape).astype(np.int8)

    if kernel.name == "error":
        vectors = of_bytes(kernel.columns), of_bytes(kernel.columns)
        ours = kernels.errors(machine, *vectors, _FACTOR)
        return listed_errors(*vectors, _FACTOR), ours
    weights = random.integers(-300, 300, (kernel.rows, kernel.columns)).astype("<i2")
    error = random.integers(-3000, 3000, kernel.columns).astype("<i2")
    match kernel.name:
        case "recall" | "forward pass":
            inputs = of_bytes(2 if kernel.name == "recall" else 1, kernel.rows)
            given = weights, inputs, of_bytes(1 << 15), _SHIFT
            return listed_forward(*given), kernels.forward(machine, *given)
        case "back-propagation":
            vector = of_bytes(kernel.rows)
            listed = listed_backward(weights, error, vector)
            return listed, kernels.backward(machine, weights, error, vector)
        case _:
            vector = of_bytes(kernel.rows)
            listed = listed_update(weights, error, vector)
            return listed, kernels.update(machine, weights, error, vector)


# Codes in lines, instructions and cycles.

_ROWS, _COLUMNS, _TABLE = 1024, 512, 1 << 18
_NO_TIME: dict[str, Leaf] = {
    **{f"memory.rdram.{access}_{state}_ns": 0.0
       for access in ("read", "write") for state in ("hit", "clean_miss", "dirty_miss")},
    "memory.rdram.byte_ns": 0.001,
}  # fmt: skip


@dataclass(frozen=True)
class _Listing:
    """A listing: texts of its instructions, places of labels, and issue cycles."""

    texts: Sequence[str]
    labels: Mapping[str, int]
    issued: Mapping[int, Sequence[int]]

    def count(self, first: int, last: int, what: str) -> int:
        """Instructions in [first, last) that contain `what`."""
        return sum(what in text for text in self.texts[first:last])

    def place(self, what: str, first: int) -> int:
        """The first instruction from `first` on that contains `what`."""
        return next(i for i, text in enumerate(self.texts) if i >= first and what in text)

    def cycles(self, first: str, last: str, passed: int = 0) -> int:
        """Cycles from a label's pass number `passed` to the next pass of another label."""
        start = self.issued[self.labels[first]][passed]
        return min(at for at in self.issued[self.labels[last]] if at > start) - start


@cache
def _traced(name: str, *, no_time: bool = False) -> _Listing:
    """The traced run of a listing on zeros, with weights at least two stripes wide."""
    machine = load_machine("cns1-128", _NO_TIME if no_time else {})
    rows, columns, stack = {
        "recall": (_ROWS, STRIPE, (_ROWS, 2 * _ROWS, 2 * _ROWS + STRIPE, 6, _TABLE)),
        "forward": (_ROWS, STRIPE, (2 * _ROWS, 6, _TABLE)),
        "errors": (1024, 0, (5,)),
        "backward": (64, _COLUMNS, (0, _TABLE)),
        "update": (64, _COLUMNS, (0,)),
    }[name]
    main = np.zeros(2 * _TABLE, np.uint8)
    run = run_listing(name, main, [], stack, (0, rows, columns, 0), machine, trace=True)
    issued: dict[int, list[int]] = {}
    for one in run.issues:
        issued.setdefault(one.instruction, []).append(one.cycle)
    texts = [one.text() for one in run.program.instructions]
    return _Listing(texts, run.program.labels, issued)


def _lines(machine: Machine, instructions: int) -> int:
    """Instruction-cache lines that so many instructions take."""
    size = instructions * node_table(machine).word_bits // 8
    return -(-size // machine.section(NodeCaches).instruction_line_bytes)


def code_sizes(lab: Lab) -> Findings:
    """Codes of recall and the forward pass, then of steps 5 to 9."""
    names = {
        **{name: _traced(name) for name in ("recall", "forward", "errors", "backward", "update")},
        "timeless": {name: _traced(name, no_time=True) for name in ("forward", "backward")},
        "pace": _pace(_traced("update", no_time=True)),
        "lines": _lines,
        "parameters": _parameters,
        "leaving": _leaving,
        "preload": _preload,
        "in_registers": IN_REGISTERS,
        "rows_at_once": ROWS_AT_ONCE,
    }
    notes = (
        "a reduction's step has three instructions beside eight of vectors in the listing, four in"
        " the text",
        "with a memory that takes no time the listings load and store at the pace of their"
        " instructions and vector pipes",
        "errors are preloaded by a copy of ours, which stores groups of vectors behind their loads;"
        " the report has no listing of it",
    )
    return reproduced(lab, "code_sizes", names, kind="simulated", notes=notes)


def _parameters(name: str) -> int:
    """Parameters passed in memory: the listing's stack offsets."""
    return len(re.findall(r"^\s*\.set \w+_offset, \d", repaired_listing(name), re.MULTILINE))


def _leaving(machine: Machine, own: _Listing) -> float:
    """T_MVM of one stripe less its first access, its rows at the loop's pace, and its misses; a
    matrix of one stripe has one miss in each bank.
    """
    rdram, read = machine.section(Rdram), read_cycles(machine, VECTOR_BYTES)
    row = own.cycles("innerloop", "innerloop", 200) / ROWS_AT_ONCE
    misses = _ROWS * STRIPE * rdram.chips_per_port // (8 * rdram.line_bytes)
    whole = own.cycles("outerloop", "sigmoid")
    return whole - read.dirty_miss - (_ROWS - 2) * row - misses * (read.clean_miss - row)


def _pace(free: _Listing) -> dict[str, float]:
    """Cycles between loads and between stores of the update's loop."""
    first, vectors = free.labels["innerloop"], 2 * ROWS_AT_ONCE
    stores, loads = free.place("m[$14+=$9].h = $v3", first), free.place("$v3 = m[", first)
    loaded = free.issued[loads][0]
    stored = next(at for at in free.issued[stores] if at > loaded)
    again = next(at for at in free.issued[loads] if at > stored)
    return {"load": (stored - loaded) / vectors, "store": (again - stored) / vectors}


def _preload(machine: Machine) -> float:
    """Cycles to copy errors to the cache by our program, less the accesses and misses in the
    report's formula and the four cycles of the last store.
    """
    writer, read, line = started(), read_cycles(machine, VECTOR_BYTES), machine.section(Rdram)
    writer.add("$15 = 0", "$16 = 0")
    write_get(writer, 1, 2 * _ROWS, 2 * _ROWS)
    misses = _ROWS / (2 * line.line_bytes) * (read.dirty_miss - read.hit)
    return finished(machine, writer, 2 * _ROWS) - _ROWS / STRIPE * read.hit - misses - VECTOR_CYCLES
