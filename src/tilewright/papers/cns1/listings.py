"""The report's listings (appendix A) beside our kernels, on a simulated node.

In: nothing that is printed, as the report has no such table. Out: of each inner loop the interval
with its bound and whether it is proven, beside what chapters 4 and 6 count; of each kernel the
cycles of the repaired listing and of ours, on the same random numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tilewright.isa import InstructionTable
from tilewright.machine import load_machine
from tilewright.papers.cns1.printed import PAPER
from tilewright.papers.cns1.repaired import listing
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result, Row, compare
from tilewright.simulate.runs import CoreRun
from tilewright.targets.cns1.kernels import run as kernels
from tilewright.targets.cns1.kernels.bodies import (
    backward_body,
    errors_body,
    forward_body,
    update_body,
)
from tilewright.targets.cns1.kernels.pipelining import port_cycles, scheduled
from tilewright.targets.cns1.kernels.run import NodeResult
from tilewright.targets.cns1.node import Bytes, assembled, node_table, run_node

# The report's listings on a simulated node: arrays in, results and cycles out.
#
# Registers and the stack are as the head of each listing says; the stack lies in the data cache.

Array = NDArray[Any]
STACK, CACHE_BYTES = 4000, 4096


def forward(weights: Array, inputs: Array, table: Array, shift: int) -> NodeResult:
    """The next layer of two patterns by the listing of recall, of one by that of training."""
    rows, columns = weights.shape
    patterns = len(inputs)
    start = -(-weights.nbytes // len(table)) * len(table)
    main = np.zeros(start + len(table), np.uint8)
    main[: weights.nbytes], main[start:] = _bytes(weights), _bytes(table)
    first = patterns * rows
    outputs = [first + i * columns for i in range(patterns)]
    others = [rows, *outputs] if patterns == 2 else outputs
    stack = [*others, shift, start + len(table) // 2]
    name = "recall" if patterns == 2 else "forward"
    run = _run(name, main, [inputs], stack, {"$4": 0, "$5": rows, "$6": columns, "$7": 0})
    values = run.memory("cache")[first : first + patterns * columns].view(np.int8)
    return NodeResult(values.reshape(patterns, columns), weights.shape, run)


def errors(results: Array, outputs: Array, factor: int) -> NodeResult:
    """factor * (results - outputs)."""
    count, place = len(results), 1024
    registers = {"$4": 0, "$5": count, "$6": 0, "$7": place}
    run = _run("errors", _bytes(results), [outputs], [factor], registers)
    values = run.memory("cache")[place : place + 2 * count].view("<i2")
    return NodeResult(values, (count,), run)


def update(weights: Array, error: Array, data: Array) -> NodeResult:
    """weights + data x error^T."""
    rows, columns = weights.shape
    registers = {"$4": 0, "$5": rows, "$6": columns, "$7": 0}
    run = _run("update", _bytes(weights), [data, error], [rows], registers)
    values = run.memory("main")[: weights.nbytes].view("<i2").reshape(rows, columns)
    return NodeResult(values, weights.shape, run)


def backward(weights: Array, error: Array, hidden: Array) -> NodeResult:
    """hidden * (hidden - 1) * (weights x error)."""
    rows, columns = weights.shape
    main = np.zeros(weights.nbytes + 2 * rows, np.uint8)
    main[: weights.nbytes] = _bytes(weights)
    registers = {"$4": 0, "$5": rows, "$6": columns, "$7": 0}
    run = _run("backward", main, [hidden, error], [rows, weights.nbytes], registers)
    values = run.memory("main")[weights.nbytes : weights.nbytes + 2 * rows].view("<i2")
    return NodeResult(values, weights.shape, run)


def _run(
    name: str, main: Bytes, cached: list[Array], stack: list[int], registers: dict[str, int]
) -> CoreRun:
    """`cached` arrays follow each other in the data cache."""
    image = np.zeros(CACHE_BYTES, np.uint8)
    image[: sum(a.nbytes for a in cached)] = np.concatenate([_bytes(a) for a in cached])
    parameters = _bytes(np.array(stack, "<i4"))
    image[STACK : STACK + len(parameters)] = parameters
    program = assembled(listing(name), _node(), f"{name}.s")
    return run_node(program, main=main, cache=image, registers={**registers, "$29": STACK})


@cache
def _node() -> InstructionTable:
    return node_table(load_machine("cns1-128"))


def _bytes(array: Array) -> Bytes:
    return np.ascontiguousarray(array).view(np.uint8).ravel()


TITLE = "the report's listings beside our kernels, on a simulated node"
LOOPS = {
    "recall": (forward_body(2), 64),
    "forward pass": (forward_body(1), 56),
    "error": (errors_body(), 53),
    "back-propagation": (backward_body(), 56),
    "weight update": (update_body(), 98),
}
"""Inner loops, and the cycles that the report counts of them."""
_SHIFT, _FACTOR = 6, 5


class _Kernel(Struct, frozen=True):
    """One kernel on weights of `rows` x `columns`; errors have columns alone."""

    name: str
    rows: int
    columns: int

    @property
    def size(self) -> str:
        """The size, as in the row's name."""
        if self.name == "error":
            return f"{self.columns} elements"
        return f"{self.rows} x {self.columns} weights"


class Cycles(Struct, frozen=True):
    """Cycles of the listing and of our kernel, and whether they computed the same."""

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


def run(lab: Lab) -> Result:
    """Loops, then whole kernels."""
    found = zip(KERNELS, lab.map(_simulate, KERNELS), strict=True)
    rows = [*_loops(), *(_row(kernel, cycles) for kernel, cycles in found)]
    notes = (
        "published: of a loop what chapters 4 and 6 count, of a kernel the repaired listing on a"
        " simulated node",
    )
    proven = sum("proven minimum" in row.note for row in rows)
    summary: dict[str, float | str] = {"loops": len(LOOPS), "loops at a proven least": proven}
    return Result(PAPER, "listings", TITLE, tuple(rows), summary, notes)


def _loops() -> list[Row]:
    found, ports = [], port_cycles(load_machine("cns1-128"))
    for name, (body, report) in LOOPS.items():
        schedule = scheduled(body, ports)
        ours, note = schedule.interval_cycles, schedule.statement()
        row = compare(f"{name}: a pass", report, ours, "exact", note=note, unit="cycles")
        found.append(row)
    return found


def _row(kernel: _Kernel, cycles: Cycles) -> Row:
    note = "the same numbers to the bit" if cycles.alike else "the numbers differ"
    return compare(
        f"{kernel.name}: {kernel.size}",
        cycles.listing,
        cycles.ours,
        "simulated",
        note=note,
        unit="cycles",
    )


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
        return errors(*vectors, _FACTOR), ours
    weights = random.integers(-300, 300, (kernel.rows, kernel.columns)).astype("<i2")
    error = random.integers(-3000, 3000, kernel.columns).astype("<i2")
    match kernel.name:
        case "recall" | "forward pass":
            inputs = of_bytes(2 if kernel.name == "recall" else 1, kernel.rows)
            given = weights, inputs, of_bytes(1 << 15), _SHIFT
            return forward(*given), kernels.forward(machine, *given)
        case "back-propagation":
            vector = of_bytes(kernel.rows)
            listed = backward(weights, error, vector)
            return listed, kernels.backward(machine, weights, error, vector)
        case _:
            vector = of_bytes(kernel.rows)
            listed = update(weights, error, vector)
            return listed, kernels.update(machine, weights, error, vector)
